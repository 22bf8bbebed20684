"""What runs would ask of a GPU, counted without one: ``python bench/device.py [--rows 50000] [--only TEXT] [--json]``.

Runs are made on the tests' stand-in for CuPy, with the kernels as plain C++.  Exact are the counts: launches by kernel,
CuPy's calls by function and their distinct signatures (a kernel is compiled for each), synchronisations, bytes copied
to and from the device, and the peak of its memory.  Host seconds are those outside of the stand-in, on this machine.

The model turns these into seconds of a named device and marks them as an ESTIMATE: nobody measured them.  It adds
calls and launches × 10 µs, copied bytes at 12 GB/s, the bytes of all arrays that calls and kernels are given, once, at
the device's memory rate, and host seconds.  Arithmetic is not in it: kernels that compare pairs of rows take longer.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow as pa

import gpuanon
from gpuanon.arrays.ledger import Ledger, recording
from tests.cuda.support.fake_cupy import fake_cupy

CALL_SECONDS = 10e-6
BUS_BYTES = 12e9
DEVICES = {"T4": 0.30e12, "A100": 1.55e12, "H100": 3.35e12}
"""Bytes per second of their memory, by their data sheets."""

MICROAGGREGATION = {"method": "microaggregation", "k": 5}
GAUSSIAN = {"method": "distribution-preserving", "k": 10, "dither": "gaussian"}
RUNS: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("microaggregation", MICROAGGREGATION, 20_000, 10),
    ("microaggregation", MICROAGGREGATION, 200_000, 10),
    ("Gaussian", GAUSSIAN, 10_000, 5),
    ("Gaussian", GAUSSIAN, 100_000, 5),
    ("PICA", {"method": "pica"}, 10_000, 28),
    ("PICA", {"method": "pica"}, 30_000, 28),
)
"""Name, mask, rows and columns."""


@dataclass(frozen=True)
class Counts:
    """What a run asked of the stand-in.

    calls      : of CuPy's functions, by name
    launches   : of this project's kernels, by name
    signatures : of calls, distinct
    waits      : synchronisations
    up, down   : bytes copied to and from the device
    touched    : bytes of all arrays that calls and kernels were given
    peak       : most bytes of device memory
    seconds    : of the host, by stage
    """

    calls: dict[str, int]
    launches: dict[str, int]
    signatures: int
    waits: int
    up: int
    down: int
    touched: int
    peak: int
    seconds: dict[str, float]

    @property
    def started(self) -> int:
        """Calls and launches."""
        return sum(self.calls.values()) + sum(self.launches.values())

    def estimate(self, memory: float) -> float:
        """Seconds by the model, of a device whose memory moves so many bytes per second."""
        copied = (self.up + self.down) / BUS_BYTES
        return self.started * CALL_SECONDS + copied + self.touched / memory + sum(self.seconds.values())


def table(rows: int, columns: int) -> pa.Table:
    """Normal columns with three factors."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, columns)) + rng.normal(size=(rows, columns))
    return pa.table({f"c{j}": X[:, j] for j in range(columns)})


def counted(mask: dict[str, Any], data: pa.Table) -> Counts:
    """Protect a table on the stand-in and count."""
    columns: dict[str, Any] = {name: {"role": "quasi"} for name in data.column_names}
    if mask["method"] == "distribution-preserving":  # what it hides is beside what the records stand
        columns[data.column_names[-1]] = {"role": "sensitive"}
    recipe: Any = {"columns": columns, "mask": [mask]}
    with fake_cupy(one_lane=True):  # loads modules and compiles kernels
        gpuanon.protect(data.slice(0, 2000), recipe, rng=7, backend="cupy")
    with (
        fake_cupy(one_lane=True) as cp,
        recording(Ledger(lambda: time.perf_counter() - cp.calls.seconds)) as ledger,
    ):
        gpuanon.protect(data, recipe, rng=7, backend="cupy")
        copies = [(copy.direction, copy.bytes) for copy in cp.transfers.copies]
        return Counts(
            dict(cp.calls.functions.most_common()), dict(ledger.launches.most_common()), len(cp.calls.signatures),
            len(cp.memory.waits), sum(size for way, size in copies if way == "up"),
            sum(size for way, size in copies if way == "down"), cp.calls.touched, cp.memory.peak, ledger.seconds(),
        )  # fmt: skip


def show(name: str, counts: Counts) -> None:
    """Print the ledger of a run, and what the model makes of it."""
    print(f"{name}: {counts.started} calls and launches, {counts.signatures} signatures, {counts.waits} waits")
    print(f"  {counts.up / 1e6:.1f} MB up, {counts.down / 1e6:.1f} MB down, at most {counts.peak / 1e6:.1f} MB there")
    print("  launches: " + ", ".join(f"{kernel} {count}" for kernel, count in counts.launches.items()))
    print("  calls: " + ", ".join(f"{call} {count}" for call, count in list(counts.calls.items())[:12]))
    stages = {stage: seconds for stage, seconds in counts.seconds.items() if seconds >= 0.01}
    print("  host seconds here: " + ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in stages.items()))
    for device, memory in DEVICES.items():
        print(f"  {device}: {counts.estimate(memory):.2f} s (ESTIMATE by the model, nobody measured it)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="rows in place of the usual ones")
    parser.add_argument("--only", default="", help="runs whose name holds this text")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each run")
    options = parser.parse_args()
    for method, mask, usual, columns in RUNS:
        rows = options.rows or usual
        name = f"{method} {rows} x {columns}"
        if options.only not in name:
            continue
        counts = counted(mask, table(rows, columns))
        if options.json:
            estimates = {f"{device}_seconds_ESTIMATE": counts.estimate(rate) for device, rate in DEVICES.items()}
            print(json.dumps({"run": name, **vars(counts), **estimates}), flush=True)
        else:
            show(name, counts)


if __name__ == "__main__":
    main()
