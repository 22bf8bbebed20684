"""The journal of a comparison: figures of the trials that are done, so that an interrupted one can go on."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuanon.engine.outputs import JOURNAL_MARK as KIND
from gpuanon.errors import OutputError
from gpuanon.tables.formats.writing import translate_os_errors
from gpuanon.tables.table import Table
from gpuanon.version import __version__


class Journal:
    """One line per finished trial: the digest of what was to be done, and its figures.  No value of the table.

    The file is made by the first trial that is done.  A line that a killed process left unfinished is not read.
    """

    HEAD = json.dumps({"kind": KIND, "gpuanon": __version__}) + "\n"

    def __init__(self, path: Path, *, resume: bool = False, force: bool = False) -> None:
        self.path = path
        self.done: dict[str, Mapping[str, Any]] = {}
        if path.exists():
            self._check(resume or force)
            if resume:
                self.done = self._read()
            with translate_os_errors(path):
                if self.done:  # what was unfinished is cut off
                    lines = [self.HEAD, *(_line(digest, trial) for digest, trial in self.done.items())]
                    path.write_text("".join(lines), encoding="utf-8")
                else:
                    path.unlink()

    def _check(self, wanted: bool) -> None:
        with self.path.open("rb") as file:
            ours = KIND.encode() in file.readline(200)
        if not ours:
            raise OutputError(f"{self.path}: is no journal of a comparison, and is not replaced", hint="move it away")
        if not wanted:
            raise OutputError(
                f"{self.path}: a comparison was interrupted", hint="--resume continues it, --force starts anew"
            )

    def _read(self) -> dict[str, Mapping[str, Any]]:
        found = {}
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
            try:
                entry = json.loads(line)
                found[entry["job"]] = entry["trial"]
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def once(self, name: str, task: Callable[[], Any]) -> Any:
        """The figures of a trial: as they are in the journal, or as `task` finds them, which are then written down.

        Any worker may do so that reaches the file.
        """
        if name not in self.done:
            self.done[name] = task()
            self._add(name)
        return self.done[name]

    def _add(self, digest: str) -> None:
        """Write down a finished trial; the lock keeps the lines of several workers apart."""
        with translate_os_errors(self.path), self.path.open("a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            head = "" if os.fstat(file.fileno()).st_size else self.HEAD
            file.write(head + _line(digest, self.done[digest]))
            file.flush()
            os.fsync(file.fileno())

    @property
    def finished(self) -> int:
        """Number of trials in the file, whoever wrote them."""
        return len(self._read()) if self.path.exists() else 0

    def remove(self) -> None:
        """The comparison is done and its results are written."""
        self.path.unlink(missing_ok=True)


def _line(digest: str, trial: Mapping[str, Any]) -> str:
    return json.dumps({"job": digest, "trial": trial}, ensure_ascii=False, allow_nan=False) + "\n"


def job_digest(*parts: Any) -> str:
    """A digest of what a trial is about: table, recipe, measures, options, key."""
    text = json.dumps([__version__, *parts], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def table_digest(table: Table | None) -> str:
    """A digest of all values of a table."""
    import pyarrow as pa

    if table is None:
        return ""
    found = hashlib.blake2b(digest_size=16)

    class Sink(io.RawIOBase):
        """Receives the table as Arrow writes it."""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            found.update(data)
            return len(data)

    arrow = table.to_arrow().combine_chunks()
    with pa.PythonFile(Sink(), mode="w") as file, pa.ipc.new_stream(file, arrow.schema) as stream:
        stream.write_table(arrow)
    return found.hexdigest()
