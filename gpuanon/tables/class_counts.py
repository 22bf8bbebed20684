"""Equivalence classes of rows that are equal on some columns, counted piece by piece.

Each row is reduced to 128 bits, and equal bits are counted.  Different rows share their bits with probability below
n² / 2^129 for n classes: 10⁻²¹ for a billion.  Classes of a release count as its values are stored: −0.0 and 0.0
differ, and so do NaN and null.  Where rows are compared as a mask sees them (`row_bits`) they do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpuanon.arrays.hashing import mix_bits
from gpuanon.arrays.threads import each
from gpuanon.numerics.compatible import compatible_counts
from gpuanon.tables.codes import distinct, level_codes, lookup
from gpuanon.tables.native import without_nan
from gpuanon.tables.table import Table
from gpuanon.tables.text_bits import text_bits
from gpuanon.tables.values import family, plain, ticks

if TYPE_CHECKING:
    import pyarrow as pa

Host = np.ndarray[Any, Any]

HELD = 40_000_000
"""Classes that are counted at once; a table that may have more is read several times."""
_PENDING = 1 << 22
_COUNT = "gpuanon count"


@dataclass(frozen=True, eq=False, repr=False)
class ClassCounts:
    """Classes of rows and their sizes; the counts of several pieces of a table can be merged.

    bits  : (g, 2) uint64, ascending
    sizes : (g,) int64 rows of each class
    """

    bits: Host
    sizes: Host

    @classmethod
    def of(cls, bits: Host, share: tuple[int, int] = (0, 1)) -> ClassCounts:
        """Count equal rows of `bits` (n, 2), or only those that fall to one of several shares of all bits."""
        at, shares = share
        if shares > 1:
            bits = bits[bits[:, 0] % np.uint64(shares) == at]
        return cls._summed(bits, np.ones(len(bits), np.int64))

    @classmethod
    def _summed(cls, bits: Host, sizes: Host) -> ClassCounts:
        """Add up the sizes of equal bits."""
        if len(bits) == 0:
            return cls(bits, sizes)
        order = np.argsort(bits[:, 0], kind="stable")
        first = bits[order, 0]
        if bool(((first[1:] == first[:-1]) & (bits[order[1:], 1] != bits[order[:-1], 1])).any()):
            order = np.lexsort((bits[:, 1], bits[:, 0]))  # two classes share their first 64 bits
        bits = bits[order]
        starts = np.flatnonzero(np.concatenate([[True], (bits[1:] != bits[:-1]).any(axis=1)]))
        return cls(bits[starts], np.add.reduceat(sizes[order], starts))

    def merge(self, other: ClassCounts) -> ClassCounts:
        """The counts of the rows of both."""
        return self._summed(np.concatenate([self.bits, other.bits]), np.concatenate([self.sizes, other.sizes]))

    @staticmethod
    def merged(counts: Sequence[ClassCounts]) -> ClassCounts:
        """The counts of the rows of all."""
        return reduce(ClassCounts.merge, counts)

    @property
    def smallest(self) -> int:
        """Rows of the smallest class; 0 when there are no rows."""
        return int(self.sizes.min(initial=np.iinfo(np.int64).max)) if len(self.sizes) else 0

    def __repr__(self) -> str:
        return f"ClassCounts({len(self.sizes)} classes)"


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
    """

    columns: tuple[str, ...]
    patterns: pa.Table

    @classmethod
    def of(cls, table: Table, columns: Sequence[str]) -> PatternCounts:
        """Count the combinations of a table."""
        import pyarrow as pa

        rows = table.select(columns).to_arrow().append_column(_COUNT, pa.array(np.ones(table.n_rows, np.int64)))
        return cls(tuple(columns), rows)._summed()

    def _summed(self) -> PatternCounts:
        """Equal combinations as one."""
        import pyarrow as pa

        plain_ = pa.table({name: plain(self.patterns[name]) for name in self.columns}).append_column(
            _COUNT, self.patterns[_COUNT]
        )
        summed = plain_.group_by(list(self.columns)).aggregate([(_COUNT, "sum")])
        return PatternCounts(self.columns, summed.rename_columns([*self.columns, _COUNT]))

    def merge(self, other: PatternCounts) -> PatternCounts:
        """The counts of the rows of both."""
        import pyarrow as pa

        both = pa.concat_tables([self.patterns, other.patterns], promote_options="permissive")
        return PatternCounts(self.columns, both)._summed()

    @property
    def smallest(self) -> int:
        """Rows that are compatible with the combination that has the fewest; 0 when there are no rows."""
        if self.patterns.num_rows == 0:
            return 0
        (codes,) = level_codes([Table.of(self.patterns)], self.columns)
        return int(compatible_counts(codes, self.patterns[_COUNT].to_numpy()).min())


