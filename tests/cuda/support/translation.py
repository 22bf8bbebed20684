"""Instructions as functions on lanes, made when they are first executed."""

from __future__ import annotations

import numpy as np

from tests.cuda.support import movement
from tests.cuda.support.faults import Unsupported
from tests.cuda.support.instructions import BUILDERS
from tests.cuda.support.lanes import WARP, Active, Lanes
from tests.cuda.support.launches import Grid
from tests.cuda.support.memory import Memory
from tests.cuda.support.ptx import Instruction, Kernel
from tests.cuda.support.registers import Registers, Step


class Translation:
    """The instructions of one kernel for the blocks that run side by side."""

    def __init__(self, kernel: Kernel, registers: Registers, memory: Memory, arguments: list[bytes]) -> None:
        self.kernel, self.registers, self.memory = kernel, registers, memory
        self.parameters = {p.name: given for p, given in zip(kernel.parameters, arguments, strict=True)}
        self.steps: list[Step | None] = [None] * len(kernel.instructions)

    def step(self, at: int) -> Step:
        """The function that does what instruction number `at` says."""
        found = self.steps[at]
        if found is None:
            instruction = self.kernel.instructions[at]
            found = self.steps[at] = self._guarded(instruction, self._translated(instruction))
        return found

    def _translated(self, instruction: Instruction) -> Step:
        opcode = instruction.opcode
        if opcode in BUILDERS:
            return BUILDERS[opcode](self.registers, instruction)
        if opcode in ("ld", "ldu"):
            return movement.build_load(self.registers, self.memory, self.parameters, instruction)
        if opcode == "st":
            return movement.build_store(self.registers, self.memory, instruction)
        if opcode in ("atom", "red"):
            return movement.build_atomic(self.registers, self.memory, instruction)
        if opcode in movement.WARP_WIDE:
            return movement.build_warp_wide(self.registers, instruction)
        if opcode == "activemask":
            return self._active_mask(instruction)
        if opcode in ("membar", "fence", "nanosleep", "prefetch"):
            return lambda active: None  # nothing that a computation could see
        raise Unsupported(f"{self.kernel.name}, {instruction.line}: {instruction.text}")

    def _guarded(self, instruction: Instruction, done: Step) -> Step:
        if instruction.guard is None:
            if instruction.opcode in ("ld", "st", "atom", "red"):
                return lambda active: done(active) if len(active.lanes) else None
            return done
        guard, negated = self.registers.raw[instruction.guard], instruction.negated

        def guarded(active: Active) -> None:
            some = active.only(~guard if negated else guard)
            if len(some.lanes):
                done(some)

        return guarded

    def _active_mask(self, instruction: Instruction) -> Step:
        out, _ = self.registers.target(instruction.operands[0], "u32")
        return lambda active: np.copyto(out, movement.present_lanes(active.mask), where=active.where)


def special_registers(shape: Grid, block_of_lane: Lanes, thread: Lanes) -> dict[str, Lanes]:
    """Numbers and sizes of threads and blocks, lane by lane."""
    grid, block, number = shape.grid, shape.block, block_of_lane
    values = {
        "%tid.x": thread % block[0],
        "%tid.y": thread // block[0] % block[1],
        "%tid.z": thread // (block[0] * block[1]),
        "%ctaid.x": number % grid[0],
        "%ctaid.y": number // grid[0] % grid[1],
        "%ctaid.z": number // (grid[0] * grid[1]),
        "%laneid": thread % WARP,
        "%warpid": thread // WARP,
        "%lanemask_lt": (1 << thread % WARP) - 1,
        "%lanemask_le": (2 << thread % WARP) - 1,
        "%lanemask_eq": 1 << thread % WARP,
    }
    for axis, name in enumerate("xyz"):
        values[f"%ntid.{name}"] = np.full(len(thread), block[axis])
        values[f"%nctaid.{name}"] = np.full(len(thread), grid[axis])
    return {name: value.astype(np.uint64) for name, value in values.items()}
