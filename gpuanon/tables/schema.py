"""What each column is: its role in the release and the kind of its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gpuanon.errors import GpuanonError, InputError, RecipeError, nearest
from gpuanon.tables.built_hierarchy import AnyBuild
from gpuanon.tables.checks import kind_fault, value_faults
from gpuanon.tables.hierarchy import Hierarchy
from gpuanon.tables.native import column_type
from gpuanon.tables.table import Table
from gpuanon.tables.values import family

Role: TypeAlias = Literal["identifier", "person", "household", "quasi", "sensitive", "other", "weight", "dropped"]
Unit: TypeAlias = Literal["record", "person", "household"]
"""What k, limits and measures count."""
UNRELEASED: tuple[Role, ...] = ("identifier", "person", "household", "dropped")
"""Roles of columns that never reach a release as they are."""
CHECKED: tuple[Role, ...] = ("quasi", "sensitive", "weight", "person", "household")
Others: TypeAlias = Literal["refuse", "drop", "keep"]
"""What becomes of columns that a recipe does not name."""
Kind: TypeAlias = Literal["numeric", "ordinal", "categorical", "date"]
Transform: TypeAlias = Literal["none", "log", "log1p", "normal-scores"]
Nulls: TypeAlias = Literal["refuse", "category", "indicator", "wildcard"]
Level: TypeAlias = str | bool | int | float
Reading: TypeAlias = Literal["same", "interval", "interval-column", "level", "set"]
"""How a released column is to be read:

same     : as before
interval : two columns, ``NAME_low`` and ``NAME_high``, of the same type: the value lies between them
interval-column : one column of intervals, see `gpuanon.tables.interval_columns`
level    : text, a node of the column's hierarchy
set      : text, the values of which the record has one
"""


__all__ = ["Column", "ColumnSpec", "Kind", "Level", "Nulls", "Others", "Reading", "Role", "Schema", "Transform", "Unit"]


class ColumnSpec(BaseModel):
    """What a recipe says of a column, under ``[columns]``.

    role      : identifier (not released), person (whose records they are; k counts persons; not released), household
                (not released), quasi (an intruder may know it), sensitive (to be protected, never known), other (kept
                as it is), weight (sample weight), dropped (not released)
    kind      : how its values compare; inferred from the type when not said
    hierarchy : file of generalisations, ``leaf,level1,level2,…``, or how they are built from the values
    transform : applied to numbers before masking and undone after
    levels    : the order of an ordinal column's values, lowest first
    missing   : words or numbers that stand for no value in this column; a CSV has them again in its release
    keep      : a quasi-identifier that no mask changes has to say so
    release   : role person or household, where that is the unit: pseudonym releases random text, equal for the records
                of a person or household
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role = "other"
    kind: Kind | None = None
    hierarchy: Path | AnyBuild | None = None
    transform: Transform = "none"
    levels: tuple[Level, ...] | None = Field(default=None, min_length=1, repr=False)

    missing: tuple[Level, ...] | None = Field(default=None, min_length=1, repr=False)
    keep: bool = False
    release: Literal["pseudonym"] | None = None

    @field_validator("hierarchy")
    @classmethod
    def _existing(cls, file: Path | AnyBuild | None) -> Path | AnyBuild | None:
        if isinstance(file, Path) and not file.is_file():
            raise ValueError(f"there is no file {file.name}")
        return file

    @property
    def missing_words(self) -> tuple[str, ...]:
        """The texts for no value."""
        return tuple(one if isinstance(one, str) else f"{one:.15g}" for one in self.missing or ())

    @model_validator(mode="after")
    def _pseudonym_of_a_person(self) -> Self:
        if self.release is not None and self.role not in ("person", "household"):
            raise ValueError(f"release: pseudonym is for roles person and household, got role {self.role}")
        return self


class Column(ColumnSpec):
    """A column of a table, with everything decided."""

    name: str
    named: bool = True
    """Whether the recipe names it."""
    kind: Kind | None
    """None only for a column of role other or identifier whose type cannot be encoded."""
    reading: Reading = "same"

    @property
    def released_names(self) -> tuple[str, ...]:
        """Names of the released columns that stand for this one."""
        return (f"{self.name}_low", f"{self.name}_high") if self.reading == "interval" else (self.name,)

    @property
    def holds_intervals(self) -> bool:
        """Whether intervals are released in place of values."""
        return self.reading in ("interval", "interval-column")


