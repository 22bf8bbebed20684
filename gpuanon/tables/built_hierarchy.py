"""Hierarchies that are built from a column's own values, in place of a file.

    age  = { role = "quasi", hierarchy = { build = "intervals", widths = [5, 10, 20] } }
    born = { role = "quasi", hierarchy = { build = "dates", units = ["month", "year"] } }
    zip  = { role = "quasi", kind = "categorical", hierarchy = { build = "prefix", lengths = [3, 2, 1] } }

Borders that follow from the values (quantiles, tails) are rounded, so that no label shows a value of a record.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpuanon.arrays.backend import Host
from gpuanon.errors import RecipeError
from gpuanon.tables.arrow import numpy_array
from gpuanon.tables.values import family, floats

if TYPE_CHECKING:
    import pyarrow as pa

Labels: TypeAlias = list[list[str]]
"""For each level from 1 on the label of each value."""

Above0 = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class Build(BaseModel):
    """How a hierarchy is built.

    star : whether a last level with the single value ``*`` stands above the others
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    star: bool = True

    def labels(self, values: pa.Array, counts: Host, texts: Sequence[str]) -> Labels:
        """The labels of the distinct `values`, in their order, of which `counts` (values,) records each have one."""
        raise NotImplementedError


class FixedIntervals(Build):
    """Intervals of these widths, level by level; each width is a multiple of the one before."""

    build: Literal["intervals"]
    widths: tuple[Above0, ...] = Field(min_length=1)
    origin: float = 0.0

    @model_validator(mode="after")
    def _nested(self) -> Self:
        _check_multiples(self.widths, "widths")
        return self

    def labels(self, values: pa.Array, counts: Host, texts: Sequence[str]) -> Labels:
        x = _numbers(values, "intervals")
        out = []
        for width in self.widths:
            low = np.floor((x - self.origin) / width + 1e-9) * width + self.origin
            out.append([f"[{a:.12g}, {b:.12g})" for a, b in zip(low, low + width, strict=True)])
        return out


