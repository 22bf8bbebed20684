"""What of a run stays on the host whatever the device: ``python bench/bench_host_share.py [--rows 1000000]``.

A million rows of 10 columns from Parquet to Parquet on NumPy, by microaggregation and by the Gaussian dither.  What a
GPU would do is what lies between the upload and the download: forming groups and the operation.  Everything else, from
reading to the digest of the release, is host work.  Times are processor seconds of all threads, so that other work on
the machine changes them little.  A run with a cheap mask goes before: it loads modules and touches memory, which a
virtual machine is given page by page.  ``GPUANON_COMPILED=0`` keeps to NumPy.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpuanon.running.protect import protect_file

METHODS: dict[str, dict[str, Any]] = {
    "microaggregation": {"method": "microaggregation", "k": 5},
    "Gaussian dither": {"method": "distribution-preserving", "k": 10, "dither": "gaussian"},
}
WARM = {"method": "noise", "b": 0.1}
DEVICE = "groups and operation"
STEPS = (
    ("gpuanon.masking.mask", "Mask._outcome", DEVICE),
    ("gpuanon.masking.mask", "Mask._view", "encode"),
    ("gpuanon.masking.mask", "Mask._released", "decode"),
    ("gpuanon.running.tasks", "summarise", "fit"),
    ("gpuanon.running.tasks", "place", "place"),
    ("gpuanon.running.tasks", "mask_cell", "verify"),
    ("gpuanon.running.tasks", "assemble", "order"),
    ("gpuanon.running.tasks", "count", "count classes"),
    ("gpuanon.running.protect", "read_table", "read"),
    ("gpuanon.running.release", "Release.write", "write"),
    ("gpuanon.running.release", "smallest_classes", "count classes of the file"),
    ("gpuanon.running.release", "digest_of", "digest"),
)


class Clock:
    """Processor seconds of each step, without those of the steps inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inside = [0.0]

    def timed(self, function: Callable[..., Any], step: str) -> Callable[..., Any]:
        """`function`, whose time counts for `step`."""

        def run(*arguments: Any, **keywords: Any) -> Any:
            began = time.process_time()
            self._inside.append(0.0)
            try:
                return function(*arguments, **keywords)
            finally:
                took = time.process_time() - began
                self.seconds[step] = self.seconds.get(step, 0.0) + took - self._inside.pop()
                self._inside[-1] += took

        return run


def measured(mask: dict[str, Any], source: Path, folder: Path) -> dict[str, float]:
    """Processor seconds of the steps of one run."""
    clock, undo = Clock(), []
    for module, name, step in STEPS:
        owner: Any = importlib.import_module(module)
        *classes, last = name.split(".")
        for inner in classes:
            owner = getattr(owner, inner)
        undo.append((owner, last, getattr(owner, last)))
        setattr(owner, last, clock.timed(getattr(owner, last), step))
    recipe = folder / "recipe.json"
    columns = {name: {"role": "quasi"} for name in pq.read_schema(source).names}
    recipe.write_text(json.dumps({"columns": columns, "mask": [mask]}))
    try:
        clock.timed(protect_file, "rest")(source, recipe, folder / "release.parquet", backend="numpy", force=True)
    finally:
        for owner, last, true in undo:
            setattr(owner, last, true)
    return clock.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 10)) + rng.normal(size=(rows, 10))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(10)}), folder / "table.parquet")
        for at, (method, mask) in enumerate([("", WARM), *METHODS.items()]):
            place = folder / str(at)
            place.mkdir()
            found = measured(mask, folder / "table.parquet", place)
            if not method:
                continue
            total = sum(found.values())
            print(f"{method}, {rows} x 10: {total:.2f} s, of which the host {1 - found[DEVICE] / total:.1%}")
            for step, seconds in sorted(found.items(), key=lambda item: -item[1]):
                print(f"  {step:<28}{seconds:8.3f} s {seconds / total:7.1%}")


if __name__ == "__main__":
    main()
