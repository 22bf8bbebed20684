"""Kernel-PCA utility: is the joint distribution kept, along the curves that matter most in the original?

The kernel principal components of the original are curves in the space of the columns (of fourth order by default);
original and release are projected on them, and the two distributions along each are compared (3.2 of [1]).

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.ks_distance import distances_from, ks_critical, sorted_columns
from gpuanon.assessing.measure import LEVEL, NULL_IS_MARKED, SHARE, WHOLE, Measure, Weights
from gpuanon.errors import ParameterError
from gpuanon.numerics.kernel_components import EXACT_ROWS, LANDMARKS, KernelPCA
from gpuanon.numerics.kernel_values import Kernel
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


DEPENDENT = (
    "original and release are dependent samples: these are distances, not tests; an independent sample of the "
    "population gives the distances to compare with"
)


@dataclass(frozen=True, eq=False)
class LeadingComponents:
    """An original on its own kernel principal components.

    model  : the components
    scores : (n, c) of the original
    exact  : False when landmarks carry the components (Nyström)
    """

    model: KernelPCA
    scores: Array
    exact: bool

    @property
    def variances(self) -> Host:
        """(c,) of the scores, descending."""
        return self.model.variances

    @cached_property
    def grid(self) -> Array:
        """(c,) a step of the scores, far finer than the data.

        Equal records may differ in the last digits of their scores; on multiples of it they tie again.
        """
        xp = namespace(self.scores)
        return 1e-9 * xp.maximum(xp.abs(self.scores).max(axis=0), np.finfo(np.float64).tiny)

    @cached_property
    def ordered(self) -> list[Array]:
        """The scores of each component on the grid, ascending: sorted once for release and reference."""
        return sorted_columns(namespace(self.scores).rint(self.scores / self.grid))

    @property
    def cumulative(self) -> Host:
        """(c,) share of the variance, up to each component, of all that the rows have in kernel space."""
        sums = np.cumsum(self.variances)
        return sums * (self.model.share * self.model.captured / sums[-1]) if sums[-1] > 0 else np.ones(len(sums))


@dataclass(frozen=True, eq=False)
class Projected:
    """Original and release on the original's components.

    components : the original's, with its scores
    release    : (m, c) the release's scores
    distances  : (c,) Kolmogorov–Smirnov distance along each component
    """

    components: LeadingComponents
    release: Array
    distances: Host

    def labels(self) -> list[str]:
        """One text per component for the pair plot: eigenvalue, cumulative share of variance, distance."""
        c = self.components
        return [
            f"λ {value:.3g}\ncum {share:.2f}\nKS {distance:.3f}"
            for value, share, distance in zip(c.variances, c.cumulative, self.distances, strict=True)
        ]


def kernel_pca(
    original: Array,
    release: Array,
    *,
    reference: Array | None = None,
    kernel: Literal["polynomial", "rbf", "exponential"] = "polynomial",
    degree: int = 4,
    sigma: float | None = None,
    share: float = 0.99,
    most: int = 20,
    landmarks: int = LANDMARKS,
) -> Measured:
    """Mean Kolmogorov–Smirnov distance along the original's leading kernel principal components.

    Parameters
    ----------
    original, release : encoded matrices with the same columns, (n, d) and (m, d)
    reference : an independent sample of the same population: its distances are reported beside
    kernel, degree, sigma : ``(xᵀy + 1)^degree``, ``exp(−‖x − y‖² / 2σ²)`` or ``exp(xᵀy / σ²)``; None takes the median
        distance for σ, and for the exponential kernel the root of the mean of ``‖x‖²``
    share, most : components up to this share of the variance, `most` of them at the most
    landmarks : rows that stand for all, beyond 3000 rows
    """
    components = components_of(
        original, kernel=kernel, degree=degree, sigma=sigma, share=share, most=most, landmarks=landmarks
    )
    found = projected(components, release)
    details: dict[str, Figure] = {
        "max": float(found.distances.max()),
        "variance_share": float(components.cumulative[-1]),
    }
    critical = ks_critical(len(original), len(release))
    beside = [Beside("critical_if_independent", "5 % of fresh samples exceed", critical)]
    notes = [DEPENDENT]
    if not components.exact:
        details["landmarks"] = len(components.model.landmarks)
        notes.append(f"components by {len(components.model.landmarks)} landmark rows (Nyström)")
    if reference is not None:
        expected = projected(components, reference).distances
        beside.append(Beside("reference", "the reference sample has", float(expected.mean())))
        details["reference_by_component"] = _by_component(expected)
    part = By("component", _by_component(found.distances))
    return Measured(float(found.distances.mean()), details, "; ".join(notes), parts=(part,), beside=tuple(beside))


def _by_component(distances: Host) -> dict[str, Any]:
    """Distances under the numbers of the components, the one of the largest variance first."""
    return {f"component {number + 1}": float(distance) for number, distance in enumerate(distances)}


def components_of(
    original: Array,
    *,
    kernel: Literal["polynomial", "rbf", "exponential"] = "polynomial",
    degree: int = 4,
    sigma: float | None = None,
    share: float = 0.99,
    most: int = 20,
    landmarks: int = LANDMARKS,
    exact: int = EXACT_ROWS,
) -> LeadingComponents:
    """The original's kernel principal components up to a share of the variance; see `kernel_pca`."""
    if most < 1:
        raise ParameterError(f"most: 1 or more are allowed, got {most}")
    width = (_median_distance(original) if kernel == "rbf" else _length(original)) if sigma is None else sigma
    formula = Kernel(kernel, degree, sigma=width)
    model = KernelPCA.fit(original, formula, share=share, components=most, landmarks=landmarks, exact_rows=exact)
    return LeadingComponents(model, model.project(original), len(original) <= exact)


def projected(components: LeadingComponents, release: Array) -> Projected:
    """Project a release on an original's components and compare the distributions along each."""
    scores = components.model.project(release)
    on_grid = namespace(scores).rint(scores / components.grid)
    return Projected(components, scores, distances_from(components.ordered, on_grid))


def _length(X: Array) -> float:
    """Root of the mean squared length of the rows; for rows of zeros 1."""
    return float((X * X).sum(axis=1).mean()) ** 0.5 or 1.0


def _median_distance(X: Array) -> float:
    """Median Euclidean distance of pairs of (a sample of) rows."""
    from scipy.spatial.distance import pdist

    rows = to_host(X[like(sample_rows(len(X), 1000, "sigma"), X)])
    width = float(np.median(pdist(rows)))
    return width if width > 0 else 1.0


def _kernel_pca(c: Comparison, components: int = 20, **options: Any) -> Measured:
    """Of all compared columns, beside the reference where there is one."""
    before, after = c.encoded
    return kernel_pca(before, after, reference=c.encoded_reference, most=components, **options)


KERNEL_PCA = Measure(
    name="kernel_pca", label="difference of the tables along their main curves",
    sentence="Along the main directions, bent ones included, in which people differ, the distributions differ by"
    " this much on average.",
    summary="mean Kolmogorov–Smirnov distance along kernel principal components",
    family="utility", range=SHARE,
    usual="0 for equal distributions",
    unit="table", function=kernel_pca, compute=_kernel_pca,
    options={
        "kernel": Literal["polynomial", "rbf", "exponential"],
        "degree": Annotated[int, Field(strict=True, ge=1, le=10)],
        "components": WHOLE,
        "share": LEVEL["level"],
    },
    arrays="encoded", weights=Weights("ignored", "components are those of the records"), nulls=NULL_IS_MARKED,
    scaling="sample", source="Lasko 2007", sees="together", long=2.5,
)  # fmt: skip
