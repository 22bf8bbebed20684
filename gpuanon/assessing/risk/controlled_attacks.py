"""Attacks with a control: their risk, their tables, and the released records nearest to a target.

Any useful release tells something about everybody.  So an attack is made twice: on original records, and on control
records of the same population that were not in the table [1].  With a and c the shares of the two that succeed,

    risk = (a − c) / (1 − c)

is the part of what the release leaves to be found out that membership in the table adds: 0 where the attack does no
better on the people in the table, 1 where it always succeeds on them.

References
----------
.. [1] M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi (2023), A unified framework for quantifying privacy risk in
   synthetic data, PoPETs 2023(2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import HOST, Array, Host, namespace
from gpuanon.assessing.compared_tables import require_finite, require_values, types_of
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.assessing.figures import ConfidenceInterval
from gpuanon.assessing.sampling_errors import share_interval
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance.distance import k_nearest
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.sampling import sample_rows
from gpuanon.tables.codes import level_codes
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.table import Table
from gpuanon.tables.values import floats

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

LEVEL = 0.95


@dataclass(frozen=True)
class Attack:
    """Shares of attacks that succeed.

    success, control : on original and on control records
    naive            : on original records, by an attacker who does not look where the release would tell
    targets, controls : how many attacks the shares are made of
    ceiling          : `success` of an attack that always succeeds
    """

    success: float
    control: float
    naive: float
    targets: int
    controls: int
    ceiling: float = 1.0

    @property
    def risk(self) -> float | None:
        """(success − control) / (ceiling − control), at least 0; None when the control leaves nothing to be found."""
        margin = self.ceiling - self.control
        return None if margin <= 0 else min(1.0, max(0.0, (self.success - self.control) / margin))

    def interval(self, of: int = 1) -> ConfidenceInterval | None:
        """Of the risk, from Wilson's intervals of both shares; simultaneous for the largest `of` so many attacks.

        The two errors are independent: each end is √(sum of squares) of what the two shares add to it.
        """
        margin = self.ceiling - self.control
        if margin <= 0:
            return None
        each = 1 - (1 - LEVEL) / of
        success, control = (
            share_interval(self.success, self.targets, each),
            share_interval(self.control, self.controls, each),
        )
        slope = max(self.ceiling - self.success, 0.0) / margin**2
        down = math.hypot((self.success - success.low) / margin, slope * (control.high - self.control))
        up = math.hypot((success.high - self.success) / margin, slope * (self.control - control.low))
        raw = (self.success - self.control) / margin
        return ConfidenceInterval(min(1.0, max(0.0, raw - down)), min(1.0, max(0.0, raw + up)), LEVEL)


def attacked_tables(c: Comparison) -> tuple[Table, Table, Table]:
    """Original, release and control: of original and control one record per person, where persons are known."""
    return _one_each(c, c.original), c.points, _one_each(c, c.control_table)


def targets_of(
    tables: tuple[Table, Table, Table], count: int, name: str
) -> tuple[tuple[Table, Table, Table], Host, Host]:
    """The tables with those people only who are attacked, of original and control, and their rows.

    The same as the attack would draw from all of them; so few are encoded.
    """
    original, release, control = tables
    own, others = (sample_rows(table.n_rows, count, name) for table in (original, control))
    return (original.take(own), release, control.take(others)), own, others


def _one_each(c: Comparison, table: Table) -> Table:
    person = c.schema.unit_column
    if person is None or person.name not in table.names:
        return table
    return table.take(np.sort(np.unique(row_bits(table, [person.name])[:, 0], return_index=True)[1]))


def values_of(c: Comparison, names: Sequence[str], tables: Sequence[Table]) -> tuple[list[Host], list[bool]]:
    """(n, names) numbers and dates as they are, common codes else, NaN for null; and which are codes."""
    for table in tables[1:]:
        require_values(table, types_of(c.original), names)
    coded = [c.schema[name].kind not in ("numeric", "date") for name in names]
    codes = level_codes(tables, [name for name, flag in zip(names, coded, strict=True) if flag])
    out = [np.empty((table.n_rows, len(names))) for table in tables]
    for side, found, table in zip(out, codes, tables, strict=True):
        side[:, coded] = np.where(found < 0, np.nan, found)
        for at, name in enumerate(names):
            if not coded[at]:
                side[:, at] = floats(table.arrow(name))
                require_finite(name, side[:, at])
    return out, coded


def chosen_columns(c: Comparison, named: Sequence[str] | None, option: str, least: int = 1) -> tuple[str, ...]:
    """Columns that an option names, else all that are compared."""
    unknown = [name for name in named or () if name not in c.columns]
    if unknown:
        raise ParameterError(f"{option}: {', '.join(map(repr, unknown))}: there is no such column that is compared")
    found = tuple(dict.fromkeys(named)) if named else c.columns
    if len(found) < least:
        raise MissingEvidence(f"needs {least} columns or more that are compared")
    return found


def placed_beside(c: Comparison, values: Sequence[Host]) -> tuple[Array, Array, Array]:
    """Three arrays where the comparison has its arrays."""
    first, second, third = map((c.backend or HOST).upload, values)
    return first, second, third


MOST = 32
"""Classes that tie for the nearest which are looked at; more of them are left out, the last rows first."""

_FEW = 3  # classes that are looked at first: two tie on a line, between equally far values


@dataclass(frozen=True, eq=False)
class NearestClasses:
    """Nearest released records, by classes of equal records.

    labels   : (m,) class of each released record
    sizes    : (g,) records of each class
    index    : (q, t) the nearest classes of each target
    tied     : (q, t) whether each is as near as the nearest
    distance : (q,) squared distance of the nearest
    """

    labels: Array
    sizes: Array
    index: Array
    tied: Array
    distance: Array

    @property
    def records(self) -> Array:
        """(q,) released records that are nearest."""
        return namespace(self.labels).where(self.tied, self.sizes[self.index], 0).sum(axis=1)


def nearest_classes(X: Array, Y: Array) -> NearestClasses:
    """The classes of equal rows of `Y` (m, d) nearest to each row of `X` (q, d).

    Cost : one exact search among the different rows of `Y`, and one more for targets whose nearest all tie.
    """
    xp = namespace(X)
    labels = equal_rows(Y)
    sizes = xp.bincount(labels)
    if len(sizes) == len(Y):  # every row is a class of its own
        labels, rows = xp.arange(len(Y), dtype=np.int64), Y
    else:
        rows = Y[xp.unique(labels, return_index=True)[1]]
    distance, index = k_nearest(X, rows, min(_FEW, len(rows)))
    tied = distance == distance[:, :1]
    nearest = distance[:, 0]
    more = xp.flatnonzero(tied.all(axis=1)) if len(rows) > _FEW else xp.empty(0, dtype=np.int64)
    if len(more):
        wide = min(MOST, len(rows)) - index.shape[1]
        index, tied = (xp.concatenate([part, xp.zeros((len(X), wide), part.dtype)], axis=1) for part in (index, tied))
        distance, index[more] = k_nearest(X[more], rows, index.shape[1])
        tied[more] = distance == distance[:, :1]
    return NearestClasses(labels, sizes, index, tied, nearest)


def counted(keys: Array, low: Array, high: Array) -> Array:
    """How many of the ascending `keys` are at least `low` and below `high`, element by element."""
    xp = namespace(keys)
    found = [xp.searchsorted(keys, ends.reshape(-1), side="left").reshape(ends.shape) for ends in (low, high)]
    return (found[1] - found[0]).astype(np.int64)
