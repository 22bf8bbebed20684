"""Instructions on bits: shifts, counts, fields, bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cuda.support.builders import builds, function_step, ufunc_step
from tests.cuda.support.faults import Unsupported
from tests.cuda.support.lanes import Active, Lanes
from tests.cuda.support.ptx import BYTES, Instruction
from tests.cuda.support.registers import Registers, Step, step


@builds("shl", "shr")
def _shift(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    bits = 8 * BYTES[kind]
    value, amount = registers.source(instruction.operands[1], kind), registers.source(instruction.operands[2], "u32")
    out, after = registers.target(instruction.operands[0], kind)
    ufunc = np.left_shift if instruction.opcode == "shl" else np.right_shift
    if np.ndim(amount) == 0 and amount < bits:
        fixed = out.dtype.type(amount)
        return step(lambda active: ufunc(value, fixed, out=out, where=active.where), after)

    def compute(active: Active) -> None:
        within = np.minimum(amount, np.uint32(bits - 1)).astype(out.dtype)
        shifted = ufunc(value, within)
        gone = np.asarray(value) < 0 if kind[0] == "s" else np.False_
        beyond = np.where(gone, out.dtype.type(-1), out.dtype.type(0)) if kind[0] == "s" else out.dtype.type(0)
        np.copyto(out, np.where(amount >= bits, beyond, shifted), where=active.where, casting="unsafe")

    return step(compute, after)


@builds("not")
def _not(registers: Registers, instruction: Instruction) -> Step:
    return ufunc_step(registers, instruction, np.logical_not if instruction.type == "pred" else np.bitwise_not)


@builds("popc")
def _population_count(registers: Registers, instruction: Instruction) -> Step:
    return function_step(registers, instruction, lambda a: np.bitwise_count(a), instruction.type, "u32")


@builds("clz")
def _leading_zeros(registers: Registers, instruction: Instruction) -> Step:
    bits = 8 * BYTES[instruction.type]
    return function_step(registers, instruction, lambda a: bits - 1 - _highest_bit(a), instruction.type, "u32")


@builds("bfind")
def _find_highest(registers: Registers, instruction: Instruction) -> Step:
    bits = 8 * BYTES[instruction.type]

    def find(a: Any) -> Any:
        value = np.where(a < 0, ~a, a) if instruction.type[0] == "s" else a
        position = _highest_bit(value)
        if "shiftamt" in instruction.modifiers:
            return np.where(position < 0, 0xFFFFFFFF, bits - 1 - position)
        return np.where(position < 0, 0xFFFFFFFF, position)

    return function_step(registers, instruction, find, instruction.type, "u32")


def _highest_bit(values: Any) -> Lanes:
    """Position of the highest set bit, −1 for none."""
    x = np.asarray(values).astype(np.uint64)
    for shift in (1, 2, 4, 8, 16, 32):
        x = x | x >> np.uint64(shift)
    return np.bitwise_count(x).astype(np.int64) - 1


@builds("brev")
def _reverse_bits(registers: Registers, instruction: Instruction) -> Step:
    size = BYTES[instruction.type]

    def reverse(a: Any) -> Any:
        octets = np.ascontiguousarray(np.asarray(a)).reshape(-1).view(np.uint8).reshape(-1, size)
        bits = np.unpackbits(octets[:, ::-1], axis=1)[:, ::-1]
        return np.packbits(bits, axis=1)[:, ::-1].copy().view(f"u{size}").ravel()

    return function_step(registers, instruction, reverse, instruction.type)


@builds("bfe")
def _extract_bits(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    value = registers.source(instruction.operands[1], kind)
    position, length = (registers.source(operand, "u32") for operand in instruction.operands[2:4])
    out, after = registers.target(instruction.operands[0], kind)
    bits = 8 * BYTES[kind]

    def compute(active: Active) -> None:
        at = np.minimum(np.asarray(position) & np.uint32(255), bits).astype(np.int64)
        wide = np.minimum(np.asarray(length) & np.uint32(255), bits).astype(np.int64)
        wide = np.minimum(wide, bits - at)
        left = np.clip(bits - at - wide, 0, bits - 1).astype(out.dtype)
        right = np.clip(bits - wide, 0, bits - 1).astype(out.dtype)
        field = np.right_shift(np.left_shift(value, left), right)
        np.copyto(out, np.where(wide == 0, out.dtype.type(0), field), where=active.where, casting="unsafe")

    return step(compute, after)


@builds("bfi")
def _insert_bits(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    piece, base = (registers.source(operand, kind) for operand in instruction.operands[1:3])
    position, length = (registers.source(operand, "u32") for operand in instruction.operands[3:5])
    out, after = registers.target(instruction.operands[0], kind)
    bits = 8 * BYTES[kind]

    def compute(active: Active) -> None:
        at = (np.asarray(position) & np.uint32(255)).astype(np.uint64)
        wide = np.minimum(np.asarray(length) & np.uint32(255), bits).astype(np.uint64)
        ones = np.where(wide >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(wide, np.uint64(63))) - np.uint64(1))
        mask = np.where(at >= bits, np.uint64(0), ones << np.minimum(at, np.uint64(63)))
        moved = np.asarray(piece).astype(np.uint64) << np.minimum(at, np.uint64(63))
        merged = (moved & mask) | (np.asarray(base).astype(np.uint64) & ~mask)
        np.copyto(out, merged, where=active.where, casting="unsafe")

    return step(compute, after)


@builds("prmt")
def _permute_bytes(registers: Registers, instruction: Instruction) -> Step:
    if instruction.modifiers != ("b32",):
        raise Unsupported(instruction.text)

    def permute(a: Any, b: Any, selector: Any) -> Any:
        both = np.asarray(a).astype(np.uint64) | np.asarray(b).astype(np.uint64) << np.uint64(32)
        result = np.uint32(0)
        for place in range(4):
            choice = np.asarray(selector) >> np.uint32(4 * place)
            octet = (both >> ((choice & np.uint32(7)) * np.uint32(8)).astype(np.uint64)) & np.uint64(255)
            sign = np.where(octet & np.uint64(128), np.uint64(255), np.uint64(0))
            octet = np.where(choice & np.uint32(8), sign, octet)
            result = result | (octet << np.uint64(8 * place)).astype(np.uint32)
        return result

    return function_step(registers, instruction, permute, "b32")


@builds("shf")
def _funnel_shift(registers: Registers, instruction: Instruction) -> Step:
    left, wrap = "l" in instruction.modifiers, "wrap" in instruction.modifiers

    def funnel(low: Any, high: Any, amount: Any) -> Any:
        both = np.asarray(low).astype(np.uint64) | np.asarray(high).astype(np.uint64) << np.uint64(32)
        by = np.asarray(amount) & np.uint32(31) if wrap else np.minimum(amount, np.uint32(32))
        by = by.astype(np.uint64)
        return both << by >> np.uint64(32) if left else both >> by

    return function_step(registers, instruction, funnel, "b32")


@builds("lop3")
def _lookup_logic(registers: Registers, instruction: Instruction) -> Step:
    table = int(str(instruction.operands[4]), 0)
    a, b, c = (registers.source(operand, "b32") for operand in instruction.operands[1:4])
    out, after = registers.target(instruction.operands[0], "b32")

    def compute(active: Active) -> None:
        result = np.zeros(len(out), np.uint32)
        for entry in range(8):
            if table >> entry & 1:
                term = (a if entry & 4 else np.bitwise_not(a)) & (b if entry & 2 else np.bitwise_not(b))
                result |= term & (c if entry & 1 else np.bitwise_not(c))
        np.copyto(out, result, where=active.where)

    return step(compute, after)
