"""Bases: there and back, axes that are what they say, for every kind of group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy import stats
from scipy.spatial.distance import pdist
from sklearn.decomposition import KernelPCA

from gpuanon.arrays.partition import Partition
from gpuanon.masking.bases import AnyBasis
from gpuanon.masking.bases.kernel_basis import KernelBasis
from gpuanon.masking.bases.linear import Ica, Identity, Svd, svd_coordinates
from gpuanon.masking.bases.normal_scores import NormalScores, normal_scores
from gpuanon.masking.bases.tca import Tca
from gpuanon.numerics import svd as svd_module
from gpuanon.numerics.svd import principal_axes
from tests.cuda.fixtures import host, xp

__all__ = ["xp"]

BASES = [
    Identity(),
    Svd(),
    Svd(per_group=True),
    Ica(),
    Ica(per_group=True),
    Tca(sweeps=1),
    Tca(per_group=True, sweeps=1),
    NormalScores(),
    NormalScores(per_group=True),
    KernelBasis(landmarks=60),
    KernelBasis(per_group=True, kernel="polynomial"),
]


def named(basis: object) -> str:
    return f"{type(basis).__name__} {'per group' if getattr(basis, 'per_group', False) else 'global'}"


def table(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Skewed columns that hang together, a constant one and, from six columns on, a linearly dependent one."""
    rng = np.random.default_rng(seed)
    X = rng.exponential(size=(n, d)) @ rng.normal(size=(d, d)) + 100.0
    X[:, d // 2] = 0.1
    if d >= 6:
        X[:, -1] = X[:, 0] - 2 * X[:, 1]
    return X


def groups_of(n: int, sizes: tuple[int, ...], seed: int = 0) -> Partition:
    """Parts of these sizes (repeated), rows assigned at random."""
    labels = np.repeat(np.arange(n), np.resize(sizes, n))[:n]
    return Partition.from_labels(np.random.default_rng(seed).permutation(labels))


@pytest.mark.parametrize("basis", BASES, ids=named)
@pytest.mark.parametrize("sizes", [(40,), (1, 2, 3, 7, 31, 33)], ids=["alike", "of one row upwards"])
def test_there_and_back_is_where_one_was(basis, sizes):
    X = table(240, 8)
    before = X.copy()
    T, back = basis.forward(X, groups_of(240, sizes))
    assert T.shape[0] == 240
    np.testing.assert_allclose(back(T), X, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("basis", BASES, ids=named)
@given(n=st.integers(1, 40), d=st.integers(1, 9), parts=st.integers(1, 6), kinds=st.integers(1, 4))
@example(n=1, d=1, parts=1, kinds=1)
@example(n=3, d=9, parts=1, kinds=4)
@example(n=40, d=4, parts=3, kinds=1)
def test_there_and_back_on_any_table(basis, n, d, parts, kinds):
    rng = np.random.default_rng(n * 100 + d)
    X = rng.integers(0, kinds, size=(n, d)).astype(float)  # kinds = 1: every column constant; ties everywhere
    T, back = basis.forward(X, Partition.from_labels(rng.integers(0, parts, n)))
    assert np.isfinite(T).all()
    np.testing.assert_allclose(back(T), X, rtol=0, atol=1e-8)


def test_principal_axes_are_those_of_lapack():
    X, p = table(300, 7), groups_of(300, (25, 60, 4))
    axes = principal_axes(X, p)
    for part in range(p.parts):
        rows = X[p.order[p.starts[part] : p.starts[part + 1]]]
        _, s, Vt = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        alive = np.flatnonzero(s > 1e-6 * s[0])
        np.testing.assert_allclose(axes.s[part, alive], s[alive], rtol=1e-9)
        assert not axes.s[part, len(alive) :].any()
        agreement = np.abs((axes.V[part].T[alive] * Vt[alive]).sum(axis=1))
        np.testing.assert_allclose(agreement, 1.0, atol=1e-8)
        np.testing.assert_allclose(axes.means[part], rows.mean(axis=0), rtol=1e-13)


def test_components_are_orthonormal_although_the_gram_matrix_squares_the_condition():
    rng = np.random.default_rng(1)
    U, _ = np.linalg.qr(rng.normal(size=(400, 12)) - 0.0)
    U, _ = np.linalg.qr(U - U.mean(axis=0))
    V, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    s = np.array([1, 1e-1, 1e-2, 1e-3, 1e-4, 3e-5, 1e-5, 9e-6, 5e-6, 2e-6, 1e-8, 1e-9])
    T, _ = svd_coordinates(U * s @ V.T, Partition.whole(400))
    length = np.linalg.norm(T, axis=0)
    np.testing.assert_allclose(length[:10], s[:10], rtol=1e-6)
    assert not length[10:].any(), "below 1e-6 of the largest, components are dropped"
    Q = T[:, :10] / length[:10]
    # One pass through the Gram matrix leaves about 1e-4 here.
    np.testing.assert_allclose(Q.T @ Q, np.eye(10), atol=1e-9)


@pytest.mark.parametrize("rows", [20, 33])
def test_wide_data_have_as_many_axes_as_rows(rows):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2 * rows, 500)) + 5.0
    p = Partition.from_labels(np.arange(2 * rows) % 2)
    T, back = Svd(per_group=True).forward(X, p)
    assert T.shape == (2 * rows, rows)
    np.testing.assert_allclose(back(T), X, atol=1e-10)
    first = X[p.order[:rows]]
    np.testing.assert_allclose(
        np.linalg.norm(T[p.order[:rows]], axis=0)[:-1],
        np.linalg.svd(first - first.mean(axis=0), compute_uv=False)[:-1],
        rtol=1e-10,
    )