def smallest_of(counts: Sequence[Counts]) -> int:
    """Rows (or persons) of the smallest class of pieces that were counted alike; 0 when there are no rows."""
    return reduce(lambda one, other: one.merge(other), counts).smallest  # type: ignore[arg-type]


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
    table: Table, wanted: Sequence[tuple[tuple[str, ...], bool]], share: tuple[int, int] = (0, 1)
) -> tuple[ClassCounts | PatternCounts, ...]:
    """Classes of a table, or of a piece of one.

    wanted : sets of columns, each with whether a null matches every value
    share  : see `ClassCounts.of`; patterns are always counted whole
    """
    bits = column_bits(table, [name for columns, wildcard in wanted for name in columns if not wildcard], stored=True)
    nothing = np.zeros((table.n_rows, 2), np.uint64)
    return tuple(
        PatternCounts.of(table, columns)
        if wildcard
        else ClassCounts.of(sum((bits[name] for name in columns), nothing), share)
        for columns, wildcard in wanted
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
    empty = ClassCounts(np.empty((0, 2), np.uint64), np.empty(0, np.int64))
    totals = [empty] * len(sets)
    waiting: list[list[ClassCounts]] = [[] for _ in sets]
    for table in pieces:
        bits = column_bits(table, [name for columns in sets for name in columns], stored=True)
        for at, columns in enumerate(sets):
            rows = sum((bits[name] for name in columns), np.zeros((table.n_rows, 2), np.uint64))
            waiting[at].append(ClassCounts.of(rows, share))
            if sum(len(counts.sizes) for counts in waiting[at]) > max(_PENDING, len(totals[at].sizes)):
                totals[at], waiting[at] = ClassCounts.merged([totals[at], *waiting[at]]), []
    return [ClassCounts.merged([total, *more]).sizes for total, more in zip(totals, waiting, strict=True)]


def row_bits(table: Table, columns: Sequence[str], *, stored: bool = False) -> Host:
    """(n, 2) uint64: equal for rows that are equal on `columns`, in whatever piece of the table they lie."""
    bits = column_bits(table, columns, stored=stored)
    return sum((bits[name] for name in columns), np.zeros((table.n_rows, 2), np.uint64))


def column_bits(table: Table, columns: Sequence[str], *, stored: bool) -> dict[str, Host]:
    """For each column (n, 2) uint64, equal for equal values; the bits of rows are the sums over their columns.

    stored : whether floats count by their bits; otherwise −0.0 is 0.0, and NaN is null
    """

    def one(name: str) -> Host:
        seed = np.frombuffer(hashlib.blake2b(name.encode(), digest_size=16).digest(), dtype=np.uint64)
        column = table.arrow(name)
        words, missing = _words(column if stored else without_nan(column))
        out = np.empty((table.n_rows, 2), np.uint64)
        for half in (0, 1):
            out[:, half] = mix_bits(words[:, half] ^ seed[half])
            if missing is not None:
                out[missing, half] = mix_bits(~seed[half : half + 1])
        return out

    names = list(dict.fromkeys(columns))
    return dict(zip(names, each(one, names), strict=True))


def _words(column: pa.ChunkedArray) -> tuple[Host, Host | None]:
    """(n, 2) words that are equal for equal values, and (n,) whether a value is null (None: nowhere)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = np.asarray(column.is_null().to_numpy()) if column.null_count else None
    kind = family(column.type)
    if kind == "time" or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        whole = ticks(plain(column)) if kind == "time" else column
        wide = pa.uint64() if pa.types.is_uint64(column.type) else pa.int64()
        numbers = pc.fill_null(whole.cast(wide), 0).to_numpy().view(np.uint64)
    elif pa.types.is_floating(column.type):
        numbers = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy().view(np.uint64)
    elif kind == "text":
        return _text_words(column)
    elif kind == "other":  # lists, structures: no distinct values to look up
        return _digests(column.to_pylist()), missing
    else:
        levels = distinct([column])
        known = _digests(levels.to_pylist() or [None])
        found = lookup(column, levels)
        nowhere = found < 0  # null, also behind a dictionary
        return known[np.maximum(found, 0)], nowhere if bool(nowhere.any()) else None
    return np.broadcast_to(numbers[:, None], (len(numbers), 2)), missing


def _text_words(column: pa.ChunkedArray) -> tuple[Host, Host | None]:
    """`_words` of text, with or without a dictionary."""
    import pyarrow as pa

    words, missing = [np.empty((0, 2), np.uint64)], [np.empty(0, bool)]
    for chunk in column.chunks:
        if pa.types.is_dictionary(column.type):
            codes = chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
            levels, empty = text_bits(chunk.dictionary), chunk.dictionary.is_null().to_numpy(zero_copy_only=False)
            words.append(np.concatenate([levels, np.zeros((1, 2), np.uint64)])[codes])  # the code of a null is the last
            missing.append(np.append(empty, True)[codes])
        else:
            words.append(text_bits(chunk))
            missing.append(chunk.is_null().to_numpy(zero_copy_only=False))
    nowhere = np.concatenate(missing)
    return np.concatenate(words), nowhere if bool(nowhere.any()) else None


def _digests(values: Sequence[Any]) -> Host:
    """(n, 2) words of each value's text."""
    digests = [hashlib.blake2b(str(value).encode(), digest_size=16).digest() for value in values]
    return np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)
