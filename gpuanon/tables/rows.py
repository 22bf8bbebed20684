"""`Rows`: a table, and the record number of each of its rows.

Identity travels with a row from reading to release: every draw is a function of the key, the stream and the record
number, never of a position.  A row that was added stands for no record; its number is `ADDED` or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.rng import GOLDEN_GAMMA, Key, mix_bits
from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa


ADDED = 1 << 62
"""Numbers of added rows begin here."""


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows of a table.

    table   : the columns
    records : (n,) int64 record number of each row: its row number in the input, from 0, or `ADDED` and more
    persons : (n,) int64 whose record each row is; an added row is a person of its own, with the number of its record.
              None where no column has the role person.  Private, as record numbers are: never released
    """

    table: Table
    records: Host
    persons: Host | None = None

    @classmethod
    def of(cls, table: Table) -> Rows:
        """All rows of an input, numbered from 0."""
        return cls(table, np.arange(table.n_rows, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.records)

    @property
    def origin(self) -> Host:
        """(n,) int64 the record that each row stands for; −1 for an added row."""
        return np.where(self.records < ADDED, self.records, -1)

    def take(self, rows: Host) -> Rows:
        """These rows, in this order."""
        return Rows(self.table.take(rows), self.records[rows], None if self.persons is None else self.persons[rows])

    def with_table(self, table: Table) -> Rows:
        """The same records with other columns."""
        return Rows(table, self.records, self.persons)

    def with_persons(self, name: str, key: Key) -> Rows:
        """The same rows with the numbers of the persons that the column `name` holds."""
        return Rows(self.table, self.records, person_numbers(self.table, name, key))

    def sorted(self) -> Rows:
        """The rows in the order of their numbers."""
        if bool((self.records[1:] >= self.records[:-1]).all()):
            return self
        return self.take(np.argsort(self.records, kind="stable"))

    @staticmethod
    def concatenated(pieces: Sequence[Rows]) -> Rows:
        """The rows of all pieces, one after the other."""
        if len(pieces) == 1:
            return pieces[0]
        table = Table.concatenated([piece.table for piece in pieces])
        persons = [piece.persons for piece in pieces if piece.persons is not None]
        records = np.concatenate([piece.records for piece in pieces])
        return Rows(table, records, np.concatenate(persons) if persons else None)

    def __repr__(self) -> str:
        return f"Rows({len(self)} rows, {len(self.table.names)} columns)"


def person_numbers(table: Table, name: str, key: Key) -> Host:
    """(n,) int64 below `ADDED`, equal for equal values of the column: 62 bits that the key derives from the value.

    Two of ten million persons share a number with one chance in 10⁵; they then count as one, which is the safe side.
    """
    bits = row_bits(table, [name]).view(np.int64)
    halves = [key.draws(np.ascontiguousarray(bits[:, half]), f"person/{half}").keys() for half in (0, 1)]
    return np.asarray((halves[0] ^ halves[1]) >> np.uint64(2)).astype(np.int64)


def pseudonyms(persons: Host, key: Key, stream: str) -> pa.Array:
    """(n,) text of 16 hexadecimal digits, equal for equal persons: a function of the key, the stream and the person."""
    import pyarrow as pa

    found, place = np.unique(persons, return_inverse=True)
    words = key.draws(found, stream).keys()
    return arrow_array([f"{word:016x}" for word in words.tolist()], pa.string()).take(arrow_array(place.reshape(-1)))


def added_records(key: Key, stream: str, parents: Host) -> Host:
    """(m,) numbers for added rows: a function of the key, the stream, the parent's number and the copies before.

    parents : (m,) the record number of a row that each was made beside.  Numbers are 62 random bits: two of them may
        be equal (one chance in 10⁵ for ten million), and then share their draws, which breaks no promise.
    """
    order = np.argsort(parents, kind="stable")
    ordered = parents[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, bool)
    starts = np.maximum.accumulate(np.where(first, np.arange(len(ordered)), 0))
    copy = np.empty(len(parents), dtype=np.uint64)
    copy[order] = (np.arange(len(ordered)) - starts).astype(np.uint64)
    words = key.draws(parents, f"{stream}/added").words(2).astype(np.uint64)
    numbers = mix_bits(((words[:, 0] << np.uint64(32)) | words[:, 1]) + copy * np.uint64(GOLDEN_GAMMA))
    return np.asarray(np.uint64(ADDED) | (numbers >> np.uint64(2))).astype(np.int64)
