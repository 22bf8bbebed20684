"""One seed of the spectral study, measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from spectral_data import Samples, decode_by_sign, impossible
from spectral_releases import Releases, make

from gpuanon.arrays.partition import Partition
from gpuanon.assessing.risk.match_auc import Matches, match
from gpuanon.assessing.risk.prediction import Prediction, predict
from gpuanon.assessing.risk.reference_standard import StandardVerdict, verdict
from gpuanon.assessing.utility.differences import correlations, means, rank_correlations, variances
from gpuanon.assessing.utility.kernel_pca import Projected, components_of, projected
from gpuanon.masking.bases.linear import ica_coordinates
from gpuanon.numerics.svd import principal_axes

Floats = np.ndarray[Any, Any]

TABLE = {"mean": means, "var": variances, "cor": correlations, "rank cor": rank_correlations}
ATTACKED = ("noise 0.1", "noise 0.3", "spectral-rhs")
THESIS_FORM = ("svd-swap", "pica 200", "reference")


@dataclass(frozen=True)
class SwapFacts:
    """Guarantees of SVD swapping, before decoding.

    means       : largest change of a column mean
    correlation : largest correlation of two swapped components
    change      : largest change of a correlation, and the bound that ‖corr(Ũ) − I‖₂ gives
    covariance  : largest change of a covariance with the orthonormal option, relative to the largest
    """

    means: float
    correlation: float
    change: float
    bound: float
    covariance: float


@dataclass(frozen=True, eq=False)
class Run:
    """The figures of one seed, by release."""

    seed: int
    verdicts: dict[str, StandardVerdict]
    by_sign: tuple[StandardVerdict, float]
    distances: dict[str, Floats]
    thesis_form: dict[str, float]
    table: dict[str, dict[str, tuple[float, float]]]
    attacks: dict[str, Matches]
    swap: SwapFacts
    ranks: tuple[int, int]
    ica_error: float
    target: int
    rhs: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Pictures:
    """The data for the figures, of one seed."""

    predictions: dict[str, Prediction]
    projections: dict[str, Projected]
    groups: dict[str, Partition]


def run(samples: Samples, seed: int) -> tuple[Run, Pictures]:
    """Make the releases of one seed and measure them against the second reference sample."""
    X = samples.original
    releases = make(samples, seed)
    shown = {**releases.decoded, "reference": samples.second, "third sample": samples.third}
    predictions = {name: predict(X, table) for name, table in shown.items()}
    reference = predictions["reference"]
    components = components_of(X, share=1.0, most=20)
    projections = {name: projected(components, table) for name, table in shown.items()}
    own = components_of(samples.unstandardised(X), share=1.0, most=20)
    thesis_form = {
        name: float(projected(own, samples.unstandardised(shown[name])).distances.mean()) for name in THESIS_FORM
    }
    table = {
        name: {title: _two(measure(X, release)) for title, measure in TABLE.items()} for name, release in shown.items()
    }
    link = np.arange(len(X))
    by_sign = decode_by_sign(releases.raw["pica 200"])
    result = Run(
        seed=seed,
        verdicts={name: verdict(found, reference) for name, found in predictions.items() if name != "reference"},
        by_sign=(verdict(predict(X, by_sign), reference), impossible(by_sign)),
        distances={name: found.distances for name, found in projections.items()},
        thesis_form=thesis_form,
        table=table,
        attacks={name: match(X, shown[name], link, prediction=predictions[name]) for name in ATTACKED},
        swap=swap_facts(X, releases),
        ranks=ranks(X, releases.groups["pica 200"]),
        ica_error=_ica_error(X, releases.groups["pica 200"]),
        target=releases.choice.target,
        rhs=releases.rhs,
    )
    return result, Pictures(predictions, projections, releases.groups)


def swap_facts(X: Floats, releases: Releases) -> SwapFacts:
    """Check SVD swapping: |Δcov_ij| ≤ ε σ_i σ_j with ε = ‖corr(Ũ) − I‖₂, so |Δcorr| ≤ 2ε / (1 − ε)."""
    swapped, turned = releases.raw["svd-swap"], releases.raw["svd-swap, orthonormal"]
    whole = Partition.whole(len(X))
    axes = principal_axes(X, whole)
    alive = axes.s[0] > 0
    T = (swapped - axes.means[0]) @ axes.V[0][:, alive]
    off = np.corrcoef(T.T) - np.eye(int(alive.sum()))
    epsilon = float(np.linalg.norm(off, 2))
    change = np.abs(np.corrcoef(swapped.T) - np.corrcoef(X.T)).max()
    covariance = np.cov(X.T)
    return SwapFacts(
        means=float(max(np.abs(table.mean(axis=0) - X.mean(axis=0)).max() for table in (swapped, turned))),
        correlation=float(np.abs(off).max()),
        change=float(change),
        bound=2 * epsilon / (1 - epsilon),
        covariance=float(np.abs(np.cov(turned.T) - covariance).max() / np.abs(covariance).max()),
    )


def ranks(X: Floats, groups: Partition) -> tuple[int, int]:
    """Fewest and most components, of 28, of a group's rows."""
    counts = (principal_axes(X, groups).s > 0).sum(axis=1)
    return int(counts.min()), int(counts.max())


def _ica_error(X: Floats, groups: Partition) -> float:
    """Largest error of the transform to independent components and its inverse, in rank-deficient groups."""
    T, back = ica_coordinates(X, groups)
    return float(np.abs(back(T) - X).max())


def _two(measured: Any) -> tuple[float, float]:
    """Median and maximum."""
    return measured.value, float(measured.details["max"])
