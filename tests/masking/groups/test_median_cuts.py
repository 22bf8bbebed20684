"""Median cuts, against recursions written from the papers, and cases in which they must fail."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from gpuanon.arrays.partition import Partition, segment_means
from gpuanon.arrays.rng import Key
from gpuanon.errors import GuaranteeError, ParameterError
from gpuanon.masking.groups import AnyGroups
from gpuanon.masking.groups.median_cuts import MedianCuts, all_cuts, small_share, widest_cuts
from tests.cuda.fixtures import host, xp

__all__ = ["xp"]


def draws(n: int):
    return Key(b"median cuts tests").draws(np.arange(n))


def as_sets(p: Partition) -> set[frozenset[int]]:
    return {frozenset(p.order[a:b].tolist()) for a, b in zip(p.starts[:-1], p.starts[1:], strict=True)}


def widest_by_recursion(X: np.ndarray, rows: np.ndarray, k: int) -> list[frozenset[int]]:
    """SPECTRAL-RHS as printed (Lasko 2007, fig. 4-2), with the tie rules stated for `widest_cuts`."""
    ranges = X[rows].max(axis=0) - X[rows].min(axis=0)
    if len(rows) <= 2 * k or ranges.max() == 0:
        return [frozenset(rows.tolist())]
    order = rows[np.argsort(X[rows, ranges.argmax()], kind="stable")]
    halves = np.sort(order[: len(rows) // 2]), np.sort(order[len(rows) // 2 :])
    return [group for half in halves for group in widest_by_recursion(X, half, k)]


def all_by_recursion(X: np.ndarray, rows: np.ndarray, k: int) -> list[frozenset[int]]:
    """RHS: one group for each pattern of above and not above the medians, again on groups above 2k."""
    if len(rows) <= 2 * k:
        return [frozenset(rows.tolist())]
    patterns: dict[tuple[bool, ...], list[int]] = {}
    for row, above in zip(rows, X[rows] > np.median(X[rows], axis=0), strict=True):
        patterns.setdefault(tuple(above), []).append(row)
    if len(patterns) == 1:
        return [frozenset(rows.tolist())]
    return [group for members in patterns.values() for group in all_by_recursion(X, np.array(members), k)]


@given(n=st.integers(2, 200), d=st.integers(1, 4), k=st.integers(2, 9), kinds=st.integers(1, 50))
@example(n=200, d=2, k=2, kinds=1)
@example(n=4, d=1, k=2, kinds=3)
@example(n=5, d=1, k=2, kinds=3)
def test_widest_cuts_are_the_printed_recursion(n, d, k, kinds):
    k = min(k, n)
    X = np.random.default_rng(n + kinds).integers(0, kinds, size=(n, d)).astype(float)
    p = widest_cuts(X, Partition.whole(n), k)
    assert as_sets(p) == set(widest_by_recursion(X, np.arange(n), k))
    assert p.sizes.min() >= k


@given(n=st.integers(1, 200), d=st.integers(1, 5), k=st.integers(2, 9), kinds=st.integers(1, 50))
@example(n=50, d=3, k=2, kinds=1)
@example(n=60, d=1, k=3, kinds=2)
def test_all_cuts_are_the_recursion_of_rhs(n, d, k, kinds):
    X = np.random.default_rng(n + kinds).integers(0, kinds, size=(n, d)).astype(float)
    assert as_sets(all_cuts(X, Partition.whole(n), k)) == set(all_by_recursion(X, np.arange(n), k))


def test_more_columns_than_a_word_has_bits():
    X = np.random.default_rng(0).normal(size=(40, 130))
    X[20:] = X[:20]  # every group is a pair of equal rows
    groups = all_cuts(X, Partition.whole(40), 3)
    assert as_sets(groups) == {frozenset((i, i + 20)) for i in range(20)}


def test_parts_are_refined_not_crossed():
    rng = np.random.default_rng(1)
    X, within = rng.normal(size=(300, 3)), Partition.from_labels(rng.integers(0, 4, 300))
    labels = within.labels()
    for cuts in (widest_cuts, all_cuts):
        p = cuts(X, within, 5)
        for group in as_sets(p):
            assert len({labels[row] for row in group}) == 1
    for part in range(4):
        rows = within.order[within.starts[part] : within.starts[part + 1]]
        alone = {
            frozenset(rows[list(group)].tolist())
            for group in as_sets(widest_cuts(X[rows], Partition.whole(len(rows)), 5))
        }
        assert alone <= as_sets(widest_cuts(X, within, 5))


def test_spectral_rhs_cuts_principal_components_and_mondrian_normalised_columns():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3)) @ np.diag([1.0, 100.0, 0.01])
    _, _, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    Vt *= np.sign(Vt[np.arange(3), np.abs(Vt).argmax(axis=1)])[:, None]  # which half is lower depends on the sign
    expected = widest_cuts((X - X.mean(axis=0)) @ Vt.T, Partition.whole(400), 6)
    assert as_sets(MedianCuts(k=6, on="svd").form(X, draws(400))) == as_sets(expected)
    expected = widest_cuts(X / np.ptp(X, axis=0), Partition.whole(400), 6)
    assert as_sets(MedianCuts(k=6).form(X, draws(400))) == as_sets(expected)


def test_groups_are_near_each_other():
    X = np.random.default_rng(3).normal(size=(2000, 4))
    p = MedianCuts(k=5).form(X, draws(2000))
    within = ((X - segment_means(X, p)[p.labels()]) ** 2).sum()
    assert within / ((X - X.mean(axis=0)) ** 2).sum() < 0.25


def test_rhs_refuses_high_dimension_quickly_and_says_why():
    X = np.random.default_rng(4).normal(size=(2000, 28))
    start = time.perf_counter()
    with pytest.raises(GuaranteeError, match=r"all 28 columns at once leaves 100\.0% .*% alone(.|\n)*spectral-rhs"):
        MedianCuts(k=5, columns="all").form(X, draws(2000))
    assert time.perf_counter() - start < 5
    assert small_share(all_cuts(X, Partition.whole(2000), 5), 2) >= 0.9


def test_rhs_works_where_it_can():
    X = np.random.default_rng(5).normal(size=(512, 1))
    p = MedianCuts(k=8, columns="all").form(X, draws(512))
    assert (p.sizes == 16).all()


def test_too_few_rows_are_refused():
    for columns in ("widest", "all"):
        with pytest.raises(ParameterError, match="at least 5 rows were asked for, got 4 rows"):
            MedianCuts(k=5, columns=columns).form(np.zeros((4, 2)), draws(4))


def test_recipes_name_median_cuts():
    parsed = TypeAdapter(AnyGroups).validate_python({"use": "median-cuts", "k": 7, "on": "svd"})
    assert parsed == MedianCuts(k=7, on="svd")


@pytest.mark.parametrize("columns", ["widest", "all"])
@pytest.mark.parametrize("values", [1000, 4, 1], ids=["distinct", "ties", "equal"])
def test_they_run_on_the_device_of_the_array(columns, values, xp):
    rng = np.random.default_rng(6)
    X = rng.integers(0, values, size=(190, 3)) + (rng.random((190, 3)) if values == 1000 else 0.0)
    X[::7] = X[0]
    cuts = widest_cuts if columns == "widest" else all_cuts
    moved = xp.asarray(X)
    for parts in (Partition.whole(190), Partition.from_labels(rng.integers(0, 5, 190))):
        p = cuts(moved, Partition(xp.asarray(parts.order), xp.asarray(parts.starts)), 3)
        assert isinstance(p.order, xp.ndarray)
        expected = cuts(X, parts, 3)
        np.testing.assert_array_equal(host(p.order), expected.order)
        np.testing.assert_array_equal(host(p.starts), expected.starts)