class Schema(BaseModel):
    """All columns of a table, in its order.

    notes : what the steward should know of what was inferred
    unit  : what k counts, also after the column that says so was dropped
    """

    model_config = ConfigDict(frozen=True)

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    unit: Unit = "record"

    @classmethod
    def resolve(
        cls,
        table: Table,
        columns: Mapping[str, ColumnSpec | Mapping[str, Any]],
        others: Others = "keep",
        unit: Unit | None = None,
    ) -> Schema:
        """Decide role and kind of every column of `table`, and check its values; every fault is named at once.

        Parameters
        ----------
        table   : the table
        columns : what is known of its columns; a column that is not named has role other
        unit    : what k counts; None: persons where a column has that role, else records

        Raises
        ------
        RecipeError : a named column does not exist, or cannot be what the recipe says
        InputError  : the values cannot be masked as they are
        """
        schema = cls.infer(table, columns, others, unit)
        schema.check(table, schema.checked)
        return schema

    @classmethod
    def infer(
        cls,
        table: Table,
        columns: Mapping[str, ColumnSpec | Mapping[str, Any]],
        others: Others = "keep",
        unit: Unit | None = None,
    ) -> Schema:
        """`resolve` by names and types alone, without a look at the values (a part or an empty table will do)."""
        specs, faults = _specs(columns)
        faults += _unknown(specs, table.names)
        for role in ("person", "household"):
            several = [name for name, spec in specs.items() if spec.role == role]
            if len(several) > 1:
                faults.append(f"columns: one column of role {role} is allowed, got {', '.join(map(repr, several))}")
        decided, notes, broken = [], [], []
        for name in table.names:
            spec = specs.get(name, ColumnSpec())
            try:
                column, remarks, fault = _decide(table, name, spec)
            except InputError as error:
                broken.append(error)
                continue
            if name not in specs:
                column = column.model_copy(update={"named": False, "role": "dropped" if others == "drop" else "other"})
            decided.append(column)
            notes += remarks
            faults += fault
        if unit is None:
            unit = "person" if any(column.role == "person" for column in decided) else "record"
        faults += _unit_faults(unit, decided)
        _raise(faults, broken)
        return cls(columns=tuple(decided), notes=tuple(notes), unit=unit)

    def check(self, table: Table, names: Iterable[str]) -> None:
        """Check the values of these columns; all faults are named at once, as counts of rows, never as values."""
        faults: list[str] = []
        for name in names:
            column = self[name]
            faults += value_faults(
                name, column.role, column.transform, column.levels, table.arrow(name), column.missing_words
            )
        _raise([], [InputError(fault) for fault in faults])

    def __getitem__(self, name: str) -> Column:
        """The column of this name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def with_role(self, role: Role) -> tuple[str, ...]:
        """Names of the columns of this role, in the order of the table."""
        return tuple(column.name for column in self.columns if column.role == role)

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Columns that are not released: identifiers, persons, households, and what the recipe drops."""
        return tuple(column.name for column in self.columns if column.role in UNRELEASED)

    @property
    def checked(self) -> tuple[str, ...]:
        """Columns whose values are checked."""
        return tuple(name for role in CHECKED for name in self.with_role(role))

    @property
    def unit_column(self) -> Column | None:
        """The column that says to which person or household a record belongs; None where k counts records."""
        return next((column for column in self.columns if column.role == self.unit), None)

    @property
    def household(self) -> str | None:
        """The column that says to which household a record belongs."""
        return next(iter(self.with_role("household")), None)

    def unnamed(self) -> tuple[str, ...]:
        """Columns that the recipe does not name."""
        return tuple(column.name for column in self.columns if not column.named)

    @property
    def quasi(self) -> tuple[str, ...]:
        """Columns that an intruder may know."""
        return self.with_role("quasi")

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Columns to be protected."""
        return self.with_role("sensitive")

    @property
    def weight(self) -> str | None:
        """The column of sample weights that measures use: of several the first."""
        return next(iter(self.with_role("weight")), None)

    def built_hierarchies(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of these columns whose hierarchies are built from their values."""
        return tuple(name for name in names if not isinstance(self[name].hierarchy, Path | None))

    def hierarchies(
        self, names: Iterable[str], counted: Mapping[str, tuple[Any, Any]] | None = None
    ) -> dict[str, Hierarchy]:
        """The hierarchies of those of these columns that have one.

        counted : distinct values in their order, and the records of each, of `built_hierarchies`
        """
        found: dict[str, Hierarchy] = {}
        for name in names:
            given = self[name].hierarchy
            if isinstance(given, Path):
                found[name] = Hierarchy.read(given, name)
            elif given is not None:
                assert counted is not None
                found[name] = Hierarchy.built(given, name, *counted[name])
        return found

    def without(self, names: Iterable[str]) -> Schema:
        """The schema of a table without these columns."""
        dropped = set(names)
        return self.model_copy(update={"columns": tuple(c for c in self.columns if c.name not in dropped)})

    def read_as(self, readings: Mapping[str, Reading]) -> Schema:
        """The schema of a release in which these columns are to be read so."""
        text = {"kind": "categorical", "levels": None, "transform": "none", "hierarchy": None}
        changed: dict[str, dict[str, Any]] = {
            name: {"reading": reading, **(text if reading in ("level", "set") else {})}
            for name, reading in readings.items()
            if reading != "same"
        }
        columns = [c.model_copy(update=changed[c.name]) if c.name in changed else c for c in self.columns]
        return self.model_copy(update={"columns": tuple(columns)})

    def select(self, which: Literal["quasi", "all"] | Sequence[str]) -> tuple[str, ...]:
        """The columns that a mask means: ``"quasi"``, ``"all"`` (but identifiers and weights), or a list of names.

        Quasi-identifiers that are kept are meant only by their names.
        """
        if which == "quasi":
            return tuple(name for name in self.quasi if not self[name].keep)
        if which == "all":
            return tuple(c.name for c in self.columns if c.role not in (*UNRELEASED, "weight") and not c.keep)
        names = [which] if isinstance(which, str) else list(which)
        faults = _unknown(names, [column.name for column in self.columns])
        dropped = [name for name in names if name in self.identifiers]
        faults += [f"column {name!r}: an identifier is dropped, it cannot be masked" for name in dropped]
        _raise(faults, [])
        return tuple(names)


