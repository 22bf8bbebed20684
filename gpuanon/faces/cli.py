"""The command line.  Results on stdout (``--json`` for machines), progress and log on stderr.

Exit codes: 0 done; 1 a guarantee or limit was not met (nothing written); 2 bad usage, recipe or input.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from gpuanon import __version__
from gpuanon.arrays import interruption
from gpuanon.errors import GpuanonError, ParameterError, Remark
from gpuanon.faces.printing import (
    err,
    out,
    print_assessment,
    print_catalogue,
    print_explanation,
    print_json,
    print_ranges,
    print_release,
    print_trials,
)
from gpuanon.tables.files.formats import ALLOWED
from gpuanon.tables.files.places import PLACED

app = typer.Typer(
    name="gpuanon",
    help="Mask a registry, verify what the release promises, measure risk and utility.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a pretty traceback shows local variables: cell values
)


def examples(*commands: str) -> str:
    """Commands as they stand below the help of a command."""
    return "\n\n".join(["Examples:", *commands])


def _purposes() -> list[tuple[str, str]]:
    """Names and summaries of the ready recipes, for completion."""
    from gpuanon.masking.methods.purposes import PURPOSES

    return [(purpose.name, purpose.summary) for purpose in PURPOSES]


def _explained() -> list[tuple[str, str]]:
    """Names of methods, parts and measures with their summaries, for completion."""
    from gpuanon.faces.explaining import names

    return list(names().items())


RecipePath = Annotated[Path, typer.Argument(help="recipe: .toml, .yaml or .json")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object")]
Force = Annotated[bool, typer.Option("--force", help="overwrite existing files")]
Report = Annotated[Path | None, typer.Option("--report", help="write an HTML report (needs gpuanon[report])")]
Cell = Annotated[
    int | None,
    typer.Option(min=1000, help="in parts: rows that are masked together, about (100 000; on a GPU: what it holds)"),
]
BackendChoice = Annotated[Literal["auto", "numpy", "cupy"], typer.Option(help="where the arrays live")]


@app.command(epilog=examples(
    "gpuanon init registry.csv -o recipe.toml",
    "gpuanon init registry.parquet --for public-use --yes -o recipe.toml",
))  # fmt: skip
def init(
    table: Annotated[Path, typer.Argument(help=f"table: {ALLOWED}")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="recipe to write (.toml); default: print it")
    ] = None,
    purpose: Annotated[
        str | None,
        typer.Option("--for", help="what the release is for: see 'gpuanon recipes'", autocompletion=_purposes),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="take every proposal, ask nothing")] = False,
    force: Annotated[bool, typer.Option("--force", help="overwrite an earlier proposal")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Look at a table and propose a recipe, with a reason beside each choice."""
    from gpuanon.faces.progress_bar import shown
    from gpuanon.faces.proposing import init as propose

    ask = not yes and sys.stdin.isatty() and err.is_terminal
    with shown(err, quiet=quiet or ask):
        propose(table, output, purpose, ask=ask, force=force, out=out, err=err)


@app.command(epilog=examples("gpuanon recipes", "gpuanon init registry.csv --for training"))
def recipes(json_: Json = False) -> None:
    """List the ready recipes by purpose, and which measures each is held to."""
    from gpuanon.faces.proposing import show_purposes
    from gpuanon.masking.methods.purposes import PURPOSES

    if json_:
        print_json([purpose.to_json() for purpose in PURPOSES])
    else:
        show_purposes(out)


