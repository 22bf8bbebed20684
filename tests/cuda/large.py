"""Problems of 100 000 to a million rows, each computed twice: by a kernel and by its NumPy twin in float64.

They have the form of the device checks, which are small.  Numbers of rows and columns are one more than fill the tiles
of a kernel (128 or 64 rows, 16 or 8 of the other table, 16 columns).  Coordinates are whole numbers wherever the result
is one: sums of their products are exact in either type and any order, so the results are equal and ties are ties.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuanon.arrays.partition import Partition, segment_covariances, segment_sums
from gpuanon.arrays.rng import Key, philox
from gpuanon.arrays.segments import extremes
from gpuanon.cli.doctor.device_checks import EXACT, Check, Put, Results
from gpuanon.masking.operations.dither import empirical, rosenblatt
from gpuanon.numerics import kernel_values
from gpuanon.numerics.distance import distance
from gpuanon.numerics.metric import Metric
from gpuanon.numerics.spectral import affinity

Host = np.ndarray[Any, Any]

ROWS = 128 * 782 + 1
"""One row more than fills the tiles of 128 rows, and of 64."""

OTHERS = 16 * 32 + 1
"""The same for the table of the other side, in steps of 16 rows, and of 8."""

MILLION = 1_000_001
WEIGHTED = Metric(weights=(1.0, 2.0, 0.5, 4.0))
GOWER = Metric("gower", weights=(2.0, 4.0, 1.0, 1.0), categorical=(False, False, True, True))
"""Its weights, divided by their sum, are powers of two: distances of the coordinates of `_mixed` are exact."""


def _whole(number: int, shape: tuple[int, ...], below: int = 12) -> Host:
    return np.random.default_rng([7, number]).integers(0, below, shape).astype(np.float64)


def _mixed(number: int, n: int) -> Host:
    """Two numeric columns in [0, 1], multiples of 1/64, and two of category codes."""
    return np.column_stack([_whole(number, (n, 2), 65) / 64, _whole(number + 1, (n, 2), 4)])


def _parts(put: Put, sizes: Host) -> Partition:
    """Parts of rows that are in no order."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    order = np.random.default_rng(8).permutation(int(starts[-1]))
    return Partition(put(order), put(starts))


def _uneven(rows: int) -> Host:
    """Sizes of parts with `rows` rows in all, about the borders of tiles and steps."""
    sizes = np.resize([1, 2, 7, 8, 9, 15, 16, 17, 127, 128, 129, 255, 256, 257, 511, 513], rows)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), rows)]
    return np.append(sizes, rows - sizes.sum())


# ------------------------------------------------------------------------------------------------- distances


def _nearest(put: Put) -> Results:
    X, Y, half = put(_whole(1, (ROWS, 4))), put(_whole(2, (OTHERS, 4))), ROWS // 2
    return (*distance.nearest(X[:half], Y), *distance.nearest_with_ties(X[half:], Y))


def _rounded_ties(put: Put) -> Results:
    """Whole numbers in other units: rounding breaks their ties, and a second launch restores them.

    In double alone: rounded to single precision they are no ties in double, in which the twin computes.
    """
    scale, centre = 7.3, np.array([0.1, 1.7, -2.9])
    X, Y = (
        put((_whole(number, (n, 3)) * 2 + odd - centre) / scale) for number, n, odd in ((3, 30_049, 1), (4, 257, 0))
    )
    return (distance.nearest(X, Y)[1], distance.nearest_with_ties(X, Y)[1])


def _wide(put: Put) -> Results:
    """One column more than a chunk has, so that the tile of X is loaded anew in every step."""
    X, Y = put(_whole(5, (20_033, 17), 6)), put(_whole(6, (OTHERS, 17), 6))
    return (*distance.k_nearest(X, Y, 5), *distance.furthest(X, Y))


def _furthest(put: Put) -> Results:
    X, Y = put(_whole(7, (ROWS, 4))), put(_whole(8, (OTHERS, 4)))
    return distance.furthest(X, Y, WEIGHTED)


def _gower(put: Put) -> Results:
    X, Y, third = put(_mixed(9, ROWS)), put(_mixed(11, 257)), ROWS // 3
    near = (*distance.nearest(X[:third], Y, GOWER), *distance.k_nearest(X[third : 2 * third], Y, 7, GOWER))
    return (*near, distance.row_sums(X[2 * third :], Y, GOWER))


