"""The engine from a table to a release: what no single part can show."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.errors import GpuanonError, ParameterError, RecipeError
from tests.support.every import recipe, registry

KEY = b"a key for tests, of sixteen bytes or more"


def test_an_automatic_target_needs_a_reference_and_is_settled_by_it():
    everyone = registry(3000)
    mask = {"method": "pica", "target": "auto"}
    with pytest.raises(RecipeError, match="--reference"):
        gpuanon.protect(everyone, recipe(mask), rng=KEY, backend="numpy")
    release = gpuanon.protect(
        everyone.slice(0, 1500), recipe(mask), rng=KEY, backend="numpy", reference=everyone.slice(1500)
    )
    (done,) = release.manifest["mask"]
    assert 50 <= done["target"] <= 750
    again = recipe(mask | {"target": done["target"]})
    assert release.data.equals(gpuanon.protect(everyone.slice(0, 1500), again, rng=KEY, backend="numpy").data)


@pytest.mark.parametrize("rng", [None, 7, np.int64(7), np.random.default_rng(7), KEY, gpuanon.Key(KEY)])
def test_every_kind_of_rng_is_taken(rng):
    assert gpuanon.protect(registry(60), recipe("permute"), rng=rng, backend="numpy").data.num_rows == 60


@pytest.mark.parametrize("rng", ["text", 1.5, True])
def test_other_kinds_of_rng_are_refused(rng):
    with pytest.raises(ParameterError, match="rng"):
        gpuanon.protect(registry(60), recipe("permute"), rng=rng, backend="numpy")


def test_sample_weights_decide_what_is_resampled():
    table = registry(300)
    heavy = np.arange(300) < 150
    table = table.append_column("w", pa.array(np.where(heavy, 1000.0, 1e-9)))
    rules = recipe("resample")
    rules["columns"] = rules["columns"] | {"w": {"role": "weight"}}
    release = gpuanon.protect(table, rules, rng=KEY, backend="numpy")
    allowed = set(table.filter(pa.array(heavy))["admission"].to_pylist())
    drawn = release.data["admission"].to_pylist()
    share = np.mean([value in allowed for value in drawn])
    assert share > np.mean([value in allowed for value in table["admission"].to_pylist()]) + 0.2


def test_the_response_takes_part_in_the_grouping_and_is_not_changed():
    table = registry(300)
    alone = gpuanon.protect(
        table, recipe({"method": "distribution-preserving", "k": 5, "dither": "permute", "response_weight": 0}), rng=KEY
    )
    together = gpuanon.protect(
        table, recipe({"method": "distribution-preserving", "k": 5, "dither": "permute", "response_weight": 9}), rng=KEY
    )
    assert np.array_equal(alone.link, together.link)
    assert not alone.data["age"].equals(together.data["age"])
    assert alone.data["cost"].equals(together.data["cost"])


COMBINATIONS = [
    (groups, basis, operation)
    for groups in (
        {"use": "whole"},
        {"use": "blocks", "size": 60},
        {"use": "k-member", "k": 30},
        {"use": "mdav", "k": 30},
    )
    for basis in (
        {"use": "identity"},
        {"use": "svd"},
        {"use": "svd", "per_group": True},
        {"use": "ica", "per_group": True},
    )
    for operation in ({"use": "centroid"}, {"use": "swap"}, {"use": "permute"}, {"use": "noise"})
]


@pytest.mark.parametrize(("groups", "basis", "operation"), COMBINATIONS)
def test_parts_that_nobody_has_published_together_combine(groups, basis, operation):
    table = registry(150)
    rules = recipe({"groups": groups, "basis": basis, "operation": operation})
    release = gpuanon.protect(table, rules, rng=KEY, backend="numpy")
    assert release.data.schema.equals(table.drop_columns(["person_id"]).schema)
    assert release.manifest["guarantee"]["verified"]
    assert release.manifest["guarantee"]["k"] == (
        groups.get("k") if operation["use"] in ("centroid", "permute") else None
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": ["nothing"]}, "nothing"),
        ({"columns": ["person_id"]}, "identifier"),
        ({"columns": []}, "no column"),
    ],
)
def test_columns_that_cannot_be_masked_are_named(change, message):
    with pytest.raises(GpuanonError, match=message):
        gpuanon.protect(registry(60), recipe({"method": "microaggregation", "k": 3} | change), rng=KEY)


def test_names_with_spaces_and_unicode_are_names():
    table = registry(60).rename_columns([f"{name} – größe" for name in registry(60).column_names])
    columns = {"age – größe": {"role": "quasi"}, "person_id – größe": {"role": "identifier"}}
    release = gpuanon.protect(table, {"columns": columns, "mask": [{"method": "microaggregation", "k": 3}]}, rng=KEY)
    assert "age – größe" in release.data.column_names
    assert "person_id – größe" not in release.data.column_names


def test_a_million_categories_are_refused_with_advice():
    table = pa.table({"zip": [f"{i:06d}" for i in range(5000)], "age": list(range(5000))})
    rules = {"columns": {"zip": {"role": "quasi"}}, "mask": [{"method": "microaggregation", "k": 3}]}
    with pytest.raises(GpuanonError, match=r"'zip': 5000 levels.*\n.*ordinal") as caught:
        gpuanon.protect(table, rules, rng=KEY)
    assert "000017" not in str(caught.value)
