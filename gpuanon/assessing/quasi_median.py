"""The median over the quasi-identifiers, beside a median over all compared columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuanon.assessing.figures import Beside, By, ByPair, Measured


@dataclass(frozen=True)
class MedianBeside:
    """A median over all compared columns, with the median over the quasi-identifiers, which are masked, beside it.

    Columns that no mask changes pull a median over all of them down; those of many levels have many features in it.
    """

    compute: Callable[[Any], Measured]

    def __call__(self, source: Any) -> Measured:
        figure = self.compute(source)
        value = _quasi_median(figure, source.schema.quasi)
        return replace(figure, beside=(*figure.beside, Beside("quasi_median", "median of quasi-identifiers", value)))


def _quasi_median(figure: Measured, quasi: Sequence[str]) -> float | None:
    """The median of the figure by column, or by pair of columns, over the quasi-identifiers; None without any."""
    known: list[float | None] = []
    for part in figure.parts:
        if isinstance(part, By):
            known += [part.values.get(name) for name in quasi]
        elif isinstance(part, ByPair):
            known += [value for (one, other), value in part.values.items() if one in quasi and other in quasi]
    there = [value for value in known if value is not None]
    return float(np.median(there)) if there else None
