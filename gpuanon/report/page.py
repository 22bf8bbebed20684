"""From what a report is made of to its page.

The page knows the types of figures (`gpuanon.assessing.figures`), each with a template of its own, and no measure by
its name.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from gpuanon.assessing.column_pictures import Pictures
from gpuanon.assessing.figures import By, Measured, figure_text
from gpuanon.assessing.measure import Measure
from gpuanon.assessing.measures import MEASURES
from gpuanon.errors import GpuanonError
from gpuanon.report import REPORT_MARK, figures_path, require
from gpuanon.report.contents import Contents, shareable
from gpuanon.report.drawing import shortened
from gpuanon.report.figures import Shown, shown_part, shown_picture
from gpuanon.report.verdict import verdict_of
from gpuanon.tables.formats import io
from gpuanon.version import __version__
from gpuanon.visible import json_text, visible

_OF_MASKS = ("method", "columns", "groups_formed", "smallest_group", "smallest_class_before")


@dataclass(frozen=True)
class Row:
    """One measure on the page.

    figure : None when it could not be computed; `failed` has the reason, `inapplicable` whether it does not apply
    limit  : of the recipe, or None
    parts  : name of a template, and what it shows
    """

    measure: Measure
    figure: Measured | None
    failed: str | None
    inapplicable: bool
    limit: float | None
    parts: tuple[Shown, ...] = ()


def report_html(contents: Contents) -> str:
    """The page: self-contained, every label escaped; its one script is the page's own, named by its digest.

    Examples
    --------
    >>> from gpuanon.report.contents import Contents
    >>> "<h1>Release &lt;1&gt;</h1>" in report_html(Contents("Release <1>"))
    True
    """
    require()
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("gpuanon.report", "templates"),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "figure": figure_text, "label": shortened, "percent": lambda share: f"{share:.1%}", "limits": range_text,
        "plain": lambda text: text.replace("_", " "), "breaking": _breaking,
    }  # fmt: skip
    loader: Any = environment.loader
    script = loader.get_source(environment, "page.js")[0]
    page = environment.get_template("page.html")
    rendered = page.render(
        mark=REPORT_MARK, version=__version__, contents=contents, script=script, digest=_digest(script),
        figures=_embedded(contents.to_json()), **_sections(contents),
    )  # fmt: skip
    return visible(rendered)


def put_report(out: io.Writing, path: Path, contents: Contents) -> None:
    """Write the page and, beside it, its figures."""
    out.text(path, report_html(contents))
    out.text(figures_path(path), json_text(contents.to_json(), indent=1) + "\n")


def shown_in_notebook(contents: Contents) -> str | None:
    """The page in a frame of its own, whose styles and scripts do not meet the notebook's; None where none is made."""
    try:
        page = report_html(contents)
    except GpuanonError:
        return None  # the packages of reports are not installed: the notebook shows the plain text
    return f'<iframe srcdoc="{escape(page, quote=True)}" title="{escape(contents.title)}" {_FRAME}></iframe>'


_FRAME = 'sandbox="allow-scripts allow-downloads" style="width:100%;height:40rem;border:1px solid #ccc"'


def _breaking(name: str) -> Any:
    """A name that may be broken after an underscore."""
    from markupsafe import Markup, escape

    return Markup("_<wbr>").join(escape(part) for part in name.split("_"))


