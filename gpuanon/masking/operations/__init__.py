"""Operations: what is done to the records of a group, along the axes of a basis."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from gpuanon.masking.operations.blank import Blank, RandomBlank
from gpuanon.masking.operations.centroid import Centroid
from gpuanon.masking.operations.condense import Condense
from gpuanon.masking.operations.dither import Dither
from gpuanon.masking.operations.exchange import Exchange
from gpuanon.masking.operations.interval import Interval
from gpuanon.masking.operations.maximum_entropy import LargestEntropy
from gpuanon.masking.operations.noise import LocalNoise, Noise
from gpuanon.masking.operations.pad import Pad
from gpuanon.masking.operations.permute import Permute
from gpuanon.masking.operations.rank_match import LatinHypercube, RankMatch, RankNoise
from gpuanon.masking.operations.rank_swap import ColumnSwap, RankSwap
from gpuanon.masking.operations.recode import Recode
from gpuanon.masking.operations.recode_search import RecodeSearch
from gpuanon.masking.operations.resample import Resample
from gpuanon.masking.operations.sample import Sample
from gpuanon.masking.operations.sequential import PartlySynthetic, Sequential
from gpuanon.masking.operations.suppress import Suppress
from gpuanon.masking.operations.swap import Swap
from gpuanon.masking.operations.table_sample import TableSample
from gpuanon.masking.operations.targeted_swap import TargetedSwap
from gpuanon.masking.operations.transition import Transition
from gpuanon.masking.operations.tree_swap import TreeSwap

AnyOperation: TypeAlias = Annotated[
    Centroid
    | Resample
    | Permute
    | Dither
    | Swap
    | TreeSwap
    | Noise
    | LocalNoise
    | Interval
    | Suppress
    | Pad
    | Recode
    | Sample
    | Exchange
    | RankSwap
    | ColumnSwap
    | TargetedSwap
    | RankMatch
    | RankNoise
    | LatinHypercube
    | Condense
    | LargestEntropy
    | TableSample
    | Sequential
    | PartlySynthetic
    | RecodeSearch
    | Blank
    | RandomBlank
    | Transition,
    Field(discriminator="use"),
]
"""Any operation of a recipe; ``use`` names it."""

__all__ = [
    "AnyOperation",
    "Blank",
    "RandomBlank",
    "Centroid",
    "Dither",
    "Interval",
    "Noise",
    "Pad",
    "Permute",
    "Recode",
    "RecodeSearch",
    "Resample",
    "Suppress",
    "Swap",
    "Transition",
    "TreeSwap",
]
