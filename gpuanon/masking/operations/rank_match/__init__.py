"""Values put in the order of a guide: exact columns, new combinations.

References
----------
.. [1] K. Muralidhar, R. Sarathy (2006), Data shuffling: a new masking approach for numerical data, Manage. Sci. 52(5).
.. [2] R. L. Iman, W. J. Conover (1982), A distribution-free approach to inducing rank correlation among input
   variables, Commun. Stat. B 11(3).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation, RowEffect, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.operations.random_ranks import in_rank_order
from gpuanon.masking.operations.rank_match.guides import drawn_guide, hypercube_guide, noisy_guide, scaled_codes
from gpuanon.masking.outcomes import NewColumn, Recoded


class _Guided(Operation):
    """Codes of each column in the order of a guide, whose columns are correlated as they are."""

    sees: ClassVar[Sight] = "classes"

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        if groups.parts > 1:
            raise ParameterError(
                f"ranks: one group of all rows is allowed, got {groups.parts}", hint='groups = { use = "whole" }'
            )
        if records.classes is None:
            raise ParameterError("ranks: the rows must be seen as classes", hint='basis = { use = "codes" }')
        xp = namespace(T)
        given = xp.empty((len(T), 0), dtype=np.int64) if records.given is None else records.given.codes
        flags = () if records.given is None else records.given.classes.ordered
        seen = scaled_codes(xp.concatenate([given, T], axis=1), (*flags, *records.classes.ordered))
        own, given = xp.ascontiguousarray(seen[:, given.shape[1] :]), seen[:, : given.shape[1]]
        # Equal codes are interchangeable: the order of the scaled codes says which row has which place, and the codes
        # in that order are what is given away.
        guide = self.guide(own, given, records)
        placed = in_rank_order(own, guide, groups)
        columns = []
        for j in range(T.shape[1]):
            levels = xp.empty(int(own[:, j].max()) + 2, dtype=np.int64)
            levels[own[:, j] + 1] = T[:, j]
            columns.append(NewColumn(j, levels[placed[:, j] + 1]))
        return self.released(columns, T)

    def guide(self, codes: Array, given: Array, records: Records) -> Array:
        """(n, c) columns whose order the codes (n, c) take; `given` (n, s) are other columns, as codes."""
        raise NotImplementedError

    def released(self, columns: list[NewColumn], T: Array) -> Recoded:
        """The outcome."""
        return Recoded(columns)


class RankMatch(_Guided):
    """Each column keeps its values, in the order of new normal scores: data shuffling [1].

    The scores are correlated with each other, and with the columns of the mask's `by`, as those of the table are.
    """

    conditional: ClassVar[bool] = True

    use: Literal["rank-match"] = "rank-match"

    def guide(self, codes: Array, given: Array, records: Records) -> Array:
        return drawn_guide(codes, given, records.draws.child("rank-match"))


class RankNoise(_Guided):
    """Each column keeps its values, in the order of its own normal scores with correlated noise.

    Categories are pseudo-uniform inside their levels (Lasko 2007, eq. 2.5–2.7).
    """

    use: Literal["rank-noise"] = "rank-noise"
    b: float = Field(default=0.1, gt=0, description="variance of the noise, as a share of the scores'")

    def guide(self, codes: Array, given: Array, records: Records) -> Array:
        return noisy_guide(codes, records.draws.child("rank-noise"), self.b)


class LatinHypercube(_Guided):
    """New rows: each column's values once each, permuted so that rank correlations are those of the table [2]."""

    rows: ClassVar[RowEffect] = "new"

    use: Literal["latin-hypercube"] = "latin-hypercube"

    def guide(self, codes: Array, given: Array, records: Records) -> Array:
        return hypercube_guide(codes, records.draws.child("latin-hypercube"))

    def released(self, columns: list[NewColumn], T: Array) -> Recoded:
        rows = namespace(T).arange(len(T), dtype=np.int64)
        return Recoded(columns, rows=rows, added=len(T))