def _digest(script: str) -> str:
    """The script's digest, by which the page's policy allows it and nothing else."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _embedded(figures: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in, whatever its labels are."""
    text = json_text(figures, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _sections(contents: Contents) -> dict[str, Any]:
    """What the templates show."""
    manifest, shown = contents.manifest, contents.pictures
    figures = contents.figures
    notes = dict.fromkeys((*contents.notes, *(figures.notes if figures is not None else ())))
    rows = {family: _rows(contents, family) for family in _FAMILIES}
    return {
        "manifest": manifest,
        "verdict": verdict_of(contents),
        "masks": [] if manifest is None else [_mask(mask) for mask in manifest["mask"]],
        "families": rows,
        "by_column": {family: _by_column(rows[family]) for family in _FAMILIES},
        "pictures": shown,
        "drawn": {} if shown is None else _drawn(shown),
        "together": [] if shown is None else [shown_picture(one, f"t{at}") for at, one in enumerate(shown.pairs)],
        "notes": list(notes),
        **_trials(contents),
    }


_FAMILIES: tuple[Literal["risk", "utility"], ...] = ("risk", "utility")


def _rows(contents: Contents, family: Literal["risk", "utility"]) -> list[Row]:
    """The measures of a family, in the order of the catalogue."""
    if contents.figures is None:
        return []
    found = shareable(contents.figures, contents.least)
    limits = {} if contents.manifest is None else contents.manifest.get("limits", {})
    rows = []
    for number, measure in enumerate(MEASURES.values()):
        figure, failed = found.measured.get(measure.name), found.failed.get(measure.name)
        if measure.family == family and (figure is not None or failed is not None):
            those = () if figure is None else figure.parts
            parts = [shown_part(part, f"m{number}{at}") for at, part in enumerate(those)]
            kept = tuple(part for part in parts if part is not None)
            apart = measure.name in found.inapplicable
            rows.append(Row(measure, figure, failed, apart, limits.get(measure.name), kept))
    return rows


def _by_column(rows: list[Row]) -> dict[str, Any] | None:
    """What happened to each column: the measures that have a value for it, side by side; None without any."""
    found = [
        (row.measure, part)
        for row in rows
        for part in (() if row.figure is None else row.figure.parts)
        if isinstance(part, By) and part.of == "column"
    ]
    columns = list(dict.fromkeys(name for _, part in found for name in part.values))
    if not columns or len(found) < 2:
        return None
    return {
        "measures": [measure for measure, _ in found],
        "rows": [(name, [part.values.get(name) for _, part in found]) for name in columns],
    }


def _mask(mask: Mapping[str, Any]) -> dict[str, Any]:
    """A mask by its name, and its parameters."""
    parts = [mask[part] for part in ("groups", "basis", "operation") if isinstance(mask.get(part), Mapping)]
    name = mask.get("method") or " × ".join(str(part.get("use")) for part in parts)
    given = {key: value for key, value in mask.items() if key not in _OF_MASKS and value not in ([], {}, None)}
    parameters = {key: _parameter(value) for key, value in given.items()}
    return {**{key: mask.get(key) for key in _OF_MASKS}, "name": name, "parameters": parameters}


def _parameter(value: Any) -> str:
    """A parameter's value as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_parameter(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_parameter, value))
    return figure_text(value)


def _drawn(shown: Pictures) -> dict[str, list[Shown]]:
    """The pictures of each column: name of the template, and what it shows."""
    found: dict[str, list[Shown]] = {}
    for number, (column, those) in enumerate(shown.columns.items()):
        found[column] = [shown_picture(one, f"c{number}{place}") for place, one in enumerate(those)]
    return found


def _trials(contents: Contents) -> dict[str, Any]:
    """The map and the table of a comparison."""
    from markupsafe import Markup

    trials = contents.trials
    if trials is None:
        return {"trials": None}
    from gpuanon.report.drawing import trials_map

    known = MEASURES
    picture = None
    if trials.decides is not None and trials.against is not None and trials.decides in known:
        picture = trials_map(trials, known[trials.against], known[trials.decides])
    names = list(dict.fromkeys(name for trial in trials.trials for name in trial.measured))
    return {
        "trials": trials,
        "trial_measures": [known[name] for name in names],
        "map": None if picture is None else Markup(picture),
    }


def range_text(ends: tuple[float, float]) -> str:
    """The range of a measure: "0 to 1", "from 0 up"."""
    low, high = (figure_text(float(end)) if isfinite(end) else None for end in ends)
    if low is None:
        return "any number" if high is None else f"up to {high}"
    return f"from {low} up" if high is None else f"{low} to {high}"
