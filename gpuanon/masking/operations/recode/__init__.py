"""Global recoding: every value becomes its ancestor at a given depth of the column's hierarchy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.class_claims import EqualRecords
from gpuanon.masking.contract import Operation, Sight
from gpuanon.masking.given import ClassInfo, Records
from gpuanon.masking.operations.recode.recoding_loss import recode
from gpuanon.masking.outcomes import NewColumn, Recoded
from gpuanon.tables.schema import Kind, Reading

Depth = Annotated[int, Field(ge=0)]


def chosen_depths(levels: int | Mapping[str, int], classes: ClassInfo) -> list[int]:
    """The depth of each column: the same for all, or 0 for those that are not named.  All faults are named at once."""
    names = classes.names
    depths = [levels if isinstance(levels, int) else levels.get(name, 0) for name in names]
    unknown = [] if isinstance(levels, int) else [name for name in levels if name not in names]
    faults = [f"levels: column {name!r} is not among the columns of the mask" for name in unknown]
    for name, depth, ancestors in zip(names, depths, classes.ancestors, strict=True):
        deepest = ancestors.shape[1] - 1
        if depth > deepest:
            has = f"its hierarchy has depths 0 to {deepest}" if deepest else "it has no hierarchy, only depth 0"
            faults.append(f"levels: column {name!r}: {has}, got {depth}")
    if faults:
        raise ParameterError("\n".join(faults))
    return depths


class Recode(Operation):
    """Each column goes to one depth of its hierarchy.

    All columns of the mask are released as text; a column at depth 0 holds the text of its own values.  Nothing is
    promised unless k is given; then a release with a smaller class is refused.
    """

    sees: ClassVar[Sight] = "classes"

    use: Literal["recode"] = "recode"
    levels: Depth | dict[str, Depth] = Field(description="depth of all columns, or by name; 0 for those not named")
    k: int | None = Field(default=None, ge=2, description="records of a class, at least; none: nothing is promised")

    def claims(self, k: int | None, sets: Sequence[tuple[str, ...]]) -> tuple[Claim, ...]:
        return () if self.k is None else (EqualRecords(self.k, tuple(sets)),)

    def reading(self, kind: Kind) -> Reading:
        return "level"

    def changes(self, name: str) -> bool:
        return (self.levels if isinstance(self.levels, int) else self.levels.get(name, 0)) > 0

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        classes = records.classes
        if classes is None:
            raise ParameterError("recode: the rows must be seen as classes", hint='basis = { use = "codes" }')
        return Recoded(
            [
                NewColumn(j, recode(T[:, j], classes.ancestors[j], depth), depth)
                for j, depth in enumerate(chosen_depths(self.levels, classes))
            ]
        )
