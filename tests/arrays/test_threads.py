"""Batches on all cores, in order, with progress reports."""

from __future__ import annotations

import os
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


def threads_of_four_items():
    """By how many threads four items are done, two of which wait for each other."""
    two = threading.Barrier(2)

    def item(_):
        two.wait(10)
        return threading.get_ident()

    return len(set(each(item, range(4))))


def until_free():
    """Wait until one task is at work at the most."""
    for _ in range(1000):
        if threads._tasks._working <= 1:
            return
        time.sleep(0.01)


def test_tasks_share_the_cores_and_what_is_inside_starts_threads_on_free_ones_only(monkeypatch):
    """While both tasks are at work each does its own items; the one that is left shares the rest with the pool."""
    monkeypatch.setenv("GPUANON_THREADS", "2")
    both, first_done, two_threads = threading.Barrier(2), threading.Event(), threading.Barrier(2)

    def task(number):
        me, seen = threading.get_ident(), []
        both.wait(10)

        def inner(item):
            if number == 1 and item == 4:
                first_done.wait(10)
                until_free()
            if item > 4:
                two_threads.wait(10)
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
    assert sorted(later[5:]) == [False, False, True, True]


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
        used = threads_of_four_items()
        lock.release()
        return used == 2

    assert each_task(task, [0, 1]) == [True, True]
    assert each_task(task, [0]) == [True]


def test_a_task_that_fails_frees_its_core(monkeypatch):
    monkeypatch.setenv("GPUANON_THREADS", "2")
    with pytest.raises(ZeroDivisionError):
        each_task(lambda item: 1 // item, [0, 0, 0])
    assert threads._tasks._working == 0
    assert threads_of_four_items() == 2


def test_calls_inside_calls_never_wait_for_a_thread_that_waits(monkeypatch):
    monkeypatch.setenv("GPUANON_THREADS", "2")

    def nested(depth):
        return sum(each(lambda _: nested(depth - 1), range(3))) if depth else 1

    assert nested(5) == 3**5


def test_after_an_error_no_item_is_begun_and_the_first_items_error_is_raised(monkeypatch):
    monkeypatch.setenv("GPUANON_THREADS", "2")
    both, begun = threading.Barrier(2), []

    def fail(item):
        begun.append(item)
        if item < 2:
            both.wait(10)
        time.sleep(0.05 * (item == 0))  # the second item fails first
        raise ValueError(f"item {item}")

    for _ in range(5):
        begun.clear()
        with pytest.raises(ValueError, match="item 0"):
            each(fail, range(100))
        assert sorted(begun) == [0, 1]


def test_who_is_interrupted_waits_for_the_items_that_others_have_begun(monkeypatch):
    """What a caller cleans up afterwards nobody uses any more."""
    monkeypatch.setenv("GPUANON_THREADS", "2")
    both, finished, me = threading.Barrier(2), [], threading.get_ident()

    def work(item):
        both.wait(10)
        if threading.get_ident() == me:
            raise KeyboardInterrupt
        time.sleep(0.1)
        finished.append(item)

    with pytest.raises(KeyboardInterrupt):
        each(work, range(100))
    assert len(finished) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(monkeypatch):
    monkeypatch.setenv("GPUANON_THREADS", "2")
    assert threads_of_four_items() == 2
    child = os.fork()
    if child == 0:
        os._exit(threads_of_four_items())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_threads_end_when_their_number_changes(monkeypatch):
    def alive():
        return sum(thread.name.startswith("gpuanon") for thread in threading.enumerate())

    for count in (2, 5, 3):
        monkeypatch.setenv("GPUANON_THREADS", str(count))
        each(lambda _: time.sleep(0.01), range(20))
        for _ in range(200):
            if alive() <= count:
                break
            time.sleep(0.01)
        assert alive() <= count
