"""The contract of a measure: all that engine, limits, report, `measures` and `explain` have to know of it.

A measure is a function of arrays, a function that takes these arrays from a comparison (`compute`), and this
declaration, in one file; its name and place stand in `gpuanon.assessing.measures`.  What a recipe may say of it under
``[measures]`` are its options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Annotated, Any, Literal, Protocol, TypeAlias

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from gpuanon.assessing.evidence import EvidenceSource
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.sampling_errors import with_sampling_error
from gpuanon.assessing.shared_arrays import Kind
from gpuanon.errors import nearest
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

Options: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Keyword arguments by measure."""

WHOLE = Annotated[int, Field(strict=True, ge=1, le=100_000)]
PERMUTATIONS = {"permutations": Annotated[int, Field(strict=True, ge=0, le=10_000)]}
FRACTION = {"fraction": Annotated[float, Field(gt=0, le=1, description="of the population that the records are")]}
SET_SIZE = Annotated[int, Field(strict=True, ge=1, le=10, description="columns of the largest set that is looked at")]
NAMES = list[str]
ABOVE_1 = Annotated[float, Field(gt=1, allow_inf_nan=False)]
ABOVE_0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NOT_NEGATIVE = Annotated[float, Field(ge=0, allow_inf_nan=False)]
TO_1 = Annotated[float, Field(ge=0, le=1)]
LEVEL = {"level": Annotated[float, Field(gt=0, lt=1)]}
"""Types of options, for declarations."""

Family: TypeAlias = Literal["risk", "utility"]
Better: TypeAlias = Literal["lower", "higher"]
Unit: TypeAlias = Literal["record", "person", "household", "class", "cell", "column", "pair of columns", "table"]
"""Of what a figure is the share, the mean or the worst."""

Rows: TypeAlias = Literal["kept", "dropped", "added", "new"]
"""What became of the rows: every record is released; some are not; rows that stand for no record were added; no
released row stands for a record."""

Role: TypeAlias = Literal["quasi", "sensitive", "weight", "household"]
Scaling: TypeAlias = Literal["merged", "sample", "pairs", "queries", "whole"]
"""What a measure can be computed on when the tables are larger than memory:

merged  : evidence of all rows that merges exactly over pieces (`EvidenceSource`)
sample  : a random sample of each table; the value does not depend on the number of rows, but for sampling error
pairs   : a random sample of released rows, each with its own original
queries : a random sample of originals, against all released rows
whole   : everything in one place only; a sample would give another value
"""

Sees: TypeAlias = Literal["columns", "together", "records"]
"""What a measure of utility looks at:

columns  : each column by itself; columns that are permuted independently are as good as a copy
together : columns with each other; columns that are permuted independently are bad
records  : a released record and its original; columns that are permuted independently are bad
"""

SHARE = (0.0, 1.0)
FROM_0 = (0.0, inf)
FROM_1 = (1.0, inf)

NULL_IS_A_VALUE = "a null is a value of its own: nulls are equal to each other and to nothing else"
NULL_IS_MARKED = "a missing number counts as the mean of the known ones, and a column of its own marks what is missing"
NULL_IS_LEFT_OUT = "records with a null in a column are left out of the figure of that column"

_ROLES: Mapping[Role, str] = {
    "quasi": "needs columns of role quasi",
    "sensitive": "needs columns of role sensitive",
    "weight": "needs a column of role weight",
    "household": "needs a column of role household",
}
_NEEDS_LINK = "needs the private link between release and original (--link)"
_NEEDS_OTHERS = {
    "reference": "needs a reference sample of the same population (--reference)",
    "control": "needs records of the population that are not in the table (--control, --reference)",
}
_ALL_NEW = "every released row is new: none stands for an original record that it could be compared with"


class Known(Protocol):
    """What is known of a release, in memory or in pieces: see `gpuanon.assessing.compared_tables.ComparedTables`."""

    @property
    def schema(self) -> Schema: ...
    @property
    def known_link(self) -> np.ndarray[Any, Any] | None: ...
    @property
    def known_reference(self) -> Table | None: ...
    @property
    def known_control(self) -> Table | None: ...


@dataclass(frozen=True)
class Applies:
    """To which releases a measure applies.

    rows   : what may have become of the rows
    link   : the private link between release and original is needed
    others : records that are not in the table are needed: a reference, or a control, for which a reference serves
    roles  : roles of which the table needs a column
    """

    rows: tuple[Rows, ...] = ("kept", "dropped", "added", "new")
    link: bool = False
    others: Literal["reference", "control"] | None = None
    roles: tuple[Role, ...] = ()

    def reason_against(self, source: Known) -> str | None:
        """Why the measure does not apply to a release; None where it does."""
        missing = [role for role in self.roles if not getattr(source.schema, role)]
        if missing:
            return _ROLES[missing[0]]
        link = source.known_link
        if self.link and link is None:
            return _NEEDS_LINK
        if "new" not in self.rows and link is not None and not (link >= 0).any():
            return _ALL_NEW
        others = [source.known_reference, *([source.known_control] if self.others == "control" else [])]
        return _NEEDS_OTHERS[self.others] if self.others is not None and others.count(None) == len(others) else None


PAIRED = Applies(("kept", "dropped", "added"), link=True)
"""Measures of a released record and its own original."""
PAIRED_QUASI = Applies(("kept", "dropped", "added"), link=True, roles=("quasi",))
QUASI = Applies(roles=("quasi",))
QUASI_SENSITIVE = Applies(roles=("quasi", "sensitive"))
CONTROLLED = Applies(others="control")


