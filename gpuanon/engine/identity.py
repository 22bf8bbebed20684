"""The identity of a run: what decides its release, by contents.  Neither the path nor the time of a file is in it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuanon.arrays.backend import Backend
from gpuanon.arrays.rng import Key
from gpuanon.engine.digest import digest_of
from gpuanon.errors import InputError
from gpuanon.recipe import Recipe
from gpuanon.tables.formats.parquet import parquet_files
from gpuanon.tables.table import Table
from gpuanon.version import __version__


@dataclass(frozen=True)
class Contents:
    """Files that a run reads: a digest of their contents, and their sizes and times when they were read for it."""

    files: tuple[Path, ...]
    digest: str
    seen: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, source: Path, recipe: Recipe) -> Contents:
        """Of the input, and of the hierarchies of a recipe.

        Cost : reads every file once, about a second per gigabyte.
        """
        parts = parquet_files(source) if source.is_dir() else [source]
        files = (*parts, *hierarchy_files(recipe).values())
        seen = _stamps(files)
        return cls(files, _joined([str(len(parts)), *map(digest_of, files)]), seen)

    def check_unchanged(self, source: Path, recipe: Recipe) -> None:
        """Raise if a file is another one by now; one whose size and time are the same is not read again."""
        again = (*(parquet_files(source) if source.is_dir() else [source]), *hierarchy_files(recipe).values())
        if again == self.files and _stamps(again) == self.seen:
            return
        if Contents.of(source, recipe).digest != self.digest:
            raise InputError(f"{source}: it or a hierarchy was changed while it was read; nothing was written")


def hierarchy_files(recipe: Recipe) -> dict[str, Path]:
    """The hierarchies that are files, by the name of their column."""
    return {name: spec.hierarchy for name, spec in recipe.columns.items() if isinstance(spec.hierarchy, Path)}


def rules_of(recipe: Recipe) -> str:
    """A recipe as JSON, without the paths of its hierarchies."""
    return recipe.model_dump_json(exclude={"columns": {name: {"hierarchy"} for name in hierarchy_files(recipe)}})


def identity_of(
    contents: Contents, recipe: Recipe, key: Key, cell_rows: int, backend: Backend, reference: Table | None
) -> dict[str, Any]:
    """What decides a release; the key by a digest that does not lead back to it."""
    sample = "" if reference is None else _digest_of_table(reference)
    columns = json.dumps(list(hierarchy_files(recipe)))
    decides = [contents.digest, columns, rules_of(recipe), str(cell_rows), backend.name, sample, __version__]
    return {"run": _joined(decides), "key": key.digest()}


def _joined(texts: list[str]) -> str:
    """A digest of several texts."""
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=16).hexdigest()


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[int, int, int], ...]:
    """Number, size and time of each file."""
    try:
        found = [file.stat() for file in files]
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror or 'input/output error'})") from None
    return tuple((status.st_ino, status.st_size, status.st_mtime_ns) for status in found)


def _digest_of_table(table: Table) -> str:
    """A digest of a table's columns and rows, in their order."""
    import pyarrow as pa

    whole = _Hashed()
    arrow = table.to_arrow().combine_chunks()
    with pa.PythonFile(whole, mode="w") as sink, pa.ipc.new_stream(sink, arrow.schema) as stream:
        stream.write_table(arrow)
    return whole.digest.hexdigest()


class _Hashed:
    """A file that keeps a digest of what is written to it, and nothing else."""

    closed = False

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return len(content)

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""
