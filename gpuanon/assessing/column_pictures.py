"""What a report shows of an original beside its release: distributions that no single person can be read from.

A report may be published, so everything here is counted over many people.  A bin or level that holds fewer than
`least` original records (persons, where a column has that role) is merged with others.  Bin edges are round numbers,
never values of records.  The ends of a distribution are open bins, so that neither minimum nor maximum is shown.  A
point of a quantile plot is the rounded mean of a step of many records, without the first and the last step.  Shares
are rounded to a thousandth: from two pictures nobody can compute a small count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.bins import LEAST, coarse_bins, date_cuts, distinct_per_bin, number_cuts
from gpuanon.assessing.compared_tables import recoded, types_of
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.densities import Components, Contours, components, contours
from gpuanon.assessing.utility.kernel_pca import components_of, projected
from gpuanon.errors import GpuanonError
from gpuanon.numerics.sampling import sample_rows
from gpuanon.tables.codes import level_codes
from gpuanon.tables.values import NULL, distinct, family, floats, lookup, null_mask, plain

if TYPE_CHECKING:
    import pyarrow as pa

Shares: TypeAlias = tuple[float, ...]

SHOWN_LEVELS = 16
SHOWN_PAIRS = 6
SHOWN_COMPONENTS = 4
COMPONENT_ROWS = 2500
_STEPS = 40
OTHER, MISSING = "other levels", "missing"


@dataclass(frozen=True)
class Bars:
    """Shares of the levels of a column; the last may be `OTHER`, the levels that are rare or too many to show."""

    column: str
    labels: tuple[str, ...]
    before: Shares
    after: Shares


@dataclass(frozen=True)
class Histogram:
    """Shares of the bins of a column: below the first cut, between cuts, and from the last cut on.

    missing : share of missing values in original and release; None where too few are missing to tell
    dates   : cuts are days since 1970
    """

    column: str
    cuts: Shares
    before: Shares
    after: Shares
    missing: tuple[float, float] | None
    dates: bool = False


@dataclass(frozen=True)
class Quantiles:
    """Means of equal shares of the records, in ascending order, of original and release."""

    column: str
    before: Shares
    after: Shares
    dates: bool = False


@dataclass(frozen=True)
class Correlations:
    """Pearson's correlations of the columns of numbers and dates; None where a column is constant."""

    columns: tuple[str, ...]
    before: tuple[tuple[float | None, ...], ...]
    after: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Missing:
    """Shares of missing values by column, of those that have any; None where too few are missing to tell."""

    before: dict[str, float | None]
    after: dict[str, float | None]


Picture: TypeAlias = Bars | Histogram | Quantiles | Correlations | Contours | Components | Missing


@dataclass(frozen=True)
class Pictures:
    """All pictures of a comparison.

    columns : pictures by column
    pairs   : pictures of columns together: correlations, contours of pairs, kernel components, missing values
    omitted : why a column has no picture, by name
    least   : original records (or persons) that every bin, level and step holds at least
    """

    columns: dict[str, tuple[Picture, ...]]
    pairs: tuple[Picture, ...]
    omitted: dict[str, str]
    least: int
    unit: str
    note: str | None = None


def pictures(comparison: Comparison, least: int = LEAST) -> Pictures:
    """The pictures of original and release; `least` below `LEAST` is raised to it."""
    c, least = comparison.host, max(least, LEAST)
    units = _units(c)
    labels = set(recoded(c.points, types_of(c.original), c.columns))
    found: dict[str, tuple[Picture, ...]] = {}
    omitted: dict[str, str] = {}
    numbers: dict[str, tuple[Host, Host]] = {}
    for name in c.columns:
        dates = c.schema[name].kind == "date"
        if c.schema[name].kind not in ("numeric", "date"):
            found[name] = _bars(name, c.original.arrow(name), c.points.arrow(name), units, least)
        elif name in labels:
            omitted[name] = "released as labels, which have no place among the original's values"
        else:
            numbers[name] = _days_or_numbers(c.original.arrow(name)), _days_or_numbers(c.points.arrow(name))
            found[name] = _shapes(name, *numbers[name], units, least, dates)
        if name in found and not found[name]:
            omitted[name] = f"too few different values that {least} or more share"
            del found[name]
    unit = "record" if units is None else c.schema.unit
    together: list[Picture | None] = [_missing(c, units, least), _correlations(numbers, least)]
    together += _contours(numbers, c, units, least)
    together.append(_components(c, units, least))
    return Pictures(found, tuple(one for one in together if one is not None), omitted, least, unit, c.note)