@dataclass(frozen=True)
class Weights:
    """What a measure does with sample weights.

    how : used (the figure is that of the table in which each record is repeated as often as its weight says),
          estimates (its estimates take them, its units or intervals do not), ignored (records count alike)
    why : what has to be said of it; of one that ignores them, the reason
    """

    how: Literal["used", "estimates", "ignored"]
    why: str

    @property
    def told(self) -> str:
        """What `explain` and ``measures --json`` say."""
        return f"not used: {self.why}" if self.how == "ignored" else self.why


USED = Weights("used", "each record counts by its sample weight, where both tables have a column of them")
OF_RECORDS = Weights("ignored", "it says how far the values of single records were moved, whomever they stand for")
AGAINST_CHANCE = Weights(
    "ignored", "it compares with what chance does to this number of records, which weights do not change"
)
OF_COUNTS = Weights(
    "ignored", "a statistic of counts: what chance does to it is known for numbers of records; kl and jsd take weights"
)
OF_SCORES = Weights("ignored", "a model tells the records of both tables apart")
RISK_OF_RECORDS = Weights("ignored", "a risk is that of the records in the file, whomever else they stand for")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One measure.

    label     : what it is called in plain words
    sentence  : what it says, in one sentence for a reader without statistics
    summary   : what it is, in a line of a table
    better    : which way a release is better
    range     : the smallest and the largest value that it can take, both included
    usual     : what a good or a bad figure is: a convention, or what a copy has
    unit      : of what it speaks
    records   : why it counts records where persons or households are the unit; None: it counts the unit, or does not
                depend on how often a person occurs
    applies   : to which releases
    function  : the function of arrays, whose docstring has the formula
    compute   : from a `Comparison`, and options by keyword, to the figure; one that merges, from any `EvidenceSource`
    options   : type of each option that a recipe may set
    arrays    : the kind of arrays that it works on (`gpuanon.assessing.shared_arrays.ARRAYS`): they are made once for
                all measures of the kind, and given up after the last of them; None: the tables themselves
    weights   : what it does with sample weights
    nulls     : what a missing value is to it
    scaling   : see `Scaling`
    host      : why it is computed on the CPU whatever the backend; None: where the arrays are
    sees      : of a table, see `Sees`; None where that is not declared
    long      : processor seconds on 100 000 × 10 numbers, about, where they are many: longer ones of a kind start first
    large     : needs about as much memory again as its arrays: on tables of many rows it runs beside no other measure
    settles   : scale on which its sampling error falls as 1/√n: the value, the root of a mean of squares, or none (a
                p-value)
    alone     : runs beside no other measure: it changes filters of warnings for long, which threads share
    openmp    : OpenMP runs its loops, whose threads wait for each other by spinning: it is given one of them
    """

    name: str
    label: str
    sentence: str
    summary: str
    family: Family
    better: Better = "lower"
    range: tuple[float, float]
    usual: str
    unit: Unit
    records: str | None = None
    applies: Applies = field(default=Applies())
    function: Callable[..., Measured]
    compute: Callable[..., Measured]
    options: Mapping[str, Any] = field(default_factory=dict)
    arrays: Kind | None
    weights: Weights
    nulls: str
    scaling: Scaling
    host: str | None = None
    source: str
    sees: Sees | None = None
    long: float = 0.0
    large: bool = False
    settles: Literal["value", "root", "nothing"] = "value"
    alone: bool = False
    openmp: bool = False

    def measured(self, source: Any, options: Mapping[str, Any]) -> Measured:
        """The figure, with these options; of a random sample of both tables or of pairs, with its error."""
        compute = partial(self.compute, **options)
        if self.scaling not in ("sample", "pairs") or self.settles == "nothing":
            return compute(source)
        return with_sampling_error(compute(source), source, compute, squares=self.settles == "root")

    @property
    def is_record_wise(self) -> bool:
        """Whether it compares released records with their own originals: it knows nothing of rows that are gone."""
        return "new" not in self.applies.rows

    def exceeds(self, value: float, limit: float) -> bool:
        """Whether `value` is worse than `limit`."""
        return value > limit if self.better == "lower" else value < limit

    def record_note(self, schema: Schema) -> str | None:
        """What is said beside a figure of records where the unit is another."""
        if self.records is None or schema.unit == "record":
            return None
        return f"counts records, not {schema.unit}s: {self.records}"

    def unweighted_note(self, source: EvidenceSource) -> str | None:
        """What is said beside a figure of utility of a table with weights that were not used."""
        if self.family == "risk":
            return None
        if self.weights.how == "ignored":
            return f"sample weights are {self.weights.told}"
        if source.weight_pieces("original") is None:
            return "sample weights are not used: only one of the tables has them"
        return None


def described(declared: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of a measure as ``measures --json`` lists them."""
    return {name: TypeAdapter(kind).json_schema() for name, kind in declared.items()}


def faults_of(declared: Mapping[str, Mapping[str, Any]], given: Options, known: Collection[str]) -> list[str]:
    """What is wrong with the options of a recipe: no such measure, no such option, a value that is not allowed.

    declared : type of each option, by measure that is given
    known    : names of all measures
    """
    faults = []
    for measure, options in given.items():
        if measure not in declared:
            listed = "; 'gpuanon measures' lists them"
            faults.append(f"unknown measure {measure}{nearest(measure, known) or listed}")
            continue
        for name, value in options.items():
            if name not in declared[measure]:
                allowed = ", ".join(declared[measure]) or "none"
                faults.append(f"{measure} has no option {name}; it has {allowed}")
                continue
            try:
                TypeAdapter(declared[measure][name]).validate_python(value)
            except ValidationError as error:
                message = error.errors(include_url=False, include_input=False)[0]["msg"]
                faults.append(f"{measure}.{name}: {message[:1].lower()}{message[1:]}")
    return faults
