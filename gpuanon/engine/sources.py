"""The input of a run in parts: stretches of Parquet files, with their record numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuanon.engine.store import PERSON, RECORD, FilePart, Store
from gpuanon.engine.workers import Workers
from gpuanon.errors import InputError
from gpuanon.tables.arrow import empty_table
from gpuanon.tables.formats import io
from gpuanon.tables.formats.parquet import parquet_files
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

PART_ROWS = 500_000
PART_BYTES = 1 << 26
"""A part has at most so many rows, and about so many bytes: a worker holds a few copies of one."""


def parquet_parts(path: Path, rows: int = PART_ROWS) -> list[FilePart]:
    """A Parquet file, or a folder of them in the order of their names, as parts of at most `rows` rows.

    Row groups are put together up to that size, and divided when they are larger; records are numbered through, in
    the order of files and row groups.
    """
    import pyarrow.parquet as pq

    source = io.open(path)
    for name in (RECORD, PERSON):
        if name in source.schema.names:
            raise InputError(
                f"{path.name}: the column name {name!r} is kept for the run itself", hint="rename the column"
            )
    parts: list[FilePart] = []
    first = 0
    for file in parquet_files(path):
        metadata = pq.read_metadata(file)
        for groups, skip, count in _stretches(metadata, min(rows, _rows_that_fit(metadata))):
            parts.append(FilePart(file, groups, first, count, skip))
            first += count
    if not parts:
        raise InputError("the table has no rows", hint="there is nothing to mask")
    return parts


def _stretches(metadata: Any, rows: int) -> list[tuple[tuple[int, ...], int, int]]:
    """Row groups, rows of them that come before, and number of rows, of each part of a file."""
    found: list[tuple[tuple[int, ...], int, int]] = []
    groups: list[int] = []
    held = 0
    for group in range(metadata.num_row_groups):
        count = metadata.row_group(group).num_rows
        if held and held + count > rows:
            found.append((tuple(groups), 0, held))
            groups, held = [], 0
        if count > rows:
            pieces = -(-count // rows)
            cuts = [count * piece // pieces for piece in range(pieces + 1)]
            found += [((group,), begin, end - begin) for begin, end in pairwise(cuts)]
        elif count:
            groups.append(group)
            held += count
    return [*found, (tuple(groups), 0, held)] if held else found


def _rows_that_fit(metadata: Any) -> int:
    """Rows of a file that take `PART_BYTES`, about: eight bytes per value, more where the file itself says so."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    encoded = sum(group.total_byte_size for group in groups) / max(metadata.num_rows, 1)
    return max(1, int(PART_BYTES / max(encoded, 8 * metadata.num_columns, 1)))


def head_of(parts: Sequence[FilePart], store: Store, workers: Workers) -> Table:
    """The columns of all parts, without rows; ordered levels of all parts together, in the order they are met."""
    import pyarrow as pa

    head = Table.of(empty_table(io.open(parts[0].file).schema)).to_arrow()
    ordered = tuple(field.name for field in head.schema if pa.types.is_dictionary(field.type) and field.type.ordered)
    if ordered:
        task = partial(_levels_once, store, ordered)
        found: list[dict[str, pa.Array]] = workers(task, list(enumerate(parts)))
        for name in ordered:
            none = pa.nulls(0, head.schema.field(name).type.index_type)
            chunks = [pa.DictionaryArray.from_arrays(none, levels[name], ordered=True) for levels in found]
            levels = pa.chunked_array(chunks).unify_dictionaries().chunk(0)
            head = head.set_column(head.column_names.index(name), name, levels)
    return Table.of(head)


def _levels_once(store: Store, columns: tuple[str, ...], item: tuple[int, FilePart]) -> dict[str, pa.Array]:
    """The levels of ordered dictionary columns of a part, lowest first: each part of the input has its own."""

    def levels() -> dict[str, pa.Array]:
        rows = item[1].read(columns).table.to_arrow()
        return {name: rows[name].chunk(0).dictionary for name in columns}

    return store.once(f"levels-{item[0]:05d}", levels)


def in_parquet(source: io.Source, folder: Path) -> Path:
    """A Parquet table with the rows of `source`: itself if it is one, else written piece by piece into `folder`."""
    if source.form.divisible:
        return source.path
    target = folder / "input.parquet"
    if not target.exists():
        schema = Table.of(empty_table(source.schema)).to_arrow().schema  # Parquet stores no run ends
        with io.Writing() as out:
            put = out.stream(target, schema)
            for batch in source.batches():
                put(batch.to_arrow().cast(schema))
    return target
