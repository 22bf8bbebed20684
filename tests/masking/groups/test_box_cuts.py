"""Cuts into boxes, against the best cut of a naive search; the search for better boxes never makes them worse."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups.boxes import box_improvement
from gpuanon.masking.groups.boxes.box_cuts import BoxCost, box_cuts, whole_coordinates
from gpuanon.masking.groups.boxes.box_improvement import NearBoxes, exchanged, improve, recut
from gpuanon.masking.groups.boxes.sensitivities import Form, Gradient, Term

Host = np.ndarray[Any, Any]
COLD = [0.0] * 10
"""Rounds of swaps at the temperature zero."""


def cost(x: Host, model: BoxCost, rows: Host) -> int:
    """Of the tight box of some rows, column by column."""
    low, high = x[rows].min(axis=0).tolist(), x[rows].max(axis=0).tolist()
    total = 0
    for i, constant in enumerate(model.constant):
        a = constant
        for form in model.forms:
            value = abs(sum(factor * (low[j] + high[j] - model.middle[j]) for j, factor in form.factors))
            least = [abs(f) * (high[j] - low[j]) for j, f in form.factors if j != form.own]
            least += [abs(f) * (high[j] - low[j]) / 4 + value / 2 for j, f in form.factors if j == form.own]
            a += dict(form.weights).get(i, 0.0) * max([value, *least])
        total += (high[i] - low[i]) * int(max(a, model.least))
    return len(rows) * total


def naive(x: Host, model: BoxCost, rows: Host, k: int) -> list[tuple[int, ...]]:
    """The boxes of recursive best cuts, box by box."""
    if len(rows) < 2 * k:
        return [tuple(sorted(rows.tolist()))]
    found = []
    for j in range(x.shape[1]):
        order = rows[np.lexsort([rows, x[rows, j]])]
        for cut in range(k, len(rows) // k * k, k):
            found.append((cost(x, model, order[:cut]) + cost(x, model, order[cut:]), j, cut, order))
    _, _, cut, order = min(found, key=lambda item: item[:3])
    return naive(x, model, order[:cut], k) + naive(x, model, order[cut:], k)


def boxes(groups: Partition) -> set[tuple[int, ...]]:
    return {tuple(part.tolist()) for part in np.split(groups.order, groups.starts[1:-1])}


tables = st.integers(1, 60).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(1, 4), st.integers(2, 5), st.integers(1, 40), st.integers(0, 10**6))
)


def made(n: int, d: int, levels: int, seed: int) -> tuple[Host, BoxCost]:
    """Rows on a small grid, and a cost with constants, products, squares and mixed forms; eighths are exact."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, levels, size=(n, d)).astype(np.int32)
    forms = [
        Form(((j, 1.0),), j if seed % 2 else None, tuple((i, 0.125 * (1 + i)) for i in range(d))) for j in range(d)
    ]
    if d > 1 and seed % 3:
        forms.append(Form(((0, 0.5), (1, -0.25)), 0, ((0, 2.0),)))
    middle, constant = rng.integers(0, 2 * levels, size=d), rng.integers(1, 9, size=d)
    return x, BoxCost(tuple(middle.astype(float)), tuple(constant.astype(float)), tuple(forms))


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
    terms = (Term("covariance", (0, 1)),)
    x, a = whole_coordinates(X), BoxCost.of(X, Gradient.of(terms, np.zeros(2), np.eye(2)), 5)
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
    start = now = float(a.of_groups(x, groups).sum())
    for size in (2, 3, 8):
        for step in (
            lambda g: exchanged(x, a, g, k, COLD, random),
            lambda g, size=size: recut(x, a, g, k, size, random),
        ):
            groups = step(groups)
            after = float(a.of_groups(x, groups).sum())
            assert after <= now
            assert groups.sizes.min() >= k
            assert np.array_equal(np.sort(groups.order), np.arange(n))
            now = after
    assert now < start or d == 1


def test_the_search_finds_the_swap_that_mends_two_boxes() -> None:
    x = np.array([[0], [1], [2], [100], [3], [101], [102], [103]], dtype=np.int32)
    a = BoxCost((0.0,), (1.0,), ())
    spoiled = Partition.from_labels(np.array([0, 0, 0, 0, 1, 1, 1, 1]))  # 100 is with 0, 1, 2 and 3 with 101 …
    assert boxes(exchanged(x, a, spoiled, 4, COLD, np.random.default_rng(0))) == {(0, 1, 2, 4), (3, 5, 6, 7)}


def held(x: Host, a: BoxCost, groups: Partition, k: int, width: int) -> NearBoxes:
    """Boxes with room for `width` rows."""
    boxes = NearBoxes.of(x, a, groups, np.arange(groups.parts), k)
    more = np.zeros((groups.parts, max(0, width - boxes.width)), dtype=np.int64)
    return NearBoxes(boxes.x, a, np.hstack([boxes.members, more]), boxes.sizes, k)


