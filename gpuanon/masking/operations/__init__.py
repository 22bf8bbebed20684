"""Operations: what is done to the records of a group, along the axes of a basis."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from gpuanon.masking.contract import Operation
from gpuanon.masking.named import Named

OPERATIONS = Named[Operation](
    "use",
    __name__,
    {
        "centroid": "centroid.Centroid",
        "resample": "dither.permute.Resample",
        "permute": "dither.permute.Permute",
        "dither": "dither.Dither",
        "swap": "swap.Swap",
        "tree-swap": "swap.TreeSwap",
        "noise": "added_noise.Noise",
        "local-noise": "added_noise.LocalNoise",
        "interval": "centroid.GroupInterval",
        "suppress": "suppress.Suppress",
        "pad": "pad.Pad",
        "recode": "recode.Recode",
        "sample": "sample.Sample",
        "exchange": "rank_swap.Exchange",
        "rank-swap": "rank_swap.RankSwap",
        "column-swap": "rank_swap.ColumnSwap",
        "targeted-swap": "rank_swap.TargetedSwap",
        "rank-match": "rank_match.RankMatch",
        "rank-noise": "rank_match.RankNoise",
        "latin-hypercube": "rank_match.LatinHypercube",
        "condense": "sample.Condense",
        "maximum-entropy": "maximum_entropy.LargestEntropy",
        "table-sample": "graphical_table.TableSample",
        "sequential": "sequential.Sequential",
        "partly-synthetic": "sequential.PartlySynthetic",
        "recode-search": "recode.recode_search.RecodeSearch",
        "blank": "blank.Blank",
        "random-blank": "blank.RandomBlank",
        "transition": "transition.Transition",
    },
)
AnyOperation: TypeAlias = Annotated[Operation, OPERATIONS]
"""Any operation of a recipe; ``use`` names it."""
