"""Comparison, selection, copies and conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.support import rounding
from tests.cuda.support.builders import FLOATS, LOGICAL, builds, function_step, rounding_of
from tests.cuda.support.faults import Unsupported
from tests.cuda.support.lanes import DTYPES, Active
from tests.cuda.support.memory import LOCAL, OFFSET, SHARED
from tests.cuda.support.ptx import BYTES, Instruction
from tests.cuda.support.registers import Registers, Step, step

_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}
_COMPARE |= {"ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}


def _comparison(name: str, floating: bool) -> Callable[[Any, Any], Any]:
    """The comparison of that name; ordered ones are false and unordered ones true when a NaN takes part."""
    if not floating:
        return _COMPARE[name]
    if name in ("num", "nan"):
        missing = lambda a, b: np.isnan(a) | np.isnan(b)  # noqa: E731
        return missing if name == "nan" else lambda a, b: ~missing(a, b)
    if name.endswith("u") and name[:-1] in _COMPARE:
        plain = _COMPARE[name[:-1]]
        return lambda a, b: plain(a, b) | np.isnan(a) | np.isnan(b)
    if name == "ne":
        return lambda a, b: (a < b) | (a > b)
    return _COMPARE[name]


@builds("setp")
def _set_predicate(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    compare = _comparison(instruction.modifiers[0], kind in FLOATS)
    a, b = (registers.source(operand, kind) for operand in instruction.operands[1:3])
    targets = [registers.target(name, "pred")[0] for name in str(instruction.operands[0]).split("|")]
    combine = next((LOGICAL[m] for m in instruction.modifiers[1:] if m in LOGICAL), None)
    if combine is None and len(targets) == 1 and isinstance(compare, np.ufunc):
        out = targets[0]
        return lambda active: compare(a, b, out=out, where=active.where)
    extra, negated = _predicate(registers, instruction, 3) if combine is not None else (np.True_, False)

    def compute(active: Active) -> None:
        found = compare(a, b)
        third = np.logical_not(extra) if negated else extra
        for target, value in zip(targets, (found, np.logical_not(found)), strict=False):
            np.copyto(target, value if combine is None else combine(value, third), where=active.where)

    return compute


def _predicate(registers: Registers, instruction: Instruction, index: int) -> tuple[Any, bool]:
    """A predicate operand and whether it is negated."""
    name = str(instruction.operands[index])
    return registers.source(name.lstrip("!"), "pred"), name.startswith("!")


@builds("selp")
def _select(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    a, b = (registers.source(operand, kind) for operand in instruction.operands[1:3])
    choice, negated = _predicate(registers, instruction, 3)
    out, after = registers.target(instruction.operands[0], kind)
    if negated:
        a, b = b, a
    return step(lambda active: np.copyto(out, np.where(choice, a, b), where=active.where), after)


@builds("mov")
def _move(registers: Registers, instruction: Instruction) -> Step:
    target, value = instruction.operands
    if isinstance(target, tuple):
        return _unpack(registers, instruction, target)
    if isinstance(value, tuple):
        return _pack(registers, instruction, value)
    kind = instruction.type
    if kind == "pred":
        return function_step(registers, instruction, lambda a: a, "pred")
    source = registers.source(value, kind)
    out, after = registers.target(target, kind)
    return step(lambda active: np.copyto(out, source, where=active.where), after)


def _unpack(registers: Registers, instruction: Instruction, names: tuple[str, ...]) -> Step:
    size = BYTES[instruction.type] // len(names)
    whole = registers.source(instruction.operands[1], f"u{8 * BYTES[instruction.type]}")
    parts = [(i, registers.target(name, f"b{8 * size}")[0]) for i, name in enumerate(names) if name != "_"]

    def compute(active: Active) -> None:
        before = np.array(whole)  # a part may be the very register that is taken apart
        for index, out in parts:
            np.copyto(out, before >> before.dtype.type(8 * size * index), where=active.where, casting="unsafe")

    return compute


def _pack(registers: Registers, instruction: Instruction, names: tuple[str, ...]) -> Step:
    size = BYTES[instruction.type] // len(names)
    parts = [registers.source(name, f"b{8 * size}") for name in names]
    out, after = registers.target(instruction.operands[0], f"u{8 * BYTES[instruction.type]}")

    def compute(active: Active) -> None:
        whole = out.dtype.type(0)
        for index, part in enumerate(parts):
            whole = whole | np.asarray(part).astype(out.dtype) << out.dtype.type(8 * size * index)
        np.copyto(out, whole, where=active.where)

    return step(compute, after)


@builds("cvt")
def _convert(registers: Registers, instruction: Instruction) -> Step:
    to, of = instruction.types
    source = registers.source(instruction.operands[1], of)
    out, after = registers.target(instruction.operands[0], to)
    convert = _conversion(instruction, to, of)

    def compute(active: Active) -> None:
        np.copyto(out, convert(source), where=active.where, casting="unsafe")
        if to == "f32" and "ftz" in instruction.modifiers:
            rounding.flush(out, active.where)

    return step(compute, after)


def _conversion(instruction: Instruction, to: str, of: str) -> Callable[[Any], Any]:
    integral = next((m for m in instruction.modifiers if m in ("rzi", "rni", "rmi", "rpi")), None)
    dtype = DTYPES[to]
    if to in FLOATS and of in FLOATS:
        if integral:
            whole = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[integral]
            return lambda a: whole(a).astype(dtype)
        if "sat" in instruction.modifiers:
            return lambda a: np.where(np.isnan(a), 0, np.clip(a, 0, 1)).astype(dtype)
        mode = rounding_of(instruction)
        if to == "f32" and of == "f64" and mode != "rn":
            return lambda a: rounding.directed(np.atleast_1d(a), 0.0, mode)
        return lambda a: np.asarray(a).astype(dtype)
    if of in FLOATS:
        return lambda a: rounding.to_integer(np.atleast_1d(a), integral or "rzi", dtype)
    if "sat" in instruction.modifiers:
        limits = np.iinfo(dtype)
        return lambda a: np.clip(np.asarray(a).astype(object), limits.min, limits.max).astype(dtype)
    if to in FLOATS and rounding_of(instruction) != "rn":
        raise Unsupported(instruction.text)
    return lambda a: np.asarray(a).astype(dtype)


@builds("cvta")
def _convert_address(registers: Registers, instruction: Instruction) -> Step:
    """Between the addresses of a state space and generic ones; global addresses are both."""
    number = {"shared": SHARED, "local": LOCAL}.get(next(m for m in instruction.modifiers if m not in ("to",)), 0)
    if "to" in instruction.modifiers and number:
        return function_step(registers, instruction, lambda a: a & OFFSET, "u64")
    return function_step(registers, instruction, lambda a: a | np.uint64(number << 40), "u64")
