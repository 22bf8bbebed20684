"""Instructions that move data: loads, stores and atomics, shuffles, votes and reductions inside a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.support import rounding
from tests.cuda.support.faults import BarrierFault, Unsupported
from tests.cuda.support.lanes import WARP, Active, Lanes
from tests.cuda.support.memory import Access, Memory
from tests.cuda.support.ptx import BYTES, Address, Instruction
from tests.cuda.support.registers import Registers, Step

SPACES = ("global", "shared", "local", "param", "const")
WARP_WIDE = ("shfl", "vote", "redux", "match")
"""Instructions at which the lanes that a mask names wait for each other."""


def space_of(instruction: Instruction) -> str:
    """The state space of an access; generic addresses carry their own."""
    return next((m.split("::")[0] for m in instruction.modifiers if m.split("::")[0] in SPACES), "generic")


def build_load(registers: Registers, memory: Memory, parameters: dict[str, bytes], instruction: Instruction) -> Step:
    """``ld`` of one value or a vector, from memory or from the kernel's parameters."""
    place = instruction.operands[1]
    kind = instruction.type
    names = instruction.operands[0] if isinstance(instruction.operands[0], tuple) else (str(instruction.operands[0]),)
    targets = [registers.target(name, kind) for name in names]
    if isinstance(place, Address) and place.base in parameters:
        return _load_parameters(parameters[place.base], place.offset, kind, targets)
    space, size = space_of(instruction), BYTES[kind]
    address = registers.address(place)

    def load(active: Active) -> None:
        access = Access(instruction, active, "load", size * len(targets))
        addresses = address(active)
        for index, (out, after) in enumerate(targets):
            values = memory.load(space, addresses + np.uint64(size * index), kind, access, index)
            if kind == "f32":
                rounding.flush(values, True)  # all arithmetic is compiled to do so
            active.put(out, values)
            if after is not None:
                after(active)

    return load


def _load_parameters(content: bytes, offset: int, kind: str, targets: list[Any]) -> Step:
    from tests.cuda.support.lanes import DTYPES

    size = BYTES[kind]
    values = [np.frombuffer(content, DTYPES[kind], 1, offset + size * i)[0] for i in range(len(targets))]

    def load(active: Active) -> None:
        for (out, after), value in zip(targets, values, strict=True):
            np.copyto(out, value, where=active.where)
            if after is not None:
                after(active)

    return load


def build_store(registers: Registers, memory: Memory, instruction: Instruction) -> Step:
    """``st`` of one value or a vector."""
    kind, space = instruction.type, space_of(instruction)
    size = BYTES[kind]
    names = instruction.operands[1] if isinstance(instruction.operands[1], tuple) else (str(instruction.operands[1]),)
    sources = [registers.source(name, kind) for name in names]
    address = registers.address(instruction.operands[0])

    def store(active: Active) -> None:
        access = Access(instruction, active, "store", size * len(sources))
        addresses = address(active)
        for index, source in enumerate(sources):
            memory.store(space, addresses + np.uint64(size * index), active.pick(source), access, index)

    return store


_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, new: old + new,
    "min": min,
    "max": max,
    "exch": lambda old, new: new,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "inc": lambda old, new: 0 if old >= new else old + 1,
    "dec": lambda old, new: new if old == 0 or old > new else old - 1,
}


def build_atomic(registers: Registers, memory: Memory, instruction: Instruction) -> Step:
    """``atom`` and ``red``: lanes update one after another, in ascending order."""
    kind, space = instruction.type, space_of(instruction)
    first = 1 if instruction.opcode == "atom" else 0
    address = registers.address(instruction.operands[first])
    values = [registers.source(operand, kind) for operand in instruction.operands[first + 1 :]]
    out, after = registers.target(instruction.operands[0], kind) if first else (None, None)
    swaps = "cas" in instruction.modifiers
    combine = None if swaps else next((_UPDATES[m] for m in instruction.modifiers if m in _UPDATES), None)
    if combine is None and not swaps:
        raise Unsupported(instruction.text)

    def update(active: Active) -> None:
        given = [active.pick(value) for value in values]

        def new(old: Any, lane: int) -> Any:
            if combine is None:
                return given[1][lane] if old == given[0][lane] else old
            return combine(old, given[0][lane])

        access = Access(instruction, active, "atomic", BYTES[kind])
        old = memory.update(space, address(active), kind, new, access)
        if out is not None:
            active.put(out, old)
            if after is not None:
                after(active)

    return update


