"""Instructions of the inner loops of a kernel: from machine code if nvdisasm is installed, else from PTX."""

from __future__ import annotations

import re
import shutil
import site
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.cuda.support.nvrtc import Cubin
from tests.cuda.support.ptx import Instruction, Kernel

CLASSES = ("fp32", "fp64", "special", "shared", "global", "exchange", "barrier", "branch", "other")

_SASS = (
    ("fp32", r"F(FMA|ADD|MUL|SETP|MNMX|SEL|CHK|2F)"),
    ("fp64", r"D(FMA|ADD|MUL|SETP|MNMX)"),
    ("special", r"MUFU"),
    ("shared", r"(LDS|STS|ATOMS)"),
    ("global", r"(LDG|STG|LD|ST|ATOM|ATOMG|RED|REDG|LDC|LDCU|ULDC)$"),
    ("exchange", r"(SHFL|VOTE|VOTEU|REDUX|MATCH)"),
    ("barrier", r"(BAR|WARPSYNC)"),
    ("branch", r"(BRA|BRX|BSSY|BSYNC|BREAK|EXIT|CALL|RET|NOP)"),
)


@dataclass(frozen=True)
class Loop:
    """The instructions of one loop, by class."""

    mix: Counter[str]
    source: str  # "SASS" or "PTX"

    @property
    def length(self) -> int:
        return sum(self.mix.values())

    def text(self) -> str:
        """Such as ``fp32 64, shared 20, other 9``."""
        return ", ".join(f"{name} {self.mix[name]}" for name in CLASSES if self.mix[name]) or "no loop"


def find_nvdisasm() -> str | None:
    """The disassembler, on the path or among the Python packages (nvidia-cuda-nvdisasm)."""
    found = shutil.which("nvdisasm")
    if found:
        return found
    for folder in site.getsitepackages():
        for candidate in Path(folder).glob("nvidia/*/bin/nvdisasm"):
            return str(candidate)
    return None


def sass_loops(cubin: Cubin, nvdisasm: str) -> dict[str, Loop]:
    """The heaviest innermost loop of each kernel, from its machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin.image + b"\0")  # CuPy cuts off the last byte
        file.flush()
        done = subprocess.run([nvdisasm, "-c", file.name], capture_output=True, text=True, check=True)
    loops = {}
    for section in re.split(r"^\.text\.", done.stdout, flags=re.M)[1:]:
        name = section.split(":", 1)[0]
        loops[name] = _heaviest(*_sass_instructions(section), "SASS")
    return loops


def _sass_instructions(section: str) -> tuple[list[str], list[tuple[int, int]]]:
    """Classes of the instructions in order, and the backward branches as (target, branch)."""
    classes: list[str] = []
    labels: dict[str, int] = {}
    jumps: list[tuple[int, str]] = []
    for line in section.splitlines():
        if label := re.match(r"(\.L_\w+):", line):
            labels[label[1]] = len(classes)
        elif found := re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)(\S*)\s*(.*);", line):
            if found[1].startswith("BRA") and (target := re.search(r"\(?(\.L_\w+)\)?", found[3])):
                jumps.append((len(classes), target[1]))
            classes.append(_class_of(found[1]))
    # A branch to itself stands behind the end of a kernel and is never executed.
    backward = [(labels[target], at) for at, target in jumps if target in labels and labels[target] < at]
    return classes, backward


def _class_of(opcode: str) -> str:
    return next((name for name, pattern in _SASS if re.match(pattern, opcode)), "other")


def ptx_loops(kernel: Kernel) -> Loop:
    """The heaviest innermost loop of a kernel, from its PTX."""
    classes = [ptx_class(instruction) for instruction in kernel.instructions]
    backward = [
        (kernel.targets[str(instruction.operands[0])], at)
        for at, instruction in enumerate(kernel.instructions)
        if instruction.opcode == "bra" and kernel.targets[str(instruction.operands[0])] <= at
    ]
    return _heaviest(classes, backward, "PTX")


def ptx_class(instruction: Instruction) -> str:
    """The class of a PTX instruction; "none" for what the assembler removes."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in ("ld", "st", "atom", "red"):
        if "param" in modifiers:
            return "none"
        return "shared" if any(m.startswith("shared") for m in modifiers) else "global"
    if opcode in ("mov", "cvta"):
        return "none"
    if opcode in ("shfl", "vote", "redux"):
        return "exchange"
    if opcode in ("bar", "barrier"):
        return "barrier"
    if opcode in ("bra", "ret", "exit"):
        return "branch"
    if opcode in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "div") and modifiers[-1][0] == "f":
        return "special"
    if opcode in ("add", "sub", "mul", "fma") and modifiers[-1] in ("f32", "f64"):
        return "fp32" if modifiers[-1] == "f32" else "fp64"
    return "other"


def _heaviest(classes: list[str], backward: list[tuple[int, int]], source: str) -> Loop:
    """Of the loops that hold no other loop, the one with most arithmetic, then with most accesses to memory."""
    inner = [
        (begin, end)
        for begin, end in backward
        if not any((a, b) != (begin, end) and begin <= a and b <= end for a, b in backward)
    ]
    mixes = [Counter(c for c in classes[begin : end + 1] if c != "none") for begin, end in inner]
    arithmetic, memory = ("fp32", "fp64", "special"), ("shared", "global")

    def weight(mix: Counter[str]) -> tuple[int, int, int]:
        return sum(mix[name] for name in arithmetic), sum(mix[name] for name in memory), sum(mix.values())

    best: Counter[str] = max(mixes, key=weight, default=Counter())
    return Loop(best, source)
