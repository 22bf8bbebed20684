"""From the figures and pictures of a report to what their templates show: one template for each type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeAlias

from gpuanon.assessing.column_pictures import Bars, Correlations, Histogram, Missing, Picture, Quantiles
from gpuanon.assessing.densities import Components, Contours
from gpuanon.assessing.figures import By, ByPair, Compared, Counts, Distribution, Part

Shown: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a template, and what it shows."""

_SHOWN_PARTS = 12


def shown_part(part: Part, name: str) -> Shown | None:
    """The template of a part of a measure, and what it shows; None where nothing is left to show.

    name : begins the identifiers within a drawing
    """
    makers: Mapping[type, Callable[[Any, str], Shown | None]] = {
        By: _ranked,
        ByPair: _ranked,
        Distribution: _distribution,
        Counts: _counts,
        Compared: _compared,
    }
    return makers[type(part)](part, name)


def shown_picture(picture: Picture, name: str) -> Shown:
    """The template of a picture, and what it shows."""
    from markupsafe import Markup

    from gpuanon.report import drawing

    if isinstance(picture, Bars):
        rows = list(zip(picture.labels, picture.before, picture.after, strict=True))
        return "bars.html", {"rows": rows, "largest": max(*picture.before, *picture.after, 0.001)}
    if isinstance(picture, Missing):
        return "missing.html", {"rows": [(name, picture.before[name], picture.after[name]) for name in picture.before]}
    if isinstance(picture, Histogram):
        return "histogram.html", {"svg": Markup(drawing.histogram(picture, name)), "missing": picture.missing}
    if isinstance(picture, Quantiles):
        return "quantiles.html", {"svg": Markup(drawing.quantiles(picture, name))}
    if isinstance(picture, Contours):
        return "contours.html", {"svg": Markup(drawing.contour_plot(picture, name))}
    if isinstance(picture, Components):
        return "components.html", {"svg": Markup(drawing.component_plot(picture, name)), "rows": picture.rows}
    assert isinstance(picture, Correlations)
    return "correlations.html", {"svg": Markup(drawing.correlations(picture, name))}


def _distribution(part: Distribution, name: str) -> Shown:
    return "distribution.html", {
        "of": part.of,
        "count": part.count,
        "mean": part.mean,
        "quantiles": part.quantiles,
    }


def _ranked(part: By | ByPair, name: str) -> Shown:
    """The worst first."""
    values = {key if isinstance(key, str) else " × ".join(key): value for key, value in part.values.items()}
    known = [(name, value) for name, value in values.items() if value is not None and isfinite(value)]
    known.sort(key=lambda item: item[1], reverse=part.worst_is == "largest")
    undefined = [(name, None) for name in values if name not in dict(known)]
    entries = [*known, *undefined]
    largest = max((abs(value) for _, value in known), default=0.0) or 1.0
    of = part.of if isinstance(part, By) else "pair of columns"
    more = entries[_SHOWN_PARTS:]
    return "by.html", {"of": of, "entries": entries[:_SHOWN_PARTS], "more": more, "largest": largest}


def _counts(part: Counts, name: str) -> Shown | None:
    """Drawn; nothing where bins of many people are too few to draw."""
    from markupsafe import Markup

    from gpuanon.report.drawing import count_plot

    drawn = count_plot(part, name)
    if drawn is None:
        return None
    return "counts.html", {"svg": Markup(drawn), "cumulative": part.cumulative, "sides": list(part.sides)}


def _compared(part: Compared, name: str) -> Shown:
    """A table with the figures of both sides."""
    figures = [list(dict.fromkeys(key for one in side.values() for key in one)) for side in (part.before, part.after)]
    rows = [
        (
            name,
            [part.before[name].get(key) for key in figures[0]],
            [part.after.get(name, {}).get(k) for k in figures[1]],
        )
        for name in part.before
    ]
    keep = [[any(row[side][at] is not None for row in rows) for at in range(len(figures[side - 1]))] for side in (1, 2)]
    return "compared.html", {
        "of": part.of,
        "before": _chosen(figures[0], keep[0]),
        "after": _chosen(figures[1], keep[1]),
        "rows": [(name, _chosen(first, keep[0]), _chosen(second, keep[1])) for name, first, second in rows],
    }


def _chosen(values: list[Any], keep: list[bool]) -> list[Any]:
    return [value for value, flag in zip(values, keep, strict=True) if flag]
