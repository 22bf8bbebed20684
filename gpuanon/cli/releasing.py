"""Commands that make a release: from the proposal of a recipe to what an interrupted run left."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from gpuanon.cli.printing import (
    BackendChoice,
    Force,
    Format,
    Json,
    Query,
    RecipePath,
    Report,
    Workspace,
    err,
    literal,
    out,
    print_json,
    print_line,
    print_release,
    print_result,
    require_report,
)
from gpuanon.tables.formats import known_formats


def _purposes() -> list[tuple[str, str]]:
    """Names and summaries of the ready recipes, for completion."""
    from gpuanon.proposing.purposes import PURPOSES

    return [(purpose.name, purpose.summary) for purpose in PURPOSES]


def init(
    table: Annotated[str, typer.Argument(help=literal(f"table: {known_formats()}; or an address"), path_type=str)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="recipe to write (.toml); default: print it")
    ] = None,
    purpose: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="what the release is for, which decides mask and limits: research (default), public-use, training, "
            "statistics, hipaa; 'gpuanon recipes' describes them",
            autocompletion=_purposes,
        ),
    ] = None,
    csv: Annotated[
        list[str] | None,
        typer.Option(
            help=literal("NAME=VALUE: how a CSV is read, as under [csv] of a recipe, where it is not found out")
        ),
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(
            help="what is known of the columns, .csv or .json: name, label, type, levels, missing, role; it wins"
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="drop columns of which nothing is known; without it they are masked with the others"
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="take every proposal, ask nothing")] = False,
    query: Query = None,
    format_: Format = None,
    workspace: Workspace = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite an earlier proposal")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Look at a table and propose a recipe, with a reason beside each choice."""
    from gpuanon.cli.printing import shown
    from gpuanon.engine.transfers import Transfers
    from gpuanon.proposing.dialogue import init as propose

    ask = not yes and sys.stdin.isatty() and err.is_terminal
    with shown(err, quiet=quiet or ask), Transfers(workspace=workspace) as doors:
        source = doors.receive(table, query, format_)
        propose(
            source, output, purpose, ask=ask, force=force, out=out, err=err, csv=csv or [], codebook=codebook,
            strict=strict,
        )  # fmt: skip


def recipes(json_: Json = False) -> None:
    """List the ready recipes by purpose, and which measures each is held to."""
    from gpuanon.proposing.dialogue import show_purposes
    from gpuanon.proposing.purposes import PURPOSES

    if json_:
        print_json([purpose.to_json() for purpose in PURPOSES])
    else:
        show_purposes(out)


