"""The map of risk and utility: one point per recipe that was not refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuanon.assessing.measures import Measure
from gpuanon.faces.report.drawing import AFTER, BEFORE, GREY, drawn, plain_axis
from gpuanon.running.compare import Trials

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def trials_map(trials: Trials, risk: Measure, utility: Measure) -> str | None:
    """Every trial at its risk and utility, under its number in the table; None when none has both.

    The line joins the trials that no other beats in both: those among which there is a choice.
    """
    numbered = [
        (number, trial)
        for number, trial in enumerate(trials.trials, 1)
        if {risk.name, utility.name} <= trial.measured.keys()
    ]
    if not numbered:
        return None
    points = {number: (trial.measured[risk.name], trial.measured[utility.name]) for number, trial in numbered}
    best = next((number for number, trial in numbered if trial is trials.best), None)
    front = sorted(at for at in points.values() if not any(_beats(one, at, risk, utility) for one in points.values()))

    def draw(axis: Axes) -> None:
        axis.plot(*zip(*front, strict=True), color=GREY, lw=0.9, ls="--", zorder=1)
        for number, at in points.items():
            mark, colour, size = ("*", AFTER, 13) if number == best else ("o", BEFORE, 6)
            axis.plot(*at, mark, color=colour, ms=size, mew=0)
            axis.annotate(str(number), at, xytext=(6, 5), textcoords="offset points", fontsize=8)
        axis.set_xlabel(f"{risk.name} ({risk.better} is safer)")
        axis.set_ylabel(f"{utility.name} ({utility.better} is more useful)")
        axis.margins(0.12)
        plain_axis(axis)

    return drawn(draw, "map", "Risk and utility of every release; the numbers are those of the table", (6.5, 4.2))


def _beats(one: tuple[float, float], other: tuple[float, float], risk: Measure, utility: Measure) -> bool:
    """Whether `one` is better in one of both and not worse in the other."""
    pairs = list(zip((risk, utility), one, other, strict=True))
    return not any(m.exceeds(a, b) for m, a, b in pairs) and any(m.exceeds(b, a) for m, a, b in pairs)