@app.command(
    epilog=examples(
        "gpuanon protect registry.parquet recipe.toml -o release.parquet --report report.html",
        "gpuanon protect registry/ recipe.toml -o release/ --workers 8 --key-file key --resume",
    )
)
def protect(
    input: Annotated[Path, typer.Argument(help=f"table: {ALLOWED}")],
    recipe: RecipePath,
    output: Annotated[Path, typer.Option("-o", "--output", help="release to write")],
    backend: BackendChoice = "auto",
    workers: Annotated[
        int | None, typer.Option(min=0, help="mask in parts, on so many workers; 0: in parts, in this process")
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
    force: Force = False,
    json_: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress, no log")] = False,
) -> None:
    """Mask a table as a recipe says; write the release only if its guarantee was verified on it."""
    from gpuanon.faces.progress_bar import shown
    from gpuanon.running.protect import InParts, protect_file

    _require(report)
    how = InParts(workers, cluster, cell, resume, dask_report)
    with shown(err, quiet=quiet):
        result = protect_file(
            input, recipe, output, backend=backend, key_file=key_file, reference=reference, link=link, report=report,
            force=force, in_parts=None if how == InParts() else how,
            log=(lambda text: None) if quiet else (lambda text: err.print(text, style="dim", markup=False)),
        )  # fmt: skip
    for warning in () if quiet else result["warnings"]:
        err.print(f"warning: {warning}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if json_:
        print_json(result)
    else:
        print_release(result)


@app.command(
    epilog=examples(
        "gpuanon assess registry.parquet release.parquet --recipe recipe.toml --link link.csv",
        "gpuanon assess registry.csv release.csv --recipe recipe.toml --measures k_anonymity,suda2 --json",
    )
)
def assess(
    original: Annotated[Path, typer.Argument(help="the table as it was")],
    release: Annotated[Path, typer.Argument(help="the table as it is released")],
    recipe: Annotated[Path, typer.Option("--recipe", help="recipe that says what each column is")],
    reference: Annotated[Path | None, typer.Option(help="a second, non-overlapping sample of the population")] = None,
    link: Annotated[Path | None, typer.Option(help="the private link that protect wrote")] = None,
    measures: Annotated[str | None, typer.Option(help="names, with commas between; default: all that apply")] = None,
    sample_rows: Annotated[
        int | None, typer.Option(min=100, help="piece by piece: rows sampled where not all can be looked at")
    ] = None,
    backend: BackendChoice = "auto",
    report: Report = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite an earlier report")] = False,
    json_: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Measure the risk and the utility of a release."""
    from gpuanon.faces.progress_bar import shown
    from gpuanon.running.files import assess_files

    names = None if measures is None else tuple(name.strip() for name in measures.split(",") if name.strip())
    _require(report, (original, release, recipe, reference, link), force)
    with shown(err, quiet=quiet):
        result = assess_files(
            original, release, recipe, reference=reference, link=link, names=names, sample_rows=sample_rows,
            backend=backend,
        )  # fmt: skip
        if report is not None:
            result.report(report, force=force)
    if json_:
        print_json(result.to_json())
    else:
        print_assessment(result)


@app.command(epilog=examples("gpuanon compare registry.parquet recipe.toml other.toml --report map.html"))
def compare(
    input: Annotated[Path, typer.Argument(help="table")],
    recipes: Annotated[
        list[Path] | None, typer.Argument(help="recipes; a list of values for a parameter is a grid")
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="try all methods that suit the columns; a recipe says columns and limits")
    ] = False,
    measures: Annotated[str | None, typer.Option(help="names, with commas between")] = None,
    choose: Annotated[
        str | None, typer.Option(help="measure of utility that decides, or mean-rank; default: the first")
    ] = None,
    limit: Annotated[list[str] | None, typer.Option(help="NAME=VALUE: a further limit, for every recipe")] = None,
    best: Annotated[Path | None, typer.Option(help="write the recipe of the best release: .toml or .json")] = None,
    reference: Annotated[Path | None, typer.Option(help="a second, non-overlapping sample of the population")] = None,
    backend: BackendChoice = "auto",
    workers: Annotated[int | None, typer.Option(min=1, help="processes; default: as many as there are cores")] = None,
    journal: Annotated[Path, typer.Option(help="finished trials, for --resume; removed at the end")] = Path(
        "gpuanon-compare.journal"
    ),
    resume: Annotated[bool, typer.Option("--resume", help="continue an interrupted comparison")] = False,
    key_file: Annotated[Path | None, typer.Option(help="file with the secret key of a reproducible run")] = None,
    report: Report = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite an earlier report, journal or best recipe")] = False,
    json_: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Mask and measure a table by several recipes, and name the best that keeps its limits."""
    from gpuanon.faces.progress_bar import shown
    from gpuanon.running.files import Choosing, compare_files
    from gpuanon.running.outputs import check_best

    names = None if measures is None else tuple(name.strip() for name in measures.split(",") if name.strip())
    inputs = (input, *(recipes or ()), reference, key_file)
    _require(report, inputs, force)
    for path in (journal, *([] if best is None else [best])):
        check_best(path, [one for one in inputs if one is not None], force=force or path == journal)
    how = Choosing(choose, _limits(limit or []), suggest, workers, journal, resume, force)
    with shown(err, quiet=quiet):
        result = compare_files(
            input, recipes or [], names=names, reference=reference, backend=backend, key_file=key_file, how=how
        )
    if report is not None:
        result.report(report, force=force)
    if best is not None and result.best is not None:
        result.write_best(best, force=force)
    journal.unlink(missing_ok=True)
    if json_:
        print_json(result.to_json())
    else:
        print_trials(result)
        if best is not None and result.best is not None:
            out.print(f"Next: gpuanon protect {input} {best} -o release.parquet", highlight=False, markup=False)


def _limits(texts: Sequence[str]) -> dict[str, float]:
    """Limits as the command line has them."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise ParameterError(f"--limit: NAME=VALUE is allowed, got {text!r}") from None
    return found


@app.command(epilog=examples("gpuanon intervals release.parquet --statistic mean --statistic 'correlation(a, b)'"))
def intervals(
    release: Annotated[Path, typer.Argument(help="release of boxes: columns NAME_low and NAME_high")],
    statistic: Annotated[
        list[str] | None,
        typer.Option(help="mean, variance, sd, covariance, correlation, covariance(a, b), regression(y ~ a + b), ..."),
    ] = None,
    json_: Json = False,
) -> None:
    """Print guaranteed ranges of statistics, from the boxes of a release alone."""
    from gpuanon.running.intervals import intervals as ranges_of

    result = ranges_of(release, statistic)
    if json_:
        print_json(result.to_json())
        return
    print_ranges(result)


@app.command(epilog=examples("gpuanon demo --rows 10000 --report story.html"))
def demo(
    rows: Annotated[int, typer.Option(min=100, help="people in the registry")] = 100_000,
    out_dir: Annotated[Path, typer.Option("--out", help="folder to write to")] = Path("demo-release"),
    report: Report = None,
    force: Annotated[bool, typer.Option("--force", help="replace the files of an earlier demonstration")] = False,
) -> None:
    """Make a registry, mask it, show what a steward needs to see."""
    from gpuanon.faces.demo import run

    run(rows, out_dir, out, err, report=report, force=force)


@app.command(epilog=examples("gpuanon clean release.parquet"))
def clean(output: Annotated[Path, typer.Argument(help="release that an interrupted run was to write")]) -> None:
    """Remove what an interrupted run left beside its output: its workspace with personal data, and hidden files."""
    from gpuanon.running.outputs import clean as clean_up

    removed = clean_up(output)
    for path in removed:
        out.print(f"removed {path}", markup=False, highlight=False, soft_wrap=True)
    if not removed:
        out.print(f"nothing of an interrupted run lies beside {output}", markup=False, highlight=False, soft_wrap=True)


@app.command(epilog=examples("gpuanon check recipe.toml", "gpuanon check recipe.toml registry.parquet"))
def check(
    recipe: RecipePath,
    input: Annotated[Path | None, typer.Argument(help="also check the recipe against this table")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="no trial runs: nothing is said of promises, time and memory")
    ] = False,
    json_: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """The page to read before signing: warnings, what is dropped, masked and kept, what is promised, expected time."""
    from gpuanon.faces.progress_bar import shown
    from gpuanon.running.checking import checked

    with shown(err, quiet=quiet):
        found = checked(recipe, input, trial=not quick)
    if json_:
        print_json(found.to_json())
        return
    for line in found.lines():
        style = "yellow" if line.startswith("warning: ") else None
        out.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


@app.command(epilog=examples("gpuanon methods", "gpuanon methods --json"))
def methods(json_: Json = False) -> None:
    """List the masking methods, with their parameters and sources."""
    from gpuanon.masking.methods.catalogue import catalogue

    print_catalogue(catalogue(), json_)


@app.command(epilog=examples("gpuanon measures", "gpuanon measures --json"))
def measures(json_: Json = False) -> None:
    """List the measures of risk and utility."""
    from gpuanon.assessing.measures import catalogue

    print_catalogue(catalogue(), json_)


@app.command(epilog=examples("gpuanon explain microaggregation", "gpuanon explain suda2", "gpuanon explain mdav"))
def explain(
    name: Annotated[str, typer.Argument(help="a method, a part of a mask or a measure", autocompletion=_explained)],
    json_: Json = False,
) -> None:
    """Say what a method, part or measure does: formula, parameters, promise, source."""
    from gpuanon.faces.explaining import explain as explanation

    found = explanation(name)
    if json_:
        print_json(found.to_json())
        return
    print_explanation(found)


@app.command(epilog=examples("gpuanon schema > recipe.schema.json"))
def schema() -> None:
    """Print the JSON Schema of a recipe."""
    from gpuanon.recipe import Recipe

    print_json(Recipe.model_json_schema())


@app.command(epilog=examples("gpuanon doctor", "gpuanon doctor --full"))
def doctor(
    json_: Json = False,
    full: Annotated[bool, typer.Option("--full", help="whole runs of a million rows on both backends too")] = False,
    rows: Annotated[int, typer.Option(hidden=True, min=100)] = 1_000_000,
) -> None:
    """Say what this machine has, and check every kernel on it."""
    from gpuanon.faces.doctor import examine, rendered

    findings = examine(full_rows=rows if full else None)
    if json_:
        print_json(findings)
    else:
        out.print(rendered(findings), markup=False, highlight=False)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """Mask a registry, verify what the release promises, measure risk and utility."""
    if version:
        print(f"gpuanon {__version__}")
        raise typer.Exit


class Terminated(BaseException):
    """SIGTERM, which batch systems send: to be cleaned up after like an interrupt."""


class Interrupted(BaseException):
    """SIGINT (Ctrl-C).  Not a `KeyboardInterrupt`, which typer turns into an exit without a message."""


def main() -> None:
    """Run the command line; every failure is one clear message and an exit code."""
    PLACED.clear()
    signal.signal(signal.SIGTERM, lambda number, frame: interruption.interrupt(Terminated()))
    signal.signal(signal.SIGINT, lambda number, frame: interruption.interrupt(Interrupted()))
    try:
        app()
    except GpuanonError as error:
        _fail(str(error), error.exit_code, error)
    except (Interrupted, KeyboardInterrupt) as error:
        _fail(f"interrupted; {_written()}", 130, error)
    except Terminated as error:
        _fail(f"terminated; {_written()}", 143, error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except MemoryError as error:
        _fail(f"out of memory; {_written()}\nHint: --workers spreads the work over parts that fit", 2, error)
    except Exception as error:  # an unforeseen error's own text may quote a cell
        where = traceback.extract_tb(error.__traceback__)[-1]
        if os.environ.get("GPUANON_DEBUG"):
            raise
        place = f"{Path(where.filename).name}:{where.lineno}"
        _fail(
            f"internal error: {type(error).__name__} at {place}; {_written()}\n"
            "Hint: GPUANON_DEBUG=1 shows the whole traceback, which may quote cell values",
            2,
            error,
        )


def _require(report: Path | None, inputs: Sequence[Path | None] = (), force: bool = False) -> None:
    """Refuse a report that cannot be written, before any work is done; `protect` checks its outputs itself."""
    if report is None:
        return
    from gpuanon.faces.report import require
    from gpuanon.running.outputs import check_report

    require()
    if inputs:
        check_report(report, [path for path in inputs if path is not None], force=force)


def _written() -> str:
    """What a run that failed has written, for its message."""
    return f"these files were written before: {', '.join(map(str, PLACED))}" if PLACED else "nothing was written"


def _fail(message: str, code: int, error: BaseException) -> None:
    """Print the message, and the notes that the run added to the error: what is left, and where."""
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, Remark)]
    err.print("\n".join([f"error: {message}", *notes]), style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
