"""The pair plot of kernel principal components: original in blue, release in red.

On the diagonal the densities along each component, above it contours of both tables over the released points, below it
all points on a scale that shows the tails (figure 3-1 of [1]).

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BLUE, RED, GREY = "#1f5fbf", "#c8282d", "#9a9a9a"
_SHARES = (0.75, 0.5, 0.25)
_GRID = 120
_POINTS = 2000


def pair_plot(
    original: Host, release: Host, labels: Sequence[str], title: str = "", groups: Host | None = None
) -> Figure:
    """Plot the scores of an original (n, c) and its release (m, c) on the same c components against each other.

    Parameters
    ----------
    labels : one text a component (its eigenvalue, the cumulative share of variance, the distance)
    groups : (m,) group of each released row: below the diagonal only released points are shown, in the colours of
             their groups; None for original and release in blue and red
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = original.shape[1]
    figure = Figure(figsize=(2.1 * count + 0.4, 2.1 * count + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(count, count, squeeze=False)
    for row in range(count):
        for column in range(count):
            axis = axes[row, column]
            axis.tick_params(labelsize=5, length=2)
            if row == column:
                _densities(axis, original[:, row], release[:, row], labels[row])
            elif row < column:
                _contours(axis, original[:, [column, row]], release[:, [column, row]])
            else:
                _tails(axis, original[:, [column, row]], release[:, [column, row]], groups)
    _legend(figure)
    figure.suptitle(title, fontsize=9)
    return figure


def _densities(axis: Axes, before: Host, after: Host, label: str) -> None:
    """Smoothed densities over the middle of the original."""
    low, high = _middle(before)
    edges = np.linspace(low, high, _GRID + 1)
    centres = (edges[1:] + edges[:-1]) / 2
    width = [_bandwidth(before, edges, 1)]
    for values, colour in ((before, BLUE), (after, RED)):
        axis.plot(centres, _smooth(np.histogram(values, edges)[0] / len(values), width), color=colour, lw=1)
    axis.set_yticks([])
    axis.set_xlim(low, high)
    axis.set_ylim(0, None)
    axis.text(0.98, 0.97, label, transform=axis.transAxes, ha="right", va="top", fontsize=5.5, linespacing=1.3)


def _contours(axis: Axes, before: Host, after: Host) -> None:
    """Lines that hold 25, 50 and 75 % of each table's middle, over the released points."""
    (left, right), (low, high) = _middle(before[:, 0]), _middle(before[:, 1])
    shown = _thin(after)
    axis.plot(shown[:, 0], shown[:, 1], ",", color=GREY, alpha=0.5, zorder=0)
    edges = np.linspace(left, right, _GRID + 1), np.linspace(low, high, _GRID + 1)
    centres = [(edge[1:] + edge[:-1]) / 2 for edge in edges]
    width = [_bandwidth(before[:, at], edges[at], 2) for at in (0, 1)]
    for values, colour in ((before, BLUE), (after, RED)):
        density = _smooth(np.histogram2d(values[:, 0], values[:, 1], edges)[0], width)
        levels = _levels(density)
        if len(levels):
            axis.contour(*centres, density.T, levels=levels, colors=colour, linewidths=0.8)
    axis.set_xlim(left, right)
    axis.set_ylim(low, high)


def _tails(axis: Axes, before: Host, after: Host, groups: Host | None) -> None:
    """All points, on a scale that is linear in the middle and logarithmic outside."""
    if groups is None:
        axis.plot(before[:, 0], before[:, 1], ".", ms=1.2, mew=0, color=BLUE, alpha=0.45)
        axis.plot(after[:, 0], after[:, 1], ".", ms=1.2, mew=0, color=RED, alpha=0.45)
    else:
        axis.scatter(after[:, 0], after[:, 1], s=1, lw=0, c=groups % 20, cmap="tab20", alpha=0.8)
    for scale, values in ((axis.set_xscale, before[:, 0]), (axis.set_yscale, before[:, 1])):
        width = float(np.subtract(*np.quantile(values, [0.75, 0.25]))) or 1.0
        scale("symlog", linthresh=2 * width, linscale=1.0)
    axis.set_xticks([], minor=True)
    axis.set_yticks([], minor=True)
    axis.set_xticks([])
    axis.set_yticks([])


def _legend(figure: Figure) -> None:
    """Which colour is which."""
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=BLUE, label="original"), Line2D([], [], color=RED, label="release")]
    figure.legend(handles=lines, loc="outside lower center", ncols=2, fontsize=7, frameon=False)


def _middle(values: Host) -> tuple[float, float]:
    """The range of the middle 90 %, with some air: what lies outside is for the panels of the tails."""
    low, high = np.quantile(values, [0.05, 0.95])
    air = 0.15 * (high - low) or 0.5
    return float(low - air), float(high + air)


def _bandwidth(values: Host, edges: Host, dimensions: int) -> float:
    """Silverman's bandwidth from the middle half of the values, in cells of the grid; wider for contours."""
    spread = float(np.subtract(*np.quantile(values, [0.75, 0.25]))) / 1.34
    cells = 0.9 * dimensions**0.5 * spread * len(values) ** (-1 / (dimensions + 4)) / float(edges[1] - edges[0])
    return max(0.7, float(cells))


def _smooth(counts: Host, width: list[float]) -> Host:
    """Counts on a grid, smoothed."""
    from scipy.ndimage import gaussian_filter

    return np.asarray(gaussian_filter(counts.astype(float), width, mode="constant"))


def _levels(density: Host) -> list[float]:
    """Densities above which lie the wanted shares of the table, ascending and distinct."""
    ordered = np.sort(density.ravel())[::-1]
    total = ordered.sum()
    if total == 0:
        return []
    held = ordered.cumsum() / total
    return sorted({float(ordered[np.searchsorted(held, share)]) for share in _SHARES})


def _thin(points: Host) -> Host:
    """Every so many-th point: a plot needs no more than a few thousand."""
    return points[:: max(1, len(points) // _POINTS)]
