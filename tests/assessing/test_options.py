"""Options of measures in a recipe: checked when it is read, and obeyed."""

from __future__ import annotations

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
    assert listed == {measure.name: set(measure.options) for measure in MEASURES}
    assert listed["mmd"] == {"permutations", "features"}
