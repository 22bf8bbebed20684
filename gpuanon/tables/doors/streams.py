"""Standard input and output, and named pipes: a table that can be read or written only once.

The bytes of an input are copied to a private file first, because a table is read more than once.  Those of a release
are sent when it is complete and verified.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import IO, Any

from gpuanon.errors import InputError, OutputError
from gpuanon.tables.doors import Address, Door, format_named


def _receive(address: Address, folder: Path) -> Path:
    """Copy the bytes; an input without any is named."""
    target = folder / f"input{format_named(address.format, address.text, InputError)}"
    with target.open("wb") as file:
        if address.text == "-":
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        else:
            with open(address.text, "rb") as pipe:
                shutil.copyfileobj(pipe, file, 1 << 20)
        if not file.tell():
            raise InputError(f"{address}: nothing came from it")
    return target


def _suffix(address: Address) -> str:
    return format_named(address.format, address.text, OutputError)


def _check(address: Address, force: bool) -> None:
    """Refuse a terminal: rows of bytes, or of people, on a screen are a mistake."""
    if address.text == "-" and sys.stdout.isatty():
        raise OutputError(
            "-: standard output is a terminal", hint="gpuanon protect … -o - > release.csv, or | a program"
        )


def _send(address: Address, release: Path, manifest: dict[str, Any], force: bool) -> str | None:
    """Copy the bytes; of an Arrow file, its batches as a stream, which a reader can follow."""
    if address.text == "-":
        _copy(release, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    else:
        with open(address.text, "wb") as pipe:
            _copy(release, pipe)
    return None


def _copy(release: Path, target: IO[bytes]) -> None:
    import pyarrow as pa

    if release.suffix != ".arrow":
        with release.open("rb") as file:
            shutil.copyfileobj(file, target, 1 << 20)
        return
    with pa.memory_map(str(release)) as source:
        reader = pa.ipc.open_file(source)
        with pa.ipc.new_stream(target, reader.schema) as stream:
            for number in range(reader.num_record_batches):
                stream.write_batch(reader.get_batch(number))


STREAMS = Door(
    "streams",
    (),
    "-",
    "nothing is sent before the release is complete and verified; its reader sees the end of the stream",
    "there are none",
    _receive,
    _suffix,
    _check,
    _send,
)
