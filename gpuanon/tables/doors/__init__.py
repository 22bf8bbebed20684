"""Doors: where tables come from and go to that are not local files.  `DOORS` has one line for each.

A door brings a table into a private local folder, and takes a verified release from there to its address.  What lies
between, the whole of a run, knows files only.  So every door has the promises that files have, and its own part is
small: how bytes or batches come and go, what makes a write appear whole, and where secrets come from.  A file of a
door imports at its head nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from gpuanon.errors import GpuanonError, InputError, OutputError, ParameterError
from gpuanon.tables.formats import formats

DOORS: Mapping[str, str] = {
    "streams": "streams.STREAMS",
    "duckdb": "duckdb_files.DUCKDB",
    "postgresql": "postgresql.POSTGRESQL",
}
"""Name → file of this package and its declaration."""


@dataclass(frozen=True)
class Address:
    """A table that is not a local file.

    text   : as it was given; it holds no secret
    query  : SQL whose result is the table, or None
    format : name of the format of a stream, or None
    """

    text: str
    query: str | None = field(default=None, repr=False)
    format: str | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def scheme(self) -> str:
        """The part before ``://``; empty for streams."""
        return self.text.partition("://")[0] if "://" in self.text else ""

    @property
    def path(self) -> str:
        """The part after ``://`` and before the options."""
        return unquote(self.text.partition("://")[2].partition("?")[0])

    @property
    def options(self) -> dict[str, str]:
        """What follows the question mark."""
        return dict(parse_qsl(urlsplit(self.text).query, keep_blank_values=True))


@dataclass(frozen=True)
class Door:
    """How tables come from and go to one kind of address.

    Parameters
    ----------
    name    : in `DOORS`, and for messages
    schemes : what stands before ``://``
    example : an address, for messages and help
    whole   : a sentence: what makes a write appear whole
    secrets : a sentence: where passwords come from
    receive : address, empty private folder → the file in it that holds the table
    suffix  : address → suffix of the local file in which a release is written and verified before it is sent
    check   : address, whether an earlier release may be replaced: raises if a release cannot be written there
    send    : address, local release, its manifest, whether to replace → where its manifest is, None for nowhere.
              All of the release is there afterwards, or nothing of it
    ordered : whether rows keep their order, so that a link to the originals means something
    queries : whether it takes SQL
    needs   : libraries, and the extra that brings them
    """

    name: str
    schemes: tuple[str, ...]
    example: str
    whole: str
    secrets: str
    receive: Callable[[Address, Path], Path]
    suffix: Callable[[Address], str]
    check: Callable[[Address, bool], None]
    send: Callable[[Address, Path, dict[str, Any], bool], str | None]
    ordered: bool = True
    queries: bool = False
    needs: tuple[str, ...] = ()
    extra: str | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """Libraries that are not installed."""
        return tuple(name for name in self.needs if find_spec(name) is None)

    def check_installed(self, address: Address, error: type[GpuanonError]) -> None:
        """Raise if a library is missing."""
        if self.missing:
            raise error(
                f"{address}: needs {' and '.join(self.missing)}, which is not installed",
                hint=f"pip install 'gpuanon[{self.extra}]'",
            )


@cache
def doors() -> Mapping[str, Door]:
    """All doors by their names."""
    places = {name: place.rpartition(".") for name, place in DOORS.items()}
    return {
        name: getattr(import_module(f"{__name__}.{file}"), declared) for name, (file, _, declared) in places.items()
    }


def is_address(text: str) -> bool:
    """Whether a table is not a local file or folder: an address, a standard stream or a pipe."""
    path = Path(text)
    return text == "-" or "://" in text or path.is_fifo()


def door_of(address: Address, error: type[GpuanonError] = InputError) -> Door:
    """The door of an address; raises for one that is unknown, holds a password or needs a missing library."""
    if not address.scheme:
        return doors()["streams"]
    netloc = urlsplit(address.text).netloc
    if ":" in netloc.rpartition("@")[0] or any("password" in name for name in address.options):
        raise error(
            f"{address.scheme}://…: the address holds a password, which every user sees in the list of processes",
            hint="leave it out: " + next((d.secrets for d in doors().values() if address.scheme in d.schemes), ""),
        )
    for door in doors().values():
        if address.scheme in door.schemes:
            door.check_installed(address, error)
            if address.query is not None and not door.queries:
                raise ParameterError(f"query: {address} is not a database")
            return door
    known = ", ".join(f"{scheme}://" for door in doors().values() for scheme in door.schemes)
    raise error(f"{address}: no such kind of address; there are {known}, and - for standard input or output")


def format_named(name: str | None, path: str, error: type[GpuanonError]) -> str:
    """The suffix of a format by its name, or by that of a path; CSV where neither says it."""
    known = formats()
    if name is None:
        found = [suffix for form in known.values() for suffix in form.suffixes if path.lower().endswith(suffix)]
        return found[-1] if found else ".csv"
    if name not in known or not known[name].suffixes:
        able = ", ".join(form.name for form in known.values() if form.suffixes)
        raise ParameterError(f"format: one of {able} is allowed, got {name!r}")
    if error is OutputError and not known[name].writes:
        raise OutputError(f"format: {name} is read, not written")
    return known[name].suffixes[0]
