"""Smoothed densities of two columns at once, whose contours hold many people each.

A contour line of a density estimate goes round the people inside it.  Here every connected region that a line encloses
holds at least `least` original people (released rows, for the release): a smaller one is levelled.  Axes end at round
numbers near the 2 % and 98 % quantiles, so that no end is the value of a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.bins import coarse_bins

Stairs: TypeAlias = tuple[Host, Host, Host]
"""Edges, and the densities of original and release between them."""

SHARES = (0.75, 0.5, 0.25)
"""Of the people, those within the contour lines."""

_GRID = 64
_BINS = 24


@dataclass(frozen=True, eq=False)
class Density:
    """A density on a grid, and the levels at which its contours are drawn."""

    grid: Host
    levels: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Contours:
    """Contours of two columns, of original and release.

    columns : names of the columns along and up
    edges   : of the grid, along and up
    dates   : for both, whether they are days since 1970
    """

    columns: tuple[str, str]
    edges: tuple[Host, Host]
    before: Density
    after: Density
    dates: tuple[bool, bool] = (False, False)

    def lines(self) -> dict[str, list[list[tuple[float, float]]]]:
        """The lines as they are drawn, for original and release: points along and up, to a fifth of a cell."""
        from contourpy import contour_generator  # a part of matplotlib, which reports need

        grain = [float(edge[1] - edge[0]) / 5 for edge in self.edges]
        centres = [(edge[1:] + edge[:-1]) / 2 for edge in self.edges]
        found: dict[str, list[list[tuple[float, float]]]] = {}
        for side, density in (("original", self.before), ("release", self.after)):
            drawn: Any = contour_generator(x=centres[0], y=centres[1], z=density.grid.T)
            lines = [np.round(line / grain) * grain for level in density.levels for line in drawn.lines(level)]
            found[side] = [[(float(f"{x:.6g}"), float(f"{y:.6g}")) for x, y in line[::2]] for line in lines]
        return found


@dataclass(frozen=True, eq=False)
class Components:
    """Original and release on the original's leading kernel principal components.

    labels : one per component
    curves : by component
    middle : contours of two components, by (row, column) above the diagonal
    tails  : the same over nearly all people, on a scale that is logarithmic outside the middle, by (row, column) below
    """

    labels: tuple[str, ...]
    curves: tuple[Stairs, ...]
    middle: dict[tuple[int, int], Contours]
    tails: dict[tuple[int, int], Contours]
    rows: tuple[int, int]


def contours(
    names: tuple[str, str],
    before: Host,
    after: Host,
    units: Host | None,
    least: int,
    shares: Sequence[float] = SHARES,
    ends: float = 0.02,
) -> Contours | None:
    """Contours of the pairs of values `before` (n, 2) and `after` (m, 2); None where too few are known, or constant.

    units : the person of each original record; None where records are counted
    ends  : the share of the original's values beyond either end of an axis, about
    """
    known = [~np.isnan(side).any(axis=1) for side in (before, after)]
    old, new = before[known[0]], after[known[1]]
    own = None if units is None else units[known[0]]
    if min(len(old), len(new)) < 8 * least:
        return None
    edges = []
    for at in (0, 1):
        low, high = np.quantile(old[:, at], [ends, 1 - ends])
        if not high > low:
            return None
        edges.append(round_edges(float(low), float(high)))
    width = [_bandwidth(old[:, at], edges[at]) for at in (0, 1)]
    sides = [_density(old, edges, width, own, least, shares), _density(new, edges, width, None, least, shares)]
    return Contours(names, (edges[0], edges[1]), sides[0], sides[1])


def round_edges(low: float, high: float, cells: int = _GRID) -> Host:
    """Edges of a grid whose ends are round numbers just outside `low` and `high`."""
    grain = 10.0 ** np.floor(np.log10((high - low) / 2)) / 2
    return np.linspace(np.floor(low / grain - 0.5) * grain, np.ceil(high / grain + 0.5) * grain, cells + 1)


def stairs(before: Host, after: Host, edges: Host, units: Host | None, least: int) -> Stairs:
    """Densities of one column over bins that hold `least` original people each."""
    cuts = coarse_bins(before, edges, units, least)
    if len(cuts) < 2:
        return np.empty(0), np.empty(0), np.empty(0)
    heights = [np.histogram(side, cuts)[0] / (len(side) * np.diff(cuts)) for side in (before, after)]
    return cuts, heights[0], heights[1]


def _density(
    values: Host, edges: list[Host], width: list[float], units: Host | None, least: int, shares: Sequence[float]
) -> Density:
    """The smoothed density, levelled where a contour would enclose fewer than `least` people."""
    from scipy.ndimage import gaussian_filter, label

    counts = np.histogram2d(values[:, 0], values[:, 1], edges)[0]
    grid = gaussian_filter(counts, width, mode="constant")
    levels = _levels(grid, shares)
    cell = [np.clip(np.searchsorted(edges[at], values[:, at], side="right") - 1, -1, _GRID) for at in (0, 1)]
    inside = (cell[0] >= 0) & (cell[0] < _GRID) & (cell[1] >= 0) & (cell[1] < _GRID)
    place = cell[0][inside] * _GRID + cell[1][inside]
    own = None if units is None else units[inside]
    for level in levels:  # from the widest region to the narrowest
        regions, count = label(grid >= level)
        people = _people(regions.ravel()[place], count + 1, own)
        few = np.flatnonzero(people < least)
        grid = np.where(np.isin(regions, few[few > 0]), np.minimum(grid, 0.999 * level), grid)
    return Density(grid, levels)


def _people(regions: Host, count: int, units: Host | None) -> Host:
    """(count,) people, or records, in each region."""
    if units is None:
        return np.bincount(regions, minlength=count)
    pairs = np.unique(np.stack([regions, units], axis=1), axis=0)
    return np.bincount(pairs[:, 0].astype(np.int64), minlength=count)


def _levels(grid: Host, shares: Sequence[float]) -> tuple[float, ...]:
    """Densities above which lie the wanted shares, ascending and distinct."""
    ordered = np.sort(grid.ravel())[::-1]
    total = ordered.sum()
    if total == 0:
        return ()
    held = ordered.cumsum() / total
    at = np.minimum(np.searchsorted(held, sorted(shares, reverse=True)), len(ordered) - 1)
    return tuple(sorted({float(ordered[one]) for one in at if ordered[one] > 0}))


def _bandwidth(values: Host, edges: Host) -> float:
    """Silverman's bandwidth for two columns, from the middle half of the values, in cells of the grid."""
    spread = float(np.subtract(*np.quantile(values, [0.75, 0.25]))) / 1.34 or float(values.std())
    return float(max(1.0, spread * len(values) ** (-1 / 6) / (edges[1] - edges[0])))


