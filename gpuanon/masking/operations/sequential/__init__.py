"""Sequential synthesis: columns drawn one after another, each given those before it."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Host
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation, RowEffect, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.operations.sequential.conditional_models import BLOCK, Model, synthesise
from gpuanon.masking.operations.sequential.conditional_trees import Coded
from gpuanon.masking.outcomes import NewColumn, Recoded
from gpuanon.numerics.equal_rows import equal_rows


class _Sequential(Operation):
    """Parameters of the models.  Trees and regressions are scikit-learn's, which run on the CPU."""

    sees: ClassVar[Sight] = "classes"
    host_only: ClassVar[bool] = True

    model: Model = Field(
        default="cart",
        description="cart: values of the leaf of a tree; parametric: regressions; mixture: each row by one of both",
    )
    leaf: int = Field(default=5, ge=1, description="cart: records of a leaf, at least")
    proper: bool = Field(default=False, description="fit to a bootstrap sample: copies then vary as the models do")
    even: bool = Field(default=True, description="cart: draw the records of a leaf equally often, with less error")
    block: int = Field(default=BLOCK, ge=100, description="records that one model is fitted to, about")

    def new_codes(self, T: Host, groups: Partition, records: Records) -> Host:
        """(n, columns) codes of new rows."""
        if groups.parts > 1:
            raise ParameterError(
                f"sequential: one group of all rows is allowed, got {groups.parts}", hint='groups = { use = "whole" }'
            )
        if records.classes is None:
            raise ParameterError("sequential: the rows must be seen as classes", hint='basis = { use = "codes" }')
        given = records.given
        columns = [] if given is None else list(zip(given.codes.T, given.classes.ordered, strict=True))
        columns = [column for at, column in enumerate(columns) if at not in self.left_out(records)]
        return synthesise(
            T,
            records.classes.ordered,
            records.draws.child("sequential"),
            given=[Coded(codes, ordered, int(codes.max(initial=-1)) + 1) for codes, ordered in columns],
            model=self.model,
            leaf=self.leaf,
            proper=self.proper,
            even=self.even,
            block=self.block,
        )

    def left_out(self, records: Records) -> tuple[int, ...]:
        """Positions of columns of the mask's `by` that the models do not depend on."""
        return ()


class Sequential(_Sequential):
    """All rows are new: column after column is drawn given those before it, the first from its own values."""

    rows: ClassVar[RowEffect] = "new"

    use: Literal["sequential"] = "sequential"

    def apply(self, T: Host, groups: Partition, records: Records) -> Recoded:
        codes = self.new_codes(T, groups, records)
        rows = np.arange(len(T), dtype=np.int64)
        return Recoded([NewColumn(j, codes[:, j]) for j in range(T.shape[1])], rows=rows, added=len(T))


class PartlySynthetic(_Sequential):
    """Rows are kept, and the masked columns are drawn anew: given the columns of the mask's `by`, in chosen rows.

    Rows that are not chosen keep their values: whoever knows that a record is common, or not marked, knows that they
    are real.
    """

    conditional: ClassVar[bool] = True

    use: Literal["partly-synthetic"] = "partly-synthetic"
    below: int | None = Field(
        default=None,
        ge=2,
        description="only records with fewer equals on the masked columns, themselves included; none: all records",
    )
    chosen: str | None = Field(
        default=None, description="only records that this column of the mask's `by`, true or false or 0 or 1, marks"
    )

    def left_out(self, records: Records) -> tuple[int, ...]:
        return () if self.chosen is None else (self._place(records),)

    def _place(self, records: Records) -> int:
        """Position of the column that marks records."""
        names = () if records.given is None else records.given.classes.names
        if records.classes is not None and self.chosen in records.classes.names:
            raise ParameterError(
                f"chosen: {self.chosen!r} marks records, and the mask changes it", hint="name the mask's columns"
            )
        if self.chosen not in names:
            raise ParameterError(f"chosen: {self.chosen!r} is not among the columns that stay, the mask's `by`")
        return names.index(self.chosen)

    def _marked(self, records: Records) -> Host:
        """(n,) whether each record is marked."""
        assert records.given is not None
        assert records.given.flags is not None
        flags = records.given.flags[:, self._place(records)]
        if (flags < 0).any():
            raise ParameterError(f"chosen: {self.chosen!r} must be true or false, or 0 or 1, and never empty")
        return np.asarray(flags == 1)

    def apply(self, T: Host, groups: Partition, records: Records) -> Recoded:
        codes = self.new_codes(T, groups, records)
        chosen = np.ones(len(T), dtype=bool)
        if self.below is not None:
            classes = Partition.from_labels(equal_rows(T))
            chosen = classes.sizes[classes.labels()] < self.below
        if self.chosen is not None:
            chosen &= self._marked(records)
        codes = np.where(chosen[:, None], codes, T)
        return Recoded(
            [NewColumn(j, codes[:, j]) for j in range(T.shape[1])], facts={"records_synthetic": int(chosen.sum())}
        )
