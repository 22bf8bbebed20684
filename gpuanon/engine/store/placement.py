"""Cells: which rows one task masks.

Cells are regions of the encoded space, leaves of a tree of median cuts that is grown on a sample and depends on nothing
else.  They are numbered along the leaves, so that cells with consecutive numbers are near each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, Backend, Host, like, namespace
from gpuanon.arrays.device_memory import total_bytes
from gpuanon.arrays.rng import Key
from gpuanon.engine.store import Store
from gpuanon.errors import ParameterError
from gpuanon.masking.mask import Mask
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.rows import Rows


@dataclass(frozen=True, eq=False, repr=False)
class CutTree:
    """Inner node v sends a row to `left[v]` when its column `axis[v]` is at most `value[v]`, else to `right[v]`.

    A child c ≥ 0 is a node; c < 0 is the cell −1 − c.  Node 0 is the root; without nodes there is one cell.
    """

    axis: Host
    value: Host
    left: Host
    right: Host

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.axis) + 1

    def __repr__(self) -> str:
        return f"CutTree({self.cells} cells)"  # not the cuts: they are values of the table

    def assign(self, X: Array) -> Array:
        """(n,) int64 cell of each row of `X` (n, d)."""
        xp = namespace(X)
        place = xp.full(len(X), 0 if len(self.axis) else -1, dtype=np.int64)
        axis, value, left, right = (like(part, X) for part in (self.axis, self.value, self.left, self.right))
        rows = xp.arange(len(X))
        while True:
            inside = rows[place[rows] >= 0]
            if not len(inside):
                return -1 - place
            node = place[inside]
            place[inside] = xp.where(X[inside, axis[node]] <= value[node], left[node], right[node])
            rows = inside


def grow(sample: Host, cells: int) -> CutTree:
    """Cut the sample (s, d) into `cells` cells of nearly equal size, each time along the axis of largest variance.

    Equal values are never separated: with few distinct rows cells may stay empty.
    """
    if cells < 1 or len(sample) < cells:
        raise ParameterError(f"cells: 1 to {len(sample)} are allowed, one per sampled row, got {cells}")
    axis, value = np.zeros(cells - 1, np.int64), np.zeros(cells - 1)
    left, right = np.zeros(cells - 1, np.int64), np.zeros(cells - 1, np.int64)
    made = 0

    def cut(rows: Host, leaves: int, first_cell: int) -> int:
        nonlocal made
        if leaves == 1:
            return -1 - first_cell
        node, made = made, made + 1
        part = sample[rows]
        column = int(np.argmax(part.var(axis=0))) if len(rows) else 0
        lower_leaves = leaves // 2
        ordered = np.sort(part[:, column])
        at = len(rows) * lower_leaves // leaves
        axis[node] = column
        value[node] = 0.5 * (ordered[at - 1] + ordered[at]) if 0 < at < len(rows) else 0.0
        below = part[:, column] <= value[node]
        left[node] = cut(rows[below], lower_leaves, first_cell)
        right[node] = cut(rows[~below], leaves - lower_leaves, first_cell + lower_leaves)
        return node

    cut(np.arange(len(sample)), cells, 0)
    return CutTree(axis, value, left, right)


def unite(counts: Host, least: int) -> Host:
    """(cells,) new number of each cell: consecutive cells are merged until every cell has at least `least` rows.

    counts : (cells,) rows of each cell; their sum must be at least `least`
    """
    numbers, current, held = np.zeros(len(counts), np.int64), 0, 0
    for cell, count in enumerate(counts):
        numbers[cell] = current
        held += int(count)
        if held >= least:
            current, held = current + 1, 0
    if held < least and current > 0:  # the remaining cells join the last full one
        numbers[numbers == current] = current - 1
    return numbers


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
