"""From what a report is made of to its page.

The page knows the types of figures (`gpuanon.assessing.figures`), each with a template of its own, and no measure by
its name.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from gpuanon.assessing.column_pictures import Pictures
from gpuanon.assessing.figures import By, ByPair, Measured, figure_text
from gpuanon.assessing.measure import Measure
from gpuanon.assessing.measures import MEASURES
from gpuanon.errors import GpuanonError
from gpuanon.report import REPORT_MARK, figures_path, require
from gpuanon.report.columns import ColumnRow, worst_of
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
    worst  : of a measure of utility the masked column, or pair, that it is worst for, with its value; None where the
             figure itself is worse, or no column is known to be masked
    parts  : name of a template, and what it shows
    """

    measure: Measure
    figure: Measured | None
    failed: str | None
    inapplicable: bool
    limit: float | None
    worst: tuple[str, float] | None = None
    parts: tuple[Shown, ...] = ()

    @property
    def pictured(self) -> tuple[Shown, ...]:
        """The parts that are drawn."""
        return tuple(part for part in self.parts if part[0] == "counts.html")

    @property
    def tables(self) -> tuple[Shown, ...]:
        """The parts that are tables of figures."""
        return tuple(part for part in self.parts if part[0] != "counts.html")


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
        "figure": figure_text, "label": shortened, "percent": _percent, "limits": range_text,
        "plain": lambda text: text.replace("_", " "), "breaking": _breaking, "moment": _moment, "spark": _spark,
        "sentence": lambda text: text[:1].upper() + text[1:], "unsentence": lambda text: text[:1].lower() + text[1:],
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
    figures, columns = contents.figures, contents.columns
    notes = dict.fromkeys((*contents.notes, *(figures.notes if figures is not None else ())))
    masked = {row.name for row in columns if row.fate in ("masked", "released")}
    rows = {family: _rows(contents, family, masked) for family in _FAMILIES}
    return {
        "manifest": manifest,
        "verdict": verdict_of(contents),
        "asked_k": sorted({k for one in (manifest or {}).get("guarantee", ()) if isinstance(k := one.get("k"), int)}),
        "columns": columns,
        "worst": worst_of(columns),
        "masks": [] if manifest is None else [_mask(mask) for mask in manifest["mask"]],
        "families": rows,
        "by_column": {family: _by_column(rows[family]) for family in _FAMILIES},
        "pictures": shown,
        "drawn": {} if shown is None else _drawn(shown, [row.name for row in columns if not _same(row)]),
        "same": [row.name for row in columns if _same(row)],
        "together": [] if shown is None else [shown_picture(one, f"t{at}") for at, one in enumerate(shown.pairs)],
        "notes": list(notes),
        **_trials(contents),
    }


def _same(row: ColumnRow) -> bool:
    """Whether a column was released as it was, so that its two distributions are one."""
    return row.fate == "kept" and (row.moved is None or row.moved.share == 0)


def _percent(share: float) -> str:
    """A share in per cent; few, but not none, are not called 0."""
    return "below 0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def _moment(created: str) -> str:
    """A time as the manifest has it, for people."""
    return created[:16].replace("T", " ") + " UTC" if created.endswith("+00:00") else created


def _spark(row: ColumnRow) -> Any:
    """Both distributions of a column in a row of a table: filled the original, outlined the release."""
    from markupsafe import Markup, escape

    picture = row.picture
    assert picture is not None
    highest = max(*picture.before, *picture.after, 0.001)
    wide, high = 160.0, 40.0
    step = wide / len(picture.before)

    def outline(shares: Sequence[float]) -> str:
        points = [f"{at * step:.1f} {high - 1 - (high - 3) * share / highest:.1f}" for at, share in _corners(shares)]
        return f"M0 {high:g}L{'L'.join(points)}L{wide:g} {high:g}"

    text = escape(f"{row.name}: original (filled) and release (line)")
    return Markup(
        '<svg class="spark" viewBox="0 0 {0:g} {1:g}" role="img" aria-label="{2}"><path class="was" d="{3}"/>'
        '<path class="is" d="{4}"/></svg>'
    ).format(wide, high, text, outline(picture.before), outline(picture.after))


def _corners(shares: Sequence[float]) -> list[tuple[int, float]]:
    """Left and right end of each bin, with its share."""
    return [(at + side, share) for at, share in enumerate(shares) for side in (0, 1)]


_FAMILIES: tuple[Literal["risk", "utility"], ...] = ("risk", "utility")


def _rows(contents: Contents, family: Literal["risk", "utility"], masked: set[str]) -> list[Row]:
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
            worst = None if figure is None or family == "risk" else _worst(measure, figure, masked)
            rows.append(Row(measure, figure, failed, apart, limits.get(measure.name), worst, kept))
    return rows


def _worst(measure: Measure, figure: Measured, masked: set[str]) -> tuple[str, float] | None:
    """The worst figure of a masked column, where the measure's own, such as a median, is better than it."""
    found: list[tuple[str, float]] = []
    for part in figure.parts:
        if isinstance(part, By) and part.of == "column":
            found += [(name, value) for name, value in part.values.items() if name in masked and value is not None]
        elif isinstance(part, ByPair):
            both = [(pair, value) for pair, value in part.values.items() if masked & set(pair) and value is not None]
            found += [(" × ".join(pair), value) for pair, value in both]
    known = [(name, value) for name, value in found if isfinite(value)]
    if not known:
        return None
    worst = (max if measure.better == "lower" else min)(known, key=lambda item: item[1])
    return worst if measure.exceeds(worst[1], figure.value) else None


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


def _drawn(shown: Pictures, names: Sequence[str]) -> dict[str, list[Shown]]:
    """The pictures of these columns: name of the template, and what it shows."""
    return {
        column: [shown_picture(one, f"c{number}{place}") for place, one in enumerate(shown.columns[column])]
        for number, column in enumerate(names)
        if column in shown.columns
    }


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
