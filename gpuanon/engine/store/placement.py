"""Cells: which rows one task masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Backend, Host
from gpuanon.arrays.device_memory import total_bytes
from gpuanon.arrays.rng import Key
from gpuanon.engine.store import Store
from gpuanon.engine.store.cut_tree import CutTree, grow, unite
from gpuanon.masking.mask import Mask
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.rows import Rows

CELL_ROWS = 100_000
"""Rows of a cell: so many that what is lost at its borders does not show, so few that any worker holds them."""

DEVICE_CELL_ROWS = 32 * CELL_ROWS
"""Most rows of a cell on a device: starting some ten thousand kernels takes a small part of its time."""

_BYTES_PER_VALUE = 100  # of device memory, at the peak of a method; 10 million rows of 10 columns fit 10 GB


def usual_cell_rows(backend: Backend, columns: int) -> int:
    """Rows of a cell where nobody asks for a number: on a device as many as its memory holds.

    They are `CELL_ROWS` times a power of two, so that the same kind of device gives the same release.
    """
    if backend.name == "numpy":
        return CELL_ROWS
    room = total_bytes() // (_BYTES_PER_VALUE * max(1, columns))
    cell = DEVICE_CELL_ROWS
    while cell > max(room, 1000):
        cell //= 2
    return cell


@dataclass(frozen=True)
class Placing:
    """Which cell a row goes to: a place in space, its class, or a random one.

    tree      : cuts of the encoded space; None for the others
    count     : number of cells
    by_person : a random one is that of the row's person
    """

    by_class: bool
    tree: CutTree | None
    count: int
    by_person: bool = False

    def cells(self, mask: Mask, rows: Rows, key: Key, stream: str) -> Host:
        """(n,) cell of each row."""
        if self.count == 1:
            return np.zeros(len(rows), dtype=np.int64)
        if self.tree is not None:
            return np.asarray(self.tree.assign(mask.points(rows)))
        if self.by_class:
            return np.asarray(row_bits(rows.table, mask.class_columns)[:, 0] % np.uint64(self.count)).astype(np.int64)
        who = rows.persons if self.by_person and rows.persons is not None else rows.records
        return np.asarray(key.draws(who, f"{stream}/cell").uniform()[:, 0] * self.count).astype(np.int64)


@dataclass(frozen=True)
class Cell:
    """Rows that one task masks: those of some places, or a random share of them.

    places : numbers that `Placing` gave
    share  : number of the share, and how many there are
    """

    places: tuple[int, ...]
    share: tuple[int, int] = (0, 1)

    def collect(self, store: Store, names: Sequence[str], key: Key, stream: str) -> Rows:
        """Its rows, in the order of their numbers."""
        at, shares = self.share

        def ours(records: Host) -> Host:
            drawn = key.draws(records, f"{stream}/share").uniform()[:, 0]
            return np.asarray((drawn * shares).astype(np.int64) == at)

        return store.get(names, self.places, ours if shares > 1 else None).sorted()


def placing_of(fitted: Mask, count: int, sample: Rows | None) -> Placing:
    """How rows are placed, by what the groups declare."""
    if fitted.placement == "together":
        return Placing(False, None, 1)
    if fitted.placement != "near" or count == 1:
        return Placing(fitted.placement == "class", None, count, fitted.placement == "person")
    assert sample is not None
    return Placing(False, grow(fitted.points(sample), min(count, len(sample))), count)


def cells_of(counts: list[dict[int, int]], places: int, cell_rows: int | None, fitted: Mask) -> list[Cell]:
    """Places to be masked together: neighbours, until there are half the rows of a cell, and many groups.

    Where many rows are equal no cut divides them: what is larger than two cells is divided at random, if groups may be.
    """
    if places == 1 or cell_rows is None:
        return (
            [Cell((0,))]
            if fitted.placement in ("class", "person", "together") or cell_rows is None
            else _shares([0], sum(sum(count.values()) for count in counts), cell_rows, fitted)
        )
    total = np.zeros(places, dtype=np.int64)
    for count in counts:
        for place, rows in count.items():
            total[place] += rows
    numbers = unite(total, max(cell_rows // 2, 8 * (fitted.combination.k or 1)))
    found: list[Cell] = []
    for number in range(int(numbers.max()) + 1):
        united = np.flatnonzero(numbers == number)
        found += _shares(united.tolist(), int(total[united].sum()), cell_rows, fitted)
    return found


def _shares(places: list[int], rows: int, cell_rows: int, fitted: Mask) -> list[Cell]:
    """These places as one cell, or divided at random when there are too many rows."""
    size = max(cell_rows, 16 * (fitted.combination.k or 1))
    divisible = fitted.placement in ("near", "random") and rows > 2 * size
    shares = rows // size if divisible else 1
    return [Cell(tuple(places), (at, shares)) for at in range(shares)]
