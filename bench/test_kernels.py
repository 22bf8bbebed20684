"""The kernels by themselves, each against the naive version and the library that computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frame import Host, Record, loss_of, normals, on, sizes, ways
from naive import naive_cdfs, naive_inverse, naive_neighbours, naive_optimal

from gpuanon.arrays.backend import to_host
from gpuanon.arrays.partition import Partition, segment_sums
from gpuanon.arrays.rng import Key
from gpuanon.assessing.ks_distance import ks_distance
from gpuanon.masking.groups.refine.neighbours import exact_bits, neighbours
from gpuanon.masking.groups.univariate import optimal_univariate
from gpuanon.masking.operations.dither.empirical import conditional_inverse
from gpuanon.masking.operations.dither.rosenblatt import conditional_cdfs, whiten
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.distance.distance import k_nearest
from gpuanon.numerics.kernel_components import kernel_product
from gpuanon.numerics.spectral.affinity import degrees, normalised_product

_TILE = 1 << 22  # pairs of rows that a naive version holds at a time


def squares(X: Host, Y: Host) -> Host:
    """(n, m) squared distances from a matrix product."""
    return np.asarray((X * X).sum(axis=1)[:, None] + (Y * Y).sum(axis=1) - 2.0 * X @ Y.T)


def tiles(rows: int) -> list[slice]:
    """Ranges of rows whose distances to all rows are held at a time."""
    step = max(1, _TILE // rows)
    return [slice(at, at + step) for at in range(0, rows, step)]


@sizes(20_000, full=(100_000,))
@ways("gemm", "naive", "scikit-learn", "numpy", "compiled", "cupy")
def test_k_nearest(record: Record, rows: int, way: str) -> None:
    """The five nearest of all rows, for every row of another table."""
    X, Y = normals(rows, 10), normals(rows, 10, seed=2)
    work: Any
    if way == "gemm":
        out = np.empty((tiles(rows)[0].stop, rows))
        work = lambda: [np.matmul(X[tile], Y.T, out=out[: len(X[tile])]) for tile in tiles(rows)] and None
    elif way == "naive":
        work = lambda: [np.argpartition(squares(X[tile], Y), 4)[:, :5] for tile in tiles(rows)]
    elif way == "scikit-learn":
        from sklearn.neighbors import NearestNeighbors

        search = NearestNeighbors(n_neighbors=5, algorithm="brute").fit(Y)
        work = lambda: search.kneighbors(X)
    else:
        there = on(way, X, Y)
        work = lambda: k_nearest(*there, 5)
    rounds = 1 if way == "naive" else 3
    record(work, group="kernel: five nearest rows, n × n", rows=rows, columns=10, rounds=rounds, warm=rounds > 1)


@sizes(4_096, 16_384)
@ways("gemm", "naive", "numpy", "cupy")
def test_affinity_product(record: Record, rows: int, way: str) -> None:
    """exp(−d²/2σ²) of all pairs times eight vectors."""
    X, V = normals(rows, 10), normals(rows, 8, seed=2)
    if way in ("gemm", "naive"):

        def work() -> Host:
            out = np.empty_like(V)
            for tile in tiles(rows):
                S = X[tile] @ X.T if way == "gemm" else -0.5 * squares(X[tile], X)
                out[tile] = np.exp(S, out=S) @ V
            return out
    else:
        X_, V_ = on(way, X, V)
        D = degrees(X_, 1.0)
        work = lambda: normalised_product(X_, 1.0, D, V_)
    rounds = 1 if way == "naive" else 3
    name = "kernel: affinity times vectors, n × n"
    record(work, group=name, rows=rows, columns=10, rounds=rounds, warm=rounds > 1)


@sizes(100_000, 1_000_000, full=(10_000_000,))
@ways("naive", "numpy", "cupy")
def test_segment_sums(record: Record, rows: int, way: str) -> None:
    """Sums of groups of about five rows."""
    X = normals(rows, 10)
    labels = np.random.default_rng(0).integers(0, rows // 5, rows)
    if way == "naive":

        def work() -> Host:
            out = np.zeros((rows // 5, 10))
            np.add.at(out, labels, X)
            return out
    else:
        X_, labels_ = on(way, X, labels)
        groups = Partition.from_labels(labels_)
        work = lambda: segment_sums(X_, groups)
    record(work, group="kernel: sums of groups", rows=rows, columns=10)


def mixtures(rows: int) -> tuple[Host, ...]:
    """Blocks of 1024 samples of four columns, with 102 components each."""
    parts, of_block = rows // 1024, 102
    rng = np.random.default_rng(0)
    A = rng.normal(size=(parts * of_block, 4, 4)) * 0.1
    _, W = whiten(A @ A.transpose(0, 2, 1) + 0.05 * np.eye(4))
    starts = np.arange(parts + 1)
    means, weights = rng.normal(size=(parts * of_block, 4)), np.zeros(parts * of_block)
    return rng.normal(size=(parts * 1024, 4)), starts * 1024, means, W, weights, starts * of_block


@sizes(16_384, 131_072, full=(1_048_576,))
@ways("scipy", "numpy", "compiled", "cupy")
def test_rosenblatt(record: Record, rows: int, way: str) -> None:
    """Conditional distribution functions of Gaussian mixtures."""
    problem = mixtures(rows)
    there = problem if way == "scipy" else on(way, *problem)
    run = naive_cdfs if way == "scipy" else conditional_cdfs
    known = naive_cdfs(problem[0][:1024], problem[1][:2], *problem[2:5], problem[5][:2])

    def quality(u: Any) -> dict[str, float]:
        return {"error": float(np.abs(to_host(u)[:1024] - known).max())}

    name = "kernel: conditional distributions of mixtures"
    record(lambda: run(*there), group=name, rows=rows, columns=4, quality=quality)


@sizes(10_000, 100_000, 1_000_000)
@ways("naive", "numpy", "cupy")
def test_empirical_inverse(record: Record, rows: int, way: str) -> None:
    """Inverse conditional distributions of the rows of blocks of 1024."""
    if way == "naive" and rows > 10_000:
        pytest.skip("the naive version runs at the smallest size only")
    X = normals(rows, 4).round(1)
    u = np.random.default_rng(0).random((rows, 4))
    X_, u_ = on(way, X, u)
    parts = blocks(X_, Partition.whole(rows, like=X_), 1024)
    if way == "naive":
        work: Any = lambda: naive_inverse(u, X, parts)
    else:
        work = lambda: conditional_inverse(u_, X_, parts)
    record(work, group="kernel: empirical inverse", rows=rows, columns=4, rounds=1 if way == "naive" else 3)


@sizes(100_000, 1_000_000, full=(10_000_000,))
@ways("numpy", "compiled", "cupy")
def test_blocks(record: Record, rows: int, way: str) -> None:
    """Median cuts into blocks of 1024 rows."""
    (X,) = on(way, normals(rows, 10))
    work = lambda: blocks(X, Partition.whole(rows, like=X), 1024)
    record(work, group="kernel: blocks of near rows", rows=rows, columns=10)


@sizes(1_000_000)
@ways("naive", "numpy", "cupy")
def test_normal_draws(record: Record, rows: int, way: str) -> None:
    """Four normal numbers of every record; naive: NumPy's generator, whose numbers belong to no record."""
    (numbers,) = on(way, np.arange(rows))
    draws = Key(b"a benchmark's key is no secret").draws(numbers)
    rng = np.random.default_rng(0)
    work = (lambda: rng.normal(size=(rows, 4))) if way == "naive" else (lambda: draws.normal(4))
    record(work, group="kernel: normal numbers of records", rows=rows, columns=4)


