"""What the parts of a mask are given beside the rows' coordinates or codes, and the counts that they return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.constraints import Sensitive

Facts: TypeAlias = "Mapping[str, int | Facts]"
"""Counts by name, in groups or not."""


def added_facts(one: Facts, other: Facts) -> Facts:
    """Counts added up, group by group."""
    found: dict[str, Any] = {**one}
    for name, value in other.items():
        if isinstance(value, Mapping):
            found[name] = added_facts(found.get(name, {}), value)
        else:
            found[name] = found.get(name, 0) + value
    return found


class CellSummary(Protocol):
    """What a part of a mask learns of a cell before it is applied; the summaries of all cells are merged."""

    def merge(self, other: Self) -> Self:
        """The summary of the rows of both."""


@dataclass(frozen=True, repr=False)
class ClassInfo:
    """What is known of the columns of a class view.

    names     : of the columns
    ordered   : for each column whether the order of its codes means something
    ancestors : for each column (values, depth + 1) int64: the code of each value's ancestor at each depth of its
                hierarchy; depth 0 is the value itself, and a column without a hierarchy has nothing else
    wildcard  : whether a null matches every value
    shares    : for each column (values, depth + 1) share of its hierarchy's leaves below each ancestor, on the host,
                for operations that declare `Operation.whole_table`
    """

    names: tuple[str, ...]
    ordered: tuple[bool, ...]
    ancestors: tuple[Array, ...]
    wildcard: bool = False
    shares: tuple[Any, ...] = ()


@dataclass(frozen=True, repr=False)
class Given:
    """The columns of a mask's `by` as classes.

    codes   : (n, columns) int64, see `Sight`
    classes : what is known of the columns
    flags   : (n, columns) int8: 1 for true, and for a number that is not 0; 0 for false and 0; −1 for all else;
              on the host
    """

    codes: Array
    classes: ClassInfo
    flags: Any = None


@dataclass(frozen=True, repr=False)
class Records:
    """What an operation may know of the records besides what it sees.

    draws       : their random numbers
    weights     : (n,) sample weights, or None
    categorical : points: for each coordinate whether it stands for a category (an indicator), or None for none
    classes     : classes: what is known of the columns, or None
    learned     : what `Operation.conclude` made of the summaries of all cells, or None
    persons     : (n,) int64 whose record each is, numbered from 0; None where each is a person of its own
    sensitive   : their sensitive values, where a part of the mask has a constraint or the operation asks; else None
    person_numbers : (n,) int64 the same persons by numbers that are the same in all cells, or None
    given       : the columns of the mask's `by`, for an operation on classes that is `conditional`; else None
    strata      : the strata inside which the groups were formed, where the operation asks for some; else None
    columns     : points: for each coordinate the table column that it stands for, or None
    """

    draws: Draws
    weights: Array | None = None
    categorical: tuple[bool, ...] | None = None
    classes: ClassInfo | None = None
    learned: Any = None
    persons: Array | None = None
    sensitive: Sensitive | None = None
    person_numbers: Array | None = None
    given: Given | None = None
    strata: Partition | None = None
    columns: tuple[str, ...] | None = None
