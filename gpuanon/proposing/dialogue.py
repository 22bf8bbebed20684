"""``gpuanon init`` in a terminal: the doubtful columns are asked about, the others shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape
from rich.prompt import Confirm, Prompt
from rich.table import Table as RichTable

from gpuanon.arrays import progress
from gpuanon.engine.inputs import read_table
from gpuanon.errors import InputError, OutputError, ParameterError, nearest
from gpuanon.proposing.choices import Choice
from gpuanon.proposing.codebook import Codebook, labels_of, read_codebook
from gpuanon.proposing.findings import Findings, examine, with_risk
from gpuanon.proposing.proposal import HEADINGS, MARK, Proposal, assembled, foot_of, reason_of, rows_of, with_trials
from gpuanon.proposing.purposes import PURPOSES, Purpose, purpose_of
from gpuanon.tables.formats import format_of, io
from gpuanon.tables.formats.csv.csv_dialect import count_columns, read_any
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.schema import Role
from gpuanon.tables.table import Table

ROLES: tuple[Role, ...] = ("identifier", "person", "household", "quasi", "sensitive", "other", "weight", "dropped")
Ask = Callable[[Choice, str], Role]

MOST_COLUMNS = 2000
"""Of a table for which a recipe is proposed: every column is looked at, and many in pairs."""


def init(
    table: Path,
    output: Path | None,
    purpose: str | None,
    *,
    ask: bool,
    force: bool,
    out: Console,
    err: Console,
    csv: Sequence[str] = (),
    codebook: Path | None = None,
    strict: bool = False,
) -> Proposal:
    """Propose a recipe for the table in a file; write it to `output`, or print it.

    codebook : file of what is known of the columns
    strict   : columns of which nothing is known are dropped, and not masked
    csv : settings of ``[csv]`` as NAME=VALUE; words for missing values have commas between
    """
    given = csv_options(csv)
    chosen = purpose_of(purpose)
    if output is not None:
        if output.suffix.lower() != ".toml":
            raise OutputError(f"{output}: a proposed recipe is TOML, got {output.suffix!r}", hint="-o recipe.toml")
        io.check_output(output, force=force, inputs=[table], table=False, guard=_only_proposals)
    known = None if codebook is None else read_codebook(codebook)
    rows, findings = examine_file(table, chosen, given, known, strict=strict)
    if ask:
        asked = answered(findings, lambda choice, reason: ask_role(choice, reason, err))
        findings = findings if asked is findings else with_risk(rows, asked)
    if format_of(table).is_text:
        rows = read_table(table, assembled(findings))  # as a run sees it
    proposal = assembled(with_trials(rows, findings))
    show(proposal, err if output is None else out)
    if output is None:
        out.print(proposal.to_toml(), end="", markup=False, highlight=False, soft_wrap=True)
        return proposal
    if ask and not Confirm.ask(f"Write {escape(str(output))}?", console=err, default=True):
        return proposal
    with io.Writing(force=force, guard=_only_proposals) as writing:
        writing.text(output, proposal.to_toml())
    out.print(f"\nWritten: {output}", markup=False, highlight=False, soft_wrap=True)
    out.print(f"Next:    gpuanon check {output} {table}", markup=False, highlight=False, soft_wrap=True)
    return proposal


def _check_width(path: Path, given: CsvOptions | None) -> None:
    """Refuse a table of too many columns before it is read."""
    width = count_columns(path, given)
    if width > MOST_COLUMNS:
        raise InputError(
            f"{path}: has {width:,} columns, and init looks at {MOST_COLUMNS:,} at most",
            hint="propose for a file with the columns that are to be released; the others are dropped by others ="
            " 'drop' in the recipe",
        )


def examine_file(
    path: Path,
    purpose: Purpose,
    given: CsvOptions | None = None,
    codebook: Codebook | None = None,
    *,
    strict: bool = False,
) -> tuple[Table, Findings]:
    """The table in a file, and what is found in it.

    given    : what is known of how a CSV is to be read
    codebook : what is known of its columns; None: the labels that the file has
    strict   : whether columns of which nothing is known are dropped
    """
    with progress.stage("read"):
        _check_width(path, given)
        known = labels_of(path) if codebook is None else codebook
        coded = {name: one.missing for name, one in known.items() if one.missing and one.kind != "categorical"}
        table, csv, missing = read_any(path, given, coded)
    if not table.n_rows:
        raise InputError(f"{path}: the table has no rows", hint="a recipe is proposed by what the columns hold")
    return table, examine(table, purpose, source=path.name, csv=csv, missing=missing, codebook=known, strict=strict)


def csv_options(texts: Sequence[str]) -> CsvOptions:
    """How a CSV is to be read, as the command line has it."""
    pairs = [text.partition("=") for text in texts]
    found = {name.strip(): value.split(",") if name.strip() == "nulls" else value for name, _, value in pairs}
    for name in found:
        if name not in CsvOptions.model_fields:
            raise ParameterError(
                f"--csv: there is no setting {name!r}{nearest(name, CsvOptions.model_fields)}",
                hint=f"NAME=VALUE; there are {', '.join(CsvOptions.model_fields)}",
            )
    try:
        return CsvOptions.model_validate(found)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        lines = [f"--csv {fault['loc'][0]}: {fault['msg'].removeprefix('Value error, ')}" for fault in faults]
        raise ParameterError("\n".join(lines)) from None


def _only_proposals(path: Path) -> None:
    """Refuse to replace what ``init`` did not write."""
    with path.open("rb") as file:
        ours = file.readline().decode(errors="replace").startswith(f"# {MARK}")
    if not ours:
        raise OutputError(f"{path}: was not proposed by gpuanon, and is not replaced", hint="choose another name")


def answered(findings: Findings, ask: Ask) -> Findings:
    """The findings with the answers to what is doubtful; itself if every proposal was taken."""
    changed = []
    for choice in findings.choices:
        role = ask(choice, reason_of(choice, findings)) if choice.doubtful else choice.role
        changed.append(choice if role == choice.role else choice.because("as answered", role=role, doubtful=False))
    return findings if tuple(changed) == findings.choices else replace(findings, choices=tuple(changed))


def ask_role(choice: Choice, reason: str, console: Console) -> Role:
    """Ask what a column is; the proposal is the default."""
    console.print(f"\n[bold]{escape(choice.name)}[/bold]  {escape(reason)}", highlight=False)
    if choice.levels is not None:
        console.print(f"levels, lowest first: {', '.join(choice.levels)}", markup=False, highlight=False)
    answer = Prompt.ask("  role", console=console, choices=list(ROLES), default=choice.role)
    return next(role for role in ROLES if role == answer)


def show(proposal: Proposal, console: Console) -> None:
    """The choices, the level names that go into the recipe, and the risk."""
    table = RichTable(show_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, no_wrap=heading in ("role", "column"), overflow="fold")
    for row in rows_of(proposal):
        table.add_row(*map(escape, row))
    console.print(table, highlight=False)
    for choice in proposal.findings.choices:
        if choice.levels is not None and choice.role in ("quasi", "sensitive"):
            line = f"levels of {choice.name} that go into the recipe: {', '.join(choice.levels)}"
            console.print(line, markup=False, highlight=False)
    console.print()
    for line in foot_of(proposal):
        console.print(line, markup=False, highlight=False)


def show_purposes(out: Console) -> None:
    """The ready recipes, one per row."""
    table = RichTable(show_edge=False)
    for heading in ("purpose", "what for", "mask", "held to"):
        table.add_column(heading, no_wrap=heading == "purpose")
    for purpose in PURPOSES:
        mask = ", ".join(f"{name} = {value}" for name, value in purpose.mask.items() if name != "method")
        limits = ", ".join(f"{name} {value:g}" for name, value in purpose.limits.items())
        table.add_row(purpose.name, purpose.summary, f"{purpose.mask['method']} ({mask})", limits or "nothing")
    out.print(table, highlight=False)
    out.print("\ngpuanon init TABLE --for PURPOSE fills one in", markup=False, highlight=False)
