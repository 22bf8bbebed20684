"""Operands of instructions as arrays over lanes: registers, constants, special registers and addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.support.faults import Unsupported
from tests.cuda.support.lanes import DTYPES, Active, Lanes, view
from tests.cuda.support.ptx import BYTES, Address, Instruction, Kernel, Operand

Step = Callable[[Active], None]
"""What an instruction does for the active lanes."""


class Registers:
    """All registers of all lanes, and what the names in an instruction stand for."""

    def __init__(self, kernel: Kernel, lanes: int, special: dict[str, Lanes], symbols: dict[str, int]) -> None:
        self.kernel = kernel
        self.count = lanes
        self.special = special
        self.symbols = symbols
        self.carry = np.zeros(lanes, np.bool_)
        self.raw = {name: np.zeros(lanes, self._storage(kind)) for name, kind in kernel.registers.items()}

    @staticmethod
    def _storage(kind: str) -> Any:
        return np.bool_ if kind == "pred" else np.dtype(f"u{BYTES[kind]}")

    def clear(self) -> None:
        """Reset all registers for the next thread blocks."""
        for register in self.raw.values():
            register.fill(0)
        self.carry.fill(False)

    def source(self, operand: Operand, kind: str) -> Any:
        """A live view of a register, or a NumPy number, of type `kind`."""
        if not isinstance(operand, str):
            raise Unsupported(f"operand {operand} where a value is needed")
        if operand.startswith("!"):
            raise Unsupported(f"negated operand {operand}")
        if operand in self.raw:
            return view(self.raw[operand], kind)
        if operand in self.special:
            return self.special[operand].astype(f"u{BYTES[kind]}").view(DTYPES[kind])
        return self.constant(operand, kind)

    def constant(self, operand: str, kind: str) -> Any:
        """A literal or the address of a symbol."""
        if kind == "pred":
            return np.bool_(operand not in ("0", "false"))
        size = BYTES[kind]
        if operand[:2].lower() in ("0f", "0d"):
            return np.array([int(operand[2:], 16)], f"u{len(operand[2:]) // 2}").view(DTYPES[kind])[0]
        if operand == "WARP_SZ":
            return DTYPES[kind].type(32)
        if operand in self.symbols:
            return np.array([self.symbols[operand]], np.uint64).astype(f"u{size}").view(DTYPES[kind])[0]
        try:
            number = int(operand.rstrip("U"), 0)
        except ValueError:
            raise Unsupported(f"operand {operand!r}") from None
        return np.array([number % (1 << 8 * size)], np.uint64).astype(f"u{size}").view(DTYPES[kind])[0]

    def sources(self, instruction: Instruction, kind: str | None = None, start: int = 1) -> list[Any]:
        """All operands from `start` on, of one type."""
        return [self.source(operand, kind or instruction.type) for operand in instruction.operands[start:]]

    def target(self, operand: Operand, kind: str) -> tuple[Lanes, Callable[[Active], None] | None]:
        """Where to write a result of type `kind`, and what to do afterwards when the register is wider."""
        if operand == "_":
            return np.zeros(self.count, DTYPES[kind]), None
        if not isinstance(operand, str) or operand not in self.raw:
            raise Unsupported(f"operand {operand} where a register is needed")
        raw = self.raw[operand]
        if kind == "pred" or raw.itemsize == BYTES[kind]:
            return view(raw, kind), None
        scratch = np.zeros(self.count, DTYPES[kind])
        wide = raw.view(f"i{raw.itemsize}") if kind[0] == "s" else raw

        def widen(active: Active) -> None:
            np.copyto(wide, scratch, where=active.where, casting="unsafe")

        return scratch, widen

    def address(self, operand: Operand) -> Callable[[Active], Lanes]:
        """The active lanes' addresses, as 64-bit integers."""
        if not isinstance(operand, Address):
            raise Unsupported(f"operand {operand} where an address is needed")
        offset = np.uint64(operand.offset % (1 << 64))
        if operand.base in self.raw:
            base = self.raw[operand.base]
            return lambda active: active.pick(base).astype(np.uint64) + offset
        fixed = np.uint64(self.constant(operand.base, "u64"))
        return lambda active: np.full(len(active.lanes), fixed + offset)


def step(compute: Callable[[Active], None], after: Callable[[Active], None] | None) -> Step:
    """`compute`, then `after` if there is anything."""
    if after is None:
        return compute

    def both(active: Active) -> None:
        compute(active)
        after(active)

    return both
