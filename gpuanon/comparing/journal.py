"""The journal of a comparison: figures of the trials that are done, so that an interrupted one can go on."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuanon import __version__
from gpuanon.engine.outputs import JOURNAL_MARK as KIND
from gpuanon.errors import OutputError
from gpuanon.tables.formats.writing import translate_os_errors
from gpuanon.tables.table import Table


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

    def add(self, digest: str, trial: Mapping[str, Any]) -> None:
        """Write down a finished trial."""
        with translate_os_errors(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(_line(digest, trial) if self.done else self.HEAD + _line(digest, trial))
            file.flush()
            os.fsync(file.fileno())
        self.done[digest] = trial

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
