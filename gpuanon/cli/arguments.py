"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer


def literal(text: str) -> str:
    """A text of the help in which brackets are meant: typer would take ``[report]`` for a style and leave it out."""
    return text.replace("[", r"\[")


RecipePath = Annotated[Path, typer.Argument(help="recipe: .toml, .yaml or .json")]
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
