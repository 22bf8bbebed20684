"""`protect`: from a dataframe to a release, from a file to a file, in memory or in parts; all through one pipeline."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from gpuanon import __version__
from gpuanon.arrays import progress
from gpuanon.arrays.backend import Backend, BackendName, choose
from gpuanon.arrays.compiled import describe_compiled
from gpuanon.arrays.rng import Key, as_key
from gpuanon.engine.manifest import describe
from gpuanon.engine.outputs import check_intervals, check_outputs, figures_path, recipe_inputs, work_path
from gpuanon.engine.pipeline import protect_parts
from gpuanon.engine.release import Release, write_release
from gpuanon.engine.run import Done, Run, Workers, in_turn
from gpuanon.engine.series_runs import prepared, prepared_in_parts
from gpuanon.engine.sources import head_of, in_parquet, parquet_parts
from gpuanon.engine.store import FolderStore, MemoryPart, MemoryStore
from gpuanon.engine.store.placement import usual_cell_rows
from gpuanon.engine.store.workspace import Workspace, check_not_running, left_behind
from gpuanon.engine.texts import Texts
from gpuanon.errors import GuaranteeError, InputError, OutputError, ParameterError, RecipeError, Remark
from gpuanon.masking.mask import check_backend
from gpuanon.recipe import Recipe
from gpuanon.tables.formats import format_of, io
from gpuanon.tables.formats.parquet import parquet_files
from gpuanon.tables.table import Table

Give: TypeAlias = Callable[[], Iterable[Table]]
"""Gives the pieces of a table, as often as it is asked."""

ClusterKind: TypeAlias = Literal["none", "local", "cuda", "slurm", "mpi"]


def protect(
    data: Any,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    rng: Key | bytes | int | np.random.Generator | None = None,
    backend: BackendName = "auto",
    reference: Any = None,
) -> Release:
    """Mask a table as a recipe says, and verify what the recipe promises.

    Parameters
    ----------
    data : any dataframe that narwhals reads, or `Table`
    recipe : a `Recipe`, the same structure as a mapping, or the path of a recipe file
    rng : the secret of the draws; None takes a fresh one from the operating system.  The same secret, table and
        recipe give the same release, whatever the backend, the batch size or the number of threads.
    backend : ``"auto"``, ``"numpy"`` or ``"cupy"``; an explicit one runs there or fails
    reference : a second, non-overlapping sample of the same population, for limits on measures that need one

    Returns
    -------
    Release
        Its `.data` is the same kind of dataframe as `data`, rows in random order, identifiers gone.

    Raises
    ------
    GuaranteeError
        When the release would not keep its guarantee or exceeds one of the recipe's limits.
    """
    began = time.perf_counter()
    original, seen = prepared(Table.of(data), Recipe.load(recipe))
    sample = seen.same_columns(None if reference is None else Table.of(reference))
    run = Run(seen.recipe, as_key(rng), choose(backend), MemoryStore())
    done = protect_parts(run, [MemoryPart(original)], original, sample)
    released, link = run.store.released(0), run.store.origin(0)
    manifest = warned(describe(run.recipe, run.backend.name, done), original.notes)
    measured = _limited(run, done, lambda: (original,), lambda: (released,), link, sample)
    manifest |= {**seen.facts, **measured, "seconds": round(time.perf_counter() - began, 3)}
    return Release(released, manifest, link, done, original.layouts, original, sample)


def _limited(
    run: Run, done: Done, original: Give, release: Give, link: np.ndarray[Any, Any], reference: Table | None
) -> dict[str, Any]:
    """What the recipe's limits were measured to be, for the manifest."""
    if not run.recipe.limits:
        return {}
    # Measures are imported where they are used: a small table is masked sooner than they load.
    from gpuanon.assessing.streams import Pieces
    from gpuanon.engine.limits import check_limits

    before, after = Pieces(original, done.rows[0]), Pieces(release, done.rows[1])
    with progress.stage("limits"):
        found = check_limits(
            before, after, done.schema, run.recipe.limits, link=link, reference=reference, backend=run.backend,
            options=run.recipe.options,
        )  # fmt: skip
    return {"measured": found}


def _reporter(
    original: Give, released: Give, done: Done, link: np.ndarray[Any, Any], reference: Table | None
) -> Callable[[dict[str, Any]], Any]:
    """From the manifest to the report of a release in parts."""
    from gpuanon.assessing.streams import Pieces
    from gpuanon.report.contents import reporter

    return reporter(Pieces(original, done.rows[0]), Pieces(released, done.rows[1]), done.schema, link, reference)


