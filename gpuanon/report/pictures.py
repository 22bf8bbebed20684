"""The pictures of a comparison, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.column_pictures import Correlations, Histogram, Quantiles
from gpuanon.report.drawing import AFTER, BEFORE, GREY, drawn, plain_axis, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
