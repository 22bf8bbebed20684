"""Distances between rows, tiled, with the reduction fused: no n × m matrix is stored unless asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """How far two encoded rows are apart.

    euclidean : Σ_j w_j (x_j − y_j)²                            (squared, weighted)
    gower     : Σ_j w_j g_j / Σ_j w_j,  g_j = |x_j − y_j| for numeric columns (scaled to range 1 beforehand),
                [x_j ≠ y_j] for the categorical ones (category codes)

    weights     : one a column, or None for all 1
    categorical : one flag a column (gower only), or None for none
    """

    kind: Literal["euclidean", "gower"] = "euclidean"
    weights: tuple[float, ...] | None = None
    categorical: tuple[bool, ...] | None = None


EUCLIDEAN = Metric()
