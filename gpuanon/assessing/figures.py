"""What a measure of risk or utility returns: a value, and what it is made of, under names.

JSON, terminal and report are made from these types alone: no reader has to know a measure by its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.bins import number_cuts

Figure: TypeAlias = "float | int | bool | str | list[Figure] | dict[str, Figure] | None"
"""Anything that JSON can hold."""

Worst = Literal["largest", "smallest"]

_LEVELS = (0, 1, *range(5, 100, 5), 99, 100)


@dataclass(frozen=True)
class ConfidenceInterval:
    """The interval of an estimate, and its confidence level."""

    low: float
    high: float
    level: float = 0.95


@dataclass(frozen=True)
class Beside:
    """A figure to read the value by: a baseline of an attack, what an independent sample would give.

    name  : its key in JSON
    label : what stands before it on the terminal
    """

    name: str
    label: str
    value: float | None


@dataclass(frozen=True)
class By:
    """The value by column of the table, or by something else that has names.

    of       : what the keys name: "column", "component", "measure" …
    values   : figure by name; None where it is not defined
    worst_is : which value is the worst for the release
    """

    of: str
    values: Mapping[str, float | None]
    worst_is: Worst = "largest"

    @property
    def worst(self) -> tuple[str, float] | None:
        """Name and value of the worst; None when no value is defined."""
        return _worst(self.values, self.worst_is)

    def to_json(self) -> dict[str, Any]:
        """``by_column`` (or what it is by), and ``worst``."""
        worst = self.worst
        return {f"by_{self.of}": dict(self.values), "worst": None if worst is None else worst[0]}


@dataclass(frozen=True)
class ByPair:
    """The value by pair of columns; a pair of a column with itself is about its own levels."""

    values: Mapping[tuple[str, str], float | None]
    worst_is: Worst = "largest"

    @property
    def worst(self) -> tuple[str, float] | None:
        """Names and value of the worst pair; None when no value is defined."""
        found = _worst(self.values, self.worst_is)
        return None if found is None else (" × ".join(found[0]), found[1])

    def to_json(self) -> dict[str, Any]:
        """``by_pair``, one object of objects, and ``worst``, the names of two columns."""
        nested: dict[str, dict[str, float | None]] = {}
        for (first, second), value in self.values.items():
            nested.setdefault(first, {})[second] = value
        found = _worst(self.values, self.worst_is)
        return {"by_pair": nested, "worst": None if found is None else list(found[0])}


@dataclass(frozen=True)
class Distribution:
    """The value's distribution over records or classes.

    of        : what the figures were measured on: "original records", "classes" …
    count     : how many
    quantiles : by name: min, q01, q05, q10 … median … q95, q99, max
    """

    of: str
    count: int
    mean: float
    quantiles: Mapping[str, float]

    @classmethod
    def over(cls, of: str, values: Host) -> Distribution:
        """Of these values, at least one."""
        found = np.quantile(np.asarray(values, dtype=np.float64), [level / 100 for level in _LEVELS])
        names = {0: "min", 50: "median", 100: "max"}
        quantiles = {names.get(level, f"q{level:02d}"): float(at) for level, at in zip(_LEVELS, found, strict=True)}
        return cls(of, len(values), float(np.mean(values)), quantiles)

    @property
    def worst(self) -> tuple[str, float] | None:
        """A distribution has no worst name."""
        return None

    def to_json(self) -> dict[str, Any]:
        """``distribution``, with ``of``, ``count``, ``mean`` and the quantiles."""
        return {"distribution": {"of": self.of, "count": self.count, "mean": self.mean, **self.quantiles}}


@dataclass(frozen=True)
class Counts:
    """How many records fall between edges, by side: propensity scores, distances under a release and a reference.

    of         : what lies along the edges
    edges      : ascending, one more than each side has counts; the outermost may be infinite
    sides      : counts by name: "original", "release", "reference" …
    cumulative : to be read as shares up to each edge
    """

    of: str
    edges: tuple[float, ...]
    sides: Mapping[str, tuple[int, ...]]
    cumulative: bool = False

    @classmethod
    def over(cls, of: str, sides: Mapping[str, Host], *, cumulative: bool = False) -> Counts:
        """Of the values of each side, in bins of equal width between round numbers; both ends are open."""
        pooled = np.concatenate([np.asarray(values, dtype=np.float64) for values in sides.values()])
        low, high = np.quantile(pooled, [0.01, 0.99])
        cuts = number_cuts(float(low), float(high), whole=False)[0]
        if not len(cuts):
            cuts = np.array([float(f"{np.median(pooled):.2g}")])
        found = {
            name: tuple(np.bincount(np.searchsorted(cuts, values, side="left"), minlength=len(cuts) + 1).tolist())
            for name, values in sides.items()
        }
        return cls(of, (-math.inf, *cuts.tolist(), math.inf), found, cumulative)

    @property
    def worst(self) -> tuple[str, float] | None:
        """Counts have no worst name."""
        return None

    def coarse(self, least: int) -> Counts:
        """Neighbouring bins merged until each side that has a count in a bin has `least` or more in it."""
        bins: list[list[int]] = []
        edges = [self.edges[0]]
        waiting = [0] * len(self.sides)
        for at, counts in enumerate(zip(*self.sides.values(), strict=True), 1):
            waiting = [held + count for held, count in zip(waiting, counts, strict=True)]
            if all(held == 0 or held >= least for held in waiting) and any(waiting):
                bins.append(waiting)
                edges.append(self.edges[at])
                waiting = [0] * len(self.sides)
        while any(waiting) and bins:  # what is left joins the bins before it, until it is enough
            waiting = [held + count for held, count in zip(bins.pop(), waiting, strict=True)]
            edges.pop()
            if all(held == 0 or held >= least for held in waiting):
                bins.append(waiting)
                edges.append(self.edges[-1])
                break
        merged = dict(zip(self.sides, zip(*bins, strict=True), strict=True)) if bins else {}
        return Counts(self.of, (*edges[:-1], self.edges[-1]), merged, self.cumulative)

    def to_json(self) -> dict[str, Any]:
        """``counts``, with ``of``, the shares by side, and the edges by name: open ends are None."""
        names = [f"{_edge(low)} to {_edge(high)}" for low, high in zip(self.edges, self.edges[1:], strict=False)]
        shares = {
            side: dict(zip(names, (round(count / max(sum(counts), 1), 4) for count in counts), strict=True))
            for side, counts in self.sides.items()
        }
        return {"shares": {"of": self.of, **shares}}


@dataclass(frozen=True)
class Compared:
    """Figures of the original beside those of the release: coefficients of a model, shares up to a point.

    of            : what the names are: "coefficient", "point" …
    before, after : by name, figures under their own names; None where one is not defined
    """

    of: str
    before: Mapping[str, Mapping[str, float | None]]
    after: Mapping[str, Mapping[str, float | None]]

    @property
    def worst(self) -> tuple[str, float] | None:
        """A comparison has no worst name by itself."""
        return None

    def to_json(self) -> dict[str, Any]:
        """``compared``, with ``of``, ``original`` and ``release``."""
        return {"compared": {"of": self.of, "original": dict(self.before), "release": dict(self.after)}}


Part: TypeAlias = By | ByPair | Distribution | Counts | Compared


@dataclass(frozen=True)
class Measured:
    """One measured figure, with what is needed to read it.

    value    : the headline figure
    details  : further figures under their names (counts, sizes, settings)
    note     : what the reader must know (a sample was taken, an assumption does not hold), or None
    parts    : what the value is made of; the first part that has a worst name gives the measure's ``worst``
    interval : of an estimate
    beside   : figures to compare the value with
    """

    value: float
    details: Mapping[str, Figure] = field(default_factory=dict)
    note: str | None = None
    parts: tuple[Part, ...] = ()
    interval: ConfidenceInterval | None = None
    beside: tuple[Beside, ...] = ()

    @property
    def worst(self) -> tuple[str, float] | None:
        """Name and value of the worst column, pair of columns or other part."""
        return next((part.worst for part in self.parts if part.worst is not None), None)

    def to_json(self) -> dict[str, Figure]:
        """The measure's object in ``assess --json``: strict JSON, None for what is not a finite number."""
        out: dict[str, Any] = {"value": self.value}
        if self.interval is not None:
            out["interval"] = [self.interval.low, self.interval.high]
            out["interval_level"] = self.interval.level
        for part in self.parts:
            out = part.to_json() | out if "worst" in out else out | part.to_json()
        out |= {beside.name: beside.value for beside in self.beside}
        out |= self.details
        if self.note is not None:
            out["note"] = self.note
        return {name: strict(figure) for name, figure in out.items()}


