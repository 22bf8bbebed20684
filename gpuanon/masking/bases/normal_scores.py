"""Normal scores: each column through its own ranks to a standard normal, and back through its own values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.partition import Partition, sort_within
from gpuanon.masking.contract import Basis


def normal_scores(X: Array, parts: Partition) -> tuple[Array, Callable[[Array], Array]]:
    """Scores ``Φ⁻¹((r + ½) / m)`` (n, d), r the rank (from 0) of a value among the m of its part, and the inverse.

    Equal values share their mean rank.  The inverse is the part's quantile function ``F⁻¹(Φ(t))`` (as eq. 2.17 of
    Lasko 2007 should read), linear between neighbouring values: scores of values that were there are mapped to
    them exactly, and nothing beyond the smallest and largest value is ever produced.
    """
    ordered = [X[sort_within(X[:, j], parts), j] for j in range(X.shape[1])]
    xp = namespace(X)
    scores = xp.empty(X.shape, dtype=np.float64)  # column after column: a list of columns would need twice the memory
    for j, values in enumerate(ordered):
        scores[:, j] = _scores(X[:, j], values, parts)

    def back(T: Array) -> Array:
        out = xp.empty(T.shape, dtype=X.dtype)
        for j, values in enumerate(ordered):
            out[:, j] = _quantiles(T[:, j], values, parts)
        return out

    return scores, back


def _scores(values: Array, ordered: Array, parts: Partition) -> Array:
    """(n,) normal scores of one column; `ordered` holds its values part after part, ascending inside each."""
    xp = namespace(values)
    order, part = sort_within(values, parts), parts.part_of_sorted()
    new = xp.concatenate([xp.ones(1, dtype=bool), (ordered[1:] != ordered[:-1]) | (part[1:] != part[:-1])])
    tie = xp.cumsum(new) - 1
    first = xp.flatnonzero(new)
    last = xp.concatenate([first[1:], xp.asarray([len(values)])]) - 1
    rank = 0.5 * (first + last)[tie] - parts.starts[part]
    out = xp.empty(len(values), dtype=np.float64)
    out[order] = _special(values).ndtri((rank + 0.5) / parts.sizes[part])
    return out


def _quantiles(scores: Array, ordered: Array, parts: Partition) -> Array:
    """(n,) values of one column at the given normal scores."""
    xp = namespace(scores)
    part = parts.labels()
    size = parts.sizes[part]
    # Rounding Φ(Φ⁻¹(u)) must not tear a value from its own rank.
    place = xp.round(_special(scores).ndtr(scores) * size - 0.5, 9)
    place = xp.clip(place, 0, size - 1)
    low = xp.floor(place).astype(np.int64)
    high = xp.minimum(low + 1, size - 1)
    begin = parts.starts[part]
    lower, upper = ordered[begin + low], ordered[begin + high]
    return xp.where(lower == upper, lower, lower + (place - low) * (upper - lower))


def _special(array: Array) -> Any:
    """The module with ndtr and ndtri for the device of `array`."""
    if on_device(array):
        import cupyx.scipy.special as special
    else:
        import scipy.special as special
    return special


class NormalScores(Basis):
    """Ranks as standard normal scores (Lasko 2007, eq. 2.5–2.7)."""

    normal: ClassVar[bool] = True
    categories: ClassVar[Literal["balanced", "indicator"]] = "balanced"

    use: Literal["normal-scores"] = "normal-scores"
    per_group: bool = Field(default=False, description="ranks inside each group, instead of the whole table")

    def forward(self, X: Array, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        parts = groups if self.per_group else Partition.whole(len(X), X)
        return normal_scores(X, parts)
