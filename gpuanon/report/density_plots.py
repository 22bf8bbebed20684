"""Contours of two columns, and the pair plot of kernel principal components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuanon.assessing.densities import Components, Contours
from gpuanon.report.drawing import AFTER, BEFORE, drawn, plain_axis, shortened
from gpuanon.report.pictures import scale_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
