"""The segment kernels through NVIDIA's PTX, against loops over parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuanon.arrays import segments
from gpuanon.arrays.partition import (
    Partition,
    segment_covariances,
    segment_maxima,
    segment_means,
    segment_minima,
    segment_sums,
    shuffle_within,
    sort_within,
)
from gpuanon.errors import ParameterError

FUNCTIONS = {
    "sums": (segment_sums, lambda part: part.sum(axis=0)),
    "means": (segment_means, lambda part: part.mean(axis=0)),
    "minima": (segment_minima, lambda part: part.min(axis=0)),
    "maxima": (segment_maxima, lambda part: part.max(axis=0)),
    "covariances": (segment_covariances, lambda part: np.cov(part.T, bias=True).reshape(part.shape[1], -1)),
}


def labels(n: int) -> np.ndarray[Any, Any]:
    return np.minimum(np.random.default_rng(n).geometric(0.4, n), 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("d", [1, 3, 10, 33])
def test_reductions_are_those_of_each_part(cp: Any, dtype: Any, name: str, d: int) -> None:
    function, reference = FUNCTIONS[name]
    X = np.random.default_rng(d).normal(size=(40, d)).astype(dtype)
    host = Partition.from_labels(labels(40))
    found = function(cp.asarray(X), Partition.from_labels(cp.asarray(labels(40))))
    parts = [X[host.order[a:b]].astype(np.float64) for a, b in zip(host.starts, host.starts[1:], strict=False)]
    assert found.dtype == dtype
    expected = np.stack([reference(part) for part in parts])
    np.testing.assert_allclose(found.get(), expected, rtol=4 * np.finfo(dtype).eps, atol=8 * np.finfo(dtype).eps)


def sum_by_definition(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Up to 32 rows one after another, more in 32 slots, which are added by halving."""
    if len(rows) <= 32:
        total = rows[0]
        for row in rows[1:]:
            total = total + row
        return total
    slots = [sum_by_definition(rows[slot:][::32][:1]) for slot in range(32)]
    for at in range(32, len(rows)):
        slots[at % 32] = slots[at % 32] + rows[at]
    while len(slots) > 1:
        slots = [slots[i] + slots[i + len(slots) // 2] for i in range(len(slots) // 2)]
    return slots[0]


@pytest.mark.parametrize("d", [1, 3, 40])
def test_sums_and_means_are_those_of_the_host_to_the_bit(cp: Any, d: int) -> None:
    """The kernel's own order, interpreted: numbers of very different size, whose sums depend on it; −0 is kept."""
    sizes = np.array(
        [1, 2, 5, 9, 31, 32, 33, 63, 64, 65, 97, 300, 1023, 1024, 1025, 2049] if d == 3 else [1, 7, 32, 75]
    )
    rng = np.random.default_rng(d)
    X = rng.normal(size=(int(sizes.sum()), d)) * 10.0 ** rng.integers(-8, 8, (int(sizes.sum()), d))
    parts = Partition(rng.permutation(len(X)), np.concatenate([[0], np.cumsum(sizes)]))
    X[parts.order[0]] = -0.0
    on_device = cp.asarray(X), Partition(cp.asarray(parts.order), cp.asarray(parts.starts))
    for function in (segment_sums, segment_means):
        expected = function(X, parts)
        np.testing.assert_array_equal(function(*on_device).get().view(np.uint64), expected.view(np.uint64))
    assert np.signbit(segment_sums(X, parts)[0]).all()
    for found, begin, size in zip(segment_sums(X, parts), parts.starts, sizes, strict=False):
        if size <= segments._RUN:
            np.testing.assert_array_equal(found, sum_by_definition(X[parts.order[begin : begin + size]]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_long_parts_are_cut_and_joined(cp: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_RUN", 8)
    monkeypatch.setattr(segments, "_SQUARE_RUN", 8)
    function, reference = FUNCTIONS[name]
    X = np.random.default_rng(1).normal(size=(60, 2))
    host = Partition.from_labels(labels(60))
    found = function(cp.asarray(X), Partition.from_labels(cp.asarray(labels(60)))).get()
    for at in range(host.parts):
        part = X[host.order[host.starts[at] : host.starts[at + 1]]]
        np.testing.assert_allclose(found[at], reference(part), rtol=1e-13, atol=1e-15)


def test_a_part_does_not_depend_on_other_parts_to_the_bit(cp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_RUN", 8)
    X = np.random.default_rng(2).normal(size=(60, 3)).astype(np.float32)
    p = Partition.from_labels(labels(60))
    rows = p.order[p.starts[1] : p.starts[2]]
    together = segment_sums(cp.asarray(X), Partition.from_labels(cp.asarray(labels(60)))).get()[1]
    alone = segment_sums(cp.asarray(X[rows]), Partition.whole(len(rows), like=cp.asarray(X))).get()[0]
    assert np.array_equal(together, alone)


def test_whole_numbers_are_summed_exactly_and_nan_propagates(cp: Any) -> None:
    p = Partition.from_labels(cp.asarray(np.array([0, 1, 0, 1, 1])))
    assert segment_sums(cp.asarray(np.array([2**62, 1, 2**62 - 1, 2, 3])), p).get().tolist() == [2**63 - 1, 6]
    assert segment_sums(cp.asarray(np.array([True, True, True, False, True])), p).get().tolist() == [2, 2]
    assert segment_maxima(cp.asarray(np.array([1, 7, 3, 4, 5], dtype=np.int32)), p).get().tolist() == [3, 7]
    with pytest.raises(ParameterError, match="32-bit"):
        segment_maxima(cp.asarray(np.arange(5)), p)
    holes = cp.asarray(np.array([1.0, np.nan, 3.0, 4.0, 5.0]))
    assert np.isnan(segment_minima(holes, p).get()).tolist() == [False, True]


def test_sorting_within_parts_keeps_every_bit_of_a_key(cp: Any) -> None:
    keys = np.random.default_rng(3).integers(2**63, 2**63 + 4, 50, dtype=np.uint64)
    host, device = Partition.from_labels(labels(50)), Partition.from_labels(cp.asarray(labels(50)))
    assert np.array_equal(sort_within(cp.asarray(keys), device).get(), sort_within(keys, host))
    assert np.array_equal(shuffle_within(cp.asarray(keys), device).get(), shuffle_within(keys, host))
    whole = Partition.whole(50, like=device.order)
    assert np.array_equal(sort_within(cp.asarray(keys), whole).get(), np.argsort(keys, kind="stable"))


def test_no_rows_have_no_parts(cp: Any) -> None:
    nothing = Partition.from_labels(cp.asarray(np.empty(0, dtype=np.int64)))
    for function, _ in FUNCTIONS.values():
        assert len(function(cp.asarray(np.empty((0, 3))), nothing)) == 0
