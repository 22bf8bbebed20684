"""The HTML report: one page that a steward can read and an auditor can keep."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from gpuanon.errors import OutputError, ParameterError

REPORT_MARK = "<!-- a report of gpuanon -->"
"""Stands at the head of every report, so that nothing else is replaced by one."""

KIND = "report of gpuanon"
FIGURES_MARK = f'"kind": "{KIND}"'
"""Stands at the head of the figures beside a report."""


def figures_path(report: Path) -> Path:
    """The figures of a report lie beside it."""
    if report.name in ("", ".."):
        raise OutputError(f"{report}: is not the name of a file", hint="choose another name")
    return report.with_suffix(".figures.json")


def require() -> None:
    """Refuse a report where the packages that make it are not installed, before any work is done."""
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ParameterError(
            f"report: needs {' and '.join(missing)}, which are not installed", hint="pip install 'gpuanon[report]'"
        )
