"""Tables of a PostgreSQL server, read and written by its ADBC driver as Arrow batches (binary COPY).

The driver passes the address to libpq, which takes passwords from ``PGPASSWORD``, the password file or a service file.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit, urlunsplit
from uuid import UUID

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

_SECRETS = "PGPASSWORD, PGPASSFILE (~/.pgpass) or PGSERVICE (~/.pg_service.conf) hold the password"
_REASONS = {
    "28": "the server refused the login",
    "3D": "there is no such database",
    "42P01": "there is no such table",
    "42703": "there is no such column",
    "42501": "this user is not allowed to do this",
    "42": "the query is not understood by the server",
    "25006": "a query must not change anything",
    "2BP01": "other objects, such as views, depend on the table that is to be replaced",
    "53": "the server has no room left",
    "57": "the server was stopped; the transaction was not committed",
    "08": "the server cannot be reached",
    "22": "a value cannot be stored",
}
_KNOWN = ("text", "varchar", "bpchar", "name")
"""Types of texts, which are no enumerations."""
_MARK = "levels of a release of gpuanon"


@contextmanager
def _transaction(address: Address, error: type[GpuanonError], *, write: bool) -> Iterator[_PostgresSession]:
    """A transaction, which is not committed.  Messages of the server may quote values: only their kind is told."""
    import adbc_driver_manager
    from adbc_driver_postgresql import dbapi

    parts = urlsplit(address.text)
    options = {name: value for name, value in address.options.items() if name != "table"}
    uri = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(options), ""))
    try:
        with dbapi.connect(uri) as connection, connection.cursor() as cursor:
            isolation = "read committed" if write else "repeatable read, read only"
            cursor.execute(f"set transaction isolation level {isolation}")
            for setting in ("synchronize_seqscans = off", "max_parallel_workers_per_gather = 0"):
                cursor.execute(f"set local {setting}")  # rows come in the order in which they are stored
            yield _PostgresSession(connection, cursor)
    except adbc_driver_manager.Error as failure:
        state = failure.sqlstate or ""
        reason = next((text for code, text in _REASONS.items() if state.startswith(code)), None)
        if reason is None:
            reason = f"the server reports SQLSTATE {state}" if state else _REASONS["08"]
        login = not state or state.startswith("28")
        raise error(f"{address}: {reason}", hint=_SECRETS if login else None) from None


class _PostgresSession:
    """See `Session`."""

    exact = False

    def __init__(self, connection: Any, cursor: Any) -> None:
        self.connection, self._cursor = connection, cursor

    def run(self, sql: str) -> None:
        self._cursor.execute(sql)

    def values(self, sql: str) -> list[Any]:
        """The rows of a small result."""
        self._cursor.execute(sql)
        return list(self._cursor.fetchall())

    def read(self, sql: str) -> pa.RecordBatchReader:
        import pyarrow as pa

        self._cursor.execute(f"select * from ({sql}) as gpuanon_source limit 0")
        found = self._cursor.fetch_arrow_table().schema
        columns = [self._column(field, sql) for field in found]
        kept = pa.schema([(field.name, type_) for field, (type_, _) in zip(found, columns, strict=True)])
        levels = [labels for _, labels in columns]
        self._cursor.execute(f"select * from ({sql}) as gpuanon_source")
        reader = self._cursor.fetch_record_batch()
        return pa.RecordBatchReader.from_batches(kept, (_kept(batch, kept, levels) for batch in reader))

    def _column(self, field: pa.Field, sql: str) -> tuple[pa.DataType, list[str] | None]:
        """The type in which a column is kept, and the levels of an enumeration, by the catalogue."""
        import pyarrow as pa

        told = {name.decode(): value.decode() for name, value in (field.metadata or {}).items()}
        name = told.get("POSTGRESQL:type", "")
        if name == "numeric":
            return self._decimal(field.name, int(told.get("POSTGRESQL:typmod", "-1")), sql), None
        if name in ("uuid", "json", "jsonb"):
            return pa.string(), None
        if name == "money":
            raise InputError(
                f"column {field.name!r}: money depends on the server's settings", hint="cast it in --query"
            )
        if name not in _KNOWN and (pa.types.is_string(field.type) or isinstance(field.type, pa.BaseExtensionType)):
            found = self.values(
                "select enumlabel from pg_enum where enumtypid = pg_typeof((select"
                f" {quoted(field.name)} from ({sql}) as gpuanon_source limit 1))::oid order by enumsortorder"
            )
            if found:
                return pa.dictionary(pa.int32(), pa.string(), ordered=True), [label for (label,) in found]
        if isinstance(field.type, pa.BaseExtensionType):
            raise InputError(f"column {field.name!r}: its type is not kept", hint="cast it in --query, to text")
        return field.type, None

    def _decimal(self, name: str, modifier: int, sql: str) -> pa.DataType:
        """``numeric(p, s)`` by its declaration; without one, wide enough for all values."""
        import pyarrow as pa

        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        if modifier < 4:
            column = quoted(name)
            ((scale, whole),) = self.values(
                f"select coalesce(max(scale({column})), 0), coalesce(max(length(trunc(abs({column}))::text)), 1)"
                f" from ({sql}) as gpuanon_source"
            )
            precision = scale + whole
        if precision > 38 or scale > precision:
            raise InputError(f"column {name!r}: numbers of more than 38 digits are not kept", hint="cast it in --query")
        return pa.decimal128(max(precision, 1), scale)

    def load(self, table: TableName, batches: pa.RecordBatchReader) -> None:
        self._cursor.adbc_ingest(table.name, batches, mode="append", db_schema_name=table.schema)

    def enumeration(self, table: TableName, column: str, levels: list[str]) -> str:
        name = TableName(table.schema, f"{table.name[:24]}_{column[:24]}_{secrets.token_hex(4)}").sql
        self.run(f"create type {name} as enum ({', '.join(map(literal, levels))})")
        self.run(f"comment on type {name} is {literal(_MARK)}")
        return name

    def comment_of(self, table: TableName) -> str | None:
        found = self.values(
            "select coalesce(obj_description(oid, 'pg_class'), '') from pg_class"
            f" where oid = to_regclass({literal(table.sql)})"
        )
        return None if not found else str(found[0][0])

    def drop(self, table: TableName) -> None:
        types = self.values(
            "select distinct t.oid::regtype::text from pg_attribute a join pg_type t on t.oid = a.atttypid"
            f" where a.attrelid = to_regclass({literal(table.sql)}) and not a.attisdropped"
            f" and obj_description(t.oid, 'pg_type') = {literal(_MARK)} and not exists (select from pg_attribute o"
            " where o.atttypid = t.oid and o.attrelid <> a.attrelid)"
        )
        self.run(f"drop table {table.sql}")
        for (name,) in types:
            self.run(f"drop type {name}")


def _kept(batch: pa.RecordBatch, schema: pa.Schema, levels: list[list[str] | None]) -> pa.RecordBatch:
    """The batch in the types that are kept; exact, or refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for field, column, labels in zip(schema, batch.columns, levels, strict=True):
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
            if pa.types.is_fixed_size_binary(column.type):
                column = pa.array([None if one is None else str(UUID(bytes=one)) for one in column.to_pylist()])
        try:
            if labels is not None:
                known = pa.array(labels, pa.string())
                column = pa.DictionaryArray.from_arrays(
                    pc.index_in(column.cast(pa.string()), known), known, ordered=True
                )
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid:
            raise InputError(f"column {field.name!r}: holds values, such as NaN, that are not kept") from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _receive(address: Address, folder: Path) -> Path:
    """The rows as Parquet, under one snapshot."""
    from gpuanon.tables.formats.parquet import spooled

    with _transaction(address, InputError, write=False) as session:
        rows = session.read(source_sql(address))
        check_columns(address, [(field.name, field.type) for field in rows.schema], InputError)
        return spooled(rows, folder / f"{local_name(address)}.parquet")


def _check(address: Address, force: bool) -> None:
    table = TableName.of(address, OutputError)
    if max(len(part.encode()) for part in (table.name, table.schema or "")) > 63:
        raise OutputError(f"{address}: a name of at most 63 bytes is allowed")
    with _transaction(address, OutputError, write=False) as session:
        check_target(session, address, force)


def _send(address: Address, release: Path, manifest: dict[str, Any], force: bool) -> str:
    """In one transaction: what is not committed, nobody sees, and the server removes it."""
    with _transaction(address, OutputError, write=True) as session:
        deliver(session, address, release, manifest, force)
        session.connection.commit()
    return f"comment of table {quoted(TableName.of(address, OutputError).name)}"


POSTGRESQL = Door(
    "postgresql",
    ("postgresql", "postgres"),
    "postgresql://USER@HOST:PORT/DB?table=persons",
    "rows are loaded, read back and compared in one transaction, at whose end the table has its name",
    _SECRETS,
    _receive,
    lambda address: ".arrow",
    _check,
    _send,
    ordered=False,
    queries=True,
    needs=("adbc_driver_postgresql", "adbc_driver_manager"),
    extra="sql",
)
