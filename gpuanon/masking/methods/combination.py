"""What every mask is: groups × basis × operation, freely combined or by the name of a published method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from gpuanon.masking.bases import AnyBasis
from gpuanon.masking.bases.linear import Identity
from gpuanon.masking.constraints import Constraint
from gpuanon.masking.contract import MaskPart, RowEffect
from gpuanon.masking.groups import AnyGroups
from gpuanon.masking.operations import AnyOperation
from gpuanon.tables.schema import Schema

ColumnChoice: TypeAlias = Literal["quasi", "all"] | tuple[str, ...]
Decoding: TypeAlias = Annotated[
    Literal["nearest", "probabilistic"],
    Field(
        description="how a masked category is read: the level of the largest indicator, or one that is drawn by the"
        " normalised inverse logit of the indicators"
    ),
]
K = Annotated[int, Field(ge=2, description="records of a group, at least")]


class Combination(MaskPart):
    """groups × basis × operation, freely combined."""

    groups: AnyGroups
    basis: AnyBasis = Identity()
    operation: AnyOperation
    columns: ColumnChoice = Field(default="quasi", description='"quasi", "all" or a list of names')
    metric: Literal["euclidean", "gower"] = Field(default="euclidean", description="how the groups measure distance")
    response_weight: float = Field(
        default=0.0, ge=0, description="weight of the sensitive columns in the grouping; they are not changed"
    )

    decoding: Decoding = "nearest"

    by: tuple[str, ...] = Field(
        default=(),
        description="columns on which the groups are formed, and on which the operation may depend; those that are not"
        " masked stay as they are.  None: the masked columns",
    )

    copies: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="of the release, each with draws of its own, in one table with a column 'copy'; for operations that"
        " promise nothing",
    )

    @model_validator(mode="after")
    def _groups_fit(self) -> Self:
        """Refuse groups that the metric, the basis or the operation does not go with, by what they declare."""
        groups, basis, operation = self.groups, self.basis, self.operation
        if self.metric not in groups.metrics:
            raise ValueError(f"metric: {groups.use} groups know {', '.join(groups.metrics)} only, got {self.metric}")
        if groups.per_column and not (basis.plain and operation.by_column):
            raise ValueError(
                f"{groups.use} groups are those of each column by itself: a basis of the columns as they are (identity)"
                f" and an operation on single columns (centroid) are allowed, got {basis.use} and {operation.use}"
            )
        if self.response_weight and (groups.per_column or groups.sees == "classes"):
            raise ValueError(f"response_weight: does not apply to {groups.use} groups, which measure no distances")
        return self

    @model_validator(mode="after")
    def _operation_fits(self) -> Self:
        """Refuse an operation that cannot work in this basis or beside these groups."""
        groups, basis, operation = self.groups, self.basis, self.operation
        if operation.sees == "classes" and not basis.plain:
            raise ValueError(f"{operation.use} works on values as they are: basis identity or codes, got {basis.use}")
        if operation.normal and not basis.normal:
            raise ValueError(
                f"{operation.use} works on standard normal coordinates: basis normal-scores, got {basis.use}"
            )
        if groups.learns and (operation.learns or operation.samples is not None):
            raise ValueError(f"{groups.use} groups and {operation.use} both learn of the whole table: one of them may")
        if groups.drops and operation.rows not in ("kept", "dropped"):
            raise ValueError(f"{groups.use} groups leave rows out, and {operation.use} adds rows: one of them may")
        if operation.sees == "points" and basis.sees == "classes":
            raise ValueError(f"{operation.use} works on points, which the basis {basis.use} does not give")
        return self

    @model_validator(mode="after")
    def _release_fits(self) -> Self:
        """Refuse copies, a decoding or columns `by` that the parts do not go with."""
        groups, operation = self.groups, self.operation
        promised = operation.rows not in ("new", "kept") or groups.drops or self.promises
        if self.copies > 1 and promised:
            raise ValueError(f"copies: {operation.use} in {groups.use} groups promises something of one release only")
        if self.decoding == "probabilistic" and (operation.sees == "classes" or groups.per_column or promised):
            raise ValueError(
                f"decoding: is for operations that make new points and promise nothing of them, got {operation.use} in"
                f" {groups.use} groups"
            )
        if self.by and (groups.per_column or self.metric != "euclidean" or self.response_weight):
            raise ValueError(
                "by: groups of each column by itself, Gower's metric and response_weight do not go with it"
            )
        if self.by and groups.sees == "rows" and not operation.conditional:
            raise ValueError(f"by: {groups.use} groups are formed on no column, and {operation.use} depends on none")
        return self

    @property
    def constraint(self) -> Constraint | None:
        """What every group, or every released class, must hold of sensitive values; None for nothing."""
        return self.groups.constraint or self.operation.constraint

    @property
    def promises(self) -> bool:
        """Whether the operation claims something in these groups."""
        return bool(self.operation.claims(self.groups.least, [("",)]))

    @property
    def learns(self) -> bool:
        """Whether a part has to learn of all cells beforehand."""
        return self.groups.learns or self.operation.learns

    @property
    def rows(self) -> RowEffect:
        """What becomes of the rows; of several copies the first has the records, and the others are added."""
        if self.copies > 1 and self.operation.rows == "kept":
            return "added"
        return "dropped" if self.groups.drops else self.operation.rows

    @property
    def k(self) -> int | None:
        """The smallest group or class that is promised, or None."""
        known = [k for k in (self.groups.least, getattr(self.operation, "k", None)) if k is not None]
        return max(known, default=None)

    def combination(self) -> Combination:
        """Itself: a named method has the same function."""
        return self

    def alternatives(self, rows: int) -> Mapping[int, Combination]:
        """None: see `Method.alternatives`."""
        return {}


Diversity = Annotated[
    int | None,
    Field(
        ge=2, description="different values of each sensitive column in a group, at least; a missing one does not count"
    ),
]
Closeness = Annotated[
    float | None,
    Field(gt=0, le=1, description="distance of a group's sensitive values from the whole table's, at most"),
]


class Method(MaskPart):
    """A published method."""

    source: ClassVar[str]

    columns: ColumnChoice = Field(default="quasi", description='"quasi", "all" or a list of names')

    def combination(self) -> Combination:
        """The method's groups, basis and operation."""
        raise NotImplementedError

    def alternatives(self, rows: int) -> Mapping[int, Method]:
        """The masks among which a reference sample is to choose, by an ascending parameter; none when nothing is open.

        rows : of the table
        """
        return {}

    def advice(self, columns: int) -> str | None:
        """What speaks against the method on so many masked columns, with its figure; None: nothing that is known."""
        return None