def check(
    first: Annotated[
        str, typer.Argument(metavar="[INPUT]", help="table that the recipe is checked against", path_type=str)
    ],
    second: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="recipe: .toml, .yaml or .json", path_type=str)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="no trial runs: nothing is said of promises, time and memory")
    ] = False,
    query: Query = None,
    format_: Format = None,
    workspace: Workspace = None,
    json_: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Dry run: what the recipe drops, masks, keeps and guarantees, with warnings and the expected time."""
    from gpuanon.cli.printing import shown
    from gpuanon.engine.checking import checked
    from gpuanon.engine.transfers import Transfers

    recipe, table = _recipe_and_table(first, second)
    with shown(err, quiet=quiet), Transfers(workspace=workspace) as doors:
        found = checked(recipe, None if table is None else doors.receive(table, query, format_), trial=not quick)
    if json_:
        print_result(found.to_json())
        return
    for line in found.lines():
        print_line(out, line, "yellow" if line.startswith("warning: ") else None)


def _recipe_and_table(first: str, second: str | None) -> tuple[Path, str | None]:
    """Which of two files is the recipe: the second, as for `protect`, unless the names say that it is the first."""
    suffixes = (".toml", ".yaml", ".yml", ".json")
    if second is None or (first.lower().endswith(suffixes) and not second.lower().endswith(suffixes)):
        return Path(first), second
    return Path(second), first


def protect(
    input: Annotated[str, typer.Argument(help=literal(f"table: {known_formats()}; or an address"), path_type=str)],
    recipe: RecipePath,
    output: Annotated[
        str, typer.Option("-o", "--output", help="release to write: a file, a folder or an address", path_type=str)
    ],
    query: Query = None,
    format_: Format = None,
    workspace: Workspace = None,
    backend: BackendChoice = "auto",
    workers: Annotated[
        int | None, typer.Option(min=0, help="out-of-core with N Dask workers (0: this process)")
    ] = None,
    cluster: Annotated[
        Literal["none", "local", "cuda", "slurm", "mpi"], typer.Option(help="where the workers are")
    ] = "none",
    cell: Annotated[
        int | None, typer.Option(min=1000, help="in parts: rows masked together (100 000; GPU: what it holds)")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue an interrupted run in parts")] = False,
    dask_report: Annotated[Path | None, typer.Option(help="write Dask's performance report (HTML)")] = None,
    key_file: Annotated[Path | None, typer.Option(help="file with the secret key of a reproducible run")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="a second sample of the population, for limits that need one")
    ] = None,
    link: Annotated[
        Path | None, typer.Option(help="PRIVATE: write the original row number of each released row")
    ] = None,
    report: Report = None,
    profile: Annotated[
        Path | None, typer.Option(help="write what the run cost: seconds by stage, launches, peak memory (JSON)")
    ] = None,
    force: Force = False,
    json_: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress, no log")] = False,
) -> None:
    """Mask a table as a recipe says; write the release only if its guarantee was verified on it."""
    from gpuanon.cli.printing import shown
    from gpuanon.engine.protect import InParts, protect_file
    from gpuanon.engine.transfers import Transfers

    require_report(report)
    how = InParts(workers, cluster, cell, resume, dask_report)
    with shown(err, quiet=quiet), Transfers(output, workspace, resume=resume) as doors:
        source = doors.receive(input, query, format_)
        target = doors.target(output, format=format_, force=force, link=link is not None)
        result = protect_file(
            source, recipe, target, backend=backend, key_file=key_file, reference=reference, link=link, report=report,
            profile=profile, force=force, in_parts=None if how == InParts() else how,
            log=(lambda text: None) if quiet else (lambda text: err.print(text, style="dim", markup=False)),
        )  # fmt: skip
        doors.send()
    result["output"] = output
    for warning in () if quiet else result["warnings"]:
        print_line(err, f"warning: {warning}", "yellow")
    if json_:
        print_result(result, sys.stderr if output == "-" else sys.stdout)
    elif not quiet:
        print_release(result, err if output == "-" else out)


def clean(
    output: Annotated[
        str, typer.Argument(help="release that an interrupted run was to write: a path or an address", path_type=str)
    ],
    workspace: Workspace = None,
) -> None:
    """Remove what an interrupted run left: its workspace with personal data, and hidden files."""
    from gpuanon.engine.outputs import clean as clean_up
    from gpuanon.engine.transfers import clean_private
    from gpuanon.tables.doors import is_address
    from gpuanon.tables.formats.places import mend

    completed, removed = [], clean_private(output, workspace)
    if not is_address(output):
        completed = mend(Path(output).absolute().parent)
        removed += clean_up(Path(output))
    for path in completed:
        print_line(out, f"completed {path}")
    for path in removed:
        print_line(out, f"removed {path}")
    if not removed and not completed:
        print_line(out, f"nothing of an interrupted run lies beside {output}")


def demo(
    rows: Annotated[int, typer.Option(min=100, help="people in the registry")] = 100_000,
    out_dir: Annotated[Path, typer.Option("--out", help="folder to write to")] = Path("demo-release"),
    report: Report = None,
    force: Annotated[bool, typer.Option("--force", help="replace the files of an earlier demonstration")] = False,
) -> None:
    """Make a registry, mask it, show what a steward needs to see."""
    from gpuanon.cli.demo import run

    run(rows, out_dir, out, err, report=report, force=force)