def _specs(columns: Mapping[str, ColumnSpec | Mapping[str, Any]]) -> tuple[dict[str, ColumnSpec], list[str]]:
    """The specifications, and what is wrong with those that are none."""
    specs, faults = {}, []
    for name, given in columns.items():
        try:
            specs[name] = given if isinstance(given, ColumnSpec) else ColumnSpec.model_validate(given)
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_input=False):
                at = ".".join(map(str, fault["loc"]))
                faults.append(f"column {name!r}: {at + ': ' if at else ''}{fault['msg'].lower()}")
    return specs, faults


def _unit_faults(unit: Unit, columns: Sequence[Column]) -> list[str]:
    """What is wrong with the unit."""
    faults = []
    if unit != "record" and not any(column.role == unit for column in columns):
        faults.append(f'unit: "{unit}" needs a column of role {unit}')
    for column in columns:
        if column.release is not None and column.role != unit:
            faults.append(
                f"columns.{column.name}: release: pseudonyms join the records of a {column.role}, and k counts {unit}s;"
                f' unit = "{column.role}" counts what they join'
            )
    return faults


def _unknown(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """A fault for every name that the table does not have, with the nearest that it has."""
    faults = []
    for name in names:
        if name not in known:
            faults.append(f"column {name!r}: not in the table{nearest(name, known)}")
    return faults


_INFERRED: Mapping[str, Kind] = {
    "number": "numeric",
    "time": "date",
    "text": "categorical",
    "flag": "categorical",
    "levels": "categorical",
    "nothing": "categorical",
}


def _decide(table: Table, name: str, spec: ColumnSpec) -> tuple[Column, list[str], list[str]]:
    """The column with everything decided, notes on it, and faults of it."""
    given = {field: getattr(spec, field) for field in spec.model_fields_set}
    if spec.role in UNRELEASED:
        return Column(**{**given, "name": name, "kind": spec.kind}), [], []
    series = table.series(name)
    type_, order = column_type(series)
    holds = family(type_)
    inferred = _INFERRED.get(holds)
    # An order that somebody gave makes an ordinal column; polars' Enum is merely a fixed set of levels.
    if order is not None and not series.implementation.is_polars():
        inferred = "ordinal"
    kind = spec.kind or inferred
    fault = kind_fault(name, spec.role, kind, spec.transform, holds)
    notes = []
    levels = spec.levels
    if levels is not None and spec.kind is None:
        kind = "ordinal"
    if kind == "ordinal" and levels is None:
        levels = order
        if levels is None and holds == "text" and spec.role != "other":
            notes.append(f"column {name!r}: ordinal, levels in alphabetical order; say levels = [...] for another")
    return Column(**{**given, "name": name, "kind": kind, "levels": levels}), notes, [fault] if fault else []


def _raise(faults: list[str], broken: Sequence[GpuanonError]) -> None:
    """Raise all faults at once: a `RecipeError` if the recipe has any, an `InputError` if only the table has."""
    if not (faults or broken):
        return
    lines = [*faults, *(str(error) for error in broken)]
    raise (RecipeError if faults else InputError)("\n".join(lines))
