"""Additive noise in all its kinds."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from gpuanon.masking.bases.linear import Codes
from gpuanon.masking.groups.plain_groups import BlocksOfRows, Whole
from gpuanon.masking.methods.combination import Combination, Method
from gpuanon.masking.operations.added_noise import LocalNoise, Noise
from gpuanon.masking.operations.rank_match import RankNoise

BLOCK = 512
"""Rows among which the nearest are looked for, where noise depends on density."""

LEAST = 0.5
"""Share of its usual length below which noise is drawn again."""


class AdditiveNoise(Method):
    """Random noise is added to every column.

    normal-scores  : correlated, after each column was led to normal scores; every column keeps exactly its values
    mixture        : correlated, of normal distributions around means that are away from 0
    coloured-mixture : the same by colouring independent mixtures
    data-dependent : more where records are sparse; its length is √b times the distance to the tenth nearest record
    """

    source: ClassVar[str] = "Lasko 2007, ch. 2, eq. 2.2–2.11"

    method: Literal["noise"] = "noise"
    b: float = Field(default=0.1, gt=0, description="variance of the noise, as a share of the column's")
    kind: Literal[
        "uncorrelated",
        "correlated",
        "corrected",
        "normal-scores",
        "mixture",
        "coloured-mixture",
        "data-dependent",
    ] = "uncorrelated"
    resample: bool = Field(
        default=False,
        description="draw the noise of a row again while it is shorter than half its usual length; the covariance of"
        " all noise stays what b says.  Not for mixtures, normal-scores and data-dependent",
    )
    exact: bool = Field(
        default=False,
        description="the covariance of data and noise is exact, not right on average; not for normal-scores,"
        " data-dependent",
    )

    @model_validator(mode="after")
    def _applies(self) -> Self:
        """Refuse settings that would do nothing."""
        if self.resample and self.kind not in ("uncorrelated", "correlated", "corrected"):
            raise ValueError(f"resample: does not apply to {self.kind} noise")
        if self.exact and self.kind in ("normal-scores", "data-dependent"):
            raise ValueError(f"exact: does not apply to {self.kind} noise")
        return self

    def combination(self) -> Combination:
        if self.kind == "normal-scores":
            return Combination(groups=Whole(), basis=Codes(), operation=RankNoise(b=self.b), columns=self.columns)
        if self.kind == "data-dependent":
            return Combination(groups=BlocksOfRows(size=BLOCK), operation=LocalNoise(b=self.b), columns=self.columns)
        mixed = self.kind in ("mixture", "coloured-mixture")
        settings = {"kind": "correlated", "shape": self.kind} if mixed else {"kind": self.kind}
        least = LEAST if self.resample else 0.0
        operation = Noise.model_validate({"b": self.b, "least": least, "exact": self.exact, **settings})
        return Combination(groups=Whole(), operation=operation, columns=self.columns)
