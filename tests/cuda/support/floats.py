"""Instructions in floating point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.support import rounding
from tests.cuda.support.builders import builds, function_step, rounding_of
from tests.cuda.support.faults import Unsupported
from tests.cuda.support.lanes import DTYPES, Active, Lanes
from tests.cuda.support.ptx import Instruction
from tests.cuda.support.registers import Registers, Step, step

_BINARY: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.fmin,
    "max": np.fmax,
}


def flushed(registers: Registers, instruction: Instruction, function: Callable[..., Any]) -> Step:
    """A function in floating point, its float32 result flushed if the instruction says so."""
    kind = instruction.type
    operands = registers.sources(instruction, kind)
    out, after = registers.target(instruction.operands[0], kind)
    flush = "ftz" in instruction.modifiers and kind == "f32"
    saturate = "sat" in instruction.modifiers

    def compute(active: Active) -> None:
        result = function(*operands)
        if saturate:
            result = np.where(np.isnan(result), 0, np.clip(result, 0, 1))
        np.copyto(out, result, where=active.where, casting="unsafe")
        if flush:
            rounding.flush(out, active.where)

    return step(compute, after)


def float_binary(registers: Registers, instruction: Instruction) -> Step:
    kind, mode, opcode = instruction.type, rounding_of(instruction), instruction.opcode
    if mode != "rn" and opcode in ("add", "sub", "mul"):
        if kind != "f32":
            raise Unsupported(instruction.text)
        return flushed(registers, instruction, lambda a, b: _directed_binary(opcode, a, b, mode))
    ufunc = _BINARY[opcode]
    if "NaN" in instruction.modifiers:
        ufunc = {"min": np.minimum, "max": np.maximum}[opcode]
    if "sat" in instruction.modifiers or mode != "rn":
        return flushed(registers, instruction, ufunc)
    a, b = registers.sources(instruction)
    out, after = registers.target(instruction.operands[0], kind)
    if "ftz" not in instruction.modifiers or kind == "f64":
        return step(lambda active: ufunc(a, b, out=out, where=active.where), after)

    def compute(active: Active) -> None:
        ufunc(a, b, out=out, where=active.where)
        rounding.flush(out, active.where)

    return step(compute, after)


def _directed_binary(opcode: str, a: Any, b: Any, mode: str) -> Lanes:
    x, y = np.atleast_1d(a).astype(np.float64), np.atleast_1d(b).astype(np.float64)
    if opcode == "mul":
        return rounding.directed(x * y, 0.0, mode)
    return rounding.single_sum(x, -y if opcode == "sub" else y, mode)


@builds("fma")
def fma(registers: Registers, instruction: Instruction) -> Step:
    mode, lanes = rounding_of(instruction), registers.count
    if instruction.type == "f32":
        return flushed(registers, instruction, lambda a, b, c: rounding.fma32(*_arrays(lanes, a, b, c), mode))
    if mode != "rn":
        raise Unsupported(instruction.text)
    a, b, c = registers.sources(instruction)
    out, after = registers.target(instruction.operands[0], "f64")

    def compute(active: Active) -> None:
        if len(active.lanes) * 2 > lanes:
            np.copyto(out, rounding.fma64(*_arrays(lanes, a, b, c)), where=active.where)
        else:  # costly: worth gathering the few lanes that need it
            active.put(out, rounding.fma64(active.pick(a), active.pick(b), active.pick(c)))

    return step(compute, after)


def _whole(values: Any, lanes: int) -> Lanes:
    return np.full(lanes, values) if np.ndim(values) == 0 else values


def _arrays(lanes: int, *values: Any) -> tuple[Lanes, ...]:
    return tuple(_whole(value, lanes) for value in values)


_UNARY: dict[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: 1 / x,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@builds(*_UNARY)
def _unary(registers: Registers, instruction: Instruction) -> Step:
    """Functions of one number; float32 goes through float64 and is rounded once."""
    function = _UNARY[instruction.opcode]
    if instruction.type == "f32":
        return flushed(registers, instruction, lambda a: function(np.asarray(a).astype(np.float64)).astype(np.float32))
    if "approx" in instruction.modifiers and "ftz" in instruction.modifiers:
        return flushed(registers, instruction, lambda a: _upper_word(function(_upper_word(a))))
    return flushed(registers, instruction, function)


def _upper_word(values: Any) -> Lanes:
    """Only the upper 32 bits of a float64: all that its approximate instructions look at and give."""
    bits = np.atleast_1d(values).astype(np.float64).view(np.uint64)
    return (bits & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


@builds("copysign")
def _copy_sign(registers: Registers, instruction: Instruction) -> Step:
    return function_step(registers, instruction, lambda sign, value: np.copysign(value, sign), instruction.type)


@builds("testp")
def _test(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    tiny = np.finfo(DTYPES[kind]).tiny
    tests: dict[str, Callable[[Any], Any]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= tiny),
        "subnormal": lambda x: (x != 0) & (np.abs(x) < tiny),
    }
    return function_step(registers, instruction, tests[instruction.modifiers[0]], kind, "pred")
