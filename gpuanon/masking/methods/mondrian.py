"""Methods on groups that are cut at medians."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from gpuanon.masking.groups.median_cuts import MedianCuts
from gpuanon.masking.methods.combination import Combination, ConstrainedMethod, K
from gpuanon.masking.operations.centroid import Centroid
from gpuanon.masking.operations.interval import GroupInterval


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
