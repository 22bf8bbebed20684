"""Hidden files on their way to becoming outputs, and locks that tell whether a process still works on them.

A process holds a lock (`flock`) on each of its hidden files.  The operating system releases it when the process ends,
however it ends, so what a killed process left can be told from what a living one is writing.  On one host this always
works.  On NFS Linux passes the lock to the server, so that other hosts see it.  Where a file system has no locks
(Lustre mounted without ``flock``) nobody can tell, and nothing is removed.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

PARTIAL = ".partial"
_STALE = re.compile(r"\.gpuanon-[0-9a-z_]{8,16}\.partial")

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


def _is_ours(path: Path) -> bool:
    """Whether this user owns a file, or a folder of nothing but files."""
    if path.is_symlink() or path.lstat().st_uid != os.geteuid():
        return False
    if path.is_dir():
        return all(entry.is_file() and not entry.is_symlink() for entry in path.iterdir())
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
