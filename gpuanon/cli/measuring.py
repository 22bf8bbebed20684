"""Commands that measure releases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gpuanon.cli.printing import (
    BackendChoice,
    Format,
    Json,
    Query,
    Report,
    Workspace,
    err,
    out,
    print_assessment,
    print_ranges,
    print_result,
    print_trials,
    require_report,
)
from gpuanon.errors import ParameterError


def assess(
    original: Annotated[str, typer.Argument(help="the table as it was", path_type=str)],
    release: Annotated[str, typer.Argument(help="the table as it is released", path_type=str)],
    recipe: Annotated[Path, typer.Option("--recipe", help="recipe that says what each column is")],
    reference: Annotated[Path | None, typer.Option(help="a second, non-overlapping sample of the population")] = None,
    control: Annotated[
        Path | None, typer.Option(help="records that are not in the table, for attacks; default: the reference")
    ] = None,
    link: Annotated[Path | None, typer.Option(help="the private link that protect wrote")] = None,
    measures: Annotated[str | None, typer.Option(help="names, with commas between; default: all that apply")] = None,
    sample_rows: Annotated[
        int | None, typer.Option(min=100, help="piece by piece: rows sampled where not all can be looked at")
    ] = None,
    query: Query = None,
    format_: Format = None,
    workspace: Workspace = None,
    backend: BackendChoice = "auto",
    report: Report = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite an earlier report")] = False,
    json_: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Measure the risk and the utility of a release."""
    from gpuanon.cli.printing import shown
    from gpuanon.engine.assess import assess as measure
    from gpuanon.engine.transfers import Transfers

    names = None if measures is None else tuple(name.strip() for name in measures.split(",") if name.strip())
    require_report(report, (Path(original), Path(release), recipe, reference, control, link), force)
    with shown(err, quiet=quiet), Transfers(workspace=workspace) as doors:
        before, after = doors.receive(original, query, format_), doors.receive(release, None, format_)
        result = measure(
            before, after, recipe, reference=reference, control=control, link=link, measures=names,
            sample_rows=sample_rows, backend=backend,
        )  # fmt: skip
        if report is not None:
            result.report(report, force=force)
    if json_:
        print_result(result.to_json())
    else:
        print_assessment(result)


def compare(
    input: Annotated[str, typer.Argument(help="table: a path or an address", path_type=str)],
    recipes: Annotated[
        list[Path] | None, typer.Argument(help="recipes; a list of values for a parameter is a grid")
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="try all methods that suit the columns; a recipe says columns and limits")
    ] = False,
    measures: Annotated[str | None, typer.Option(help="names, with commas between")] = None,
    choose: Annotated[
        str | None, typer.Option(help="measure of utility that decides, or mean-rank; default: marginals")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="30s, 2m, 1h: trials that are not done by then are left out and named; --suggest: 55s"),
    ] = None,
    limit: Annotated[list[str] | None, typer.Option(help="NAME=VALUE: a further limit, for every recipe")] = None,
    best: Annotated[Path | None, typer.Option(help="write the recipe of the best release: .toml or .json")] = None,
    reference: Annotated[Path | None, typer.Option(help="a second, non-overlapping sample of the population")] = None,
    query: Query = None,
    format_: Format = None,
    workspace: Workspace = None,
    backend: BackendChoice = "auto",
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="N workers share the trials (0: this process); default: one per core"),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="finished trials, for --resume; removed at the end; default: beside report or best"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue an interrupted comparison")] = False,
    key_file: Annotated[Path | None, typer.Option(help="file with the secret key of a reproducible run")] = None,
    report: Report = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite an earlier report, journal or best recipe")] = False,
    json_: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Mask and measure a table by several recipes, and name the best that keeps its limits."""
    from gpuanon.cli.printing import shown
    from gpuanon.comparing.compare import Choosing, compare_files
    from gpuanon.engine.outputs import check_best
    from gpuanon.engine.transfers import Transfers

    names = None if measures is None else tuple(name.strip() for name in measures.split(",") if name.strip())
    inputs = (Path(input), *(recipes or ()), reference, key_file)
    require_report(report, inputs, force)
    journal = journal or _beside(report or best)
    for path in (journal, *([] if best is None else [best])):
        check_best(path, [one for one in inputs if one is not None], force=force or path == journal)
    how = Choosing(choose, _limits(limit or []), suggest, workers, journal, resume, force, _seconds(time))
    with shown(err, quiet=quiet), Transfers(workspace=workspace) as doors:
        source = doors.receive(input, query, format_)
        result = compare_files(
            source, recipes or [], names=names, reference=reference, backend=backend, key_file=key_file, how=how
        )
    if report is not None:
        result.report(report, force=force)
    if best is not None and result.best is not None:
        result.write_best(best, force=force)
    journal.unlink(missing_ok=True)
    if json_:
        print_result(result.to_json())
    else:
        print_trials(result)
        if best is not None and result.best is not None:
            out.print(f"Next: gpuanon protect {input} {best} -o release.parquet", highlight=False, markup=False)


def _beside(output: Path | None) -> Path:
    """The journal of a comparison: beside what it writes, or here where it only prints."""
    return Path("gpuanon-compare.journal") if output is None else output.with_name(f"{output.name}.journal")


def _seconds(text: str | None) -> float | None:
    """A time as the command line has it."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h|)", text.strip())
    if found is None or float(found[1]) == 0:
        raise ParameterError(f"--time: seconds, or a number with s, m or h, are allowed, got {text!r}")
    return float(found[1]) * {"h": 3600.0, "m": 60.0}.get(found[2], 1.0)


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


def intervals(
    release: Annotated[Path, typer.Argument(help="release of boxes: NAME_low and NAME_high, or columns of intervals")],
    statistic: Annotated[
        list[str] | None,
        typer.Option(help="mean, variance, sd, covariance, correlation, covariance(a, b), regression(y ~ a + b), ..."),
    ] = None,
    json_: Json = False,
) -> None:
    """Print guaranteed ranges of statistics, from the boxes of a release alone."""
    from gpuanon.engine.interval_files import intervals as ranges_of

    result = ranges_of(release, statistic)
    if json_:
        print_result(result.to_json())
        return
    print_ranges(result)
