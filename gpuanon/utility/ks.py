"""Kolmogorov–Smirnov distance of each column's distribution from the original's."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array
from gpuanon.measure import Figure, Measured
from gpuanon.numerics.ks import ks_critical, ks_distances

DEPENDENT = (
    "original and release are dependent samples: these are distances, not tests; the critical value is what two "
    "independent samples of these sizes would exceed in 5 % of cases"
)


def ks(original: Array, release: Array, *, reference: Array | None = None) -> Measured:
    """Largest Kolmogorov–Smirnov distance between a released column and the original's.

    Parameters
    ----------
    original, release : (n, d) and (m, d)
    reference : an independent sample of the same population; its distances are the yardstick
    """
    columns = ks_distances(original, release)
    details: dict[str, Figure] = {
        "median": float(np.median(columns)),
        "mean": float(columns.mean()),
        "columns": [float(value) for value in columns],
        "critical_if_independent": ks_critical(len(original), len(release)),
    }
    if reference is not None:
        yardstick = ks_distances(original, reference)
        details["reference"] = {
            "max": float(yardstick.max()),
            "median": float(np.median(yardstick)),
            "columns": [float(value) for value in yardstick],
        }
    return Measured(float(columns.max()), details, DEPENDENT)
