"""Most registers and other resources of every kernel on every architecture, recorded in ``tests/cuda/ceilings.json``.

``python -m tests.cuda.support.ceilings`` compiles everything and writes the file anew: look at the difference before
committing it.  Registers are recorded as the next multiple of 8, because the hardware hands them out in eights.
Spills or a stack are written with ``"reason": "?"``; the test fails until somebody has put the reason there.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from gpuanon.arrays.kernels import source
from tests.cuda.support import nvrtc

FILE = Path(__file__).resolve().parents[1] / "ceilings.json"


def variants(text: str) -> list[tuple[str, ...]]:
    """Sets of compile-time constants that a file is used with, from its line ``// variants: A=0 A=1,B=2``."""
    found = re.search(r"^// variants:(.*)$", text, re.M)
    if found is None:
        return [()]
    return [tuple(f"-D{constant}" for constant in variant.split(",")) for variant in found[1].split()]


def compiled(file: str, real: Any, arch: int) -> dict[str, nvrtc.Resources]:
    """The resources of every kernel of a file; of several sets of constants, the largest."""
    found: dict[str, nvrtc.Resources] = {}
    text = source(file)
    for constants in variants(text):
        for name, resources in nvrtc.cubin(text, real, arch, constants).kernels.items():
            worst = found.get(name, resources)
            pairs = zip(_values(worst), _values(resources), strict=True)
            found[name] = nvrtc.Resources(*(max(pair) for pair in pairs))
    return found


def _values(resources: nvrtc.Resources) -> tuple[int, ...]:
    return tuple(vars(resources).values())


def ceiling(resources: nvrtc.Resources) -> dict[str, Any]:
    """What is recorded of one kernel on one architecture."""
    recorded: dict[str, Any] = {"registers": -(-resources.registers // 8) * 8, "shared": resources.shared}
    spilled = resources.spill_stores + resources.spill_loads
    if resources.stack or spilled:
        recorded |= {"stack": resources.stack, "spilled": spilled, "reason": "?"}
    return recorded


def read() -> dict[str, Any]:
    """The recorded ceilings: file → kernel → type → architecture."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def write(files: list[str]) -> None:
    """Record the ceilings of some files again."""
    ceilings = read()
    for file in files:
        ceilings[file] = {}
        for real in nvrtc.REALS:
            for arch in nvrtc.ARCHITECTURES:
                for name, resources in compiled(file, real, arch).items():
                    ceilings[file].setdefault(name, {}).setdefault(real, {})[str(arch)] = ceiling(resources)
                print(file, real, arch, file=sys.stderr)
    present = {path.stem for path in nvrtc.kernel_files()}
    ordered = {file: ceilings[file] for file in sorted(ceilings) if file in present}
    FILE.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    write(sys.argv[1:] or [path.stem for path in nvrtc.kernel_files()])
