"""Where rows lie between the steps of a run: in memory, or in sorted Arrow files of a private folder.

Rows move between tasks by destination: a task puts its rows under a name, each with the number of its destination, and
whoever collects a destination gets its rows from every name.  The pipeline does not know which store it has.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from gpuanon.arrays.backend import Host
from gpuanon.engine.store.shuffle import collect, scatter, whole_file
from gpuanon.engine.store.workspace import Workspace
from gpuanon.tables.arrow import arrow_array, numpy_array
from gpuanon.tables.dictionaries import with_released_levels
from gpuanon.tables.formats.parquet import read_row_range
from gpuanon.tables.rows import Rows
from gpuanon.tables.table import Table

Result = TypeVar("Result")
Keep = Callable[[Host], Host]
"""From record numbers (n,) to whether each is wanted."""

RECORD = "gpuanon record number"
PERSON = "gpuanon person number"
PLACE = "gpuanon destination"
"""The columns that carry record numbers, whose records they are and where they go, in files; they never leave a run."""


class Part(Protocol):
    """A range of rows of the input, or of what a mask released."""

    @property
    def rows(self) -> int: ...

    def read(self, columns: Sequence[str] | None = None) -> Rows:
        """The rows; only these columns, if they are named."""


class Remembers(Protocol):
    """Remembers what was done, so that an interrupted run goes on where it ended."""

    def once(self, name: str, task: Callable[[], Result]) -> Result:
        """The result of `task`, which is done only if it was not done before."""


class Store(Remembers, Protocol):
    """Rows on their way through a run."""

    @property
    def one_part(self) -> bool:
        """Whether the release lies in one part, whatever its size."""

    def put(self, name: str, rows: Rows, destinations: Host, regions: Host | None = None) -> dict[int, int]:
        """Keep rows under `name`, by destination; the number of rows for each.

        regions : of the destinations; rows that have them are not collected, but regrouped (see `Route`)
        """

    def regroup(self, names: Sequence[str], region: int, target: str) -> int:
        """Collect the rows of a region from these names and put them by destination; the number of rows."""

    def get(self, names: Sequence[str], destinations: Iterable[int], keep: Keep | None = None) -> Rows:
        """The rows that were put under these names for these destinations."""

    def share(self, name: str, value: Result) -> Callable[[], Result]:
        """A small function that gives `value` to any task, however large it is."""

    def forget(self, names: Iterable[str]) -> None:
        """Remove rows that no later task needs."""

    def size(self, names: Iterable[str]) -> int:
        """Bytes that were written under these names; 0 for memory."""

    def release(self, number: int, rows: Rows) -> int:
        """Keep the rows of a release part in their final order; the number of rows."""

    def released(self, number: int, columns: Sequence[str] | None = None) -> Table:
        """A release part; only these columns, if they are named."""

    def origin(self, number: int) -> Host:
        """The record that each row of a release part stands for, −1 for an added row."""

    def persons(self, number: int) -> Host | None:
        """Whose record each row of a release part is; None where no column has the role person."""


@dataclass(frozen=True)
class StoredPart:
    """The rows of one cell after a mask."""

    store: Store
    name: str
    rows: int

    def read(self, columns: Sequence[str] | None = None) -> Rows:
        rows = self.store.get([self.name], [0])
        return rows if columns is None else rows.with_table(rows.table.select(columns))


@dataclass(frozen=True, repr=False)
class MemoryPart:
    """A whole input in memory."""

    table: Table

    @property
    def rows(self) -> int:
        return self.table.n_rows

    def read(self, columns: Sequence[str] | None = None) -> Rows:
        return Rows.of(self.table if columns is None else self.table.select(columns))


@dataclass(frozen=True)
class FilePart:
    """A range of the rows of a Parquet file.

    groups : row groups that hold it
    first  : record number of the first row
    skip   : rows of the row groups that come before
    """

    file: Path
    groups: tuple[int, ...]
    first: int
    rows: int
    skip: int = 0

    def read(self, columns: Sequence[str] | None = None) -> Rows:
        rows = read_row_range(self.file, self.groups, self.skip, self.rows, columns)
        rows = rows if columns is None else rows.select(list(columns))
        return Rows(Table.of(rows), np.arange(self.first, self.first + self.rows, dtype=np.int64))


@dataclass(frozen=True, repr=False)
class MemoryStore:
    """Rows as the caller's own kind of dataframe; nothing is copied on the way of a single cell."""

    held: dict[str, dict[int, Rows]] = field(default_factory=dict)
    parts: dict[int, Rows] = field(default_factory=dict)

    @property
    def one_part(self) -> bool:
        return True

    def once(self, name: str, task: Callable[[], Result]) -> Result:
        return task()

    def put(self, name: str, rows: Rows, destinations: Host, regions: Host | None = None) -> dict[int, int]:
        one = len(destinations) > 0 and destinations.min() == destinations.max()  # most often: no sort is needed
        places = destinations[:1] if one else np.unique(destinations)
        if one:
            taken = {int(places[0]): rows}  # no copy
        else:
            taken = {int(place): rows.take(np.flatnonzero(destinations == place)) for place in places}
        self.held[name] = taken or {0: rows}  # no rows: the columns are kept
        return {place: len(part) for place, part in taken.items()}

    def regroup(self, names: Sequence[str], region: int, target: str) -> int:
        raise NotImplementedError("rows in memory are collected at once")

    def get(self, names: Sequence[str], destinations: Iterable[int], keep: Keep | None = None) -> Rows:
        wanted = set(destinations)
        found = [rows for name in names for place, rows in self.held[name].items() if place in wanted]
        if not found:
            any_rows = next(rows for name in names for rows in self.held[name].values())
            return any_rows.take(np.empty(0, np.int64))
        rows = Rows.concatenated(found)
        return rows if keep is None else rows.take(np.flatnonzero(keep(rows.records)))

    def share(self, name: str, value: Result) -> Callable[[], Result]:
        return lambda: value

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            self.held.pop(name, None)

    def size(self, names: Iterable[str]) -> int:
        return 0

    def release(self, number: int, rows: Rows) -> int:
        self.parts[number] = rows.with_table(with_released_levels(rows.table))
        return len(rows)

    def released(self, number: int, columns: Sequence[str] | None = None) -> Table:
        table = self.parts[number].table
        return table if columns is None else table.select(columns)

    def origin(self, number: int) -> Host:
        return self.parts[number].origin

    def persons(self, number: int) -> Host | None:
        return self.parts[number].persons


