"""Additive noise: the oldest masking, kept as the benchmark that others are measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.batches import even_batches, gather
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition, segment_covariances, segment_means
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.sorting import sort_rows
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import Changed
from gpuanon.numerics.lockstep import Affine
from gpuanon.numerics.svd import Axes, principal_axes

_ROWS = 1 << 11  # padded rows of a batch


def neighbour_distances(X: Array, groups: Partition, neighbours: int) -> Array:
    """(n,) distance of each row of `X` (n, d) to the farthest of its nearest `neighbours` rows inside its group.

    In a group of fewer rows: to the farthest of all.

    Cost : O(n · S · d) for groups of S rows.
    """
    xp = namespace(X)
    out = xp.empty(len(X))

    def work(batch: Batch) -> None:
        Z = gather(X, batch).astype(np.float64, copy=False)
        Z = Z - Z[:, :1]  # no cancellation against a large common offset
        squares = (Z * Z).sum(axis=2)
        D = squares[:, :, None] + squares[:, None, :] - 2.0 * (Z @ Z.transpose(0, 2, 1))
        D = xp.where(batch.valid[:, None, :], xp.maximum(D, 0.0), np.inf)
        place = xp.minimum(neighbours, batch.valid.sum(axis=1) - 1)
        ordered = sort_rows(D)
        found = xp.take_along_axis(ordered, xp.broadcast_to(place[:, None, None], (*D.shape[:2], 1)), axis=2)
        out[batch.rows[batch.valid]] = xp.sqrt(found[:, :, 0])[batch.valid]

    with one_blas_thread():
        each(work, even_batches(groups, elements=_ROWS))
    return out


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


Kind = Literal["uncorrelated", "correlated", "corrected"]


def add_noise(
    T: Array,
    groups: Partition,
    draws: Draws,
    b: float,
    kind: Kind = "uncorrelated",
    white: WhiteNoise = normal_noise,
    exact: bool = False,
) -> Array:
    """Add noise with `b` times the variance of the data of each group.

    uncorrelated : R_ij ~ N(0, b var_j)                                  (Lasko 2007, eq. 2.3)
    correlated   : R_j ~ N(0, b Σ)                                       (eq. 2.4)
    corrected    : correlated, then ``(T + R − μ) / √(1 + b) + μ``: mean and covariance are again those of the data, in
                   expectation

    white : the noise before it is scaled or coloured, of mean 0 and variance 1 in each column
    exact : make the noise of each group uncorrelated with its data, and give it exactly its covariance, so that what
            holds in expectation holds to rounding; needs groups of more than twice as many rows as columns
    """
    xp = namespace(T)
    axes = principal_axes(T, groups)
    labels = groups.labels()
    root = xp.sqrt(groups.sizes)[:, None]
    coloured = kind != "uncorrelated"
    noise = white(draws, axes.s.shape[1] if coloured else T.shape[1])
    if exact:
        noise = whitened_against(noise, _whitened(T, axes, groups), groups)
    if coloured:
        noise = Affine((axes.s * b**0.5 / root)[:, :, None] * axes.V.transpose(0, 2, 1))(noise, groups)
    else:
        variances = ((axes.s / root)[:, None] ** 2 * axes.V**2).sum(axis=2)
        noise *= xp.sqrt(b * variances)[labels]
    noise += T
    if kind == "corrected":
        means = axes.means[labels]
        noise -= means
        noise /= (1.0 + b) ** 0.5
        noise += means
    return noise


def _whitened(T: Array, axes: Axes, groups: Partition) -> Array:
    """(n, c) coordinates of each group's rows along its axes, of variance 1; 0 along axes without any."""
    xp = namespace(T)
    root = xp.sqrt(groups.sizes)[:, None]
    scale = xp.where(axes.s > 0, root / xp.where(axes.s > 0, axes.s, 1.0), 0.0)
    return Affine(axes.V * scale[:, None], before=axes.means)(T, groups)


def add_local_noise(T: Array, groups: Partition, draws: Draws, b: float, neighbours: int) -> Array:
    """Add normal noise that is large where records are sparse: R_i ~ N(0, b h_i² / c I).

    h_i is the distance of row i to the nearest of its `neighbours` that is farthest, inside its group; its noise has
    the length h_i √b on average (in the root mean square).  With b = 1 these neighbours are all plausible origins.
    """
    h = neighbour_distances(T, groups, neighbours)
    return T + draws.normal(T.shape[1]) * (h * (b / T.shape[1]) ** 0.5)[:, None]


class Noise(Operation):
    """Noise of `b` times the data's variance: measured to be weak, and a benchmark for that reason."""

    use: Literal["noise"] = "noise"
    b: float = Field(default=0.1, gt=0)
    kind: Kind = "uncorrelated"
    shape: Literal["normal", "mixture", "coloured-mixture"] = Field(
        default="normal",
        description="mixture: normal distributions with means away from 0 (eq. 2.8); coloured-mixture: of each"
        " component before colouring (eq. 2.9–2.11)",
    )
    sigma: float = Field(default=0.3, gt=0, lt=1, description="mixtures: deviation of a component of white noise")
    least: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="normal: rows whose noise is shorter than this share of its usual length are drawn again",
    )
    exact: bool = Field(default=False, description="mean and covariance hold exactly in each group, not on average")

    @model_validator(mode="after")
    def _applies(self) -> Self:
        """Refuse settings that would do nothing."""
        if self.shape != "normal" and self.least:
            raise ValueError("least: applies to normal noise; the means of a mixture are away from 0 already")
        return self

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        white = WhiteNoise(self.shape, self.sigma, self.least)
        return Changed(add_noise(T, groups, records.draws.child("noise"), self.b, self.kind, white, self.exact))


class LocalNoise(Operation):
    """Normal noise that grows with the distance to the nearest records: much where they are sparse."""

    use: Literal["local-noise"] = "local-noise"
    b: float = Field(default=1.0, gt=0, description="squared length of the noise, as a share of that distance's square")
    neighbours: int = Field(default=10, ge=1, description="nearest records of the group that the distance is taken to")

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        return Changed(add_local_noise(T, groups, records.draws.child("noise"), self.b, self.neighbours))
