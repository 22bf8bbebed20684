"""What identifies a run and its release: digests of contents.  Neither the path nor the time of a file is in them.

The manifest is public, so it holds a digest of the release, which is public too, and none of the link.  A digest of a
link is a function of private data: whoever has it can try every order of a small table until the digest agrees (three
records have six), and so learn who is who.  A salt in the manifest would not change that, and a key is not kept.
The other way round nothing is disclosed: a file beside the link, private like it, holds the digest of its release.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Backend, Host
from gpuanon.arrays.rng import Key
from gpuanon.errors import InputError
from gpuanon.recipe import Recipe
from gpuanon.tables.arrow import numpy_array
from gpuanon.tables.formats import io
from gpuanon.tables.formats.parquet import parquet_files
from gpuanon.tables.table import Table
from gpuanon.version import __version__

ALGORITHM = "blake2b-256"
_SIZE = 32


def digest_of(path: Path) -> str:
    """BLAKE2b of a file's bytes; of a folder, of its parts' digests in the order of their names."""
    try:
        if not path.is_dir():
            return _bytes_of(path).hex()
        whole = hashlib.blake2b(digest_size=_SIZE)
        for part in sorted(path.glob("*.parquet")):
            whole.update(_bytes_of(part))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or 'input/output error'})") from None
    return whole.hexdigest()


def _bytes_of(file: Path) -> bytes:
    """The digest of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=_SIZE)).digest()


def mark_path(link: Path) -> Path:
    """The file beside a link that says which release it belongs to."""
    return link.with_name(link.name + ".release.json")


def link_mark(digest: str) -> str:
    """The content of that file."""
    return json.dumps({"link_of": digest, "algorithm": ALGORITHM}) + "\n"


def marked_release(link: Path) -> str | None:
    """The digest of the release that a link belongs to; None where nothing says it."""
    return release_in(mark_path(link))


def release_in(mark: Path) -> str | None:
    """The digest in the file beside a link; None if it is not one."""
    try:
        found = json.loads(mark.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    digest = found.get("link_of") if isinstance(found, dict) else None
    return digest if isinstance(digest, str) else None


def read_link(path: Path) -> Host:
    """The private link: for each released row the row number of its original."""
    import pyarrow as pa

    table = io.read(path)
    if table.names != ("row",):
        raise InputError(f"{path.name}: a link has one column 'row', got {len(table.names)} columns")
    rows = table.to_arrow()["row"]
    if rows.null_count or not pa.types.is_integer(rows.type):
        raise InputError(f"{path.name}: a link holds whole numbers, one in each line", hint="protect --link writes one")
    return numpy_array(rows).astype(np.int64)


def check_release_of(link: Path, release: Path) -> None:
    """Refuse a link that says that it belongs to another release."""
    digest = marked_release(link)
    if digest is not None and digest != digest_of(release):
        raise InputError(
            f"{link.name}: belongs to another release, or {release.name} was changed since it was written",
            hint=f"if it has the same rows in the same order, assess it without {mark_path(link).name}",
        )


@dataclass(frozen=True)
class InputContents:
    """Files that a run reads: a digest of their contents, and their sizes and times when they were read for it."""

    files: tuple[Path, ...]
    digest: str
    seen: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, source: Path, recipe: Recipe) -> InputContents:
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
        if InputContents.of(source, recipe).digest != self.digest:
            raise InputError(f"{source}: it or a hierarchy was changed while it was read; nothing was written")


def hierarchy_files(recipe: Recipe) -> dict[str, Path]:
    """The hierarchies that are files, by the name of their column."""
    return {name: spec.hierarchy for name, spec in recipe.columns.items() if isinstance(spec.hierarchy, Path)}


def rules_of(recipe: Recipe) -> str:
    """A recipe as JSON, without the paths of its hierarchies."""
    return recipe.model_dump_json(exclude={"columns": {name: {"hierarchy"} for name in hierarchy_files(recipe)}})


def identity_of(
    contents: InputContents, recipe: Recipe, key: Key, cell_rows: int, backend: Backend, reference: Table | None
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