def strict(figure: Any) -> Figure:
    """`figure` as strict JSON: plain numbers, None for NaN and infinity."""
    if isinstance(figure, Mapping):
        return {str(name): strict(value) for name, value in figure.items()}
    if isinstance(figure, str) or figure is None:
        return figure
    if isinstance(figure, Sequence):
        return [strict(value) for value in figure]
    if isinstance(figure, (bool, np.bool_)):
        return bool(figure)
    if isinstance(figure, (int, np.integer)):
        return int(figure)
    number = float(figure)
    return number if math.isfinite(number) else None


def figure_text(value: Any, digits: int = 4) -> str:
    """A figure as people read it: so many digits, at most five decimals, never a power of ten unless it is huge.

    Examples
    --------
    >>> [figure_text(value) for value in (0.00004961, 0.0029531, 0.0, 1e-7, 12.0, 1234.5, 30_000, True, None)]
    ['0.00005', '0.00295', '0', '< 0.00001', '12', '1,234', '30,000', 'yes', '–']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}".replace("-", "−")
    if not isinstance(value, (float, np.floating)):
        return str(value)
    size, sign = abs(float(value)), "−" if value < 0 else ""
    if size < 1e-12:
        return "0"
    if math.isinf(size):
        return f"{sign}∞"
    if size < 5e-6:
        return "> −0.00001" if sign else "< 0.00001"
    if size >= 1e15:
        mantissa, _, power = f"{size:.3e}".partition("e")
        return f"{sign}{mantissa} × 10^{int(power)}"
    decimals = min(5, max(0, digits - 1 - math.floor(math.log10(size))))
    text = f"{size:,.{decimals}f}"
    return sign + (text.rstrip("0").rstrip(".") if decimals else text)


def join(*notes: str | None) -> str | None:
    """The notes that there are, one after the other; None without any."""
    return "; ".join(note for note in notes if note) or None


def _edge(edge: float) -> str:
    """An edge as text; an infinite one is an open end."""
    return f"{edge:g}" if math.isfinite(edge) else "…"


def _worst(values: Mapping[Any, float | None], worst_is: Worst) -> tuple[Any, float] | None:
    """Key and value of the worst; the first on a tie."""
    known = [(key, value) for key, value in values.items() if value is not None and not math.isnan(value)]
    if not known:
        return None
    return (max if worst_is == "largest" else min)(known, key=lambda item: item[1])
