"""What a run may write, and what it must never replace.

An input is never a target: not by its own name, not through a symbolic or a hard link, not as part of a folder.  With
``--force`` a run replaces only what gpuanon wrote itself: a release with its manifest beside it, a manifest, a link, a
report.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuanon.engine.identity import digest_of, hierarchy_files, mark_path, marked_release, release_in
from gpuanon.engine.store.workspace import remove
from gpuanon.errors import InputError, OutputError
from gpuanon.recipe import Recipe
from gpuanon.report import FIGURES_MARK, REPORT_MARK, figures_path
from gpuanon.tables.formats import format_of, formats, io
from gpuanon.tables.formats.places import mend, remove_stale

if TYPE_CHECKING:
    from gpuanon.report.contents import Contents

MANIFEST = ".manifest.json"
RECIPE_MARK = "# the recipe that gpuanon compare chose"
JOURNAL_MARK = "journal of gpuanon"
_DASK_MARK = "<title>Dask Performance Report</title>"
_HINT = "choose another name"


def manifest_path(output: Path) -> Path:
    """The manifest lies beside the release."""
    _check_name(output)
    return output.with_name(output.name + MANIFEST)


def _check_name(path: Path) -> None:
    """Refuse a path without a name of its own, beside which nothing can lie."""
    if path.name in ("", ".."):
        raise OutputError(f"{path}: is not the name of a file or of a new folder", hint=_HINT)


def work_path(output: Path) -> Path:
    """The private folder of a run, beside its output."""
    return output.absolute().with_name(f".{output.name}.gpuanon-work")


def recipe_inputs(recipe: Recipe) -> list[Path]:
    """The files that a recipe names."""
    return list(hierarchy_files(recipe).values())


def check_outputs(
    output: Path, inputs: Iterable[Path], *, link: Path | None = None, others: Sequence[Path] = (), force: bool
) -> None:
    """Refuse everything that cannot be written, or must not, before any work is done.

    Parameters
    ----------
    output : the release; its manifest and its workspace lie beside it
    inputs : tables, recipe, key, hierarchies: whatever the run reads
    link   : private link to be written, or None
    others : further files to be written, such as reports
    """
    inputs = list(inputs)
    for target in (link, *others):
        if target is not None:
            _check_name(target)
    targets = [output, manifest_path(output), *([] if link is None else [link, mark_path(link)]), *others]
    for target in [*targets, work_path(output)]:
        for source in inputs:
            _check_apart(target, source)
    for one, other in combinations([*targets, work_path(output)], 2):
        if _holds(one, other) or _holds(other, one):
            raise OutputError(f"{other}: is another output of this run, or lies in one", hint=_HINT)
    for source in inputs:
        _check_no_release_within(source)
    guard = Guard(output, link)
    io.check_output(output, force=force, guard=guard)
    for target in targets[1:]:
        io.check_output(target, force=force, table=False, guard=guard)


def check_intervals(output: Path, recipe: Recipe) -> None:
    """Refuse interval columns in a format that cannot hold them."""
    columns = any(mask.combination().operation.reading("numeric") == "interval-column" for mask in recipe.mask)
    if columns and not format_of(output, OutputError).holds_intervals:
        able = [suffix for form in formats().values() if form.holds_intervals for suffix in form.suffixes]
        raise OutputError(
            f"{output}: this format holds no columns of intervals; {', '.join(able)} and folders of parts do",
            hint="or release the ends as two columns: release = 'interval'",
        )


def check_report(report: Path, inputs: Iterable[Path], *, force: bool) -> None:
    """Refuse a report that cannot be written, or must not, where it is the only output."""
    inputs = list(inputs)
    for target in (report, figures_path(report)):
        for source in inputs:
            _check_apart(target, source)
        io.check_output(target, force=force, table=False, guard=Guard())


def write_report(contents: Contents, path: str | Path, *, force: bool = False) -> None:
    """Write a report, whole or not at all; with `force` over an earlier report, and nothing else."""
    from gpuanon.report.page import put_report  # what reports need: most runs have none

    with io.Writing(force=force, guard=Guard()) as out:
        put_report(out, Path(path), contents)


def check_best(path: Path, inputs: Iterable[Path], *, force: bool) -> None:
    """Refuse a recipe to be written that is an input, or is there already."""
    for source in inputs:
        _check_apart(path, source)
    io.check_output(path, force=force, table=False, guard=Guard())


def clean(output: Path) -> list[Path]:
    """Remove the workspace of an interrupted run, and hidden files of killed processes beside it; what was removed.

    Outputs of which a killed process had renamed only some are all put in place before, or none.
    """
    folder = work_path(output)
    if not folder.parent.is_dir():
        raise OutputError(f"{output}: there is no folder {folder.parent}")
    mend(folder.parent)
    found = [folder] if remove(folder) else []
    return found + remove_stale(folder.parent)


class Guard:
    """Raises if an existing output was not written by gpuanon: nothing else is replaced, whatever ``--force`` says."""

    def __init__(self, output: Path | None = None, link: Path | None = None) -> None:
        self._output, self._link = output, link

    def __call__(self, path: Path) -> None:
        if path == self._output:
            ours = _is_release(path)
        elif path == self._link:
            ours = _first_line(path) == b"row" and marked_release(path) is not None
        elif self._link is not None and path == mark_path(self._link):
            ours = release_in(path) is not None
        elif path.name.endswith(MANIFEST):
            ours = is_manifest(path)
        else:
            ours = _is_report(path)
        if not ours:
            raise OutputError(
                f"{path}: was not written by gpuanon, or was changed since, and is not replaced (a release has its"
                " manifest beside it, a link its release.json)",
                hint=_HINT + ", or remove it yourself",
            )


def _is_release(path: Path) -> bool:
    """Whether a file or folder is a release as gpuanon wrote it: the manifest beside it speaks of these bytes.

    Somebody may have put a table of their own in its place, or into its folder.  A manifest without a digest speaks of
    no bytes.  Times say nothing: copying, or ``make``, changes them.
    """
    found = read_manifest(manifest_path(path))
    if found is None:
        return False
    written = found.get("release")
    digest = written.get("digest") if isinstance(written, dict) else None
    return digest is not None and digest == digest_of(path)


def is_manifest(path: Path) -> bool:
    """Whether a file is a manifest of gpuanon."""
    return read_manifest(path) is not None


def read_manifest(path: Path) -> dict[str, Any] | None:
    """The manifest in a file; None if it is not one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"gpuanon", "rows_out", "mask"} <= found.keys() else None


