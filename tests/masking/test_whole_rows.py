"""Masks that move rows whole are refused where nothing is left that they could hide."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.errors import RecipeError
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import MASKS, recipe, registry

KEY = b"a key for the tests of whole rows"
MOVES = ["permute", "resample", "gaussian", "cell"]


def people(rows=400):
    """Numbers that make every person unique, a category, and a sensitive number."""
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "age": rng.normal(50, 15, rows).round(3),
            "income": rng.lognormal(10, 1, rows).round(2),
            "sex": rng.choice(["f", "m"], rows),
            "cost": rng.lognormal(5, 1, rows).round(2),
            "ward": rng.choice(["a", "b", "c"], rows),
        }
    )


def rules(dither="permute", roles=("quasi", "quasi", "quasi", "sensitive", "other"), **mask):
    columns = dict(zip(("age", "income", "sex", "cost", "ward"), ({"role": role} for role in roles), strict=True))
    return {"columns": columns, "mask": [{"method": "distribution-preserving", "k": 5, "dither": dither, **mask}]}


def refused(recipe, table=None):
    with pytest.raises(RecipeError, match="moved together from record to record") as error:
        gpuanon.protect(people() if table is None else table, recipe, rng=KEY, backend="numpy")
    return str(error.value)


@pytest.mark.parametrize("dither", MOVES)
def test_a_release_of_the_original_records_in_another_order_is_refused(dither):
    said = refused(rules(dither, ["quasi"] * 5))
    assert "original records in another order" in said
    assert "microaggregation" in said
    assert "bins" in said
    refused(rules(dither, columns="all"))
    refused(rules(dither, ["quasi", "quasi", "quasi", "sensitive", "weight"], columns="all"), weighted())
    refused(rules(dither, ["quasi", "quasi", "quasi", "dropped", "identifier"]))
    refused(rules(dither, ["other"] * 5, columns="all"))


def weighted():
    return people().drop_columns(["ward"]).append_column("ward", pa.array(np.ones(400)))


@pytest.mark.parametrize("dither", MOVES)
def test_sensitive_values_that_move_with_all_quasi_identifiers_are_refused(dither):
    """One unmasked column beside them hides nothing of the sensitive values."""
    assert "sensitive values" in refused(rules(dither, columns=["age", "income", "sex", "cost"]))


def test_what_other_masks_move_or_change_counts():
    permute, table = rules()["mask"][0], people()
    both = rules() | {"mask": [permute, permute | {"columns": ["cost", "ward"]}]}
    assert gpuanon.protect(table, both, rng=KEY, backend="numpy").manifest["guarantee"]
    twice = rules() | {"mask": [permute | {"columns": "all"}, permute | {"columns": "all"}]}
    refused(twice)
    centroids = {"method": "microaggregation", "k": 5}
    changed = rules() | {"mask": [centroids, permute | {"columns": "all"}]}
    assert gpuanon.protect(table, changed, rng=KEY, backend="numpy").manifest["guarantee"]
    partly = rules() | {"mask": [centroids | {"columns": ["age"]}, permute | {"columns": "all"}]}
    refused(partly)
    suppressed = rules() | {"mask": [{"method": "suppress", "k": 2, "columns": ["sex"]}, permute | {"columns": "all"}]}
    refused(suppressed)


def test_a_record_that_stays_beside_what_it_had_is_moved_too():
    core = {"method": "core-swap", "core": ["sex"], "columns": ["age", "income", "cost", "ward"]}
    kept = rules(roles=["quasi", "quasi", "other", "sensitive", "other"])
    assert gpuanon.protect(people(), kept | {"mask": [core]}, rng=KEY, backend="numpy").data.num_rows == 400
    refused(kept | {"mask": [core | {"together": True}]})


def test_bins_protect_numbers_and_not_categories():
    table = people()
    release = gpuanon.protect(table, rules("gaussian", columns="all", bins=10), rng=KEY, backend="numpy").data
    whole = set(map(tuple, table.to_pandas().itertuples(index=False)))
    assert not whole & set(map(tuple, release.to_pandas().itertuples(index=False)))
    codes = pa.table({name: np.random.default_rng(1).choice(list("abcdef"), 300) for name in "uvwxyz"})
    coarse = {"columns": {name: {"role": "quasi"} for name in "uvwxyz"}}
    refused(coarse | {"mask": [{"method": "distribution-preserving", "k": 5, "bins": 10}]}, codes)


@pytest.mark.parametrize("name", MASKS)
def test_what_moves_rows_declares_it(name):
    """A mask that keeps all records and declares nothing does not release originals in three columns or more.

    In two, a value that a model draws among the records of a category may be one that occurs beside it.
    """
    rules, original = recipe(name), registry(300)
    operation = Recipe.load(rules).mask[0].combination().operation
    schema = Schema.resolve(Table.of(original), Recipe.load(rules).columns)
    columns = schema.select(Recipe.load(rules).mask[0].columns)
    moves = operation.moves_rows([schema[column].kind for column in columns])
    release = gpuanon.protect(original, rules, rng=KEY, backend="numpy").data
    if len(columns) < 3 or operation.rows != "kept" or not set(columns) <= set(release.column_names):
        assert not moves or len(columns) < 3
        return
    whole = set(original.select(columns).to_pandas().astype(str).itertuples(index=False, name=None))
    released = release.select(columns).to_pandas().astype(str)
    found = [row in whole for row in released.itertuples(index=False, name=None)]
    assert (np.mean(found) == 1) == moves