def _units(c: Comparison) -> Host | None:
    """(n,) the person of each original record; None where records are counted."""
    person = c.schema.unit_column
    if person is None or person.name not in c.original.names:
        return None
    return level_codes([c.original], (person.name,))[0][:, 0]


def _days_or_numbers(column: pa.ChunkedArray) -> Host:
    """(n,) numbers, or days since 1970; NaN where null or infinite."""
    import pyarrow as pa

    column = plain(column)
    days = family(column.type) == "time"
    values = floats(column.cast(pa.timestamp("s"), safe=False)) / 86400 if days else floats(column)
    return np.where(np.isfinite(values), values, np.nan)


def _bars(
    name: str, before: pa.ChunkedArray, after: pa.ChunkedArray, units: Host | None, least: int
) -> tuple[Picture, ...]:
    """Levels that enough original records have, the most frequent first."""
    if not len(before) or not len(after):
        return ()
    labels, (old, new) = _labelled(before, after)
    people = distinct_per_bin(old, len(labels), units)
    counts, released = (np.bincount(codes, minlength=len(labels)) for codes in (old, new))
    common = np.flatnonzero((people >= least) | ((people == 0) & (released >= least)))
    common = common[np.lexsort((-released[common], -counts[common]))]
    shown = common[:SHOWN_LEVELS].tolist()
    rest = np.setdiff1d(np.flatnonzero(people + released), shown).tolist()
    while shown and 0 < people[rest].sum() < least:
        rest.append(shown.pop())  # what is left must not be a few records either
    if not shown:
        return ()
    parts = [*([level] for level in shown), *([rest] if rest else [])]
    texts = (*(labels[level] for level in shown), *([OTHER] if rest else []))
    shares = [_shares([int(side[part].sum()) for part in parts]) for side in (counts, released)]
    return (Bars(name, texts, shares[0], shares[1]),)


def _labelled(before: pa.ChunkedArray, after: pa.ChunkedArray) -> tuple[list[str], list[Host]]:
    """The levels of both as text, the missing value last, and the level of each row."""
    import pyarrow as pa

    texts = [plain(column).cast(pa.large_string()) for column in (before, after)]
    levels = distinct(texts)
    codes = [lookup(text, levels) for text in texts]
    for code, column in zip(codes, (before, after), strict=True):
        code[null_mask(column)] = NULL
    return [*levels.to_pylist(), MISSING], [np.where(code == NULL, len(levels), code) for code in codes]


