"""The private folder of a run in parts: what its tasks write, and what was done already.

A task's result is kept under its name, whole or not at all, so that a run which is resumed, or a task which is given
to a second worker, finds what was done and goes on.  The folder holds personal data and is readable by its owner only.

The process that drives a run holds a lock on a file of the folder.  The operating system releases it when the process
ends, however it ends, so a run in progress is not taken for an interrupted one.  Linux passes the lock to an NFS
server, so that it holds between hosts; on a file system without locks the folder tells the host and the process.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gpuanon.engine.store.shuffle import whole_file
from gpuanon.errors import InputError, OutputError
from gpuanon.tables.formats.places import lock

Result = TypeVar("Result")

MARK, LOCK = "run.json", "lock"
_held: dict[Path, int] = {}
"""Open lock files of the runs that this process drives, by folder."""


@dataclass(frozen=True)
class Workspace:
    """A folder that every worker can reach."""

    folder: Path

    @classmethod
    def begin(cls, folder: Path, identity: dict[str, Any], *, resume: bool, force: bool) -> Workspace:
        """Make the folder, or take up the one that an interrupted run of the same `identity` left.

        A folder on which a living process works is refused, whatever `force` says.

        identity : what decides the release (recipe, input, digest of the key, cell size), ready for JSON
        """
        mark = folder / MARK
        with _translate_os_errors(folder):
            existed = os.path.lexists(folder)
            if not existed:
                folder.mkdir(mode=0o700)
            check_made_by_us(folder)
            _acquire(folder, exclusive=force and not resume)
            try:
                if existed and not resume and mark.exists():
                    if not force:
                        raise OutputError(f"{folder}: an earlier run was interrupted; {left_behind(folder)}")
                    _empty(folder)
                if not mark.exists():  # new, or left by a run that ended before it began
                    with whole_file(mark) as hidden:
                        hidden.write_text(json.dumps(identity))
                if _marked(folder) != json.loads(json.dumps(identity)):
                    raise InputError(
                        f"{folder}: the interrupted run had another recipe, hierarchy, input, reference, key, "
                        "cell size, backend or version",
                        hint="--force begins anew; a run to be resumed needs the same --key-file",
                    )
            except BaseException:
                _give_up(folder)
                raise
        return cls(folder)

    def path(self, name: str) -> Path:
        """Where the task `name` writes its rows."""
        return self.folder / name

    def once(self, name: str, task: Callable[[], Result]) -> Result:
        """The result of `task`, which is done only if it was not done before."""
        kept = self.folder / f"{name}.result"
        with _translate_os_errors(self.folder):
            if kept.exists():
                return pickle.loads(kept.read_bytes())  # type: ignore[no-any-return]
            result = task()
            with whole_file(kept) as hidden:
                hidden.write_bytes(pickle.dumps(result))
        return result

    def forget(self, files: Iterable[Path]) -> None:
        """Remove rows that no later task needs, because every task that reads them is done."""
        with _translate_os_errors(self.folder):
            for file in files:
                file.unlink(missing_ok=True)

    def leave(self) -> None:
        """Keep the folder for a run that resumes this one."""
        _give_up(self.folder)

    def end(self) -> None:
        """Remove the folder."""
        try:
            _empty(self.folder)
            shutil.rmtree(self.folder)
        except OSError as error:
            raise OutputError(
                f"{self.folder}: could not be removed ({_reason(error)}), and holds personal data",
                hint=f"gpuanon clean {_output_of(self.folder)} tries again",
            ) from None
        finally:
            _give_up(self.folder)


def left_behind(folder: Path) -> str:
    """What to do about a workspace that is left."""
    output = _output_of(folder)
    return (
        f"a workspace with personal data is left in {folder}\n"
        f"Hint: --resume with the same --key-file continues it, --force begins anew, "
        f"'gpuanon clean {output}' removes it"
    )


def remove(folder: Path) -> bool:
    """Remove the workspace that an interrupted run left; whether there was one.  Nothing else is ever removed."""
    if not os.path.lexists(folder):
        return False
    with _translate_os_errors(folder):
        check_made_by_us(folder)
        _acquire(folder, exclusive=True)
    Workspace(folder).end()
    return True


def check_not_running(folder: Path) -> None:
    """Refuse if a living process works in this workspace."""
    if (folder / LOCK).exists():
        with _translate_os_errors(folder):
            check_made_by_us(folder)
            _acquire(folder, exclusive=False)
            _give_up(folder)


def check_made_by_us(folder: Path) -> None:
    """Refuse a folder that gpuanon did not make, that somebody else owns, or that others may enter.

    Results are unpickled, and a workspace is removed with all it holds.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise OutputError(f"{folder}: is not a folder", hint="remove it, or choose another output")
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise OutputError(
            f"{folder}: belongs to somebody else, or others may enter it", hint="remove it, or choose another output"
        )
    known = all(name == LOCK or name.startswith((f".{MARK}.", f".{LOCK}.")) for name in os.listdir(folder))
    if not known and _marked(folder) is None:
        raise OutputError(f"{folder}: was not made by gpuanon", hint="choose another output")


