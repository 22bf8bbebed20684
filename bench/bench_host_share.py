"""What of a run stays on the host whatever the device: ``python bench/bench_host_share.py [--rows 1000000]``.

A million rows of 10 columns from Parquet to Parquet on NumPy, by microaggregation and by the Gaussian dither.  What a
GPU would do are the functions that are given device arrays where there is one (`ON_THE_DEVICE`): forming groups, the
operation, exact sums of the fit, hashing and counting rows, the checks of drawn values, the random order, and turning
the result into columns.  Everything else, from reading to the digest of the release, is host work, and so are the
copies: each array that would be uploaded is copied to memory that is kept, as CuPy does with pinned memory, and so is
each that would be downloaded, because that goes to the memory of what was uploaded.  The time on the bus is not in it.
Times are processor seconds of one thread, so that other work on the machine changes them little.  A run with a cheap
mask goes before: it loads modules; and memory is touched and freed, which a virtual machine is given page by page.
``GPUANON_COMPILED=0`` keeps to NumPy.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpuanon.engine.protect import protect_file
from gpuanon.tables.row_bits import Words

METHODS: dict[str, dict[str, Any]] = {
    "microaggregation": {"method": "microaggregation", "k": 5},
    "Gaussian dither": {"method": "distribution-preserving", "k": 10, "dither": "gaussian"},
}
WARM = {"method": "noise", "b": 0.1}
DEVICE = "device: "
ON_THE_DEVICE = (
    ("gpuanon.masking.mask", "Mask._outcome", "groups and operation"),
    ("gpuanon.masking.claims", "_Drawn.check", "check drawn values"),
    ("gpuanon.tables.summaries", "Moments.of", "sums of the fit"),
    ("gpuanon.tables.class_counts", "bits_of", "hash rows"),
    ("gpuanon.tables.row_bits", "bits_of", "hash rows"),
    ("gpuanon.tables.class_counts", "ClassCounts._summed", "count classes"),
    ("gpuanon.engine.tasks", "random_order", "random order"),
    ("gpuanon.engine.tasks", "content", "sum of what is masked"),
    ("gpuanon.tables.encoding", "column_by_column", "turn into columns"),
)
COPIES = "copies"
DOWNLOADED = ("random_order", "column_by_column")
STEPS = (
    ("gpuanon.masking.mask", "Mask._view", "encode"),
    ("gpuanon.masking.mask", "Mask._released", "decode"),
    ("gpuanon.engine.tasks", "summarise", "fit"),
    ("gpuanon.engine.tasks", "place", "place"),
    ("gpuanon.engine.tasks", "mask_cell", "verify"),
    ("gpuanon.engine.tasks", "assemble", "order"),
    ("gpuanon.engine.tasks", "count", "count classes"),
    ("gpuanon.engine.inputs", "read_table", "read"),
    ("gpuanon.engine.release", "Release.write", "write"),
    ("gpuanon.engine.release", "smallest_classes", "count classes of the file"),
    ("gpuanon.engine.release", "digest_of", "digest"),
)


class Staging:
    """Memory that uploads are copied to; it is touched once."""

    def __init__(self, size: int) -> None:
        self._memory = np.ones(size, np.uint8)

    def take(self, array: Any) -> None:
        """Copy an array there, as far as there is room."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)[: len(self._memory)]
        self._memory[: len(flat)] = flat


def arrays_in(arguments: Any) -> Iterator[Any]:
    """The arrays among arguments, those of `Words` included: what a device would be given."""
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            yield argument
        elif isinstance(argument, Words):
            yield argument.values
        elif isinstance(argument, list):
            yield from arrays_in(argument)


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

    def on_the_device(self, function: Callable[..., Any], name: str, step: str, staging: Staging) -> Callable[..., Any]:
        """`function`, whose time counts for a device, and the copies of its arrays for the host.

        What is made by an operation or a fit comes from the device: it is not copied there.
        """
        work, upload = self.timed(function, DEVICE + step), self.timed(staging.take, COPIES)

        def run(*arguments: Any, **keywords: Any) -> Any:
            for array in arrays_in(arguments) if name != "column_by_column" else ():
                upload(array)
            made = work(*arguments, **keywords)
            if name in DOWNLOADED:
                upload(made)  # in place of a download, which goes to the memory of what was uploaded
            return made

        return run


def measured(mask: dict[str, Any], source: Path, folder: Path, staging: Staging) -> dict[str, float]:
    """Processor seconds of the steps of one run."""
    clock, undo = Clock(), []
    for module, name, step in (*ON_THE_DEVICE, *STEPS, ("gpuanon.arrays.backend", "Backend.upload", COPIES)):
        owner: Any = importlib.import_module(module)
        *classes, last = name.split(".")
        for inner in classes:
            owner = getattr(owner, inner)
        undo.append((owner, last, getattr(owner, last)))
        if (module, name, step) in ON_THE_DEVICE:
            timed = clock.on_the_device(getattr(owner, last), last, step, staging)
        elif step == COPIES:
            take = clock.timed(staging.take, COPIES)
            timed = lambda backend, array, take=take: (take(array), array)[1]  # noqa: E731
        else:
            timed = clock.timed(getattr(owner, last), step)
        setattr(owner, last, timed)
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
    parser.add_argument("--method", choices=list(METHODS), help="this one alone")
    options = parser.parse_args()
    rows, methods = options.rows, {options.method: METHODS[options.method]} if options.method else METHODS
    os.environ["GPUANON_THREADS"] = "1"  # steps inside steps are told apart in one thread
    staging = Staging(80 * rows)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 10)) + rng.normal(size=(rows, 10))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(10)}), folder / "table.parquet")
        for at, (method, mask) in enumerate([("", WARM), *methods.items()]):
            place = folder / str(at)
            place.mkdir()
            np.ones(1000 * rows, np.uint8)
            found = measured(mask, folder / "table.parquet", place, staging)
            if not method:
                continue
            total = sum(found.values()) - found[COPIES]  # NumPy copies nothing
            host = sum(seconds for step, seconds in found.items() if not step.startswith(DEVICE))
            print(f"{method}, {rows} x 10: {total:.2f} s, host {host:.2f} s: {host / total:.1%}")
            for step, seconds in sorted(found.items(), key=lambda item: -item[1]):
                print(f"  {step:<28}{seconds:8.3f} s {seconds / total:7.1%}")


if __name__ == "__main__":
    main()