def _is_report(path: Path) -> bool:
    """Whether a file is a report of gpuanon, or of Dask on a run of it."""
    with path.open("rb") as file:
        head = file.read(2000).decode(errors="replace")
    marks = (FIGURES_MARK, RECIPE_MARK, JOURNAL_MARK)
    return REPORT_MARK in head or _DASK_MARK in head or any(mark in head[:100] for mark in marks)


def _first_line(path: Path) -> bytes:
    """The first line of a file, up to a few bytes."""
    with path.open("rb") as file:
        return file.readline(16).rstrip(b"\r\n")


def _check_apart(target: Path, source: Path) -> None:
    """Refuse a target that is an input, holds one or lies in one."""
    if _holds(target, source):
        what = "is an input" if _same(target, source) else "holds an input"
        raise OutputError(f"{target}: {what} ({source.name}), which is never replaced", hint=_HINT)
    if source.is_dir() and _holds(source, target):
        raise OutputError(
            f"{target}: lies in the input folder {source}, and would be read as part of it", hint="write elsewhere"
        )


def _holds(outer: Path, inner: Path) -> bool:
    """Whether a path is another one, or a folder that holds it: by name, symbolic link or hard link."""
    real, place = Path(os.path.realpath(inner)), Path(os.path.realpath(outer))
    if real.is_relative_to(place) or _same(outer, inner):
        return True
    if not outer.is_dir() or not inner.exists():
        return False
    numbers = {_number(inner), *(_number(part) for part in (inner.iterdir() if inner.is_dir() else ()))} - {None}
    return any(_number(entry) in numbers for entry in outer.iterdir())


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file or folder."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    return one.exists() and other.exists() and one.samefile(other)


def _number(path: Path) -> tuple[int, int] | None:
    """Device and number of a file, the same for all its names."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _check_no_release_within(source: Path) -> None:
    """Refuse an input folder with the release of an earlier run in it: its rows would be taken for people."""
    if not source.is_dir():
        return
    for path in sorted(source.glob(f"*{MANIFEST}")):
        release = path.with_name(path.name.removesuffix(MANIFEST))
        if release.exists() and is_manifest(path):
            raise InputError(
                f"{source}: holds {release.name}, the release of an earlier run, beside the input",
                hint="move the release and its manifest to another folder",
            )
