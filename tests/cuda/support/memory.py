"""Global, shared and local memory of a launch, with every access checked.

An address is (number of the region) · 2⁴⁰ + offset, so a pointer that runs out of its array lands in no array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.cuda.support.faults import CudaFault, Misaligned, OutOfBounds, Race, Uninitialised
from tests.cuda.support.hazards import ATOMIC, READ, WRITE, Clock, History
from tests.cuda.support.lanes import DTYPES, Active, Lanes
from tests.cuda.support.ptx import BYTES, Instruction
from tests.cuda.support.traffic import Traffic

REGION_BITS = np.uint64(40)
OFFSET = np.uint64((1 << 40) - 1)
SHARED, LOCAL = 0xF00000, 0xF10000


@dataclass
class Region:
    """One array that was passed, or a table of the module.

    content : its bytes, as uint8
    skew    : distance of its start from an address that every type is aligned to
    """

    name: str
    content: np.ndarray[Any, Any]
    skew: int = 0
    read_only: bool = False
    history: History | None = None
    grain: int = 4

    def typed(self, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """The content as elements of a type (an incomplete last element is dropped)."""
        whole = len(self.content) // dtype.itemsize * dtype.itemsize
        return self.content[:whole].view(dtype)


@dataclass
class Access:
    """One memory instruction of some lanes."""

    instruction: Instruction
    active: Active
    what: str
    bytes: int


class Memory:
    """All memory that the running blocks see."""

    def __init__(
        self,
        kernel: str,
        regions: list[Region],
        blocks: Lanes,
        shared_bytes: int,
        local_bytes: int,
        lanes_per_block: int,
    ) -> None:
        self.kernel = kernel
        self.regions = regions
        self.lanes_per_block = lanes_per_block
        count = len(blocks) // lanes_per_block
        self.shared_bytes = shared_bytes
        self.shared_stride = -(-max(shared_bytes, 1) // 16) * 16
        self.shared = np.zeros(count * self.shared_stride, np.uint8)
        self.shared_known = np.zeros(count * self.shared_stride // 4, np.bool_)
        self.shared_base = np.repeat(np.arange(count, dtype=np.int64) * self.shared_stride, lanes_per_block)
        self.local_stride = -(-max(local_bytes, 1) // 16) * 16
        self.local_bytes = local_bytes
        self.local = np.zeros(len(blocks) * self.local_stride, np.uint8)
        self.local_base = np.arange(len(blocks), dtype=np.int64) * self.local_stride
        self.blocks = blocks
        self.clock: Clock | None = None
        self.shared_history: History | None = None
        self.traffic: Traffic | None = None

    def watch_races(self, clock: Clock) -> None:
        """Enable race detection."""
        self.clock = clock
        self.shared_history = History(
            f"{self.kernel}, shared memory", len(self.shared) // 4, self.lanes_per_block, False
        )
        for region in self.regions:
            if region.history is None:
                words = -(-len(region.content) // region.grain) + 1
                region.history = History(f"{self.kernel}, {region.name}", words, self.lanes_per_block, True)

    # -- reading and writing ------------------------------------------------------------------------------

    def load(self, space: str, addresses: Lanes, kind: str, access: Access, index: int = 0) -> Lanes:
        """The values of type `kind` at the active lanes' addresses."""
        dtype = DTYPES[kind]
        values = np.empty(len(addresses), dtype)
        for where, cells, place, words in self._places(space, addresses, BYTES[kind], access, index):
            elements = cells[: len(cells) // dtype.itemsize * dtype.itemsize].view(dtype)
            values[where] = elements[place // dtype.itemsize]
            if words is not None:
                self._note(words, access, where, READ)
        return values

    def store(self, space: str, addresses: Lanes, values: Lanes, access: Access, index: int = 0) -> None:
        """Write the active lanes' values."""
        raw = np.ascontiguousarray(values).view(f"u{values.itemsize}")
        for where, cells, place, words in self._places(space, addresses, raw.itemsize, access, index):
            elements = cells[: len(cells) // raw.itemsize * raw.itemsize].view(raw.dtype)
            at, new = place // raw.itemsize, raw[where]
            unchanged = elements[at] == new
            elements[at] = new
            if words is not None:
                self._note(words, access, where, np.where(unchanged, READ, WRITE))
                if (elements[at] != new).any():
                    self._fail(
                        Race, access, where, elements[at] != new, "several threads write different values to one word"
                    )

    def update(self, space: str, addresses: Lanes, kind: str, function: Any, access: Access) -> Lanes:
        """Atomic read-modify-write: ``new = function(old, position)`` lane by lane; returns the old values."""
        dtype = DTYPES[kind]
        old = np.empty(len(addresses), dtype)
        for where, cells, place, words in self._places(space, addresses, dtype.itemsize, access, 0):
            elements = cells[: len(cells) // dtype.itemsize * dtype.itemsize].view(dtype)
            positions = np.arange(len(addresses))[where]
            for lane, at in zip(positions.tolist(), (place // dtype.itemsize).tolist(), strict=True):
                old[lane] = elements[at]
                elements[at] = function(elements[at], lane)
            if words is not None:
                self._note(words, access, where, ATOMIC)
        return old

    # -- where an address leads ---------------------------------------------------------------------------

    def _places(self, space: str, addresses: Lanes, size: int, access: Access, index: int) -> Any:
        """Cut the lanes by region: (which lanes, bytes of the region, byte offsets, words for the history)."""
        addresses = addresses.astype(np.uint64, copy=False)
        if access.bytes > 1 and (addresses & np.uint64(access.bytes - 1)).any() and index == 0:
            self._fail(
                Misaligned,
                access,
                slice(None),
                (addresses & np.uint64(access.bytes - 1)) != 0,
                f"a {access.what} of {access.bytes} bytes is not aligned",
            )
        if space in ("shared", "local", "param"):
            yield self._private(space, slice(None), addresses.astype(np.int64), size, access)
            return
        numbers = addresses >> REGION_BITS
        first = numbers[0]
        groups = [first] if (numbers == first).all() else np.unique(numbers).tolist()
        for number in groups:
            where = slice(None) if len(groups) == 1 else np.flatnonzero(numbers == np.uint64(number))
            offsets = (addresses[where] & OFFSET).astype(np.int64)
            if number in (SHARED, LOCAL):
                yield self._private("shared" if number == SHARED else "local", where, offsets, size, access)
            else:
                yield self._global(int(number), where, offsets, size, access, index)

    def _global(self, number: int, where: Any, offsets: Lanes, size: int, access: Access, index: int) -> Any:
        if not 1 <= number <= len(self.regions):
            self._fail(
                OutOfBounds,
                access,
                where,
                np.ones(len(offsets), bool),
                "the address belongs to no array that was passed",
            )
        region = self.regions[number - 1]
        place = offsets - region.skew
        outside = (place < 0) | (place + size > len(region.content))
        if outside.any():
            self._fail(OutOfBounds, access, where, outside, f"outside of {region.name} ({len(region.content)} bytes)")
        if region.read_only and access.what != "load":
            self._fail(CudaFault, access, where, outside | True, f"{region.name} may not be written")
        if self.traffic is not None and index == 0:
            self.traffic.count_global(access, self._lanes(access, where), offsets + (number << 40))
        words = place // region.grain if self.clock is not None and region.history is not None else None
        self._history = region.history
        return where, region.content, place, words

    def _private(self, space: str, where: Any, offsets: Lanes, size: int, access: Access) -> Any:
        limit, base, cells = (
            (self.shared_bytes, self.shared_base, self.shared)
            if space == "shared"
            else (self.local_bytes, self.local_base, self.local)
        )
        outside = (offsets < 0) | (offsets + size > limit)
        if outside.any():
            self._fail(OutOfBounds, access, where, outside, f"outside of {space} memory ({limit} bytes)")
        lanes = self._lanes(access, where)
        place = base[lanes] + offsets
        if space != "shared":
            return where, cells, place, None
        self._history = self.shared_history
        words = place // 4
        if access.what == "store":
            self.shared_known[words] = True
            if size == 8:
                self.shared_known[words + 1] = True
        elif not self.shared_known[words].all():
            self._fail(Uninitialised, access, where, ~self.shared_known[words], "shared memory was never written")
        if self.traffic is not None:
            self.traffic.count_shared(access, lanes, offsets)
        return where, cells, place, words if self.clock is not None else None

    def _lanes(self, access: Access, where: Any) -> Lanes:
        return access.active.lanes[where]

    # -- races --------------------------------------------------------------------------------------------

    def _note(self, words: Lanes, access: Access, where: Any, kind: Any) -> None:
        """Store accesses for race detection."""
        if self._history is None or self.clock is None:
            return
        if "nc" in access.instruction.modifiers:
            self._history.note_constant(words)
        else:
            self._history.note(words, self._lanes(access, where), self.clock, kind, access.instruction.line)

    def histories(self) -> list[History]:
        """The histories of all memory, when races are watched."""
        return [history for history in (self.shared_history, *(r.history for r in self.regions)) if history is not None]

    def at_barrier(self) -> None:
        """Every thread block has reached a barrier."""
        for history in self.histories():
            history.at_barrier()

    def _fail(self, fault: type[CudaFault], access: Access, where: Any, bad: Lanes, why: str) -> None:
        lane = int(self._lanes(access, where)[np.argmax(bad)])
        thread = lane % self.lanes_per_block
        raise fault(
            f"{self.kernel}, {access.instruction.line}, block {int(self.blocks[lane])}, thread {thread}: "
            f"{access.what}: {why} [{access.instruction.text}]"
        )
