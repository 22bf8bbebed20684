"""Arithmetic of integers, and which arithmetic an instruction means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.support.builders import FLOATS, LOGICAL, builds, function_step, ufunc_step
from tests.cuda.support.faults import Unsupported
from tests.cuda.support.floats import float_binary, flushed, fma
from tests.cuda.support.lanes import DTYPES, Active, Lanes
from tests.cuda.support.ptx import BYTES, Instruction
from tests.cuda.support.registers import Registers, Step, step

_INTEGER = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@builds("add", "sub", "min", "max", "and", "or", "xor")
def _binary(registers: Registers, instruction: Instruction) -> Step:
    if instruction.type in FLOATS:
        return float_binary(registers, instruction)
    if "cc" in instruction.modifiers:
        return _with_carry(registers, instruction)
    table = LOGICAL if instruction.type == "pred" else _INTEGER
    return ufunc_step(registers, instruction, table[instruction.opcode])


@builds("addc", "subc")
def _with_carry(registers: Registers, instruction: Instruction) -> Step:
    """Additions that set or use the carry flag, 32 or 64 bits at a time."""
    a, b = registers.sources(instruction)
    out, after = registers.target(instruction.operands[0], instruction.type)
    bits = 8 * BYTES[instruction.type]
    uses, sets = instruction.opcode.endswith("c"), "cc" in instruction.modifiers
    subtract = instruction.opcode.startswith("sub")
    if bits != 32:
        raise Unsupported(instruction.text)

    def compute(active: Active) -> None:
        x, y = np.asarray(a).astype(np.uint32).astype(np.int64), np.asarray(b).astype(np.uint32).astype(np.int64)
        carried = registers.carry.astype(np.int64) if uses else 0
        total = x - y - carried if subtract else x + y + carried
        np.copyto(out, (total & 0xFFFFFFFF).astype(np.uint32).view(out.dtype), where=active.where)
        if sets:
            np.copyto(registers.carry, (total >> 32) != 0, where=active.where)

    return step(compute, after)


@builds("mul", "mad", "madc")
def _multiply(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    if kind in FLOATS:
        return fma(registers, instruction) if instruction.opcode != "mul" else float_binary(registers, instruction)
    if instruction.opcode == "madc" or "cc" in instruction.modifiers:
        return _multiply_with_carry(registers, instruction)
    wide = f"{kind[0]}{16 * BYTES[kind]}"
    result = wide if "wide" in instruction.modifiers else kind
    a, b = registers.source(instruction.operands[1], kind), registers.source(instruction.operands[2], kind)
    out, after = registers.target(instruction.operands[0], result)
    product = _product(instruction, a, b, DTYPES[wide] if BYTES[kind] < 8 else None)
    if instruction.opcode == "mul":
        if "hi" not in instruction.modifiers:
            return step(lambda active: np.multiply(a, b, out=out, where=active.where, dtype=out.dtype), after)
        return step(lambda active: np.copyto(out, product(), where=active.where, casting="unsafe"), after)
    c = registers.source(instruction.operands[3], result)
    return step(lambda active: np.copyto(out, product() + c, where=active.where, casting="unsafe"), after)


def _product(instruction: Instruction, a: Any, b: Any, wide: Any) -> Callable[[], Any]:
    """The part of the product that the instruction keeps."""
    if "hi" in instruction.modifiers:
        return lambda: high_product(np.asarray(a), np.asarray(b))
    if "wide" in instruction.modifiers:
        return lambda: np.multiply(a, b, dtype=wide)
    return lambda: np.multiply(a, b)


def high_product(a: Lanes, b: Lanes) -> Lanes:
    """The upper half of an integer product."""
    signed = a.dtype.kind == "i"
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{a.dtype.itemsize * 2}")
        return (np.multiply(a, b, dtype=wide) >> bits).astype(a.dtype)
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + ((x0 * y0) >> half)
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> half) + (other >> half)
    if signed:
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.astype(a.dtype) if not signed else high.view(np.int64)


def _multiply_with_carry(registers: Registers, instruction: Instruction) -> Step:
    a, b, c = registers.sources(instruction, "u32")
    out, after = registers.target(instruction.operands[0], "u32")
    uses, sets = instruction.opcode == "madc", "cc" in instruction.modifiers
    if BYTES[instruction.type] != 4:
        raise Unsupported(instruction.text)

    def compute(active: Active) -> None:
        product = np.multiply(a, b, dtype=np.uint64)
        part = product >> np.uint64(32) if "hi" in instruction.modifiers else product & np.uint64(0xFFFFFFFF)
        total = part + np.asarray(c).astype(np.uint64) + (registers.carry.astype(np.uint64) if uses else np.uint64(0))
        np.copyto(out, (total & np.uint64(0xFFFFFFFF)).astype(np.uint32), where=active.where)
        if sets:
            np.copyto(registers.carry, (total >> np.uint64(32)) != 0, where=active.where)

    return step(compute, after)


@builds("div", "rem")
def _divide(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    if kind in FLOATS:
        return float_binary(registers, instruction)

    def divide(a: Any, b: Any) -> Any:
        rest = np.fmod(a, b)  # the sign of the dividend, as in C
        return rest if instruction.opcode == "rem" else (a - rest) // np.where(b == 0, b + b.dtype.type(1), b)

    return function_step(registers, instruction, divide, kind)


@builds("neg", "abs")
def _sign(registers: Registers, instruction: Instruction) -> Step:
    ufunc = np.negative if instruction.opcode == "neg" else np.abs
    if instruction.type in FLOATS:
        return flushed(registers, instruction, lambda a: ufunc(a))
    return ufunc_step(registers, instruction, ufunc)
