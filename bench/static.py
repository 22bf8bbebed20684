"""Static bounds: resources of each kernel on each architecture, and a lower bound of its time.

Nothing here is a measurement of a GPU.  ``python bench/static.py`` compiles every kernel, interprets a part of a
problem for each, measures k-member in NumPy for comparison, and writes the table into ``bench/README.md``;
``--no-numpy`` omits the measurement, ``--json FILE`` stores all numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from bench.static_hardware import DEVICES, occupancy  # noqa: E402
from bench.static_loops import Loop, find_nvdisasm, ptx_loops, sass_loops  # noqa: E402
from bench.static_problems import BLOCK, MILLION, PROBLEMS, Work, measure  # noqa: E402
from gpuanon.arrays.kernels import source  # noqa: E402
from tests.cuda.support import ceilings, nvrtc  # noqa: E402
from tests.cuda.support.interpreter import Module  # noqa: E402

README = ROOT / "bench" / "README.md"
BEGIN, END = "<!-- static bounds: begin -->", "<!-- static bounds: end -->"
DTYPES = {"float": np.float32, "double": np.float64}
A100 = next(device for device in DEVICES if device.arch == 80)


def all_work() -> dict[tuple[str, str], Work]:
    """The work of every kernel in both types, by (kernel, type)."""
    found = {}
    for problem in PROBLEMS:
        for real, dtype in DTYPES.items():
            print(f"interpreting {', '.join(problem.kernels)} ({real})", file=sys.stderr)
            found.update({(name, real): work for name, work in measure(problem, dtype).items()})
    return found


def loops_of(file: str, real: Any, constants: tuple[str, ...], nvdisasm: str | None) -> dict[str, Loop]:
    """The inner loops on the A100's architecture."""
    if nvdisasm is not None:
        return sass_loops(nvrtc.cubin(source(file), real, 80, constants), nvdisasm)
    define = dict(constant[2:].split("=") for constant in constants)
    module = Module.from_source(source(file), real, define=define)
    return {name: ptx_loops(kernel) for name, kernel in module.kernels.items()}


def rows() -> list[dict[str, Any]]:
    """One record for each kernel, type and set of constants."""
    work, nvdisasm, records = all_work(), find_nvdisasm(), []
    for path in nvrtc.kernel_files():
        text = source(path.stem)
        for real in nvrtc.REALS:
            constants = ceilings.variants(text)[0]  # the plainest: the others differ by a few instructions
            print(f"compiling {path.name} ({real})", file=sys.stderr)
            cubins = {d.arch: nvrtc.cubin(text, real, d.arch, constants) for d in DEVICES}
            loops = loops_of(path.stem, real, constants, nvdisasm)
            for name in sorted(cubins[80].kernels):
                kernels = {arch: cubin.kernels[name] for arch, cubin in cubins.items()}
                records.append(_record(path.stem, name, real, kernels, loops[name], work.get((name, real))))
    return records


def _record(
    file: str, name: str, real: str, kernels: dict[int, nvrtc.Resources], loop: Loop, work: Work | None
) -> dict[str, Any]:
    record: dict[str, Any] = {"kernel": f"{file}/{name}", "type": real, "loop": loop.text(), "loop_from": loop.source}
    record["registers"] = {arch: resources.registers for arch, resources in kernels.items()}
    record["spilled"] = {arch: r.spill_stores + r.spill_loads for arch, r in kernels.items()}
    if work is not None:
        size = np.dtype(DTYPES[real]).itemsize
        record |= {"problem": work.problem.whole, "threads": work.threads, "shared": work.shared}
        record["occupancy"] = {
            d.arch: occupancy(d, work.threads, kernels[d.arch].registers, work.shared) for d in DEVICES
        }
        bounds = {d.arch: work.seconds(d, kernels[d.arch].registers, size) for d in DEVICES}
        record["seconds"] = {arch: bound[0] for arch, bound in bounds.items()}
        record["limit"] = bounds[80][1]
    return record


