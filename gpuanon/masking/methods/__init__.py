"""The catalogue: each published combination of groups × basis × operation, with its name, parameters and source.

A named method is a frozen model that turns its parameters into a `Combination`; the parts know nothing of it.
A recipe may also hold a `Combination` itself.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import Discriminator, Tag

from gpuanon.masking.methods.combination import Combination, Method
from gpuanon.masking.named import Named

METHODS = Named[Method](
    "method",
    __package__,
    {
        "microaggregation": "microaggregation.Microaggregation",
        "distribution-preserving": "distribution_preserving.DistributionPreserving",
        "svd-swap": "swapping.SvdSwap",
        "rhs": "box_methods.Rhs",
        "spectral-rhs": "box_methods.SpectralRhs",
        "mondrian": "box_methods.Mondrian",
        "optimal-boxes": "box_methods.OptimalBoxes",
        "pica": "swapping.Pica",
        "clustered-swap": "swapping.ClusteredSwap",
        "noise": "noise_methods.AdditiveNoise",
        "suppress": "class_methods.SuppressRows",
        "synthetic-rows": "class_methods.SyntheticRows",
        "recode": "class_methods.GlobalRecoding",
        "blank": "class_methods.LocalSuppression",
        "pram": "class_methods.PostRandomisation",
        "random-suppress": "class_methods.RandomSuppression",
        "copula": "class_methods.Copula",
        "rank-swap": "swapping.RankSwapping",
        "column-swap": "swapping.ColumnSwapping",
        "core-swap": "swapping.CoreSwap",
        "cluster-swap": "swapping.ClusterSwap",
        "targeted-swap": "swapping.TargetedSwapping",
        "data-shuffle": "swapping.DataShuffle",
        "univariate-synthesis": "synthesis.UnivariateSynthesis",
        "latin-hypercube": "synthesis.HypercubeSynthesis",
        "table-synthesis": "synthesis.TableSynthesis",
        "maximum-entropy": "synthesis.MaximumEntropySynthesis",
        "clustered-synthesis": "synthesis.ClusteredSynthesis",
        "sequential-synthesis": "synthesis.SequentialSynthesis",
    },
)


def _kind_of_mask(mask: Any) -> str:
    """Which member of `AnyMask` a mask is: a named method or a free combination."""
    if isinstance(mask, dict):
        return "combination" if {"groups", "basis", "operation"} & set(mask) and "method" not in mask else "method"
    return "method" if hasattr(mask, "method") else "combination"


AnyMask: TypeAlias = Annotated[
    Annotated[Method, METHODS, Tag("method")] | Annotated[Combination, Tag("combination")],
    Discriminator(_kind_of_mask),
]


def catalogue() -> list[dict[str, Any]]:
    """The methods as ``methods --json`` lists them.

    Examples
    --------
    >>> import gpuanon
    >>> "microaggregation" in [method["name"] for method in gpuanon.methods()]
    True
    """
    entries = []
    for name, method in METHODS.items():
        properties = method.model_json_schema()["properties"]
        properties.pop("method")
        entries.append({"name": name, "summary": method.__doc__, "source": method.source, "parameters": properties})
    return entries
