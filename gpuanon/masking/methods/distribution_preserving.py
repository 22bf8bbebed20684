"""Distribution-preserving masks: groups of similar records, in which values are drawn."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.methods.combination import Combination, ConstrainedMethod, K
from gpuanon.masking.operations.dither import ALPHA, Dither, Precision, check_gaussian, check_strata
from gpuanon.masking.operations.dither.permute import Permute, Resample


class DistributionPreserving(ConstrainedMethod):
    """Groups of at least k similar records; values are drawn so that their distribution is kept.

    Leave the response out of the grouping (`response_weight` 0), and take `permute` where predictions from the release
    matter most, those for subgroups above all, or the Gaussian dither where being found matters most.  Where every
    column has at most ten values or bins, `strata` give the Gaussian dither less bias and fewer hits, and disclose the
    response about as `permute` does.
    """

    source: ClassVar[str] = "Wei, Ramamurthy and Varshney 2018"

    method: Literal["distribution-preserving"] = "distribution-preserving"
    k: K
    dither: Literal["gaussian", "cell", "merged-cell", "resample", "permute"] = "gaussian"
    alpha: float = Field(default=ALPHA, ge=0, description="gaussian: variance added to each column")
    response_weight: float = Field(
        default=0.0,
        ge=0,
        description="weight of the sensitive columns in the grouping; the paper's 1 makes groups alike in them, which"
        " discloses them",
    )
    block: int | None = Field(
        default=None, ge=0, description="rows of a block; 0: the whole table, as published; none: grows with k"
    )
    order: Literal["auto", "fewest", "response", "given"] | tuple[int, ...] = Field(
        default="auto",
        description="of the columns, in the transformation: those first that have the fewest values, or that tell most"
        " of the sensitive columns (response); auto: response where there are sensitive columns that stay as they are",
    )
    bins: int | None = Field(
        default=None, ge=2, description="gaussian: bins of continuous columns, so that no real row is copied"
    )
    strata: int | None = Field(
        default=None,
        ge=2,
        le=100,
        description="gaussian: quantile strata of the first sensitive column with an order, inside which records are"
        " grouped and mixed: less bias of predictions; needs bins, at most 10, and attribute_disclosure beside it",
    )
    precision: Precision = Field(
        default="double",
        description="gaussian: of the distribution functions by which values are drawn; single is for GPUs with little"
        " float64.  Groups never depend on it",
    )

    @model_validator(mode="after")
    def _strata_fit(self) -> Self:
        """Refuse strata without coarse columns, and with constraints that want groups unlike in the response."""
        check_gaussian(self.dither, alpha=self.alpha, bins=self.bins, precision=self.precision)
        if self.order != "auto" and self.dither in ("resample", "permute"):
            raise ValueError(f"order: applies to dithers; {self.dither} draws whole records")
        if self.strata is None:
            return self
        check_strata(self.dither, self.bins)
        if self.diversity is not None or self.closeness is not None:
            raise ValueError("strata: make the groups alike in the response; diversity and closeness want the contrary")
        return self

    def combination(self) -> Combination:
        operation: Resample | Permute | Dither
        if self.dither == "resample":
            operation = Resample()
        elif self.dither == "permute":
            operation = Permute()
        else:
            operation = Dither(
                kind=self.dither,
                alpha=self.alpha,
                block=self.block if self.dither == "gaussian" else None,
                order=self.order,
                bins=self.bins,
                strata=self.strata,
                precision=self.precision,
            )
        return Combination(
            groups=KMember(k=self.k, **self.bounds, **({} if self.block is None else {"block": self.block})),
            operation=operation,
            columns=self.columns,
            response_weight=self.response_weight,
        )
