"""What commands share: options, progress on stderr, results as tables for people and as JSON for machines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from gpuanon.arrays.progress import listening
from gpuanon.visible import json_text, visible

if TYPE_CHECKING:
    from gpuanon.cli.explaining import Explanation
    from gpuanon.comparing.trials import Trials
    from gpuanon.engine.assess import Assessment
    from gpuanon.engine.interval_files import Intervals


class SafeConsole(Console):
    """A console on which names of columns, files and levels are shown and never obeyed, whoever prints them."""

    def render_str(self, text: str, **options: Any) -> Text:
        """The text with hidden characters as escapes: here, so that tables are as wide as what they show."""
        return super().render_str(visible(text), **options)

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        """What is printed, from texts that others made too."""
        for segment in super().render(*arguments, **options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


out, err = SafeConsole(emoji=False), SafeConsole(stderr=True, emoji=False)  # a name like ":x:" stays as it is


def print_line(console: Console, text: str, style: str | None = None) -> None:
    """One line, whatever names are in it."""
    line = visible(text, lines=False)
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def print_json(data: Any, file: TextIO | None = None) -> None:
    """One strict JSON document; on stdout unless it holds a release."""
    print(json_text(data, indent=2, default=str), file=file or sys.stdout)


def print_result(data: Mapping[str, Any], file: TextIO | None = None) -> None:
    """The result of a command as JSON, with the version of its form: see `gpuanon.cli.schemas`."""
    print_json({"schema": "gpuanon/1", **data}, file)


def groups_text(mask: Mapping[str, Any]) -> str:
    """How many groups a mask formed, or how many classes it found, and the smallest of them."""
    groups, before = mask["groups_formed"], mask.get("smallest_class_before")
    if before is not None:
        return f"{groups:,} classes before it, the smallest of {before:,} record{'s' * (before != 1)}"
    smallest = mask["smallest_group"]
    if groups == 1:
        return f"one group of {smallest:,} record{'s' * (smallest != 1)}"
    return f"{groups:,} groups, the smallest of {smallest:,} record{'s' * (smallest != 1)}"


_MARKS = {"good": "✓", "open": "!", "bad": "✗"}
_TOLD_WARNINGS = 3


def print_release(result: dict[str, Any], console: Console = out) -> None:
    """A release in a few lines."""
    table = RichTable(show_header=False, box=None, pad_edge=False)
    rate = result["rows_in"] / max(result["seconds"], 1e-9)
    rows = f"{result['rows_in']:,} in, {result['rows_out']:,} out"
    if result["rows_added"] == result["rows_out"] > 0:
        rows += ", all of them drawn anew"
    else:
        changes = ("added", "dropped")
        rows += "".join(f", {result[f'rows_{one}']:,} {one}" for one in changes if result[f"rows_{one}"])
    table.add_row("rows", rows)
    for mask in result["mask"]:
        name = mask.get("method") or " × ".join(mask[part]["use"] for part in ("groups", "basis", "operation"))
        table.add_row("mask", escape(f"{name} on {', '.join(mask['columns'])}"))
        table.add_row("", groups_text(mask))
    for guarantee in result["guarantee"]:
        table.add_row("guarantee", escape(guarantee["statement"]))
        table.add_row("", "verified on what was written" if guarantee["verified"] else "nothing to verify")
    quasi = result["quasi"]
    if quasi["columns"]:
        count, unit = quasi["smallest_class"], quasi["unit"]
        smallest = f"{count:,} {unit}{'s' * (count != 1)} in the smallest class over all of"
        table.add_row("quasi-identifiers", escape(f"{smallest} {', '.join(quasi['columns'])}"))
        if quasi["kept"]:
            table.add_row("", escape(f"released as they are: {', '.join(quasi['kept'])}"))
    left = result["unmasked"]
    names = f": {', '.join(left['columns'])}" if left["columns"] else ""
    table.add_row("left unmasked", escape(f"{len(left['columns'])} of {left['of']} columns{names}"))
    for text, state in verdict_lines(result["verdict"]):
        table.add_row("verdict" if state is None else "", escape(text))
    table.add_row("time", f"{result['seconds']:.1f} s on {result['backend']} ({rate:,.0f} rows/s)")
    table.add_row("written", escape(str(result["output"])))
    console.print(table, highlight=False)


def verdict_lines(verdict: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """The verdict in the words of the report: the headline, then its points, the worst first."""
    from gpuanon.report.verdict import headline_of, point_check, ranked

    lines: list[tuple[str, str | None]] = [(f"{_MARKS[verdict['state']]} {headline_of(verdict)}", None)]
    kept = [point for point in verdict["points"] if point["name"] != "promise" or point["state"] != "good"]
    checks = ranked([point_check(point) for point in kept])  # promises that were kept stand above
    warned = [check for check in checks if check.name == "warnings"]
    for check in checks:
        if check not in warned[_TOLD_WARNINGS:]:
            accepted = f" Accepted by the recipe: {check.accepted}." if check.accepted else ""
            lines.append((f"{_MARKS[check.state]} {check.what}: {check.how}.{accepted}", check.state))
    if bad := [point["name"] for point in verdict["points"] if point["state"] == "bad"]:
        accept = ", ".join(f'{name} = "…"' for name in bad)
        lines.append((f"  A recipe accepts it with a reason, accept = {{ {accept} }}, or refuses it by a limit", "bad"))
    if warned[_TOLD_WARNINGS:]:
        lines.append((f"! {len(warned) - _TOLD_WARNINGS} more warnings, which are in the manifest", "open"))
    return lines


def print_assessment(result: Assessment) -> None:
    """Risk and utility as tables; what measures have to say besides comes below, once."""
    from gpuanon.assessing.figures import figure_text
    from gpuanon.assessing.measures import MEASURES

    notes: dict[str, list[str]] = {}
    for family in ("risk", "utility"):
        chosen = [
            m
            for m in MEASURES.values()
            if m.family == family and (m.name in result.measured or m.name in result.failed)
        ]
        if not chosen:
            continue
        table = RichTable(title=family.capitalize(), title_justify="left", show_edge=False)
        table.add_column("measure", no_wrap=True)
        table.add_column("value", justify="right", no_wrap=True)
        table.add_column("worst")
        table.add_column("what it is (better: ↑ more, ↓ less)")
        for measure in chosen:
            arrow = "↑" if measure.better == "higher" else "↓"
            figure = result.measured.get(measure.name)
            if figure is None:
                table.add_row(measure.name, "–", "", escape(f"{arrow} {result.failed[measure.name]}"))
                continue
            worst = "" if figure.worst is None else f"{figure.worst[0]} {figure_text(figure.worst[1])}"
            beside = [f"{one.label} {figure_text(one.value)}" for one in figure.beside if one.value is not None]
            if figure.interval is not None:
                ends = figure.interval
                beside.insert(0, f"{ends.level:.0%} interval {figure_text(ends.low)} to {figure_text(ends.high)}")
            reading = "; ".join([measure.summary, *beside])
            table.add_row(measure.name, figure_text(figure.value), escape(worst), escape(f"{arrow} {reading}"))
            if figure.note is not None:
                notes.setdefault(figure.note, []).append(measure.name)
        out.print(table, highlight=False)
    for note, names in notes.items():
        out.print(f"{', '.join(names)}: {note}", highlight=False, markup=False)
    for note in result.notes:
        print_line(out, f"Note: {note}")


def print_trials(result: Trials) -> None:
    """Trials as a table, the best marked; those that were refused below it, by the reason."""
    from gpuanon.assessing.figures import figure_text

    kept = [trial for trial in result.trials if not trial.refused]
    names = list(dict.fromkeys(name for trial in kept for name in trial.measured))
    table = RichTable(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("recipe", no_wrap=True)
    for heading in ("rows kept", "promise", "verdict"):
        table.add_column(heading, justify="right", overflow="fold", min_width=5)
    for name in names:
        table.add_column(name.replace("_", " "), justify="right", overflow="fold", min_width=7)
    for trial in kept:
        figures = [figure_text(trial.measured[name]) if name in trial.measured else "–" for name in names]
        mark = " ←" if trial is result.best else ""
        rows = "–" if trial.kept is None else "new" if trial.kept == 0 else f"{100 * trial.kept:.3g}%"
        table.add_row(escape(trial.name + mark), rows, trial.promised, trial.state or "–", *figures)
    if kept:
        out.print(table, highlight=False)
    refused: dict[str, list[str]] = {}
    failed: dict[str, list[str]] = {}
    for trial in result.trials:
        if trial.refused:
            refused.setdefault(trial.refused.splitlines()[0], []).append(trial.name)
        for name, reason in trial.failed.items():
            failed.setdefault(f"{name}: {reason}", []).append(trial.name)
    for reason, of in failed.items():
        out.print(f"Not measured: {'; '.join(of)}\n    {reason}", highlight=False, markup=False)
    left: dict[str, list[str]] = {}
    for name, reason in result.left_out.items():
        left.setdefault(reason, []).append(name)
    for reason, of in left.items():
        out.print(f"Left out: {'; '.join(of)}\n    {reason}", highlight=False, markup=False)
    for reason, of in refused.items():
        out.print(f"Refused: {'; '.join(of)}\n    {reason}", highlight=False, markup=False)
    if result.best is not None:
        out.print(f"Best: {result.best.name}, by {result.rule}", highlight=False, markup=False)
    for note in result.notes:
        print_line(out, f"Note: {note}")


def print_catalogue(entries: list[dict[str, Any]], json_: bool) -> None:
    """Methods or measures, one per row."""
    if json_:
        print_json(entries)
        return
    table = RichTable(show_edge=False)
    for heading in ("name", "what it does", "parameters", "source"):
        table.add_column(heading, no_wrap=heading == "name")
    for entry in entries:
        parameters = ", ".join(
            f"{name} = {details['default']}" if "default" in details else name
            for name, details in entry["parameters"].items()
        )
        table.add_row(entry["name"], entry["summary"], parameters, entry["source"])
    out.print(table, highlight=False)
    for entry in entries:
        for name, details in entry["parameters"].items():
            if "values" in details:
                _print_values(f"{entry['name']}, {name} =", details)


def _print_values(heading: str, details: dict[str, Any]) -> None:
    """What each value of a parameter means, a line each."""
    table = RichTable(title=heading, title_justify="left", show_edge=False, show_header=False, box=None)
    table.add_column(no_wrap=True)
    table.add_column()
    for value in details["enum"]:
        table.add_row(value, details["values"][value])
    out.print()
    out.print(table, highlight=False)


def print_ranges(result: Intervals) -> None:
    """Guaranteed ranges of statistics, one per row."""
    from gpuanon.assessing.figures import figure_text

    table = RichTable("statistic", "low", "high", "how")
    for found in result.ranges:
        table.add_row(escape(found.name), figure_text(found.low, 6), figure_text(found.high, 6), found.how)
    out.print(table, highlight=False)
    for note in result.notes:
        out.print(note, markup=False, highlight=False)


def print_explanation(found: Explanation) -> None:
    """What a method, part or measure is."""
    out.print(f"[bold]{escape(found.name)}[/bold] ({found.kind})", highlight=False)
    for text in found.text or (found.summary,):
        out.print(f"\n{text}", markup=False, highlight=False)
    for heading, details in (("", found.facts), ("parameters", found.parameters)):
        table = RichTable(title=heading or None, title_justify="left", show_edge=False, show_header=False, box=None)
        table.add_column(no_wrap=True)
        table.add_column()
        for key, value in details.items():
            table.add_row(escape(key), escape(value))
        if details:
            out.print()
            out.print(table, highlight=False)


PATIENCE = 1.0  # seconds of silence that need no explanation
_BETWEEN = 5.0  # seconds between notes, where each is a line of its own


class _Lines:
    """Prints a line for each stage that took longer than a second."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.began: dict[str, float] = {}
        self.noted = time.monotonic()

    def note(self, stage: str, text: str) -> None:
        """Print what a stage says, not more often than every few seconds."""
        if time.monotonic() - self.noted > _BETWEEN:
            self.noted = time.monotonic()
            self.console.print(f"{stage}: {text}", highlight=False)

    def __call__(self, stage: str, done: float) -> None:
        if done == 0.0 or stage not in self.began:
            self.began[stage] = time.monotonic()
        if done >= 1.0 and (took := time.monotonic() - self.began.pop(stage)) > PATIENCE:
            self.console.print(f"{stage}: {took:.1f} s", highlight=False)

    def stop(self) -> None:
        """Nothing is to be removed."""


