"""Trials of a comparison, one after the other or on several processes."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from gpuanon.arrays import interruption
from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.rng import Key
from gpuanon.arrays.threads import thread_count
from gpuanon.assessing.comparison import Comparison
from gpuanon.engine.assessing import compute
from gpuanon.engine.protect import protect
from gpuanon.errors import GpuanonError
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

Figures = Mapping[str, Any]
"""What a trial found, under the names of `gpuanon.comparing.compare.Trial`."""

WORTH = 200_000
"""Rows of all trials together from which on several processes are worth their start."""


@dataclass(frozen=True, eq=False, repr=False)
class Setting:
    """What all trials share."""

    table: Table
    reference: Table | None
    schema: Schema
    measures: tuple[str, ...]
    options: Mapping[str, Any]
    key: Key
    backend: BackendName


def run_trial(setting: Setting, recipe: Recipe) -> Figures:
    """Mask by one recipe and measure the release; a refusal is a result, and so is a method that fails."""
    began = time.monotonic()
    s = setting
    try:
        release = protect(s.table, recipe, rng=s.key, backend=s.backend, reference=s.reference)
    except GpuanonError as error:
        return {"refused": str(error), "seconds": time.monotonic() - began}
    except (ArithmeticError, IndexError, LookupError, TypeError, ValueError) as error:
        # One method that fails on this table does not sink the others.  The error's own text may quote a cell.
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"internal error: {type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
        return {"refused": reason, "seconds": time.monotonic() - began}
    comparison = Comparison(s.table, release.table, s.schema, release.link, s.reference, choose(s.backend))
    found = compute(comparison, s.measures, s.options)
    return {
        "measured": {name: figure.value for name, figure in found.measured.items()},
        "failed": dict(found.failed),
        "rows": {what: release.manifest[what] for what in ("rows_out", "rows_added", "rows_dropped")},
        "details": {name: figure.to_json() for name, figure in found.measured.items()},
        "seconds": time.monotonic() - began,
    }


def run_trials(
    setting: Setting, recipes: Sequence[tuple[int, Recipe]], workers: int | None
) -> Generator[tuple[int, Figures], None, None]:
    """The figures of each recipe under its number, as they are done.

    workers : processes; None for as many as there are cores, where that is worth their start
    """
    count = _workers(setting, len(recipes), workers)
    if count <= 1:
        for number, recipe in recipes:
            yield number, run_trial(setting, recipe)
        return
    threads = max(1, thread_count() // count)
    pool = ProcessPoolExecutor(
        count, mp_context=get_context("spawn"), initializer=_begin, initargs=(setting, threads, os.getpid())
    )
    try:
        with interruption.only_here():
            waiting = {pool.submit(_in_worker, recipe): number for number, recipe in recipes}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    except BaseException:
        _stop(pool)
        raise
    pool.shutdown()


def _workers(setting: Setting, trials: int, wanted: int | None) -> int:
    """How many processes: one where the work is on a device, which they would have to share."""
    if choose(setting.backend).name != "numpy":
        return 1
    if wanted is None:
        return min(thread_count(), trials) if setting.table.n_rows * trials >= WORTH else 1
    return min(wanted, trials)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End what is under way: its results are of no use any more."""
    processes: Iterable[Any] = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


_setting: Setting | None = None
_THREADS = ("GPUANON_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables by which this package and the libraries below it are told how many threads to use."""


def _begin(setting: Setting, threads: int, parent: int) -> None:
    """Prepare a process: its share of the cores, and an end when its parent has ended."""
    global _setting
    from threadpoolctl import threadpool_limits

    _setting = setting
    # Libraries that are loaded obey the limit; those that are loaded later (SciPy's own BLAS, OpenMP) the environment.
    os.environ |= dict.fromkeys(_THREADS, str(threads))
    threadpool_limits(threads)
    threading.Thread(target=_end_with, args=(parent, os._exit), daemon=True).start()


def _end_with(parent: int, end: Callable[[int], Any]) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    end(1)


def _in_worker(recipe: Recipe) -> Figures:
    assert _setting is not None
    return run_trial(_setting, recipe)
