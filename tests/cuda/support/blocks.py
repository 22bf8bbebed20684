"""Thread blocks that run together, all their threads as lanes of NumPy arrays.

Of the lanes that can run, those with the lowest instruction number run together, which brings diverging lanes
together again.  Barriers, shuffles and votes make lanes wait for each other as on a GPU.
"""

from __future__ import annotations

import numpy as np

from tests.cuda.support import movement
from tests.cuda.support.faults import BarrierFault, Endless, Unsupported
from tests.cuda.support.hazards import Clock
from tests.cuda.support.lanes import WARP, Active, Lanes
from tests.cuda.support.launches import Grid, Launch, Watch
from tests.cuda.support.memory import Memory, Region
from tests.cuda.support.ptx import Instruction, Kernel
from tests.cuda.support.registers import Registers
from tests.cuda.support.translation import Translation, special_registers

RUNNING, AT_BARRIER, AT_WARP, FINISHED = range(4)
CONTROL = {"bra": "_branch", "ret": "_finish", "exit": "_finish", "bar": "_barrier", "barrier": "_barrier"}


class Batch:
    """Thread blocks that run together."""

    def __init__(
        self,
        kernel: Kernel,
        shape: Grid,
        arguments: list[bytes],
        regions: list[Region],
        symbols: dict[str, int],
        blocks: Lanes,
        watch: Watch,
        launch: Launch,
    ) -> None:
        self.kernel, self.shape, self.watch, self.launch = kernel, shape, watch, launch
        per_block = shape.lanes_per_block
        self.lanes = len(blocks) * per_block
        self.block_of_lane = np.repeat(blocks, per_block)
        thread = np.tile(np.arange(per_block), len(blocks))
        self.exists = thread < shape.threads
        shared = self._shared_layout()
        self.memory = Memory(kernel.name, regions, self.block_of_lane, self.shared_bytes, kernel.local_bytes, per_block)
        self.clock = Clock(self.block_of_lane * per_block + thread)
        if watch.races:
            self.memory.watch_races(self.clock)
        self.memory.traffic = launch.traffic
        special = special_registers(shape, self.block_of_lane, thread)
        self.registers = Registers(kernel, self.lanes, special, {**symbols, **shared, **kernel.local})
        self.translation = Translation(kernel, self.registers, self.memory, arguments)
        self.steps = self.translation.steps
        self.state = np.where(self.exists, RUNNING, FINISHED)
        self.position = np.zeros(self.lanes, np.int64)

    def _shared_layout(self) -> dict[str, int]:
        """Static shared memory first, then the dynamic one, aligned to 16 bytes."""
        dynamic_at = -(-self.kernel.shared_bytes // 16) * 16
        uses_dynamic = bool(self.kernel.dynamic) and self.shape.dynamic_shared > 0
        self.shared_bytes = dynamic_at + self.shape.dynamic_shared if uses_dynamic else self.kernel.shared_bytes
        return {**self.kernel.shared, **dict.fromkeys(self.kernel.dynamic, dynamic_at)}

    # -- execution ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until every thread has finished."""
        while True:
            running = self.state == RUNNING
            if not running.any():
                if (self.state == FINISHED).all():
                    self._end()
                    return
                self._release()
                continue
            at = int(self.position[running].min())
            chosen = running & (self.position == at)
            others = running & ~chosen
            stop = int(self.position[others].min()) if others.any() else len(self.steps) + 1
            self._straight(at, Active(chosen, self.state == FINISHED), stop)

    def _end(self) -> None:
        """Check the pending accesses and reset the counters of threads and barriers for the next thread blocks."""
        for history in self.memory.histories():
            history.judge()

    def _straight(self, at: int, active: Active, stop: int) -> None:
        """Run the chosen lanes until they diverge, wait, finish, or reach `stop`."""
        instructions, steps, launch = self.kernel.instructions, self.steps, self.launch
        begin = at
        while at < stop:
            if at >= len(instructions):
                self._count(begin, at, active)
                self.state[active.mask] = FINISHED
                return
            instruction = instructions[at]
            opcode = instruction.opcode
            if opcode not in CONTROL and opcode not in movement.WARP_WIDE:
                (steps[at] or self.translation.step(at))(active)
                at += 1
                continue
            self._count(begin, at + 1, active)
            following = self._control(at, instruction, active)
            if following is None:
                return
            if following >= stop:
                self.position[active.mask] = following
                return
            at = begin = following
        self._count(begin, at, active)
        self.position[active.mask] = at
        if launch.steps > self.watch.limit:
            raise Endless(f"{self.kernel.name}: more than {self.watch.limit} instructions")

    def _count(self, begin: int, end: int, active: Active) -> None:
        self.launch.executed[begin:end] += active.warps
        self.launch.steps += end - begin
        if self.launch.steps > self.watch.limit:
            raise Endless(f"{self.kernel.name}: more than {self.watch.limit} instructions")

    def _control(self, at: int, instruction: Instruction, active: Active) -> int | None:
        """The common target of all active lanes, or None if they diverge."""
        if instruction.opcode in movement.WARP_WIDE:
            return self._warp_wide(at, instruction, active)
        return getattr(self, CONTROL[instruction.opcode])(at, instruction, active)

    def _guard(self, instruction: Instruction, active: Active) -> Lanes:
        """The active lanes whose guard holds."""
        if instruction.guard is None:
            return active.mask
        guard = self.registers.raw[instruction.guard]
        return active.mask & (~guard if instruction.negated else guard)

    def _branch(self, at: int, instruction: Instruction, active: Active) -> int | None:
        target = self.kernel.targets[str(instruction.operands[0])]
        taken = self._guard(instruction, active)
        if not taken.any():
            return at + 1
        if taken is active.mask or (taken == active.mask).all():
            return target
        self.position[active.mask] = at + 1
        self.position[taken] = target
        return None

    def _finish(self, at: int, instruction: Instruction, active: Active) -> int | None:
        leaving = self._guard(instruction, active)
        self.position[active.mask] = at + 1
        self.state[leaving] = FINISHED
        return None

    # -- waiting ------------------------------------------------------------------------------------------

    def _barrier(self, at: int, instruction: Instruction, active: Active) -> int | None:
        if "warp" in instruction.modifiers:
            return self._warp_barrier(at, instruction, active)
        if instruction.guard is not None:
            raise BarrierFault(f"{self.kernel.name}, {instruction.line}: a barrier under a condition")
        plain = "red" not in instruction.modifiers
        if len(instruction.operands) > (1 if plain else 3):
            raise Unsupported(
                f"{self.kernel.name}, {instruction.line}: a barrier of part of a block [{instruction.text}]"
            )
        self.position[active.mask] = at
        self.state[active.mask] = AT_BARRIER
        if not (self.state[self.exists] == AT_BARRIER).all():
            return None
        self._release()
        return None

    def _release(self) -> None:
        """No lane can run: release the thread blocks whose threads are all at one barrier."""
        per_block = self.shape.lanes_per_block
        waiting = self.state == AT_BARRIER
        if (self.state == AT_WARP).any():
            self._explain_warp()
        finished = (self.state == FINISHED) & self.exists
        blocks = waiting.reshape(-1, per_block)
        for block in np.flatnonzero(blocks.any(axis=1)):
            own = slice(block * per_block, (block + 1) * per_block)
            positions = np.unique(self.position[own][waiting[own]])
            line = self.kernel.instructions[int(positions[0])].line
            if len(positions) > 1:
                raise BarrierFault(f"{self.kernel.name}, {line}: threads of a block wait at different barriers")
            if finished[own].any():
                gone = int(finished[own].sum())
                raise BarrierFault(f"{self.kernel.name}, {line}: a barrier after {gone} threads of the block finished")
        for at in np.unique(self.position[waiting]):
            instruction = self.kernel.instructions[int(at)]
            if "red" in instruction.modifiers:
                self._reduce_over_block(instruction, waiting & (self.position == at))
        self.memory.at_barrier()
        lanes = np.flatnonzero(waiting)
        self.clock.pass_block_barrier(lanes)
        self.position[lanes] += 1
        self.state[lanes] = RUNNING

    def _reduce_over_block(self, instruction: Instruction, mask: Lanes) -> None:
        """``__syncthreads_count``, ``_and`` and ``_or``."""
        mode = next(m for m in instruction.modifiers if m in ("popc", "and", "or"))
        name = str(instruction.operands[-1])
        predicate = self.registers.source(name.lstrip("!"), "pred")
        said = np.broadcast_to(np.logical_not(predicate) if name.startswith("!") else predicate, mask.shape)
        blocks, here = said.reshape(-1, self.shape.lanes_per_block), mask.reshape(-1, self.shape.lanes_per_block)
        if mode == "popc":
            result, kind = (blocks & here).sum(axis=1).astype(np.uint32), "u32"
        else:
            result = (blocks | ~here).all(axis=1) if mode == "and" else (blocks & here).any(axis=1)
            kind = "pred"
        out, _ = self.registers.target(instruction.operands[0], kind)
        np.copyto(out, np.repeat(result, self.shape.lanes_per_block), where=mask)

    def _warp_barrier(self, at: int, instruction: Instruction, active: Active) -> int | None:
        together = self._gather(at, instruction, active)
        if together.any():
            self.clock.pass_warp_barrier(np.flatnonzero(together))
        return self._go_on(at, active, together)

    def _warp_wide(self, at: int, instruction: Instruction, active: Active) -> int | None:
        if instruction.guard is not None:
            raise Unsupported(f"{self.kernel.name}, {instruction.line}: {instruction.text} under a condition")
        together = self._gather(at, instruction, active)
        if together.any():
            same = active if together is active.mask else Active(together, self.state == FINISHED)
            self.translation.step(at)(same)
        return self._go_on(at, active, together)

    def _gather(self, at: int, instruction: Instruction, active: Active) -> Lanes:
        """Lanes at this instruction whose partners have all arrived; the others wait."""
        named = movement.member_mask(self.registers, instruction)
        here = active.mask
        waiting = (self.state == AT_WARP) & (self.position == at)
        if waiting.any():
            here = here | waiting
        missing = (np.broadcast_to(named, here.shape) & ~movement.present_lanes(here)) != 0
        own = (np.broadcast_to(named, here.shape) >> (np.arange(self.lanes) % WARP).astype(np.uint32)) & np.uint32(1)
        if (here & (own == 0)).any():
            raise BarrierFault(
                f"{self.kernel.name}, {instruction.line}: a lane is not in its own mask [{instruction.text}]"
            )
        return here & ~missing if (here & missing).any() else here

    def _go_on(self, at: int, active: Active, together: Lanes) -> int | None:
        if together is active.mask:
            return at + 1
        self.position[active.mask] = at
        self.state[active.mask] = AT_WARP
        self.position[together] = at + 1
        self.state[together] = RUNNING
        return None

    def _explain_warp(self) -> None:
        lane = int(np.flatnonzero(self.state == AT_WARP)[0])
        instruction = self.kernel.instructions[int(self.position[lane])]
        raise BarrierFault(
            f"{self.kernel.name}, {instruction.line}: lanes that the mask names never come [{instruction.text}]"
        )
