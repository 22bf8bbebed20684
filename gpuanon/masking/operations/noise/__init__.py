"""Additive noise: the oldest masking, kept as the benchmark that others are measured against."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import Records
from gpuanon.masking.operations.noise.neighbour_distance import neighbour_distances
from gpuanon.masking.operations.noise.white_noise import WhiteNoise, normal_noise, whitened_against
from gpuanon.masking.outcomes import Changed
from gpuanon.numerics.lockstep import Affine
from gpuanon.numerics.svd import Axes, principal_axes

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
