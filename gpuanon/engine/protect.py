"""`protect`: from a dataframe to a release, from a file to a file, in memory or in parts, all by `mask_input`."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gpuanon.arrays import ledger, progress
from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.compiled import describe_compiled
from gpuanon.arrays.rng import Key, as_key
from gpuanon.engine.identity import InputContents, digest_of, identity_of
from gpuanon.engine.inputs import FileInput, TableInput, open_table, read_table
from gpuanon.engine.masked import mask_input
from gpuanon.engine.outputs import check_intervals, check_outputs, recipe_inputs, work_path
from gpuanon.engine.release import Release, Texts, write_release
from gpuanon.engine.store import FolderStore, MemoryStore
from gpuanon.engine.store.placement import usual_cell_rows
from gpuanon.engine.store.workspace import Workspace, check_not_running, left_behind
from gpuanon.engine.workers import Workers, in_turn
from gpuanon.engine.workers.clusters import ClusterKind
from gpuanon.errors import FormatError, GuaranteeError, InputError, OutputError, ParameterError, RecipeError, Remark
from gpuanon.masking.mask import check_backend
from gpuanon.recipe import Recipe
from gpuanon.report import Paper, figures_path, unmasked_columns
from gpuanon.tables.formats import format_of
from gpuanon.tables.formats.parquet import spooled
from gpuanon.tables.formats.places import PARTIAL, open_locked
from gpuanon.tables.formats.writing import Writing
from gpuanon.tables.native import open_batches
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    from distributed import Client


@overload
def protect(
    data: Any,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    rng: Key | bytes | int | np.random.Generator | None = None,
    backend: BackendName = "auto",
    reference: Any = None,
) -> Release: ...


@overload
def protect(
    data: Any,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    rng: Key | bytes | int | np.random.Generator | None = None,
    backend: BackendName = "auto",
    reference: Any = None,
    client: Client,
    output: str | Path | None = None,
    cell: int | None = None,
    scratch: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
) -> Any: ...


def protect(
    data: Any,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    rng: Key | bytes | int | np.random.Generator | None = None,
    backend: BackendName = "auto",
    reference: Any = None,
    client: Client | None = None,
    output: str | Path | None = None,
    cell: int | None = None,
    scratch: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
) -> Any:
    """Mask a table as a recipe says, and verify what the recipe promises.

    Parameters
    ----------
    data : any dataframe that narwhals reads, eager or lazy, a DuckDB relation, a `RecordBatchReader` or an iterator of
        Arrow batches, or `Table`; with `client` a lazy one, or the path of a file or of a folder of Parquet parts
    recipe : a `Recipe`, the same structure as a mapping, or the path of a recipe file
    rng : the secret of the draws; None takes a fresh one from the operating system.  The same secret, table and
        recipe give the same release, whatever the backend, the batch size or the number of threads.  A small whole
        number is for trials: anybody can guess it, and a release that is written under it says so.
    backend : ``"auto"``, ``"numpy"`` or ``"cupy"``; an explicit one runs there or fails
    reference : a second, non-overlapping sample of the same population, for limits on measures that need one
    client : a Dask client: mask out-of-core on its workers.  The parameters below are for such runs
    output : file or folder to write; None gives a dask.dataframe, which needs `scratch`
    cell : rows that are masked together, about; None for 100 000, on a GPU for as many as its memory holds.  The same
        data, recipe, secret and cell give the same release
    scratch : folder that all workers reach, for personal data on the way; by default beside `output`
    resume : continue an interrupted run of the same path, recipe, `rng` and cell
    force : overwrite an earlier release

    Returns
    -------
    Release
        Its `.data` is the same kind of dataframe as `data`, rows in random order, identifiers gone.  With `client` the
        manifest when `output` was given, else the release as a dask.dataframe over Parquet parts in `scratch`.

    Raises
    ------
    GuaranteeError
        When the release would not keep its guarantee or exceeds one of the recipe's limits.

    Examples
    --------
    >>> import gpuanon, pyarrow as pa
    >>> table = pa.table({"name": list("abcdef"), "age": [30, 33, 36, 60, 63, 66]})
    >>> recipe = {
    ...     "columns": {"name": {"role": "identifier"}, "age": {"role": "quasi"}},
    ...     "mask": [{"method": "microaggregation", "k": 3}],
    ... }
    >>> release = gpuanon.protect(table, recipe)
    >>> release.data.column_names, sorted(release.data["age"].to_pylist())
    (['age'], [33, 33, 33, 63, 63, 63])
    """
    sample = None if reference is None else Table.of(reference)
    if client is not None:
        return _protect_on(
            client, data, Recipe.load(recipe), output, rng=rng, backend=backend, reference=sample, cell=cell,
            scratch=scratch, resume=resume, force=force,
        )  # fmt: skip
    if output is not None or cell is not None or scratch is not None or resume or force:
        raise ParameterError(
            "output, cell, scratch, resume, force: are for runs on a Dask client",
            hint="pass client=, or write the release: protect(…).write(output)",
        )
    began = time.perf_counter()
    masked = mask_input(
        TableInput(Table.of(data)), Recipe.load(recipe), key=as_key(rng), backend=choose(backend), store=MemoryStore(),
        reference=sample,
    )  # fmt: skip
    masked.manifest["seconds"] = round(time.perf_counter() - began, 3)
    (original,), (released,) = masked.original(), masked.released()
    return Release(released, masked.manifest, masked.link, original.layouts, masked)


def _protect_on(
    client: Client,
    data: Any,
    recipe: Recipe,
    output: str | Path | None,
    *,
    rng: Any,
    backend: BackendName,
    reference: Table | None,
    cell: int | None,
    scratch: str | Path | None,
    resume: bool,
    force: bool,
) -> Any:
    """`protect` on the workers of a Dask client."""
    from gpuanon.engine.workers.clusters import OnWorkers

    if output is None and scratch is None:
        raise ParameterError("output: a file or folder is needed, or a scratch folder for a dask.dataframe")
    target = Path(output) if output is not None else Path(str(scratch)) / "release"
    with _as_files(data, Path(scratch) if scratch is not None else target.absolute().parent) as source:
        manifest = protect_in_parts(
            source, recipe, target, key=as_key(rng), backend=backend, workers=OnWorkers(client), cell_rows=cell,
            reference=reference, resume=resume, resumable=rng is not None and isinstance(data, (str, Path)),
            force=force,
        )  # fmt: skip
    if output is not None:
        return manifest
    import dask.dataframe as dd

    return dd.read_parquet(target)


@contextmanager
def _as_files(data: Any, scratch: Path) -> Iterator[Path]:
    """The table as files: a path as it is; a dask.dataframe and what gives batches as private Parquet for the run."""
    if isinstance(data, (str, Path)):
        yield Path(data)
        return
    parts = hasattr(data, "to_parquet") and hasattr(data, "npartitions")
    batches = None if parts else open_batches(data)
    if not parts and batches is None:
        raise ParameterError(
            f"data: a path, a dask.dataframe or what gives Arrow batches is needed, got {type(data).__name__}"
        )
    with TemporaryDirectory(prefix=".gpuanon-", suffix=PARTIAL, dir=scratch) as folder:
        number, _ = open_locked(Path(folder))  # tells 'gpuanon clean' that the run lives
        try:
            if batches is None:
                data.to_parquet(folder, write_index=False)
                yield Path(folder)
            else:
                yield spooled(batches, Path(folder) / "input.parquet")
        finally:
            os.close(number)


@dataclass(frozen=True)
class InParts:
    """How the command line masks a table out-of-core.

    workers : number of Dask workers; None or 0 without a cluster: this process
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


