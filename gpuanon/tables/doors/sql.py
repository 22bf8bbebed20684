"""What doors to databases share: a release becomes a table in one transaction, after it was read back and compared.

The rows go into a staging table that nobody else sees before the commit.  There they are read back and compared with
the verified local file, value for value.  Then the staging table takes the name of the release, and its comment is the
manifest.  A client or a server that is killed before the commit leaves the old table.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gpuanon.errors import GpuanonError, InputError, OutputError
from gpuanon.tables.doors import Address
from gpuanon.tables.formats import type_name

if TYPE_CHECKING:
    import pyarrow as pa

ALGORITHM = "blake2b-256 of the rows as Arrow"
_CHUNK = 1 << 16
_KINDS = {"float": {16: "float4", 32: "float4", 64: "float8"}}
_PLAIN = {
    "truth value": "bool", "text": "text", "levels": "text", "binary": "bytea", "date": "date", "time of day": "time",
    "timestamp": "timestamp", "timestamp with zone": "timestamptz", "nulls only": "text",
}  # fmt: skip


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class TableName:
    """The name of a table, with or without its schema."""

    schema: str | None
    name: str

    @classmethod
    def of(cls, address: Address, error: type[GpuanonError]) -> TableName:
        """The table that an address names: ``table=NAME`` or ``table=SCHEMA.NAME``."""
        text = address.options.get("table", "")
        schema, dot, name = text.partition(".")
        if not text or (dot and not (schema and name)):
            raise error(f"{address}: names no table", hint="end it with ?table=NAME")
        return cls(schema, name) if dot else cls(None, text)

    @property
    def sql(self) -> str:
        """The name in SQL."""
        return quoted(self.name) if self.schema is None else f"{quoted(self.schema)}.{quoted(self.name)}"


def source_sql(address: Address) -> str:
    """The query that gives the table of an address."""
    if address.query is not None:
        return address.query.strip().rstrip(";")
    return f"select * from {TableName.of(address, InputError).sql}"


def local_name(address: Address) -> str:
    """A name for the local copy of a table."""
    return re.sub(r"[^\w.-]", "_", address.options.get("table", "query")).lstrip(".") or "table"


def check_columns(address: Address, columns: list[tuple[str, pa.DataType]], error: type[GpuanonError]) -> None:
    """Raise for columns whose type is not kept, by their names."""
    refused = {
        "list": "an array",
        "structure": "a structure",
        "map": "a map",
        "duration": "a duration",
        "other": "this",
    }
    faults = [f"column {name!r}: {refused[kind]} type is not kept" for name, type_ in columns
              if (kind := type_name(type_)) in refused]  # fmt: skip
    if faults:
        raise error(f"{address}: {'; '.join(faults)}", hint="leave the column out, or cast it in --query")


def column_type(type_: pa.DataType, exact: bool) -> tuple[str, pa.DataType]:
    """The type of a column in SQL, and that of the values which are sent; enumerations are left to the door.

    exact : whether the database has all sizes of whole numbers
    """
    import pyarrow as pa

    kind = type_name(type_)
    if kind == "levels of numbers":
        return column_type(type_.value_type, exact)
    if kind == "whole number":
        return _whole_number(type_, exact)
    if kind == "float":
        return _KINDS["float"][type_.bit_width], pa.float64() if type_.bit_width == 64 else pa.float32()
    if kind == "decimal":
        return f"numeric({type_.precision}, {type_.scale})", type_
    sent = {
        "binary": pa.binary(), "date": pa.date32(), "time of day": pa.time64("us"), "timestamp": pa.timestamp("us"),
        "timestamp with zone": pa.timestamp("us", "UTC"), "truth value": pa.bool_(),
    }  # fmt: skip
    return _PLAIN[kind], sent.get(kind, pa.string())


def _whole_number(type_: pa.DataType, exact: bool) -> tuple[str, pa.DataType]:
    """The narrowest type that holds all values."""
    import pyarrow as pa

    signed = pa.types.is_signed_integer(type_)
    if exact:
        names = {8: "tinyint", 16: "smallint", 32: "integer", 64: "bigint"}
        return ("" if signed else "u") + names[type_.bit_width], type_
    bits = type_.bit_width if signed else 2 * type_.bit_width
    if bits > 64:
        return "numeric(20, 0)", pa.decimal128(20, 0)
    bits = max(bits, 16)
    return f"int{bits // 8}", {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]


class Session(Protocol):
    """An open transaction of a database."""

    exact: bool

    def run(self, sql: str) -> None:
        """Execute a command."""

    def read(self, sql: str) -> pa.RecordBatchReader:
        """The result of a query, in the types that columns are kept in, in the order in which rows are stored."""

    def load(self, table: TableName, batches: pa.RecordBatchReader) -> None:
        """Append rows by bulk copy."""

    def enumeration(self, table: TableName, column: str, levels: list[str]) -> str:
        """The type of a column of ordered levels."""

    def comment_of(self, table: TableName) -> str | None:
        """The comment of a table, empty for none; None if there is no such table."""

    def drop(self, table: TableName) -> None:
        """Remove a table, and what was made for it."""


def check_target(session: Session, address: Address, force: bool) -> bool:
    """Whether there is an earlier release to replace; raises if it may not be replaced."""
    table = TableName.of(address, OutputError)
    comment = session.comment_of(table)
    if comment is None:
        return False
    if not force:
        raise OutputError(f"{address}: exists already", hint="--force replaces it")
    try:
        digest = json.loads(comment)["release"]["digest"]
    except (ValueError, KeyError, TypeError):
        digest = None
    if digest is None or digest != _digest(session.read(f"select * from {table.sql}")):
        raise OutputError(
            f"{address}: was not written by gpuanon, or was changed since, and is not replaced (the comment of a"
            " release is its manifest)",
            hint="choose another name, or remove it yourself",
        )
    return True


def deliver(session: Session, address: Address, release: Path, manifest: dict[str, Any], force: bool) -> None:
    """Make the release a table; the caller commits.

    release : an Arrow file that was verified
    """
    import pyarrow as pa

    table = TableName.of(address, OutputError)
    staging = TableName(table.schema, f"gpuanon_{secrets.token_hex(8)}")
    with pa.memory_map(str(release)) as mapped:
        rows = pa.ipc.open_file(mapped).read_all()
        check_columns(address, [(field.name, field.type) for field in rows.schema], OutputError)
        columns, sent = [], []
        for field in rows.schema:
            kind = type_name(field.type)
            sql, type_ = ("", pa.string()) if kind == "ordered levels" else column_type(field.type, session.exact)
            if kind == "ordered levels":
                levels = rows[field.name].chunk(0).dictionary.to_pylist() if rows.num_rows else []
                sql = session.enumeration(table, field.name, levels)
            columns.append(f"{quoted(field.name)} {sql}")
            sent.append((field.name, type_))
        session.run(f"create table {staging.sql} ({', '.join(columns)})")
        schema = pa.schema(sent)
        session.load(staging, pa.RecordBatchReader.from_batches(schema, _sent(rows, schema)))
        _verify(session.read(f"select * from {staging.sql}"), _sent(rows, schema), schema, address)
    digest = _digest(session.read(f"select * from {staging.sql}"))
    written = {**manifest, "release": {"digest": digest, "algorithm": ALGORITHM}}
    if check_target(session, address, force):
        session.drop(table)
    session.run(f"alter table {staging.sql} rename to {quoted(table.name)}")
    session.run(f"comment on table {table.sql} is {literal(json.dumps(written))}")


def _sent(rows: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in the types that are sent; a cast that would change a value raises."""
    import pyarrow as pa

    for at in range(0, rows.num_rows, _CHUNK):
        piece = rows.slice(at, _CHUNK)
        plain = [_as(piece[field.name], field.type) for field in schema]
        yield from pa.table(plain, schema=schema).combine_chunks().to_batches()


