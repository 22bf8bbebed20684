"""White noise of several shapes: columns of mean 0 and variance 1, uncorrelated with each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_covariances, segment_means
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError
from gpuanon.numerics.lockstep import Affine

_ROUNDS = 64


@dataclass(frozen=True)
class WhiteNoise:
    """A shape of noise.

    shape : "normal"; "mixture": of 2c normal distributions around ±√(c (1 − σ²)) along random axes, so that hardly any
            row is near 0 (Lasko 2007, eq. 2.8); "coloured-mixture": each number around ±√(1 − σ²) (eq. 2.10)
    sigma : deviation σ of a component of a mixture
    least : normal: rows shorter than this share of √c are drawn again, and all are scaled so that the variance is 1
    """

    shape: Literal["normal", "mixture", "coloured-mixture"] = "normal"
    sigma: float = 0.3
    least: float = 0.0

    def __call__(self, draws: Draws, c: int) -> Array:
        """(n, c) noise of the rows of `draws`."""
        noise = draws.normal(c)
        if self.shape == "normal":
            return _redrawn(noise, draws, self.least) if self.least > 0 and c else noise
        xp, apart = namespace(noise), (1.0 - self.sigma**2) ** 0.5
        words = draws.child("component").words(c if self.shape == "coloured-mixture" else 2)
        noise *= self.sigma  # in place, as below: a copy of all rows would be most of a mask's memory
        if self.shape == "coloured-mixture":
            noise += xp.where(words < 1 << 31, -apart, apart)
            return noise
        axes = _random_axes(draws, c)
        chosen = (words[:, 0].astype(np.float64) * (c / 2.0**32)).astype(np.int64)
        signs = xp.where(words[:, 1] < 1 << 31, -1.0, 1.0)
        centres = axes[chosen]
        centres *= (signs * apart * c**0.5)[:, None]
        noise += centres
        return noise


normal_noise = WhiteNoise()


def _redrawn(noise: Array, draws: Draws, least: float) -> Array:
    """Rows with ``|z|² < c least²`` drawn again, at most 64 times; scaled to the variance 1.

    The variance of what remains is ``P(χ²_{c+2} ≥ c least²) / P(χ²_c ≥ c least²)``, the same in all directions.
    """
    from scipy.special import gammaincc

    xp = namespace(noise)
    c = noise.shape[1]
    bound = c * least**2
    for number in range(_ROUNDS):
        short = xp.flatnonzero((noise * noise).sum(axis=1) < bound)
        if not len(short):
            break
        noise[short] = draws.take(short).child(f"again.{number}").normal(c)
    variance = float(gammaincc(c / 2 + 1, bound / 2) / gammaincc(c / 2, bound / 2))
    return noise / variance**0.5


def _random_axes(draws: Draws, c: int) -> Array:
    """(c, c) orthonormal rows in random directions, the same for all rows: drawn from the first."""
    xp = namespace(draws.records)
    first = draws.child("axes").take(xp.zeros(1, dtype=np.int64))
    return xp.linalg.qr(first.normal(c * c).reshape(c, c))[0]


def whitened_against(noise: Array, U: Array, groups: Partition) -> Array:
    """(n, c) noise made uncorrelated with `U` (n, d), of mean 0 and with unit covariance, in each group, to rounding.

    U : of mean 0 and, apart from columns of zeros, unit covariance in each group
    """
    xp = namespace(noise)
    c, d = noise.shape[1], U.shape[1]
    smallest = int(groups.sizes.min()) if groups.parts else 0
    if smallest <= c + d:
        raise ParameterError(
            f"exact: groups of more than {c + d} rows are needed, and one has {smallest}",
            hint="exact = false keeps mean and covariance on average",
        )
    together = segment_covariances(xp.concatenate([U, noise], axis=1), groups)
    noise = noise - Affine(xp.ascontiguousarray(together[:, :d, d:]))(U, groups)
    means = segment_means(noise, groups)
    values, vectors = xp.linalg.eigh(segment_covariances(noise, groups))
    inverse_root = (vectors / xp.sqrt(values)[:, None]) @ vectors.transpose(0, 2, 1)
    return Affine(inverse_root, before=means)(noise, groups)
