"""New rows from the distribution of largest entropy that has the moments of the table."""

from __future__ import annotations

from itertools import product
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation, RowEffect
from gpuanon.masking.given import Records
from gpuanon.masking.operations.maximum_entropy.entropy_solver import GivenMoments, MaximumEntropy, MomentSums
from gpuanon.masking.outcomes import Changed

MomentNames: TypeAlias = Annotated[
    tuple[tuple[str, ...], ...],
    Field(
        description='products of columns whose means are kept, instead of all up to a degree: [["age"],'
        ' ["age", "age"], ["age", "income"]]'
    ),
]
MOMENTS: tuple[tuple[str, ...], ...] = ()


class LargestEntropy(Operation):
    """New rows; means, products of pairs and powers of columns have the means that they have in the table.

    With `moments`, only the means of these products do, and the shares of the categories that they name; whatever they
    do not say is as even as it can be: without products of two columns, these are independent.

    Values lie inside the range of their column, unless it has about two values; those are decoded to the nearer one.
    Categories are decoded by the largest indicator.  So the moments hold for numbers of many values.
    """

    rows: ClassVar[RowEffect] = "new"
    learns: ClassVar[bool] = True

    use: Literal["maximum-entropy"] = "maximum-entropy"
    degree: int = Field(default=2, ge=2, le=4, description="highest power of a column whose mean is kept")
    moments: MomentNames = MOMENTS

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        """Refuse a degree that would do nothing."""
        check_moments(self.moments, self.degree)
        return self

    def learn(self, T: Array, groups: Partition, records: Records) -> MomentSums:
        _require_one_group(groups)
        return MomentSums.of(T, self._moments(T, records))

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        _require_one_group(groups)
        sums = records.learned
        assert isinstance(sums, MomentSums)
        draws = records.draws.child("maximum-entropy")
        moments = self._moments(T, records)
        values = MaximumEntropy.fit(sums, moments).sample(draws, T) if len(T) else T
        return Changed(values, rows=namespace(T).arange(len(T), dtype=np.int64), added=len(T))

    def _moments(self, T: Array, records: Records) -> GivenMoments:
        """Of the coordinates: all up to a degree, or those that are named."""
        d = T.shape[1]
        if not self.moments:
            return GivenMoments.up_to(d, self.degree)
        if records.columns is None:
            raise ParameterError("moments: are those of columns as they are", hint='basis = { use = "identity" }')
        places = {
            name: [at for at in range(d) if records.columns[at] == name] for name in dict.fromkeys(records.columns)
        }
        named = {name for moment in self.moments for name in moment}
        unknown, left = sorted(named - places.keys()), [name for name in places if name not in named]
        if unknown or left:
            what = [f"{name!r} is not masked" for name in unknown] + [f"{name!r} has no moment" for name in left]
            raise ParameterError(f"moments: {', '.join(what)}", hint="each masked column needs one, its mean at least")
        terms = [term for name, own in places.items() for term in _own(own, records)]
        terms += [term for moment in self.moments for term in product(*(places[name] for name in moment))]
        return GivenMoments(d, tuple(dict.fromkeys(tuple(sorted(term)) for term in terms)))


def check_moments(moments: tuple[tuple[str, ...], ...], degree: int) -> None:
    """Refuse a degree beside moments, and products of nothing or of too much."""
    if moments and degree != 2:
        raise ValueError("degree: does not apply where moments are named")
    if any(not 1 <= len(moment) <= 4 for moment in moments):
        raise ValueError("moments: a product has one to four factors")


def _own(places: list[int], records: Records) -> list[tuple[int, ...]]:
    """What is always given of a column of several coordinates, for categories or nulls: their first two moments."""
    flags = records.categorical
    if len(places) == 1 and not (flags is not None and flags[places[0]]):
        return []
    return [*((i,) for i in places), *((i, j) for i in places for j in places if i <= j)]


def _require_one_group(groups: Partition) -> None:
    """Refuse several groups: summaries of cells are merged, and groups of different cells do not correspond."""
    if groups.parts > 1:
        raise ParameterError(
            f"maximum-entropy: one group of all rows is allowed, got {groups.parts}", hint='groups = { use = "whole" }'
        )
