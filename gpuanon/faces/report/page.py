"""From what a report is made of to its page.

The page knows the types of figures (`gpuanon.assessing.figures`), each with a template of its own, and no measure by
its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from gpuanon import __version__
from gpuanon.assessing.figures import By, ByPair, Distribution, Measured, Part
from gpuanon.assessing.measures import MEASURES, Measure, by_name
from gpuanon.assessing.pictures import Bars, Correlations, Histogram, Picture, Pictures, Quantiles
from gpuanon.faces.report import require
from gpuanon.faces.report.drawing import shortened
from gpuanon.running.outputs import REPORT_MARK
from gpuanon.running.reports import Contents, least_of

_SHOWN_PARTS = 12
_TEMPLATES: dict[type[Part], str] = {By: "by.html", ByPair: "by.html", Distribution: "distribution.html"}
_OF_MASKS = ("method", "columns", "groups_formed", "smallest_group")


@dataclass(frozen=True)
class Row:
    """One measure on the page.

    figure : None when it could not be computed; `failed` has the reason
    limit  : of the recipe, or None
    parts  : name of a template, and what it shows
    """

    measure: Measure
    figure: Measured | None
    failed: str | None
    limit: float | None
    parts: tuple[tuple[str, dict[str, Any]], ...] = ()


def report_html(contents: Contents) -> str:
    """The page: self-contained, without scripts, every label escaped."""
    require()
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("gpuanon.faces.report", "templates"),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"figure": figure_text, "label": shortened, "percent": lambda share: f"{share:.1%}"}
    page = environment.get_template("page.html")
    return page.render(mark=REPORT_MARK, version=__version__, contents=contents, **_sections(contents))


def _sections(contents: Contents) -> dict[str, Any]:
    """What the templates show."""
    manifest = contents.manifest
    assessment, shown = contents.assessment, contents.pictures
    notes = dict.fromkeys((*contents.notes, *(assessment.notes if assessment is not None else ())))
    return {
        "manifest": manifest,
        "masks": [] if manifest is None else [_mask(mask) for mask in manifest["mask"]],
        "families": {family: _rows(contents, family) for family in ("risk", "utility")},
        "limits": [] if manifest is None else _limits(manifest),
        "pictures": shown,
        "drawn": {} if shown is None else _drawn(shown),
        "correlations": None if shown is None or shown.correlations is None else _draw(shown.correlations, "r"),
        "notes": list(notes),
        **_trials(contents),
    }


def _rows(contents: Contents, family: Literal["risk", "utility"]) -> list[Row]:
    """The measures of a family, in the order of the catalogue."""
    found = contents.assessment
    if found is None:
        return []
    limits = {} if contents.manifest is None else contents.manifest.get("limits", {})
    least = max(found.least, least_of(contents.manifest))
    rows = []
    for measure in MEASURES:
        figure, failed = found.measured.get(measure.name), found.failed.get(measure.name)
        if measure.family == family and (figure is not None or failed is not None):
            parts = () if figure is None else tuple(_part(part, least) for part in figure.parts)
            rows.append(Row(measure, figure, failed, limits.get(measure.name), parts))
    return rows


def _part(part: Part, least: int) -> tuple[str, dict[str, Any]]:
    """The template of a part, and what it shows: the worst first; quantiles that lie within many records only."""
    if isinstance(part, Distribution):
        levels = {name: 50 if name == "median" else int(name[1:]) for name in part.quantiles if name not in _ENDS}
        kept = {n: part.quantiles[n] for n, at in levels.items() if min(at, 100 - at) * part.count >= 100 * least}
        return _TEMPLATES[Distribution], {"of": part.of, "count": part.count, "mean": part.mean, "quantiles": kept}
    values = {key if isinstance(key, str) else " × ".join(key): value for key, value in part.values.items()}
    known = [(name, value) for name, value in values.items() if value is not None and isfinite(value)]
    known.sort(key=lambda item: item[1], reverse=part.worst_is == "largest")
    undefined = [(name, None) for name in values if name not in dict(known)]
    entries = [*known, *undefined]
    largest = max((abs(value) for _, value in known), default=0.0) or 1.0
    of = part.of if isinstance(part, By) else "pair of columns"
    shown = {"of": of, "entries": entries[:_SHOWN_PARTS], "more": max(0, len(entries) - _SHOWN_PARTS)}
    return _TEMPLATES[type(part)], {**shown, "largest": largest}


_ENDS = ("min", "max")  # the value of a single record or class


def _limits(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The limits of the recipe, with what was measured."""
    measured, known = manifest.get("measured", {}), by_name()
    return [
        {
            "name": name,
            "way": "at most" if name in known and known[name].better == "lower" else "at least",
            "limit": limit,
            "measured": measured.get(name),
            "met": name in measured and name in known and not known[name].exceeds(measured[name], limit),
        }
        for name, limit in manifest.get("limits", {}).items()
    ]


def _mask(mask: Mapping[str, Any]) -> dict[str, Any]:
    """A mask by its name, and its parameters."""
    parts = [mask[part] for part in ("groups", "basis", "operation") if isinstance(mask.get(part), Mapping)]
    name = mask.get("method") or " × ".join(str(part.get("use")) for part in parts)
    parameters = {key: _parameter(value) for key, value in mask.items() if key not in _OF_MASKS}
    return {**{key: mask.get(key) for key in _OF_MASKS}, "name": name, "parameters": parameters}


def _parameter(value: Any) -> str:
    """A parameter's value as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_parameter(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_parameter, value))
    return figure_text(value)


def _drawn(shown: Pictures) -> dict[str, list[tuple[str, Any]]]:
    """The pictures of each column: name of the template, and what it shows."""
    found: dict[str, list[tuple[str, Any]]] = {}
    for number, (column, those) in enumerate(shown.columns.items()):
        found[column] = [_draw(one, f"c{number}{place}") for place, one in enumerate(those)]
    return found


def _draw(picture: Picture, name: str) -> tuple[str, Any]:
    """The template of a picture, and what it shows."""
    from markupsafe import Markup

    from gpuanon.faces.report import pictures as draw

    if isinstance(picture, Bars):
        rows = list(zip(picture.labels, picture.before, picture.after, strict=True))
        return "bars.html", {"rows": rows, "largest": max(*picture.before, *picture.after, 0.001)}
    if isinstance(picture, Histogram):
        return "histogram.html", {"svg": Markup(draw.histogram(picture, name)), "missing": picture.missing}
    if isinstance(picture, Quantiles):
        return "quantiles.html", {"svg": Markup(draw.quantiles(picture, name))}
    assert isinstance(picture, Correlations)
    return "correlations.html", {"svg": Markup(draw.correlations(picture, name))}


def _trials(contents: Contents) -> dict[str, Any]:
    """The map and the table of a comparison."""
    from markupsafe import Markup

    trials = contents.trials
    if trials is None:
        return {"trials": None}
    from gpuanon.faces.report.trials_map import trials_map

    known = by_name()
    picture = None
    if trials.decides is not None and trials.against is not None:
        picture = trials_map(trials, known[trials.against], known[trials.decides])
    names = list(dict.fromkeys(name for trial in trials.trials for name in trial.measured))
    return {
        "trials": trials,
        "trial_measures": [known[name] for name in names],
        "map": None if picture is None else Markup(picture),
    }


def figure_text(value: Any) -> str:
    """A figure in a few characters; text as it is."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        short = "0" if abs(value) < 1e-12 else f"{value:.4g}"
        return re.sub("^-", "−", f"{value:,.0f}" if "e+" in short and abs(value) < 1e9 else short)
    return str(value)
