"""Statistics by name: ``mean``, ``variance(age)``, ``covariance(age, income)``, ``regression(cost ~ age + income)``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from gpuanon.errors import ParameterError

StatisticKind: TypeAlias = Literal["mean", "variance", "sd", "covariance", "correlation", "regression"]

_COLUMNS = {"mean": 1, "variance": 1, "sd": 1, "covariance": 2, "correlation": 2}


@dataclass(frozen=True)
class Statistic:
    """One statistic.

    columns : that it is of; none: of every column, or pair of columns.  Of a regression the explained column first
    """

    kind: StatisticKind
    columns: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Statistic:
        """From text such as ``covariance(age, income)`` or ``regression(cost ~ age + income)``."""
        name, bracket, inside = text.strip().partition("(")
        kinds: dict[str, StatisticKind] = {kind: kind for kind in get_args(StatisticKind)}
        kind = kinds.get(name.strip())
        if kind is None:
            raise ParameterError(f"statistic: {', '.join(get_args(StatisticKind))} are allowed, got {text!r}")
        if not bracket:
            columns: tuple[str, ...] = ()
        elif not inside.rstrip().endswith(")"):
            raise ParameterError(f"statistic: a closing bracket is missing in {text!r}")
        else:
            inside = inside.rstrip()[:-1]
            if kind == "regression":
                target, _, others = inside.partition("~")
                columns = (target.strip(), *(column.strip() for column in others.split("+")))
            else:
                columns = tuple(column.strip() for column in inside.split(","))
        found = cls(kind, columns)
        found._check(text)
        return found

    def _check(self, text: str) -> None:
        if not self.columns and self.kind == "regression":
            raise ParameterError(f"statistic: a regression names its columns, regression(y ~ x + z), got {text!r}")
        if not self.columns:
            return
        if not all(self.columns) or len(set(self.columns)) < len(self.columns):
            raise ParameterError(f"statistic: different columns are needed in {text!r}")
        wanted = _COLUMNS.get(self.kind)
        if (wanted is None and len(self.columns) < 2) or (wanted is not None and len(self.columns) != wanted):
            raise ParameterError(f"statistic: {self.kind} is of {wanted or 'two or more'} columns, got {text!r}")

    def __str__(self) -> str:
        if self.kind == "regression":
            return f"regression({self.columns[0]} ~ {' + '.join(self.columns[1:])})"
        return f"{self.kind}({', '.join(self.columns)})" if self.columns else self.kind

    def over(self, columns: Sequence[str]) -> list[Statistic]:
        """This statistic of every one of the columns, or of every pair; itself where it names its columns."""
        if self.columns:
            missing = [name for name in self.columns if name not in columns]
            if missing:
                raise ParameterError(f"statistic: {self}: there is no numeric column {', '.join(map(repr, missing))}")
            return [self]
        return [Statistic(self.kind, chosen) for chosen in itertools.combinations(columns, _COLUMNS[self.kind])]


def expand(statistics: Iterable[str], columns: Sequence[str]) -> list[Statistic]:
    """The statistics that texts name, over the columns that there are; each once."""
    return list(dict.fromkeys(found for text in statistics for found in Statistic.parse(text).over(columns)))
