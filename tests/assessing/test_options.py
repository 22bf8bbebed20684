"""Options of measures in a recipe: checked when it is read, and obeyed."""

from __future__ import annotations

import numpy as np
import pytest

import gpuanon
from gpuanon.assessing.measures import MEASURES, catalogue
from gpuanon.errors import RecipeError
from gpuanon.recipe import Recipe
from tests.support.every import recipe, registry


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"nothing": {}}, "unknown measure nothing"),
        ({"jsd": {"way": 1}}, "jsd has no option way; it has ways"),
        ({"means": {"ways": 1}}, "means has no option ways; it has none"),
        ({"jsd": {"ways": 0}}, "jsd.ways: input should be greater than or equal to 1"),
        ({"cdf_points": {"at": {"age": "old"}}}, "cdf_points.at"),
    ],
)
def test_a_bad_option_is_a_fault_of_the_recipe(options, fault):
    with pytest.raises(RecipeError, match=fault):
        Recipe.load(recipe("permute", measures=options))


def test_options_reach_the_measures():
    table = registry(80)
    options = {"jsd": {"ways": 1}, "cdf_points": {"at": {"age": [40, 65]}}, "model_efficacy": {"target": "age"}}
    options |= {"mmd": {"permutations": 3, "features": 16}, "pmse_cart": {"permutations": 2}}
    found = gpuanon.assess(table, table, recipe("permute", measures=options), measures=tuple(options)).measured
    assert found["jsd"].details["ways"] == 1
    assert found["cdf_points"].details["points"] == 2
    assert found["model_efficacy"].details["target"] == "age"
    assert (found["mmd"].details["permutations"], found["mmd"].details["features"]) == (3, 16)
    assert "permuted_share" in found["pmse_cart"].details


def test_a_limit_is_measured_with_the_options_of_its_recipe():
    chosen = recipe("microaggregation", measures={"jsd": {"ways": 1}}, limits={"jsd": 1.0})
    manifest = gpuanon.protect(registry(80), chosen, rng=b"a key of sixteen bytes").manifest
    again = gpuanon.protect(
        registry(80), recipe("microaggregation", limits={"jsd": 1.0}), rng=b"a key of sixteen bytes"
    )
    assert manifest["measured"]["jsd"] < again.manifest["measured"]["jsd"]
    assert manifest["measures"] == {"jsd": {"ways": 1}}


def test_the_catalogue_lists_every_option():
    listed = {entry["name"]: set(entry["parameters"]) for entry in catalogue()}
    assert listed == {measure.name: set(measure.options) for measure in MEASURES.values()}
    assert listed["mmd"] == {"permutations", "features"}


TABLES = {"ways": 1, "columns": ["age", "sex"], "bins": 3, "cuts": {"age": [40, 60]}}
OTHERS = {
    "suda2": {"fraction": 0.5, "size": 1},
    "population_uniqueness": {"fraction": 0.5},
    "prediction_ambiguity": {"k": 3},
    "prediction_uncertainty": {"weights": {"age": 1.0}, "k": 3},
    "linkage_probabilistic": {"tolerances": [0.5], "candidates": 2, "block": ["sex"]},
    "ct_isolation": {"c": 1.1, "t": 2},
    "singled_out": {"columns": 1},
    "marginals": {"ways": 1},
    "dominance": {"p": 90.0, "n": 1, "k": 10.0},
    "interval_disclosure": {"width": 1.0},
    "singling_out": {"columns": ["age", "income"], "size": 2, "attacks": 5},
    "linkability": {"first": ["age"], "second": ["income"]},
    "inference": {"secrets": ["age"], "known": ["income"], "tolerance": 0.5},
    "membership": {"columns": ["age"]},
    "mean_bias": {"columns": ["cost"]},
    "correlation_bias": {"pair": ["age", "cost"]},
    "ks": {"permutations": 20},
    **dict.fromkeys(("kl", "jsd", "vw", "ft", "g", "cell_ks"), TABLES),
    "cdf_points": {"level": 0.5, "at": {"age": [40.0]}},
    "mmd": {"permutations": 3, "features": 8},
    "model_efficacy": {"target": "age"},
    "paired_means": {"permutations": 20},
    "distribution_fit": {"distribution": "uniform", "parameters": {"age": [40.0, 10.0]}},
    "grouping_sensitivity": {"ways": 2, "columns": ["income"]},
    "confidence_overlap": {"level": 0.5},
    **{name: {"permutations": 2} for name in ("pmse_logit", "pmse_cart", "pmse_forest")},
    **{name: {"model": "cart"} for name in ("propensity_ks", "propensity_wilcoxon")},
    "kernel_pca": {"kernel": "rbf", "degree": 2, "components": 2, "share": 0.5},
    "regression_drift": {"response": "cost", "predictors": ["age"]},
}
"""For every option of a measure a value that is not its default; those of models are tested with them."""

TOGETHER = ("linkability", "regression_drift")  # these want both of their options


@pytest.mark.parametrize(
    "name", [m.name for m in MEASURES.values() if m.options and m.name not in ("analysis", "workload")]
)
def test_every_option_changes_the_figure(name):
    table, rng = registry(240).slice(0, 120), np.random.default_rng(1)
    release = table.take(rng.integers(0, 120, 120)).select(["age", "sex", "cost"])
    for column in table.column_names:
        if column not in release.column_names:
            release = release.append_column(column, table.column(column))
    settings = OTHERS[name]
    assert settings.keys() == set(next(m for m in MEASURES.values() if m.name == name).options)

    def figure(options):
        others = {"link": np.arange(120), "reference": registry(240).slice(120, 120)}
        fixed = {"population_uniqueness": {"fraction": 0.1}} if not options and name == "population_uniqueness" else {}
        rules = recipe("permute", measures={name: options} if options else fixed)
        return gpuanon.assess(table, release, rules, **others, measures=[name]).measured[name].to_json()

    usual = figure({})
    for options in [settings] if name in TOGETHER else [{one: value} for one, value in settings.items()]:
        assert figure(options) != usual, options