class Rounding(Build):
    """Numbers rounded to multiples of these steps, level by level.

    A level is rounded from the one below it, so that all records of a value stay together.
    """

    build: Literal["rounding"]
    steps: tuple[Above0, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _nested(self) -> Self:
        _check_multiples(self.steps, "steps")
        return self

    def labels(self, values: pa.Array, counts: Host, texts: Sequence[str]) -> Labels:
        x, out = _numbers(values, "rounding"), []
        for step in self.steps:
            x = np.floor(x / step + 0.5) * step + 0.0
            out.append([f"{number:.12g}" for number in x])
        return out


class QuantileIntervals(Build):
    """So many intervals with about equally many records, level by level; each number divides the one before."""

    build: Literal["quantiles"]
    groups: tuple[Annotated[int, Field(ge=2)], ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _nested(self) -> Self:
        for one, other in zip(self.groups, self.groups[1:], strict=False):
            if one % other or one == other:
                raise ValueError(f"groups: {other} does not divide {one}")
        return self

    def labels(self, values: pa.Array, counts: Host, texts: Sequence[str]) -> Labels:
        x = _numbers(values, "quantiles")
        at = [_quantile(x, counts, number / self.groups[0]) for number in range(1, self.groups[0])]
        step = _step(x, counts, self.groups[0])
        cuts = [_snapped(cut, step) for cut in at]
        out = []
        for groups in self.groups:
            every = self.groups[0] // groups
            borders = sorted(set(cuts[every - 1 :: every]))
            names = _between(borders)
            out.append([names[place] for place in np.searchsorted(borders, x, side="right")])
        return out


class Tails(Build):
    """Bottom and top coding: values in the tails are released as ``≤ x`` and ``≥ y``, the others as they are.

    share : of the records that each tail holds, at least
    least : records that each tail holds, at least
    ends  : which tails are coded
    above : values above it are the top tail, whatever their share (HIPAA: ages above 89)

    The borders are rounded towards the middle, unless `above` is one.
    """

    build: Literal["tails"]
    star: bool = False
    share: float = Field(default=0.01, gt=0, lt=0.5)
    least: int = Field(default=10, ge=2)
    ends: Literal["both", "bottom", "top"] = "both"
    above: float | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.above is not None and self.ends != "top":
            raise ValueError('above: is a border of the top tail: ends = "top"')
        return self

    def labels(self, values: pa.Array, counts: Host, texts: Sequence[str]) -> Labels:
        x = _numbers(values, "tails")
        share = min(max(self.share, self.least / max(int(counts.sum()), 1)), 0.5)
        step = _step(x, counts, 20)
        low = np.ceil(round(_quantile(x, counts, share) / step, 9)) * step
        high = np.floor(round(_quantile(x, counts, 1 - share, upper=True) / step, 9)) * step
        out = list(texts)
        if self.above is not None:
            top = f"> {self.above:.12g}"
            return [[top if number > self.above else text for number, text in zip(x, out, strict=True)]]
        for at, number in enumerate(x):
            if self.ends != "top" and number <= low:
                out[at] = f"≤ {low:.12g}"
            elif self.ends != "bottom" and number >= high:
                out[at] = f"≥ {high:.12g}"
        return [out]


class Dates(Build):
    """Dates and times to months, quarters, years or decades, level by level."""

    build: Literal["dates"]
    units: tuple[Literal["month", "quarter", "year", "decade"], ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _nested(self) -> Self:
        order = ["month", "quarter", "year", "decade"]
        if [order.index(unit) for unit in self.units] != sorted({order.index(unit) for unit in self.units}):
            raise ValueError("units: each must be longer than the one before")
        return self

    def labels(self, values: pa.Array, counts: Host, texts: Sequence[str]) -> Labels:
        import pyarrow as pa
        import pyarrow.compute as pc

        if family(values.type) != "time" or pa.types.is_duration(values.type) or pa.types.is_time(values.type):
            raise RecipeError('hierarchy: build = "dates" is for columns of dates or times')
        years, months = (numpy_array(part(values)) for part in (pc.year, pc.month))
        names = {
            "month": [f"{y:04d}-{m:02d}" for y, m in zip(years, months, strict=True)],
            "quarter": [f"{y:04d}-Q{(m + 2) // 3}" for y, m in zip(years, months, strict=True)],
            "year": [f"{y:04d}" for y in years],
            "decade": [f"{y // 10 * 10:04d}s" for y in years],
        }
        return [names[unit] for unit in self.units]


class Prefix(Build):
    """The first characters of a code (a postcode, a diagnosis), level by level; the others become ``*``.

    zeros : beginnings that are released as zeros, whatever the length (HIPAA: three digits of areas of few people)
    """

    build: Literal["prefix"]
    lengths: tuple[Count, ...] = Field(min_length=1)
    zeros: tuple[Annotated[str, Field(min_length=1)], ...] = ()

    @model_validator(mode="after")
    def _nested(self) -> Self:
        if list(self.lengths) != sorted(set(self.lengths), reverse=True):
            raise ValueError("lengths: each must be less than the one before")
        return self

    def labels(self, values: pa.Array, counts: Host, texts: Sequence[str]) -> Labels:
        return [[self._beginning(text, length) for text in texts] for length in self.lengths]

    def _beginning(self, text: str, length: int) -> str:
        begin = "0" * length if self.zeros and text.startswith(self.zeros) else text[:length]
        return begin + "*" * (len(text) - length)


class Order(Build):
    """Groups of so many neighbours in the order of the values, and of so many such groups at the next level.

    The label of a group of numbers or dates names ends that are rounded outwards, to powers of ten and to months: the
    exact ends would be values of records, the largest of all among them.  Groups whose rounded ends are equal are
    numbered.  Levels of text are named as they are.
    """

    build: Literal["order"]
    sizes: tuple[Annotated[int, Field(ge=2)], ...] = Field(min_length=1)

    def labels(self, values: pa.Array, counts: Host, texts: Sequence[str]) -> Labels:
        out, size = [], 1
        for factor in self.sizes:
            size *= factor
            lows, highs = _outwards(values, counts, texts, -(-len(texts) // size))
            ends = [f"{lows[at]} … {highs[min(at + size, len(texts)) - 1]}" for at in range(0, len(texts), size)]
            names = _numbered(ends)
            out.append([names[at // size] for at in range(len(texts))])
        return out


AnyBuild: TypeAlias = Annotated[
    FixedIntervals | Rounding | QuantileIntervals | Tails | Dates | Prefix | Order, Field(discriminator="build")
]


def _outwards(values: pa.Array, counts: Host, texts: Sequence[str], groups: int) -> tuple[Sequence[str], Sequence[str]]:
    """Each value as the lower and as the upper end of one of so many groups: numbers and dates are rounded outwards."""
    import pyarrow as pa

    if family(values.type) == "number":
        x = np.asarray(floats(pa.chunked_array([values])))
        step = _step(x, counts, groups)
        if np.allclose(np.rint(x / step) * step, x, rtol=0, atol=1e-9 * step):  # a grid of the values themselves
            step *= 10
        low, high = np.floor(x / step + 1e-9) * step, np.ceil(x / step - 1e-9) * step
        return [f"{end:.12g}" for end in low], [f"{end:.12g}" for end in high]
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        months = numpy_array(values.cast(pa.timestamp("us"))).astype("M8[M]").astype(str).tolist()
        return months, months
    return texts, texts


def _numbered(names: Sequence[str]) -> list[str]:
    """The names, each different: the second of a name is followed by (2), and so on."""
    seen: Counter[str] = Counter()
    out = []
    for name in names:
        seen[name] += 1
        out.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return out


def _check_multiples(steps: Sequence[float], name: str) -> None:
    """Refuse steps of which one is not a multiple of the one before."""
    for one, other in itertools.pairwise(steps):
        if abs(other / one - round(other / one)) > 1e-9 or other <= one:
            raise ValueError(f"{name}: {other:g} is not a multiple of {one:g}")


def _numbers(values: pa.Array, what: str) -> Host:
    """The values as numbers."""
    import pyarrow as pa

    if family(values.type) != "number":
        raise RecipeError(f'hierarchy: build = "{what}" is for columns of numbers')
    return np.asarray(floats(pa.chunked_array([values])))


def _quantile(x: Host, counts: Host, share: float, *, upper: bool = False) -> float:
    """The smallest value (largest with `upper`) with at least this share of the records at or below (above) it."""
    if upper:
        above = np.cumsum(counts[::-1])
        return float(x[::-1][np.searchsorted(above, (1 - share) * above[-1] - 1e-9)])
    below = np.cumsum(counts)
    return float(x[np.searchsorted(below, share * below[-1] - 1e-9)])


def _step(x: Host, counts: Host, parts: int) -> float:
    """A power of ten, of which many make the middle of the values: borders are multiples of it."""
    span = _quantile(x, counts, 0.95) - _quantile(x, counts, 0.05)
    span = span if span > 0 else max(float(x.max() - x.min()), 1.0)
    return float(10.0 ** np.floor(np.log10(span / parts)))


def _snapped(number: float, step: float) -> float:
    """The nearest multiple of a step."""
    return float(np.floor(number / step + 0.5) * step)


def _between(borders: Sequence[float]) -> list[str]:
    """Names of the intervals between borders; the ends are open."""
    if not borders:
        return ["*"]
    inner = [f"[{a:.12g}, {b:.12g})" for a, b in itertools.pairwise(borders)]
    return [f"< {borders[0]:.12g}", *inner, f"≥ {borders[-1]:.12g}"]
