"""What a column of the matrix stands for, and what every codec of a table column offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import narwhals as nw
import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.tables.schema import Nulls

if TYPE_CHECKING:
    import pyarrow as pa

Categories: TypeAlias = Literal["indicator", "balanced"]
"""How levels and nulls are scaled:

indicator : -1 and +1, as the spectral methods have it
balanced  : the features of one table column have, together, the variance 1 of a standardised numeric column, so
            that every table column adds the same to the expected squared distance of two rows
"""


@dataclass(frozen=True)
class Feature:
    """One column of the matrix.

    column : the table column it comes from
    kind   : value (a standardised number, date or ordinal code), level (of a category), null (its indicator)
    level  : number of the level among the codec's levels (level features of categories only)
    """

    column: str
    kind: Literal["value", "level", "null"]
    level: int | None = None


class Codec(Protocol):
    """Leads one table column to its features and back."""

    @property
    def name(self) -> str: ...

    @property
    def features(self) -> tuple[Feature, ...]: ...

    def encode(self, data: pa.ChunkedArray, out: Host) -> None:
        """Write the features of `data` to `out` (n, features)."""

    def decode(
        self, matrix: Host, like: nw.Series[Any], draws: Draws | None = None, groups: Host | None = None
    ) -> nw.Series[Any]:
        """The column that the features in `matrix` (m, features) mean, of the type of `like`; may overwrite them.

        draws, groups : by which values are put on the lattice of a column of numbers, see `Lattice.settle`
        """

    def gower(self, data: pa.ChunkedArray) -> tuple[list[Host], list[bool], list[float]]:
        """Columns for Gower's distance: values, whether they are categories, weights."""


_LINES = 4096  # rows that stay in a core's cache while they are transposed
_TASK_LINES = 16 * _LINES  # rows that one thread transposes at a time


def column_by_column(matrix: Host) -> Host:
    """(d, n) the columns of `matrix` (n, d), each by itself in memory."""
    columns = np.empty(matrix.shape[::-1], dtype=matrix.dtype)

    def transpose(rows: slice) -> None:
        for lines in ranges(rows.stop - rows.start, _LINES):
            at = slice(rows.start + lines.start, rows.start + lines.stop)
            columns[:, at] = matrix[at].T

    each(transpose, ranges(len(matrix), _TASK_LINES))
    return columns


def check_finite(columns: Host) -> None:
    """Refuse numbers that cannot be decoded; `columns` (d, n), each by itself in memory."""
    for column in columns:
        for rows in ranges(len(column), _LINES):
            if not np.isfinite(column[rows]).all():
                raise ParameterError("matrix: finite numbers are needed to decode")


def null_scale(categories: Categories, share: float, nulls: Nulls) -> float:
    """Half the distance between null and value on the indicator of a column of which `share` is null.

    Balanced: the indicator's variance, 4 s² share (1 - share), is `share`, which is what the fill takes from the
    variance of the value feature.  Nulls as a category: the variance is 1, that of a whole column, so that the rarer
    nulls are, the farther they lie from values.
    """
    if nulls == "category" and 0 < share < 1:
        return 0.5 / float(np.sqrt(share * (1 - share)))
    return 1.0 if categories == "indicator" or share >= 1 else 0.5 / float(np.sqrt(1 - share))


def standardised(values: Host, center: float, scale: float) -> Host:
    """Centre and scale; a constant column becomes zeros."""
    return (values - center) / scale if scale > 0 else np.zeros_like(values)
