"""Along which axes: the bases, and the names of their models in recipes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from gpuanon.masking.contract import Basis
from gpuanon.masking.named import Named

BASES = Named[Basis](
    "use",
    __name__,
    {
        "identity": "linear.Identity",
        "svd": "linear.Svd",
        "ica": "linear.Ica",
        "tca": "tca.Tca",
        "normal-scores": "normal_scores.NormalScores",
        "kernel": "kernel_basis.KernelBasis",
        "codes": "linear.Codes",
    },
)
AnyBasis: TypeAlias = Annotated[Basis, BASES]
"""Any basis of a recipe; ``use`` names it."""