@dataclass(frozen=True)
class FolderStore:
    """Rows in files of a workspace that every worker reaches; a run that is resumed finds what was done."""

    workspace: Workspace

    @property
    def one_part(self) -> bool:
        return False

    def once(self, name: str, task: Callable[[], Result]) -> Result:
        return self.workspace.once(name, task)

    def put(self, name: str, rows: Rows, destinations: Host, regions: Host | None = None) -> dict[int, int]:
        table = rows.table.to_arrow().append_column(RECORD, arrow_array(rows.records))
        if rows.persons is not None:
            table = table.append_column(PERSON, arrow_array(rows.persons))
        if regions is None:
            return scatter(table, destinations, self._file(name))
        scatter(table.append_column(PLACE, arrow_array(destinations)), regions, self._file(name))
        places, counts = np.unique(destinations, return_counts=True)
        return dict(zip(places.tolist(), counts.tolist(), strict=True))

    def regroup(self, names: Sequence[str], region: int, target: str) -> int:
        table = collect([self._file(name) for name in names], [region])
        places = numpy_array(table[PLACE])
        scatter(table.drop_columns([PLACE]), places, self._file(target))
        return len(places)

    def get(self, names: Sequence[str], destinations: Iterable[int], keep: Keep | None = None) -> Rows:
        wanted = None if keep is None else (lambda table: keep(_records(table)))
        table = collect([self._file(name) for name in names], destinations, wanted)
        persons = numpy_array(table[PERSON]) if PERSON in table.column_names else None
        beside = [RECORD] if persons is None else [RECORD, PERSON]
        return Rows(Table.of(table.drop_columns(beside)), _records(table), persons)

    def share(self, name: str, value: Result) -> Callable[[], Result]:
        with whole_file(self.workspace.path(f"{name}.pickle")) as hidden, hidden.open("wb") as file:
            pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)
        return partial(_shared, self.workspace.path(f"{name}.pickle"))

    def forget(self, names: Iterable[str]) -> None:
        self.workspace.forget(self._file(name) for name in names)

    def size(self, names: Iterable[str]) -> int:
        return sum(file.stat().st_size for file in map(self._file, names) if file.exists())

    def release(self, number: int, rows: Rows) -> int:
        import pyarrow.parquet as pq

        with whole_file(self._origin(number)) as hidden, hidden.open("wb") as file:
            np.save(file, rows.origin)
        if rows.persons is not None:
            with whole_file(self._persons(number)) as hidden, hidden.open("wb") as file:
                np.save(file, rows.persons)
        with whole_file(self.release_file(number), mode=0o666) as hidden:  # the release: the umask says who may read it
            pq.write_table(with_released_levels(rows.table).to_arrow(), hidden)
        return len(rows)

    def released(self, number: int, columns: Sequence[str] | None = None) -> Table:
        import pyarrow.parquet as pq

        columns = None if columns is None else list(columns)
        return Table.of(pq.read_table(self.release_file(number), columns=columns, partitioning=None))

    def origin(self, number: int) -> Host:
        return np.asarray(np.load(self._origin(number)))

    def persons(self, number: int) -> Host | None:
        file = self._persons(number)
        return np.asarray(np.load(file)) if file.exists() else None

    def release_file(self, number: int) -> Path:
        """The file of a release part."""
        return self.release_folder / f"part-{number:05d}.parquet"

    @property
    def release_folder(self) -> Path:
        """The folder of the release parts."""
        folder = self.workspace.path("release")
        folder.mkdir(exist_ok=True)
        return folder

    def _origin(self, number: int) -> Path:
        return self.workspace.path(f"origin-{number:05d}.npy")

    def _persons(self, number: int) -> Path:
        return self.workspace.path(f"persons-{number:05d}.npy")

    def _file(self, name: str) -> Path:
        return self.workspace.path(f"{name}.arrow")


@lru_cache(maxsize=1)
def _loaded(path: Path, written: int) -> Any:
    """What was shared under a path, kept by this process for the tasks that follow."""
    with path.open("rb") as file:
        return pickle.load(file)


def _shared(path: Path) -> Any:
    """What was shared under a path: in a private folder of this user, see `Workspace`."""
    return _loaded(path, path.stat().st_mtime_ns)


def _records(table: pa.Table) -> Host:
    """(n,) int64 record numbers."""
    return numpy_array(table[RECORD])
