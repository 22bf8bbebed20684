"""What an analyst recovers from data with additive noise of a known size.

References
----------
.. [1] D. Agrawal, C. C. Aggarwal (2001), On the design and quantification of privacy preserving data mining algorithms,
   PODS.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.errors import ParameterError

_CELLS = 512
"""Cells in which the released values are counted before the iteration: its cost does not depend on their number."""


def recovered_covariance(
    released: Host, b: float, kind: Literal["uncorrelated", "correlated", "corrected"] = "uncorrelated"
) -> Host:
    """(d, d) covariance of the original columns from the release (n, d) and the published `b` (Lasko 2007, § 2.3.1).

    uncorrelated : the diagonal is divided by 1 + b; the rest was kept
    correlated   : everything is divided by 1 + b; mixtures of noise are correlated
    corrected    : as it is
    """
    found = np.atleast_2d(np.cov(released, rowvar=False, bias=True))
    if kind == "corrected":
        return found
    if kind == "correlated":
        return np.asarray(found / (1.0 + b))
    return np.asarray(found - np.diag(np.diag(found) * b / (1.0 + b)))


def reconstruct_distribution(
    released: Host, noise_deviation: float, edges: Host, tolerance: float = 1e-8, rounds: int = 5000
) -> Host:
    """(bins,) shares of the original values in the bins between `edges`, from values with normal noise [1].

    Expectation maximisation: the share of a bin becomes the mean, over released values, of the probability that the
    value comes from the bin.  Ends when no share changes by more than `tolerance`.

    released        : (n,) values with noise
    noise_deviation : its standard deviation, √b times that of the original values
    edges           : (bins + 1,) ascending; the original values are assumed to lie between the first and the last

    Cost : O(n) for counting, then rounds × bins.
    """
    if noise_deviation <= 0 or len(edges) < 2 or (np.diff(edges) <= 0).any():
        raise ParameterError("noise_deviation must be above 0, and edges must ascend")
    from scipy.special import ndtr

    counts, cells = np.histogram(released, bins=_CELLS)
    # Probability of a cell of released values given a bin: noise is integrated over the cell, the bin is its middle.
    middles = 0.5 * (edges[:-1] + edges[1:])
    reach = ndtr((cells[:, None] - middles) / noise_deviation)
    reach[0], reach[-1] = 0.0, 1.0
    chances = np.diff(reach, axis=0)
    shares = np.full(len(middles), 1.0 / len(middles))
    weights = counts / counts.sum()
    for _ in range(rounds):
        mixed = chances @ shares
        new = shares * (chances.T @ np.divide(weights, mixed, out=np.zeros_like(mixed), where=mixed > 0))
        new /= new.sum()
        if np.abs(new - shares).max() < tolerance:
            return np.asarray(new)
        shares = new
    return np.asarray(shares)
