"""The HTML report: one page that a steward can read and an auditor can keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gpuanon.errors import OutputError, ParameterError
from gpuanon.tables.schema import UNRELEASED

REPORT_MARK = "<!-- a report of gpuanon -->"
"""Stands at the head of every report, so that nothing else is replaced by one."""

KIND = "report of gpuanon"
FIGURES_MARK = f'"kind": "{KIND}"'
"""Stands at the head of the figures beside a report."""


@dataclass(frozen=True)
class Paper:
    """A file that a report is about.

    what   : "input", "recipe" …
    name   : of the file, without its folder
    digest : of its bytes; a digest of an original stands on the page alone, see `Contents`
    """

    what: str
    name: str
    digest: str | None = None


Fate: TypeAlias = Literal["masked", "kept", "dropped", "pseudonym", "released"]
"""What became of a column; *released* where nothing says whether a mask changed it."""


def fates_of(manifest: Mapping[str, Any], released: Sequence[str] | None = None) -> dict[str, Fate]:
    """What became of each column of a run; a column of role person is a pseudonym where it is released."""
    masked = {name for mask in manifest["mask"] for name in mask["columns"]}
    found: dict[str, Fate] = {}
    for name, column in manifest["columns"].items():
        if column["role"] in UNRELEASED:
            found[name] = "pseudonym" if released is not None and name in released else "dropped"
        else:
            found[name] = "masked" if name in masked else "kept"
    return found


def unmasked_columns(manifest: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
    """The released columns that no mask changed, and the number of released columns."""
    fates = fates_of(manifest)
    names = tuple(name for name, fate in fates.items() if fate == "kept")
    return names, sum(fate in ("kept", "masked") for fate in fates.values())


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