def _all_distances(put: Put) -> Results:
    """The whole matrix, a row of which has few numbers, and a column many; and the same pairs from another kernel."""
    X, Y = put(_whole(13, (ROWS, 5))), put(_whole(14, (129, 5)))
    index = put(np.random.default_rng(15).integers(0, 129, ROWS))
    return distance.distances(X[: ROWS // 2], Y), distance.paired(X, Y, index=index)


def _few_against(rows: int) -> Callable[[Put], Results]:
    """In many runs whose results are merged; more neighbours than a list holds."""

    def compute(put: Put) -> Results:
        X, Y = put(_whole(16, (33, 4), 40)), put(_whole(17, (rows, 4), 40))
        return (*distance.nearest(X, Y), *distance.k_nearest(X, Y, 40), *distance.furthest(X, Y))

    return compute


def _row_sums(put: Put) -> Results:
    """Of many rows, and over many."""
    X, Y = put(_whole(38, (ROWS, 4))), put(_whole(39, (OTHERS, 4)))
    return distance.row_sums(X, Y, WEIGHTED), distance.row_sums(Y[:33], X)


def _a_million_pairs(put: Put) -> Results:
    X, Y = put(_whole(18, (MILLION, 17))), put(_whole(19, (MILLION, 17)))
    return (distance.paired(X, Y, index=put(np.random.default_rng(20).permutation(MILLION))),)


def _a_million_nearest(put: Put) -> Results:
    X, Y = put(_whole(21, (MILLION, 4), 30)), put(_whole(22, (OTHERS, 4), 30))
    return (*distance.k_nearest(X, Y, 3), distance.nearest_with_ties(X, Y)[1])


def _nearest_of_all(put: Put) -> Results:
    """A table against another one of its size."""
    X, Y = put(_whole(23, (ROWS // 2, 4), 60)), put(_whole(24, (ROWS // 2, 4), 60))
    return distance.nearest_with_ties(X, Y)


# ------------------------------------------------------------------------- products with kernel matrices


def _affinities(rows: int) -> Callable[[Put], Results]:
    def compute(put: Put) -> Results:
        X, within = put(_whole(25, (rows, 5))), _parts(put, _uneven(rows))
        sums = affinity.degrees(X, 6.0, within)
        vectors = put(np.random.default_rng(26).random((rows, 9)))
        return sums, affinity.normalised_product(X, 6.0, sums, vectors, within)

    return compute


def _polynomial(rows: int) -> Callable[[Put], Results]:
    """Sums below 2²⁴, which are exact in single precision too; 17 vectors are two or three blocks."""

    def compute(put: Put) -> Results:
        X, Y, W = put(_whole(27, (rows, 5), 2)), put(_whole(28, (513, 5), 2)), put(_whole(29, (513, 17), 5) - 2)
        return (kernel_values.kernel_product(X, Y, W, kernel_values.Kernel(degree=3)),)

    return compute


def _rbf(rows: int) -> Callable[[Put], Results]:
    def compute(put: Put) -> Results:
        X, Y, W = put(_whole(30, (rows, 5))), put(_whole(31, (513, 5))), np.random.default_rng(32).random((513, 3))
        return (kernel_values.kernel_product(X, Y, put(W), kernel_values.Kernel("rbf", sigma=6.0)),)

    return compute


# ------------------------------------------------------------------------------------- kernels without tiles


def _random(put: Put) -> Results:
    rng = np.random.default_rng(33)
    draws = Key(bytes(range(32))).draws(put(rng.integers(0, 2**40, ROWS)), "large")
    counters = put(rng.integers(0, 2**32, (4, ROWS), dtype=np.uint32))
    return philox(counters, (1, 2)), draws.words(3), draws.keys(), draws.uniform(2), draws.normal(2)


def _segments(put: Put) -> Results:
    X, parts = put(_whole(34, (MILLION, 3))), _parts(put, _uneven(MILLION))
    edges = (extremes(X, parts.order, parts.starts, which) for which in ("minima", "maxima"))
    return (*edges, segment_sums(X, parts))


def _covariances(put: Put) -> Results:
    """Parts of eight rows, whose means are exact."""
    X = put(_whole(35, (ROWS - 1, 3)))
    return (segment_covariances(X, _parts(put, np.full(ROWS // 8, 8))),)


def _empirical(put: Put) -> Results:
    rng = np.random.default_rng(36)
    X, u, blocks = put(_whole(36, (ROWS, 3))), put(rng.random((ROWS, 3))), _parts(put, _uneven(ROWS))
    weights = put(rng.integers(1, 5, ROWS).astype(np.float64))
    return empirical.conditional_inverse(u, X, blocks), empirical.conditional_inverse(u, X, blocks, weights)


def _rosenblatt(put: Put) -> Results:
    rng, d, parts = np.random.default_rng(37), 3, 20
    factors = rng.normal(size=(5 * parts, d, 2 * d))
    _, whitening = rosenblatt.whiten(factors @ factors.transpose(0, 2, 1) / (2 * d), 0.3)
    means, weights = rng.normal(size=(5 * parts, d)), np.log(rng.dirichlet(np.ones(5 * parts)))
    starts = np.linspace(0, ROWS, parts + 1).astype(np.int64), np.arange(0, 5 * parts + 1, 5)
    x = put(rng.normal(scale=1.5, size=(ROWS, d)))
    rows, components = (put(offsets) for offsets in starts)
    return (rosenblatt.conditional_cdfs(x, rows, put(means), put(whitening), put(weights), components),)


NEAREST, LISTS, FURTHEST, SUMS, MATRIX, PAIRED = (
    f"distance/{name}" for name in ("nearest", "k_nearest", "furthest", "row_sums", "matrix", "paired")
)
AFFINITIES = ("affinity/degrees", "affinity/product")
RANDOM = tuple(f"random/{name}" for name in ("philox", "words", "keys", "uniform", "normal"))
EQUAL = (EXACT, EXACT)
ROUNDED = (2e-6, 1e-14)
"""Sums of exponentials.  An exponent of at most 605/72 that is rounded four times changes a term by a share of at most
34 half units of the last place: 2·10⁻⁶ in single precision; in double, where the twin rounds as well, 8·10⁻¹⁵."""

MEAN = (2e-15, 2e-15)
"""The kernel's sums of whole numbers are exact; the twin computes them from the mean, and rounds about ten times."""

LARGE: tuple[Check, ...] = (
    Check("nearest rows", (NEAREST,), _nearest, EQUAL),
    Check("nearest of rounded rows", (NEAREST,), _rounded_ties, (np.inf, EXACT)),
    Check("rows of 17 columns", (LISTS, FURTHEST), _wide, EQUAL),
    Check("furthest rows", (FURTHEST,), _furthest, EQUAL),
    Check("sums of distances", (SUMS,), _row_sums, MEAN),
    Check("nearest mixed rows", (NEAREST, LISTS, SUMS), _gower, EQUAL),
    Check("all distances", (MATRIX, PAIRED), _all_distances, EQUAL),
    Check("few rows against many", (NEAREST, LISTS, FURTHEST), _few_against(100_001), EQUAL),
    Check("affinities", AFFINITIES, _affinities(ROWS), ROUNDED),
    Check("polynomial kernel", ("kernel_pca/polynomial",), _polynomial(ROWS), EQUAL),
    Check("radial kernel", ("kernel_pca/rbf",), _rbf(ROWS), ROUNDED),
    Check("random numbers", RANDOM, _random, EQUAL),
    Check("sums and extremes of parts", ("segment/sums", "segment/minima", "segment/maxima"), _segments, EQUAL),
    Check("covariances of parts", ("segment/products",), _covariances, EQUAL),
    Check("empirical inverse", ("empirical_inverse/empirical_inverse",), _empirical, EQUAL),
    Check("conditional distributions", ("rosenblatt/rosenblatt",), _rosenblatt, (1e-6, 1e-12)),  # as in the small check
)

LARGER: tuple[Check, ...] = (
    Check("few rows against a million", (NEAREST, LISTS, FURTHEST), _few_against(MILLION), EQUAL),
    Check("a million pairs", (PAIRED,), _a_million_pairs, EQUAL),
    Check("nearest of a million rows", (NEAREST, LISTS), _a_million_nearest, EQUAL),
    Check("50 000 rows against 50 000", (NEAREST,), _nearest_of_all, EQUAL),
    Check("affinities of a million rows", AFFINITIES, _affinities(MILLION), ROUNDED),
    Check("polynomial kernel of a million rows", ("kernel_pca/polynomial",), _polynomial(MILLION), EQUAL),
    Check("radial kernel of a million rows", ("kernel_pca/rbf",), _rbf(MILLION), ROUNDED),
)
"""Minutes in all."""