def _as(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """The column in another type, which holds all its values."""
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), type_)])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(type_)


def _verify(found: pa.RecordBatchReader, sent: Iterator[pa.RecordBatch], schema: pa.Schema, address: Address) -> None:
    """Raise unless the stored rows are those that were sent: as many, in their order, to the bit."""
    import pyarrow as pa

    from gpuanon.tables.formats.io import same_bits

    stored = _chunks(found)
    for batch in sent:
        piece, wanted = next(stored, None), pa.Table.from_batches([batch])
        if (
            piece is None
            or piece.num_rows != batch.num_rows
            or not all(same_bits(_as(piece[f.name], f.type), wanted[f.name]) for f in schema)
        ):
            raise OutputError(f"{address}: the stored rows are not those that were sent; nothing was written")
    if next(stored, None) is not None:
        raise OutputError(f"{address}: there are more rows than were sent; nothing was written")


def _chunks(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """The rows in pieces of one size, the last one smaller."""
    import pyarrow as pa

    held = reader.schema.empty_table()
    for batch in reader:
        held = pa.concat_tables([held, pa.Table.from_batches([batch])])
        while held.num_rows >= _CHUNK:
            yield held.slice(0, _CHUNK)
            held = held.slice(_CHUNK)
    if held.num_rows:
        yield held


def _digest(reader: pa.RecordBatchReader) -> str:
    """A digest of the rows, in their order: of each column which values are there, and these."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = hashlib.blake2b(digest_size=32)
    whole.update(json.dumps(reader.schema.names).encode())
    for piece in _chunks(reader):
        for column in piece.columns:
            there = pc.is_valid(column).cast(pa.uint8())
            values = _as(column, _value_type(column.type)).drop_null()  # what lies under a null is arbitrary
            for part in (there, values):
                whole.update(pa.record_batch([part.combine_chunks()], names=["values"]).serialize())
    return whole.hexdigest()


def _value_type(type_: pa.DataType) -> pa.DataType:
    """The type of a column's values."""
    import pyarrow as pa

    return type_.value_type if pa.types.is_dictionary(type_) else type_
