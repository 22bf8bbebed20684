"""How trials are run: each masks the table and measures the release, within a time where one is given.

Methods are first tried on small samples of growing sizes, which says in which order they are run: all methods once,
the quick ones first.  Nothing is left out for an estimate.  A trial is left out when the time is over, or when it has
been at work for a quarter of the time while others wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, log
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.compiled import spent_compiling
from gpuanon.arrays.rng import Key
from gpuanon.arrays.threads import thread_count
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.run import compute
from gpuanon.engine.outputs import JOURNAL_MARK as KIND
from gpuanon.engine.protect import protect
from gpuanon.engine.release import Release
from gpuanon.engine.run import once
from gpuanon.engine.store import MemoryStore
from gpuanon.engine.workers import Workers, in_turn
from gpuanon.engine.workers.processes import Ended, Processes
from gpuanon.errors import GpuanonError, OutputError, Remark
from gpuanon.recipe import Recipe
from gpuanon.tables.formats.writing import translate_os_errors
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from gpuanon.version import __version__

Figures = Mapping[str, Any]
"""What a trial found, under the names of `gpuanon.comparing.trials.Trial`."""

ALWAYS = ("singled_out", "copies")
"""What is told of every release, as its verdict has it."""
WORTH = 200_000
"""Rows of all trials together from which on several processes are worth their start."""
SAMPLES = (500, 2_000, 8_000)
"""Rows of the samples on which methods are tried, in a comparison with a time."""
FOR_SAMPLES = 0.25
"""Share of the time for trials on samples, at most."""
FOR_ONE = 0.25
"""Share of the time that a trial may take while others wait."""


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


@dataclass(frozen=True)
class Job:
    """A trial to be run.

    digest : of what is to be done
    family : trials that take about the same time: the methods of the masks
    rows   : of a random sample on which only the time is measured; None: the table
    """

    digest: str
    recipe: Recipe
    family: tuple[str, ...]
    rows: int | None = None


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
    verdict = release.manifest["verdict"]
    known = {name: value for name, value in verdict["measured"].items() if name not in s.options}
    found = compute(comparison, tuple(name for name in s.measures if name not in known), s.options)
    figures = {**known, **{name: figure.value for name, figure in found.measured.items()}}
    counts = {what: release.manifest[what] for what in ("rows_in", "rows_out", "rows_added", "rows_dropped")}
    return {
        "measured": {name: figures[name] for name in dict.fromkeys((*s.measures, *ALWAYS)) if name in figures},
        "failed": dict(found.failed),
        "rows": counts,
        "promise": "; ".join(one["statement"] for one in release.manifest["guarantee"] if one["verified"]) or None,
        "k": max((one["k"] for one in release.manifest["guarantee"] if one["verified"] and one.get("k")), default=None),
        "verdict": {"state": verdict["state"], "reasons": list(verdict["reasons"])},
        "only_drops": counts["rows_dropped"] > 0 and counts["rows_added"] == 0 and _unchanged(comparison, release),
        "details": {name: figure.to_json() for name, figure in found.measured.items()},
        "seconds": time.monotonic() - began,
    }


def _unchanged(comparison: Comparison, release: Release) -> bool:
    """Whether every released row is as its original was, in all columns that both tables have."""
    names = tuple(name for name in release.table.names if name in comparison.original.names)
    before, after = comparison.codes_of(names)
    return bool((before[release.link] == after).all())


def run_trials(
    setting: Setting, jobs: Sequence[Job], journal: Journal | None, workers: int | Workers | None, until: float | None
) -> list[Figures | Ended]:
    """The figures of every job, in their order; those in the journal are not computed again.

    until : `time.monotonic()` at which the trials must be done; None: when they are
    """
    left = len(jobs) if journal is None else sum(job.digest not in journal.done for job in jobs)
    run = workers_for(setting, left, workers, timed=until is not None)
    task = partial(_do, setting, MemoryStore() if journal is None else journal)
    try:
        with progress.stage("samples"):
            took = {} if until is None else _sampled(run, task, setting.table.n_rows, jobs, until)
        with progress.stage("compare"):
            order = _in_order(jobs, took, inf if until is None else _left(until) * FOR_ONE)
            tell = _Teller([took.get(jobs[at].family) for at in order], getattr(run, "count", 1), until)
            found = _timed(run, task, [jobs[at] for at in order], until, FOR_ONE, tell)
    except BaseException as error:
        if journal is not None and (finished := journal.finished):
            error.add_note(Remark(f"{finished} finished trials are in {journal.path}; --resume goes on"))
        raise
    finally:
        if isinstance(run, Processes):
            run.close()
    placed = dict(zip(order, found, strict=True))
    return [placed[at] for at in range(len(jobs))]


def _do(setting: Setting, store: Any, job: Job) -> Any:
    """The figures of a trial; of a sample the seconds, compilations left out."""
    if job.rows is None:
        return once(store, partial(run_trial, setting), (job.digest, job.recipe))
    rows = np.sort(np.random.default_rng(0).choice(setting.table.n_rows, job.rows, replace=False))
    began = time.perf_counter() - spent_compiling()[0]
    run_trial(replace(setting, table=setting.table.take(rows)), job.recipe)
    return time.perf_counter() - spent_compiling()[0] - began


def _sampled(
    run: Workers, task: Callable[[Job], Any], rows: int, jobs: Sequence[Job], until: float
) -> dict[tuple[str, ...], float]:
    """Seconds that the first trial of each family is expected to take, from samples of growing sizes.

    Time grows with n^p, 1 ≤ p ≤ 3, as between the last two sizes.  What took too long on a sample is expected last.
    """
    first = {job.family: job for job in reversed(jobs)}
    end = time.monotonic() + FOR_SAMPLES * _left(until)
    known: dict[tuple[str, ...], list[tuple[int, float]]] = {family: [] for family in first}
    for size in [size for size in SAMPLES if 2 * size <= rows]:
        chosen = [family for family, found in known.items() if not found or found[-1][1] < 1.0]
        samples = [replace(first[family], rows=size) for family in chosen]
        found = _timed(run, task, samples, end, FOR_ONE, lambda at, result: None)
        for family, seconds in zip(chosen, found, strict=True):
            known[family].append((size, inf if isinstance(seconds, Ended) else max(seconds, 1e-3)))
    return {family: _grown(found, rows) for family, found in known.items() if found}


def _grown(found: Sequence[tuple[int, float]], rows: int) -> float:
    """Seconds for so many rows."""
    (size, seconds), power = found[-1], 1.0
    if len(found) > 1 and seconds < inf:
        earlier, before = found[-2]
        power = min(3.0, max(1.0, log(seconds / before) / log(size / earlier)))
    elif seconds == inf and len(found) > 1:  # what is known is that it takes longer than the sample before
        return inf
    return float(seconds * (rows / size) ** power)


def _in_order(jobs: Sequence[Job], took: Mapping[tuple[str, ...], float], most: float) -> list[int]:
    """The numbers of the jobs: every family once, the quick ones first, then once more; those that seem long last."""
    turns: dict[tuple[str, ...], int] = {}
    keys = []
    for at, job in enumerate(jobs):
        expected = took.get(job.family, 0.0)
        turn = turns[job.family] = turns.get(job.family, 0) + 1
        keys.append((expected > most, turn, expected, at))
    return [at for *_, at in sorted(keys)] if took else list(range(len(jobs)))


def _timed(
    run: Workers,
    task: Callable[[Job], Any],
    jobs: Sequence[Job],
    until: float | None,
    share: float,
    told: Callable[[int, Any], None],
) -> list[Any]:
    """The results of all jobs within a time.  Only processes can be ended: others finish what they have begun."""
    if isinstance(run, Processes):
        return run(task, jobs, until=until, seconds=None if until is None else share * _left(until), told=told)
    if run is in_turn:
        return run(partial(_in_this_process, task, until, told), list(enumerate(jobs)))
    return run(task if until is None else partial(_unless_over, task, time.time() + _left(until)), jobs)


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())


def _unless_over(task: Callable[[Job], Any], until: float, job: Job) -> Any:
    return task(job) if time.time() < until else Ended(None)


def _in_this_process(
    task: Callable[[Job], Any], until: float | None, told: Callable[[int, Any], None], item: tuple[int, Job]
) -> Any:
    found = task(item[1]) if until is None or _left(until) else Ended(None)
    told(item[0], found)
    return found


class _Teller:
    """Says which trial is done, and when all will be."""

    def __init__(self, expected: Sequence[float | None], workers: int, until: float | None) -> None:
        self._expected, self._workers, self._until = dict(enumerate(expected)), workers, until
        self._total, self._began = len(expected), time.monotonic()

    def __call__(self, at: int, result: Any) -> None:
        self._expected.pop(at, None)
        done = self._total - len(self._expected)
        left = [seconds for seconds in self._expected.values() if seconds is not None]
        seconds = (time.monotonic() - self._began) / done * len(self._expected)
        if left and len(left) == len(self._expected):
            seconds = sum(left) / self._workers
        if self._until is not None:
            seconds = min(seconds, _left(self._until))
        progress.note(f"trial {done} of {self._total}" + (f", about {seconds:.0f} s left" if self._expected else ""))


def workers_for(setting: Setting, trials: int, wanted: int | Workers | None, *, timed: bool = False) -> Workers:
    """Who runs so many trials: one where the work is on a device, which several would have to share.

    wanted : number of processes, 0 or 1: this one; None for as many as there are cores, where that is worth their
        start; or workers, such as `gpuanon.engine.workers.clusters.OnWorkers` of a Dask client
    timed  : with None, a process of their own even for few trials: they can be ended
    """
    if wanted is not None and not isinstance(wanted, int):
        return wanted
    on_host = choose(setting.backend).name == "numpy"
    count = wanted
    if count is None:
        worth = timed or setting.table.n_rows * trials >= WORTH
        count = thread_count() if worth else 1
    count = min(count if on_host else 1, max(1, trials))
    return in_turn if count <= 1 and not (timed and wanted is None) else Processes(max(1, count))


class Journal:
    """One line per finished trial: the digest of what was to be done, and its figures.  No value of the table.

    The file is made by the first trial that is done.  A line that a killed process left unfinished is not read.
    """

    HEAD = json.dumps({"kind": KIND, "gpuanon": __version__}) + "\n"

    def __init__(self, path: Path, *, resume: bool = False, force: bool = False) -> None:
        self.path = path
        self.done: dict[str, Mapping[str, Any]] = {}
        if path.exists():
            self._check(resume or force)
            if resume:
                self.done = self._read()
            with translate_os_errors(path):
                if self.done:  # what was unfinished is cut off
                    lines = [self.HEAD, *(_line(digest, trial) for digest, trial in self.done.items())]
                    path.write_text("".join(lines), encoding="utf-8")
                else:
                    path.unlink()

    def _check(self, wanted: bool) -> None:
        with self.path.open("rb") as file:
            ours = KIND.encode() in file.readline(200)
        if not ours:
            raise OutputError(f"{self.path}: is no journal of a comparison, and is not replaced", hint="move it away")
        if not wanted:
            raise OutputError(
                f"{self.path}: a comparison was interrupted", hint="--resume continues it, --force starts anew"
            )

    def _read(self) -> dict[str, Mapping[str, Any]]:
        found = {}
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
            try:
                entry = json.loads(line)
                found[entry["job"]] = entry["trial"]
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def once(self, name: str, task: Callable[[], Any]) -> Any:
        """The figures of a trial: as they are in the journal, or as `task` finds them, which are then written down.

        Any worker may do so that reaches the file.
        """
        if name not in self.done:
            self.done[name] = task()
            self._add(name)
        return self.done[name]

    def _add(self, digest: str) -> None:
        """Write down a finished trial; the lock keeps the lines of several workers apart."""
        with translate_os_errors(self.path), self.path.open("a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            head = "" if os.fstat(file.fileno()).st_size else self.HEAD
            file.write(head + _line(digest, self.done[digest]))
            file.flush()
            os.fsync(file.fileno())

    @property
    def finished(self) -> int:
        """Number of trials in the file, whoever wrote them."""
        return len(self._read()) if self.path.exists() else 0

    def remove(self) -> None:
        """The comparison is done and its results are written."""
        self.path.unlink(missing_ok=True)


def _line(digest: str, trial: Mapping[str, Any]) -> str:
    return json.dumps({"job": digest, "trial": trial}, ensure_ascii=False, allow_nan=False) + "\n"


def job_digest(*parts: Any) -> str:
    """A digest of what a trial is about: table, recipe, measures, options, key."""
    text = json.dumps([__version__, *parts], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def table_digest(table: Table | None) -> str:
    """A digest of all values of a table."""
    import pyarrow as pa

    if table is None:
        return ""
    found = hashlib.blake2b(digest_size=16)

    class Sink(io.RawIOBase):
        """Receives the table as Arrow writes it."""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            found.update(data)
            return len(data)

    arrow = table.to_arrow().combine_chunks()
    with pa.PythonFile(Sink(), mode="w") as file, pa.ipc.new_stream(file, arrow.schema) as stream:
        stream.write_table(arrow)
    return found.hexdigest()