class _Bars:
    """Draws the stages; nothing appears before the run has lasted a second."""

    def __init__(self, console: Console) -> None:
        # Imported here because only terminals have bars.
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description:<8}"), BarColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=console, transient=True, auto_refresh=True)
        self.began = time.monotonic()
        self.tasks: dict[str, TaskID] = {}
        self.started = False

    def __call__(self, stage: str, done: float) -> None:
        if stage not in self.tasks:
            self.tasks[stage] = self.progress.add_task(stage, total=1.0)
        self.progress.update(self.tasks[stage], completed=done)
        if not self.started and time.monotonic() - self.began > PATIENCE:
            self.started = True
            self.progress.start()

    def note(self, stage: str, text: str) -> None:
        """Show what a stage says beside its bar."""
        if stage in self.tasks:
            self.progress.update(self.tasks[stage], description=f"{stage}: {text}")

    def stop(self) -> None:
        """Remove the bars."""
        if self.started:
            self.progress.stop()


@contextmanager
def shown(console: Console, *, quiet: bool) -> Iterator[None]:
    """Show the progress of what is done inside."""
    if quiet:
        yield
        return
    listener = _Bars(console) if console.is_terminal else _Lines(console)
    try:
        with listening(listener):
            yield
    finally:
        listener.stop()


