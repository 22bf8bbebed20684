"""Groupings: which rows may mix.  Each file has the function and its model, named in recipes by ``use``."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from gpuanon.masking.contract import Groups
from gpuanon.masking.named import Named

GROUPS = Named[Groups](
    "use",
    __name__,
    {
        "whole": "plain_groups.Whole",
        "blocks": "plain_groups.BlocksOfRows",
        "k-member": "kmember.KMember",
        "mdav": "mdav.mdav_models.Mdav",
        "v-mdav": "mdav.mdav_models.VMdav",
        "k-ward": "k_ward.KWard",
        "constrained-k-means": "constrained_kmeans.ConstrainedKMeans",
        "median-cuts": "median_cuts.MedianCuts",
        "boxes": "boxes.BoxGroups",
        "spectral": "spectral_clusters.Spectral",
        "spanning-tree": "spanning_tree.SpanningTree",
        "fuzzy": "fuzzy.Fuzzy",
        "first-axis": "univariate.FirstAxis",
        "univariate": "univariate.Univariate",
        "optimal-univariate": "univariate.OptimalUnivariate",
        "classes": "plain_groups.EqualRows",
    },
)
AnyGroups: TypeAlias = Annotated[Groups, GROUPS]
"""Any grouping of a recipe; ``use`` names it."""
