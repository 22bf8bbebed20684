"""Commands that say what there is: methods, measures, parts, the form of a recipe, this machine."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from gpuanon.cli.printing import (
    Json,
    out,
    print_catalogue,
    print_explanation,
    print_json,
)


def _explained() -> list[tuple[str, str]]:
    """Names of methods, parts and measures with their summaries, for completion."""
    from gpuanon.cli.explaining import names

    return list(names().items())


def methods(json_: Json = False) -> None:
    """List the masking methods, with their parameters and sources."""
    from gpuanon.masking.methods import catalogue

    print_catalogue(catalogue(), json_)


def measures(json_: Json = False) -> None:
    """List the measures of risk and utility."""
    from gpuanon.assessing.measures import catalogue

    print_catalogue(catalogue(), json_)


def explain(
    name: Annotated[str, typer.Argument(help="a method, a part of a mask or a measure", autocompletion=_explained)],
    json_: Json = False,
) -> None:
    """Say what a method, part or measure does: formula, parameters, promise, source."""
    from gpuanon.cli.explaining import explain as explanation

    found = explanation(name)
    if json_:
        print_json(found.to_json())
        return
    print_explanation(found)


def schema(
    of: Annotated[
        Literal["recipe", "protect", "assess", "compare", "check", "intervals", "error"],
        typer.Option(help="a recipe, what a command prints with --json, or its error"),
    ] = "recipe",
) -> None:
    """Print the JSON Schema of a recipe, or of what a command prints."""
    from gpuanon.cli.schemas import json_schema

    print_json(json_schema(of))


def doctor(
    json_: Json = False,
    full: Annotated[bool, typer.Option("--full", help="whole runs of a million rows on both backends too")] = False,
    rows: Annotated[int, typer.Option(hidden=True, min=100)] = 1_000_000,
) -> None:
    """Say what this machine has, and check every kernel on it."""
    from gpuanon.cli.doctor import examine, rendered

    findings = examine(full_rows=rows if full else None)
    if json_:
        print_json(findings)
    else:
        out.print(rendered(findings), markup=False, highlight=False)