def test_a_long_part_is_summed_in_tiles_to_the_same_axes(monkeypatch):
    X = table(20_000, 6)
    p = Partition.from_labels((np.arange(20_000) % 10 > 0).astype(int))
    at_once = principal_axes(X, p)
    monkeypatch.setattr(svd_module, "_LARGE", 5000)
    in_tiles = principal_axes(X, p)
    np.testing.assert_array_equal(in_tiles.V[0], at_once.V[0])  # the short part
    np.testing.assert_allclose(in_tiles.s, at_once.s, rtol=1e-11)
    np.testing.assert_allclose(in_tiles.V[1], at_once.V[1], atol=1e-8)
    np.testing.assert_allclose(in_tiles.means, at_once.means, rtol=1e-13)


@pytest.mark.parametrize("basis", [Svd(per_group=True), Ica(per_group=True)], ids=named)
def test_a_part_has_the_same_axes_alone_and_in_company(basis, monkeypatch):
    X, p = table(400, 6), groups_of(400, (50, 120, 9))
    T, _ = basis.forward(X, p)
    rows = p.order[p.starts[1] : p.starts[2]]
    alone, _ = basis.forward(X[rows], Partition.whole(len(rows)))
    np.testing.assert_array_equal(T[rows], alone)
    monkeypatch.setenv("GPUANON_THREADS", "1")
    np.testing.assert_array_equal(basis.forward(X, p)[0], T)


def test_global_axes_do_not_look_at_the_groups():
    X = table(100, 5)
    for basis in (Svd(), Ica(), NormalScores()):
        some, other = (basis.forward(X, groups_of(100, sizes))[0] for sizes in ((10,), (30, 5)))
        np.testing.assert_array_equal(some, other)


def test_normal_scores_are_those_of_the_definition():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.exponential(size=90), rng.integers(0, 4, 90)]).astype(float)
    p = groups_of(90, (30, 45))
    T, _ = normal_scores(X, p)
    for part in range(p.parts):
        rows = p.order[p.starts[part] : p.starts[part + 1]]
        expected = stats.norm.ppf((stats.rankdata(X[rows], axis=0) - 0.5) / len(rows))
        np.testing.assert_allclose(T[rows], expected, rtol=1e-12, atol=1e-14)


def test_the_way_back_from_normal_scores_gives_real_values_and_stays_in_range():
    rng = np.random.default_rng(4)
    X = np.column_stack([rng.lognormal(size=60), rng.integers(0, 3, 60)]).astype(float)
    T, back = normal_scores(X, Partition.whole(60))
    np.testing.assert_array_equal(back(T), X)
    np.testing.assert_array_equal(back(T[::-1]), X[::-1])
    far = back(T + 5 * rng.normal(size=T.shape))
    assert (far >= X.min(axis=0)).all()
    assert (far <= X.max(axis=0)).all()
    quarter = back(np.full((60, 2), stats.norm.ppf(0.25)))
    np.testing.assert_allclose(quarter[0, 0], np.quantile(X[:, 0], 0.25, method="hazen"))


@pytest.mark.parametrize("basis", BASES, ids=named)
def test_bases_run_where_the_array_lives(basis, xp):
    X, p = table(90, 5), groups_of(90, (20, 7))
    moved = Partition(xp.asarray(p.order), xp.asarray(p.starts))
    T, back = basis.forward(xp.asarray(X), moved)
    assert isinstance(T, xp.ndarray)
    assert isinstance(back(T), xp.ndarray)
    np.testing.assert_allclose(host(T), basis.forward(X, p)[0], atol=1e-9)
    np.testing.assert_allclose(host(back(T)), X, atol=1e-9)


def test_kernel_coordinates_are_kernel_principal_components_and_explain_curved_data():
    rng = np.random.default_rng(11)
    angle = rng.uniform(0, 1.5 * np.pi, 400)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.02 * rng.normal(size=(400, 2))
    basis = KernelBasis(components=4, landmarks=400)
    T, back = basis.forward(X, Partition.whole(400))
    sigma = float(np.median(pdist(X[np.arange(256) * 400 // 256])))
    reference = KernelPCA(4, kernel="rbf", gamma=0.5 / sigma**2).fit_transform(X - X.mean(axis=0))
    agreement = [abs(np.corrcoef(T[:, j], reference[:, j])[0, 1]) for j in range(4)]
    assert min(agreement) > 0.9999
    # A curve has one dimension, which no single principal component shows: hardly anything is left to explain.
    assert (T[:, 4:] ** 2).sum() < 0.02 * ((X - X.mean(axis=0)) ** 2).sum()
    np.testing.assert_allclose(back(T), X, atol=1e-10)
    middle = T.copy()
    middle[:, 4:] = 0
    radius = np.linalg.norm(back(middle), axis=1)
    assert abs(radius - 1).max() < 0.2, "the way back leads to the curve"


def test_recipes_name_bases():
    parse = TypeAdapter(AnyBasis).validate_python
    assert parse({"use": "svd", "per_group": True}) == Svd(per_group=True)
    assert parse({"use": "normal-scores"}) == NormalScores()
    with pytest.raises(ValueError, match="tolerance"):
        parse({"use": "svd", "tolerance": 0})