class ConstrainedMethod(Method):
    """A method whose groups can be held to ℓ-diversity and t-closeness."""

    diversity: Diversity = None
    closeness: Closeness = None

    @property
    def bounds(self) -> dict[str, Any]:
        """The parameters of the constraint, for the part that keeps it."""
        return {"diversity": self.diversity, "closeness": self.closeness}


_REMEDY = (
    '; methods that make new values protect: microaggregation, or dither = "gaussian" with bins where a column is'
    " numeric"
)


def whole_row_faults(combinations: Sequence[Combination], schema: Schema) -> list[str]:
    """What is wrong with masks that move rows whole, one line for each set of columns that stays together.

    schema : of the released columns

    Columns stay together that every such mask moves together.  Columns that another mask changes do not count as those
    of an original record.  It is a fault if the others hold a whole record:

    - every released column is among those that stay together (a weight is not to be hidden), or
    - all quasi-identifiers that are to be masked are there, and a sensitive column with them
    """
    released = frozenset(column.name for column in schema.columns if column.role != "weight")
    pieces, moved, changed = [released], frozenset[str](), frozenset[str]()
    for combination in combinations:
        operation, chosen = combination.operation, frozenset(schema.select(combination.columns))
        if operation.moves_rows([schema[name].kind for name in chosen]):
            moved |= chosen
            pieces = [part for piece in pieces for part in (piece & chosen, piece - chosen) if part]
        else:
            changed |= {name for name in chosen if operation.changes(name)}
    quasi, sensitive = frozenset(schema.quasi), frozenset(schema.sensitive)
    masked = {name for name in quasi - changed if not schema[name].keep}
    faults = []
    for piece in pieces:
        original = piece - changed
        if not original & moved:
            continue
        names = ", ".join(repr(column.name) for column in schema.columns if column.name in original)
        if piece == released and (original == piece or original & quasi):
            faults.append(
                f"mask: {names} are moved together from record to record, and no released column stays behind: the"
                f" release would be the original records in another order{_REMEDY}"
            )
        elif masked and masked <= original and original & sensitive:
            faults.append(
                f"mask: {names} are moved together from record to record, sensitive values with all the"
                " quasi-identifiers that tell whose they are: the mask would hide nothing of them; leave sensitive"
                f' columns out of it (columns = "quasi"), or take another method{_REMEDY}'
            )
    return faults
