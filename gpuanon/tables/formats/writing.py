"""Atomic writing of one or several files, as far as the file system allows.

Every output is written to a hidden file ``.gpuanon-….partial`` in the same folder and flushed to disk.  When all are
complete, they are renamed, tables last.  An error or an interrupt before that removes the hidden files.  A killed
process leaves at most hidden files, which `gpuanon clean` removes, never an incomplete output under its own name.
Killed between two renames, it leaves a journal too, by which `gpuanon clean` or the next run completes them.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from gpuanon.arrays import progress
from gpuanon.errors import FormatError, OutputError
from gpuanon.tables.formats import Append, Format, format_of, known_formats, suffix_of
from gpuanon.tables.formats.places import (
    PLACED,
    Move,
    flush,
    hidden_name,
    journalled,
    lock,
    mend,
    open_locked,
    remove,
)
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

Guard: TypeAlias = Callable[[Path], None]
"""Raises if an existing output may not be replaced."""


def write(table: Table, path: str | Path, *, force: bool = False) -> None:
    """Write one table; the suffix selects the format (see `Writing.table`)."""
    with Writing(force=force) as out:
        out.table(path, table)


def check_output(
    path: str | Path,
    *,
    force: bool = False,
    inputs: Iterable[Path] = (),
    table: bool = True,
    guard: Guard | None = None,
) -> None:
    """Raise if an output cannot be written, before any work is done.

    Parameters
    ----------
    path   : path of the output
    force  : whether an existing output may be replaced
    inputs : files that must never be replaced, even with `force`
    table  : whether the output is a table, whose suffix is checked
    guard  : has to agree before an existing output is replaced
    """
    path = Path(path)
    if table:
        _format(path)
    mend(path.absolute().parent)
    _check_replaceable(path, force, guard)
    for source in inputs:
        if path.exists() and Path(source).exists() and path.samefile(source):
            raise OutputError(f"{path}: is the input, which is never replaced", hint="choose another name")
    with translate_os_errors(path):
        probe = hidden_name(path)
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        probe.unlink()


@dataclass(frozen=True)
class _Staged:
    """An output under its hidden name, its final name, and open files that hold its lock."""

    hidden: Path
    final: Path
    table: bool
    locks: list[int] = field(default_factory=list)


class Writing:
    """Outputs that are put in place together if the block succeeds, and removed otherwise."""

    def __init__(self, *, force: bool = False, guard: Guard | None = None) -> None:
        self._force, self._guard = force, guard
        self._staged: list[_Staged] = []
        self._streams: list[Stream] = []

    def table(self, path: str | Path, table: Table) -> None:
        """Write a table; the suffix selects the format, a name without one means a folder of Parquet parts."""
        arrow = table.to_arrow()
        self.stream(path, arrow.schema)(arrow)

    def stream(self, path: str | Path, schema: pa.Schema, dialect: Any = None) -> Stream:
        """Write a table in pieces, in a dialect of its format: returns a callable that appends rows."""
        path = Path(path)
        form = _format(path).speaking(dialect)
        form.check_types(path, schema)
        if form.is_folder:
            stream = Stream(path, form.appending(self.folder(path), schema), None)
        else:
            file = self._file(path, table=True)
            stream = Stream(path, form.appending(file, schema), file)
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
        staged = self._stage(path, table=True)
        with translate_os_errors(path):
            staged.hidden.mkdir()
            staged.locks.append(open_locked(staged.hidden)[0])
        return staged.hidden

    def text(self, path: str | Path, text: str, *, private: bool = False) -> None:
        """Write a text; only its owner can read a private one."""
        self.content(path, text.encode(), private=private)

    def content(self, path: str | Path, content: bytes, *, private: bool = False) -> None:
        """Write bytes; only their owner can read private ones."""
        path = Path(path)
        with translate_os_errors(path), self._file(path, private=private) as file:
            file.write(content)

    def copy(self, path: str | Path, source: Path) -> None:
        """Write the bytes of another file."""
        path = Path(path)
        with translate_os_errors(path), self._file(path) as file, source.open("rb") as content:
            shutil.copyfileobj(content, file, 1 << 20)

    def _stage(self, path: Path, *, table: bool) -> _Staged:
        """Register an output under a hidden name."""
        mend(path.absolute().parent)
        _check_replaceable(path, self._force, self._guard)
        self._staged.append(_Staged(hidden_name(path), path, table))
        return self._staged[-1]

    def _file(self, path: Path, *, table: bool = False, private: bool = False) -> IO[bytes]:
        """Register an output file, and open it under its hidden name."""
        staged = self._stage(path, table=table)
        with translate_os_errors(path):
            number = os.open(staged.hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666)
            lock(number)
            staged.locks.append(os.dup(number))  # the lock outlives the writer, until the file has its final name
            return os.fdopen(number, "wb")

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
                    with translate_os_errors(staged.final):
                        flush(staged.hidden)
                progress.check_interrupt()
                _commit(sorted(self._staged, key=lambda staged: staged.table), self._force, self._guard)
        finally:
            for staged in self._staged:
                remove(staged.hidden)
                while staged.locks:
                    os.close(staged.locks.pop())


class Stream:
    """A callable that appends rows to a table."""

    def __init__(self, path: Path, writer: AbstractContextManager[Append], file: IO[bytes] | None):
        self.path, self._file = path, file
        self._closing = ExitStack()
        try:
            with translate_os_errors(path):
                self._put = self._closing.enter_context(writer)
        except BaseException:
            self.close(well=False)
            raise

    def __call__(self, rows: pa.Table | Table) -> None:
        """Append these rows."""
        with translate_os_errors(self.path):
            self._put(rows.to_arrow() if isinstance(rows, Table) else rows)

    def close(self, *, well: bool) -> None:
        """Finish writing; after an error elsewhere (not `well`) only close the file."""
        try:
            with translate_os_errors(self.path):
                self._closing.close()
        except OutputError:
            if well:
                raise
        finally:
            if self._file is not None:
                with suppress(OSError):  # a failed flush was already reported by the writer or by fsync
                    self._file.close()


def _commit(staged: list[_Staged], force: bool, guard: Guard | None) -> None:
    """Rename all outputs; if one fails, undo the others; if the process is killed, `mend` does one or the other."""
    if not staged:
        return
    for item in staged:  # before the first rename: a guard may look at the other outputs
        _check_replaceable(item.final, force, guard)
    moves = [Move.planned(item.hidden, item.final) for item in staged]
    with translate_os_errors(staged[-1].final), journalled(moves):
        try:
            for item, move in zip(staged, moves, strict=True):
                _check_replaceable(item.final, force, None)
                with translate_os_errors(item.final):
                    if item.final.exists():
                        _back_up(item.final, Path(move.backup))
                    _rename(item.hidden, item.final, force)
            for folder in {item.final.absolute().parent for item in staged}:
                flush(folder)
            PLACED.extend(item.final for item in staged)
        except BaseException:
            PLACED[:] = [path for path in PLACED if path not in {item.final for item in staged}]
            for move in moves:
                move.undo()
            raise
        finally:
            for move in moves:
                move.clear()


def _back_up(final: Path, backup: Path) -> None:
    """Link an existing output to a hidden name; folders, and files that cannot be linked, are renamed."""
    try:
        os.link(final, backup)
    except OSError:
        os.rename(final, backup)


def _rename(hidden: Path, final: Path, force: bool) -> None:
    """Give an output its final name; without force, raise if that name has been created meanwhile."""
    if force or hidden.is_dir():
        os.replace(hidden, final)
        return
    try:
        os.link(hidden, final)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        _check_replaceable(final, force, None)
        os.rename(hidden, final)


def _format(path: Path) -> Format:
    """The format to write; raises for one that is unknown, only read, or needs a library that is missing."""
    form = format_of(path, OutputError)
    if not form.writes:
        raise OutputError(f"{path}: {suffix_of(path)} is read, not written", hint=f"a release is {known_formats()}")
    form.check_installed(path, OutputError)
    return form


def _check_replaceable(path: Path, force: bool, guard: Guard | None) -> None:
    """Raise if the path exists and may not be replaced; with force, files and folders of Parquet parts may be."""
    if not os.path.lexists(path):
        return
    if not force:
        raise OutputError(f"{path}: exists already", hint="--force (force=True) replaces it")
    if path.is_dir():
        if not all(entry.suffix == ".parquet" and entry.is_file() for entry in path.iterdir()):
            raise OutputError(f"{path}: a folder that holds more than Parquet parts is not replaced")
    elif not path.is_file():
        raise OutputError(f"{path}: is not a file")
    if guard is not None:
        guard(path)


@contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Raise errors of the block as `OutputError` with the reason and a hint."""
    import pyarrow as pa

    try:
        yield
    except OutputError as error:
        if str(error).startswith(str(path)):
            raise
        raise type(error)(f"{path}: {error}") from None
    except pa.ArrowException:
        raise FormatError(
            f"{path}: a column's type, or a value of it, cannot be stored in this format",
            hint=".arrow stores every type",
        ) from None
    except OSError as error:
        number = error.errno or 0
        if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            hint: str | None = "free disk space; nothing was written"
        elif number in (errno.ENOENT, errno.ENOTDIR):
            hint = f"make the folder first: {path.absolute().parent}"
        else:
            hint = None
        raise OutputError(
            f"{path}: cannot be written ({os.strerror(number) if number else 'input/output error'})", hint=hint
        ) from None
