"""The Gaussian copula of columns that were led to normal scores, ties and categories included.

A column with ties is a normal variable seen coarsely: its scores correlate less than the variable behind them.  The
loss is known from the ties, and correlations are corrected by it (for a column of two values this is the biserial
correlation).  Indicators of one category exclude each other, which no normal distribution does; one of them is chosen
after the draw.

References
----------
.. [1] U. Olsson, F. Drasgow, N. J. Dorans (1982), The polyserial correlation coefficient, Psychometrika 47, 337–347.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, on_device, to_host
from gpuanon.arrays.partition import Partition, segment_covariances, segment_means

_CALIBRATED = 1 << 16  # rows by which shares are set
_ROUNDS = 60
_LEAST_KEPT = 0.1  # share of a correlation that ties leave; below, the correction would be mostly noise


@dataclass(frozen=True, eq=False, repr=False)
class ScoreSums:
    """Sums over the rows of normal scores z; those of several sets of rows can be merged.

    rows     : number of rows
    sums     : (c,) Σ z
    products : (c, c) Σ z zᵀ
    latent   : (c,) Σ z y, y the normal variable behind z: its mean where scores are tied
    """

    rows: int
    sums: Host
    products: Host
    latent: Host

    @classmethod
    def of(cls, Z: Array) -> ScoreSums:
        """The sums of the rows of `Z` (n, c), repeatable to the bit."""
        n, c = Z.shape
        if n == 0:
            return cls(0, np.zeros(c), np.zeros((c, c)), np.zeros(c))
        xp = namespace(Z)
        whole = Partition.whole(n, like=Z)
        mean, covariance = to_host(segment_means(Z, whole))[0], to_host(segment_covariances(Z, whole))[0]
        # Positions r of n cut the normal density at φ(Φ⁻¹(r / n)); the mean of a slice is the difference of its ends.
        cuts = _special(Z).ndtri(xp.arange(n + 1) / n)
        density = xp.exp(-0.5 * cuts * cuts) / np.sqrt(2 * np.pi)
        slices = density[:-1] - density[1:]
        latent = xp.stack([(xp.sort(Z[:, j]) * slices).sum() for j in range(c)])  # no sorted copy of all rows
        return cls(n, n * mean, n * (covariance + np.outer(mean, mean)), n * to_host(latent))

    def merge(self, other: ScoreSums) -> ScoreSums:
        """The sums over the rows of both."""
        return ScoreSums(
            self.rows + other.rows,
            self.sums + other.sums,
            self.products + other.products,
            self.latent + other.latent,
        )

    @property
    def means(self) -> Host:
        """(c,) mean scores."""
        return self.sums / max(self.rows, 1)

    @property
    def deviations(self) -> Host:
        """(c,) standard deviations; 0 for a constant column."""
        squares = np.diag(self.products) / max(self.rows, 1)
        variances = squares - self.means**2
        return np.sqrt(np.where(variances > 1e-12 * np.maximum(squares, 1.0), variances, 0.0))

    def correlations(self, sets: Sequence[Sequence[int]] = ()) -> Host:
        """(c, c) correlations of the normal variables behind the scores; 0 with a constant column.

        sets : columns that exclude each other; their correlations are left as they are
        """
        spread = np.where(self.deviations > 0, self.deviations, np.inf)
        found = (self.products / max(self.rows, 1) - np.outer(self.means, self.means)) / np.outer(spread, spread)
        kept = np.clip(self.latent / max(self.rows, 1) / spread, _LEAST_KEPT, 1.0)
        corrected = np.clip(found / np.outer(kept, kept), -1.0, 1.0)
        for members in sets:
            corrected[np.ix_(members, members)] = found[np.ix_(members, members)]
        np.fill_diagonal(corrected, 1.0)
        return np.asarray(corrected)

    def __repr__(self) -> str:
        return f"ScoreSums({self.rows} rows, {len(self.sums)} columns)"


def normal_factor(R: Host) -> Host:
    """(c, c) F with unit rows, such that F Fᵀ is the correlation matrix `R`, its negative eigenvalues set to 0.

    F is the symmetric root: unlike eigenvectors, it does not turn with the last bits of `R`, which devices sum
    differently.
    """
    values, vectors = np.linalg.eigh(0.5 * (R + R.T))
    factor = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(factor / np.sqrt((factor * factor).sum(axis=1, keepdims=True)))


def exclusive_sets(Z: Array) -> list[list[int]]:
    """Sets of successive columns of two values of which exactly one is high in each row of `Z` (n, c).

    These are the indicators of one category; a column of one value belongs to none and is passed over.

    Cost : O(n · c).
    """
    if len(Z) == 0:
        return []
    low, high = Z.min(axis=0), Z.max(axis=0)
    above = high == Z
    two = to_host(((low == Z) | above).all(axis=0) & (low < high))
    counts = to_host(above.sum(axis=0))
    columns = [int(column) for column in np.flatnonzero(two)]
    sets, at = [], 0
    while at < len(columns):
        ends = np.cumsum(counts[columns[at:]])
        members = columns[at : at + int(np.searchsorted(ends, len(Z))) + 1]
        if counts[members].sum() == len(Z) and bool((sum(above[:, j].astype(np.int64) for j in members) == 1).all()):
            sets.append(members)
            at += len(members)
        else:
            at += 1
    return sets


def winners(Y: Array, counts: Host) -> Array:
    """(n,) the column of `Y` (n, q) that wins in each row: the largest after shifts that give each its share.

    counts : (q,) how often each wins, in proportion; the shifts are found on the first rows
    """
    xp = namespace(Y)
    sample = Y[:_CALIBRATED]
    wanted = counts / counts.sum() * len(sample)
    shifts = np.zeros(len(counts))
    best, least = shifts, np.inf
    for _ in range(_ROUNDS):
        won = to_host(xp.bincount((sample + like(shifts, Y)).argmax(axis=1), minlength=len(counts)))
        error = float(np.abs(won - wanted).sum())
        if error < least:
            best, least = shifts, error
        shifts = shifts + 0.4 * np.log((wanted + 0.5) / (won + 0.5))
    return (Y + like(best, Y)).argmax(axis=1)


def _special(array: Array) -> Any:
    """The module with ndtri for the device of `array`."""
    if on_device(array):
        import cupyx.scipy.special as special
    else:
        import scipy.special as special
    return special
