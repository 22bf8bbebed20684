"""The drawings of a report, as SVG that stands inside a page: transparent, in the page's font and text colour."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.column_pictures import Correlations, Histogram, Quantiles
from gpuanon.assessing.densities import Components, Contours
from gpuanon.assessing.figures import Counts, figure_text
from gpuanon.assessing.measure import Measure
from gpuanon.report.contents import TrialsData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEFORE, AFTER, GREY = "#2a7fc1", "#dd6b20", "#8a8f98"
"""Original, release, and what is neither: distinguishable without colour vision, on light and on dark paper."""

_INK = "#010203"  # stands for the colour of the page's text
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a name with dollar signs is a name
    "font.family": "sans-serif",
    "font.size": 9,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), _INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def drawn(
    draw: Callable[..., None], name: str, text: str, size: tuple[float, float], panels: int = 1, rows: int = 1
) -> str:
    """The SVG of a figure.

    Parameters
    ----------
    draw : fills one pair of axes, or as many as there are `panels`
    name : begins the identifiers within the SVG: two figures of a page have two names
    text : what the figure shows, for those who cannot see it
    size : width and height in inches
    """
    with _style(name):
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(rows, panels // rows, squeeze=False).ravel()
        draw(*axes)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return _inline(buffer.getvalue(), name, text)


@contextmanager
def _style(name: str) -> Iterator[None]:
    """Matplotlib as the page wants it; a character that its own font has not is the browser's task."""
    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        warnings.simplefilter("ignore", UserWarning)
        yield


def _inline(svg: str, name: str, text: str) -> str:
    """The SVG element alone, with identifiers and colours of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'xlink:href="#', f'href="#{name}-', svg)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace(_INK, "currentColor")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(text, quote=True)}"', 1).strip()


def plain_axis(axis: Axes) -> None:
    """Short ticks."""
    axis.tick_params(length=2.5, width=0.6)


def shortened(label: str, length: int = 28) -> str:
    """A label of at most `length` characters, all of them printable.

    What stands behind the last " | ", such as the coefficient of a model, is kept: it tells labels of one kind apart.
    """
    clean = "".join(character if character.isprintable() else "�" for character in label)
    if len(clean) <= length:
        return clean
    head, mark, tail = clean.rpartition(" | ")
    room = length - len(mark) - len(tail) - 1
    return head[:room] + "…" + mark + tail if mark and room >= 8 else clean[: length - 1] + "…"


def histogram(picture: Histogram, name: str) -> str:
    """Densities over the bins; the open bins at both ends are hatched, as wide as a usual bin."""

    def draw(axis: Axes) -> None:
        cuts = np.array(picture.cuts)
        usual = float(np.median(np.diff(cuts))) if len(cuts) > 1 else 1.0
        edges = np.array([cuts[0] - usual, *cuts, cuts[-1] + usual])
        width = np.diff(edges)
        for shares, colour, fill in ((picture.before, BEFORE, 0.35), (picture.after, AFTER, 0.0)):
            heights = np.array(shares) / width
            axis.stairs(heights, edges, color=colour, lw=1.6, fill=False)
            if fill:
                axis.stairs(heights, edges, color=colour, alpha=fill, fill=True, lw=0)
        for edge in (cuts[0], cuts[-1]):
            axis.axvline(edge, color=GREY, lw=0.6, ls=":")
        axis.set_yticks([])
        axis.set_ylim(0, None)
        axis.spines["left"].set_visible(False)
        scale_axis(axis, picture.dates, "x")
        plain_axis(axis)

    return drawn(draw, name, f"Histogram of {picture.column}, original and release", (3.5, 1.9))


def quantiles(picture: Quantiles, name: str) -> str:
    """Quantiles of the release over those of the original, with the line on which equal ones lie."""

    def draw(axis: Axes) -> None:
        ends = [min(*picture.before, *picture.after), max(*picture.before, *picture.after)]
        axis.plot(ends, ends, color=GREY, lw=0.8, ls="--")
        axis.plot(picture.before, picture.after, "o", color=AFTER, ms=3.5, mew=0)
        axis.set_xlabel("original")
        axis.set_ylabel("release")
        scale_axis(axis, picture.dates, "x")
        scale_axis(axis, picture.dates, "y")
        plain_axis(axis)

    return drawn(draw, name, f"Quantiles of {picture.column}, release over original", (2.2, 1.95))


def correlations(picture: Correlations, name: str) -> str:
    """Correlations before, after, and how they changed."""
    sides = [np.array(side, dtype=float) for side in (picture.before, picture.after)]
    panels = (("original", sides[0]), ("release", sides[1]), ("change", sides[1] - sides[0]))
    count, labels = len(picture.columns), [shortened(column, 16) for column in picture.columns]

    def draw(*axes: Axes) -> None:
        for number, (axis, (title, values)) in enumerate(zip(axes, panels, strict=True)):
            axis.pcolormesh(range(count), range(count), values, cmap="RdBu_r", vmin=-1, vmax=1)  # not an image
            axis.invert_yaxis()
            axis.set_aspect("equal")
            axis.set_title(title, fontsize=9)
            axis.set_xticks(range(count), labels, rotation=60, ha="right", rotation_mode="anchor")
            axis.set_yticks(range(count), labels if number == 0 else [""] * count)
            axis.tick_params(length=0)
            for spine in axis.spines.values():
                spine.set_visible(False)
            if count <= 8:
                _write_values(axis, values)

    side = min(max(1.6, 0.42 * count), 3.4)
    room = 0.6 + 0.09 * max(map(len, labels), default=0)  # for a title, and for labels that are turned
    text = "Correlations in the original, in the release, and their change"
    return drawn(draw, name, text, (3 * side + room, side + room), 3)


def _write_values(axis: Axes, values: Host) -> None:
    """The figure in each cell."""
    for row, column in np.ndindex(values.shape):
        value = values[row, column]
        text = "–" if np.isnan(value) else f"{value:.2f}".replace("0.", ".").replace("-", "−")
        dark = not np.isnan(value) and abs(value) > 0.6
        axis.text(column, row, text, ha="center", va="center", fontsize=7, color="#ffffff" if dark else "#222222")


def scale_axis(axis: Axes, dates: bool, which: str) -> None:
    """A few ticks; days since 1970 as dates."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import EngFormatter, MaxNLocator

    scale = axis.xaxis if which == "x" else axis.yaxis
    if dates:
        locator = AutoDateLocator(minticks=2, maxticks=5)
        scale.set_major_locator(locator)
        scale.set_major_formatter(ConciseDateFormatter(locator))
    else:
        scale.set_major_locator(MaxNLocator(3))
        low, high = scale.get_view_interval()
        if max(abs(low), abs(high)) >= 10_000:
            scale.set_major_formatter(EngFormatter(sep=""))  # 40k