@sizes(100_000, 1_000_000)
@pytest.mark.filterwarnings("ignore:ks_2samp")
@ways("scipy", "numpy", "cupy")
def test_ks_distance(record: Record, rows: int, way: str) -> None:
    """Largest difference of two distribution functions."""
    from scipy.stats import ks_2samp

    x, y = on("numpy" if way == "scipy" else way, normals(rows, 1)[:, 0], normals(rows, 1, seed=2)[:, 0])
    if way == "scipy":
        work = lambda: ks_2samp(x, y, method="asymp").statistic
    else:
        work = lambda: ks_distance(x, y)
    record(work, group="kernel: KS distance", rows=rows, columns=1, quality=lambda d: {"distance": float(d)})


@sizes(10_000, 100_000, full=(1_000_000,))
@ways("naive", "scikit-learn", "numpy", "cupy")
def test_kernel_components(record: Record, rows: int, way: str) -> None:
    """Projections on eight kernel components by 1000 landmarks, kernel (x·y + 1)⁴."""
    X, Y, W = normals(rows, 10), normals(1000, 10, seed=2), normals(1000, 8, seed=3)
    if way == "naive":
        work: Any = lambda: (X @ Y.T + 1) ** 4 @ W
    elif way == "scikit-learn":
        from sklearn.metrics.pairwise import polynomial_kernel

        work = lambda: polynomial_kernel(X, Y, degree=4, gamma=1, coef0=1) @ W
    else:
        there = on(way, X, Y, W)
        work = lambda: kernel_product(*there)
    rounds = 3 if way in ("numpy", "cupy") else 1
    name = "kernel: projections on kernel components"
    record(work, group=name, rows=rows, columns=10, rounds=rounds, warm=rounds > 1)


@sizes(20_000, 200_000)
@ways("naive", "numpy", "compiled", "cupy")
def test_neighbours_of_groups(record: Record, rows: int, way: str) -> None:
    """The eight nearest groups of each group inside cells of 256 groups; rows are groups."""
    if way == "naive" and rows > 20_000:
        pytest.skip("the naive version runs at the smallest size only")
    X = normals(rows, 10)
    places = np.rint(X / np.abs(X).max() * 2.0 ** (exact_bits(10) - 1)).astype(np.int32)
    (places_,) = on(way, places)
    cells = blocks(*on(way, X), Partition.whole(rows, like=places_), 256)
    find = naive_neighbours if way == "naive" else neighbours
    rounds = 1 if way == "naive" else 3
    name = "kernel: near groups in cells"
    record(lambda: find(places_, cells, 8), group=name, rows=rows, columns=10, rounds=rounds, warm=rounds > 1)


@sizes(10_000, 100_000, full=(1_000_000,))
@ways("naive", "numpy", "cupy")
def test_optimal_groups_of_a_column(record: Record, rows: int, way: str) -> None:
    """Optimal univariate microaggregation, k = 5."""
    X = normals(rows, 1)
    (x,) = on(way, X[:, 0])
    naive = lambda: Partition.from_labels(naive_optimal(X[:, 0], 5))
    work = naive if way == "naive" else lambda: optimal_univariate(x, 5)
    quality = lambda groups: {"loss %": loss_of(X, groups)}
    name = "kernel: optimal groups of a column"
    record(work, group=name, rows=rows, columns=1, rounds=1 if way == "naive" else 3, quality=quality)
