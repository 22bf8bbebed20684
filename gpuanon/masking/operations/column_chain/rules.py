"""Pairs of values that no new row may hold: structural zeros of the records, and rules of a recipe.

A structural zero is a pair that never occurs in the records although it would occur often by chance: a value with a
value; any other value with a value (one determines the other); a value with the smallest, or the largest, values of an
ordered column.  A rule says: where one column has these values, another has those.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from gpuanon.arrays.backend import Host
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import MaskPart
from gpuanon.masking.given import ClassInfo
from gpuanon.masking.operations.column_chain.pooled_table import PooledColumn, PooledTable
from gpuanon.tables.codes import ColumnCodes

Exclusion: TypeAlias = tuple[int, int, Host]
"""Columns i and j, and which codes exclude each other: (codes of i + 1, codes of j + 1) bool, null first."""

SURE = 12.0
"""Records that independent columns would be expected to have there, at least: none is there with a chance of e⁻¹²."""
_LEVELS = 400
"""Values of the smaller column of a pair, at most; of two columns with more, nothing is said."""
_CELLS = 1 << 20
"""Cells of the table of a pair, at most."""


@dataclass(frozen=True, eq=False, repr=False)
class StructuralZeros:
    """Codes of two columns that exclude each other, for pairs of columns."""

    tables: tuple[Exclusion, ...]

    def with_rules(self, rules: Sequence[Exclusion]) -> StructuralZeros:
        """These and others."""
        return StructuralZeros((*self.tables, *rules))

    @classmethod
    def of(cls, codes: Host, ordered: Sequence[bool]) -> StructuralZeros:
        """Those of records with these codes (n, c), −1 for a null.

        Cost : one pass over the records for each pair of columns.
        """
        counts = [int(codes[:, j].max(initial=-1)) + 2 for j in range(codes.shape[1])]
        pairs = [
            (i, j)
            for i, j in combinations(range(codes.shape[1]), 2)
            if min(counts[i], counts[j]) <= _LEVELS and counts[i] * counts[j] <= _CELLS
        ]

        def find(pair: tuple[int, int]) -> Exclusion:
            i, j = pair
            cells = np.bincount((codes[:, i] + 1) * counts[j] + codes[:, j] + 1, minlength=counts[i] * counts[j])
            return i, j, zeros_of_pair(cells.reshape(counts[i], counts[j]), ordered[i], ordered[j])

        return cls(tuple(found for found in each(find, pairs) if found[2].any()))

    def contradicts(self, codes: Host, column: int, others: Collection[int]) -> Host:
        """(m,) whether the code of a column in the rows (m, c) excludes that of one of the others."""
        found = np.zeros(len(codes), dtype=bool)
        for i, j, table in self.tables:
            if (i == column and j in others) or (j == column and i in others):
                found |= table[codes[:, i] + 1, codes[:, j] + 1]
        return found


def zeros_of_pair(counts: Host, rows_ordered: bool, columns_ordered: bool) -> Host:
    """(a, b) whether two values exclude each other, by the counts (a, b) of the records; the first of each is null."""
    n = max(1, int(counts.sum()))
    out = _single(counts, n) | _single_others(counts, n) | _single_others(counts.T, n).T
    if columns_ordered:
        out |= _beyond(counts, n)
    if rows_ordered:
        out |= _beyond(counts.T, n).T
    return np.asarray(out & (counts == 0))


def _single(counts: Host, n: int) -> Host:
    """A value and a value."""
    return np.asarray((counts == 0) & (np.outer(counts.sum(axis=1), counts.sum(axis=0)) >= SURE * n))


def _single_others(counts: Host, n: int) -> Host:
    """A value of the rows (or all others of them), and every value of the columns but one."""
    held, by = counts.sum(axis=1), counts.sum(axis=0)
    apart = np.zeros(counts.shape, dtype=bool)
    # Row a has column b only: then it excludes all others.
    sure = (counts == held[:, None]) & (held > 0)[:, None] & (held[:, None] * (n - by) >= SURE * n)
    alone = sure.any(axis=1)
    apart[alone] = ~sure[alone]
    # All rows but a have column b only.
    rest = (by - counts == (n - held)[:, None]) & ((n - held)[:, None] * (n - by) >= SURE * n)
    for a in np.flatnonzero(rest.any(axis=1)):  # one at most, or two: all but it share a single value
        others = np.arange(len(counts)) != a
        apart[np.ix_(others, ~rest[a])] = True
    return apart


def _beyond(counts: Host, n: int) -> Host:
    """A value of the rows, or all others of them, and the first or last values of the columns; null is apart."""
    known = counts[:, 1:]
    out = np.zeros(counts.shape, dtype=bool)
    for table in (known, known.sum(axis=0) - known):
        held = table.sum(axis=1)
        for flip in (slice(None), slice(None, None, -1)):
            seen = np.cumsum(table[:, flip], axis=1)
            chance = np.cumsum(known.sum(axis=0)[flip]) / n
            # The values before the first that occurs: excluded if as many records as would be there by chance are sure.
            empty = seen == 0
            reach = np.where(empty, chance, 0.0).max(axis=1, initial=0.0)
            found = (empty & (reach * held >= SURE)[:, None])[:, flip]
            if table is known:
                out[:, 1:] |= found
            else:
                for a in np.flatnonzero(found.any(axis=1)):
                    others = np.arange(len(counts)) != a
                    out[np.ix_(others, np.r_[False, found[a]])] = True
    return out


Value: TypeAlias = bool | int | float | str


class RuleRange(MaskPart):
    """Numbers from a bound to below another, or nulls."""

    least: float | None = Field(default=None, description="numbers from here on")
    below: float | None = Field(default=None, description="numbers smaller than this")
    null: bool = Field(default=False, description="nulls too; without bounds: nulls only")


Condition: TypeAlias = RuleRange | Value | tuple[Value, ...]


class ColumnRule(MaskPart):
    """Where a column has some values, another has some: ``when = { AGEP = { below = 3 } }, then = { EDU = "N" }``."""

    when: dict[str, Condition] = Field(description="one column, and its values: one, a list, or least, below and null")
    then: dict[str, Condition] = Field(description="another column, and the values that it has there")

    @model_validator(mode="after")
    def _one_column_each(self) -> Self:
        """Refuse what is not a rule of two columns."""
        if len(self.when) != 1 or len(self.then) != 1 or set(self.when) == set(self.then):
            raise ValueError("rules: one column in when, and another one in then")
        return self


Rules: TypeAlias = Annotated[
    tuple[ColumnRule, ...], Field(description="what every new row follows, beside what the records show")
]


def exclusions(rules: Sequence[ColumnRule], classes: ClassInfo, pooled: PooledTable) -> list[Exclusion]:
    """What the rules exclude, as pairs of pools: null first, as in `StructuralZeros`.

    A pool that may lie in `when` has to lie in `then` for sure: pools that reach over a bound are on the safe side.
    """
    found = []
    for rule in rules:
        (first, when), (second, then) = next(iter(rule.when.items())), next(iter(rule.then.items()))
        unknown = [name for name in (first, second) if name not in classes.names]
        if unknown:
            raise ParameterError(f"rules: {unknown[0]!r} is not among the masked columns")
        i, j = classes.names.index(first), classes.names.index(second)
        maybe, _ = _matches(when, first, classes.values[i], pooled.columns[i])
        _, surely = _matches(then, second, classes.values[j], pooled.columns[j])
        found.append((i, j, np.outer(maybe, ~surely)))
    return found


def _matches(condition: Condition, name: str, values: ColumnCodes, pooled: PooledColumn) -> tuple[Host, Host]:
    """(pools + 1,) whether a pool may have such a value, and whether all its values are such; the first is null."""
    if isinstance(condition, RuleRange):
        bounded = condition.least is not None or condition.below is not None
        maybe = surely = np.zeros(len(pooled.low), dtype=bool)
        if bounded:
            numbers = values.numbers()
            if numbers is None:
                raise ParameterError(f"rules: {name!r} has no numbers, which least and below are for")
            low, high = (np.interp(at, np.arange(len(numbers)), numbers) for at in (pooled.low, pooled.high))
            least = -np.inf if condition.least is None else condition.least
            below = np.inf if condition.below is None else condition.below
            maybe, surely = (high >= least) & (low < below), (low >= least) & (high < below)
        return np.r_[condition.null, maybe], np.r_[condition.null, surely]
    wanted = condition if isinstance(condition, tuple) else (condition,)
    numbers = values.numbers()
    if numbers is not None and all(isinstance(value, int | float) for value in wanted):
        such = np.isin(numbers, np.asarray(wanted, dtype=np.float64))
    else:
        texts = np.asarray(values.labels(0).to_pylist(), dtype=object)
        such = np.isin(texts, [str(value).lower() if isinstance(value, bool) else str(value) for value in wanted])
    first, last = np.ceil(pooled.low).astype(np.int64), np.floor(pooled.high).astype(np.int64)
    before = np.r_[0, np.cumsum(such)]
    held = before[last + 1] - before[first] if len(such) else np.zeros(0, dtype=np.int64)
    exact = (pooled.low == pooled.high) & (first == last)
    return np.r_[False, held > 0], np.r_[False, exact & (held == 1)]


def check_rules(codes: Host, rules: Sequence[Exclusion]) -> None:
    """Refuse new rows (m, c) of which one does not follow the rules after all attempts."""
    broken = sum(int(table[codes[:, i] + 1, codes[:, j] + 1].sum()) for i, j, table in rules)
    if broken:
        raise ParameterError(
            f"rules: {broken} rows do not follow them after all attempts",
            hint="do the rules contradict the table, or each other?",
        )
