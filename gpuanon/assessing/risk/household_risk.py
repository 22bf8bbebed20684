"""Household risk: a household is known when one of its members is.

References
----------
.. [1] A. Hundepool et al. (2012), Statistical Disclosure Control, Wiley, section 3.3: hierarchical risk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.assessing.figures import Beside, By, Distribution, Measured
from gpuanon.errors import ParameterError

Floats = np.ndarray[Any, Any]
_LARGEST = 5


def household_risk(members: Floats, households: Floats) -> Measured:
    """Expected share of households of which some member is reidentified: the mean of 1 − Π (1 − risk of a member).

    members    : (n,) probability that each original record is reidentified
    households : (n,) equal for the records of a household

    Members are taken to be found independently of each other.
    """
    if len(members) == 0 or len(members) != len(households):
        raise ParameterError("household: one for each original record is needed, at least one")
    _, labels, sizes = np.unique(households, return_inverse=True, return_counts=True)
    with np.errstate(divide="ignore"):
        safe = np.bincount(labels.reshape(-1), np.log1p(-np.minimum(members, 1.0)))
    risk = 1 - np.exp(safe)
    names = {size: f"{size}" if size < _LARGEST else f"{size} or more" for size in range(1, _LARGEST + 1)}
    by_size = {
        name: float(risk[np.minimum(sizes, _LARGEST) == size].mean())
        for size, name in names.items()
        if bool((np.minimum(sizes, _LARGEST) == size).any())
    }
    return Measured(
        float(risk.mean()),
        {"households": len(sizes), "records": len(members), "largest_household": int(sizes.max())},
        "members are taken to be found independently of each other",
        parts=(By("size", by_size), Distribution.over("households", risk)),
        beside=(Beside("record", "of a record alone", float(members.mean())),),
    )
