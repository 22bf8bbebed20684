"""The contract of a mask: groups × basis × operation.

groups     which rows may mix?       view → `Partition`
basis      as what are they seen?    points along some axes, or classes of equal codes
operation  what is done there?       view, groups → `Outcome`

Each part is a pure function on arrays, and a frozen model of its parameters beside it, named in recipes by ``use``.
Parts know nothing of tables, recipes, published names or each other.  What the engine has to know of a part is
declared here; the engine never asks for a part's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.claims import Claim
from gpuanon.masking.constraints import Constraint, Sensitive, Spread
from gpuanon.masking.given import CellSummary, Records
from gpuanon.masking.outcomes import AddedRows, Filled, Outcome, Sampled, Samples
from gpuanon.numerics.metric import EUCLIDEAN, Metric
from gpuanon.tables.schema import Kind, Reading

Sight: TypeAlias = Literal["points", "classes", "rows"]
"""As what a part sees the rows:

points  : (n, d) float coordinates: the encoded columns, in a basis
classes : (n, columns) int64 codes: equal values have equal codes, in ascending order of the values; a null is −1
rows    : nothing of their values; for groups only
"""


Placement: TypeAlias = Literal["near", "class", "random", "person", "together"]
"""Which rows must lie in one cell so that groups can be formed cell by cell:

near     : rows that are near each other
class    : all rows of a class
random   : any rows; cells are random samples
person   : all rows of a person; cells are random samples of persons
together : all rows; there is one cell
"""


RowEffect: TypeAlias = Literal["kept", "dropped", "added", "new"]
"""What an operation does to the rows:

kept    : every record is released once
dropped : some records are not released
added   : every record is released once, and rows that stand for no record are added
new     : no released row stands for a record
"""


Gives: TypeAlias = Literal["numbers", "centres"]
"""What new coordinates are, which decides how they are put on the lattice of their column:

