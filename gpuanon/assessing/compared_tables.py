"""An original and its release as tables that can be compared: the same columns, types, levels and encoding.

A released column is read as it was before, as an interval, or as labels that compare by equality only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Backend, Host
from gpuanon.assessing.evidence import MissingEvidence, Side
from gpuanon.assessing.shared_arrays import made_once
from gpuanon.assessing.weighting import as_people, weights_of
from gpuanon.errors import InputError
from gpuanon.tables.arrow import arrow_array, arrow_scalar, numpy_array
from gpuanon.tables.codes import level_codes
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.encoding.features import Categories
from gpuanon.tables.encoding.levels import CategoryCodec
from gpuanon.tables.interval_columns import with_ends
from gpuanon.tables.schema import Column, Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table
from gpuanon.tables.values import distinct, family, floats, lookup, null_mask, plain, ticks, value_type

if TYPE_CHECKING:
    import pyarrow as pa

Types = Mapping[str, "pa.DataType"]
"""The types of a table's columns."""

_HOLDS = {"number": "numbers", "time": "dates", "text": "text", "flag": "booleans", "levels": "levels"}


def points_of(release: Table, schema: Schema) -> Table:
    """The release with a column NAME of midpoints in place of each pair NAME_low, NAME_high.

    Numbers and dates: the middle of both; ordered levels: the middle level, the lower of two.  A released table that
    has NAME itself, or not both ends, is returned as it is.
    """
    import pyarrow as pa

    names = _intervals(release.names, schema)
    if not names:
        return release
    columns = {name: release.arrow(name) for name in release.names}
    for name in names:
        low, high = columns.pop(f"{name}_low"), columns.pop(f"{name}_high")
        columns[name] = _middle(schema[name], low, high)
    return Table.of(pa.table(columns))


