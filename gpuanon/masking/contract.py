"""What every masking method is made of: groups × basis × operation.

groups     which rows may mix?       matrix → `Partition`
basis      along which axes?         matrix → coordinates and the way back
operation  what is done there?       coordinates, groups → `Outcome`

Each part is a pure function on arrays in a file of its own, and a frozen model of its parameters, named as in
recipes by ``use``, that calls it.  Parts know nothing of tables, recipes, published names or each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.numerics.distance import EUCLIDEAN, Metric


@dataclass(frozen=True)
class Records:
    """What an operation may know of the records besides their coordinates.

    draws       : their random numbers
    weights     : (n,) sample weights, or None
    categorical : for each coordinate whether it stands for a category (an indicator), or None for none
    """

    draws: Draws
    weights: Array | None = None
    categorical: tuple[bool, ...] | None = None


@dataclass(frozen=True)
class Changed:
    """New coordinates, (n, d): the engine maps them back through the basis and decodes them."""

    values: Array


@dataclass(frozen=True)
class Moved:
    """Each record receives, whole, the values of the row `source[i]`: nothing is decoded, so nothing is rounded."""

    source: Array


Outcome: TypeAlias = Changed | Moved

Promise: TypeAlias = Literal["identical", "values", "members", "mixture", "none"]
"""What a mask promises, to be verified on the output:

identical : at least k released records are equal on the masked columns
values    : at least k released records share each value of each masked column; of combinations nothing is promised
members   : a released record's values belong to one of at least k members of its own group
mixture   : a released record's values come from the mixture of its block; every group has at least k members
none      : no formal guarantee; the measured risk is the evidence
"""


class Part(BaseModel):
    """Frozen parameters; unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Groups(Part):
    """Which rows may mix.

    per_column : the groups are those of each table column by itself; `form` is given the features of one at a time
    host_only  : written for the CPU; on a device it is refused, never run elsewhere in silence
    metrics    : the distances that it knows
    """

    per_column: ClassVar[bool] = False
    host_only: ClassVar[bool] = False
    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean", "gower")

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        """Divide the rows of the encoded matrix `X` (n, d), whose distances `metric` measures."""
        raise NotImplementedError


class Basis(Part):
    """Along which axes."""

    def forward(self, X: Array, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        """Coordinates (n, c) of the rows, and the function that leads coordinates back to (n, d)."""
        raise NotImplementedError


class Operation(Part):
    """What is done there."""

    promise: ClassVar[Promise]

    def apply(self, T: Array, groups: Partition, records: Records) -> Outcome:
        """Mask the coordinates `T` (n, c) of rows in `groups`."""
        raise NotImplementedError
