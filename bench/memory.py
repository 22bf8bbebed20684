"""Peak memory of every method: bytes per row and column beyond table and release, into bench/results/memory.json.

    python bench/memory.py [--rows 100000] [--only TEXT]

Each method masks a table of n and one of 2 n rows, each in a process of its own, after a small run that loads what it
needs.  The peak of the resident memory, less what was there before and less the release, is compared: the difference of
both, divided by n and by the columns.  So buffers of a fixed size do not count.  Arrays beyond 64 kB are given back to
the system as soon as they are freed, as arrays beyond 32 MB always are: what a large table needs shows on a small one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from bench_families import KEY, MASKS, recipe, table
from frame import environment

RESULTS = Path(__file__).resolve().parent / "results" / "memory.json"
LIMIT = 40
COLUMNS = len(table(1).column_names)

_CODES = "codes of 8 bytes, of each column and of all together; normal scores of them and the order that they are given"
_SCORES = "15 features of 8 bytes for 10 columns, five times: encoded, sorted for the way back, as scores, drawn, new"
_GROUPS = "15 features of 8 bytes for 10 columns: encoded, as coordinates, changed, and turned back"

REMARKS: dict[str, str] = {
    "noise, resampled and exact": "15 features of 8 bytes for 10 columns: data, noise, each whitened",
    "noise, normal scores": _CODES,
    "data-shuffle": _CODES,
    "column-swap": "codes of 8 bytes, of each column and of all together, exchanged; and their order",
    "copula": _SCORES,
    "univariate-synthesis": _SCORES,
    "latin-hypercube": _CODES,
    "maximum-entropy": "products of every two columns, 44 of 8 bytes for each row, while their means are taken",
    "maximum-entropy, named": "the named products, 18 of 8 bytes for each row, while their means are taken",
    "clustered-synthesis": _GROUPS,
    "sequential-synthesis, cart": "codes of 8 bytes, of each column, of all together and new; rows of every leaf",
    "sequential-synthesis, parametric": "codes of 8 bytes, and scores of all predictors of a column at once",
    "distribution-preserving": "a covariance of 15 × 15 for each group of 10 records, factored and inverted,"
    " for some blocks at a time",
    "svd-swap": "one group: its coordinates, permuted, and standardised twice to see their correlations",
    "pica": _GROUPS,
    "clustered-swap": _GROUPS,
    "spectral × tca × tree-swap": "15 features of 8 bytes for 10 columns, twice; counts of every two axes",
    "synthetic-rows": "predictors and responses of the trees that fill the added rows, of 8 bytes each",
}
"""Why a method takes more than the limit: what is there at the peak."""


def peak(name: str, rows: int) -> int:
    """Bytes beyond what was there before and the release, in this process."""
    import pyarrow as pa

    import gpuanon

    data = table(rows)
    masked = recipe(name, data.column_names)
    gpuanon.protect(data.slice(0, 12_000), masked, rng=KEY, backend="numpy")
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    release = gpuanon.protect(data, masked, rng=KEY, backend="numpy")
    return _status("VmHWM") - before - release.data.nbytes


def _status(name: str) -> int:
    """Bytes that the system gives for this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def main() -> None:
    """Measure all methods."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--only", default="", help="methods whose name holds this text")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(peak(options.one, options.rows))
        return
    known = json.loads(RESULTS.read_text())["results"] if RESULTS.exists() else []
    results = {one["method"]: one for one in known if one["method"] in MASKS}
    for name in MASKS:
        if options.only not in name:
            continue
        try:
            small, large = (_in_its_own_process(name, rows) for rows in (options.rows, 2 * options.rows))
        except subprocess.CalledProcessError:
            print(f"{name}: refused", flush=True)
            continue
        per_value = (large - small) / options.rows / COLUMNS
        results[name] = {"method": name, "rows": 2 * options.rows, "columns": COLUMNS, "bytes": per_value}
        print(json.dumps(results[name]), flush=True)
    for one in results.values():
        one.pop("remark", None)
        if one["bytes"] > LIMIT:
            one["remark"] = REMARKS.get(one["method"], f"above {LIMIT}, not explained yet")
    ordered = [results[name] for name in MASKS if name in results]
    RESULTS.write_text(json.dumps({"machine_info": environment(), "results": ordered}, indent=1) + "\n")


def _in_its_own_process(name: str, rows: int) -> int:
    """What `peak` gives in a fresh process that frees arrays at once."""
    command = [sys.executable, __file__, "--one", name, "--rows", str(rows)]
    environ = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout)


if __name__ == "__main__":
    main()