def contour_plot(picture: Contours, name: str) -> str:
    """Lines that hold a quarter, half and three quarters of the people, of original and release."""

    def draw(axis: Axes) -> None:
        _lines(axis, picture)
        axis.set_xlabel(shortened(picture.columns[0], 24))
        axis.set_ylabel(shortened(picture.columns[1], 24))
        scale_axis(axis, picture.dates[0], "x")
        scale_axis(axis, picture.dates[1], "y")
        plain_axis(axis)

    first, second = picture.columns
    return drawn(draw, name, f"Contours of {first} and {second}: solid the original, dashed the release", (3.0, 2.5))


def component_plot(picture: Components, name: str) -> str:
    """Densities on the diagonal, contours of the middle above it and of nearly everything below it."""
    count = len(picture.labels)

    def draw(*axes: Axes) -> None:
        for at, axis in enumerate(axes):
            row, column = divmod(at, count)
            axis.set_xticks([])
            axis.set_yticks([])
            if row == column:
                edges, before, after = picture.curves[row]
                if len(edges):
                    axis.stairs(before, edges, color=BEFORE, lw=1.2)
                    axis.stairs(after, edges, color=AFTER, lw=1.2, ls=(0, (4, 2)))
                axis.set_ylim(0, None)
                axis.set_title(picture.labels[row], fontsize=8)
                continue
            found = picture.middle.get((row, column)) or picture.tails.get((row, column))
            if found is not None:
                _lines(axis, found)

    side = 1.55 * count
    text = "Kernel principal components of original (solid) and release (dashed)"
    return drawn(draw, name, text, (side, side), count * count, count)


def _lines(axis: Axes, picture: Contours) -> None:
    """The contour lines of both tables."""
    centres = [(edge[1:] + edge[:-1]) / 2 for edge in picture.edges]
    for density, colour, style in ((picture.before, BEFORE, "solid"), (picture.after, AFTER, "dashed")):
        if density.levels:
            axis.contour(
                *centres, density.grid.T, levels=density.levels, colors=colour, linewidths=1.1, linestyles=style
            )
    axis.set_xlim(picture.edges[0][0], picture.edges[0][-1])
    axis.set_ylim(picture.edges[1][0], picture.edges[1][-1])


