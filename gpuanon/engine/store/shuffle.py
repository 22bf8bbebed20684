"""Rows that move between tasks, through files: each task writes one file, sorted by destination.

A file holds one record batch for each destination that it has rows for, and the list of those destinations.  Whoever
collects a destination reads its batch from every file.  So moving n rows from p tasks to q needs p files, not p · q;
memory holds one part at a time; and a task that is lost or run again only writes its own file again.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from gpuanon.arrays.backend import Host
from gpuanon.errors import OutputError
from gpuanon.tables.arrow import arrow_array, empty_table

_PLACES = b"destinations"


@contextmanager
def whole_file(path: Path, mode: int = 0o600) -> Iterator[Path]:
    """A hidden place to write to, which becomes `path` when the block ends well: on the disk, whole or not at all.

    The name is unique: a worker that was given up for lost may still be writing the same file.
    """
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield hidden
        number = os.open(hidden, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)


def scatter(rows: pa.Table, destinations: Host, path: Path) -> dict[int, int]:
    """Write `rows` sorted by destination (order kept within each) to `path`, whole or not at all; rows for each."""
    order = np.argsort(destinations, kind="stable")
    sorted_to = destinations[order]
    starts = (
        np.flatnonzero(np.concatenate([[True], sorted_to[1:] != sorted_to[:-1]]))
        if len(order)
        else np.empty(0, np.int64)
    )
    ends = np.append(starts[1:], len(order))[: len(starts)]
    ordered = rows.take(arrow_array(order)).combine_chunks().unify_dictionaries()
    batches = [
        (int(sorted_to[start]), batch)
        for start, end in zip(starts, ends, strict=True)
        for batch in ordered.slice(start, end - start).combine_chunks().to_batches()
    ]
    schema = ordered.schema.with_metadata({_PLACES: json.dumps([place for place, _ in batches]).encode()})
    with whole_file(path) as hidden, ipc.new_file(hidden, schema) as writer:
        for _, batch in batches:
            writer.write_batch(batch)
    return {int(sorted_to[start]): int(end - start) for start, end in zip(starts, ends, strict=True)}


def collect(
    paths: Sequence[Path],
    destinations: Iterable[int],
    keep: Callable[[pa.Table], Host] | None = None,
) -> pa.Table:
    """The rows that the files at `paths` hold for these destinations, file after file.

    keep : says which rows of some are wanted (n,); None for all
    """
    wanted = set(destinations)
    found: list[pa.Table] = []
    schema: Any = None
    for path in paths:
        # Buffers of a batch hold on to the map: they outlive the handle, and the file's name.
        with _translate_errors(path), pa.memory_map(str(path)) as source:
            reader = ipc.open_file(source)
            schema = schema or reader.schema.remove_metadata()
            places = json.loads(reader.schema.metadata[_PLACES])
            for at in [at for at, place in enumerate(places) if place in wanted]:
                rows = pa.Table.from_batches([reader.get_batch(at)]).replace_schema_metadata(None)
                found.append(rows if keep is None else rows.filter(arrow_array(keep(rows))))
    return pa.concat_tables(found).unify_dictionaries() if found else empty_table(schema)


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Say which file of the workspace is damaged, without a word of its content."""
    try:
        yield
    except (pa.ArrowException, KeyError, ValueError):
        raise OutputError(f"{path}: is damaged", hint="--force begins the run anew") from None
