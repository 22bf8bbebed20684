"""The verdict of a run, on tables whose danger is known."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import gpuanon
from gpuanon.errors import RecipeError

KEY = b"k" * 32
QUASI = {"role": "quasi"}


def survey(n=600, seed=0):
    """People with two masked columns, and two measurements that nothing masks and that single nearly all out."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "sex": rng.choice(["f", "m"], n),
            "weight": rng.normal(75, 12, n).round(1),
            "height": rng.normal(170, 9, n).round(0),
        }
    )


def verdict(table, columns, mask=None, **more):
    recipe = {"columns": columns, "mask": [mask or {"method": "microaggregation", "k": 5}], **more}
    return gpuanon.protect(table, recipe, rng=KEY).manifest["verdict"]


KEPT = {"age": QUASI, "sex": QUASI, "weight": {"role": "other"}, "height": {"role": "other"}}
MASKED = dict.fromkeys(KEPT, QUASI)


def points(found):
    return {point["name"]: point["state"] for point in found["points"]}


def test_a_kept_promise_on_two_columns_is_not_green_where_the_others_single_people_out():
    found = verdict(survey(), KEPT)
    assert found["state"] == "bad"
    assert points(found)["promise"] == "good"
    assert points(found)["singled_out"] == "bad"
    assert any("weight" in reason for reason in found["reasons"])


def test_all_columns_masked_in_groups_is_green():
    found = verdict(survey(), MASKED)
    assert found["state"] == "good"
    assert set(points(found).values()) == {"good"}


def test_the_share_is_that_of_pandas():
    table = survey()
    release = gpuanon.protect(table, {"columns": KEPT, "mask": [{"method": "microaggregation", "k": 5}]}, rng=KEY).data
    alone = np.zeros(len(release), dtype=bool)
    for names in (["weight"], ["height"], ["weight", "height"], ["age", "weight", "height"], ["age", "sex", "weight"]):
        alone |= (release.groupby(names)["age"].transform("size") == 1).to_numpy()
    (text,) = (point["text"] for point in verdict(table, KEPT)["points"] if point["name"] == "singled_out")
    assert float(text.split("%")[0]) / 100 >= alone.mean() - 0.001


def test_a_point_is_accepted_by_name_with_a_reason_that_is_printed():
    why = "a safe room without other files"
    found = verdict(survey(), KEPT, accept={"singled_out": why, "copies": why, "warnings": why})
    assert found["state"] == "good"
    assert sum(why in reason for reason in found["reasons"]) >= 1
    with pytest.raises(RecipeError, match="there is no point singledout"):
        verdict(survey(), KEPT, accept={"singledout": why})


def test_unmasked_copies_of_people_are_never_green():
    table = survey().assign(unique=np.arange(600))
    columns = {**MASKED, "unique": QUASI}
    swapped = {"method": "rank-swap", "window": 0.0001, "columns": ["age"]}
    kept = {name: {**spec, "keep": True} if name != "age" else spec for name, spec in columns.items()}
    found = verdict(table, kept, swapped)
    assert found["state"] == "bad"
    assert points(found)["copies"] == "bad"


def test_a_kept_column_that_gives_a_masked_one_back_is_named():
    table = survey().assign(education=np.random.default_rng(2).integers(0, 6, 600))
    table["degree"] = table["education"] * 100
    columns = {"age": QUASI, "sex": QUASI, "education": QUASI, "degree": {"role": "other"}}
    found = verdict(table[[*columns]], columns, {"method": "microaggregation", "k": 30})
    assert points(found)["given_back"] == "bad"
    assert any("degree → education" in reason for reason in found["reasons"])


def test_limits_count_persons():
    n = 200
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"pid": np.arange(n), "age": rng.integers(20, 80, n), "cost": rng.permutation(10**6)[:n]})
    table = people.loc[people.index.repeat(10)].reset_index(drop=True)
    columns = {"pid": {"role": "person"}, "age": QUASI, "cost": {"role": "quasi", "keep": True}}
    mask = [{"method": "microaggregation", "k": 5, "columns": ["age"]}]
    for limit in ({"k_anonymity": 5}, {"uniqueness": 0.0}, {"reidentification": 0.15}, {"singled_out": 0.05}):
        with pytest.raises(gpuanon.GpuanonError, match=next(iter(limit))):
            gpuanon.protect(table, {"columns": columns, "mask": mask, "limits": limit}, rng=KEY)


def test_manifest_summary_and_json_say_the_same(tmp_path):
    survey().to_csv(tmp_path / "t.csv", index=False)
    recipe = {"columns": KEPT, "mask": [{"method": "microaggregation", "k": 5}]}
    (tmp_path / "r.json").write_text(json.dumps(recipe))
    command = [sys.executable, "-m", "gpuanon", "protect", "t.csv", "r.json", "-o", "o.csv", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)["verdict"]
    assert said["state"] == "bad"
    assert json.loads((tmp_path / "o.csv.manifest.json").read_text())["verdict"] == said


def rich(n=600):
    """Incomes with one of 250 million among them."""
    rng = np.random.default_rng(3)
    income = rng.lognormal(10, 0.4, n).round(0)
    income[17] = 250e6
    return pd.DataFrame({"age": rng.integers(20, 80, n), "income": income})


@pytest.mark.parametrize(
    ("mask", "told"),
    [
        ({"method": "microaggregation", "k": 5}, True),
        ({"method": "microaggregation", "k": 5, "centre": "median"}, False),
        ({"method": "noise"}, False),
    ],
)
def test_a_value_that_dominates_its_group_is_never_green(mask, told):
    columns = {"age": QUASI, "income": QUASI}
    found = verdict(rich(), columns, mask)
    points = {point["name"]: point for point in found["points"]}
    assert ("dominance" in points) == told
    if told:
        assert points["dominance"]["state"] == "open"
        assert "income" in points["dominance"]["text"]
        assert found["state"] != "good"
        release = gpuanon.protect(rich(), {"columns": columns, "mask": [mask]}, rng=KEY).data
        assert abs(5 * release["income"].max() / 250e6 - 1) < 0.1  # what the point speaks of
        accepted = verdict(rich(), columns, mask, accept={"dominance": "his income is in the papers"})
        assert {point["name"]: point["state"] for point in accepted["points"]}["dominance"] == "good"
