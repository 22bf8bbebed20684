"""Additive noise: the oldest masking, kept as the benchmark that others are measured against."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Changed, Operation, Records
from gpuanon.numerics.lockstep import Affine
from gpuanon.numerics.svd import Axes, principal_axes

Kind = Literal["uncorrelated", "correlated", "corrected"]


def add_noise(T: Array, groups: Partition, draws: Draws, b: float, kind: Kind = "uncorrelated") -> Array:
    """Add normal noise with `b` times the variance of the data of each group.

    uncorrelated : R_ij ~ N(0, b var_j)                                  (Lasko 2007, eq. 2.3)
    correlated   : R_j ~ N(0, b Σ)                                       (eq. 2.4)
    corrected    : correlated, then ``(T + R − μ) / √(1 + b) + μ``: mean and covariance are again those of the data, in
                   expectation
    """
    xp = namespace(T)
    axes = principal_axes(T, groups)
    root = xp.sqrt(groups.sizes)[:, None]
    if kind == "uncorrelated":
        variances = ((axes.s / root)[:, None] ** 2 * axes.V**2).sum(axis=2)
        noise = draws.normal(T.shape[1]) * xp.sqrt(b * variances)[groups.labels()]
    else:
        noise = _correlated(axes, draws, groups, b)
    noisy = T + noise
    if kind != "corrected":
        return noisy
    means = axes.means[groups.labels()]
    return (noisy - means) / (1.0 + b) ** 0.5 + means


def _correlated(axes: Axes, draws: Draws, groups: Partition, b: float) -> Array:
    """(n, d) normal rows whose covariance is `b` times that of their group."""
    root = namespace(axes.s).sqrt(groups.sizes / b)[:, None]
    colour = Affine((axes.s / root)[:, :, None] * axes.V.transpose(0, 2, 1))
    return colour(draws.normal(axes.s.shape[1]), groups)


class Noise(Operation):
    """Normal noise of `b` times the data's variance: measured to be weak, and a benchmark for that reason."""

    use: Literal["noise"] = "noise"
    b: float = Field(default=0.1, gt=0)
    kind: Kind = "uncorrelated"

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        return Changed(add_noise(T, groups, records.draws.child("noise"), self.b, self.kind))