def numpy_kmember() -> dict[str, Any]:
    """k-member in NumPy on all cores, on the problem of its bound; the best of two runs."""
    from gpuanon.arrays.partition import Partition
    from gpuanon.masking.groups.kmember import kmember
    from gpuanon.numerics.cuts.median_blocks import blocks

    X = np.random.default_rng(7).normal(size=(MILLION, 10)).astype(np.float32)
    parts = blocks(X, Partition.whole(MILLION), BLOCK)
    seconds = []
    for _ in range(2):
        print("measuring k-member in NumPy", file=sys.stderr)
        begin = time.perf_counter()
        kmember(X, parts, 5)
        seconds.append(time.perf_counter() - begin)
    return {"seconds": min(seconds), "cores": len(os.sched_getaffinity(0)), "machine": platform.machine()}


def rendered(records: list[dict[str, Any]], twin: dict[str, Any] | None) -> str:
    """The section of the README."""
    order = "/".join(str(device.arch) for device in DEVICES)
    source_of_loops = sorted({record["loop_from"] for record in records})
    lines = [
        BEGIN,
        "",
        f"Values with slashes are for compute capabilities {order} "
        f"({', '.join(device.name for device in DEVICES)}).  Inner loop: the heaviest innermost loop on 8.0, counted "
        f"in {' and '.join(source_of_loops)}.  Set by: the unit that sets the bound on 8.0.  "
        "Occupancy 0: so much shared memory is not there; the launcher then keeps the parts in global memory.",
        "",
        "| kernel | type | registers | spilled bytes | threads, shared bytes | occupancy % | inner loop | problem | "
        "time at least, ms | set by |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_rendered_row(record) for record in records]
    if twin is not None:
        lines += ["", _rendered_twin(records, twin)]
    return "\n".join([*lines, "", END])


def _rendered_row(record: dict[str, Any]) -> str:
    cells = [record["kernel"], record["type"], _slashes(record["registers"]), _slashes(record["spilled"])]
    if "seconds" in record:
        share = _slashes({arch: round(100 * value) for arch, value in record["occupancy"].items()})
        times = _slashes({arch: _milliseconds(value) for arch, value in record["seconds"].items()})
        launch = f"{record['threads']}, {record['shared']}"
        cells += [launch, share, record["loop"], record["problem"], times, record["limit"]]
    else:
        cells += ["", "", record["loop"], "", "", ""]
    return f"| {' | '.join(cells)} |"


def _milliseconds(seconds: float) -> str:
    """Two digits, without an exponent."""
    return f"{1000 * seconds:.2g}" if seconds < 0.1 else f"{round(1000 * seconds, -1):.0f}"


def _slashes(values: dict[int, Any]) -> str:
    different = {str(value) for value in values.values()}
    return different.pop() if len(different) == 1 else "/".join(str(value) for value in values.values())


def _rendered_twin(records: list[dict[str, Any]], twin: dict[str, Any]) -> str:
    bound = next(r for r in records if r["kernel"] == "kmember/kmember" and r["type"] == "float")["seconds"][80]
    return (
        f"k-member on 1 M × 10 rows, k = 5, blocks of {BLOCK}, float32: at least {1000 * bound:.2g} ms on an "
        f"{A100.name} (a bound, not a measurement); NumPy took {twin['seconds']:.1f} s on {twin['cores']} "
        f"cores in the same run.  The bound is {twin['seconds'] / bound:,.0f} times below; the time on a device "
        "has not been measured."
    )


def write(section: str) -> None:
    """Replace the section in the README."""
    text = README.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    README.write_text(before + section + after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-numpy", action="store_true", help="do not measure the NumPy twin")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    options = parser.parse_args()
    records = rows()
    twin = None if options.no_numpy else numpy_kmember()
    if options.json:
        options.json.write_text(json.dumps({"kernels": records, "numpy_kmember": twin}, indent=1) + "\n")
    write(rendered(records, twin))


if __name__ == "__main__":
    main()
