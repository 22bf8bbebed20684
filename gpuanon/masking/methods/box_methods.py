"""Methods on boxes: cut at medians, or chosen for the most accurate statistics."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from gpuanon.masking.groups.boxes import DISMISS_MOST, BoxGroups, Epsilon, WantedStatistics
from gpuanon.masking.groups.median_cuts import MedianCuts
from gpuanon.masking.methods.combination import Combination, ConstrainedMethod, K
from gpuanon.masking.operations.centroid import Centroid, GroupInterval


class Rhs(ConstrainedMethod):
    """Every column cut at its median at once; each record receives its group's mean.  Fails in high dimension."""

    source: ClassVar[str] = "Lasko 2007, ch. 4"

    method: Literal["rhs"] = "rhs"
    k: K

    def combination(self) -> Combination:
        return Combination(
            groups=MedianCuts(k=self.k, columns="all", **self.bounds), operation=Centroid(), columns=self.columns
        )


class SpectralRhs(ConstrainedMethod):
    """Median cuts of the widest principal component; each record receives its group's mean."""

    source: ClassVar[str] = "Lasko 2007, fig. 4-2"

    method: Literal["spectral-rhs"] = "spectral-rhs"
    k: K

    def combination(self) -> Combination:
        return Combination(
            groups=MedianCuts(k=self.k, on="svd", **self.bounds), operation=Centroid(), columns=self.columns
        )


class Mondrian(ConstrainedMethod):
    """Median cuts of the widest column; each record receives its group's mean, or the range of its values."""

    source: ClassVar[str] = "LeFevre, DeWitt and Ramakrishnan 2006"

    method: Literal["mondrian"] = "mondrian"
    k: K
    release: Literal["centroid", "interval", "interval-column"] = Field(
        default="centroid",
        description="interval: columns NAME_low and NAME_high, sets of categories; interval-column: one column NAME of"
        " intervals, for Parquet and Arrow files",
    )

    def combination(self) -> Combination:
        operation: Centroid | GroupInterval = Centroid()
        if self.release != "centroid":
            operation = GroupInterval(form="columns" if self.release == "interval" else "column")
        return Combination(groups=MedianCuts(k=self.k, **self.bounds), operation=operation, columns=self.columns)


class OptimalBoxes(ConstrainedMethod):
    """Boxes of k records from which the wanted statistics can be told most accurately; released as their ranges."""

    source: ClassVar[str] = "Xiang and Kreinovich 2013"

    method: Literal["optimal-boxes"] = "optimal-boxes"
    k: K
    statistic: WantedStatistics = "covariance"
    epsilon: Epsilon = None
    dismiss: bool = Field(
        default=False,
        description="do not release records that would need a box too large; statistics of the release and their"
        " ranges are then those of the other records, which are biased: extreme records go first",
    )
    dismiss_most: float = Field(
        default=DISMISS_MOST,
        ge=0,
        le=1,
        description="dismiss: share of the records that is left out at most; 1: by the source's rule alone, which"
        " leaves out most records of ordinary tables (the manifest says how many)",
    )
    release: Literal["interval", "interval-column", "midpoint", "centroid"] = Field(
        default="interval",
        description="interval: columns NAME_low and NAME_high, sets of categories; interval-column: one column NAME of"
        " intervals, for Parquet and Arrow files",
    )
    label: str | None = Field(
        default=None, min_length=1, description="name of a further column with a random label of each box"
    )
    improve: bool = Field(default=True, description="search for better boxes from those that the cuts give")
    sweeps: int | None = Field(
        default=None,
        ge=1,
        description="improve: sweeps of the search over all boxes; none: 8 for large tables, up to 20 for small ones",
    )

    @model_validator(mode="after")
    def _applies(self) -> Self:
        if self.dismiss_most != DISMISS_MOST and not self.dismiss:
            raise ValueError("dismiss_most: applies where dismiss = true")
        if self.label is not None and not self.release.startswith("interval"):
            raise ValueError("label: is that of a box, and applies to a release of intervals")
        return self

    def combination(self) -> Combination:
        shared = self.model_dump(include={"k", "statistic", "epsilon", "dismiss", "dismiss_most", "improve", "sweeps"})
        operation: Centroid | GroupInterval
        if self.release in ("midpoint", "centroid"):
            operation = Centroid(centre="midpoint" if self.release == "midpoint" else "mean")
        else:
            operation = GroupInterval(form="columns" if self.release == "interval" else "column", label=self.label)
        return Combination(groups=BoxGroups(**shared, **self.bounds), operation=operation, columns=self.columns)