_STYLES = {"original": (BEFORE, "solid"), "release": (AFTER, "solid")}
_OTHER = (GREY, (0, (4, 2)))


def count_plot(counts: Counts, name: str) -> str | None:
    """Shares by bin, or shares up to each edge; None where the bins were merged into fewer than three."""
    inner = np.array(counts.edges[1:-1])
    if len(inner) < 2:
        return None

    def draw(axis: Axes) -> None:
        for side, found in counts.sides.items():
            colour, style = _STYLES.get(side, _OTHER)
            total = sum(found) or 1
            if counts.cumulative:
                shares = [count / total for count in accumulate(found)][:-1]
                axis.plot(inner, shares, color=colour, ls=style, lw=1.6, label=side)
                continue
            usual = float(np.median(np.diff(inner)))
            edges = np.array([inner[0] - usual, *inner, inner[-1] + usual])
            axis.stairs(np.array(found) / total / np.diff(edges), edges, color=colour, ls=style, lw=1.6, label=side)
        if counts.cumulative:
            axis.set_ylim(0, 1)
            axis.set_ylabel("share of people")
        else:
            axis.set_yticks([])
            axis.set_ylim(0, None)
            axis.spines["left"].set_visible(False)
        axis.set_xlabel(counts.of)
        axis.legend(frameon=False, fontsize=8, loc="best")
        plain_axis(axis)

    sides = " and ".join(counts.sides)
    return drawn(draw, name, f"{counts.of}: {sides}", (3.8, 2.3))


def trials_map(trials: TrialsData, risk: Measure, utility: Measure) -> str | None:
    """Every trial at its risk and utility, under its number in the table; None when none has both.

    The line joins the trials that no other beats in both: those among which there is a choice.  A point that is
    pointed at, or reached by the keyboard, shows its recipe.
    """
    points = {
        number: (trial.measured[risk.name], trial.measured[utility.name])
        for number, trial in enumerate(trials.trials, 1)
        if {risk.name, utility.name} <= trial.measured.keys()
    }
    if not points:
        return None
    best = next((number for number in points if trials.trials[number - 1] is trials.best), None)
    front = [points[number + 1] for number in trials.front]

    def draw(axis: Axes) -> None:
        axis.plot(*zip(*front, strict=True), color=GREY, lw=0.9, ls="--", zorder=1)
        for number, at in points.items():
            mark, colour, size = ("*", AFTER, 15) if number == best else ("o", BEFORE, 8)
            axis.plot(*at, mark, color=colour, ms=size, mew=0, gid=f"point{number}")
        for number, at in _apart(points).items():
            axis.annotate(str(number), at, xytext=(7, 5), textcoords="offset points", fontsize=8)
        axis.set_xlabel(f"{risk.name} ({risk.better} is safer)")
        axis.set_ylabel(f"{utility.name} ({utility.better} is more useful)")
        axis.margins(0.12)
        plain_axis(axis)

    text = "Risk and utility of every release; the numbers are those of the table"
    return _with_titles(drawn(draw, "map", text, (5.6, 3.7)), trials, points, risk, utility)


def _apart(points: dict[int, tuple[float, float]]) -> dict[int, tuple[float, float]]:
    """The points whose numbers fit beside them: of points that nearly coincide the first."""
    spans = [max(at[axis] for at in points.values()) - min(at[axis] for at in points.values()) for axis in (0, 1)]
    x, y = (span or 1.0 for span in spans)
    kept: dict[int, tuple[float, float]] = {}
    for number, at in points.items():
        if not any(abs(at[0] - one[0]) < 0.045 * x and abs(at[1] - one[1]) < 0.05 * y for one in kept.values()):
            kept[number] = at
    return kept


def _with_titles(
    svg: str, trials: TrialsData, points: dict[int, tuple[float, float]], risk: Measure, utility: Measure
) -> str:
    """The map with what each point shows when it is pointed at."""
    for number, at in points.items():
        name = trials.trials[number - 1].name
        figures = f"{risk.name} {figure_text(at[0])}, {utility.name} {figure_text(at[1])}"
        text = escape(f"{number}. {name}: {figures}", quote=True)
        mark = f'<g id="map-point{number}" tabindex="0" role="img" aria-label="{text}"><title>{text}</title>'
        svg = re.sub(f'<g id="map-point{number}">', lambda found, mark=mark: mark, svg, count=1)  # type: ignore[misc]
    return svg.replace('<svg role="img"', '<svg role="group"', 1)
