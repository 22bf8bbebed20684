"""Files that appear whole or not at all, several together as far as a file system allows.

Everything is written to hidden files ``.gpuanon-….partial`` beside its place, flushed to the disk and, when all of it
is there, moved into place in one go, tables last.  An error or an interrupt on the way removes every trace; a process
that is killed leaves at most such hidden files, never a part of an output under its name.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from gpuanon.arrays import interruption
from gpuanon.errors import OutputError
from gpuanon.tables.files.formats import ALLOWED, Format, format_of, suffix_of
from gpuanon.tables.files.writers import file_writer, parts_writer
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

_HIDDEN = ".partial"


def write(table: Table, path: str | Path, *, force: bool = False) -> None:
    """Write one table; the suffix says the format (see `Writing.table`)."""
    with Writing(force=force) as out:
        out.table(path, table)


def check_output(path: str | Path, *, force: bool = False, inputs: Iterable[Path] = (), table: bool = True) -> None:
    """Refuse a place that cannot be written to, before any work is done.

    Parameters
    ----------
    path   : where the output is to go
    force  : whether an existing output may be replaced
    inputs : what must never be replaced, whatever `force` says
    table  : whether a table goes there, so that the suffix matters
    """
    path = Path(path)
    if table:
        _format(path)
    _refuse_existing(path, force)
    for source in inputs:
        if path.exists() and Path(source).exists() and path.samefile(source):
            raise OutputError(f"{path}: is the input, which is never replaced", hint="choose another name")
    with _told(path):
        probe = _hidden(path)
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        probe.unlink()


@dataclass(frozen=True)
class _Staged:
    """Something written to a hidden place, waiting for its own."""

    hidden: Path
    final: Path
    table: bool


class Writing:
    """Outputs that appear together when the block ends well, and not at all otherwise.

    >>> with Writing(force=False) as out:                    # doctest: +SKIP
    ...     out.table("release.parquet", table)
    ...     out.text("release.parquet.manifest.json", manifest)
    """

    def __init__(self, *, force: bool = False) -> None:
        self._force = force
        self._staged: list[_Staged] = []
        self._streams: list[Stream] = []

    def table(self, path: str | Path, table: Table) -> None:
        """Write a table to a ``.parquet``, ``.csv``, ``.csv.gz`` or ``.arrow`` file, or to a folder (no suffix)."""
        arrow = table.to_arrow()
        self.stream(path, arrow.schema)(arrow)

    def stream(self, path: str | Path, schema: pa.Schema) -> Stream:
        """Write a table piece by piece: gives the function that takes the next rows."""
        path = Path(path)
        form = _format(path)
        if form == "parts":
            stream = Stream(path, parts_writer(self.folder(path), schema), None)
        else:
            file = self._file(path, table=True)
            stream = Stream(path, file_writer(form, file, schema), file)
        self._streams.append(stream)
        return stream

    def finish(self, path: str | Path) -> Path:
        """Write what is left of a table, and give the hidden place where it lies until the block ends."""
        path = Path(path)
        for stream in self._streams:
            if stream.path == path:
                stream.close(well=True)
        return next(staged.hidden for staged in self._staged if staged.final == path)

    def folder(self, path: str | Path) -> Path:
        """A hidden folder for Parquet parts, which several processes may fill until the block ends."""
        path = Path(path)
        hidden = self._stage(path, table=True)
        with _told(path):
            hidden.mkdir()
        return hidden

    def text(self, path: str | Path, text: str, *, private: bool = False) -> None:
        """Write a text; only its owner can read a private one."""
        self.content(path, text.encode(), private=private)

    def content(self, path: str | Path, content: bytes, *, private: bool = False) -> None:
        """Write bytes; only their owner can read private ones."""
        path = Path(path)
        with _told(path), self._file(path, private=private) as file:
            file.write(content)

    def _stage(self, path: Path, *, table: bool) -> Path:
        """A hidden name for an output that may be written."""
        _refuse_existing(path, self._force)
        self._staged.append(_Staged(_hidden(path), path, table))
        return self._staged[-1].hidden

    def _file(self, path: Path, *, table: bool = False, private: bool = False) -> IO[bytes]:
        """A new hidden file."""
        hidden = self._stage(path, table=table)
        with _told(path):
            return os.fdopen(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666), "wb")

    def __enter__(self) -> Writing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for stream in self._streams:
                stream.close(well=kind is None)
            if kind is None:
                for staged in self._staged:
                    with _told(staged.final):
                        _flush(staged.hidden)
                interruption.check()
                _commit(sorted(self._staged, key=lambda staged: staged.table), self._force)
        finally:
            for staged in self._staged:
                _remove(staged.hidden)


class Stream:
    """Takes the rows of a table piece by piece."""

    def __init__(self, path: Path, writer: AbstractContextManager[Callable[[pa.Table], None]], file: IO[bytes] | None):
        self.path, self._file = path, file
        self._closing = ExitStack()
        try:
            with _told(path):
                self._put = self._closing.enter_context(writer)
        except BaseException:
            self.close(well=False)
            raise

    def __call__(self, rows: pa.Table | Table) -> None:
        """Append these rows."""
        with _told(self.path):
            self._put(rows.to_arrow() if isinstance(rows, Table) else rows)

    def close(self, *, well: bool) -> None:
        """Write what is left; after an error elsewhere only let go of the file."""
        try:
            with _told(self.path):
                self._closing.close()
        except OutputError:
            if well:
                raise
        finally:
            if self._file is not None:
                with suppress(OSError):  # what could not be flushed was reported by the writer or by fsync
                    self._file.close()


def _commit(staged: list[_Staged], force: bool) -> None:
    """Move everything into place; if one move fails, undo those before."""
    backups: list[tuple[Path, Path]] = []
    placed: list[tuple[Path, int]] = []
    try:
        for item in staged:
            _refuse_existing(item.final, force)
            with _told(item.final):
                if item.final.exists():
                    backups.append((_hidden(item.final), item.final))
                    _keep(item.final, backups[-1][0])
                placed.append((item.final, item.hidden.stat().st_ino))
                _place(item.hidden, item.final, force)
        for folder in {item.final.absolute().parent for item in staged}:
            _flush(folder)
    except BaseException:
        for final, number in placed:
            if final.exists() and final.stat().st_ino == number:
                _remove(final)
        for backup, final in backups:
            if backup.exists() and not final.exists():
                os.replace(backup, final)
        raise
    finally:
        for backup, _ in backups:
            _remove(backup)


def _keep(final: Path, backup: Path) -> None:
    """Keep what is there under a hidden name too; folders, and files without hard links, move there."""
    try:
        os.link(final, backup)
    except OSError:
        os.rename(final, backup)


def _place(hidden: Path, final: Path, force: bool) -> None:
    """Give the hidden thing its name; without force, never over something that came in the meantime."""
    if force or hidden.is_dir():
        os.replace(hidden, final)
        return
    try:
        os.link(hidden, final)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        _refuse_existing(final, force)
        os.rename(hidden, final)


def _hidden(path: Path) -> Path:
    """A hidden name in the same folder."""
    return path.absolute().parent / f".gpuanon-{secrets.token_hex(8)}{_HIDDEN}"


def _format(path: Path) -> Format:
    """The format to write."""
    form = format_of(path)
    if form is None:
        raise OutputError(f"{path}: suffix {suffix_of(path)!r} is not one of {ALLOWED}")
    return form


def _refuse_existing(path: Path, force: bool) -> None:
    """Without force nothing is replaced; with it, only files and folders that hold nothing but Parquet parts."""
    if not os.path.lexists(path):
        return
    if not force:
        raise OutputError(f"{path}: exists already", hint="--force (force=True) replaces it")
    if path.is_dir():
        if not all(entry.suffix == ".parquet" and entry.is_file() for entry in path.iterdir()):
            raise OutputError(f"{path}: a folder that holds more than Parquet parts is not replaced")
    elif not path.is_file():
        raise OutputError(f"{path}: is not a file")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say why a file could not be written."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException:
        raise OutputError(
            f"{path}: a column's type has no form in this kind of file", hint=".parquet and .arrow hold every type"
        ) from None
    except OSError as error:
        number = error.errno or 0
        if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            hint: str | None = "make room; nothing was written"
        elif number in (errno.ENOENT, errno.ENOTDIR):
            hint = f"make the folder first: {path.absolute().parent}"
        else:
            hint = None
        raise OutputError(
            f"{path}: cannot be written ({os.strerror(number) if number else 'input/output error'})", hint=hint
        ) from None


def _flush(path: Path) -> None:
    """Have a file, or a folder with its files, on the disk."""
    for part in path.iterdir() if path.is_dir() and path.suffix == _HIDDEN else ():
        _flush(part)
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _remove(path: Path) -> None:
    """Remove a file or folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
