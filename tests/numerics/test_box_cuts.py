"""Cuts into boxes, against the best cut of a naive search; the search for better boxes never makes them worse."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups import box_improvement
from gpuanon.masking.groups.box_improvement import improve, recut, swapped
from gpuanon.numerics.box_cuts import box_costs, box_cuts, whole_coordinates, whole_sensitivities

Host = np.ndarray[Any, Any]
COLD = [0.0] * 10
"""Rounds of swaps at the temperature zero."""


def cost(x: Host, a: Host, rows: Host) -> int:
    width = x[rows].max(axis=0).astype(int) - x[rows].min(axis=0)
    return int((a[rows].sum(axis=0, dtype=int) * width).sum())


def naive(x: Host, a: Host, rows: Host, k: int) -> list[tuple[int, ...]]:
    """The boxes of recursive best cuts, box by box."""
    if len(rows) < 2 * k:
        return [tuple(sorted(rows.tolist()))]
    found = []
    for j in range(x.shape[1]):
        order = rows[np.lexsort([rows, x[rows, j]])]
        for cut in range(k, len(rows) // k * k, k):
            found.append((cost(x, a, order[:cut]) + cost(x, a, order[cut:]), j, cut, order))
    _, _, cut, order = min(found, key=lambda item: item[:3])
    return naive(x, a, order[:cut], k) + naive(x, a, order[cut:], k)


def boxes(groups: Partition) -> set[tuple[int, ...]]:
    return {tuple(part.tolist()) for part in np.split(groups.order, groups.starts[1:-1])}


tables = st.integers(1, 60).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(1, 4), st.integers(2, 5), st.integers(1, 40), st.integers(0, 10**6))
)


def made(n: int, d: int, levels: int, seed: int) -> tuple[Host, Host]:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, levels, size=(n, d)).astype(np.int32)
    return x, rng.integers(1, 9, size=(n, d)).astype(np.int32)


@settings(max_examples=80, deadline=None)
@given(tables)
@example((20, 2, 2, 1, 0))  # all rows are equal
@example((60, 3, 5, 2, 1))
def test_cuts_are_the_best_of_a_naive_search(case: tuple[int, ...]) -> None:
    n, d, k, levels, seed = case
    x, a = made(n, d, levels, seed)
    found = box_cuts(x, a, Partition.whole(n), k)
    assert boxes(found) == set(naive(x, a, np.arange(n), k))


def test_every_part_is_cut_by_itself() -> None:
    x, a = made(200, 2, 30, 3)
    within = Partition.from_labels(np.arange(200) % 3)
    found = boxes(box_cuts(x, a, within, 4))
    assert found == {box for part in np.split(within.order, within.starts[1:-1]) for box in naive(x, a, part, 4)}


@pytest.mark.parametrize("n", [640, 1279, 5003])
def test_boxes_of_many_rows_hold_k_records_but_for_one(n: int) -> None:
    X = np.random.default_rng(0).normal(size=(n, 2))
    x, a = whole_coordinates(X), whole_sensitivities(np.abs(X), 5)
    sizes = np.sort(box_cuts(x, a, Partition.whole(n), 5).sizes)
    assert sizes.sum() == n
    assert (sizes[:-1] == 5).all()
    assert sizes[-1] == 5 + n % 5


def test_no_cut_makes_a_box_narrower_than_its_floor() -> None:
    x, a = made(300, 2, 1000, 5)
    floors = np.array([200.0, 0.0])
    found = box_cuts(x, a, Partition.whole(300), 3, floors)
    widths = [np.ptp(x[list(box), 0]) for box in boxes(found)]
    assert found.parts > 5
    assert min(widths) >= 200


@pytest.mark.parametrize("seed", range(6))
def test_the_search_never_makes_boxes_worse_or_smaller(seed: int) -> None:
    n, d, k = 331, 1 + seed % 3, 3 + seed % 2
    x, a = made(n, d, 10 if seed % 2 else 5000, seed)
    groups, random = box_cuts(x, a, Partition.whole(n), k), np.random.default_rng(seed)
    start = now = float(box_costs(x, a, groups).sum())
    for size in (2, 3, 8):
        for step in (lambda g: swapped(x, a, g, k, COLD, random), lambda g, size=size: recut(x, a, g, k, size, random)):
            groups = step(groups)
            after = float(box_costs(x, a, groups).sum())
            assert after <= now
            assert groups.sizes.min() >= k
            assert np.array_equal(np.sort(groups.order), np.arange(n))
            now = after
    assert now < start or d == 1


def test_the_search_finds_the_swap_that_mends_two_boxes() -> None:
    x = np.array([[0], [1], [2], [100], [3], [101], [102], [103]], dtype=np.int32)
    a = np.ones_like(x)
    spoiled = Partition.from_labels(np.array([0, 0, 0, 0, 1, 1, 1, 1]))  # 100 is with 0, 1, 2 and 3 with 101 …
    assert boxes(swapped(x, a, spoiled, 4, COLD, np.random.default_rng(0))) == {(0, 1, 2, 4), (3, 5, 6, 7)}


@pytest.mark.parametrize("seed", range(20))
def test_a_pair_carries_out_the_best_swap_of_records_on_its_faces(seed: int) -> None:
    k, d = 2 + seed % 4, 1 + seed % 3
    x, a = made(2 * k, d, 6 if seed % 2 else 1000, seed)
    members = np.random.default_rng(seed).permutation(2 * k).reshape(2, k)
    now = sum(cost(x, a, box) for box in members)
    faces = [{*x[box].argmin(axis=0).tolist(), *x[box].argmax(axis=0).tolist()} for box in members]
    found = []
    for i, j in itertools.product(*faces):
        one, two = members.copy()
        one[i], two[j] = two[j], one[i]
        found.append(cost(x, a, one) + cost(x, a, two))
    for heat, most in ((0.0, now), (1.0, now + now / (2 * k))):
        after = members.copy()
        pair = np.array([0]), np.array([1])
        box_improvement._swap(x, a, after, np.full(2, k), *pair, np.array([heat]))
        assert sum(cost(x, a, box) for box in after) == (min(found) if min(found) < most else now)


def test_a_positive_temperature_ends_at_better_boxes_and_never_at_worse_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: dict[float, list[float]] = {}
    for heat, seed in itertools.product((0.0, 0.5), range(4)):
        monkeypatch.setattr(box_improvement, "_HEAT", heat)
        x, a = made(600, 3, 5000, seed)
        groups = box_cuts(x, a, Partition.whole(600), 4)
        after = float(box_costs(x, a, improve(x, a, groups, 4, 8)).sum())
        assert after < float(box_costs(x, a, groups).sum())
        costs.setdefault(heat, []).append(after)
    assert sum(costs[0.5]) < 0.99 * sum(costs[0.0])


def test_boxes_that_cost_more_than_those_of_the_start_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    x, a = made(200, 2, 5000, 1)
    groups = box_cuts(x, a, Partition.whole(200), 4)
    monkeypatch.setattr(box_improvement, "swapped", lambda *rest: Partition.from_labels(np.arange(200) % 50))
    monkeypatch.setattr(box_improvement, "recut", lambda x, a, now, *rest: now)
    assert improve(x, a, groups, 4, 2) is groups


def test_the_search_gives_the_same_boxes_again() -> None:
    x, a = made(400, 3, 1000, 9)
    groups = box_cuts(x, a, Partition.whole(400), 4)
    first, again = (improve(x, a, groups, 4, 3) for _ in range(2))
    assert np.array_equal(first.labels(), again.labels())


def test_costs_are_those_of_the_definition() -> None:
    x, a = made(50, 3, 100, 2)
    groups = box_cuts(x, a, Partition.whole(50), 4)
    assert box_costs(x, a, groups).tolist() == [
        cost(x, a, part) for part in np.split(groups.order, groups.starts[1:-1])
    ]
