"""One mask of every method, with parameters for a small table: the cases of the contract tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuanon.recipe import POINTS, Recipe
from gpuanon.tables.registry import make_registry

HIERARCHIES = Path(__file__).parent / "hierarchies"

COLUMNS: dict[str, dict[str, Any]] = {
    "person_id": {"role": "identifier"},
    "age": {"role": "quasi", "hierarchy": str(HIERARCHIES / "age.csv")},
    "sex": {"role": "quasi"},
    "education": {"role": "quasi", "kind": "ordinal", "hierarchy": str(HIERARCHIES / "education.csv")},
    "income": {"role": "quasi", "transform": "log1p"},
    "smoker": {"role": "quasi"},
    "admission": {"role": "quasi"},
    "diagnosis": {"role": "sensitive"},
    "cost": {"role": "sensitive", "transform": "log1p"},
}
ACCEPT = dict.fromkeys(POINTS, "rows that a generator drew: nobody is in them")
"""The costs of the registry are released as they are and single everybody out: what is tested here are the masks."""
QUASI = tuple(name for name, spec in COLUMNS.items() if spec["role"] == "quasi")

MASKS: dict[str, dict[str, Any]] = {
    "microaggregation": {"method": "microaggregation", "k": 4, "block": 64},
    "microaggregation k-member": {"method": "microaggregation", "k": 4, "groups": "k-member", "block": 0},
    "microaggregation gower": {"method": "microaggregation", "k": 4, "metric": "gower"},
    "microaggregation median": {"method": "microaggregation", "k": 4, "centre": "median"},
    "microaggregation univariate": {"method": "microaggregation", "k": 4, "groups": "univariate"},
    "microaggregation optimal-univariate": {"method": "microaggregation", "k": 4, "groups": "optimal-univariate"},
    "microaggregation first-axis": {"method": "microaggregation", "k": 4, "groups": "first-axis"},
    "microaggregation one column": {"method": "microaggregation", "k": 4, "groups": "first-axis", "by": ["age"]},
    "microaggregation v-mdav": {
        "method": "microaggregation",
        "k": 4,
        "groups": "v-mdav",
        "block": 64,
        "release": "interval",
    },
    "microaggregation k-ward": {"method": "microaggregation", "k": 4, "groups": "k-ward", "block": 64},
    "microaggregation constrained-k-means": {"method": "microaggregation", "k": 10, "groups": "constrained-k-means"},
    "microaggregation fuzzy": {"method": "microaggregation", "k": 4, "groups": "fuzzy", "block": 64},
    "microaggregation spanning-tree": {"method": "microaggregation", "k": 4, "groups": "spanning-tree", "block": 64},
    "resample": {"method": "distribution-preserving", "k": 4, "dither": "resample"},
    "permute": {"method": "distribution-preserving", "k": 4, "dither": "permute"},
    "gaussian": {"method": "distribution-preserving", "k": 4, "dither": "gaussian"},
    "gaussian single": {"method": "distribution-preserving", "k": 4, "dither": "gaussian", "precision": "single"},
    "gaussian binned": {"method": "distribution-preserving", "k": 4, "dither": "gaussian", "bins": 10},
    "gaussian strata": {"method": "distribution-preserving", "k": 4, "dither": "gaussian", "bins": 10, "strata": 3},
    "cell": {"method": "distribution-preserving", "k": 4, "dither": "cell"},
    "merged-cell": {"method": "distribution-preserving", "k": 4, "dither": "merged-cell", "columns": ["age"]},
    "svd-swap": {"method": "svd-swap", "tol": 0.5},
    "svd-swap probabilistic": {"method": "svd-swap", "tol": 0.5, "decoding": "probabilistic"},
    "rhs": {"method": "rhs", "k": 2, "columns": ["visits"]},
    "spectral-rhs": {"method": "spectral-rhs", "k": 4},
    "mondrian": {"method": "mondrian", "k": 4},
    "pica": {"method": "pica", "target": 40, "block": 128},
    "clustered-swap": {"method": "clustered-swap", "target": 40, "block": 128},
    "noise": {"method": "noise", "b": 0.1},
    "noise resampled": {"method": "noise", "kind": "corrected", "resample": True, "exact": True},
    "noise normal-scores": {"method": "noise", "kind": "normal-scores"},
    "noise mixture": {"method": "noise", "kind": "mixture"},
    "noise data-dependent": {"method": "noise", "kind": "data-dependent", "b": 1.0},
    "suppress": {"method": "suppress", "k": 3, "columns": ["sex", "education", "smoker"]},
    "synthetic-rows": {"method": "synthetic-rows", "k": 4},
    "synthetic-rows joint": {"method": "synthetic-rows", "k": 4, "fill": "joint"},
    "synthetic-rows calibrated": {
        "method": "synthetic-rows",
        "k": 3,
        "fill": "hierarchical",  # forests on a device want cuML: tests/cuda/test_rapids.py
        "columns": ["sex", "education", "smoker"],
        "calibrate": {"means": ["cost"], "correlations": [["visits", "bmi"]]},
    },
    "mondrian interval": {"method": "mondrian", "k": 4, "release": "interval"},
    "optimal-boxes": {
        "method": "optimal-boxes",
        "k": 4,
        "statistic": ["mean", "correlation(age, income)"],
        "release": "interval-column",
        "label": "box",
        "sweeps": 1,
        "dismiss": True,
    },
    "optimal-boxes diversity": {
        "method": "optimal-boxes",
        "k": 4,
        "diversity": 3,
        "epsilon": {"age": 0.1},
        "release": "midpoint",
        "improve": False,
    },
    "recode": {"method": "recode", "levels": {"age": 2, "education": 1}, "columns": ["age", "sex", "education"]},
    "recode searched": {
        "method": "recode",
        "k": 4,
        "limit": 0.5,
        "columns": ["age", "sex", "education", "smoker"],
    },
    "recode local": {
        "method": "recode",
        "k": 4,
        "limit": 0.5,
        "local": True,
        "columns": ["age", "sex", "education", "smoker"],
    },
    "blank": {"method": "blank", "k": 4, "cover": 0.5, "columns": ["sex", "education", "region"]},
    "random-suppress": {"method": "random-suppress", "k": 4, "columns": ["sex", "education", "region"]},
    "pram": {"method": "pram", "stay": 0.5, "within": "sex", "columns": ["sex", "education", "region"]},
    "copula": {"method": "copula"},
    "rank-swap": {"method": "rank-swap", "window": 10},
    "column-swap": {"method": "column-swap", "subsets": 7},
    "core-swap": {"method": "core-swap", "core": ["sex", "smoker"], "columns": ["age", "education", "income"]},
    "cluster-swap": {"method": "cluster-swap", "k": 6, "block": 64},
    "targeted-swap": {"method": "targeted-swap", "columns": ["education"], "match": ["sex", "smoker"], "below": 40},
    "data-shuffle": {
        "method": "data-shuffle",
        "columns": ["age", "education", "income"],
        "given": ["cost", "diagnosis"],
    },
    "univariate-synthesis": {"method": "univariate-synthesis"},
    "latin-hypercube": {"method": "latin-hypercube", "copies": 2},
    "table-synthesis": {
        "method": "table-synthesis",
        "columns": ["age", "sex", "education", "smoker"],
        "bins": 3,
    },
    "maximum-entropy": {"method": "maximum-entropy", "columns": ["age", "education", "income"]},
    "maximum-entropy named": {
        "method": "maximum-entropy",
        "columns": ["age", "education", "income"],
        "moments": [["age"], ["age", "age"], ["education"], ["income"], ["age", "income"]],
    },
    "clustered-synthesis": {"method": "clustered-synthesis", "k": 8, "block": 64},
    "sequential-synthesis": {"method": "sequential-synthesis"},
    "sequential-synthesis chosen": {
        "method": "sequential-synthesis",
        "columns": ["education", "income"],
        "chosen": "smoker",
    },
    "sequential-synthesis partly": {
        "method": "sequential-synthesis",
        "model": "mixture",
        "even": False,
        "columns": ["education", "income"],
        "given": ["sex", "smoker"],
        "below": 40,
        "copies": 2,
    },
}


def recipe(*masks: str | dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A recipe for the small registry with one mask or several; quasi-identifiers that none changes are kept."""
    chosen = [MASKS[mask] if isinstance(mask, str) else mask for mask in masks]
    masked = [mask.get("columns", "quasi") for mask in chosen]
    whole = next((columns for columns in masked if isinstance(columns, str)), None)
    return {
        "columns": kept_but(whole or [name for columns in masked for name in columns], changes.pop("columns", COLUMNS)),
        "others": "keep",
        "nulls": "indicator",
        "mask": chosen,
        "accept": ACCEPT,
        **changes,
    }


def kept_but(masked: Any, columns: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The columns, with the quasi-identifiers that are not masked kept on purpose."""
    if isinstance(masked, str):
        return columns
    return {
        name: spec | {"keep": True} if spec["role"] == "quasi" and name not in masked else spec
        for name, spec in columns.items()
    }


def registry(rows: int = 300) -> Any:
    """A small registry, as an Arrow table."""
    return make_registry(rows, seed=7)


def on_the_cpu_only(name: str) -> bool:
    """Whether a part of the mask is written for the CPU."""
    combination = Recipe.load(recipe(name)).mask[0].combination()
    return combination.groups.host_only or combination.operation.host_only


ON_THE_CPU_ONLY = {name for name in MASKS if on_the_cpu_only(name)}
ON_THE_DEVICE = [name for name in MASKS if name not in ON_THE_CPU_ONLY]