def literal(text: str) -> str:
    """A text of the help in which brackets are meant: typer would take ``[report]`` for a style and leave it out."""
    return text.replace("[", r"\[")


RecipePath = Annotated[Path, typer.Argument(help="recipe: .toml, .yaml or .json")]
Query = Annotated[
    str | None, typer.Option("--query", help="SQL whose result is the table of a database; @FILE holds it")
]
Format = Annotated[
    str | None, typer.Option("--format", help="of standard input and output, and of pipes: csv, arrow, parquet")
]
Workspace = Annotated[
    Path | None, typer.Option("--workspace", help="folder for private files; default: beside the output")
]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Force = Annotated[bool, typer.Option("--force", help="overwrite existing files")]
Report = Annotated[Path | None, typer.Option("--report", help=literal("write an HTML report (needs gpuanon[report])"))]
BackendChoice = Annotated[Literal["auto", "numpy", "cupy"], typer.Option(help="where the arrays live")]


def require_report(report: Path | None, inputs: Sequence[Path | None] = (), force: bool = False) -> None:
    """Refuse a report that cannot be written, before any work is done; `protect` checks its outputs itself."""
    if report is None:
        return
    from gpuanon.engine.outputs import check_report
    from gpuanon.report import require

    require()
    if inputs:
        check_report(report, [path for path in inputs if path is not None], force=force)
