"""CuPy's current device and stream belong to a thread: work on a device stays in the thread that asked for it."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.arrays.threads import each, uses_device
from gpuanon.masking.given import Records
from gpuanon.numerics.distance.distance import nearest
from gpuanon.numerics.metric import Metric
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.faults import WrongStream
from tests.support.every import recipe, registry
from tests.support.groups import refine_briefly

X = np.random.default_rng(1).normal(size=(400, 3))


def test_the_stand_in_refuses_an_array_of_another_thread() -> None:
    with fake_cupy() as cp, ThreadPoolExecutor(1) as pool:
        x = cp.asarray(X)
        with pytest.raises(WrongStream, match="by another thread"):
            pool.submit(lambda: x + 1).result()
        made = pool.submit(lambda: cp.zeros(3)).result()
        with pytest.raises(WrongStream):
            made.sum()
        cp.cuda.Device().synchronize()
        assert pool.submit(lambda: float(x[0, 0])).result() == X[0, 0]


def test_the_stand_in_refuses_an_array_of_another_stream() -> None:
    with fake_cupy() as cp:
        x = cp.asarray(X)
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            with pytest.raises(WrongStream):
                x.sum()
            y = cp.ones(3)
        with pytest.raises(WrongStream):
            y + 1
        stream.synchronize()
        assert (y + 1).tolist() == [2, 2, 2]


def test_the_stand_in_refuses_an_array_of_another_device() -> None:
    with fake_cupy(devices=2) as cp:
        x = cp.asarray(X)
        with cp.cuda.Device(1), pytest.raises(WrongStream, match="on device 0, and the current device"):
            x.sum()
        with ThreadPoolExecutor(1) as pool, cp.cuda.Device(1):
            assert pool.submit(lambda: cp.cuda.Device().id).result() == 0  # a thread starts on device 0


def test_batches_of_device_arrays_are_worked_on_by_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUANON_THREADS", "4")
    with fake_cupy(devices=2) as cp, cp.cuda.Device(1), cp.cuda.Stream():
        x = cp.asarray(X)

        def work(at: int) -> Any:
            assert threading.current_thread() is threading.main_thread()
            return x[at] + 1

        np.testing.assert_array_equal(cp.stack(each(work, range(8))).get(), X[:8] + 1)
        assert each(lambda row: threading.current_thread() is threading.main_thread(), [x[0], x[1]]) == [True, True]
        assert not all(each(lambda at: threading.current_thread() is threading.main_thread(), range(8)))


def test_device_arrays_are_found_where_functions_hold_them() -> None:
    with fake_cupy() as cp:
        x = cp.asarray(X)
        parts = Partition.whole(400, like=x)
        records = Records(Key(b"a key for threads on the device").draws(cp.arange(3)))
        held: list[Any] = [
            x, (1, [x]), {"a": x}, parts, records, lambda: x, functools.partial(len, x), parts.labels,
            lambda: parts, (lambda inner: lambda: inner)(records), lambda a=x: a,
        ]  # fmt: skip
        assert all(uses_device(value) for value in held)
        host: list[Any] = [X, (X,), lambda: X, Partition.whole(3), np.sum, None, "x", 3]
        assert not any(uses_device(value) for value in host)
    assert not uses_device(lambda: X)


def test_weights_of_a_metric_may_be_used_on_several_streams() -> None:
    metric = Metric(weights=(1.0, 2.0, 0.25))
    expected = nearest(X[:5], X[5:], metric)[1]
    with fake_cupy() as cp:
        for stream in (cp.cuda.Stream(), cp.cuda.Stream()):
            with stream:
                found = nearest(cp.asarray(X[:5]), cp.asarray(X[5:]), metric)[1]
                assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["pica", "microaggregation", "gaussian", "clustered-swap"])
@pytest.mark.slow
def test_protect_inside_a_stream_on_the_second_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refine_briefly(monkeypatch, turns=1, steps=2)
    monkeypatch.setenv("GPUANON_THREADS", "4")
    data: Any = registry(160)
    expected = gpuanon.protect(data, recipe(name), rng=7, backend="numpy")
    with fake_cupy(devices=2) as cp, cp.cuda.Device(1), cp.cuda.Stream(non_blocking=True):
        found = gpuanon.protect(data, recipe(name), rng=7, backend="cupy")
    assert np.array_equal(found.link, expected.link)
