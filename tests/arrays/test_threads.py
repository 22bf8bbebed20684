"""Batches on all cores, in order, with progress reports."""

from __future__ import annotations

import pytest

from gpuanon.arrays import progress, threads
from gpuanon.errors import ParameterError


@pytest.mark.parametrize("count", ["1", "2", "7"])
def test_results_come_in_the_order_of_the_items(monkeypatch, count):
    monkeypatch.setenv("GPUANON_THREADS", count)
    assert threads.each(lambda x: x * x, range(20)) == [x * x for x in range(20)]
    assert threads.each(str, []) == []


@pytest.mark.parametrize("count", ["0", "-1", "two", ""])
def test_a_bad_thread_count_is_refused(monkeypatch, count):
    monkeypatch.setenv("GPUANON_THREADS", count)
    with pytest.raises(ParameterError, match="GPUANON_THREADS"):
        threads.thread_count()


def test_an_error_in_a_batch_reaches_the_caller():
    def fail(item):
        raise ValueError(item)

    with pytest.raises(ValueError, match="0"):
        threads.each(fail, range(4))


def test_a_listener_receives_every_stage_from_0_to_1():
    heard = []
    with progress.listening(lambda stage, done: heard.append((stage, done))), progress.stage("groups"):
        threads.each(str, range(4))
    progress.report(0.5)  # without a listener
    assert heard[0] == ("groups", 0.0)
    assert heard[-1] == ("groups", 1.0)
    assert [done for _, done in heard] == sorted(done for _, done in heard)
    assert len(heard) == 6
