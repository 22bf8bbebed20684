"""Recipes side by side."""

from __future__ import annotations

import json

import pytest

import gpuanon
from gpuanon.errors import RecipeError
from gpuanon.running.compare import grid
from tests.support.every import recipe, registry

KEY = b"a key for tests, of sixteen bytes or more"
MEASURES = ("reidentification", "information_loss")


def test_a_grid_has_every_combination_and_leaves_lists_that_are_values():
    mask = {"method": "microaggregation", "k": [3, 5], "groups": ["mdav", "k-member"], "columns": ["age", "income"]}
    points = list(grid(recipe(mask)))
    assert [chosen for _, chosen, _ in points] == [{"k": k, "groups": g} for k in (3, 5) for g in ("mdav", "k-member")]
    assert all(point["mask"][0]["columns"] == ["age", "income"] for _, _, point in points)
    assert points[0][0] == "recipe: k = 3, groups = mdav"


def test_a_larger_k_loses_more_and_finds_fewer():
    trials = gpuanon.compare(
        registry(200), [recipe({"method": "microaggregation", "k": [3, 20]})], measures=MEASURES, rng=KEY
    )
    small, large = trials.trials
    assert small.measured["information_loss"] < large.measured["information_loss"]
    assert small.measured["reidentification"] > large.measured["reidentification"]
    assert trials.best is small


def test_the_best_is_among_those_that_keep_their_limits():
    rules = recipe({"method": "microaggregation", "k": [3, 20]}, limits={"k_anonymity": 10})
    trials = gpuanon.compare(registry(200), [rules], measures=MEASURES, rng=KEY)
    assert "limits.k_anonymity" in trials.trials[0].refused
    assert trials.best is trials.trials[1]
    assert json.loads(json.dumps(trials.to_json()))["best"] == "recipe: k = 20"


def test_a_fault_at_any_point_of_the_grid_is_named_before_anything_is_masked():
    with pytest.raises(RecipeError, match=r"mask\.0\.k: .*got 1"):
        gpuanon.compare(registry(50), [recipe({"method": "microaggregation", "k": [3, 1]})], rng=KEY)
