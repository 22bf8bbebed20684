"""The random-number kernels through NVIDIA's PTX: bit-equal to the published answers and to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuanon.arrays.rng import Key, philox
from tests.test_rng import KNOWN, SECRET, words

RECORDS = np.concatenate([np.arange(5), [2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53, 2**62]]).astype(np.int64)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_the_published_answers(cp: Any, counter: str, key: str, answer: str) -> None:
    found = philox(cp.asarray(np.array(words(counter), dtype=np.uint32)[:, None]), (words(key)[0], words(key)[1]))
    assert found.get()[:, 0].tolist() == words(answer)


def test_philox_of_many_counters_is_that_of_the_host(cp: Any) -> None:
    counters = np.random.default_rng(0).integers(0, 2**32, (4, 700), dtype=np.uint32)
    key = (0x12345678, 0x9ABCDEF0)
    assert np.array_equal(philox(cp.asarray(counters), key).get(), philox(counters, key))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
def test_words_and_uniforms_are_bit_equal_to_the_hosts(cp: Any, count: int) -> None:
    host, device = Key(SECRET).draws(RECORDS, "path"), Key(SECRET).draws(cp.asarray(RECORDS), "path")
    for kind, dtype in (("words", np.uint32), ("uniform", np.float64)):
        found = getattr(device, kind)(count)
        assert isinstance(found, cp.ndarray)
        assert found.dtype == dtype
        assert np.array_equal(found.get(), getattr(host, kind)(count))


def test_permutation_keys_are_bit_equal_to_the_hosts(cp: Any) -> None:
    host, device = Key(SECRET).draws(RECORDS, "path"), Key(SECRET).draws(cp.asarray(RECORDS), "path")
    assert np.array_equal(device.keys().get(), host.keys())


def test_normals_follow_the_same_inverse_to_some_units_in_the_last_place(cp: Any) -> None:
    """Bit-equal uniforms, and two implementations of one function: CUDA states 5 units for its own."""
    records = np.arange(400)
    host, device = Key(SECRET).draws(records, "n"), Key(SECRET).draws(cp.asarray(records), "n")
    expected, found = host.normal(3), device.normal(3).get()
    assert (np.abs(found - expected) <= 8 * np.spacing(np.abs(expected))).all()


def test_no_records_launch_nothing(cp: Any) -> None:
    nothing = Key(SECRET).draws(cp.asarray(RECORDS[:0]))
    assert nothing.uniform(3).shape == (0, 3)
    assert nothing.keys().shape == (0,)
    assert philox(cp.asarray(np.empty((4, 0), dtype=np.uint32)), (1, 2)).shape == (4, 0)
    assert not cp.launches


def test_records_may_be_a_view(cp: Any) -> None:
    device = Key(SECRET).draws(cp.asarray(np.arange(20))[::2], "v")
    assert np.array_equal(device.words(2).get(), Key(SECRET).draws(np.arange(20)[::2], "v").words(2))
