"""A trial of a comparison, and who runs the trials."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.rng import Key
from gpuanon.arrays.threads import thread_count
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.run import compute
from gpuanon.engine.protect import protect
from gpuanon.engine.workers import Workers, in_turn
from gpuanon.engine.workers.processes import Processes
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


def workers_for(setting: Setting, trials: int, wanted: int | Workers | None) -> Workers:
    """Who runs so many trials: this process where the work is on a device, which several would have to share.

    wanted : number of processes, 0 or 1: this one; None for as many as there are cores, where that is worth their
        start; or workers, such as `gpuanon.engine.workers.clusters.OnWorkers` of a Dask client
    """
    if wanted is not None and not isinstance(wanted, int):
        return wanted
    if wanted is None:
        wanted = thread_count() if setting.table.n_rows * trials >= WORTH else 1
    count = min(wanted, trials)
    return in_turn if count <= 1 or choose(setting.backend).name != "numpy" else Processes(count)
