"""Categories as ±s indicators, and ordered levels as one standardised code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.rng import Draws
from gpuanon.errors import InputError
from gpuanon.numerics.exact_sum import ExactMoments
from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.encoding.features import Categories, Feature, null_scale, standardised
from gpuanon.tables.native import from_arrow, gather, to_arrow
from gpuanon.tables.schema import Column, Nulls
from gpuanon.tables.summaries import LevelSummary
from gpuanon.tables.values import lookup, null_mask

if TYPE_CHECKING:
    import pyarrow as pa


STEEPNESS = 6.0
"""Slope of the inverse logit by which one of two levels is drawn."""


@dataclass(frozen=True, eq=False, repr=False)
class LevelCodes:
    """The levels of a column, in order, and the mapping between rows and their codes.

    values : Arrow array; the code of a level is its place here, that of a null is ``len(values)``
    """

    name: str
    values: pa.Array
    refuse: bool

    @classmethod
    def of(cls, column: Column, s: LevelSummary, nulls: Nulls) -> tuple[LevelCodes, Host]:
        """The levels, in the order of the schema or else ascending, and the rows of each."""
        import pyarrow as pa

        values, counts = s.levels, s.counts
        if column.levels is not None and not pa.types.is_null(values.type):
            order = lookup(pa.chunked_array([arrow_array(column.levels).cast(values.type)]), values)
            order = order[order >= 0]
            values, counts = values.take(arrow_array(order)), counts[order]
        return cls(column.name, values, nulls == "refuse"), counts

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, data: pa.ChunkedArray) -> Host:
        """(n,) int64 codes; -1 for a value that is not a level."""
        codes = lookup(data, self.values)
        if not (codes < 0).any():
            return codes
        null = null_mask(data)
        if null.any():
            if self.refuse:
                raise InputError(
                    f"column {self.name!r}: {int(null.sum())} rows are null", hint="see the recipe's nulls"
                )
            codes[null] = len(self)
        return codes

    def column(self, codes: Host, like: nw.Series[Any]) -> nw.Series[Any]:
        """The column with these codes: copies of rows of `like`, so that its type is kept by construction."""

        present = self.codes(to_arrow(like))
        known = np.flatnonzero(present >= 0)
        first = np.full(len(self) + 1, -1, dtype=np.int64)
        first[present[known[::-1]]] = known[::-1]  # the last write wins: the first row of each level
        rows = first[codes]
        if (rows >= 0).all():
            return gather(like, rows)
        # A part of a table may lack a level that the whole has.
        return from_arrow(self.values.take(arrow_array(codes, null=codes == len(self))), like)


@dataclass(frozen=True, eq=False, repr=False)
class CategoryCodec:
    """One feature for each level of more than two (null is a level), one for two, a feature of zeros for one.

    scale : s in ±s
    """

    levels: LevelCodes
    count: int
    scale: float

    @classmethod
    def fit(cls, column: Column, s: LevelSummary, nulls: Nulls, categories: Categories) -> CategoryCodec:
        """From the summary of the whole table.  Balanced: Σ 4 s² p (1 - p) over the features is 1."""
        levels, counts = LevelCodes.of(column, s, nulls)
        counts = np.append(counts, s.nulls) if s.nulls else counts
        rows = int(counts.sum())
        spread = 1.0
        if categories == "balanced" and len(counts) > 1:
            same = sum(int(count) ** 2 for count in counts)
            variance = (rows**2 - same) / rows**2  # Σ p (1 - p), of whole numbers
            spread = (2 if len(counts) == 2 else 4) * variance  # two levels share one feature
        return cls(levels, len(counts), 1.0 / float(np.sqrt(spread)))

    @property
    def name(self) -> str:
        return self.levels.name

    @property
    def features(self) -> tuple[Feature, ...]:
        if self.count <= 2:
            return (Feature(self.name, "level", 1 if self.count == 2 else None),)
        return tuple(Feature(self.name, "level", level) for level in range(self.count))

    def encode(self, data: pa.ChunkedArray, out: Host) -> None:
        """A value that the fitted table does not have is no level: all features are low."""
        codes = self.levels.codes(data)
        if self.count <= 1:
            out[:] = 0.0
        elif self.count == 2:
            out[:, 0] = np.where(codes == 1, self.scale, -self.scale)
        else:
            out[:] = -self.scale
            rows = np.flatnonzero((codes >= 0) & (codes < self.count))
            out[rows, codes[rows]] = self.scale

    def decode(
        self, matrix: Host, like: nw.Series[Any], draws: Draws | None = None, groups: Host | None = None
    ) -> nw.Series[Any]:
        """The largest feature wins, the lowest level on a tie; of two levels the second above 0."""
        if self.count <= 1:
            codes = np.zeros(len(matrix), dtype=np.int64)
        elif self.count == 2:
            codes = (matrix[:, 0] > 0).astype(np.int64)
        else:
            codes = matrix.argmax(axis=1)
        return self.levels.column(codes, like)

    def drawn(self, matrix: Host, u: Host) -> Host:
        """(m, features) of levels that are drawn by the normalised inverse logit of the features (Lasko 2007, ch. 2).

        u : (m,) uniform numbers.  A level's share is 1 / (1 + exp(−a x)), x its feature in units of s and a = 6 +
            log(m − 1) for m levels: a value that no mask changed is drawn with a share of 0.9975 against 0.0025 for
            all other levels together, however many they are.
        """
        from scipy.special import expit  # late: it takes a tenth of a short run to be imported

        if self.count <= 1:
            return matrix
        weights = expit((STEEPNESS + np.log(self.count - 1)) / self.scale * matrix)
        if self.count == 2:
            return np.where(u < weights[:, 0], self.scale, -self.scale)[:, None]
        borders = weights.cumsum(axis=1)
        codes = np.minimum((u[:, None] * borders[:, -1:] >= borders).sum(axis=1), self.count - 1)
        return np.where(np.arange(self.count) == codes[:, None], self.scale, -self.scale)

    def gower(self, data: pa.ChunkedArray) -> tuple[list[Host], list[bool], list[float]]:
        """The codes, to be compared for equality."""
        return [self.levels.codes(data).astype(np.float64)], [True], [1.0]


@dataclass(frozen=True, eq=False, repr=False)
class OrdinalCodec:
    """The codes 0, 1, 2 … of ordered levels, standardised, and an indicator where there are nulls."""

    levels: LevelCodes
    center: float
    scale: float
    nulls: bool
    null_scale: float

    @classmethod
    def fit(cls, column: Column, s: LevelSummary, nulls: Nulls, categories: Categories) -> OrdinalCodec:
        """From the summary of the whole table."""
        levels, counts = LevelCodes.of(column, s, nulls)
        rows, codes = int(counts.sum()), range(len(counts))
        total = sum(code * int(count) for code, count in zip(codes, counts, strict=True))
        squares = sum(code**2 * int(count) for code, count in zip(codes, counts, strict=True))
        moments = ExactMoments(rows, total << 1074, squares << 2148)
        share = s.nulls / (rows + s.nulls) if rows + s.nulls else 0.0
        return cls(levels, moments.mean, moments.deviation, s.nulls > 0, null_scale(categories, share, nulls))

    @property
    def name(self) -> str:
        return self.levels.name

    @property
    def features(self) -> tuple[Feature, ...]:
        value = Feature(self.name, "value")
        return (value, Feature(self.name, "null")) if self.nulls else (value,)

    def encode(self, data: pa.ChunkedArray, out: Host) -> None:
        """Nulls are filled by the mean, 0; a value that is not a level has no place."""
        codes = self._codes(data)
        null = codes == len(self.levels)
        out[:, 0] = np.where(null, 0.0, standardised(codes.astype(np.float64), self.center, self.scale))
        if self.nulls:
            out[:, 1] = np.where(null, self.null_scale, -self.null_scale)

    def decode(
        self, matrix: Host, like: nw.Series[Any], draws: Draws | None = None, groups: Host | None = None
    ) -> nw.Series[Any]:
        """The nearest level."""
        top = max(len(self.levels) - 1, 0)
        codes = np.clip(np.rint(matrix[:, 0] * self.scale + self.center), 0, top).astype(np.int64)
        if self.nulls:
            codes[matrix[:, 1] > 0] = len(self.levels)
        return self.levels.column(codes, like)

    def gower(self, data: pa.ChunkedArray) -> tuple[list[Host], list[bool], list[float]]:
        """Codes scaled to range 1; a null lies in the middle, half a range away from every value."""
        codes = self._codes(data)
        null = codes == len(self.levels)
        scaled = np.where(null, 0.5, codes / max(len(self.levels) - 1, 1))
        if not self.nulls:
            return [scaled], [False], [1.0]
        return [scaled, null.astype(np.float64)], [False, True], [1.0, 0.5]

    def _codes(self, data: pa.ChunkedArray) -> Host:
        """The codes of rows all of which must have a place in the order."""
        codes = self.levels.codes(data)
        if (codes < 0).any():
            raise InputError(
                f"column {self.name!r}: {int((codes < 0).sum())} rows hold a level that the original does not have",
                hint="name it in the recipe's levels",
            )
        return codes
