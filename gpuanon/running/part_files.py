"""A run in parts from files to files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gpuanon import __version__
from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.rng import Key
from gpuanon.errors import GuaranteeError, InputError, OutputError, ParameterError, RecipeError
from gpuanon.recipe import Recipe
from gpuanon.running.auto_target import is_open
from gpuanon.running.parts import CELL_ROWS, Runner, in_turn, protect_parts
from gpuanon.running.plan import require_backend
from gpuanon.running.release import manifest_path
from gpuanon.running.sources import in_parquet, parquet_parts
from gpuanon.running.workspace import Workspace
from gpuanon.tables.files import io
from gpuanon.tables.files.reading import parquet_files

ClusterKind: TypeAlias = Literal["none", "local", "cuda", "slurm", "mpi"]


@dataclass(frozen=True)
class InParts:
    """How the command line masks a table in parts.

    workers : number of workers; None or 0 without a cluster: this process
    cluster : where the workers are
    cell    : rows that are masked together, about; None for `CELL_ROWS`
    resume  : go on with an interrupted run
    report  : file for Dask's performance report, or None
    """

    workers: int | None = None
    cluster: ClusterKind = "none"
    cell: int | None = None
    resume: bool = False
    report: Path | None = None

    def check(self, link: Path | None, reference: Path | None, key_file: Path | None) -> None:
        """Refuse what a run in parts does not have."""
        if link or reference:
            raise ParameterError(
                "link, reference: a run in parts has neither", hint="without --workers, --cluster, --cell and --resume"
            )
        if self.resume and key_file is None and "GPUANON_KEY" not in os.environ:
            raise ParameterError("resume: the key of the interrupted run is needed", hint="--key-file, or GPUANON_KEY")


def protect_on_cluster(
    source: Path,
    recipe: Recipe,
    output: Path,
    how: InParts,
    *,
    key: Key,
    backend: BackendName,
    resumable: bool,
    force: bool,
    log: Callable[[str], None],
) -> dict[str, Any]:
    """Mask the table at `source` in parts, in this process or on a cluster that is started for it; the manifest.

    resumable : whether the key is kept somewhere, so that an interrupted run can be resumed
    """
    from gpuanon.running.dask import OnWorkers, cluster, greeting, performance_report

    kind = "local" if how.cluster == "none" and how.workers else how.cluster
    with cluster(kind, how.workers) as client, performance_report(client, how.report):
        runner = in_turn if client is None else OnWorkers(client)
        if client is not None:
            log(greeting(kind, client))
        return protect_in_parts(
            source,
            recipe,
            output,
            key=key,
            backend=backend,
            runner=runner,
            cell_rows=how.cell or CELL_ROWS,
            resume=how.resume,
            resumable=resumable,
            force=force,
            log=log,
        )


def protect_in_parts(
    source: Path,
    recipe: Recipe,
    output: Path,
    *,
    key: Key,
    backend: BackendName = "auto",
    runner: Runner = in_turn,
    cell_rows: int = CELL_ROWS,
    resume: bool = False,
    resumable: bool = True,
    force: bool = False,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Mask the table at `source` in parts and write `output`, a file or a folder of Parquet parts; the manifest.

    The run works in a private folder beside the output.  It is removed when the run ends, and when it fails for a
    reason that a second try would meet again; an interrupted run leaves it for ``resume``, unless it cannot be resumed
    because nobody has its key.
    """
    began = time.perf_counter()
    io.check_output(output, force=force, inputs=[source])
    io.check_output(manifest_path(output), force=force, table=False)
    io.open(source)  # a missing or broken input is named before anything is made
    chosen = choose(backend)
    for mask in recipe.mask:
        if not is_open(mask):
            require_backend(mask.combination(), chosen)
    identity = _identity(source, recipe, key, cell_rows, chosen.name)
    workspace = Workspace.begin(work_path(output), identity, resume=resume, force=force)
    try:
        text = [n for n, spec in recipe.columns.items() if spec.kind == "categorical" or spec.role == "identifier"]
        parts = parquet_parts(in_parquet(source, workspace.folder, text))
        released = workspace.path("release")
        released.mkdir(exist_ok=True)
        manifest = protect_parts(
            parts, recipe, key, chosen, workspace, released, runner=runner, cell_rows=cell_rows, log=log
        )
        if _identity(source, recipe, key, cell_rows, chosen.name) != identity:
            raise InputError(f"{source}: was changed while it was read; nothing was written")
        manifest["cell_rows"] = cell_rows
        manifest["seconds"] = round(time.perf_counter() - began, 3)
        _commit(released, output, manifest, force)
    except (InputError, RecipeError, ParameterError, GuaranteeError):
        workspace.end()
        raise
    except BaseException:
        if not resumable:
            workspace.end()
        raise
    workspace.end()
    return manifest


def work_path(output: Path) -> Path:
    """The private folder of a run, beside its output."""
    return output.absolute().with_name(f".{output.name}.gpuanon-work")


def _identity(source: Path, recipe: Recipe, key: Key, cell_rows: int, backend: str) -> dict[str, Any]:
    """What decides a release; the key by a digest that does not lead back to it."""
    files = parquet_files(source) if source.is_dir() else [source]
    seen = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    decides = [seen, recipe.model_dump(mode="json"), cell_rows, backend, __version__]
    digest = hashlib.blake2b(json.dumps(decides).encode(), digest_size=16)
    return {"run": digest.hexdigest(), "key": key.digest()}


def _linked(file: Path, place: Path) -> None:
    """A second name for the file: a commit that fails must not cost what a resumed run needs."""
    try:
        os.link(file, place)
    except OSError:  # a file system without hard links
        try:
            shutil.copyfile(file, place)
        except OSError as error:
            raise OutputError(f"{place.parent}: cannot be written ({error.strerror or 'input/output error'})") from None


def _commit(released: Path, output: Path, manifest: dict[str, Any], force: bool) -> None:
    """Put the release parts in place, as a folder or as one file, together with the manifest."""
    import pyarrow.parquet as pq

    files = sorted(released.glob("part-*.parquet"))
    with io.Writing(force=force) as out:
        out.text(manifest_path(output), json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
        if output.suffix:
            put = out.stream(output, pq.read_schema(files[0]).remove_metadata())
            for file in files:
                put(pq.read_table(file).replace_schema_metadata(None))
        else:
            folder = out.folder(output)
            for file in files:
                _linked(file, folder / file.name)
