"""The input of a run in parts: stretches of Parquet files, with their record numbers."""

from __future__ import annotations

from pathlib import Path

from gpuanon.engine.stages import RECORD, Part
from gpuanon.errors import InputError
from gpuanon.tables import io

PART_ROWS = 500_000


def parquet_parts(path: Path, rows: int = PART_ROWS) -> list[Part]:
    """A Parquet file, or a folder of them in the order of their names, as parts of at most about `rows` rows.

    Row groups are not divided; records are numbered through, in the order of files and row groups.
    """
    import pyarrow.parquet as pq

    source = io.open(path)
    if RECORD in source.schema.names:
        raise InputError(
            f"{path.name}: the column name {RECORD!r} is kept for the run itself", hint="rename the column"
        )
    parts: list[Part] = []
    first = 0
    for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
        metadata = pq.read_metadata(file)
        groups: list[int] = []
        held = 0
        for group in range(metadata.num_row_groups):
            count = metadata.row_group(group).num_rows
            if groups and held + count > rows:
                parts.append(Part(len(parts), file, tuple(groups), first, held))
                first, groups, held = first + held, [], 0
            groups.append(group)
            held += count
        if held:
            parts.append(Part(len(parts), file, tuple(groups), first, held))
            first += held
    return parts


def in_parquet(path: Path, folder: Path, text: list[str]) -> Path:
    """A Parquet table with the rows of `path`: itself if it is one, else written piece by piece into `folder`."""
    if path.is_dir() or path.suffix == ".parquet":
        return path
    source = io.open(path, text)
    target = folder / "input.parquet"
    if not target.exists():
        with io.Writing() as out:
            put = out.stream(target, source.schema)
            for batch in source.batches():
                put(batch.to_arrow().cast(source.schema))
    return target
