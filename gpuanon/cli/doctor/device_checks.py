"""Small problems for every CUDA kernel, each computed twice: by the kernel and by its NumPy twin in float64.

`gpuanon doctor` runs them on a user's GPU; the tests run them on kernels that are interpreted.  The data are made up,
deterministic, and small enough for either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gpuanon.arrays import rapids
from gpuanon.arrays.backend import Array, Host, namespace, to_host
from gpuanon.arrays.partition import Partition, segment_covariances, segment_sums
from gpuanon.arrays.rng import Key, philox
from gpuanon.arrays.segments import extremes
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.refine.annealing import Schedule, anneal
from gpuanon.masking.groups.refine.neighbours import neighbours
from gpuanon.masking.groups.refine.overlapping_cells import Neighbourhood
from gpuanon.masking.groups.univariate import first_of_group
from gpuanon.masking.operations.dither import empirical, rosenblatt
from gpuanon.numerics import kernel_values
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.distance import distance
from gpuanon.numerics.metric import Metric
from gpuanon.numerics.spectral import affinity

Results = tuple[Array, ...]
Put = Callable[[Host], Array]
"""Brings a host array where the check computes; floating-point arrays in the type that is checked."""

EXACT = 0.0
UNITS = (4.0, 4.0)
"""Of the last place: what distances may differ by."""


@dataclass(frozen=True)
class Check:
    """One problem.

    name      : what is computed
    kernel    : the kernels that must run, as file/kernel
    compute   : puts its data in place and computes
    largest   : largest difference, in float32 and in float64; 0 asks for equal results
    measure   : of the difference: relative, or in units of the last place of the type
    """

    name: str
    kernels: tuple[str, ...]
    compute: Callable[[Put], Results]
    largest: tuple[float, float]
    measure: Literal["relative", "units"] = "relative"

    def run(self, xp: Any, dtype: Any) -> tuple[Host, ...]:
        """The results on the device of `xp`, brought to the host."""
        return tuple(to_host(result) for result in self.compute(lambda host: xp.asarray(_rounded(host, dtype))))

    def expected(self, dtype: Any) -> tuple[Host, ...]:
        """What the twin gives in float64, for data that were rounded to `dtype`."""
        return self.compute(lambda host: _rounded(host, dtype).astype(_wide(host), copy=False))

    def difference(self, found: tuple[Host, ...], expected: tuple[Host, ...], dtype: Any) -> float:
        """The largest difference; infinite when shapes, NaNs or whole numbers differ."""
        return max(_difference(a, b, self._scale(b, dtype)) for a, b in zip(found, expected, strict=True))

    def _scale(self, expected: Host, dtype: Any) -> Any:
        """What one unit of the difference is, for each expected number."""
        if expected.dtype.kind != "f":
            return 1.0
        if self.measure == "units":
            return np.spacing(np.abs(expected).astype(dtype)).astype(np.float64)
        return np.maximum(np.abs(expected), np.finfo(np.float32).tiny)

    def allowed(self, dtype: Any) -> float:
        """The largest difference that `dtype` excuses."""
        return self.largest[0] if np.dtype(dtype) == np.float32 else self.largest[1]


def _rounded(host: Host, dtype: Any) -> Host:
    return host.astype(dtype) if host.dtype.kind == "f" else host


def _wide(host: Host) -> Any:
    return np.float64 if host.dtype.kind == "f" else host.dtype


def _difference(found: Host, expected: Host, scale: Any) -> float:
    if found.shape != expected.shape or np.isnan(found).any():
        return float("inf")
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else float("inf")
    return float(np.max(np.abs(found.astype(np.float64) - expected) / scale, initial=0.0))


def _rng(number: int) -> np.random.Generator:
    return np.random.default_rng([2024, number])


def _rows(number: int, n: int, d: int) -> Host:
    return _rng(number).normal(size=(n, d))


def _mixed(number: int, n: int) -> Host:
    """Two numeric columns in [0, 1] and two of category codes; distances are exact in either type, so ties are ties."""
    rng = _rng(number)
    return np.column_stack([rng.integers(0, 65, (n, 2)) / 64, rng.integers(0, 4, (n, 2))])


WEIGHTED = Metric(weights=(0.5, 2.0, 1.25))
GOWER = Metric("gower", weights=(1.0, 2.0, 0.5, 0.5), categorical=(False, False, True, True))


def _parts(put: Put, sizes: list[int]) -> Partition:
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rng = _rng(99)
    order = np.concatenate([np.sort(block) for block in np.split(rng.permutation(int(starts[-1])), starts[1:-1])])
    return Partition(put(order.astype(np.int64)), put(starts))


def _distances(put: Put) -> Results:
    X, Y = put(_rows(1, 70, 3)), put(_rows(2, 150, 3))
    matrix = (distance.distances(X, Y), distance.distances(X, Y, WEIGHTED))
    return (*matrix, distance.paired(X, Y[:70]), distance.row_sums(X, Y), *distance.furthest(X, Y, WEIGHTED))


def _neighbours(put: Put) -> Results:
    X, Y = put(_rows(3, 70, 3)), put(_rows(4, 513, 3))
    return (*distance.nearest(X, Y), *distance.k_nearest(X, Y, 5, WEIGHTED))


def _mixed_distances(put: Put) -> Results:
    X, Y = put(_mixed(5, 70)), put(_mixed(6, 90))
    return (distance.distances(X, Y, GOWER), *distance.k_nearest(X, Y, 32, GOWER), distance.row_sums(X, Y, GOWER))


def _ties(put: Put) -> Results:
    X, Y = put(_rng(7).integers(0, 3, (70, 3)).astype(np.float64)), put(_rng(8).integers(0, 3, (300, 3)).astype(float))
    nearest = (*distance.nearest(X, Y), *distance.nearest_with_ties(X, Y))
    return (*nearest, *distance.furthest(X, Y), *distance.k_nearest(X, Y, 7), *distance.k_nearest(X[:9], Y, 37))


def _affinities(put: Put) -> Results:
    X, within = put(_rows(9, 150, 5)), _parts(put, [40, 1, 109])
    sums = affinity.degrees(X, 1.5, within)
    return sums, affinity.normalised_product(X, 1.5, sums, put(_rng(10).random((150, 6))), within)


def _projections(put: Put) -> Results:
    X, Y, W = put(_rows(22, 140, 5)), put(_rows(23, 37, 5)), put(_rng(24).random((37, 11)))
    kernels = kernel_values.Kernel(degree=5), kernel_values.Kernel("rbf", sigma=2.0)
    return tuple(kernel_values.kernel_product(X, Y, W, kernel) for kernel in kernels)


def _kmember(put: Put) -> Results:
    return (kmember(put(_rows(11, 122, 4)), _parts(put, [50, 32, 40]), 5).labels(),)


def _kmember_gower(put: Put) -> Results:
    return (kmember(put(_mixed(12, 60)), _parts(put, [33, 27]), 4, GOWER).labels(),)


def _mdav(put: Put) -> Results:
    return (mdav(put(_rows(13, 122, 4)), _parts(put, [50, 32, 40]), 4).labels(),)


def _mdav_gower(put: Put) -> Results:
    return (mdav(put(_mixed(14, 60)), _parts(put, [32, 28]), 4, GOWER).labels(),)


def _mdav_ties(put: Put) -> Results:
    """A lattice that is symmetric about its mean, in units that are no powers of two; and categories."""
    lattice = np.stack(np.divmod(np.arange(77), 11), axis=1) / (3.0, 7.0)
    euclidean = mdav(put(np.repeat(lattice, 2, axis=0)), _parts(put, [50, 104]), 4)
    codes = _rng(26).integers(0, 3, (90, 4)).astype(np.float64)
    return euclidean.labels(), mdav(put(codes), _parts(put, [40, 50]), 3, GOWER).labels()


def _kmember_leftovers(put: Put) -> Results:
    """Parts with five rows more than their clusters have."""
    X = _rng(25).integers(0, 5, (116, 2)).astype(np.float64)
    return (kmember(put(X), _parts(put, [29, 29, 23, 35]), 6).labels(),)


def _univariate(put: Put) -> Results:
    """A column of whole numbers with ties, and one of four features; in chunks, and without."""
    rng = _rng(28)
    column = np.sort(rng.integers(0, 2**27, (120, 1)), axis=0).astype(np.int32)
    column[40:52] = column[40]
    levels = np.diag([9, 4, 30, 7]).astype(np.int32)[np.sort(rng.integers(0, 4, 60))]
    tied = np.sort(rng.integers(0, 30, (150, 1)), axis=0).astype(np.int32)
    cases = ((column, 3, 6), (levels, 3, 4), (tied, 4, 5), (column, 9, 1))
    return tuple(first_of_group(put(rows), k, chunks) for rows, k, chunks in cases)


def _cuts(put: Put) -> Results:
    """Of several sizes: with ties and zeros of both signs, of mixed rows, in units, and of many parts in one launch."""
    tied = _rng(29).integers(-3, 4, (140, 3)) * np.where(_rng(30).random((140, 1)) < 0.5, -1.0, 1.0)
    found = [
        blocks(put(_rows(31, 150, 5)), _parts(put, [93, 57]), 9),
        blocks(put(tied), _parts(put, [140]), 12, WEIGHTED, multiple=3),
        blocks(put(_mixed(32, 130)), _parts(put, [65, 1, 64]), 16, GOWER),
        blocks(put(_rows(33, 200, 2)), _parts(put, [6] * 32 + [8]), 2),
    ]
    return tuple(array for one in found for array in (one.order, one.starts))


def _places(put: Put) -> Results:
    """Mean places of groups of two to four rows, and along mirrored axes."""
    rng = _rng(34)
    places, sizes = put(rng.integers(-(1 << 20), 1 << 20, (400, 5), dtype=np.int32)), rng.integers(2, 5, 140)
    members = put(rng.integers(0, 400, (140, 4)))
    neighbourhood = Neighbourhood(places, bits=20, groups=140, count=3, turns=2)
    cells, near, largest = neighbourhood.at(1, members, put(sizes))
    return *neighbourhood.locate(members, put(sizes), 0), cells.order, near, put(np.array([largest]))


def _exchanges(put: Put, mismatch: Host | None) -> Results:
    rng = _rng(22)
    sizes = np.where(rng.random(24) < 0.5, 3, 4)
    members = np.zeros((24, 4), dtype=np.int64)
    members[np.arange(4) < sizes[:, None]] = rng.permutation(int(sizes.sum()))
    whole = rng.integers(0, 1 << 20 if mismatch is None else 3, (sizes.sum(), 4), dtype=np.int32)
    rows, table, counts = put(whole), put(members), put(sizes)
    cells = _parts(put, [11, 13])
    near = neighbours(rows[table[:, 0]][:, 2:], cells, 4)
    schedule = Schedule(turn=3, steps=12, first=2, every=12, heat=0.5)
    apart = None if mismatch is None else put(mismatch)
    anneal(rows, apart, table, counts, near, cells, 3, schedule)
    used = namespace(table).arange(4)[None, :] < counts[:, None]  # the other slots hold anything
    return near, table * used, counts


def _annealing(put: Put) -> Results:
    return _exchanges(put, None)


def _annealing_gower(put: Put) -> Results:
    return _exchanges(put, np.array([-1, 3, 2, -1], dtype=np.int32))


def _rosenblatt(put: Put) -> Results:
    d, samples, components = 3, [37, 20], [6, 4]
    rng = _rng(15)
    means = rng.normal(size=(sum(components), d))
    factors = rng.normal(size=(sum(components), d, 2 * d))
    _, whitening = rosenblatt.whiten(factors @ factors.transpose(0, 2, 1) / (2 * d), 0.3)
    x = rng.normal(scale=1.5, size=(sum(samples), d))
    starts = [put(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)) for sizes in (samples, components)]
    weights = np.log(rng.dirichlet(np.ones(sum(components))))
    return (rosenblatt.conditional_cdfs(put(x), starts[0], put(means), put(whitening), put(weights), starts[1]),)


def _empirical_inverse(put: Put) -> Results:
    rng = _rng(16)
    X, u = rng.integers(0, 5, (120, 3)).astype(np.float64), rng.random((120, 3))
    blocks = _parts(put, [70, 50])
    weights = put(rng.integers(1, 5, 120).astype(np.float64))
    return empirical.conditional_inverse(put(u), put(X), blocks), empirical.conditional_inverse(
        put(u), put(X), blocks, weights
    )


def _words(put: Put) -> Results:
    rng = _rng(17)
    counters = put(rng.integers(0, 2**32, (4, 90), dtype=np.uint32))
    draws = Key(bytes(range(32))).draws(put(rng.integers(0, 2**40, 90)), "check")
    return philox(counters, (0xA4093822, 0x299F31D0)), draws.words(5), draws.keys(), draws.uniform(3)


def _normal(put: Put) -> Results:
    return (Key(bytes(range(32))).draws(put(np.arange(90, dtype=np.int64)), "check").normal(3),)


def _segments(put: Put) -> Results:
    X, parts = put(_rows(18, 2500, 3)), _parts(put, [3, 1, 1100, 1396])
    edges = (extremes(X, parts.order, parts.starts, which) for which in ("minima", "maxima"))
    return (*edges,)


def _sums(put: Put) -> Results:
    X, parts = put(1 + _rng(19).random((2500, 3))), _parts(put, [3, 1, 1100, 1396])
    return (segment_sums(X, parts),)


def _covariances(put: Put) -> Results:
    correlated = _rows(20, 700, 3) + 2 * _rows(21, 700, 1)
    return (segment_covariances(put(correlated), _parts(put, [300, 400])),)


CHECKS: tuple[Check, ...] = (
    Check("distances", ("distance/matrix", "distance/paired", "distance/row_sums", "distance/furthest"), _distances,
          UNITS, "units"),
    Check("nearest rows", ("distance/nearest", "distance/k_nearest"), _neighbours, UNITS, "units"),
    Check("distances of mixed rows", ("distance/matrix", "distance/k_nearest", "distance/row_sums"), _mixed_distances,
          UNITS, "units"),
    Check("ties between rows", ("distance/nearest", "distance/furthest", "distance/k_nearest"), _ties, UNITS, "units"),
    Check("affinities", ("affinity/degrees", "affinity/product"), _affinities, (2e-6, 1e-14)),
    # Fifth powers of dot products of either sign: what cancels in the dot product is missed five times over.
    Check("kernel projections", ("kernel_pca/polynomial", "kernel_pca/rbf"), _projections, (1e-4, 1e-13)),
    Check("k-member groups", ("kmember/kmember",), _kmember, (EXACT, EXACT)),
    Check("k-member groups of mixed rows", ("kmember/kmember",), _kmember_gower, (EXACT, EXACT)),
    Check("k-member groups with leftovers", ("kmember/kmember",), _kmember_leftovers, (EXACT, EXACT)),
    Check("MDAV groups", ("mdav/mdav",), _mdav, (EXACT, EXACT)),
    Check("MDAV groups of tied rows", ("mdav/mdav",), _mdav_ties, (EXACT, EXACT)),
    Check("MDAV groups of mixed rows", ("mdav/mdav",), _mdav_gower, (EXACT, EXACT)),
    Check("optimal groups of one column",
          ("univariate/chunk_paths", "univariate/chunk_entries", "univariate/chunk_cuts"), _univariate, (EXACT, EXACT)),
    Check("median cuts", ("cuts/cut_parts",), _cuts, (EXACT, EXACT)),
    Check("places of groups", ("refine_cells/locate",), _places, (EXACT, EXACT)),
    Check("exchanges between groups", ("refine_neighbours/neighbours", "refine/anneal"), _annealing, (EXACT, EXACT)),
    Check("exchanges of mixed rows", ("refine_neighbours/neighbours", "refine/anneal"), _annealing_gower,
          (EXACT, EXACT)),
    Check("conditional distributions", ("rosenblatt/rosenblatt",), _rosenblatt, (1e-6, 1e-12)),
    Check("empirical inverse", ("empirical_inverse/empirical_inverse",), _empirical_inverse, (EXACT, EXACT)),
    Check("random words", ("random/philox", "random/words", "random/keys", "random/uniform"), _words, (EXACT, EXACT)),
    Check("normal numbers", ("random/normal",), _normal, (EXACT, EXACT)),
    Check("extremes of parts", ("segment/minima", "segment/maxima"), _segments, (EXACT, EXACT)),
    Check("sums of parts", ("segment/sums",), _sums, (UNITS[0], EXACT), "units"),
    Check("covariances of parts", ("segment/products",), _covariances, (1e-6, 1e-14)),
)  # fmt: skip


# Small problems for cuML, each solved by scikit-learn as well: their answers do not depend on rounding.


def _clusters(put: Put) -> Array:
    """Sixty rows round three corners, far from each other."""
    corners = np.array([[0.0, 0.0], [64.0, 0.0], [0.0, 64.0]])
    spread = np.random.default_rng(1).integers(-8, 9, size=(60, 2)) / 8
    return rapids.kmeans(put(np.repeat(corners, 20, axis=0) + spread), put(corners + 8))[0]


def _forest(put: Put) -> Array:
    """Two classes that every column tells apart."""
    rng = np.random.default_rng(2)
    y = np.arange(400.0) % 2
    X = rng.integers(0, 32, size=(400, 4)) / 8 + 64 * y[:, None]
    return rapids.forest(put(X[:300]), put(y[:300]), put(X[300:]), trees=20)


LIBRARY_CHECKS: dict[str, Callable[[Put], Array]] = {
    "cuML k-means": _clusters,
    "cuML forest": _forest,
}


def library_agrees(name: str, cupy: Any) -> bool:
    """Whether cuML, on the current device, gives the answer of scikit-learn to the problem of that name."""
    compute = LIBRARY_CHECKS[name]
    return bool(np.array_equal(to_host(compute(cupy.asarray)), compute(np.asarray)))
