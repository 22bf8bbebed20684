"""Tables at addresses, as private local files for the time of a command.

An input is brought into a private folder before the work begins, under one snapshot where it can change meanwhile.  A
release is written and verified there as a file, and sent to its address as the last step.  The folder of a run that
can be resumed is found again by the address of its release.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from gpuanon.arrays import progress
from gpuanon.engine.outputs import manifest_path, work_path
from gpuanon.errors import GpuanonError, InputError, OutputError, ParameterError, Remark
from gpuanon.tables.doors import Address, door_of, is_address
from gpuanon.tables.formats.places import PARTIAL, PLACED, open_locked, remove_stale

_INPUT = "input-"


class Transfers:
    """Brings tables from their addresses, and takes a release to its own; local paths stay as they are.

    output    : path or address of the release; None for a command without one
    workspace : folder for private files; None: beside an output that is a file, else the system's temporary folder
    resume    : whether what an interrupted run brought is used again
    """

    def __init__(self, output: str | None = None, workspace: Path | None = None, *, resume: bool = False) -> None:
        self._output, self._workspace, self._resume = output, workspace, resume
        self._folder: Path | None = None
        self._lock: int | None = None
        self._names: dict[str, str] = {}
        self._target: tuple[Address, Path, bool] | None = None

    def __enter__(self) -> Transfers:
        return self

    def receive(self, text: str | Path, query: str | None = None, format: str | None = None) -> Path:
        """The table as a local file or folder.

        query  : SQL, or ``@`` and the name of a file with SQL
        format : of a stream
        """
        if not is_address(str(text)):
            if query is not None:
                raise ParameterError(f"query: {text} is not a database")
            return Path(text)
        address = Address(str(text), _sql(query), format)
        door = door_of(address)
        folder = self._private() / f"{_INPUT}{_digest(address.text, address.query or '')}"
        found = [path for path in folder.iterdir() if path.name[0] != "."] if folder.is_dir() else []
        if not (found and self._resume):
            shutil.rmtree(folder, ignore_errors=True)
            arriving = folder.with_name(f".{folder.name}")
            shutil.rmtree(arriving, ignore_errors=True)
            arriving.mkdir(mode=0o700)
            with progress.stage("read"):
                found = [folder / door.receive(address, arriving).name]
            os.replace(arriving, folder)
        self._names[str(found[0])] = address.text
        return found[0]

    def target(self, text: str | Path, *, format: str | None = None, force: bool = False, link: bool = False) -> Path:
        """Where to write the release: the path itself, or a private file that `send` takes to its address."""
        if not is_address(str(text)):
            return Path(text)
        address = Address(str(text), None, format)
        door = door_of(address, OutputError)
        if address.text in self._names.values() and address.scheme:
            raise OutputError(f"{address}: is an input, which is never replaced", hint="choose another name")
        if link and not door.ordered:
            raise ParameterError(
                f"link: the rows of {address} have no order, so that a link would say nothing",
                hint="write the release to a file, and copy it from there",
            )
        door.check(address, force)
        path = self._private() / f"release{door.suffix(address)}"
        for left in (path, manifest_path(path)):
            left.unlink(missing_ok=True)
        self._names[str(path)] = address.text
        self._target = (address, path, force)
        return path

    def send(self) -> str | None:
        """Take the release to its address; where its manifest is, or None.  Nothing to do for a local file."""
        if self._target is None:
            return None if self._output is None else str(manifest_path(Path(self._output)))
        address, path, force = self._target
        manifest = json.loads(manifest_path(path).read_text(encoding="utf-8"))
        with progress.stage("write"):
            place = door_of(address, OutputError).send(address, path, manifest, force)
        PLACED.append(Path(address.text))
        return place

    def _private(self) -> Path:
        """The private folder, made when the first address is met."""
        if self._folder is None:
            self._folder = private_folder(self._output, self._workspace)
            self._lock = _make_private(self._folder)
        return self._folder

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, GpuanonError):
            error.args = tuple(self._renamed(str(text)) for text in error.args)
        if error is not None and hasattr(error, "__notes__"):
            error.__notes__ = [Remark(self._renamed(n)) if isinstance(n, Remark) else n for n in error.__notes__]
        if self._folder is None:
            return
        PLACED[:] = [path for path in PLACED if self._folder not in path.parents]
        output = self._target[1] if self._target is not None else Path(self._output or self._folder / "none")
        if not work_path(output).exists():
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

    def _renamed(self, text: str) -> str:
        """A message in which private files have the names of their addresses."""
        for local, shown in self._names.items():
            text = text.replace(local, shown)
        return text


def private_folder(output: str | None, workspace: Path | None) -> Path:
    """Where the private files of a command are: always the same for one output."""
    address = output is None or is_address(output)
    base = workspace or (Path(tempfile.gettempdir()) if address else Path(str(output)).absolute().parent)
    if output is None or output == "-":
        remove_stale(base)
        return base.absolute() / f".gpuanon-{secrets.token_hex(8)}{PARTIAL}"
    return base.absolute() / f".gpuanon-{_digest(output if address else str(Path(output).absolute()))}.doors"


def clean_private(output: str, workspace: Path | None) -> list[Path]:
    """Remove the private folder that a killed run to this output left; what was removed."""
    folder = private_folder(output, workspace)
    if not folder.is_dir():
        return []
    number = _make_private(folder)
    shutil.rmtree(folder)
    os.close(number)
    return [folder]


def _make_private(folder: Path) -> int:
    """Make the folder, or take up one that this user's killed run left; the open lock on it."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        number, free = open_locked(folder)
    except OSError as error:
        raise OutputError(
            f"{folder.parent}: private files cannot be written there ({error.strerror})", hint="--workspace FOLDER"
        ) from None
    status = os.fstat(number)
    if free is False or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(number)
        reason = "a run is in progress there" if free is False else "belongs to somebody else, or others may enter it"
        raise OutputError(f"{folder}: {reason}", hint="wait until it has ended, or use another --workspace")
    return number


def _sql(query: str | None) -> str | None:
    """The text of a query, which may lie in a file."""
    if query is None or not query.startswith("@"):
        return query
    try:
        return Path(query[1:]).read_text(encoding="utf-8").strip().rstrip(";")
    except (OSError, UnicodeError):
        raise InputError(f"query: {query[1:]} cannot be read") from None


def _digest(*texts: Any) -> str:
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=8).hexdigest()
