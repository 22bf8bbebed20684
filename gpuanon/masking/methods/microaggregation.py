"""Microaggregation, by each of the groupings that were published for it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from gpuanon.masking.groups import GROUPS
from gpuanon.masking.groups.in_blocks import RefinedInBlocks, with_usual_block
from gpuanon.masking.groups.refine.refine import EFFORT, Effort
from gpuanon.masking.methods.combination import Combination, ConstrainedMethod, K
from gpuanon.masking.operations.centroid import Centroid, GroupInterval

MicroGroups: TypeAlias = Literal[
    "mdav",
    "k-member",
    "univariate",
    "optimal-univariate",
    "first-axis",
    "fuzzy",
    "spanning-tree",
    "v-mdav",
    "k-ward",
    "constrained-k-means",
]
MICRO_GROUPS: tuple[str, ...] = get_args(MicroGroups)
"""The groupings of `Microaggregation`."""


def _add_summaries(schema: dict[str, Any]) -> None:
    """Say in a JSON schema what each of the groupings is."""
    schema["values"] = {name: (GROUPS[name].__doc__ or "").split("\n")[0] for name in MICRO_GROUPS}


MANY = 11
"""Columns from which on records have no similar ones: see `Microaggregation`."""


class Microaggregation(ConstrainedMethod):
    """Groups of at least k similar records; each record receives its group's centre.

    For few columns: with many, no records are similar.  Census tables of mostly categories, k = 5, marginals score of a
    half against that of the other half (`bench/studies/acs.md`): 964 and 966 of ten columns, 803 and 885 of 11 with a
    region, 827 and 910 of 21.  From 11 columns on `sequential-synthesis` keeps more.
    """

    source: ClassVar[str] = "Domingo-Ferrer and Torra 2005; Byun et al. 2007; Lasko 2007, ch. 2"

    method: Literal["microaggregation"] = "microaggregation"
    k: K
    groups: MicroGroups = Field(
        default="k-member", description="how similar records are found", json_schema_extra=_add_summaries
    )
    refine: bool | None = Field(
        default=None,
        description="exchange records between neighbouring groups while the loss falls; not for fuzzy, univariate",
        json_schema_extra={"default": True},
    )
    effort: Effort | None = Field(default=None, description=EFFORT, json_schema_extra={"default": "normal"})
    block: int | None = Field(
        default=None,
        ge=0,
        description="rows of a spatial block, for mdav and k-member 2048 with effort = fast; 0: the whole table at once"
        ", as published; not for univariate, first-axis",
        json_schema_extra={"default": 1024},
    )
    centre: Literal["mean", "median"] = Field(default="mean", description="of numbers; categories have their mode")
    metric: Literal["euclidean", "gower"] = "euclidean"
    by: tuple[str, ...] = Field(
        default=(), description="columns by which records are grouped: one, or some; none: all masked columns"
    )
    release: Literal["centre", "interval", "interval-column"] = Field(
        default="centre",
        description="interval: the range of the group, columns NAME_low and NAME_high; interval-column: one column NAME"
        " of intervals, for Parquet and Arrow files",
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_groups(cls, data: Any) -> Any:
        """`refine`, `effort` and `block` where the groups have them: a manifest says what was done."""
        name = data.get("groups", "k-member") if isinstance(data, dict) else None
        if name not in MICRO_GROUPS:
            return data
        model = GROUPS[name]
        if issubclass(model, RefinedInBlocks):
            data = with_usual_block(data)
        usual = {
            name: model.model_fields[name].default
            for name in ("refine", "effort", "block")
            if name in model.model_fields
        }
        return {**usual, **{name: value for name, value in data.items() if value is not None or name not in usual}}

    @model_validator(mode="after")
    def _constrained(self) -> Self:
        """Refuse a constraint that the chosen groups cannot keep."""
        for name, value in self.bounds.items():
            if value is not None and name not in GROUPS[self.groups].model_fields:
                raise ValueError(f"{name}: does not apply to {self.groups} groups, those of each column by itself")
        if self.release != "centre" and self.centre != "mean":
            raise ValueError("centre: does not apply to a release of intervals")
        return self

    @field_validator("refine", "effort", "block", "metric")
    @classmethod
    def _applies(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what the chosen groups have no use for."""
        use = info.data.get("groups")
        if use is None or value is None:
            return value
        model = GROUPS[use]
        if info.field_name == "metric" and value not in model.metrics:
            raise ValueError(f"{use} groups know {', '.join(model.metrics)} only")
        if info.field_name != "metric" and info.field_name not in model.model_fields:
            having = [name for name in MICRO_GROUPS if info.field_name in GROUPS[name].model_fields]
            raise ValueError(f"does not apply to {use} groups, only to {', '.join(having)}")
        return value

    def advice(self, columns: int) -> str | None:
        if columns < MANY:
            return None
        return (
            f"microaggregation of {columns} columns: from {MANY} on it lost more than a second sample differs"
            " (marginals of a census: 803 for 885 of 11 columns, 827 for 910 of 21); sequential-synthesis keeps them"
        )

    def combination(self) -> Combination:
        given = {"k": self.k, "refine": self.refine, "effort": self.effort, "block": self.block, **self.bounds}
        groups = GROUPS[self.groups].model_validate({n: v for n, v in given.items() if v is not None})
        operation: GroupInterval | Centroid = Centroid(centre=self.centre)
        if self.release != "centre":
            operation = GroupInterval(form="columns" if self.release == "interval" else "column")
        return Combination(groups=groups, operation=operation, columns=self.columns, metric=self.metric, by=self.by)
