"""Boxes that give the most accurate statistics, as a published method."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from gpuanon.masking.groups import Boxes
from gpuanon.masking.methods.combination import Combination, ConstrainedMethod, K
from gpuanon.masking.operations import Centroid, Interval


class OptimalBoxes(ConstrainedMethod):
    """Boxes of k records from which the wanted statistics can be told most accurately; released as their ranges."""

    source: ClassVar[str] = "Xiang and Kreinovich 2013"

    method: Literal["optimal-boxes"] = "optimal-boxes"
    k: K
    statistic: str | tuple[str, ...] | dict[str, float] = Field(
        default="covariance",
        description="mean, variance, sd, covariance, correlation of all columns or of named ones: covariance(age,"
        " income); regression(cost ~ age + income); a list, or a table with weights",
    )
    epsilon: float | dict[str, float] | None = Field(
        default=None,
        description="with diversity: a box holds so many values of each column that differ by this number of its"
        " standard deviations; one number for all numeric columns, or one by column",
    )
    dismiss: bool = Field(default=True, description="do not release records that would need a box too large")
    dismiss_most: float = Field(
        default=0.05, ge=0, le=1, description="share of the records that is dismissed at most; 1: as the source has it"
    )
    release: Literal["interval", "midpoint", "centroid"] = Field(
        default="interval", description="interval: columns NAME_low and NAME_high, sets of categories"
    )
    improve: bool = Field(default=True, description="search for better boxes from those that the cuts give")
    sweeps: int = Field(default=8, ge=1, description="improve: sweeps of the search over all boxes")

    def combination(self) -> Combination:
        shared = self.model_dump(include={"k", "statistic", "epsilon", "dismiss", "dismiss_most", "improve", "sweeps"})
        operation: Centroid | Interval = Interval()
        if self.release != "interval":
            operation = Centroid(centre="midpoint" if self.release == "midpoint" else "mean")
        return Combination(groups=Boxes(**shared, **self.bounds), operation=operation, columns=self.columns)
