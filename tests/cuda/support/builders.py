"""How one PTX instruction becomes a function on the active lanes: code shared by all builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.support.lanes import Active
from tests.cuda.support.ptx import Instruction
from tests.cuda.support.registers import Registers, Step, step

Builder = Callable[[Registers, Instruction], Step]
BUILDERS: dict[str, Builder] = {}

ROUNDINGS = ("rn", "rz", "rm", "rp")
FLOATS = ("f32", "f64")
LOGICAL = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def builds(*opcodes: str) -> Callable[[Builder], Builder]:
    """Register the builder of some opcodes."""

    def register(builder: Builder) -> Builder:
        BUILDERS.update(dict.fromkeys(opcodes, builder))
        return builder

    return register


def rounding_of(instruction: Instruction) -> str:
    """The rounding mode of an instruction."""
    return next((m for m in instruction.modifiers if m in ROUNDINGS), "rn")


def ufunc_step(
    registers: Registers, instruction: Instruction, ufunc: Any, kind: str | None = None, result: str | None = None
) -> Step:
    """A NumPy ufunc of all operands, written directly to the destination."""
    kind = kind or instruction.type
    operands = registers.sources(instruction, kind)
    out, after = registers.target(instruction.operands[0], result or kind)
    return step(lambda active: ufunc(*operands, out=out, where=active.where), after)


def function_step(
    registers: Registers, instruction: Instruction, function: Callable[..., Any], kind: str, result: str | None = None
) -> Step:
    """Any function of the operands' arrays, over all lanes, kept where active."""
    operands = registers.sources(instruction, kind)
    out, after = registers.target(instruction.operands[0], result or kind)

    def compute(active: Active) -> None:
        np.copyto(out, function(*operands), where=active.where, casting="unsafe")

    return step(compute, after)
