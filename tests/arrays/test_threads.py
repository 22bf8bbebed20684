"""Batches on all cores, in order, with progress reports."""

from __future__ import annotations

import threading
import time

import pytest

from gpuanon.arrays import progress, threads
from gpuanon.arrays.threads import each, each_task, wait_for
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


def until_free():
    """Wait until one task is at work at the most."""
    for _ in range(1000):
        if threads._tasks._working <= 1:
            return
        time.sleep(0.01)


def test_tasks_share_the_cores_and_what_is_inside_starts_threads_on_free_ones_only(monkeypatch):
    """While both tasks are at work each does its own items; the one that is left hands the rest to a pool."""
    monkeypatch.setenv("GPUANON_THREADS", "2")
    both, first_done = threading.Barrier(2), threading.Event()

    def task(number):
        me, seen = threading.get_ident(), []
        both.wait(10)

        def inner(item):
            if number == 1 and item == 4:
                first_done.wait(10)
                until_free()
            seen.append(threading.get_ident() == me)
            return 10 * number + item

        found = each(inner, range(5 if number == 0 else 9))
        if number == 0:
            first_done.set()
        return found, seen

    (first, seen), (second, later) = each_task(task, [0, 1])
    assert (first, second) == (list(range(5)), list(range(10, 19)))
    assert all(seen)
    assert all(later[:5])
    assert not any(later[5:])


def test_a_task_that_waits_for_another_leaves_its_core(monkeypatch):
    monkeypatch.setenv("GPUANON_THREADS", "2")
    lock, held = threading.RLock(), threading.Event()

    def task(number):
        if number == 1:
            held.wait(10)
            wait_for(lock)
            lock.release()
            return True
        wait_for(lock)
        held.set()
        until_free()
        me = threading.get_ident()
        used = each(lambda item: threading.get_ident() != me, range(4))
        lock.release()
        return all(used)

    assert each_task(task, [0, 1]) == [True, True]
    assert each_task(task, [0]) == [True]


def test_a_task_that_fails_frees_its_core(monkeypatch):
    monkeypatch.setenv("GPUANON_THREADS", "2")
    with pytest.raises(ZeroDivisionError):
        each_task(lambda item: 1 // item, [0, 0, 0])
    me = threading.get_ident()
    assert threads._tasks._working == 0
    assert all(each(lambda item: threading.get_ident() != me, range(4)))