def components(before: Host, after: Host, labels: Sequence[str], units: Host | None, least: int) -> Components | None:
    """The pair plot of scores `before` (n, c) and `after` (m, c); None where too few rows are there."""
    if min(len(before), len(after)) < 8 * least:
        return None
    curves, middle, tails = [], {}, {}
    count = before.shape[1]
    wide = [_both_scales(before[:, at], after[:, at]) for at in range(count)]
    for row in range(count):
        low, high = np.quantile(before[:, row], [0.02, 0.98])
        if not high > low:
            return None
        edges = round_edges(float(low), float(high), _BINS)
        curves.append(stairs(before[:, row], after[:, row], edges, units, least))
        for column in range(count):
            names = (labels[column], labels[row])
            pair = [side[:, [column, row]] for side in (before, after)]
            if column > row and (found := contours(names, pair[0], pair[1], units, least)) is not None:
                middle[row, column] = found
            far = [np.stack([wide[column][at], wide[row][at]], axis=1) for at in (0, 1)]
            if (
                column < row
                and (found := contours(names, far[0], far[1], units, least, (0.95, 0.75), 0.005)) is not None
            ):
                tails[row, column] = found
    return Components(tuple(labels), tuple(curves), middle, tails, (len(before), len(after)))


def _both_scales(before: Host, after: Host) -> tuple[Host, Host]:
    """Values on a scale that is linear in the original's middle half and logarithmic outside."""
    low, middle, high = np.quantile(before, [0.25, 0.5, 0.75])
    width = float(high - low) or 1.0
    return np.arcsinh((before - middle) / width), np.arcsinh((after - middle) / width)
