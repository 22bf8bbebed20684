"""Some original rows against all released rows, of which the points are held and not the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, Host
from gpuanon.assessing.comparison import Comparison, placed
from gpuanon.assessing.released import aligned, as_link, points_of, require_levels, require_values
from gpuanon.assessing.shared_arrays import made_once
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table


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
