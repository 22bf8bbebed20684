"""The map of risk and utility: one point per recipe that was not refused."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from gpuanon.assessing.measure import Measure
from gpuanon.report.contents import TrialsData
from gpuanon.report.drawing import AFTER, BEFORE, GREY, drawn, plain_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        text = escape(f"{number}. {name}: {risk.name} {at[0]:.4g}, {utility.name} {at[1]:.4g}", quote=True)
        mark = f'<g id="map-point{number}" tabindex="0" role="img" aria-label="{text}"><title>{text}</title>'
        svg = re.sub(f'<g id="map-point{number}">', lambda found, mark=mark: mark, svg, count=1)  # type: ignore[misc]
    return svg.replace('<svg role="img"', '<svg role="group"', 1)
