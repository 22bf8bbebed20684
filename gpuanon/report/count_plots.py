"""Counts of original, release and reference along one axis: how far they overlap."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.assessing.figures import Counts
from gpuanon.report.drawing import AFTER, BEFORE, GREY, drawn, plain_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
