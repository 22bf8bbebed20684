"""`Table`: any eager dataframe, seen as named columns of one length.

A thin wrapper over narwhals: pandas, polars or pyarrow goes in, the same kind comes out, and every column
that is not replaced keeps its type and its values to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import narwhals as nw
import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.errors import InputError
from gpuanon.tables import native
from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.layouts import plainly_stored, without_metadata

if TYPE_CHECKING:
    import pyarrow as pa


class Table:
    """Rows of named columns.  Rows are numbered from 0; there is no index.

    A pandas index is a link back to the person: it is dropped on the way in.  An index that matters is a column
    to be named in the recipe (``df.reset_index()``).

    notes   : what the steward should know of how the table was read; empty for tables that were made from it
    layouts : Arrow schema of the table that was given, whose columns may have been stored otherwise; None for tables
              that were made from it
    """

    __slots__ = ("_frame", "layouts", "notes")

    def __init__(self, frame: nw.DataFrame[Any], notes: tuple[str, ...] = (), layouts: pa.Schema | None = None) -> None:
        self._frame, self.notes, self.layouts = frame, notes, layouts

    @classmethod
    def of(cls, data: Any) -> Table:
        """Wrap a dataframe of any kind that narwhals reads; a `Table` is returned as it is.

        What is lazy is read batch by batch into memory: a lazy frame as the eager kind of its library, a DuckDB
        relation, a `RecordBatchReader` or an iterator of batches as an Arrow table.
        """
        if isinstance(data, Table):
            return data
        data = native.collected(data)
        frame = _wrapped(data)
        return cls(_without_traces(frame), layouts=data.schema if frame.implementation.is_pyarrow() else None)

    @property
    def frame(self) -> nw.DataFrame[Any]:
        """The narwhals dataframe."""
        return self._frame

    def to_native(self) -> Any:
        """The dataframe in the caller's own kind."""
        return self._frame.to_native()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._frame)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self._frame.columns)

    def series(self, name: str) -> nw.Series[Any]:
        """One column in narwhals."""
        return self._frame.get_column(name)

    def arrow(self, name: str) -> pa.ChunkedArray:
        """One column as Arrow."""
        return native.to_arrow(self.series(name))

    def to_arrow(self) -> pa.Table:
        """The whole as an Arrow table."""
        import pyarrow as pa

        data = self.to_native()
        return data if isinstance(data, pa.Table) else pa.table({name: self.arrow(name) for name in self.names})

    @property
    def is_immutable(self) -> bool:
        """Whether nobody can change the values in place: so it is with Arrow."""
        return bool(self._frame.implementation.is_pyarrow())

    def with_notes(self, notes: tuple[str, ...]) -> Table:
        """The same table with these notes."""
        return Table(self._frame, notes, self.layouts)

    def take(self, rows: Host) -> Table:
        """The rows with these numbers, in this order; each may be taken several times."""
        rows = np.asarray(rows, dtype=np.int64)
        if self._frame.implementation.is_pyarrow():
            return Table(nw.from_native(self._frame.to_native().take(arrow_array(rows)), eager_only=True))
        frame = self._frame[rows]
        return Table(nw.maybe_reset_index(frame) if frame.implementation.is_pandas_like() else frame)

    def replace(self, columns: Mapping[str, nw.Series[Any]]) -> Table:
        """Put these columns in place of those of the same name; new names go to the end."""
        if not columns:
            return self
        return Table(self._frame.with_columns(*(column.alias(name) for name, column in columns.items())))

    def select(self, names: Sequence[str]) -> Table:
        """These columns, in this order."""
        return Table(self._frame.select(list(names)))

    def drop(self, names: Iterable[str]) -> Table:
        """All columns but these."""
        return Table(self._frame.drop(list(names)))

    @staticmethod
    def concatenated(tables: Sequence[Table]) -> Table:
        """The rows of all tables, which have the same columns and types, one after the other."""
        import pyarrow as pa

        if tables[0]._frame.implementation.is_pyarrow():
            return Table.of(pa.concat_tables([table.to_native() for table in tables], promote_options="permissive"))
        return Table.of(nw.concat([table._frame for table in tables], how="vertical"))

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"Table({self.n_rows} rows, {len(self.names)} columns, {self._frame.implementation})"


def _wrapped(data: Any) -> nw.DataFrame[Any]:
    """The dataframe in narwhals; what it says of a bad one, in our words."""
    try:
        frame = nw.from_native(data, eager_only=True)
    except nw.exceptions.DuplicateError:
        names = Counter(map(str, data.column_names if hasattr(data, "column_names") else data.columns))
        twice = ", ".join(repr(name) for name, times in names.items() if times > 1)
        raise InputError(
            f"data: every column needs a name of its own, found twice: {twice}", hint="rename one"
        ) from None
    except (TypeError, nw.exceptions.NarwhalsError):
        raise InputError(
            f"data: a dataframe in memory is needed, got {type(data).__module__}.{type(data).__qualname__}",
            hint="gpuanon.read(path) reads a file"
            if isinstance(data, (str, PathLike))
            else "pandas, polars, pyarrow and lazy frames will do, and what gives Arrow batches",
        ) from None
    odd = sum(not isinstance(name, str) for name in frame.columns)
    if odd:
        raise InputError(
            f"data: column names must be text, {odd} of {len(frame.columns)} are not",
            hint="pandas: df.columns = df.columns.astype(str)",
        )
    return cast(nw.DataFrame[Any], frame)


def _without_traces(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Drop what lies beside the columns and may lead back: a pandas index, free-form metadata."""
    if frame.implementation.is_pandas_like():
        bare = nw.maybe_reset_index(frame).to_native().copy(deep=False)
        bare.attrs = {}
    elif frame.implementation.is_pyarrow():
        bare = plainly_stored(without_metadata(frame.to_native())).unify_dictionaries()
    else:
        return frame
    return nw.from_native(bare, eager_only=True)
