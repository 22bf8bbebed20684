"""An original and its release as tables that can be compared: the same columns, types, levels and encoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuanon.arrays.backend import Array, Backend, Host
from gpuanon.assessing.released import (
    Types,
    aligned,
    as_link,
    as_text,
    compared_columns,
    points_of,
    recoded,
    require_columns,
    require_levels,
    require_values,
    types_of,
)
from gpuanon.assessing.shared_arrays import made_once
from gpuanon.assessing.source import MissingEvidence, Side
from gpuanon.assessing.weighting import as_people, weights_of
from gpuanon.tables.codes import level_codes
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.encoding.features import Categories
from gpuanon.tables.interval_columns import with_ends
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class ComparedTables:
    """Original and release, with what is known beside them.

    known_link      : for each released row the row of its original, −1 for an added row; None when it is not known
    known_reference : a second, non-overlapping sample of the same population, or None
    known_control   : records of the same population that are not in the table, for attacks; None: the reference
    backend         : where the arrays live; None for the host
    summary         : of the whole original, when `original` is a sample of its rows
    hit_unmasked    : gives the hit probability of each original when the whole table is released as it is, when
                      `original` is a sample of its rows
    note            : what must be said of every figure (a sample was taken), or None
    """

    original: Table
    release: Table
    schema: Schema
    known_link: Host | None = None
    known_reference: Table | None = None
    backend: Backend | None = None
    summary: Summary | None = None
    hit_unmasked: Callable[[], Host] | None = None
    note: str | None = None
    known_control: Table | None = None

    def __post_init__(self) -> None:
        """Refuse tables that cannot be compared; see interval columns as their two ends."""
        object.__setattr__(self, "release", with_ends(self.release))
        compared_columns(self.original.names, self.release.names, self.schema)
        if self.known_link is not None:
            as_link(self.known_link, self.original.n_rows, self.release.n_rows)

    @property
    def sampled(self) -> bool:
        """Whether the tables are samples of larger ones: fewer rows than were summarised."""
        return self.note is not None and self.summary is not None and self.original.n_rows < self.summary.rows

    @made_once
    def columns(self) -> tuple[str, ...]:
        """Every column that is compared: those of role quasi and sensitive, or all that can be when there are none."""
        return compared_columns(self.original.names, self.release.names, self.schema)

    @made_once
    def _types(self) -> Types:
        return types_of(self.original)

    @made_once
    def points(self) -> Table:
        """The release with intervals at their midpoints, and times in the original's types."""
        return aligned(points_of(self.release, self.schema), self._types)

    def _fit(self, columns: tuple[str, ...], categories: Categories) -> Encoding:
        """The encoding of the original, whose values the release must have."""
        require_values(self.points, self._types, columns)
        whole = self.summary or Summary.of(self.original, self.schema, columns)
        part = Summary(whole.rows, {name: whole.columns[name] for name in columns})
        encoding = Encoding.from_summary(part, self.schema, "indicator", categories)
        require_levels(self.points, encoding)
        return encoding

    @made_once
    def _quasi_encoding(self) -> Encoding:
        return self._fit(self._need_quasi(), "balanced")

    def _need_quasi(self) -> tuple[str, ...]:
        if not self.schema.quasi:
            raise MissingEvidence("needs columns of role quasi")
        return self.schema.quasi

    @made_once
    def quasi_features(self) -> tuple[str, ...]:
        """The table column of each feature of `quasi`."""
        return tuple(feature.column for feature in self._quasi_encoding.features)

    @made_once
    def reference_table(self) -> Table | None:
        """The reference sample, times in the original's types; None when there is none."""
        if self.known_reference is None:
            return None
        require_columns(self.known_reference, self.columns)
        return aligned(self.known_reference, self._types)

    @made_once
    def control_table(self) -> Table:
        """Records that are not in the table, times in the original's types: the control, else the reference."""
        known = self.known_reference if self.known_control is None else self.known_control
        if known is None:
            raise MissingEvidence("needs records of the population that are not in the table (--control, --reference)")
        require_columns(known, self.columns)
        return aligned(known, self._types)

    @made_once
    def unmasked(self) -> Host | None:
        """(n,) hit probability of each original when the whole table is released as it is, for a sample of it."""
        return None if self.hit_unmasked is None else self.hit_unmasked()

    def _codes(self, columns: tuple[str, ...]) -> tuple[Array, Array]:
        """Equal codes for equal values; a column whose released labels are of another type is compared as text."""
        labels = recoded(self.points, self._types, columns)
        before, after = level_codes([as_text(self.original, labels), as_text(self.points, labels)], columns)
        return before, after

    @made_once
    def sensitive_ordered(self) -> list[bool]:
        """For each sensitive column whether its values have an order."""
        return [self.schema[name].kind != "categorical" for name in self.schema.sensitive]

    @property
    def weights_or_none(self) -> tuple[Host, Host] | None:
        """People that each record of original and release stands for; None unless both have the column."""
        name = self.schema.weight
        if name is None or name not in self.release.names or name not in self.original.names:
            return None
        return as_people(weights_of(self.original, name)), as_people(weights_of(self.points, name))

    @made_once
    def categorical(self) -> list[bool]:
        """For each compared column whether its values are categories."""
        return [self.schema[name].kind == "categorical" for name in self.columns]

    @made_once
    def _encoding(self) -> Encoding:
        return self._fit(self.columns, "indicator")

    @made_once
    def features(self) -> tuple[str, ...]:
        """The table column of each feature of `encoded`."""
        return tuple(feature.column for feature in self._encoding.features)

    def table_pieces(self, side: Side) -> Iterator[Table]:
        """See `EvidenceSource`."""
        yield self.original if side == "original" else self.release
