"""A table as a matrix, and a masked matrix as columns of the table's own types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.metric import Metric
from gpuanon.tables.codes import level_codes
from gpuanon.tables.encoding.features import Categories, Codec, Feature, check_finite, column_by_column
from gpuanon.tables.encoding.levels import CategoryCodec, OrdinalCodec
from gpuanon.tables.encoding.numbers import NumberCodec
from gpuanon.tables.schema import Nulls, Schema
from gpuanon.tables.summaries import NumberSummary, Summary
from gpuanon.tables.table import Table

__all__ = ["Encoding", "Feature", "Categories", "MAX_LEVELS"]

_LINES = 4096

MAX_LEVELS = 256
"""Levels of one category that are spread over features; more would make the matrix wider than it is of use."""


@dataclass(frozen=True, eq=False, repr=False)
class Encoding:
    """How chosen columns become a matrix and come back.

    Numbers and dates are transformed and standardised (divisor n), ordered levels are standardised codes, categories
    are ±s indicators: one for each level of more than two, one for two.  A constant column is zeros.  What a null
    becomes, by policy:

    refuse    : an error
    indicator : a level of its own in categories; elsewhere the value is filled by the mean and an indicator ±s is
                added, and a decoded value is null where the indicator is above 0
    category  : the same, and the indicator weighs as much as a column of its own (variance 1): whether a value is there
                counts like a category
    wildcard  : no matrix can say it; `codes` can
    """

    codecs: tuple[Codec, ...]
    nulls: Nulls
    max_levels: int = MAX_LEVELS

    @classmethod
    def fit(
        cls,
        table: Table,
        schema: Schema,
        columns: Literal["quasi", "all"] | Sequence[str] = "quasi",
        nulls: Nulls = "refuse",
        categories: Categories = "balanced",
        max_levels: int = MAX_LEVELS,
    ) -> Encoding:
        """Fit to a whole table; see `from_summary` for one that lies in parts."""
        names = schema.select(columns)
        return cls.from_summary(Summary.of(table, schema, names), schema, nulls, categories, max_levels)

    @classmethod
    def from_summary(
        cls,
        summary: Summary,
        schema: Schema,
        nulls: Nulls = "refuse",
        categories: Categories = "balanced",
        max_levels: int = MAX_LEVELS,
    ) -> Encoding:
        """Fit to the merged summary of all parts: equal to the bit to a fit to the whole.

        Parameters
        ----------
        summary    : of the columns to encode
        nulls      : the policy, see `Encoding`
        categories : ``"balanced"``: the features of each table column have the variance 1 together, as one
                     standardised numeric column has; ``"indicator"``: -1 and +1, as in the spectral methods
        max_levels : more levels of one category are refused by `encode`
        """
        if nulls == "refuse":
            summary.refuse_nulls()
        codecs: list[Codec] = []
        for name, found in summary.columns.items():
            column = schema[name]
            if isinstance(found, NumberSummary):
                codecs.append(NumberCodec.fit(column, found, nulls, categories))
            elif column.kind == "ordinal":
                codecs.append(OrdinalCodec.fit(column, found, nulls, categories))
            else:
                codecs.append(CategoryCodec.fit(column, found, nulls, categories))
        return cls(tuple(codecs), nulls, max_levels)

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns, in the order of the features."""
        return tuple(codec.name for codec in self.codecs)

    @property
    def features(self) -> tuple[Feature, ...]:
        """What each column of the matrix stands for."""
        return tuple(feature for codec in self.codecs for feature in codec.features)

    @property
    def columns_of_features(self) -> tuple[tuple[str, bool], ...]:
        """For each column of the matrix its table column, and whether it stands for a category or a null."""
        return tuple((feature.column, feature.kind != "value") for feature in self.features)

    def encode(self, table: Table) -> Host:
        """(n, d) float64, finite.  Any table with these columns will do: the original, a release, a reference."""
        self.check()
        matrix = np.empty((table.n_rows, len(self.features)), dtype=np.float64)
        numbers: list[tuple[NumberCodec, slice, Host]] = []

        def begin(at: tuple[Codec, slice]) -> None:
            codec, place = at
            data = table.arrow(codec.name)
            if isinstance(codec, NumberCodec):
                numbers.append((codec, place, codec.values(data)))
            else:
                codec.encode(data, matrix[:, place])

        def fill(rows: slice) -> None:  # all columns of some rows, while these lie in a core's cache
            for codec, place, values in numbers:
                codec.fill(values[rows], matrix[rows, place])

        each(begin, self._places())
        each(fill, ranges(table.n_rows, _LINES))
        return matrix

    def decode(
        self,
        matrix: Array,
        table: Table,
        draws: Draws | None = None,
        *,
        settle: bool = True,
        groups: Sequence[Array] | None = None,
        by_chance: bool = False,
        overwrite: bool = False,
    ) -> dict[str, nw.Series[Any]]:
        """The columns that `matrix` (m, d) means, in the types of `table`, for `Table.replace`.

        draws     : of the m rows, by which numbers are put on the lattice of their column; None: rounded by their type
        settle    : False: the numbers are values of the column, and are rounded as without draws
        groups    : (m,) groups of the rows, one array for all columns or one for each, where the rows of a group are to
                    stay equal; None: mean and variance are kept (`Lattice.settle`)
        by_chance : the levels of categories are drawn too, instead of the nearest
        overwrite : whether the memory of a matrix that lies column by column may be used
        """
        matrix = to_host(matrix)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.features):
            raise ParameterError(f"matrix: {len(self.features)} columns are needed, got shape {matrix.shape}")
        if draws is not None and by_chance:
            matrix = self._drawn(matrix, draws)
        columns = matrix.T if overwrite and matrix.flags.f_contiguous else column_by_column(matrix)
        check_finite(columns)

        places = self._places()
        known = [] if groups is None else [to_host(one) for one in groups]
        labels = [known[min(at, len(known) - 1)] if known else None for at in range(len(places))]

        def decoded(at: int) -> nw.Series[Any]:
            codec, place = places[at]
            own = draws.child(codec.name) if draws is not None and settle else None
            return codec.decode(columns[place].T, table.series(codec.name), own, labels[at])

        return dict(zip(self.columns, each(decoded, range(len(places))), strict=True))

    def _drawn(self, matrix: Host, draws: Draws) -> Host:
        """The matrix with a drawn level of each category."""
        if not np.isfinite(matrix).all():
            raise ParameterError("matrix: finite numbers are needed to decode")
        matrix = matrix.astype(np.float64)
        for codec, place in self._places():
            if isinstance(codec, CategoryCodec):
                matrix[:, place] = codec.drawn(matrix[:, place], draws.child(codec.name).uniform(1)[:, 0])
        return matrix

    def gower(self, table: Table) -> tuple[Host, Metric]:
        """A matrix and the metric that makes its distances Gower's.

        Numbers, dates and ordered levels are scaled to the range 1 of the fitted table, categories are codes of any
        number.  A null is half a range and half a weight away: its distance is 0 to a null, from 1/2 to 1 to a value.
        """
        if self.nulls == "wildcard":
            self.check()
        found = each(lambda codec: codec.gower(table.arrow(codec.name)), self.codecs)
        columns = [column for part in found for column in part[0]]
        matrix = np.column_stack(columns) if columns else np.empty((table.n_rows, 0))
        weights = tuple(weight for part in found for weight in part[2])
        return matrix, Metric("gower", weights, tuple(flag for part in found for flag in part[1]))

    def codes(self, table: Table) -> Host:
        """(n, columns) int64: equal values have equal codes, a null has the code -1; see `level_codes` for several."""
        return level_codes([table], self.columns)[0]

    def __repr__(self) -> str:
        return f"Encoding({len(self.columns)} columns, {len(self.features)} features)"

    def _places(self) -> list[tuple[Codec, slice]]:
        """Each codec with the matrix columns that belong to it."""
        ends = np.cumsum([len(codec.features) for codec in self.codecs])
        return [(codec, slice(end - len(codec.features), end)) for codec, end in zip(self.codecs, ends, strict=True)]

    def check(self) -> None:
        """Refuse what no matrix can hold: wildcards, and categories of very many levels."""
        if self.nulls == "wildcard":
            raise ParameterError(
                'nulls: "wildcard" is for methods on equivalence classes, this one needs numbers',
                hint='nulls = "indicator"',
            )
        wide = [c for c in self.codecs if isinstance(c, CategoryCodec) and c.count > self.max_levels]
        if wide:
            raise InputError(
                "\n".join(
                    f"column {c.name!r}: {c.count} levels, at most {self.max_levels} can be spread" for c in wide
                ),
                hint='kind = "ordinal" where the order of the codes means something (post codes, ICD), a hierarchy to '
                'group them, or role = "identifier" when nearly every row has its own',
            )
