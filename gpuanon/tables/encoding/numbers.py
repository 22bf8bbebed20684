"""Numbers and dates as one standardised feature, and an indicator where there are nulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.rng import Draws
from gpuanon.errors import InputError
from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.checks import number_faults
from gpuanon.tables.encoding.features import Categories, Feature, null_scale, standardised
from gpuanon.tables.encoding.lattice import FINE, MOST_STEPS, ColumnBefore, Lattice
from gpuanon.tables.native import column_type, from_arrow, to_arrow
from gpuanon.tables.schema import Column, Nulls, Transform
from gpuanon.tables.summaries import NumberSummary, ValueCounts, transformed
from gpuanon.tables.values import family, floats, value_type

if TYPE_CHECKING:
    import pyarrow as pa

_LINES = 1 << 14  # values that stay in a core's cache
_NEAR = 1e-6  # a decoded value this near to a short decimal, in units of its last place, is that decimal
_ROUNDING = 1e-14  # and so is one that rounding alone may have taken off


@dataclass(frozen=True, eq=False, repr=False)
class NormalScoreMap:
    """A monotone, invertible map between values and normal scores: linear between knots."""

    values: Host
    scores: Host

    @classmethod
    def of(cls, counts: ValueCounts, high: float) -> NormalScoreMap:
        """The score of a value is Φ⁻¹ of its mid-rank share; exact for up to 65 536 distinct values, binned beyond."""
        from scipy.special import ndtri

        shares = (np.cumsum(counts.counts) - counts.counts / 2) / counts.counts.sum()
        values, scores = counts.values, ndtri(shares)
        if counts.cut and high > values[-1]:  # the last bin ends at the largest value
            values = np.append(values, high)
            scores = np.append(scores, ndtri(1 - 0.25 / counts.counts.sum()))
        return cls(values, scores)


@dataclass(frozen=True, eq=False, repr=False)
class NumberCodec:
    """One table column of numbers or times.

    Whole numbers and times go through float64: beyond 2^53 they come back to 53 leading bits, inside their range.

    center, scale : of the transformed values
    low, high     : extremes, None without any value
    decimals      : decimals that write every value of the fitted table
    unit          : every value is a multiple of so many ticks of a time, or last decimal places of a number
    nulls         : whether there is a null indicator
    null_scale    : its size
    """

    name: str
    transform: Transform
    center: float
    scale: float
    low: float | int | None
    high: float | int | None
    decimals: int | None
    unit: int
    nulls: bool
    null_scale: float
    refuse: bool
    scores: NormalScoreMap | None

    @classmethod
    def fit(cls, column: Column, s: NumberSummary, nulls: Nulls, categories: Categories) -> NumberCodec:
        """From the summary of the whole table."""
        rows = s.nulls + s.moments.count
        scores = None
        center, scale = s.moments.mean, s.moments.deviation
        if s.counts is not None and s.high is not None:
            scores = NormalScoreMap.of(s.counts, float(s.high))
            knots = np.interp(s.counts.values, scores.values, scores.scores)
            center = float(np.average(knots, weights=s.counts.counts))
            scale = float(np.sqrt(np.average((knots - center) ** 2, weights=s.counts.counts)))
        if s.low == s.high:
            scale = 0.0
        return cls(
            name=column.name,
            transform=column.transform,
            center=center,
            scale=scale,
            low=s.low,
            high=s.high,
            decimals=s.decimals,
            unit=max(s.unit, 1),
            nulls=s.nulls > 0,
            null_scale=null_scale(categories, s.nulls / rows if rows else 0.0, nulls),
            refuse=nulls == "refuse",
            scores=scores,
        )

    @property
    def features(self) -> tuple[Feature, ...]:
        value = Feature(self.name, "value")
        return (value, Feature(self.name, "null")) if self.nulls else (value,)

    def encode(self, data: pa.ChunkedArray, out: Host) -> None:
        """Nulls are filled by the mean, 0."""
        self.fill(self.values(data), out)

    def values(self, data: pa.ChunkedArray) -> Host:
        """(n,) the values of `data`, checked; NaN where null."""
        values = floats(data)
        self._check(values)
        if self.refuse and len(values) and bool(np.isnan(values.min())):
            count = int(np.isnan(values).sum())
            raise InputError(f"column {self.name!r}: {count} rows are null", hint="see the recipe's nulls")
        return values

    def fill(self, values: Host, out: Host) -> None:
        """Write the features of some of `values` to `out`."""
        feature = standardised(self._transformed(values), self.center, self.scale)
        null = np.isnan(feature)
        out[:, 0] = np.where(null, 0.0, feature) if null.any() else feature
        if self.nulls:
            null = np.isnan(values)
            out[:, 1] = np.where(null, self.null_scale, -self.null_scale)

    def decode(
        self, matrix: Host, like: nw.Series[Any], draws: Draws | None = None, groups: Host | None = None
    ) -> nw.Series[Any]:
        """The values of the features, put on the lattice of the column by `draws`.  Overwrites `matrix`.

        Without draws whole numbers, times and decimals are rounded to the nearest, inside the range, by their type.

        groups : see `Lattice.settle`
        """
        import pyarrow as pa

        type_ = value_type(column_type(like)[0])
        if self.low is None:
            return from_arrow(pa.nulls(len(matrix), type_), like)
        null = matrix[:, 1] > 0 if self.nulls else None
        if self.scale == 0:
            return from_arrow(self._typed(np.full(len(matrix), float(self.low)), null, type_), like)
        own = pa.types.is_float64(type_) and self.decimals is None and len(like) == len(matrix)
        before = to_arrow(like) if own else None
        kept = before is not None and self._any_kept(matrix, before)
        values = self._decoded(matrix[:, 0].copy() if kept else matrix[:, 0])
        if draws is not None:
            lattice = self.lattice
            was = None if groups is not None else self._before(lattice, floats(to_arrow(like)))
            values = lattice.settle(values, null, draws, groups, was)
        if before is not None and kept:
            values = self._unchanged(values, matrix[:, 0], floats(before))
        return from_arrow(self._typed(values, null, type_), like)

    @property
    def lattice(self) -> Lattice:
        """Where values may lie: multiples of a step inside the range, or numbers of the sign that all values have."""
        low, high = float(self.low or 0), float(self.high or 0)
        linear = self.transform == "none"
        if self.decimals is None:
            return Lattice(None, 0.0 if low >= 0 else -np.inf, 0.0 if high <= 0 else np.inf, False, linear)
        step = self.unit / 10.0**self.decimals
        coarse = not linear or self.scale < FINE * step
        return Lattice(step, low, high, coarse and max(abs(low), abs(high)) < MOST_STEPS * step, linear)

    def _before(self, lattice: Lattice, before: Host) -> ColumnBefore:
        """The share of values and of both bounds in the column before."""
        present = int(len(before) - np.isnan(before).sum())
        if not present:
            return ColumnBefore(self.center)
        ends = (int((before == end).sum()) / present for end in (lattice.low, lattice.high))
        return ColumnBefore(self.center, present / len(before), *ends)

    def on_lattice(self, values: Host, like: nw.Series[Any]) -> nw.Series[Any]:
        """Numbers (m,) as a column of the type of `like`: inside the range, with no more decimals than the column has.

        NaN is a null.
        """
        import pyarrow as pa

        type_, null = value_type(column_type(like)[0]), np.isnan(values)
        if self.low is None or self.high is None:
            return from_arrow(pa.nulls(len(values), type_), like)
        inside = np.clip(np.where(null, float(self.low), values), float(self.low), float(self.high))
        if self.decimals is not None:
            inside = np.round(inside, self.decimals)
        return from_arrow(self._typed(inside, null, type_), like)

    def gower(self, data: pa.ChunkedArray) -> tuple[list[Host], list[bool], list[float]]:
        """Scaled to range 1; a null lies in the middle, half a range away from every value."""
        values = floats(data)
        null = np.isnan(values)
        low, high = (0.0, 0.0) if self.low is None else self._forward(np.array([self.low, self.high], dtype=np.float64))
        if low == high:  # also 2⁶⁰ and 2⁶⁰ + 1, which float64 does not tell apart
            scaled = np.zeros(len(values))
        else:
            scaled = np.where(null, 0.5, (self._forward(values) - low) / (high - low))
        if not self.nulls:
            return [scaled], [False], [1.0]
        return [scaled, null.astype(np.float64)], [False, True], [1.0, 0.5]

    def _forward(self, values: Host) -> Host:
        """Apply the transform; values outside of its domain are refused."""
        self._check(values)
        return self._transformed(values)

    def _check(self, values: Host) -> None:
        """Refuse infinite values, and those outside of the transform's domain."""
        faults = number_faults(self.name, self.transform, values)
        if faults:
            raise InputError("\n".join(faults))

    def _transformed(self, values: Host) -> Host:
        """Apply the transform to values that were checked; NaN remains."""
        if self.scores is not None:
            return np.interp(values, self.scores.values, self.scores.scores)
        return transformed(values, self.transform)

    def _backward(self, values: Host) -> Host:
        """Undo the transform."""
        if self.scores is not None:
            return np.interp(values, self.scores.scores, self.scores.values)
        if self.transform == "log":
            return np.exp(np.minimum(values, 709.0))
        if self.transform == "log1p":
            values = np.expm1(np.minimum(values, 709.0))
            return np.maximum(values, 0.0) if self.low is not None and self.low >= 0 else values
        return values

    def _typed(self, values: Host, null: Host | None, type_: pa.DataType) -> pa.Array:
        """The values in the column's Arrow type."""
        import pyarrow as pa

        if family(type_) == "time":
            whole = self._inside(np.rint(values / self.unit)) * self.unit
            bits = pa.int32() if type_.bit_width == 32 else pa.int64()
            return arrow_array(whole, null=null).cast(bits).cast(type_)
        if pa.types.is_integer(type_):
            return arrow_array(self._inside(np.rint(values)), null=null).cast(type_)
        if pa.types.is_boolean(type_):
            return arrow_array(self._inside(np.rint(values)) > 0, null=null)
        if pa.types.is_decimal(type_):
            values = np.clip(np.round(values, type_.scale), float(self.low or 0), float(self.high or 0))
            return arrow_array(values, null=null).cast(type_)
        most = float(np.finfo(type_.to_pandas_dtype()).max)
        for rows in ranges(len(values), _LINES):
            # −0.0 and 0.0 are equal numbers and different text: adding 0.0 leaves only the latter.
            values[rows] = np.clip(self._short(values[rows]), -most, most) + 0.0
        return arrow_array(values, null=null).cast(type_)

    def _decoded(self, feature: Host) -> Host:
        """(m,) values of the features, in their place: fresh memory would cost more time than the arithmetic."""
        for rows in ranges(len(feature), _LINES):
            feature[rows] = self._backward(feature[rows] * self.scale + self.center)
        return feature

    def _any_kept(self, matrix: Host, before: pa.ChunkedArray) -> bool:
        """Whether a row's feature is what its own value gives; False too if a value has none."""
        found = False
        for rows in ranges(len(matrix), _LINES):
            own = floats(before.slice(rows.start, rows.stop - rows.start))
            if number_faults(self.name, self.transform, own):
                return False
            found = found or bool(self._kept(matrix[rows, 0], own).any())
        return found

    def _kept(self, feature: Host, before: Host) -> Host:
        """(n,) whether a row's feature is what its own value gives."""
        return np.asarray(feature == standardised(self._transformed(before), self.center, self.scale))

    def _unchanged(self, values: Host, feature: Host, before: Host) -> Host:
        """Where a row's feature is what its own value gives, that value, to the bit: nothing was masked there.

        Rows of the same feature receive the same value, or a group would fall apart: the median of a group is one of
        its members' own value.  Of several values that the feature does not tell apart (1e-16 and 2e-16 beside 2000)
        all receive the lowest.
        """
        kept = self._kept(feature, before)
        order = np.lexsort((before[kept], feature[kept]))
        own, first = np.unique(feature[kept][order], return_index=True)
        place = np.minimum(np.searchsorted(own, feature), len(own) - 1)
        return np.where(own[place] == feature, before[kept][order][first[place]], values)

    def _inside(self, whole: Host) -> Host:
        """(n,) whole numbers inside the observed range; clipped again as integers, float64 has only 53 bits."""
        low, high = (int(end or 0) // self.unit for end in (self.low, self.high))
        type_ = np.uint64 if low >= 0 else np.int64
        top = float(high) if high <= 2**53 else float(np.nextafter(float(high), 0))
        return np.clip(np.clip(whole, float(low), top).astype(type_), type_(low), type_(high))

    def _short(self, values: Host) -> Host:
        """Take away what rounding added: 25.299999999999997 is 25.3 in a column of one decimal."""
        if self.decimals is None:
            return values
        short = np.round(values, self.decimals)
        terms = np.abs(values) + (abs(self.center) + self.scale if self.transform == "none" else 0.0)
        near = np.abs(short - values) <= _NEAR * 10.0**-self.decimals + _ROUNDING * terms
        return np.where(near, short, values)
