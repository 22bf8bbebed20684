"""Groupings: which rows may mix.  Each file has the function and its model, named in recipes by ``use``."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from gpuanon.masking.contract import Groups
from gpuanon.masking.named import Named

GROUPS = Named[Groups](
    "use",
    __name__,
    {
        "whole": "whole.Whole",
        "blocks": "blocks.Blocks",
        "k-member": "kmember.KMember",
        "mdav": "mdav.mdav_model.Mdav",
        "v-mdav": "mdav.v_mdav.VMdav",
        "k-ward": "k_ward.KWard",
        "constrained-k-means": "constrained_kmeans.ConstrainedKMeans",
        "median-cuts": "median_cuts.MedianCuts",
        "boxes": "boxes.Boxes",
        "spectral": "spectral_clusters.Spectral",
        "spanning-tree": "spanning_tree.SpanningTree",
        "fuzzy": "fuzzy.Fuzzy",
        "first-axis": "first_axis.FirstAxis",
        "univariate": "univariate.Univariate",
        "optimal-univariate": "univariate.OptimalUnivariate",
        "classes": "equal_classes.Classes",
    },
)
AnyGroups: TypeAlias = Annotated[Groups, GROUPS]
"""Any grouping of a recipe; ``use`` names it."""