def _marked(folder: Path) -> dict[str, Any] | None:
    """The identity of the run that made a folder; None if no run did."""
    try:
        found = json.loads((folder / MARK).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"run", "key"} <= found.keys() else None


def _acquire(folder: Path, *, exclusive: bool) -> None:
    """Lock a workspace for this process until it ends or gives up the lock.

    exclusive : whether its content will be removed; on a file system without locks, the last run must have ended then
    """
    if folder in _held:
        raise OutputError(f"{folder}: a run of this process is in progress there", hint="wait until it has ended")
    path = folder / LOCK
    number = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        holder = _read_holder(number)
        free = lock(number)
        if free is False or not os.path.exists(path) or not os.path.samestat(os.fstat(number), os.stat(path)):
            raise OutputError(f"{folder}: a run is in progress there{_named(holder)}", hint="wait until it has ended")
        if free is None and _may_live(holder, exclusive):
            raise OutputError(
                f"{folder}: a run may be in progress there{_named(holder)}, and the file system has no locks",
                hint="--resume continues it when it has ended; 'gpuanon clean' on that host removes it",
            )
        os.ftruncate(number, 0)
        os.pwrite(number, json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode(), 0)
    except BaseException:
        os.close(number)
        raise
    _held[folder] = number


def _read_holder(number: int) -> dict[str, Any]:
    """Host and process that locked a workspace last, if they are known."""
    try:
        found = json.loads(os.pread(number, 1000, 0))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _may_live(holder: dict[str, Any], exclusive: bool) -> bool:
    """Whether the last holder may be alive, where there are no locks."""
    if not holder:
        return False
    if holder.get("host") != socket.gethostname():
        return exclusive
    try:
        os.kill(int(holder.get("process", 0)), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return int(holder.get("process", 0)) != os.getpid()


def _named(holder: dict[str, Any]) -> str:
    return f" (process {holder.get('process')} on {holder.get('host')})" if holder else ""


def _give_up(folder: Path) -> None:
    """Release the lock."""
    number = _held.pop(folder, None)
    if number is not None:
        os.close(number)


def _empty(folder: Path) -> None:
    """Remove everything but the lock; the mark last, so that a folder that is half empty is still known as ours."""
    entries = sorted(folder.iterdir(), key=lambda path: path.name == MARK)
    for path in entries:
        if path.name != LOCK:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _output_of(folder: Path) -> Path:
    """The output whose workspace a folder is."""
    return folder.with_name(folder.name.removeprefix(".").removesuffix(".gpuanon-work"))


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else "input/output error"


@contextmanager
def _translate_os_errors(folder: Path) -> Iterator[None]:
    """Say why the folder could not be worked in; an error of the file system may come from any worker."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{folder}: the run could not go on there ({_reason(error)}); no release was written",
            hint="make room or mend it, then --resume goes on",
        ) from None
