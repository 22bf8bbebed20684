"""Swapping: permutations inside groups, correlations within their limit, covariances kept."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.bases.linear import Svd, svd_coordinates
from gpuanon.masking.given import Records
from gpuanon.masking.operations.added_noise import Noise, add_noise
from gpuanon.masking.operations.swap import Swap, swap
from gpuanon.numerics.lockstep import random_order
from tests.cuda.fixtures import host, xp

__all__ = ["xp"]


def draws(n: int, name: str = "", secret: bytes = b"swap tests, swap tests"):
    return Key(secret).draws(np.arange(n), name)


def skewed(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.exponential(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)


def rows_of(p: Partition, part: int) -> np.ndarray:
    return p.order[p.starts[part] : p.starts[part + 1]]


@given(n=st.integers(1, 60), c=st.integers(1, 5), parts=st.integers(1, 9))
@example(n=1, c=1, parts=1)
@example(n=60, c=3, parts=1)
def test_every_column_is_permuted_inside_its_group(n, c, parts):
    T = np.random.default_rng(n).normal(size=(n, c))
    p = Partition.from_labels(np.random.default_rng(c).integers(0, parts, n))
    out = swap(T, p, draws(n))
    for part in range(p.parts):
        rows = rows_of(p, part)
        np.testing.assert_array_equal(np.sort(out[rows], axis=0), np.sort(T[rows], axis=0))


def test_permutations_are_uniform_and_columns_independent():
    # 4000 groups of three records, two columns: each of the 36 pairs of permutations is equally likely.
    n = 12_000
    T = np.tile(np.arange(3.0)[:, None], (n // 3, 2))
    out = swap(T, Partition.from_labels(np.arange(n) // 3), draws(n)).reshape(-1, 3, 2)
    counts = Counter(map(bytes, out.astype(np.uint8)))
    expected = len(out) / 36
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert len(counts) == 36
    assert chi_square < 66.6, "the 0.999 quantile of 35 degrees of freedom"


def test_a_group_is_swapped_alike_alone_in_company_and_in_any_row_order(monkeypatch):
    T = skewed(500, 4)
    p = Partition.from_labels(np.arange(500) % 7)
    options = {"tol": 0.2, "orthonormal": True}
    out = swap(T, p, draws(500), **options)
    rows = rows_of(p, 3)
    alone = swap(T[rows], Partition.whole(len(rows)), draws(500).take(rows), **options)
    np.testing.assert_array_equal(out[rows], alone)
    monkeypatch.setenv("GPUANON_THREADS", "1")
    np.testing.assert_array_equal(swap(T, p, draws(500), **options), out)


def test_another_key_swaps_differently():
    T = skewed(200, 3)
    whole = Partition.whole(200)
    first, again, other = (swap(T, whole, draws(200, secret=secret)) for secret in (b"1" * 16, b"1" * 16, b"2" * 16))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.9


def test_a_long_part_takes_the_same_permutations_as_the_definition():
    n = 70_000
    T = np.arange(n, dtype=float)[:, None] * np.ones(2)
    out = swap(T, Partition.whole(n), draws(n))
    words = draws(n).words(2)
    for j in range(2):
        np.testing.assert_array_equal(out[:, j], np.argsort(words[:, j], kind="stable"))


def test_random_order_breaks_ties_by_position_and_leaves_padding_last():
    words = np.array([[5, 2, 5, 2, 4294967295, 0, 0]], dtype=np.uint32)
    valid = np.array([[True] * 5 + [False] * 2])
    np.testing.assert_array_equal(random_order(words, valid), [[1, 3, 0, 2, 4, 5, 6]])


@pytest.mark.parametrize(("n", "d", "tol"), [(2000, 12, 0.05), (150, 20, 0.08), (2000, 8, 0.01)])
def test_correlations_of_swapped_components_are_within_tol(n, d, tol):
    X = skewed(2 * n, d)
    p = Partition.from_labels(np.arange(2 * n) % 2)
    T, back = svd_coordinates(X, p)
    out = swap(T, p, draws(2 * n), tol=tol)
    for part in range(2):
        rows = rows_of(p, part)
        assert np.abs(np.corrcoef(out[rows].T) - np.eye(d)).max() <= tol * (1 + 1e-9)
        np.testing.assert_array_equal(np.sort(out[rows], axis=0), np.sort(T[rows], axis=0))
        np.testing.assert_allclose(back(out)[rows].mean(axis=0), X[rows].mean(axis=0), rtol=1e-12, atol=1e-12)


def test_only_columns_above_the_limit_are_drawn_again():
    X = skewed(2000, 10)
    whole = Partition.whole(2000)
    T, _ = svd_coordinates(X, whole)
    plain, limited = swap(T, whole, draws(2000)), swap(T, whole, draws(2000), tol=0.05)
    same = (plain == limited).all(axis=0)
    correlation = np.abs(np.corrcoef(plain.T) - np.eye(10))
    first_bad = int(np.argmax(np.tril(correlation, -1).max(axis=1) > 0.05))
    assert 0 < first_bad < 10
    assert same[:first_bad].all()
    assert not same[first_bad]
    assert same.sum() >= 5, "columns are drawn again one at a time, never all at once"


def test_correlations_of_the_release_stay_within_the_bound():
    # |Δcov_ij| ≤ ε σ_i σ_j with ε = ‖corr(Ũ) − I‖₂, so |Δcorr| ≤ 2ε / (1 − ε).
    for seed in range(5):
        X = skewed(800, 9, seed)
        whole = Partition.whole(800)
        T, back = svd_coordinates(X, whole)
        swapped = swap(T, whole, draws(800, str(seed)), tol=0.05)
        epsilon = np.linalg.norm(np.corrcoef(swapped.T) - np.eye(9), 2)
        release = back(swapped)
        deviations = X.std(axis=0)
        change = np.abs(np.cov(release.T) - np.cov(X.T)) / np.outer(deviations, deviations) * (799 / 800)
        assert change.max() <= epsilon * (1 + 1e-9)
        assert np.abs(np.corrcoef(release.T) - np.corrcoef(X.T)).max() <= 2 * epsilon / (1 - epsilon)


def test_a_limit_that_cannot_be_met_is_refused_in_words():
    X = np.repeat(np.eye(6), 2, axis=0)
    T, _ = svd_coordinates(X, Partition.whole(12))
    with pytest.raises(ParameterError, match=r"tol: .*0\.001 in 1 of 1 groups .*12 rows(.|\n)*orthonormal"):
        swap(T, Partition.whole(12), draws(12), tol=0.001)


@pytest.mark.parametrize("sizes", [(1000,), (60, 200, 41), (7, 2, 3, 12)], ids=str)
def test_orthonormal_keeps_the_covariance_of_every_group(sizes):
    n, d = 1000, 6
    labels = np.repeat(np.arange(n), np.resize(sizes, n))[:n]
    p = Partition.from_labels(labels)
    X = skewed(n, d)
    X[:, 5] = np.where(X[:, 4] > X[:, 4].mean(), 1.0, -1.0)  # few values: columns may coincide when swapped
    T, back = svd_coordinates(X, p)
    release = back(swap(T, p, draws(n), orthonormal=True))
    scale = np.abs(np.cov(X.T)).max()
    assert np.abs(np.cov(release.T) - np.cov(X.T)).max() <= 1e-10 * scale
    for part in range(p.parts):
        rows = rows_of(p, part)
        np.testing.assert_allclose(release[rows].mean(axis=0), X[rows].mean(axis=0), atol=1e-10)
        if len(rows) > 1:
            np.testing.assert_allclose(np.cov(release[rows].T), np.cov(X[rows].T), atol=1e-10 * scale)


def test_orthonormal_changes_swapped_columns_as_little_as_possible():
    T, _ = svd_coordinates(skewed(1500, 8), Partition.whole(1500))
    plain = swap(T, Partition.whole(1500), draws(1500))
    turned = swap(T, Partition.whole(1500), draws(1500), orthonormal=True)
    agreement = [np.corrcoef(plain[:, j], turned[:, j])[0, 1] for j in range(8)]
    assert min(agreement) > 0.995


def test_orthonormal_keeps_correlated_coordinates_correlated():
    X = skewed(300, 4)
    out = swap(X, Partition.whole(300), draws(300), orthonormal=True)
    np.testing.assert_allclose(np.cov(out.T), np.cov(X.T), rtol=1e-10)
    assert np.abs(np.corrcoef(out[:, 0], X[:, 0])[0, 1]) < 0.3


def test_orthonormal_needs_more_rows_than_columns():
    with pytest.raises(ParameterError, match="as many columns as rows"):
        swap(skewed(4, 4), Partition.whole(4), draws(4), orthonormal=True)


def test_the_model_swaps_its_stream_of_the_records():
    X = skewed(200, 5)
    T, back = Svd().forward(X, Partition.whole(200))
    before = T.copy()
    outcome = Swap(tol=0.2).apply(T, Partition.whole(200), Records(draws(200)))
    np.testing.assert_array_equal(T, before)
    np.testing.assert_array_equal(outcome.values, swap(T, Partition.whole(200), draws(200).child("swap"), tol=0.2))
    assert back(outcome.values).shape == X.shape
    with pytest.raises(ValueError, match="tol"):
        Swap(tol=0)


def test_it_runs_where_the_array_lives(xp):
    X = skewed(150, 4)
    p = Partition.from_labels(np.arange(150) % 2)
    T, _ = svd_coordinates(X, p)
    moved = Partition(xp.asarray(p.order), xp.asarray(p.starts))
    records = Key(b"swap tests, swap tests").draws(xp.arange(150))
    for options in ({}, {"tol": 0.12}, {"orthonormal": True}):
        out = swap(xp.asarray(T), moved, records, **options)
        assert isinstance(out, xp.ndarray)
        np.testing.assert_allclose(host(out), swap(T, p, draws(150), **options), atol=1e-9)


@pytest.mark.parametrize("kind", ["uncorrelated", "correlated", "corrected"])
def test_noise_has_the_variance_it_says(kind):
    n, b = 60_000, 0.3
    X = skewed(n, 3)
    p = Partition.from_labels((np.arange(n) % 3 > 0).astype(int))
    X[rows_of(p, 1)] *= 5.0  # each group has a spread of its own
    release = add_noise(X, p, draws(n), b, kind)
    for part in range(2):
        rows = rows_of(p, part)
        covariance = np.cov(X[rows].T)
        noise = release[rows] - X[rows]
        if kind == "corrected":
            np.testing.assert_allclose(np.cov(release[rows].T), covariance, rtol=0.1, atol=0.05 * covariance.max())
            continue
        wanted = b * (np.diag(np.diag(covariance)) if kind == "uncorrelated" else covariance)
        error = np.abs(np.cov(noise.T) - wanted) / np.sqrt(np.outer(np.diag(wanted), np.diag(wanted)))
        assert error.max() < 5 / math.sqrt(len(rows) / 2)
        assert np.abs(np.corrcoef(noise[:, 0], X[rows, 0])[0, 1]) < 5 / math.sqrt(len(rows))


def test_correlated_noise_stays_on_the_surface_of_the_data():
    X = skewed(500, 3)
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    release = Noise(b=0.5, kind="correlated").apply(X, Partition.whole(500), Records(draws(500))).values
    np.testing.assert_allclose(release[:, 3], release[:, 0] + release[:, 1], atol=1e-9)
