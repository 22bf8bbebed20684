"""A comparison of 24 recipes: its time beside the sum of the single ones, and a kill at half that is resumed.

    python bench/bench_compare.py [ROWS]

Prints one JSON object.  `ratio` is the elapsed time of the comparison over the sum of the recipes' own times divided by
the number of cores; it is meaningful only on a machine that does nothing else.
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
k = [3, 5, 10, 20, 50, 100]
groups = ["mdav", "k-member"]
metric = ["euclidean", "gower"]
"""


def command(folder: Path, *more: str) -> list[str]:
    program = [
        sys.executable,
        "-m",
        "gpuanon.faces.cli",
        "compare",
        str(folder / "table.parquet"),
        str(folder / "grid.toml"),
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
    (folder / "grid.toml").write_text(RECIPE.format(columns=columns))
    (folder / "key").write_text("a key for a benchmark, of sixteen bytes or more")
    began = time.monotonic()
    whole = json.loads(subprocess.run(command(folder), capture_output=True, check=True).stdout)
    elapsed = time.monotonic() - began
    running = subprocess.Popen(command(folder), stdout=subprocess.DEVNULL)
    while finished(folder) < 12 and running.poll() is None:
        time.sleep(0.1)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    kept = finished(folder)
    again = json.loads(subprocess.run(command(folder, "--resume"), capture_output=True, check=True).stdout)
    single = sum(trial["seconds"] for trial in whole["trials"])
    return {
        "rows": rows,
        "recipes": len(whole["trials"]),
        "seconds": round(elapsed, 1),
        "sum_of_single_seconds": round(single, 1),
        "cores": thread_count(),
        "ratio": round(elapsed / (single / thread_count()), 2),
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
