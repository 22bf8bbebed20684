"""Repeated measurements from a recipe to a release: persons are the rows of masks, claims, measures and parts."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
import gpuanon.engine.series_runs as reshaping
from gpuanon.arrays.rng import Key
from gpuanon.engine.assess import assess
from gpuanon.engine.checking import checked
from gpuanon.engine.protect import InParts, protect_file, protect_in_parts
from gpuanon.errors import RecipeError
from gpuanon.recipe import Recipe
from tests.support.repeated import measurements, pivoted, rules

SECRET = b"a key for tests, of sixteen bytes or more"
MICRO = {"method": "microaggregation", "k": 4}
SWAP = {"method": "svd-swap", "orthonormal": True, "columns": ["weight"]}
WEIGHTS = [f"weight_{week}" for week in range(6)]


def autocovariance(X, lag):
    """Of vectors (p, t) around the mean of each time, over all pairs of times that are `lag` apart."""
    X = X - X.mean(axis=0)
    return float(np.mean(X[:, : X.shape[1] - lag] * X[:, lag:]))


def test_claims_and_the_headline_count_persons():
    records = measurements()
    release = gpuanon.protect(records, rules(MICRO), rng=SECRET, backend="numpy")
    assert len(release.data) == 300
    assert {"patient", "week"}.isdisjoint(release.data.columns)
    (guarantee,) = release.manifest["guarantee"]
    assert guarantee["verified"]
    assert "4 released persons" in guarantee["statement"]
    sizes = release.data.groupby(["age", *WEIGHTS], dropna=False).size()
    assert sizes.min() >= 4
    assert release.manifest["quasi"] == {
        "columns": ["age", *WEIGHTS], "kept": [], "smallest_class": sizes.min(), "unit": "person",
    }  # fmt: skip
    assert release.manifest["series"]["records"] == len(records)
    assert release.manifest["series"]["times"] == 6


def test_columns_of_a_mask_are_those_of_all_times_and_others_stay_with_their_person():
    records = measurements(missing=0)
    recipe = rules(SWAP) | {"columns": rules(SWAP)["columns"] | {"age": {"role": "other"}}}
    release = gpuanon.protect(records, recipe, rng=SECRET, backend="numpy")
    assert release.manifest["mask"][0]["columns"] == WEIGHTS
    first = records.drop_duplicates("patient").reset_index(drop=True)
    assert release.data["age"].tolist() == first["age"].iloc[release.link].tolist()
    states = pivoted(records, "state").iloc[release.link]
    assert release.data["state_3"].tolist() == states[3].tolist()


def test_swapped_principal_components_keep_the_autocorrelation():
    """Every lag to 1e-9 of the variance (rounding), where shuffled columns lose it."""
    records = measurements(missing=0)
    before = pivoted(records, "weight").to_numpy()
    columns = rules(SWAP)["columns"] | {"age": {"role": "other"}}
    kept = gpuanon.protect(records, rules(SWAP, columns=columns), rng=SECRET, backend="numpy").data[WEIGHTS].to_numpy()
    lost = rules({"method": "univariate-synthesis", "columns": ["weight"]}, columns=columns)
    lost = gpuanon.protect(records, lost, rng=SECRET, backend="numpy").data[WEIGHTS].to_numpy()
    variance = autocovariance(before, 0)
    assert not np.isin(kept[:, 0], before[:, 0]).any()
    for lag in range(6):
        assert abs(autocovariance(kept, lag) - autocovariance(before, lag)) < 1e-9 * variance
    assert autocovariance(before, 1) > 0.6 * variance
    assert abs(autocovariance(lost, 1)) < 0.1 * variance


@pytest.mark.parametrize("mask", [MICRO, {"method": "pica", "target": 50}, {"method": "noise", "b": 0.2}])
def test_a_run_in_parts_is_the_run_in_memory(mask, tmp_path, monkeypatch):
    records = measurements()
    table = pa.Table.from_pandas(records, preserve_index=False)
    (tmp_path / "in").mkdir()
    for part in range(3):
        begin, end = len(table) * part // 3, len(table) * (part + 1) // 3
        pq.write_table(table.slice(begin, end - begin), tmp_path / "in" / f"part-{part}.parquet")
    monkeypatch.setattr(reshaping, "PART_RECORDS", 500)
    manifest = protect_in_parts(
        tmp_path / "in", Recipe.load(rules(mask)), tmp_path / "out.parquet", key=Key(SECRET), backend="numpy",
        cell_rows=10_000, link=tmp_path / "link.csv",
    )  # fmt: skip
    release = gpuanon.protect(table, rules(mask), rng=SECRET, backend="numpy")
    assert pq.read_table(tmp_path / "out.parquet").equals(release.data)
    assert pd.read_csv(tmp_path / "link.csv")["row"].tolist() == release.link.tolist()
    assert manifest["series"] == release.manifest["series"]
    assert manifest["quasi"] == release.manifest["quasi"]
    assert not list(tmp_path.glob(".out*"))


def test_cells_are_made_of_persons_and_keep_k(tmp_path):
    table = pa.Table.from_pandas(measurements(800), preserve_index=False)
    pq.write_table(table, tmp_path / "in.parquet")
    manifest = protect_in_parts(
        tmp_path / "in.parquet", Recipe.load(rules(MICRO)), tmp_path / "out.parquet", key=Key(SECRET),
        backend="numpy", cell_rows=200,
    )  # fmt: skip
    released = pq.read_table(tmp_path / "out.parquet").to_pandas()
    sizes = released.groupby(["age", *WEIGHTS], dropna=False).size()
    assert sizes.min() == manifest["quasi"]["smallest_class"] >= 4


def test_a_release_is_assessed_against_the_records_that_went_in():
    records = measurements()
    release = gpuanon.protect(records, rules(MICRO), rng=SECRET, backend="numpy")
    names = ["k_anonymity", "reidentification", "correlations", "information_loss"]
    found = gpuanon.assess(records, release.data, rules(MICRO), link=release.link, measures=names, backend="numpy")
    assert not found.failed
    assert found.measured["k_anonymity"].value >= 4
    assert found.measured["reidentification"].value <= 0.25
    assert found.measured["information_loss"].to_json()["by_column"].keys() == {"age", *WEIGHTS}


def test_files_go_the_same_way(tmp_path):
    records = measurements()
    records.to_csv(tmp_path / "in.csv", index=False)
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(rules(MICRO, limits={"reidentification": 0.3})))
    (tmp_path / "key").write_bytes(SECRET)
    assert any(
        "4 released persons" in line or "fits" in line
        for line in checked(recipe, tmp_path / "in.csv", trial=False).lines()
    )
    out = tmp_path / "out.csv"
    protect_file(tmp_path / "in.csv", recipe, out, backend="numpy", key_file=tmp_path / "key", link=tmp_path / "l.csv")
    found = assess(
        tmp_path / "in.csv", out, recipe, link=tmp_path / "l.csv", measures=("k_anonymity", "reidentification"),
        backend="numpy",
    )  # fmt: skip
    assert not found.failed
    assert found.measured["k_anonymity"].value >= 4
    parts = tmp_path / "parts.csv"
    protect_file(
        tmp_path / "in.csv", recipe, parts, backend="numpy", key_file=tmp_path / "key", in_parts=InParts(cell=10_000)
    )
    assert parts.read_text() == out.read_text()


def test_recipes_with_one_series_are_compared():
    records = measurements()
    found = gpuanon.compare(
        records, [rules({"method": "microaggregation", "k": [3, 6]})], rng=SECRET, backend="numpy",
        measures=["reidentification", "information_loss"],
    )  # fmt: skip
    assert [trial.refused for trial in found.trials] == [None, None]
    assert found.columns == ("age", *WEIGHTS)
    other = rules(MICRO, series={"time": "week", "columns": ["weight", "state"], "step": 2, "several": "last"})
    with pytest.raises(RecipeError, match="must have the same"):
        gpuanon.compare(records, [rules(MICRO), other], rng=SECRET, backend="numpy")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"columns": {"age": {"role": "quasi"}, "weight": {"role": "quasi"}}}, "a column of role person"),
        ({"series": {"time": "age", "columns": ["weight"]}}, "'age' has the role quasi"),
        ({"series": {"time": "week", "columns": ["weight", "weight"]}}, "each column once"),
        ({"series": {"time": "week", "columns": ["patient"]}}, "'patient' has the role person"),
    ],
)
def test_a_series_that_cannot_be_is_refused_by_the_recipe(changes, said):
    with pytest.raises(RecipeError, match=said):
        Recipe.load(rules(MICRO, **changes))


def test_columns_that_are_not_there_are_named():
    with pytest.raises(RecipeError, match="'month': not in the table"):
        gpuanon.protect(measurements(30), rules(MICRO, series={"time": "month", "columns": ["weight"]}))
