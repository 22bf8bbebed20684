"""Layouts of Arrow columns that hold the same values otherwise, and metadata beside the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def plainly_stored(table: pa.Table) -> pa.Table:
    """Without views and run ends, layouts that Arrow cannot take rows from; see `restore_layouts`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for at, field in enumerate(table.schema):
        column = table.column(at)
        if pa.types.is_run_end_encoded(field.type):
            column = pc.run_end_decode(column)
        plain = _plain_type(column.type)
        if plain != field.type:
            table = table.set_column(at, field.name, column if plain == column.type else column.cast(plain))
    return table


def _plain_type(type_: pa.DataType) -> pa.DataType:
    """The type without views, also as the values of a dictionary."""
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return pa.dictionary(type_.index_type, _plain_type(type_.value_type), ordered=type_.ordered)
    if pa.types.is_string_view(type_):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(type_) else type_


def restore_layouts(released: pa.Table, original: pa.Schema, *, views: bool = True, run_ends: bool = True) -> pa.Table:
    """The released columns in the layout that they had, where they hold values of the same type.

    views, run_ends : whether these layouts are wanted; not every format can store them
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for at, field in enumerate(released.schema):
        if field.name not in original.names:
            continue
        wanted, column = original.field(field.name).type, released.column(at)
        if pa.types.is_run_end_encoded(wanted) and run_ends and field.type == _plain_type(wanted.value_type):
            column = pc.run_end_encode(column, run_end_type=wanted.run_end_type)
        elif views and wanted != field.type and _plain_type(wanted) == field.type:
            column = column.cast(wanted) if not pa.types.is_dictionary(wanted) else column
        else:
            continue
        released = released.set_column(at, field.name, column)
    return released


def without_metadata(table: pa.Table) -> pa.Table:
    """Without free-form metadata of the table, its columns, and fields inside of them."""
    import pyarrow as pa

    fields = [pa.field(field.name, _bare(field.type), field.nullable) for field in table.schema]
    table = table.replace_schema_metadata(None)
    if not any(field.metadata or _noted(field.type) for field in table.schema):
        return table
    columns = [
        column.cast(field.type) if _noted(column.type) else column
        for column, field in zip(table.columns, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _noted(type_: pa.DataType) -> bool:
    """Whether a field inside of a nested type has metadata."""
    return any(field.metadata or _noted(field.type) for field in _fields(type_))


def _fields(type_: pa.DataType) -> list[pa.Field]:
    """The fields inside of a nested type."""
    import pyarrow as pa

    return [type_.field(at) for at in range(type_.num_fields)] if pa.types.is_nested(type_) else []


def _bare(type_: pa.DataType) -> pa.DataType:
    """The type without metadata of the fields inside of it."""
    import pyarrow as pa

    if not _noted(type_):
        return type_
    inside: list[Any] = [pa.field(field.name, _bare(field.type), field.nullable) for field in _fields(type_)]
    if pa.types.is_struct(type_):
        return pa.struct(inside)
    if pa.types.is_map(type_):
        return pa.map_(_bare(type_.key_type), _bare(type_.item_type), keys_sorted=type_.keys_sorted)
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(inside[0], type_.list_size)
    return pa.large_list(inside[0]) if pa.types.is_large_list(type_) else pa.list_(inside[0])