def rows_of(boxes: NearBoxes) -> list[Host]:
    return [row[:size] for row, size in zip(boxes.members, boxes.sizes, strict=True)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("extra", [(0, 0), (1, 0), (2, 1)])
def test_a_pair_carries_out_the_best_exchange_of_records_on_its_faces(seed: int, extra: tuple[int, int]) -> None:
    k, d = 2 + seed % 4, 1 + seed % 3
    sizes = np.array([k, k]) + extra
    x, a = made(int(sizes.sum()), d, 6 if seed % 2 else 1000, seed)
    labels = np.random.default_rng(seed).permutation(np.repeat([0, 1], sizes))
    start = held(x, a, Partition.from_labels(labels), k, k + 2)
    members = rows_of(start)
    now = sum(cost(x, a, box) for box in members)
    faces = [sorted({*x[box].argmin(axis=0).tolist(), *x[box].argmax(axis=0).tolist()}) for box in members]
    found = []
    for i, j in itertools.product(*faces):
        one, two = (box.copy() for box in members)
        one[i], two[j] = two[j], one[i]
        found.append(cost(x, a, one) + cost(x, a, two))
    for source, target in ((0, 1), (1, 0)):
        if sizes[source] > k and sizes[target] < start.width:
            for i in faces[source]:
                larger = np.append(members[target], members[source][i])
                found.append(cost(x, a, np.delete(members[source], i)) + cost(x, a, larger))
    for heat, most in ((0.0, now), (1.0, now + now / sizes.sum())):
        after = held(x, a, Partition.from_labels(labels), k, k + 2)
        after.exchange(np.array([1, 0]), np.array([True, False]), np.full(2, heat))
        assert sum(cost(x, a, box) for box in rows_of(after)) == (min(found) if min(found) < most else now)
        assert np.array_equal(np.sort(np.concatenate(rows_of(after))), np.arange(sizes.sum()))
        assert after.sizes.min() >= k


@pytest.mark.parametrize(("seed", "far"), [(seed, seed < 8) for seed in range(20)])
def test_a_box_is_dissolved_where_the_boxes_that_its_records_join_cost_less(seed: int, far: bool) -> None:
    k, d = 3, 1 + seed % 3
    x, a = made(12, d, 9 if seed % 2 else 1000, seed)
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(4), k))
    if far:  # three narrow boxes far from each other, and one with a record in each of them
        labels = np.array([1, 1, 1, 0, 2, 2, 2, 0, 3, 3, 3, 0])
        x = (x % 9 + 10_000 * (np.arange(12) // 4)[:, None]).astype(np.int32)
    boxes = held(x, a, Partition.from_labels(labels), k, 2 * k)
    members = rows_of(boxes)
    costs = [cost(x, a, box) for box in members]
    choices = [min((1, 2, 3), key=lambda t: cost(x, a, np.append(members[t], row)) - costs[t]) for row in members[0]]
    joined = [np.append(members[t], members[0][np.array(choices) == t]) for t in (1, 2, 3)]
    after = sum(cost(x, a, box) for box in joined)
    mates = np.array([[1, 0, 0, 0], [2, 2, 1, 1], [3, 3, 3, 2]])
    boxes.dissolve(mates, np.array([True, False, False, False]), np.zeros(4))
    found = sum(cost(x, a, box) for box in rows_of(boxes) if len(box))
    assert found == min(after, sum(costs))
    assert (boxes.sizes[0] == 0) == (after < sum(costs))
    assert boxes.sizes[0] == 0 or not far
    assert np.array_equal(np.sort(np.concatenate(rows_of(boxes))), np.arange(12))


def test_two_boxes_that_are_dissolved_at_once_share_no_mate() -> None:
    rng = np.random.default_rng(1)
    x, a = made(400, 2, 1000, 1)
    boxes = held(x, a, Partition.from_labels(rng.permutation(400) % 80), 5, 8)
    mates = rng.integers(0, 80, size=(6, 80))
    boxes.dissolve(mates, rng.random(80) < 0.3, np.full(80, 1e9))
    assert (boxes.sizes == 0).sum() > 3
    assert boxes.sizes.max() <= 8
    assert np.array_equal(np.sort(np.concatenate(rows_of(boxes))), np.arange(400))


def test_a_positive_temperature_ends_at_better_boxes_and_never_at_worse_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: dict[float, list[float]] = {}
    for heat, seed in itertools.product((0.0, 0.5), range(4)):
        monkeypatch.setattr(box_improvement, "_HEAT", heat)
        x, a = made(600, 3, 5000, seed)
        groups = box_cuts(x, a, Partition.whole(600), 4)
        after = float(a.of_groups(x, improve(x, a, groups, 4, 8)).sum())
        assert after < float(a.of_groups(x, groups).sum())
        costs.setdefault(heat, []).append(after)
    assert sum(costs[0.5]) < 0.99 * sum(costs[0.0])


def test_boxes_that_cost_more_than_those_of_the_start_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    x, a = made(200, 2, 5000, 1)
    groups = box_cuts(x, a, Partition.whole(200), 4)
    monkeypatch.setattr(box_improvement, "exchanged", lambda *rest: Partition.from_labels(np.arange(200) % 50))
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
    assert a.of_groups(x, groups).tolist() == [cost(x, a, part) for part in np.split(groups.order, groups.starts[1:-1])]