# -- inside a warp ----------------------------------------------------------------------------------------


def member_mask(registers: Registers, instruction: Instruction) -> Any:
    """The operand that names the lanes taking part."""
    return registers.source(instruction.operands[-1], "u32")


def build_warp_wide(registers: Registers, instruction: Instruction) -> Step:
    """Shuffle, vote or reduction of the lanes that are together."""
    if instruction.opcode == "shfl":
        return _shuffle(registers, instruction)
    if instruction.opcode == "vote":
        return _vote(registers, instruction)
    if instruction.opcode == "redux":
        return _reduce(registers, instruction)
    raise Unsupported(instruction.text)


def _shuffle(registers: Registers, instruction: Instruction) -> Step:
    mode = next(m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx"))
    names = str(instruction.operands[0]).split("|")
    out, after = registers.target(names[0], "b32")
    valid = registers.target(names[1], "pred")[0] if len(names) > 1 else None
    value, amount, clamp = (registers.source(operand, "u32") for operand in instruction.operands[1:4])
    lane = np.arange(registers.count) % WARP

    def shuffle(active: Active) -> None:
        by, limits = np.asarray(amount).astype(np.int64) & 31, np.asarray(clamp).astype(np.int64)
        segment, bound = limits >> 8 & 31, limits & 31
        lowest, highest = lane & segment, (lane & segment) | (bound & ~segment)
        origin = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": lowest | (by & ~segment)}[mode]
        within = origin >= highest if mode == "up" else origin <= highest
        origin = np.where(within, origin, lane)
        source = np.arange(registers.count) - lane + origin
        absent = active.mask & ~active.mask[source]
        if absent.any():
            raise BarrierFault(
                f"{instruction.line}: a shuffle reads from a lane that takes no part [{instruction.text}]"
            )
        values = np.full(registers.count, value) if np.ndim(value) == 0 else value
        np.copyto(out, values[source], where=active.where)
        if valid is not None:
            np.copyto(valid, within, where=active.where)
        if after is not None:
            after(active)

    return shuffle


def _vote(registers: Registers, instruction: Instruction) -> Step:
    name = str(instruction.operands[1])
    predicate, negated = registers.source(name.lstrip("!"), "pred"), name.startswith("!")
    mode = instruction.modifiers[1]
    out, after = registers.target(instruction.operands[0], "b32" if mode == "ballot" else "pred")

    def vote(active: Active) -> None:
        said = np.broadcast_to(np.logical_not(predicate) if negated else predicate, active.mask.shape)
        rows, here = said.reshape(-1, WARP), active.mask.reshape(-1, WARP)
        if mode == "ballot":
            result = np.packbits(rows & here, axis=1, bitorder="little").view(np.uint32).ravel()
        elif mode == "any":
            result = (rows & here).any(axis=1)
        elif mode == "all":
            result = (rows | ~here).all(axis=1)
        else:
            result = (rows & here).any(axis=1) ^ (rows | ~here).all(axis=1) ^ True
        np.copyto(out, np.repeat(result, WARP), where=active.where)
        if after is not None:
            after(active)

    return vote


def _reduce(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    value = registers.source(instruction.operands[1], kind)
    out, after = registers.target(instruction.operands[0], kind)
    name = next(m for m in instruction.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    limits = np.iinfo(out.dtype)
    neutral = {"min": limits.max, "max": limits.min, "and": -1 if kind[0] == "s" else limits.max}.get(name, 0)
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum}.get(name) or getattr(np, f"bitwise_{name}")

    def reduce(active: Active) -> None:
        given = np.where(active.mask, value, out.dtype.type(neutral)).reshape(-1, WARP)
        np.copyto(out, np.repeat(ufunc.reduce(given, axis=1, dtype=out.dtype), WARP), where=active.where)
        if after is not None:
            after(active)

    return reduce


def present_lanes(mask: Lanes) -> Lanes:
    """For each lane, the lanes of its warp that are in `mask`, as bits."""
    bits = np.packbits(mask.reshape(-1, WARP), axis=1, bitorder="little").view(np.uint32).ravel()
    return np.repeat(bits, WARP)