def class_columns(names: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """The released columns that make up a class: the quasi-identifiers, both ends of one that is an interval."""
    return tuple(column for columns in class_columns_by_name(names, schema).values() for column in columns)


def class_columns_by_name(names: Sequence[str], schema: Schema) -> dict[str, tuple[str, ...]]:
    """For each quasi-identifier the released columns that stand for it: itself, or both ends of an interval."""
    intervals = _intervals(names, schema)
    return {name: (f"{name}_low", f"{name}_high") if name in intervals else (name,) for name in schema.quasi}


def compared_columns(original: Sequence[str], release: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Every column that is compared: those of role quasi and sensitive, or all that can be when there are none.

    Raises
    ------
    InputError
        When a quasi-identifier or sensitive column is not in the release.
    """
    there = {*release, *_intervals(release, schema)}
    named = {*schema.quasi, *schema.sensitive}
    missing = [name for name in original if name in named and name not in there]
    if missing:
        raise InputError(f"the release has no column {', '.join(map(repr, missing))}")
    if named:
        return tuple(name for name in original if name in named)
    return tuple(name for name in original if name in there and schema[name].role == "other" and schema[name].kind)


def as_link(link: Any, originals: int, released: int, name: str = "link") -> Host:
    """(m,) int64 the row of the original of each released row, −1 for an added row; refused if it cannot be one.

    originals, released : rows of both tables
    name : of the link, for messages
    """
    rows = np.asarray(link)
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
        raise InputError(f"{name}: whole numbers are needed, one for each released row")
    if len(rows) != released:
        raise InputError(f"{name}: the link has {len(rows)} rows, the release {released}: it belongs to another one")
    rows = rows.astype(np.int64)
    if released and not (rows.min() >= -1 and rows.max() < originals):
        raise InputError(f"{name}: names rows that the original, of {originals} rows, does not have")
    known = np.sort(rows[rows >= 0])
    twice = int((known[1:] == known[:-1]).sum())
    if twice:
        raise InputError(f"{name}: {twice} released rows have the same original as another one")
    return rows


def types_of(table: Table) -> Types:
    """The Arrow types of the columns."""
    return {name: table.arrow(name).type for name in table.names}


def aligned(table: Table, types: Types) -> Table:
    """The table with dates and times, and columns that hold nothing but nulls, in the types that the original has.

    The ticks of a time count days, seconds or nanoseconds: unaligned, no released time would equal its original.

    Raises
    ------
    InputError
        When the original's type cannot hold a released time.
    """
    import pyarrow as pa

    columns = {}
    for name in table.names:
        held = table.arrow(name)
        if name not in types or held.type == types[name]:
            continue
        if pa.types.is_null(held.type):
            columns[name] = pa.chunked_array([pa.nulls(table.n_rows, value_type(types[name]))])
        elif family(held.type) == family(types[name]) == "time":
            columns[name] = _same_time(name, held, types[name])
    if not columns:
        return table
    return Table.of(pa.table({name: columns.get(name, table.arrow(name)) for name in table.names}))


def _same_time(name: str, column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """A column of dates or times in another type of the same moments; refused if that would change one."""
    import pyarrow as pa

    try:
        moved = column.cast(type_)
        if moved.cast(column.type).equals(column):
            return moved
    except pa.ArrowException:
        pass
    raise InputError(f"column {name!r}: released as {column.type}, which the original's type, {type_}, cannot hold")


def recoded(release: Table, types: Types, columns: Iterable[str]) -> tuple[str, ...]:
    """The columns whose released values are of another kind than the original's: numbers that became labels."""
    return tuple(name for name in columns if not _alike(release.arrow(name).type, types[name]))


def as_text(table: Table, columns: Iterable[str]) -> Table:
    """These columns as text, so that values and labels compare by equality."""
    import pyarrow as pa

    chosen = list(columns)
    if not chosen:
        return table
    data = {name: table.arrow(name) for name in table.names}
    data |= {name: plain(data[name]).cast(pa.large_string()) for name in chosen}
    return Table.of(pa.table(data))


def require_values(release: Table, types: Types, columns: Iterable[str]) -> None:
    """Refuse columns whose released labels have no place among the original's values."""
    faults = [
        f"column {name!r}: released as {_holds(release.arrow(name).type)} where the original holds "
        f"{_holds(types[name])}: it compares by equality only, and this measure needs its values"
        for name in recoded(release, types, columns)
    ]
    if faults:
        raise InputError("\n".join(faults))


def require_columns(reference: Table, columns: Iterable[str]) -> None:
    """Refuse a reference sample without rows, or without one of these columns."""
    missing = [name for name in columns if name not in reference.names]
    if missing:
        raise InputError(f"the reference sample has no column {', '.join(map(repr, missing))}")
    if reference.n_rows == 0:
        raise InputError("the reference sample has no rows")


def require_finite(name: str, values: Host) -> None:
    """Refuse released numbers that are infinite."""
    infinite = int(np.isinf(values).sum())
    if infinite:
        raise InputError(f"column {name!r}: {infinite} released rows hold an infinite value")


def require_levels(release: Table, encoding: Encoding) -> None:
    """Refuse categories with released labels that the original does not have (a level of a hierarchy)."""
    import pyarrow as pa

    faults = []
    for codec in encoding.codecs:
        if isinstance(codec, CategoryCodec) and len(codec.levels):
            labels = distinct([release.arrow(codec.name)])
            unknown = int((lookup(pa.chunked_array([labels]), codec.levels.values) < 0).sum()) if len(labels) else 0
            if unknown:
                faults.append(
                    f"column {codec.name!r}: {unknown} released labels are not in the original: it compares by "
                    "equality only, and this measure needs the original's levels"
                )
    if faults:
        raise InputError("\n".join(faults))


def _intervals(names: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """The columns that were released as two, NAME_low and NAME_high."""
    there = set(names)
    return tuple(
        column.name
        for column in schema.columns
        if column.name not in there
        and column.kind in ("numeric", "date", "ordinal")
        and {f"{column.name}_low", f"{column.name}_high"} <= there
    )


def _middle(column: Column, low: pa.ChunkedArray, high: pa.ChunkedArray) -> pa.ChunkedArray:
    """The middle of an interval; null where an end is null."""
    import pyarrow as pa

    if column.kind == "ordinal":
        levels = distinct([low, high])
        if column.levels is not None:
            levels = arrow_array(column.levels).cast(levels.type)
        ends = [lookup(end, levels) for end in (low, high)]
        codes, null = (ends[0] + ends[1]) // 2, (ends[0] < 0) | (ends[1] < 0)
        return pa.chunked_array([levels.take(arrow_array(np.where(null, 0, codes), null=null))])
    null = null_mask(low) | null_mask(high)
    type_ = value_type(low.type)
    if family(type_) == "time":
        ends = [numpy_array(ticks(plain(end)).fill_null(arrow_scalar(0, pa.int64()))) for end in (low, high)]
        middle = arrow_array(ends[0] + (ends[1] - ends[0]) // 2, null=null)
        return pa.chunked_array([middle.cast(pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)])
    values = (floats(low) + floats(high)) / 2
    return pa.chunked_array([arrow_array(values, null=null)])


def _alike(released: pa.DataType, original: pa.DataType) -> bool:
    """Whether values of both types can be compared as values."""
    first, second = value_type(released), value_type(original)
    families = {family(first), family(second)} - {"nothing"}
    return first == second or (len(families) <= 1 and families <= {"number", "text", "time"})


def _holds(type_: pa.DataType) -> str:
    return _HOLDS.get(family(value_type(type_)), str(value_type(type_)))


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

    def codes_of(self, columns: tuple[str, ...]) -> tuple[Host, Host]:
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
