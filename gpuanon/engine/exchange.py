"""Rows that move between tasks, through files: each task writes one file, sorted by destination.

A file holds one record batch for each destination that it has rows for, and the list of those destinations.  Whoever
collects a destination reads its batch from every file.  So moving n rows from p tasks to q needs p files, not p · q;
memory holds one part at a time; and a task that is lost or run again only writes its own file again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

_PLACES = b"destinations"


def scatter(rows: pa.Table, destinations: np.ndarray[Any, Any], path: Path) -> dict[int, int]:
    """Write `rows` sorted by destination (order kept within each) to `path`, whole or not at all; rows for each."""
    order = np.argsort(destinations, kind="stable")
    sorted_to = destinations[order]
    starts = (
        np.flatnonzero(np.concatenate([[True], sorted_to[1:] != sorted_to[:-1]]))
        if len(order)
        else np.empty(0, np.int64)
    )
    ends = np.append(starts[1:], len(order))
    ordered = rows.take(pa.array(order)).combine_chunks().unify_dictionaries()
    batches = [
        (int(sorted_to[start]), batch)
        for start, end in zip(starts, ends, strict=True)
        for batch in ordered.slice(start, end - start).combine_chunks().to_batches()
    ]
    schema = ordered.schema.with_metadata({_PLACES: json.dumps([place for place, _ in batches]).encode()})
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with ipc.new_file(hidden, schema) as writer:
            for _, batch in batches:
                writer.write_batch(batch)
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
    return {int(sorted_to[start]): int(end - start) for start, end in zip(starts, ends, strict=True)}


def collect(paths: Sequence[Path], destinations: Iterable[int]) -> pa.Table:
    """The rows that the files at `paths` hold for these destinations, file after file."""
    wanted = set(destinations)
    batches: list[pa.Table] = []
    schema: Any = None
    for path in paths:
        with pa.memory_map(str(path)) as source:
            reader = ipc.open_file(source)
            schema = schema or reader.schema.remove_metadata()
            places = json.loads(reader.schema.metadata[_PLACES])
            batches += [
                pa.Table.from_batches([reader.get_batch(at)]) for at, place in enumerate(places) if place in wanted
            ]
    tables = [table.replace_schema_metadata(None) for table in batches]
    return pa.concat_tables(tables).unify_dictionaries() if tables else schema.empty_table()