def _shapes(name: str, before: Host, after: Host, units: Host | None, least: int, dates: bool) -> tuple[Picture, ...]:
    """The histogram and the quantiles of numbers or dates; nothing where there are too few values."""
    known = ~np.isnan(before)
    old, new, own = before[known], after[~np.isnan(after)], None if units is None else units[known]
    if len(old) < 4 * least or not len(new):
        return ()
    # At least `least` records, and at least a hundredth of them, lie beyond either end of the scale.
    beyond = max(least, len(old) // 100)
    ordered = np.sort(old)
    low, high = float(ordered[beyond]), float(ordered[-beyond - 1])
    cuts, grain = date_cuts(low, high) if dates else number_cuts(low, high, whole=bool((old == np.round(old)).all()))
    cuts = coarse_bins(old, cuts, own, least)
    if not len(cuts):
        return ()
    counts = [np.bincount(np.searchsorted(cuts, side, side="right"), minlength=len(cuts) + 1) for side in (old, new)]
    gone = before[~known], None if units is None else units[~known]
    few = 0 < (len(gone[0]) if gone[1] is None else len(np.unique(gone[1]))) < least
    missing = None if few else (_share(1 - len(old) / len(before)), _share(1 - len(new) / len(after)))
    histogram = Histogram(name, tuple(cuts.tolist()), _shares(counts[0]), _shares(counts[1]), missing, dates)
    return histogram, *_quantiles(name, old, new, own, least, grain, dates)


def _quantiles(
    name: str, old: Host, new: Host, units: Host | None, least: int, grain: float, dates: bool
) -> tuple[Quantiles, ...]:
    """Means of equal shares of the records, without the first and the last, on a grid of width `grain`."""
    steps = min(_STEPS, len(old) // (2 * least), len(new) // (2 * least))
    if steps < 6:
        return ()
    order = np.argsort(old, kind="stable")
    parts = np.array_split(order, steps)
    if units is not None and min(len(np.unique(units[part])) for part in parts) < least:
        return ()
    before = [old[part].mean() for part in parts[1:-1]]
    after = [part.mean() for part in np.array_split(np.sort(new), steps)[1:-1]]
    rounded = [tuple(float(np.round(value / grain) * grain) for value in side) for side in (before, after)]
    return (Quantiles(name, rounded[0], rounded[1], dates),)


def _correlations(numbers: dict[str, tuple[Host, Host]], least: int) -> Correlations | None:
    """Correlations of all pairs of columns, each over the rows that have both."""
    names = tuple(numbers)
    if len(names) < 2:
        return None
    sides = []
    for side in (0, 1):
        sides.append(
            tuple(tuple(_correlation(numbers[a][side], numbers[b][side], least) for b in names) for a in names)
        )
    return Correlations(names, sides[0], sides[1])


def _correlation(a: Host, b: Host, least: int) -> float | None:
    """Pearson's correlation to two digits; None when too few rows have both values, or one is constant."""
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    if len(a) < 4 * least or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return round(float(np.corrcoef(a, b)[0, 1]), 2)


def _contours(
    numbers: dict[str, tuple[Host, Host]], c: Comparison, units: Host | None, least: int
) -> list[Picture | None]:
    """Contours of the pairs of columns that are correlated most, in the original or in the release."""
    found = _correlations(numbers, least)
    if found is None:
        return []
    strength = {
        (found.columns[i], found.columns[j]): max(abs(found.before[i][j] or 0.0), abs(found.after[i][j] or 0.0))
        for i in range(len(found.columns))
        for j in range(i)
    }
    chosen = sorted(strength, key=lambda pair: -strength[pair])[:SHOWN_PAIRS]
    drawn: list[Picture | None] = []
    for pair in chosen:
        before, after = (np.stack([numbers[name][side] for name in pair], axis=1) for side in (0, 1))
        one = contours(pair, before, after, units, least)
        dates = (c.schema[pair[0]].kind == "date", c.schema[pair[1]].kind == "date")
        drawn.append(None if one is None else replace(one, dates=dates))
    return drawn


def _components(c: Comparison, units: Host | None, least: int) -> Components | None:
    """The leading kernel principal components of a sample of the original, and of the release; None without any."""
    try:
        rows, released = (sample_rows(len(side), COMPONENT_ROWS, "picture") for side in c.encoded)
        before, after = c.encoded[0][rows], c.encoded[1][released]
        found = projected(components_of(before, most=SHOWN_COMPONENTS), after)
    except GpuanonError:
        return None  # labels of a hierarchy, or nothing that varies: the measure says so
    scores = found.components.scores
    if scores.shape[1] < 2:
        return None
    texts = [f"component {number + 1}" for number in range(scores.shape[1])]
    return components(scores, found.release, texts, None if units is None else units[rows], least)


def _missing(c: Comparison, units: Host | None, least: int) -> Missing | None:
    """Shares of missing values, of the columns that lack some."""
    sides: tuple[dict[str, float | None], dict[str, float | None]] = ({}, {})
    for name in c.columns:
        before, after = (null_mask(table.arrow(name)) for table in (c.original, c.points))
        if not before.any() and not after.any():
            continue
        people = int(before.sum()) if units is None else len(np.unique(units[before]))
        few = 0 < people < least
        sides[0][name] = None if few else _share(float(before.mean()))
        sides[1][name] = None if few else _share(float(after.mean()))
    return Missing(*sides) if sides[0] else None


def _shares(counts: Sequence[int] | Host) -> Shares:
    """Counts as shares of their sum."""
    total = max(int(np.sum(counts)), 1)
    return tuple(_share(int(count) / total) for count in counts)


def _share(share: float) -> float:
    return round(share, 3)
