"""Tables of DuckDB files, read and written by DuckDB itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuanon.errors import GpuanonError, InputError, OutputError
from gpuanon.tables.doors import Address, Door
from gpuanon.tables.doors.sql import (
    TableName,
    check_columns,
    check_target,
    deliver,
    literal,
    local_name,
    quoted,
    source_sql,
)

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 1 << 17


def _file(address: Address, error: type[GpuanonError]) -> Path:
    """The file: ``duckdb:///PATH`` is relative, ``duckdb:////PATH`` absolute; the first also where only that exists."""
    path = address.path
    if not path.startswith("/") or path == "/":
        raise error(f"{address}: names no file", hint="duckdb:///registry.duckdb?table=NAME")
    if path.startswith("//"):
        return Path(path[1:])
    relative, absolute = Path(path[1:]), Path(path)
    if relative.exists() and absolute.exists() and not relative.samefile(absolute):
        raise error(f"{address}: may be {relative.absolute()} or {absolute}", hint="four slashes: the second")
    nested = len(absolute.parts) > 2 and absolute.parent.is_dir() and not relative.parent.is_dir()
    return absolute if absolute.exists() or (nested and not relative.exists()) else relative


@contextmanager
def _connected(path: Path, address: Address, error: type[GpuanonError], *, write: bool) -> Iterator[Any]:
    """A connection; DuckDB's messages may quote values, so that only their kind is told."""
    import duckdb

    settings = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    try:
        with duckdb.connect(str(path), read_only=not write, config=settings) as connection:
            connection.execute("set TimeZone = 'UTC'")
            yield connection
    except duckdb.IOException:
        raise error(f"{address}: is no DuckDB file, cannot be opened or is in use by another program") from None
    except duckdb.CatalogException:
        raise error(f"{address}: there is no such table or column") from None
    except (duckdb.ParserException, duckdb.BinderException):
        raise error(f"{address}: --query is not understood by DuckDB") from None
    except duckdb.Error as failure:
        raise error(f"{address}: DuckDB could not do this ({type(failure).__name__})") from None


class _DuckSession:
    """See `Session`."""

    exact = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str) -> None:
        self._connection.execute(sql)

    def read(self, sql: str) -> pa.RecordBatchReader:
        import pyarrow as pa

        reader = self._connection.sql(sql).to_arrow_reader(_BATCH)
        kept = pa.schema([(field.name, _ordered(field.type)) for field in reader.schema])

        def batches() -> Iterator[pa.RecordBatch]:
            with reader:  # an open result holds the table
                for batch in reader:
                    yield _kept(batch, kept)

        return pa.RecordBatchReader.from_batches(kept, batches())

    def load(self, table: TableName, batches: pa.RecordBatchReader) -> None:
        self._connection.register("gpuanon_release", batches)
        self._connection.execute(f"insert into {table.sql} select * from gpuanon_release")
        self._connection.unregister("gpuanon_release")

    def enumeration(self, table: TableName, column: str, levels: list[str]) -> str:
        return f"enum ({', '.join(map(literal, levels))})" if levels else "text"

    def comment_of(self, table: TableName) -> str | None:
        schema = "current_schema()" if table.schema is None else literal(table.schema)
        found = self._connection.execute(
            "select coalesce(comment, '') from duckdb_tables() where database_name = current_database()"
            f" and schema_name = {schema} and table_name = {literal(table.name)}"
        ).fetchall()
        return None if not found else str(found[0][0])

    def drop(self, table: TableName) -> None:
        self.run(f"drop table {table.sql}")


def _ordered(type_: pa.DataType) -> pa.DataType:
    """Enumerations have an order; DuckDB's Arrow types do not say so."""
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return pa.dictionary(pa.int32(), pa.string(), ordered=True)
    return type_


def _kept(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the types that are kept."""
    import pyarrow as pa

    columns = []
    for field, column in zip(schema, batch.columns, strict=True):
        if pa.types.is_dictionary(field.type):
            indices, levels = column.indices.cast(pa.int32()), column.dictionary.cast(pa.string())
            column = pa.DictionaryArray.from_arrays(indices, levels, ordered=True)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _receive(address: Address, folder: Path) -> Path:
    """The rows as Parquet; one query sees one state of the file."""
    from gpuanon.tables.formats.parquet import spooled

    path = _file(address, InputError)
    if not path.is_file():
        raise InputError(f"{address}: no such file")
    with _connected(path, address, InputError, write=False) as connection:
        rows = _DuckSession(connection).read(source_sql(address))
        check_columns(address, [(field.name, field.type) for field in rows.schema], InputError)
        return spooled(rows, folder / f"{local_name(address)}.parquet")


def _check(address: Address, force: bool) -> None:
    path = _file(address, OutputError)
    TableName.of(address, OutputError)
    if path.exists():
        with _connected(path, address, OutputError, write=True) as connection:
            check_target(_DuckSession(connection), address, force)
    elif not path.absolute().parent.is_dir():
        raise OutputError(f"{address}: there is no folder {path.absolute().parent}")


def _send(address: Address, release: Path, manifest: dict[str, Any], force: bool) -> str:
    """Into an existing file in one transaction; a new file is made elsewhere and gets its name when it is complete."""
    from gpuanon.tables.formats.writing import Writing

    path = _file(address, OutputError)
    made = None if path.exists() else release.with_name("new.duckdb")
    if made is not None:
        made.unlink(missing_ok=True)
    with _connected(made or path, address, OutputError, write=True) as connection:
        connection.execute("begin")
        try:
            deliver(_DuckSession(connection), address, release, manifest, force)
        except BaseException:
            with suppress(Exception):
                connection.execute("rollback")
            raise
        connection.execute("commit")
    if made is not None:
        with Writing() as out:
            out.copy(path, made)
        os.unlink(made)
    return f"comment of table {quoted(TableName.of(address, OutputError).name)}"


DUCKDB = Door(
    "duckdb",
    ("duckdb",),
    "duckdb:///registry.duckdb?table=persons",
    "rows are loaded, read back and compared in one transaction, at whose end the table has its name",
    "a DuckDB file has no password",
    _receive,
    lambda address: ".arrow",
    _check,
    _send,
    ordered=False,
    queries=True,
    needs=("duckdb",),
    extra="sql",
)
