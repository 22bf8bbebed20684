"""Methods on equivalence classes, and the Gaussian copula."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from gpuanon.masking.groups.classes import Classes
from gpuanon.masking.groups.whole import Whole
from gpuanon.masking.methods.combination import ColumnChoice, Combination, ConstrainedMethod, K, Method
from gpuanon.masking.operations.fill_parameters import Calibrate, FillKind, Leaf, SampleRows, Trees
from gpuanon.masking.operations.fill_parameters import Depth as TreeDepth
from gpuanon.masking.operations.pad import Pad
from gpuanon.masking.operations.recode import Recode
from gpuanon.masking.operations.sample import Sample
from gpuanon.masking.operations.suppress import Suppress
from gpuanon.masking.views.codes import Codes
from gpuanon.masking.views.normal_scores import NormalScores

Depth = Annotated[int, Field(ge=0)]


class SuppressRows(ConstrainedMethod):
    """Records of classes with fewer than k records are not released."""

    source: ClassVar[str] = "Sweeney 2002; Fried and Vamvourellis"

    method: Literal["suppress"] = "suppress"
    k: K

    def combination(self) -> Combination:
        operation = Suppress(k=self.k, **self.bounds)
        return Combination(groups=Classes(), basis=Codes(), operation=operation, columns=self.columns)


class SyntheticRows(Method):
    """Rows are added to classes with fewer than k records; no record is changed or dropped."""

    source: ClassVar[str] = "Fried and Vamvourellis"

    method: Literal["synthetic-rows"] = "synthetic-rows"
    k: K
    fill: FillKind = "tree"
    leaf: Leaf = 50
    depth: TreeDepth = None
    trees: Trees = 25
    sample: SampleRows = 500_000
    calibrate: Calibrate | None = Field(default=None, description="statistics of the whole table that are to stay")

    def combination(self) -> Combination:
        operation = Pad(
            k=self.k, fill=self.fill, leaf=self.leaf, depth=self.depth, trees=self.trees, sample=self.sample,
            calibrate=self.calibrate,
        )  # fmt: skip
        return Combination(groups=Classes(), basis=Codes(), operation=operation, columns=self.columns)


class GlobalRecoding(Method):
    """Each column is released at one depth of its hierarchy, as text."""

    source: ClassVar[str] = "Samarati 2001; Lasko 2007, ch. 2"

    method: Literal["recode"] = "recode"
    levels: Depth | dict[str, Depth] = Field(description="depth of all columns, or by name; 0 for those not named")
    k: int | None = Field(default=None, ge=2, description="records of a class, at least; none: nothing is promised")

    def combination(self) -> Combination:
        operation = Recode(levels=self.levels, k=self.k)
        return Combination(groups=Classes(), basis=Codes(), operation=operation, columns=self.columns)


class Copula(Method):
    """New rows from a Gaussian copula: each column's own values, correlated as in the original."""

    source: ClassVar[str] = "Lasko 2007, eq. 2.14–2.17"

    method: Literal["copula"] = "copula"
    columns: ColumnChoice = Field(default="all", description='"quasi", "all" or a list of names')
    copies: int = Field(
        default=1, ge=1, le=1000, description="of the release, in one table with a column 'copy': multiple imputation"
    )

    def combination(self) -> Combination:
        chosen: dict[str, Any] = {"columns": self.columns, "copies": self.copies}
        return Combination(groups=Whole(), basis=NormalScores(), operation=Sample(), **chosen)
