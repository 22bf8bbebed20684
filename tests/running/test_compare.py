"""Recipes side by side."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import gpuanon
from gpuanon.errors import RecipeError
from gpuanon.running.compare import grid
from tests.support.every import COLUMNS, QUASI, recipe, registry

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


def test_a_misspelt_column_is_a_fault_of_the_recipe_and_no_refused_release():
    wrong = recipe("microaggregation", columns={**COLUMNS, "agee": {"role": "quasi"}})
    with pytest.raises(RecipeError, match="'agee': not in the table; did you mean 'age'"):
        gpuanon.compare(registry(60), [recipe("microaggregation"), wrong], measures=MEASURES, rng=KEY)


def test_recipes_are_measured_on_the_union_of_their_quasi_identifiers():
    few = {**COLUMNS, "income": {"role": "other"}, "cost": {"role": "identifier"}}
    recipes = [recipe("microaggregation", columns=few), recipe("microaggregation")]
    trials = gpuanon.compare(registry(150), recipes, measures=("reidentification", "records_changed"), rng=KEY)
    assert trials.columns == QUASI
    assert not any(trial.failed for trial in trials.trials)
    # Income is left as it is by the first recipe, and found by it.
    first, second = (trial.measured for trial in trials.trials)
    assert first["reidentification"] > second["reidentification"]
    alone = gpuanon.compare(registry(150), recipes[:1], measures=("reidentification",), rng=KEY)
    assert alone.trials[0].measured["reidentification"] < first["reidentification"]
    assert trials.to_json()["quasi"] == list(QUASI)


def test_no_best_is_named_without_the_measure_that_decides():
    rules = [recipe({"method": "microaggregation", "k": [3, 5]})]
    trials = gpuanon.compare(registry(60), rules, measures=("k_anonymity",), rng=KEY)
    assert trials.best is None
    assert "no measure of utility" in str(trials.notes)
    wide = registry(300)
    wide = wide.append_column("code", pa.array([f"c{row}" for row in range(300)]))
    columns = {**COLUMNS, "code": {"role": "sensitive"}}
    trials = gpuanon.compare(
        wide, [recipe("microaggregation", columns=columns)], measures=("k_anonymity", "means"), rng=KEY
    )
    assert trials.best is None
    assert "'code'" in trials.trials[0].failed["means"]
    assert json.loads(json.dumps(trials.to_json(), allow_nan=False))["best"] is None


def test_limits_that_no_release_keeps_leave_no_best():
    rules = recipe({"method": "microaggregation", "k": [3, 5]}, limits={"k_anonymity": 40})
    trials = gpuanon.compare(registry(60), [rules], measures=MEASURES, rng=KEY)
    assert all("limits.k_anonymity" in trial.refused for trial in trials.trials)
    assert trials.best is None