@dataclass(frozen=True)
class InParts:
    """How the command line masks a table in parts.

    workers : number of workers; None or 0 without a cluster: this process
    cluster : where the workers are
    cell    : rows that are masked together, about; None for the usual number, see `usual_cell_rows`
    resume  : continue an interrupted run
    report  : file for Dask's performance report, or None
    """

    workers: int | None = None
    cluster: ClusterKind = "none"
    cell: int | None = None
    resume: bool = False
    report: Path | None = None


def protect_file(
    source: Path,
    recipe: Path,
    output: Path,
    *,
    backend: BackendName = "auto",
    key_file: Path | None = None,
    reference: Path | None = None,
    link: Path | None = None,
    report: Path | None = None,
    force: bool = False,
    in_parts: InParts | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Mask the table in a file; everything that can be refused is refused before the work begins.

    report   : HTML page to write beside the release, or None
    in_parts : how to mask it in parts; None for all at once, in memory
    """
    began = time.perf_counter()
    loaded, key = Recipe.load(recipe), Key.find(key_file)
    kept = key_file is not None or "GPUANON_KEY" in os.environ
    if in_parts is not None and in_parts.resume and not kept:
        raise ParameterError("resume: the key of the interrupted run is needed", hint="--key-file, or GPUANON_KEY")
    inputs = [path for path in (source, recipe, key_file, reference) if path is not None] + recipe_inputs(loaded)
    pages = () if report is None else (report, figures_path(report))
    others = [*pages, *([] if in_parts is None or in_parts.report is None else [in_parts.report])]
    check_outputs(output, inputs, link=link, others=others, force=force)
    check_intervals(output, loaded)
    chosen = choose(backend)
    log(f"backend: {chosen.name} ({chosen.reason}); compiled functions: {describe_compiled()}")
    with progress.stage("read"):
        sample = None if reference is None else read_table(reference, loaded)
    if in_parts is None:
        check_not_running(work_path(output))
        if work_path(output).exists():
            log(f"note: {left_behind(work_path(output))}")
        with progress.stage("read"):
            table = read_table(source, loaded)
        release = protect(table, loaded, rng=key, backend=chosen.name, reference=sample)
        with progress.stage("write"):
            texts = Texts.of(source, output, loaded)
            manifest = release.write(output, link=link, report=report, force=force, texts=texts)
    else:
        from gpuanon.engine.workers.dask_workers import on_cluster

        with on_cluster(in_parts, log) as workers:
            manifest = protect_in_parts(
                source, loaded, output, key=key, backend=chosen.name, workers=workers,
                cell_rows=in_parts.cell, reference=sample, link=link, report=report,
                resume=in_parts.resume, resumable=kept, force=force, log=log,
            )  # fmt: skip
    names = ("rows_in", "rows_out", "rows_added", "rows_dropped", "backend", "mask", "guarantee", "quasi", "warnings")
    seconds = round(time.perf_counter() - began, 3)
    return {**{name: manifest[name] for name in names}, "seconds": seconds, "output": str(output)}


def protect_in_parts(
    source: Path,
    recipe: Recipe,
    output: Path,
    *,
    key: Key,
    backend: BackendName = "auto",
    workers: Workers = in_turn,
    cell_rows: int | None = None,
    reference: Table | None = None,
    link: Path | None = None,
    report: Path | None = None,
    resume: bool = False,
    resumable: bool = True,
    force: bool = False,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Mask the table at `source` in parts and write `output`, a file or a folder of Parquet parts; the manifest.

    The run works in a private folder beside the output.  It is removed when the run ends, and when it fails for a
    reason that a second try would meet again; an interrupted run leaves it for ``resume``, unless it cannot be resumed
    because nobody has its key.  What the error does not say about a workspace that is left is in its notes.
    """
    began = time.perf_counter()
    others = () if report is None else (report, figures_path(report))
    check_outputs(output, [source, *recipe_inputs(recipe)], link=link, others=others, force=force)
    check_intervals(output, recipe)
    opened = open_table(source, recipe)  # a missing or broken input is named before anything is made
    chosen = choose(backend)
    for mask in recipe.mask:
        check_backend(mask.combination(), chosen)
    cell_rows = cell_rows or usual_cell_rows(chosen, len(opened.schema))
    identity = _identity(source, recipe, key, cell_rows, chosen)
    workspace = Workspace.begin(work_path(output), identity, resume=resume, force=force)
    try:
        store = FolderStore(workspace)
        given = parquet_parts(in_parquet(opened, workspace.folder))
        parts, seen = prepared_in_parts(given, recipe, store, workers)
        sample = seen.same_columns(reference)
        run = Run(seen.recipe, key, chosen, store, workers, cell_rows, log)
        done = protect_parts(run, parts, head_of(parts, store, workers), sample)
        origins = [store.origin(at) for at in range(done.parts)]
        manifest = warned(describe(run.recipe, chosen.name, done), opened.notes)
        original: Give = lambda: (part.read().table for part in parts)  # noqa: E731
        released: Give = lambda: (store.released(at) for at in range(done.parts))  # noqa: E731
        rows = np.concatenate(origins)
        manifest |= _limited(run, done, original, released, rows, sample)
        if _identity(source, recipe, key, cell_rows, chosen) != identity:
            raise InputError(f"{source}: was changed while it was read; nothing was written")
        manifest |= {**seen.facts, "cell_rows": cell_rows, "seconds": round(time.perf_counter() - began, 3)}
        manifest = write_release(
            output, released, manifest, done, link, origins, force=force,
            fill=(lambda folder: _link_parts(store.release_folder, folder)) if format_of(output).is_folder else None,
            report=None if report is None else (report, _reporter(original, released, done, rows, sample)),
            texts=Texts.of(source, output, recipe, workspace.folder),
        )  # fmt: skip
    except BaseException as error:
        met_again = isinstance(error, (InputError, RecipeError, ParameterError, GuaranteeError))
        _clear_up(workspace, error, remove=met_again or not resumable)
        raise
    _end(workspace, output)
    return manifest


def _clear_up(workspace: Workspace, error: BaseException, *, remove: bool) -> None:
    """Remove the workspace of a run that failed, or leave it; a note of the error says what is left, and where."""
    if remove:
        with suppress(OutputError):
            workspace.end()
    else:
        workspace.leave()
    if workspace.folder.exists():
        error.add_note(Remark(left_behind(workspace.folder)))


def _end(workspace: Workspace, output: Path) -> None:
    """Remove the workspace of a finished run; from here on an error has to say that the release is in place."""
    try:
        workspace.end()
    except OutputError as error:
        raise OutputError(f"{output}: the release is in place and complete, but {error}") from None
    except BaseException as error:
        if workspace.folder.exists():
            error.add_note(Remark(f"personal data is left in {workspace.folder}; 'gpuanon clean {output}' removes it"))
        raise


def read_table(path: Path, recipe: Recipe) -> Table:
    """The table in a file; in a CSV, columns that the recipe neither masks nor measures are text, as they are."""
    return io.read(path, csv=recipe.csv, columns=recipe.csv_columns)


def open_table(path: Path, recipe: Recipe) -> io.Source:
    """The table in a file, to be read piece by piece; see `read_table`."""
    return io.open(path, csv=recipe.csv, columns=recipe.csv_columns)


def warned(manifest: dict[str, Any], notes: tuple[str, ...]) -> dict[str, Any]:
    """The manifest with these notes among its warnings."""
    return {**manifest, "warnings": [*manifest["warnings"], *notes]}


def _identity(source: Path, recipe: Recipe, key: Key, cell_rows: int, backend: Backend) -> dict[str, Any]:
    """What decides a release; the key by a digest that does not lead back to it."""
    files = parquet_files(source) if source.is_dir() else [source]
    seen = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    decides = [seen, recipe.model_dump(mode="json"), cell_rows, backend.name, __version__]
    digest = hashlib.blake2b(json.dumps(decides).encode(), digest_size=16)
    return {"run": digest.hexdigest(), "key": key.digest()}


def _link_parts(released: Path, folder: Path) -> None:
    """Give the release parts second names: a commit that fails must not cost what a resumed run needs."""
    for file in sorted(released.glob("part-*.parquet")):
        try:
            os.link(file, folder / file.name)
        except OSError:  # a file system without hard links
            try:
                shutil.copyfile(file, folder / file.name)
            except OSError as error:
                reason = error.strerror or "input/output error"
                raise OutputError(f"{folder}: cannot be written ({reason})") from None
