"""Original and release in pieces, larger than memory: exact evidence over all rows, and samples that say so.

A sample of original rows can be compared with all released rows: their points are held in memory, the table is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Array, Backend, Host
from gpuanon.arrays.rng import Key
from gpuanon.assessing import shared_arrays
from gpuanon.assessing.compared_tables import (
    Types,
    aligned,
    as_link,
    class_columns,
    class_columns_by_name,
    compared_columns,
    points_of,
    require_levels,
    require_values,
    types_of,
)
from gpuanon.assessing.comparison import Comparison, placed
from gpuanon.assessing.evidence import EvidenceSource, MissingEvidence, Side
from gpuanon.assessing.shared_arrays import Kind, made_once
from gpuanon.assessing.weighting import weights_of
from gpuanon.errors import InputError
from gpuanon.tables.class_counts import class_sizes, sizes_by_set
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.interval_columns import with_ends
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table
from gpuanon.tables.values import floats


@dataclass(frozen=True, eq=False, repr=False)
class Queries(Comparison):
    """A comparison on the quasi-identifiers; `release` is a piece of the released table, of no rows.

    give  : gives the released table, piece by piece
    whole : gives all of it
    taken : gives these rows of it, which ascend
    rows  : of it

    Memory : 8 bytes per released value.  Whoever asks for anything but points has the whole table loaded.
    """

    give: Callable[[], Iterable[Table]] | None = None
    whole: Callable[[], Table] | None = None
    taken: Callable[[Host], Table] | None = None
    rows: int = 0

    def __post_init__(self) -> None:
        """Refuse a link of another release; the columns are those of tables that were compared."""
        if self.known_link is not None:
            as_link(self.known_link, self.original.n_rows, self.rows)

    @made_once
    def points(self) -> Table:
        """See `Comparison`."""
        assert self.whole is not None
        return self._read(self.whole())

    def _read(self, table: Table) -> Table:
        return aligned(points_of(table, self.schema), self._types)

    @made_once
    def _quasi_encoding(self) -> Encoding:
        assert self.summary is not None
        part = Summary(self.summary.rows, {name: self.summary.columns[name] for name in self._need_quasi()})
        return Encoding.from_summary(part, self.schema, "indicator", "balanced")

    @placed
    def quasi(self) -> tuple[Array, Array]:
        """See `Comparison`."""
        encoding, first = self._quasi_encoding, 0
        after = np.empty((self.rows, len(encoding.features)))
        assert self.give is not None
        for piece in map(self._read, self.give()):
            require_values(piece, self._types, self._need_quasi())
            require_levels(piece, encoding)
            after[first : first + piece.n_rows] = encoding.encode(piece)
            first += piece.n_rows
        return encoding.encode(self.original), after

    def with_released(self, rows: Host) -> Comparison:
        """See `Comparison`."""
        assert self.taken is not None
        held = {name: getattr(self, name) for name in Comparison.__dataclass_fields__}
        return Comparison(**{**held, "release": self.taken(rows), "known_link": None, "backend": None})


T = TypeVar("T")

_PUBLIC = Key(b"the sample of a measure is no secret")


@dataclass(frozen=True, eq=False, repr=False)
class Pieces:
    """A table, piece by piece, as often as it is asked.

    give : gives the pieces, at least one
    rows : of all pieces together
    """

    give: Callable[[], Iterable[Table]]
    rows: int

    @classmethod
    def of(cls, table: Table) -> Pieces:
        """A table in memory: one piece."""
        return cls(lambda: (table,), table.n_rows)

    @classmethod
    def counted(cls, give: Callable[[], Iterable[Table]]) -> Pieces:
        """Pieces whose rows have to be counted first."""
        return cls(give, sum(piece.n_rows for piece in give()))

    def each(self, change: Callable[[Table], Table]) -> Pieces:
        """The pieces after a change that keeps their rows."""
        give = self.give
        return Pieces(lambda: map(change, give()), self.rows)

    @property
    def first(self) -> Table:
        """The first piece: it has the names and types of all."""
        for piece in self.give():
            return piece
        raise InputError("original and release need at least one row each")

    def whole(self, columns: Iterable[str] | None = None) -> Table:
        """All rows in memory, or these columns of them."""
        chosen = None if columns is None else tuple(columns)
        return _together([piece if chosen is None else piece.select(chosen) for piece in self.give()])

    def take(self, chosen: Callable[[Host], Host]) -> tuple[Table, Host]:
        """The rows that `chosen` flags, given their numbers, and those numbers, ascending."""
        found, numbers, first = [], [], 0
        for piece in self.give():
            rows = np.arange(first, first + piece.n_rows, dtype=np.int64)
            at = np.flatnonzero(chosen(rows))
            found.append(piece.take(at))
            numbers.append(rows[at])
            first += piece.n_rows
        return _together(found), np.concatenate(numbers)


@dataclass(frozen=True, eq=False, repr=False)
class Streamed:
    """Original and release in pieces, with what is known beside them; see `Comparison`.

    size : rows of a sample, about
    """

    original: Pieces
    release: Pieces
    schema: Schema
    size: int
    known_link: Host | None = None
    known_reference: Table | None = None
    backend: Backend | None = None
    note: str | None = None
    known_control: Table | None = None

    def __post_init__(self) -> None:
        """Refuse tables that cannot be compared; see interval columns as their two ends."""
        object.__setattr__(self, "release", self.release.each(with_ends))
        if min(self.original.rows, self.release.rows) == 0:
            raise InputError("original and release need at least one row each")
        compared_columns(self.original.first.names, self.release.first.names, self.schema)
        if self.known_link is not None:
            as_link(self.known_link, self.original.rows, self.release.rows)

    @cached_property
    def host(self) -> Streamed:
        """Itself: evidence is collected in host arrays, whatever the pieces were computed on."""
        return self

    @cached_property
    def _collected(self) -> dict[Any, Any]:
        return {}

    def collect(self, evidence: Callable[[EvidenceSource], T]) -> T:
        """See `EvidenceSource`."""
        if evidence not in self._collected:
            self._collected[evidence] = evidence(self)
        found: T = self._collected[evidence]
        return found

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Every column that is compared."""
        return compared_columns(self.original.first.names, self.release.first.names, self.schema)

    @cached_property
    def class_sizes(self) -> Host:
        """See `EvidenceSource`; by a hash of each row."""
        if not self.schema.quasi:
            raise MissingEvidence("needs columns of role quasi")
        with progress.stage("classes"):
            columns = class_columns(self.release.first.names, self.schema)
            return class_sizes(self.release.give, self.release.rows, columns)

    @cached_property
    def class_sizes_by_column(self) -> Mapping[str, Host]:
        """See `EvidenceSource`; by a hash of each value."""
        sets = class_columns_by_name(self.release.first.names, self.schema)
        with progress.stage("classes"):
            found = sizes_by_set(self.release.give, self.release.rows, list(sets.values()))
        return dict(zip(sets, found, strict=True))

    @cached_property
    def population(self) -> float:
        """See `EvidenceSource`."""
        name = self.schema.weight
        if name is None or name not in self.release.first.names:
            raise MissingEvidence("needs a column of role weight")
        return float(sum(floats(piece.arrow(name)).sum() for piece in self.release.give()))

    @cached_property
    def summary(self) -> Summary:
        """Of all original rows."""
        with progress.stage("summary"):
            return Summary.merged([Summary.of(piece, self.schema, self.columns) for piece in self.original.give()])

    @cached_property
    def _encoding(self) -> Encoding:
        return Encoding.from_summary(self.summary, self.schema, "indicator", "indicator")

    @cached_property
    def _types(self) -> Types:
        return types_of(self.original.first)

    @property
    def features(self) -> tuple[str, ...]:
        """See `EvidenceSource`."""
        return tuple(feature.column for feature in self._encoding.features)

    def table_pieces(self, side: Side) -> Iterator[Table]:
        """See `EvidenceSource`."""
        yield from self.original.give() if side == "original" else self.release.give()

    def encoded_pieces(self, side: Side) -> Iterator[Array]:
        """See `EvidenceSource`."""
        for piece in self.original.give() if side == "original" else self.release.give():
            if side == "release":
                piece = aligned(points_of(piece, self.schema), self._types)
                require_values(piece, self._types, self.columns)
                require_levels(piece, self._encoding)
            matrix = self._encoding.encode(piece)
            yield matrix if self.backend is None else self.backend.upload(matrix)

    def weight_pieces(self, side: Side) -> Iterator[Array] | None:
        """See `EvidenceSource`."""
        name, pieces = self.schema.weight, self.original if side == "original" else self.release
        if name is None or not all(name in table.first.names for table in (self.original, self.release)):
            return None
        found = (weights_of(piece, name) for piece in pieces.give())
        return found if self.backend is None else map(self.backend.upload, found)

    @cached_property
    def sample(self) -> Comparison:
        """A random sample of the rows of each table, drawn apart, without a link."""
        before, rows = self.original.take(_drawn("original", self.size / self.original.rows))
        after, released = self.release.take(_drawn("release", self.size / self.release.rows))
        note = (
            f"on a random sample of {len(rows)} of {self.original.rows} original and {len(released)} of "
            f"{self.release.rows} released rows"
        )
        return self._comparison(before, after, note=note)

    @cached_property
    def pairs(self) -> Comparison:
        """A random sample of the released rows, each with its original."""
        if self.known_link is None:
            return self.sample
        link = self.known_link
        draw = _drawn("pairs", self.size / self.release.rows)
        after, released = self.release.take(lambda rows: draw(rows) & (link[rows] >= 0))
        wanted = np.unique(link[released])
        before, _ = self.original.take(_among(wanted))
        note = (
            f"on a random sample of {len(released)} of the {int((link >= 0).sum())} released rows that have an original"
        )
        return self._comparison(before, after, np.searchsorted(wanted, link[released]), note)

    @cached_property
    def queries(self) -> Comparison:
        """A random sample of the original rows, against all released rows, on the quasi-identifiers.

        The release's quasi-identifiers are held in memory, as points.  A released row whose original is not in the
        sample has the link −1.
        """
        quasi = self.schema.model_copy(update={"columns": tuple(self.schema[name] for name in self.schema.quasi)})
        before, rows = self.original.take(_drawn("queries", self.size / self.original.rows))
        columns = class_columns(self.release.first.names, quasi)
        after = self.release.each(lambda piece: piece.select(columns))
        link = self.known_link
        if link is not None:
            place = np.minimum(np.searchsorted(rows, link), max(len(rows) - 1, 0))
            link = np.where(rows[place] == link, place, -1) if len(rows) else np.full(len(link), -1)
        note = f"for a random sample of {len(rows)} of {self.original.rows} original rows, against all released rows"
        return Queries(
            before.select(quasi.quasi), after.first.take(np.empty(0, np.int64)), quasi, link, self.known_reference,
            self.backend, self.summary, lambda: self._hit_unmasked(before), note, self.known_control, give=after.give,
            whole=after.whole, taken=lambda rows: after.take(_among(rows))[0], rows=after.rows,
        )  # fmt: skip

    def take_up(self, kind: Kind | None, scalings: AbstractSet[str]) -> None:
        """Before measures of a kind, computed on these samples: see `gpuanon.assessing.shared_arrays.take_up`."""
        if "queries" in scalings and "queries" in self.__dict__:
            shared_arrays.take_up(self.queries, kind)

    def give_up(self, kind: Kind | None, following: Kind | None, scalings: AbstractSet[str]) -> None:
        """After measures of a kind, give up what is large and no other measure works on.

        following : the kind that comes next
        scalings  : what measures that are left are computed on

        Memory : sizes of classes are 8 bytes per class; the release's quasi-identifiers are held as points, 8 bytes per
            value, twice by the attack that turns them, and a search adds about 40 bytes per row.
        """
        for name in ("sample", "pairs", "queries"):
            if name in self.__dict__:
                shared_arrays.give_up(self.__dict__[name], kind, following)
        if kind == "classes":
            self.__dict__.pop("class_sizes", None)
            self.__dict__.pop("class_sizes_by_column", None)
            self._collected.clear()
        if "queries" not in scalings:
            self.__dict__.pop("queries", None)

    def _comparison(self, before: Table, after: Table, link: Host | None = None, note: str = "") -> Comparison:
        """The sampled rows, encoded by the whole original."""
        return Comparison(
            before, after, self.schema, link, self.known_reference, self.backend, self.summary,
            lambda: self._hit_unmasked(before), note, self.known_control,
        )  # fmt: skip

    def _hit_unmasked(self, sample: Table) -> Host:
        """(n,) one over the size of each sampled original's class in the whole original."""
        bits = row_bits(sample, self.schema.quasi)
        keys, first, place = np.unique(bits[:, 0], return_index=True, return_inverse=True)
        second, counts = bits[first, 1], np.zeros(len(keys), dtype=np.int64)
        for piece in self.original.give():
            own = row_bits(piece, self.schema.quasi)
            at = np.minimum(np.searchsorted(keys, own[:, 0]), len(keys) - 1)
            same = (keys[at] == own[:, 0]) & (second[at] == own[:, 1])
            counts += np.bincount(at[same], minlength=len(keys))
        return np.asarray(1 / counts[place.reshape(-1)])


def _drawn(name: str, share: float) -> Callable[[Host], Host]:
    """Draws each row by its number with this probability: the same rows every time, however they lie in pieces."""
    return lambda rows: _PUBLIC.draws(rows, name).uniform()[:, 0] < share


def _among(wanted: Host) -> Callable[[Host], Host]:
    """Flags the rows whose numbers are among `wanted`, ascending; rows of a piece are consecutive."""

    def chosen(rows: Host) -> Host:
        if not len(rows):
            return np.zeros(0, dtype=bool)
        first, last = np.searchsorted(wanted, [rows[0], rows[-1] + 1])
        return np.isin(rows, wanted[first:last], assume_unique=True)

    return chosen


def _together(pieces: list[Table]) -> Table:
    """Pieces as one table."""
    import pyarrow as pa

    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        raise InputError("original and release need at least one row each")
    return Table.of(pa.concat_tables([piece.to_arrow() for piece in pieces]))
