"""What lies beside a release: its private link and its manifest, held against the file as it is now."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.engine.digest import digest_of, mark_path, marked_release
from gpuanon.engine.outputs import manifest_path, read_manifest
from gpuanon.errors import InputError
from gpuanon.tables.arrow import numpy_array
from gpuanon.tables.formats import io


def read_link(path: Path) -> Host:
    """The private link: for each released row the row number of its original."""
    import pyarrow as pa

    table = io.read(path)
    if table.names != ("row",):
        raise InputError(f"{path.name}: a link has one column 'row', got {len(table.names)} columns")
    rows = table.to_arrow()["row"]
    if rows.null_count or not pa.types.is_integer(rows.type):
        raise InputError(f"{path.name}: a link holds whole numbers, one in each line", hint="protect --link writes one")
    return numpy_array(rows).astype(np.int64)


def check_release_of(link: Path, release: Path) -> None:
    """Refuse a link that says that it belongs to another release."""
    digest = marked_release(link)
    if digest is not None and digest != digest_of(release):
        raise InputError(
            f"{link.name}: belongs to another release, or {release.name} was changed since it was written",
            hint=f"if it has the same rows in the same order, assess it without {mark_path(link).name}",
        )


def release_notes(release: Path, rows: int) -> tuple[str, ...]:
    """What the manifest beside a release says against the file as it is now."""
    manifest = read_manifest(manifest_path(release))
    if manifest is None:
        return ()
    written = manifest.get("release")
    digest = written.get("digest") if isinstance(written, dict) else None
    if rows != manifest["rows_out"] or (digest is not None and digest != digest_of(release)):
        return (
            f"{release.name} was changed since it was written: its manifest does not speak of these rows, "
            "and a link need not fit them",
        )
    return ()
