"""Draws from the records of a class itself.

A class of one record can only repeat its values, which discloses them: these are the baselines of the literature.

References
----------
.. [1] O. Angiuli, J. Waldo (2016), Statistical tradeoffs between generalization and suppression in the
   de-identification of large-scale data sets, COMPSAC.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.normal_quantile import normal_quantile
from gpuanon.arrays.partition import Partition

Floats = np.ndarray[Any, Any]

NOISE = 0.025
"""Deviation of the noise that hides a mean, as a share of the column's range (0.025 for a grade from 0 to 1)."""


def class_draws(classes: Partition, parents: Floats, u: Floats) -> Floats:
    """(m,) a random row of the class of each of `parents` (m,), by `u` (m,)."""
    part = classes.labels()[parents]
    return np.asarray(classes.order[classes.starts[part] + (u * classes.sizes[part]).astype(np.int64)])


def class_means(values: Floats, classes: Partition, parents: Floats, u: Floats) -> Floats:
    """(m,) the mean of `values` (n,) in the class of each of `parents` (m,), and normal noise; NaN without a value."""
    known = ~np.isnan(values)
    if not known.any():
        return np.full(len(parents), np.nan)
    labels = classes.labels()
    count = np.bincount(labels[known], minlength=classes.parts)
    total = np.bincount(labels[known], values[known], minlength=classes.parts)
    means = np.divide(total, count, out=np.full(classes.parts, np.nan), where=count > 0)
    low, high = values[known].min(), values[known].max()
    return np.asarray(np.clip(means[labels[parents]] + NOISE * (high - low) * normal_quantile(u), low, high))
