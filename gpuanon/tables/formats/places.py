"""Hidden files on their way to becoming outputs, and locks that tell whether a process still works on them.

A process holds a lock (`flock`) on each of its hidden files.  The operating system releases it when the process ends,
however it ends, so what a killed process left can be told from what a living one is writing.  On one host this always
works.  On NFS Linux passes the lock to the server, so that other hosts see it.  Where a file system has no locks
(Lustre mounted without ``flock``) nobody can tell, and nothing is removed.

Several outputs cannot be renamed at once.  So a journal says, before the first rename, what is to become of each, and
is removed after the last.  A killed process leaves it, and `mend` completes the renames, or takes them back where one
of the new files is gone or somebody changed an old one: then all outputs are the new ones, or all the old ones.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PARTIAL, COMMIT, _PREVIOUS = ".partial", ".commit", ".previous"
_STALE = re.compile(r"\.gpuanon-[0-9a-z_]{8,16}\.partial")
_HIDDEN = re.compile(r"\.gpuanon-[0-9a-f]{16}\.(partial|previous|commit)")

PLACED: list[Path] = []
"""Outputs that this process has put in place: a message after an interrupt must not say that nothing was written."""


def hidden_name(path: Path, suffix: str = PARTIAL) -> Path:
    """A hidden name in the same folder."""
    return path.absolute().parent / f".gpuanon-{secrets.token_hex(8)}{suffix}"


def lock(number: int) -> bool | None:
    """Lock an open file until it is closed: True if done, False if a living process has it, None without locks."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def open_locked(path: Path) -> tuple[int, bool | None]:
    """Open a file or folder, not through a symbolic link, and lock it; see `lock`."""
    kind = os.O_RDONLY if path.is_dir() else os.O_RDWR  # NFS locks only what is open for writing
    number = os.open(path, kind | os.O_NOFOLLOW)
    return number, lock(number)


def remove_stale(folder: Path) -> list[Path]:
    """Remove the hidden files in `folder` that killed processes of this user left; the removed ones."""
    removed: list[Path] = []
    for path in sorted(folder.iterdir()):
        if not _STALE.fullmatch(path.name) or not _is_ours(path):
            continue
        with suppress(OSError):
            number, free = open_locked(path)
            try:
                if free:
                    remove(path)
                    removed.append(path)
            finally:
                os.close(number)
    return removed


@dataclass(frozen=True)
class Move:
    """An output that is to get its name.

    hidden, final, backup : where it lies, its name, and the hidden name of what has that name now
    new : device and number of the output
    old : the same, with size and time, of what is replaced; empty if there is nothing
    """

    hidden: str
    final: str
    backup: str
    new: list[int]
    old: list[int]

    @classmethod
    def planned(cls, hidden: Path, final: Path) -> Move:
        """The move of a complete output to its final name."""
        final = final.absolute()
        backup = hidden_name(final, _PREVIOUS)
        return cls(str(hidden), str(final), str(backup), _state(hidden)[:2], _state(final))

    @property
    def done(self) -> bool:
        """Whether the output has its final name."""
        return _state(Path(self.final))[:2] == self.new

    @property
    def possible(self) -> bool:
        """Whether the output has its final name, or can get it without replacing anything but the old one."""
        return self.done or (_state(Path(self.hidden))[:2] == self.new and _state(Path(self.final)) in ([], self.old))

    def complete(self) -> None:
        """Give the output its final name, if it has another."""
        if not self.done:
            if os.path.isdir(self.final):
                remove(Path(self.final))
            os.replace(self.hidden, self.final)

    def undo(self) -> None:
        """Remove the output, and give what was replaced its name back."""
        if self.done:
            remove(Path(self.final))
        if os.path.exists(self.backup) and not os.path.exists(self.final):
            os.replace(self.backup, self.final)

    def clear(self) -> None:
        """Remove what was replaced."""
        remove(Path(self.backup))


def _state(path: Path) -> list[int]:
    """Device, number, size and time of a file; empty if there is none."""
    try:
        status = path.lstat()
    except OSError:
        return []
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


@contextmanager
def journalled(moves: Sequence[Move]) -> Iterator[None]:
    """A journal of these moves on the disk while the block runs, beside the last of them."""
    path = hidden_name(Path(moves[-1].final), COMMIT)
    number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        lock(number)
        content = journal_text(moves).encode()
        if os.write(number, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(number)
        flush(path.parent)
        yield
    finally:
        remove(path)
        os.close(number)


def journal_text(moves: Sequence[Move]) -> str:
    """The content of a journal."""
    return json.dumps({"gpuanon": "commit", "moves": [asdict(move) for move in moves]})


def mend(folder: Path) -> list[Path]:
    """Complete or take back the renames of killed processes of this user in `folder`; the outputs that are complete."""
    mended: list[Path] = []
    for path in sorted(folder.glob(f".gpuanon-*{COMMIT}")) if folder.is_dir() else ():
        if not _HIDDEN.fullmatch(path.name) or not _is_ours(path):
            continue
        with suppress(OSError):
            number, free = open_locked(path)
            try:
                moves = _moves_in(path.read_bytes()) if free else None
                if moves is None:
                    continue
                whole = all(move.possible for move in moves)
                for move in moves:
                    move.complete() if whole else move.undo()
                for move in moves:
                    move.clear()
                flush(folder)
                mended += [Path(move.final) for move in moves if whole]
                remove(path)
            finally:
                os.close(number)
    return mended


def _moves_in(content: bytes) -> list[Move] | None:
    """The moves in a journal; none in one that was not finished, before which nothing moved; None of other files."""
    try:
        found: Any = json.loads(content)
        moves = [Move(**move) for move in found["moves"]]
        paths = [(Path(name), Path(move.final)) for move in moves for name in (move.hidden, move.backup)]
    except (ValueError, KeyError, TypeError):
        return [] if not content or content.startswith(b'{"gpuanon": "commit"') else None
    return moves if all(_HIDDEN.fullmatch(name.name) and name.parent == final.parent for name, final in paths) else None


def _is_ours(path: Path) -> bool:
    """Whether this user owns a file, or a folder of nothing but such files and folders."""
    if path.is_symlink() or path.lstat().st_uid != os.geteuid():
        return False
    if path.is_dir():
        return all(_is_ours(entry) for entry in path.iterdir())
    return path.is_file()


def flush(path: Path) -> None:
    """Flush a file, or a folder with its files, to disk."""
    for part in path.iterdir() if path.is_dir() and path.suffix == PARTIAL else ():
        flush(part)
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def remove(path: Path) -> None:
    """Remove a file or folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
