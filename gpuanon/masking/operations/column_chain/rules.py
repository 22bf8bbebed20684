"""Rules of a recipe that every new row follows: where one column has these values, another has those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from gpuanon.arrays.backend import Host
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import MaskPart
from gpuanon.masking.given import ClassInfo
from gpuanon.masking.operations.column_chain.pooled_table import PooledTable
from gpuanon.masking.operations.column_chain.rare_values import PooledColumn
from gpuanon.masking.operations.column_chain.structural_zeros import Exclusion
from gpuanon.tables.codes import ColumnCodes

Value: TypeAlias = bool | int | float | str


class Range(MaskPart):
    """Numbers from a bound to below another, or nulls."""

    least: float | None = Field(default=None, description="numbers from here on")
    below: float | None = Field(default=None, description="numbers smaller than this")
    null: bool = Field(default=False, description="nulls too; without bounds: nulls only")


Condition: TypeAlias = Range | Value | tuple[Value, ...]


class Rule(MaskPart):
    """Where a column has some values, another has some: ``when = { AGEP = { below = 3 } }, then = { EDU = "N" }``."""

    when: dict[str, Condition] = Field(description="one column, and its values: one, a list, or least, below and null")
    then: dict[str, Condition] = Field(description="another column, and the values that it has there")

    @model_validator(mode="after")
    def _one_column_each(self) -> Self:
        """Refuse what is not a rule of two columns."""
        if len(self.when) != 1 or len(self.then) != 1 or set(self.when) == set(self.then):
            raise ValueError("rules: one column in when, and another one in then")
        return self


def exclusions(rules: Sequence[Rule], classes: ClassInfo, pooled: PooledTable) -> list[Exclusion]:
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
    if isinstance(condition, Range):
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
