"""A comparison of 24 recipes: its time beside the sum of the single ones, and a kill at half that is resumed.

    python bench/bench_compare.py [ROWS]

Prints one JSON object.  `ratio` is the elapsed time of the comparison over the sum of the recipes' own times divided by
the number of cores.  Their own times are taken while other processes run beside them: `slower_beside_others` says how
much longer four of them took than in one process with one thread, alone, and `ratio_alone` is the ratio with times that
are shorter by that factor.  All of it is meaningful only on a machine that does nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpuanon.arrays.threads import thread_count

RECIPE = """
[columns]
{columns}
[[mask]]
method = "microaggregation"
k = {k}
groups = ["mdav", "k-member"]
metric = ["euclidean", "gower"]
"""


def command(folder: Path, *more: str, grid: str = "grid.toml") -> list[str]:
    program = [
        sys.executable,
        "-m",
        "gpuanon.cli.app",
        "compare",
        str(folder / "table.parquet"),
        str(folder / grid),
    ]
    return [
        *program,
        "--key-file",
        str(folder / "key"),
        "--journal",
        str(folder / "journal"),
        "--json",
        "--quiet",
        *more,
    ]


def finished(folder: Path) -> int:
    """Trials in the journal."""
    journal = folder / "journal"
    return max(0, journal.read_text().count("\n") - 1) if journal.exists() else 0


def run(folder: Path, rows: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 10)) @ rng.normal(size=(10, 10))
    pq.write_table(pa.table({f"x{j}": np.round(X[:, j], 3) for j in range(10)}), folder / "table.parquet")
    columns = "\n".join(f'x{j} = {{ role = "quasi" }}' for j in range(10))
    (folder / "grid.toml").write_text(RECIPE.format(columns=columns, k=[3, 5, 10, 20, 50, 100]))
    (folder / "four.toml").write_text(RECIPE.format(columns=columns, k=20))
    (folder / "key").write_text("a key for a benchmark, of sixteen bytes or more")
    began = time.monotonic()
    whole = json.loads(subprocess.run(command(folder), capture_output=True, check=True).stdout)
    elapsed = time.monotonic() - began
    one_thread = {**os.environ, "GPUANON_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    four = command(folder, "--workers", "1", grid="four.toml")
    alone = json.loads(subprocess.run(four, capture_output=True, check=True, env=one_thread).stdout)
    running = subprocess.Popen(command(folder), stdout=subprocess.DEVNULL)
    while finished(folder) < 12 and running.poll() is None:
        time.sleep(0.1)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    kept = finished(folder)
    again = json.loads(subprocess.run(command(folder, "--resume"), capture_output=True, check=True).stdout)
    single = sum(trial["seconds"] for trial in whole["trials"])
    beside = sum(trial["seconds"] for trial in whole["trials"] if trial["parameters"]["k"] == 20)
    slower = beside / sum(trial["seconds"] for trial in alone["trials"])
    ratio = elapsed / (single / thread_count())
    return {
        "rows": rows,
        "recipes": len(whole["trials"]),
        "seconds": round(elapsed, 1),
        "sum_of_single_seconds": round(single, 1),
        "cores": thread_count(),
        "ratio": round(ratio, 2),
        "slower_beside_others": round(slower, 2),
        "ratio_alone": round(ratio * slower, 2),
        "finished_when_killed": kept,
        "same_after_resume": _without_times(again) == _without_times(whole),
        "load": os.getloadavg()[0],
    }


def _without_times(found: dict[str, object]) -> object:
    trials = [{name: value for name, value in trial.items() if name != "seconds"} for trial in found["trials"]]
    return {**found, "trials": trials}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(run(Path(place), int(sys.argv[1]) if len(sys.argv) > 1 else 100_000), indent=2))
