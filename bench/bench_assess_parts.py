"""`assess` of tables that lie in parts: every measure, with the link, as a user runs it.

    python bench/bench_assess_parts.py [--rows 20000000] [--columns 6] [--part 1000000] [--sample-rows N]

Writes an original and a release of noise as folders of Parquet parts, then runs ``gpuanon assess`` on them in a process
of its own.  Prints one JSON object: seconds, peak memory of that process, measures by how they were computed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq


def write(folder: Path, rows: int, columns: int, part: int) -> None:
    """Both tables, the link (a released row lies where its original does) and the recipe."""
    for side in ("original", "release"):
        (folder / side).mkdir()
    mix = np.random.default_rng(99).normal(size=(columns, columns)) / np.sqrt(columns)
    names = [f"x{j}" for j in range(columns)]
    for number, first in enumerate(range(0, rows, part)):
        rng = np.random.default_rng(number)
        X = rng.standard_normal((min(part, rows - first), columns)) @ mix
        for side, values in (("original", X), ("release", X + 0.3 * rng.standard_normal(X.shape))):
            table = pa.table({name: np.round(values[:, j], 4) for j, name in enumerate(names)})
            pq.write_table(table, folder / side / f"part-{number:05d}.parquet")
    csv.write_csv(pa.table({"row": np.arange(rows)}), folder / "link.csv")
    roles = [f'{name} = {{ role = "{"quasi" if at < columns - 1 else "sensitive"}" }}' for at, name in enumerate(names)]
    (folder / "recipe.toml").write_text("[columns]\n" + "\n".join(roles) + '\n[[mask]]\nmethod = "svd-swap"\n')


def run(folder: Path, sample_rows: int | None) -> dict[str, object]:
    """Seconds, memory and what was measured."""
    command = [
        sys.executable, "-m", "gpuanon.cli.app", "assess", str(folder / "original"), str(folder / "release"),
        "--recipe", str(folder / "recipe.toml"), "--link", str(folder / "link.csv"), "--json", "--quiet",
    ]  # fmt: skip
    began = time.monotonic()
    more = [] if sample_rows is None else ["--sample-rows", str(sample_rows)]
    done = subprocess.run([*command, *more], stdout=subprocess.PIPE, check=True)
    elapsed = time.monotonic() - began
    found = json.loads(done.stdout)
    every = {**found["risk"], **found["utility"]}
    return {
        "seconds": round(elapsed, 1),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20, 2),
        "measured": sum("error" not in one for one in every.values()),
        "not_measured": {name: one["error"].splitlines()[0] for name, one in every.items() if "error" in one},
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--columns", type=int, default=6)
    parser.add_argument("--part", type=int, default=1_000_000)
    parser.add_argument("--sample-rows", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        write(Path(place), given.rows, given.columns, given.part)
        print(
            json.dumps({"rows": given.rows, "columns": given.columns, **run(Path(place), given.sample_rows)}, indent=2)
        )
