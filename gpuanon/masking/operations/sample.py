"""New rows from a Gaussian copula, or from the mean and covariance of each group (condensation)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, like, namespace, to_host
from gpuanon.arrays.partition import Partition, segment_means
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation, RowEffect
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import Changed
from gpuanon.numerics.copula import ScoreSums, exclusive_sets, normal_factor, winners
from gpuanon.numerics.lockstep import Affine


def sample_copula(T: Array, sums: ScoreSums, draws: Draws, correlated: bool = True) -> Array:
    """(n, c) new rows z ~ N(0, R) of normal scores (Lasko 2007, eq. 2.14–2.17), as many as `T` (n, c) has.

    R is the correlation of the normal variables behind the scores that `sums` were made of, the nearest one in the
    sense that negative eigenvalues are set to 0.  A column that is constant there stays so.  Of indicators that exclude
    each other in `T` exactly one is high in a new row, as often as in `T`, so that decoding by the largest finds it.

    correlated : False for independent columns; indicators of one category still exclude each other
    """
    xp = namespace(T)
    sets = exclusive_sets(T)
    factor = normal_factor(sums.correlations(sets)) if correlated else np.eye(T.shape[1])
    Z = Affine(like(factor.T[None], T))(draws.normal(T.shape[1]), Partition.whole(len(T), like=T))
    for column in np.flatnonzero(sums.deviations == 0):
        Z[:, column] = float(sums.means[column])
    low, high = T.min(axis=0), T.max(axis=0)
    for members in sets:
        counts = to_host(xp.stack([(T[:, j] == high[j]).sum() for j in members]))
        won = winners(xp.stack([Z[:, j] for j in members], axis=1), counts)
        for number, j in enumerate(members):
            Z[:, j] = xp.where(won == number, high[j], low[j])
    return Z


class Sample(Operation):
    """New rows from a Gaussian copula; for the basis normal-scores, whose inverse gives each column its own values.

    Correlations are those of all rows, whatever their weights; the values are those of the cell.  A cell of few rows
    is nearly copied: nothing is promised.
    """

    rows: ClassVar[RowEffect] = "new"
    normal: ClassVar[bool] = True
    learns: ClassVar[bool] = True

    use: Literal["sample"] = "sample"
    correlated: bool = Field(default=True, description="false: each column by itself")

    def learn(self, T: Array, groups: Partition, records: Records) -> ScoreSums:
        _require_one_group(groups)
        return ScoreSums.of(T)

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        _require_one_group(groups)
        learned = records.learned
        assert isinstance(learned, ScoreSums)
        values = sample_copula(T, learned, records.draws.child("sample"), self.correlated) if len(T) else T
        rows = namespace(T).arange(len(T), dtype=np.int64)
        return Changed(values, rows=rows, added=len(T))


def _require_one_group(groups: Partition) -> None:
    """Refuse several groups: summaries of cells are merged, and groups of different cells do not correspond."""
    if groups.parts > 1:
        raise ParameterError(
            f"sample: one group of all rows is allowed, got {groups.parts}", hint='groups = { use = "whole" }'
        )


def condense(T: Array, groups: Partition, draws: Draws) -> Array:
    """(n, c) new coordinates: independent and uniform, with each group's own mean and variance along each axis [1]_.

    Along principal axes of the group these are its mean and covariance, in expectation.

    References
    ----------
    .. [1] C. C. Aggarwal, P. S. Yu (2004), A condensation approach to privacy preserving data mining, EDBT.
    """
    xp = namespace(T)
    labels = groups.labels()
    means = segment_means(T, groups)
    squares = T - means[labels]
    squares *= squares
    deviations = xp.sqrt(segment_means(squares, groups))
    del squares
    out = draws.uniform(T.shape[1])
    out *= 2.0
    out -= 1.0
    out *= 3.0**0.5
    out *= deviations[labels]
    out += means[labels]
    return out


class Condense(Operation):
    """New rows, uniform along the axes of each group; for the basis svd of each group."""

    rows: ClassVar[RowEffect] = "new"

    use: Literal["condense"] = "condense"

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        values = condense(T, groups, records.draws.child("condense"))
        return Changed(values, rows=namespace(T).arange(len(T), dtype=np.int64), added=len(T))
