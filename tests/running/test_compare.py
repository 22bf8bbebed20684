"""Recipes side by side."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.errors import ParameterError, RecipeError
from gpuanon.running.compare import grid
from gpuanon.running.files import compare_files
from tests.support.every import COLUMNS, HIERARCHIES, QUASI, recipe, registry

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


@pytest.mark.parametrize("values", [{"k": []}, {"k": [4, 5], "block": []}])
def test_an_empty_grid_is_refused(tmp_path, values):
    rules = recipe({"method": "microaggregation"} | values)
    with pytest.raises(RecipeError, match=r"recipe: mask\.0\.(k|block): a grid needs values, got none"):
        gpuanon.compare(registry(60), [rules])
    (tmp_path / "one.json").write_text(json.dumps(rules))
    pq.write_table(registry(60), tmp_path / "table.parquet")
    with pytest.raises(RecipeError, match="a grid needs values"):
        compare_files(tmp_path / "table.parquet", [tmp_path / "one.json"])


def test_no_recipe_at_all_is_refused():
    with pytest.raises(ParameterError, match="at least one"):
        gpuanon.compare(registry(60), [])


def test_a_hierarchy_is_found_beside_the_recipe_of_a_grid(tmp_path):
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "age.csv").write_bytes((HIERARCHIES / "age.csv").read_bytes())
    rules = recipe({"method": "recode", "levels": {"age": 2}, "columns": ["age"]})
    columns = {n: {k: v for k, v in spec.items() if k != "hierarchy"} for n, spec in rules["columns"].items()}
    columns["age"] |= {"hierarchy": "age.csv"}
    (folder / "one.json").write_text(json.dumps(rules | {"columns": columns}))
    found = gpuanon.compare(registry(60), [folder / "one.json"], measures=("k_anonymity",), rng=1, backend="numpy")
    assert found.trials[0].refused is None
