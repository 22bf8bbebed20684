"""Levels of a release that lies in Parquet parts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuanon.tables.dictionaries import common_levels, with_levels
from gpuanon.tables.formats.writers import write_parquet
from gpuanon.tables.table import Table


def unify_parts(folder: Path, declared: Mapping[str, Sequence[Any] | None]) -> None:
    """Give ordered levels the same dictionary in all parts of a folder: readers take the order of the first part.

    Only parts that lack a level are written again.  Columns without an order keep the levels of their own part.

    declared : see `common_levels`
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(folder.iterdir())
    schema = pq.read_schema(files[0])
    ordered = [field.name for field in schema if pa.types.is_dictionary(field.type) and field.type.ordered]
    if len(files) < 2 or not ordered:
        return

    def read(file: Path, columns: list[str] | None = None) -> pa.Table:
        return pq.read_table(file, columns=columns, partitioning=None).unify_dictionaries()

    levels = common_levels((Table.of(read(file, ordered)) for file in files), declared, ordered_only=True)
    for file in files:
        held = read(file, ordered)
        if any(not held[name].chunk(0).dictionary.equals(values) for name, values in levels.items()):
            hidden = file.with_name(f".{file.name}")  # the part has a second name in the workspace: not in place
            write_parquet(with_levels(read(file), levels), hidden)
            os.replace(hidden, file)
