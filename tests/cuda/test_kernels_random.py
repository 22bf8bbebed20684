"""The random-number kernels through NVIDIA's PTX: bit-equal to the published answers and to the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays.kernels import folder
from gpuanon.arrays.normal_quantile import normal_quantile
from gpuanon.arrays.rng import Key, philox
from tests.cuda.support.interpreter import Module
from tests.support.philox import KNOWN, SECRET, words

PROBES = Path(__file__).parent / "probes"
RECORDS = np.concatenate([np.arange(5), [2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53, 2**62]]).astype(np.int64)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_the_published_answers(cp: Any, counter: str, key: str, answer: str) -> None:
    found = philox(cp.asarray(np.array(words(counter), dtype=np.uint32)[:, None]), (words(key)[0], words(key)[1]))
    assert found.get()[:, 0].tolist() == words(answer)


def test_philox_of_many_counters_equals_the_host(cp: Any) -> None:
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


def test_normals_are_bit_equal_to_the_hosts(cp: Any) -> None:
    records = np.arange(2000)
    host, device = Key(SECRET).draws(records, "n"), Key(SECRET).draws(cp.asarray(records), "n")
    expected = host.normal(3)
    assert (np.abs(host.uniform(3) - 0.5) > 0.425).sum() > 500  # tails too
    np.testing.assert_array_equal(device.normal(3).get(), expected)


def test_the_quantile_function_is_bit_equal_to_the_hosts_everywhere() -> None:
    rng = np.random.default_rng(0)
    small = 2.0 ** -rng.uniform(1, 1020, 1000)
    edges = [0.075, 0.925, 0.5, np.exp(-25.0), 2.0**-53, 2.0**-1022, np.sqrt(0.5), 0.25, 1 / 32]
    near = np.concatenate([np.nextafter(edges, 0), edges, np.nextafter(edges, 1)])
    p = np.concatenate([rng.random(1000), small, 1 - 2.0 ** -rng.uniform(1, 53, 500), near])
    p = p[(p >= np.finfo(float).tiny) & (p < 1)]
    header = (folder() / "normal_quantile.cuh").read_text()
    module = Module.from_source(header + (PROBES / "normal_quantile.cu").read_text())
    found = np.empty_like(p)
    module.launch("quantiles", grid=(-(-len(p) // 256),), block=(256,), args=(p, found, np.int32(len(p))))
    np.testing.assert_array_equal(found, normal_quantile(p))


def test_no_records_launch_nothing(cp: Any) -> None:
    nothing = Key(SECRET).draws(cp.asarray(RECORDS[:0]))
    assert nothing.uniform(3).shape == (0, 3)
    assert nothing.keys().shape == (0,)
    assert philox(cp.asarray(np.empty((4, 0), dtype=np.uint32)), (1, 2)).shape == (4, 0)
    assert not cp.launches


def test_records_may_be_a_view(cp: Any) -> None:
    device = Key(SECRET).draws(cp.asarray(np.arange(20))[::2], "v")
    assert np.array_equal(device.words(2).get(), Key(SECRET).draws(np.arange(20)[::2], "v").words(2))