@ledger.recording()
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
    profile: Path | None = None,
    force: bool = False,
    in_parts: InParts | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Mask the table in a file; everything that can be refused is refused before the work begins.

    report   : HTML page to write beside the release, or None
    profile  : file for what the run cost (JSON), or None
    in_parts : how to mask it in parts; None for all at once, in memory
    """
    began = time.perf_counter()
    loaded, key = Recipe.load(recipe), Key.find(key_file)
    kept = key_file is not None or "GPUANON_KEY" in os.environ
    if in_parts is not None and in_parts.resume and not kept:
        raise ParameterError("resume: the key of the interrupted run is needed", hint="--key-file, or GPUANON_KEY")
    inputs = [path for path in (source, recipe, key_file, reference) if path is not None] + recipe_inputs(loaded)
    pages = () if report is None else (report, figures_path(report))
    others = [*pages, *(path for path in (profile, in_parts and in_parts.report) if path is not None)]
    check_outputs(output, inputs, link=link, others=others, force=force)
    check_intervals(output, loaded)
    chosen = choose(backend)
    log(f"backend: {chosen.name} ({chosen.reason}); compiled functions: {describe_compiled()}")
    with progress.stage("read"):
        files = {} if report is None else {"input": source, "recipe": recipe}
        papers = [Paper(what, path.name, digest_of(path)) for what, path in files.items()]
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
            manifest = release.write(output, link=link, report=report, force=force, texts=texts, papers=papers)
    else:
        from gpuanon.engine.workers.clusters import on_cluster

        with on_cluster(in_parts.cluster, in_parts.workers, in_parts.report, log) as workers:
            manifest = protect_in_parts(
                source, loaded, output, key=key, backend=chosen.name, workers=workers,
                cell_rows=in_parts.cell, reference=sample, link=link, report=report, papers=papers,
                resume=in_parts.resume, resumable=kept, force=force, log=log,
            )  # fmt: skip
    names = (
        "rows_in",
        "rows_out",
        "rows_added",
        "rows_dropped",
        "backend",
        "mask",
        "guarantee",
        "quasi",
        "verdict",
        "warnings",
    )
    if profile is not None and (written := ledger.current()) is not None:
        with Writing(force=force) as writing:
            writing.text(profile, json.dumps(written.to_json(), indent=1) + "\n")
    seconds = round(time.perf_counter() - began, 3)
    kept_columns, released = unmasked_columns(manifest)
    left = {"columns": list(kept_columns), "of": released}
    return {**{name: manifest[name] for name in names}, "unmasked": left, "seconds": seconds, "output": str(output)}


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
    papers: Sequence[Paper] = (),
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
    contents = InputContents.of(source, recipe)
    identity = identity_of(contents, recipe, key, cell_rows, chosen, reference)
    workspace = Workspace.begin(work_path(output), identity, resume=resume, force=force)
    try:
        store = FolderStore(workspace)
        masked = mask_input(
            FileInput(opened, store), recipe, key=key, backend=chosen, store=store, workers=workers,
            cell_rows=cell_rows, reference=reference, log=log,
        )  # fmt: skip
        contents.check_unchanged(source, recipe)
        manifest = {**masked.manifest, "cell_rows": cell_rows, "seconds": round(time.perf_counter() - began, 3)}
        manifest = write_release(
            masked, output, link, manifest=manifest, pieces=masked.released, force=force,
            fill=(lambda folder: _link_parts(store.release_folder, folder)) if format_of(output).is_folder else None,
            report=report, papers=papers, texts=Texts.of(source, output, recipe, workspace.folder),
        )  # fmt: skip
    except BaseException as error:
        met_again = isinstance(error, (InputError, RecipeError, ParameterError, GuaranteeError, FormatError))
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
