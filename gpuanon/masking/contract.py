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
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

from pydantic import BaseModel, ConfigDict

from gpuanon.arrays.backend import Array, Backend
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.claims import Claim
from gpuanon.masking.constraints import Constraint, Sensitive, Spread
from gpuanon.numerics.distance import EUCLIDEAN, Metric
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


class Summary(Protocol):
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


@dataclass(frozen=True, kw_only=True, repr=False)
class Outcome:
    """What an operation releases.

    rows  : (m,) the row that each released row stands for, or from whose class it was made; None for all, in order
    added : number of released rows, the last ones, that stand for no record.  Columns that the mask does not release
            are filled in them by `Operation.filled` where it declares `samples`, else by values of random rows, column
            by column (the marginal distribution)
    facts : counts for the manifest (rows added, cells suppressed …), by name, in groups or not; those of several cells
            are added up
    minima : counts for the claims, of which the smallest of all cells stands
    """

    rows: Array | None = None
    added: int = 0
    facts: Facts = field(default_factory=dict)
    minima: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Samples:
    """How many rows of the whole table an operation has to know, with all their columns, before it fills added rows.

    records : about so many records, at random
    added   : about so many of the rows that are going to be added, at random; 0 for none
    """

    records: int
    added: int = 0


@dataclass(frozen=True, repr=False)
class ColumnValues:
    """Columns of some rows as numbers, on the host.

    names  : of the columns
    values : (n, columns) float64: numbers as they are, levels as codes from 0; NaN is a null, or a level that none of
             the sampled records has
    levels : for each column the number of its levels; 0 for numbers
    """

    names: tuple[str, ...]
    values: Array
    levels: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Sampled:
    """What an operation learns its fill from: random samples of the whole table, on the host.

    records : sampled records: the columns of the mask first, then those that are filled
    known   : number of columns of the mask
    added   : sampled rows that are going to be added: the columns of the mask; None where they were not asked for
    rows    : number of all records, rows_added : of all added rows
    draws   : of the rows in `added`
    backend : of the run, for models that run on a device
    """

    records: ColumnValues
    known: int
    added: ColumnValues | None
    rows: int
    rows_added: int
    draws: Draws
    backend: Backend


@dataclass(frozen=True, repr=False)
class AddedRows:
    """Added rows whose other columns are to be filled, on the host.

    known   : the columns of the mask
    names   : of the columns to be filled
    parents : (m,) row of the cell beside which each was made
    codes   : (n, columns) codes of the mask's columns in the rows of the cell
    cell    : gives the columns to be filled in the rows of the cell
    draws   : of the added rows
    """

    known: ColumnValues
    names: tuple[str, ...]
    parents: Array
    codes: Array
    cell: Callable[[], ColumnValues]
    draws: Draws


@dataclass(frozen=True, repr=False)
class Filled:
    """A column of added rows: drawn numbers or codes of levels (NaN is a null), or the values of rows of the cell.

    values : (m,) float64; numbers are put on the lattice of the column: its type, its decimals, its range
    donors : (m,) rows of the cell
    """

    values: Array | None = None
    donors: Array | None = None


@dataclass(frozen=True, repr=False)
class Moved(Outcome):
    """Each released row receives, whole, the values of the row `source[i]`: nothing is decoded or rounded."""

    source: Array


@dataclass(frozen=True, repr=False)
class Changed(Outcome):
    """New coordinates, (m, c): they are mapped back through the basis and decoded."""

    values: Array


@dataclass(frozen=True, repr=False)
class NewColumn:
    """One column to be released, as codes.

    column  : position of the column in the view that it is made from
    codes   : (m,) codes of values at `depth`, or rows of `members`
    depth   : of the hierarchy; 0 for the column's own values; None: codes number the nodes of all depths, those of
              depth 0 first
    members : (sets, values) bool: each code means a set of values; None: each code means one value
    """

    column: int
    codes: Array
    depth: int | None = 0
    members: Array | None = None


@dataclass(frozen=True, repr=False)
class Recoded(Outcome):
    """New columns in place of those of the view: one or two (low, high) for each, as `Operation.reading` declares."""

    columns: Sequence[NewColumn]


class Part(BaseModel):
    """Frozen parameters; unknown names, infinite numbers and NaN are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def constraint(self) -> Constraint | None:
        """What every group must hold of sensitive values; None for nothing."""
        return None


class Groups(Part):
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

    def learn(self, X: Array, draws: Draws) -> Summary:
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


class Basis(Part):
    """As what the rows are seen, and along which axes.

    sees       : points or classes
    plain      : the coordinates are the encoded columns themselves
    normal     : the coordinates are standard normal
    categories : how the encoding scales levels (see `gpuanon.tables.encoding`)
    """

    sees: ClassVar[Sight] = "points"
    plain: ClassVar[bool] = False
    normal: ClassVar[bool] = False
    categories: ClassVar[Literal["balanced", "indicator"]] = "indicator"

    def forward(self, X: Array, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        """Coordinates (n, c) of the rows, and the inverse: from coordinates (m, c) to (m, d)."""
        raise NotImplementedError


class Operation(Part):
    """What is done there.

    sees      : as what the rows are seen
    rows      : what becomes of the rows
    normal    : whether it needs coordinates that are standard normal
    learns    : whether `learn` is to be called for every cell before `apply` is
    by_column : whether it may be applied to each table column by itself, in groups of its own
    whole_table : what it does to a value depends on the whole table, and the classes that it releases are those of all
                cells together: a value has the same code in all cells
    conditional : whether it takes the columns of the mask's `by` into account (classes only)
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

    def changes(self, name: str) -> bool:
        """Whether values of this column of the mask may be changed, or come to stand in other rows."""
        return True

    def learn(self, T: Array, groups: Partition, records: Records) -> Summary:
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
