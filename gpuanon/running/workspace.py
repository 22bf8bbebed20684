"""The private folder of a run in parts: what its tasks write, and what was done already.

A task's result is kept under its name, whole or not at all, so that a run which is resumed, or a task which is given
to a second worker, finds what was done and goes on.  The folder holds personal data and is readable by its owner only.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gpuanon.errors import InputError, OutputError
from gpuanon.running.exchange import whole_file

Result = TypeVar("Result")


@dataclass(frozen=True)
class Workspace:
    """A folder that every worker can reach."""

    folder: Path

    @classmethod
    def begin(cls, folder: Path, identity: dict[str, Any], *, resume: bool, force: bool) -> Workspace:
        """Make the folder, or take up the one that an interrupted run of the same `identity` left.

        identity : what decides the release (recipe, input, digest of the key, cell size), ready for JSON
        """
        mark = folder / "run.json"
        with _told(folder):
            if folder.exists() and not resume:
                if not force:
                    raise OutputError(
                        f"{folder}: an earlier run was interrupted",
                        hint="--resume goes on with it, --force begins anew",
                    )
                shutil.rmtree(folder)
            if not folder.exists():
                folder.mkdir(mode=0o700)
            _refuse_strangers(folder)
            if not any(folder.iterdir()):  # new, or left by a run that ended before it began
                with whole_file(mark) as hidden:
                    hidden.write_text(json.dumps(identity))
        try:
            same = json.loads(mark.read_text()) == json.loads(json.dumps(identity))
        except (OSError, ValueError):
            same = False
        if not same:
            raise InputError(
                f"{folder}: the interrupted run had another recipe, input, key, cell size, backend or version",
                hint="--force begins anew; a run to be resumed needs the same --key-file",
            )
        return cls(folder)

    def path(self, name: str) -> Path:
        """Where the task `name` writes its rows."""
        return self.folder / name

    def once(self, name: str, task: Callable[[], Result]) -> Result:
        """The result of `task`, which is done only if it was not done before."""
        kept = self.folder / f"{name}.result"
        with _told(self.folder):
            if kept.exists():
                return pickle.loads(kept.read_bytes())  # type: ignore[no-any-return]
            result = task()
            with whole_file(kept) as hidden:
                hidden.write_bytes(pickle.dumps(result))
        return result

    def forget(self, files: Iterable[Path]) -> None:
        """Remove rows that no later task needs, because every task that reads them is done."""
        with _told(self.folder):
            for file in files:
                file.unlink(missing_ok=True)

    def end(self) -> None:
        """Remove the folder."""
        with _told(self.folder):
            shutil.rmtree(self.folder)


def _refuse_strangers(folder: Path) -> None:
    """Results are unpickled: a folder that somebody else owns, or may write to, is not taken up."""
    status = folder.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise OutputError(
            f"{folder}: belongs to somebody else, or others may enter it", hint="remove it, or choose another output"
        )


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Say why the folder could not be worked in; an error of the file system may come from any worker."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "input/output error"
        raise OutputError(
            f"{folder}: the run could not go on there ({reason}); no release was written",
            hint="make room or mend it, then --resume goes on",
        ) from None