numbers : of single rows; their mean and variance are kept
centres : the same for all rows of a group, and they stay so; their mean is kept
"""


class MaskPart(BaseModel):
    """Frozen parameters; unknown names, infinite numbers and NaN are errors."""

    # Validators are built when they are first used: most models are bases of others, or members of a recipe.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @property
    def constraint(self) -> Constraint | None:
        """What every group must hold of sensitive values; None for nothing."""
        return None


class NamedPart(MaskPart):
    """A part of a mask, which recipes name by its field ``use``."""

    if TYPE_CHECKING:

        @property
        def use(self) -> str:
            """The name, which every model declares as a literal."""


class Groups(NamedPart):
    """Which rows may mix.

    sees       : as what the rows are seen
    placement  : which rows must lie in one cell
    per_column : the groups are those of each table column by itself; `form` is given the features of one at a time
    host_only  : written for the CPU; on a device it is refused, never run elsewhere in silence
    metrics    : the distances that it knows
    """

    sees: ClassVar[Sight] = "points"
    placement: ClassVar[Placement] = "near"
    per_column: ClassVar[bool] = False
    host_only: ClassVar[bool] = False
    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean", "gower")

    @property
    def learns(self) -> bool:
        """Whether `learn` is to be called for every cell before groups are formed."""
        return False

    @property
    def drops(self) -> bool:
        """Whether `kept` may leave rows out: they belong to no group and are not released."""
        return False

    @property
    def spread(self) -> Spread | None:
        """How far apart the values of every group must be; None for nothing."""
        return None

    def informed(self, features: tuple[tuple[str, bool], ...], learned: Any = None) -> Self:
        """These groups, which know the table column of each column of `X`, whether it stands for a category, and what
        was learned of all cells."""
        return self

    def learn(self, X: Array, draws: Draws) -> CellSummary:
        """A summary of the rows of one cell."""
        raise NotImplementedError

    def findings(self) -> Mapping[str, Any]:
        """What the manifest says of what was learned: plain figures that tell nothing of single records."""
        return {}

    def kept(self, X: Array) -> Array:
        """(n,) whether each row of `X` is to be in a group; called only where `drops`."""
        raise NotImplementedError

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        """Divide the rows of `X`: a matrix (n, d), whose distances `metric` measures, or codes (n, columns)."""
        raise NotImplementedError

    def constrain(self, groups: Partition, X: Array, sensitive: Sensitive) -> Partition:
        """The groups, changed until each meets the constraint; called only where there is one.

        X : (n, d) the rows as points
        """
        raise NotImplementedError

    @property
    def least(self) -> int | None:
        """Rows of the smallest group that may be formed; None when nothing is promised."""
        return getattr(self, "k", None)


class Basis(NamedPart):
    """As what the rows are seen, and along which axes.

    sees       : points or classes
    plain      : the coordinates are the encoded columns themselves
    normal     : the coordinates are standard normal
    gives_values : whether the inverse gives exactly the values of each column
    categories : how the encoding scales levels (see `gpuanon.tables.encoding`)
    """

    sees: ClassVar[Sight] = "points"
    plain: ClassVar[bool] = False
    normal: ClassVar[bool] = False
    categories: ClassVar[Literal["balanced", "indicator"]] = "indicator"

    @property
    def gives_values(self) -> bool:
        return False

    def forward(self, X: Array, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        """Coordinates (n, c) of the rows, and the inverse: from coordinates (m, c) to (m, d)."""
        raise NotImplementedError


class Operation(NamedPart):
    """What is done there.

    sees      : as what the rows are seen
    rows      : what becomes of the rows
    normal    : whether it needs coordinates that are standard normal
    learns    : whether `learn` is to be called for every cell before `apply` is
    by_column : whether it may be applied to each table column by itself, in groups of its own
    whole_table : what it does to a value depends on the whole table, and the classes that it releases are those of all
                cells together: a value has the same code in all cells
    conditional : whether it takes the columns of the mask's `by` into account (classes only)
    gives     : what new coordinates are, where it makes any (see `Gives`)
    by_weight : whether it draws rows by their sample weights, so that a group has to hold k of a weight above 0
    blanks    : whether it blanks cells, which are then none of the words that a file has for no value
    host_only : written for the CPU; on a device it is refused, never run elsewhere in silence
    claim     : what it promises where the groups have a smallest size k; None: nothing
    """

    sees: ClassVar[Sight] = "points"
    rows: ClassVar[RowEffect] = "kept"
    normal: ClassVar[bool] = False
    learns: ClassVar[bool] = False
    by_column: ClassVar[bool] = False
    whole_table: ClassVar[bool] = False
    conditional: ClassVar[bool] = False
    gives: ClassVar[Gives] = "numbers"
    by_weight: ClassVar[bool] = False
    blanks: ClassVar[bool] = False
    host_only: ClassVar[bool] = False
    claim: ClassVar[type[Claim] | None] = None

    @property
    def asks_sensitive(self) -> bool:
        """Whether it has to know the sensitive values, which it does not change."""
        return self.response_strata is not None

    @property
    def heeds_sensitive(self) -> bool:
        """Whether it works by the sensitive values where the mask has some that it does not change."""
        return self.asks_sensitive

    @property
    def response_strata(self) -> int | None:
        """Quantile strata of the response inside which groups are to be formed; None: no strata."""
        return None

    def claims(self, k: int | None, sets: Sequence[tuple[str, ...]]) -> tuple[Claim, ...]:
        """What is promised of the release, and checked on it.

        k    : rows of the smallest group, or None
        sets : the released columns that share their groups: one set, or one per column
        """
        return () if self.claim is None or k is None else (self.claim(k, tuple(sets)),)

    @property
    def samples(self) -> Samples | None:
        """The rows that it has to know in order to fill added rows; None: it does not fill them."""
        return None

    def fit(self, sampled: Sampled) -> Any:
        """The model that `filled` draws from; fitted once for all cells."""
        raise NotImplementedError

    def filled(self, model: Any, added: AddedRows) -> Sequence[Filled]:
        """The columns of added rows that the mask does not release, as `AddedRows.names` has them."""
        raise NotImplementedError

    def report(self, model: Any, names: Sequence[str]) -> Mapping[str, Any]:
        """What the manifest says of a fitted model: no value of a record; names : of all columns, as in `Sampled`."""
        return {}

    @property
    def class_label(self) -> str | None:
        """Name of a further released column with a random label of each class; None: there is none."""
        return None

    def reading(self, kind: Kind) -> Reading:
        """How a released column of this kind is to be read."""
        return "same"

    def moves_rows(self, kinds: Sequence[Kind | None]) -> bool:
        """Whether the values that a released row receives are, in all columns of the mask, those of one record.

        Then they are hidden by what they stand beside, and by nothing else.

        kinds : of the columns of the mask
        """
        return False

    def changes(self, name: str) -> bool:
        """Whether values of this column of the mask may be changed, or come to stand in other rows."""
        return True

    def learn(self, T: Array, groups: Partition, records: Records) -> CellSummary:
        """A summary of the rows of one cell; `apply` finds what `conclude` made of all in ``records.learned``."""
        raise NotImplementedError

    def conclude(self, summary: Any) -> Any:
        """What the merged summary of all cells comes to; called once for all cells."""
        return summary

    def findings(self, learned: Any) -> Mapping[str, Any]:
        """What the manifest says of what was learned: plain figures that tell nothing of single records."""
        return {}

    def apply(self, T: Array, groups: Partition, records: Records) -> Outcome:
        """Mask the coordinates (n, c) or codes (n, columns) `T` of rows in `groups`."""
        raise NotImplementedError
