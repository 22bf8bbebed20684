"""Equivalence classes of rows that are equal on some columns, counted piece by piece.

Each row is reduced to 128 bits, and equal bits are counted.  Different rows share their bits with probability below
n² / 2^126 for n classes: 10⁻²⁰ for a billion.  Classes of a release count as its values are stored: −0.0 and 0.0
differ, and so do NaN and null.  Where rows are compared as a mask sees them (`row_bits`) they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpuanon.arrays.backend import HOST, Array, Backend, Host, namespace, to_host
from gpuanon.arrays.sorting import argsort_words, lexicographic_order
from gpuanon.numerics.compatible import compatible_counts, covering_counts
from gpuanon.tables.arrow import arrow_array, numpy_array
from gpuanon.tables.codes import level_codes
from gpuanon.tables.interval_columns import with_ends
from gpuanon.tables.row_bits import bits_of, column_words
from gpuanon.tables.table import Table
from gpuanon.tables.values import plain

if TYPE_CHECKING:
    import pyarrow as pa


HELD = 40_000_000
"""Classes that are counted at once; a table that may have more is read several times."""
_PENDING = 1 << 22
_MERGED = 1 << 19  # classes that are merged at a time
_COUNT = "gpuanon count"


@dataclass(frozen=True, eq=False, repr=False)
class ClassCounts:
    """Classes of rows and their sizes; the counts of several pieces of a table can be merged.

    bits  : (g, 2) uint64, ascending
    sizes : (g,) int64 rows of each class

    Both are on the device where the rows were counted, until they are asked for (`on_host`).
    """

    bits: Array
    sizes: Array

    @classmethod
    def of(cls, bits: Array, share: tuple[int, int] = (0, 1)) -> ClassCounts:
        """Count equal rows of `bits` (n, 2), or only those that fall to one of several shares of all bits."""
        at, shares = share
        if shares > 1:
            bits = bits[bits[:, 0] % np.uint64(shares) == at]
        return cls._summed(bits)

    @classmethod
    def _summed(cls, bits: Array, sizes: Host | None = None) -> ClassCounts:
        """Add up the sizes of equal bits, on the host; without sizes, count them, anywhere."""
        xp = namespace(bits)
        if len(bits) == 0:
            return cls(bits, xp.empty(0, np.int64))
        order = argsort_words(bits[:, 0])
        first, second = bits[order, 0], bits[order, 1]
        new = first[1:] != first[:-1]
        if bool((~new & (second[1:] != second[:-1])).any()):  # two classes share their first 64 bits
            order = lexicographic_order((bits[:, 1], bits[:, 0]))
            first, second = bits[order, 0], bits[order, 1]
            new = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        new = xp.concatenate([xp.ones(1, dtype=bool), new, xp.ones(1, dtype=bool)])
        ends = xp.flatnonzero(new)
        starts = ends[:-1]
        first_of_class = order[starts]
        if sizes is None:
            return cls(bits[first_of_class], xp.diff(ends))
        return cls(bits[first_of_class], np.add.reduceat(sizes[order], starts))

    def on_host(self) -> ClassCounts:
        """The same counts on the host, where those of several pieces can be merged."""
        return ClassCounts(to_host(self.bits), to_host(self.sizes))

    def merge(self, other: ClassCounts) -> ClassCounts:
        """The counts of the rows of both."""
        return self._summed(np.concatenate([self.bits, other.bits]), np.concatenate([self.sizes, other.sizes]))

    @staticmethod
    def merged(counts: Sequence[ClassCounts]) -> ClassCounts:
        """The counts of the rows of all.

        Memory : 24 bytes per class of `counts` for the result, and the temporaries of some of them: one range of bits
            is merged after the other.
        """
        if len(counts) == 1:
            return counts[0]
        held = sum(len(found.sizes) for found in counts)
        bits, sizes, end = np.empty((held, 2), np.uint64), np.empty(held, np.int64), 0
        for parts in _by_range(counts, max(1, -(-held // _MERGED))):
            part = ClassCounts._summed(
                np.concatenate([found.bits for found in parts]), np.concatenate([found.sizes for found in parts])
            )
            begin, end = end, end + len(part.sizes)
            bits[begin:end], sizes[begin:end] = part.bits, part.sizes
        few = end < held  # what was not written is given back
        return ClassCounts(bits[:end].copy() if few else bits, sizes[:end].copy() if few else sizes)

    @property
    def smallest(self) -> int:
        """Rows of the smallest class; 0 when there are no rows."""
        return int(self.sizes.min()) if len(self.sizes) else 0

    def __repr__(self) -> str:
        return f"ClassCounts({len(self.sizes)} classes)"


class GrowingCounts:
    """The counts of pieces that come one after the other; a class is merged about as often as their number doubles."""

    def __init__(self) -> None:
        self._total = ClassCounts(np.empty((0, 2), np.uint64), np.empty(0, np.int64))
        self._waiting: list[ClassCounts] = []

    def add(self, counts: ClassCounts) -> None:
        """Those of one more piece."""
        self._waiting.append(counts)
        if sum(len(one.sizes) for one in self._waiting) > max(_PENDING, len(self._total.sizes)):
            self.merged()

    def merged(self) -> ClassCounts:
        """Of all pieces so far."""
        self._total, self._waiting = ClassCounts.merged([self._total, *self._waiting]), []
        return self._total


def _by_range(counts: Sequence[ClassCounts], ranges: int) -> Iterator[list[ClassCounts]]:
    """The classes of all counts whose first 64 bits lie in the same of some equal ranges, range after range."""
    edges = np.array([(at << 64) // ranges for at in range(1, ranges)], dtype=np.uint64)
    ends = [[0, *np.searchsorted(found.bits[:, 0], edges), len(found.sizes)] for found in counts]
    for at in range(ranges):
        slices = [slice(own[at], own[at + 1]) for own in ends]
        yield [ClassCounts(found.bits[some], found.sizes[some]) for found, some in zip(counts, slices, strict=True)]


@dataclass(frozen=True, eq=False, repr=False)
class PersonCounts:
    """Who is in which class: the pairs of class and person that occur; those of several pieces can be merged.

    pairs : (p, 3) uint64: the bits of a class and the number of a person, each pair once
    """

    pairs: Host

    @classmethod
    def of(cls, bits: Host, persons: Host, share: tuple[int, int] = (0, 1)) -> PersonCounts:
        """The pairs of rows with these `bits` (n, 2) and `persons` (n,), or of one of several shares of all classes."""
        at, shares = share
        pairs = np.column_stack([bits, persons.astype(np.int64).view(np.uint64)])
        return cls(pairs[bits[:, 0] % np.uint64(shares) == at])._distinct()

    def _distinct(self) -> PersonCounts:
        """Each pair once, persons of a class next to each other."""
        pairs = self.pairs[np.lexsort(self.pairs.T[::-1])]
        new = np.concatenate([[True], (pairs[1:] != pairs[:-1]).any(axis=1)]) if len(pairs) else np.empty(0, bool)
        return PersonCounts(pairs[new])

    def merge(self, other: PersonCounts) -> PersonCounts:
        """The pairs of both."""
        return PersonCounts(np.concatenate([self.pairs, other.pairs]))._distinct()

    @property
    def smallest(self) -> int:
        """Persons of the class that has the fewest; 0 when there are no rows."""
        return ClassCounts.of(self.pairs[:, :2]).smallest


Counts: TypeAlias = "ClassCounts | PatternCounts | PersonCounts"


@dataclass(frozen=True, eq=False, repr=False)
class PatternCounts:
    """Distinct combinations of values and how often each occurs, for classes in which a null matches every value.

    patterns : one row per combination, with the column `_COUNT`
    covered  : whether a record counts only for combinations of which it has all values
    """

    columns: tuple[str, ...]
    patterns: pa.Table
    covered: bool = False

    @classmethod
    def of(cls, table: Table, columns: Sequence[str], covered: bool = False) -> PatternCounts:
        """Count the combinations of a table; of an interval both ends."""

        chosen = with_ends(table.select(columns))
        rows = chosen.to_arrow().append_column(_COUNT, arrow_array(np.ones(table.n_rows, np.int64)))
        return cls(chosen.names, rows, covered)._summed()

    def _summed(self) -> PatternCounts:
        """Equal combinations as one."""
        import pyarrow as pa

        plain_ = pa.table({name: plain(self.patterns[name]) for name in self.columns}).append_column(
            _COUNT, self.patterns[_COUNT]
        )
        summed = plain_.group_by(list(self.columns)).aggregate([(_COUNT, "sum")])
        return PatternCounts(self.columns, summed.rename_columns([*self.columns, _COUNT]), self.covered)

    def merge(self, other: PatternCounts) -> PatternCounts:
        """The counts of the rows of both."""
        import pyarrow as pa

        both = pa.concat_tables([self.patterns, other.patterns], promote_options="permissive")
        return PatternCounts(self.columns, both, self.covered)._summed()

    @property
    def smallest(self) -> int:
        """Rows that count for the combination that has the fewest; 0 when there are no rows."""
        if self.patterns.num_rows == 0:
            return 0
        (codes,) = level_codes([Table.of(self.patterns)], self.columns)
        count = covering_counts if self.covered else compatible_counts
        return int(count(codes, numpy_array(self.patterns[_COUNT])).min())


def smallest_of(counts: Sequence[Counts]) -> int:
    """Rows (or persons) of the smallest class of pieces that were counted alike; 0 when there are no rows."""
    pieces: Sequence[Any] = counts  # of one type, which merges with itself only
    if isinstance(pieces[0], ClassCounts):
        return ClassCounts.merged(pieces).smallest
    return int(reduce(lambda one, other: one.merge(other), pieces).smallest)


def repeat_warnings(names: Sequence[str], counts: Sequence[ClassCounts]) -> tuple[str, ...]:
    """A warning for each identifier of which a value stands in several rows.

    counts : for each column how often its values occur
    """
    repeated = [float((found.sizes > 1).mean()) if len(found.sizes) else 0.0 for found in counts]
    return tuple(
        f"column {name!r}: an identifier, and {share:.1%} of its values stand in several rows; if it tells whose the"
        ' records are, role = "person" makes k count persons'
        for name, share in zip(names, repeated, strict=True)
        if share > 0
    )


def count_classes(
    table: Table,
    wanted: Sequence[tuple[tuple[str, ...], bool, bool]],
    share: tuple[int, int] = (0, 1),
    backend: Backend = HOST,
) -> tuple[ClassCounts | PatternCounts, ...]:
    """Classes of a table, or of a piece of one.

    wanted : sets of columns, each with whether a null matches every value, and with `PatternCounts.covered`
    share  : see `ClassCounts.of`; patterns are always counted whole
    backend : where rows are hashed and counted; patterns, which are few, are counted on the host
    """
    words = column_words(
        table, [name for columns, wildcard, _ in wanted for name in columns if not wildcard], stored=True
    )
    words = {name: column.on(backend) for name, column in words.items()}
    return tuple(
        PatternCounts.of(table, columns, covered)
        if wildcard
        else ClassCounts.of(bits_of([words[name] for name in columns], table.n_rows, backend), share)
        for columns, wildcard, covered in wanted
    )


def class_sizes(pieces: Callable[[], Iterable[Table]], rows: int, columns: Sequence[str], held: int = HELD) -> Host:
    """(classes,) int64 rows of each class that is equal on `columns`; see `sizes_by_set`."""
    return sizes_by_set(pieces, rows, [columns], held)[0]


def sizes_by_set(
    pieces: Callable[[], Iterable[Table]], rows: int, sets: Sequence[Sequence[str]], held: int = HELD
) -> list[Host]:
    """For each set of columns (classes,) int64 rows of each class that is equal on it.

    Parameters
    ----------
    pieces : gives the table, piece by piece, as often as it is asked
    rows   : of the table
    held   : classes that memory holds
    """
    rounds = max(1, -(-rows * len(sets) // held))
    found = [_round(pieces(), sets, (at, rounds)) for at in range(rounds)]
    return [np.concatenate([sizes[at] for sizes in found]) for at in range(len(sets))]


def _round(pieces: Iterable[Table], sets: Sequence[Sequence[str]], share: tuple[int, int]) -> list[Host]:
    """For each set of columns the sizes of the classes whose bits fall to this round."""
    growing = [GrowingCounts() for _ in sets]
    for table in pieces:
        words = column_words(table, [name for columns in sets for name in columns], stored=True)
        for counts, columns in zip(growing, sets, strict=True):
            counts.add(ClassCounts.of(bits_of([words[name] for name in columns], table.n_rows), share))
    return [counts.merged().sizes for counts in growing]
