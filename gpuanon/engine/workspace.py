"""The private folder of a run in parts: what its tasks write, and what was done already.

A task's result is kept under its name, whole or not at all, so that a run which is resumed, or a task which is given
to a second worker, finds what was done and goes on.  The folder holds personal data and is readable by its owner only.
"""

from __future__ import annotations

import json
import os
import pickle
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gpuanon.errors import InputError, OutputError

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
        if folder.exists() and not resume:
            if not force:
                raise OutputError(
                    f"{folder}: an earlier run was interrupted", hint="--resume goes on with it, --force begins anew"
                )
            shutil.rmtree(folder)
        if not folder.exists():
            folder.mkdir(mode=0o700)
            mark.write_text(json.dumps(identity))
            return cls(folder)
        try:
            same = json.loads(mark.read_text()) == json.loads(json.dumps(identity))
        except (OSError, ValueError):
            same = False
        if not same:
            raise InputError(
                f"{folder}: the interrupted run had another recipe, input, key or cell size",
                hint="--force begins anew; a run to be resumed needs the same --key-file",
            )
        return cls(folder)

    def path(self, name: str) -> Path:
        """Where the task `name` writes its rows."""
        return self.folder / name

    def once(self, name: str, task: Callable[[], Result]) -> Result:
        """The result of `task`, which is done only if it was not done before."""
        kept = self.folder / f"{name}.result"
        if kept.exists():
            return pickle.loads(kept.read_bytes())  # type: ignore[no-any-return]
        result = task()
        hidden = self.folder / f".{name}.{secrets.token_hex(4)}"
        hidden.write_bytes(pickle.dumps(result))
        os.replace(hidden, kept)
        return result

    def forget(self, names: list[str]) -> None:
        """Remove rows that no later task needs."""
        for name in names:
            self.path(name).unlink(missing_ok=True)

    def end(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
