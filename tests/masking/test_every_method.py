"""What holds for every method, whatever it does."""

from __future__ import annotations

import pickle
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.errors import GpuanonError
from gpuanon.recipe import Recipe
from tests.support.every import COLUMNS, MASKS, QUASI, recipe, registry

KEY = b"a key for tests, of sixteen bytes or more"
every_method = pytest.mark.parametrize("mask", MASKS)


def protect(table, mask, **options):
    return gpuanon.protect(table, recipe(mask), rng=KEY, backend="numpy", **options)


def masked_columns(mask):
    columns = MASKS[mask].get("columns", QUASI)
    return tuple(COLUMNS) if columns == "all" else tuple(columns)


def promise(mask):
    return Recipe.load(recipe(mask)).mask[0].combination().promise


def test_every_method_of_the_catalogue_is_tried():
    assert {entry["name"] for entry in gpuanon.methods()} == {mask["method"] for mask in MASKS.values()}


@every_method
def test_columns_types_and_row_count_survive_and_identifiers_do_not(mask):
    table = registry()
    released = protect(table, mask).data
    assert released.column_names == [name for name in table.column_names if name != "person_id"]
    assert released.schema.remove_metadata() == table.drop_columns(["person_id"]).schema.remove_metadata()
    assert released.num_rows == table.num_rows


@every_method
def test_what_is_not_masked_is_bit_equal_record_by_record(mask):
    table = registry()
    release = protect(table, mask)
    original = table.take(pa.array(release.link))
    for name in set(table.column_names) - {"person_id"} - set(masked_columns(mask)):
        assert release.data[name].combine_chunks().equals(original[name].combine_chunks()), name


@every_method
def test_something_is_masked(mask):
    table = registry()
    release = protect(table, mask)
    original = table.take(pa.array(release.link))
    assert not all(release.data[name].equals(original[name]) for name in masked_columns(mask))


@every_method
def test_the_input_is_not_modified(mask):
    frame = registry().to_pandas()
    copy = frame.copy(deep=True)
    protect(frame, mask)
    assert frame.equals(copy)
    assert (frame.dtypes == copy.dtypes).all()


@every_method
def test_the_same_key_gives_the_same_release_whatever_the_threads(mask, monkeypatch):
    table = registry()
    monkeypatch.setenv("GPUANON_THREADS", "1")
    one = protect(table, mask)
    monkeypatch.setenv("GPUANON_THREADS", "3")
    three = protect(table, mask)
    assert one.data.equals(three.data)
    assert np.array_equal(one.link, three.link)


@every_method
def test_another_key_gives_another_order_of_rows(mask):
    table = registry()
    other = gpuanon.protect(table, recipe(mask), rng=b"another key of sixteen bytes or more", backend="numpy")
    assert not np.array_equal(protect(table, mask).link, other.link)


@every_method
def test_the_link_names_each_original_once(mask):
    release = protect(registry(), mask)
    assert np.array_equal(np.sort(release.link), np.arange(300))
    assert not np.array_equal(release.link, np.arange(300))


@every_method
def test_the_guarantee_is_stated_and_verified(mask):
    guarantee = protect(registry(), mask).manifest["guarantee"]
    assert guarantee["verified"] is True
    assert guarantee["statement"]
    assert guarantee["k"] == MASKS[mask].get("k")


@pytest.mark.parametrize("mask", [mask for mask in MASKS if promise(mask) == "identical"])
def test_a_promise_of_equal_records_holds_on_the_release(mask):
    release = protect(registry(), mask)
    columns = list(masked_columns(mask))
    counts = release.data.select(columns).to_pandas().groupby(columns, dropna=False, observed=True).size()
    assert counts.min() >= MASKS[mask]["k"]


@pytest.mark.parametrize("mask", [mask for mask in MASKS if promise(mask) == "values"])
def test_a_promise_of_shared_values_holds_in_each_column_of_the_release(mask):
    release = protect(registry(), mask)
    for name in masked_columns(mask):
        assert release.data[name].to_pandas().value_counts(dropna=False).loc[lambda n: n > 0].min() >= MASKS[mask]["k"]
    assert "combinations may be unique" in release.manifest["guarantee"]["statement"]


@every_method
def test_nothing_secret_is_in_the_manifest_or_the_repr(mask):
    release = protect(registry(), mask)
    text = repr(release) + repr(release.manifest) + repr(release.manifest["mask"])
    assert KEY.decode() not in text
    assert not any(str(cell) in text for cell in registry()["person_id"].to_pylist())


@every_method
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_the_same_kind_of_dataframe_comes_out(mask, kind):
    import polars

    table = registry(120)
    frame = table.to_pandas() if kind == "pandas" else polars.from_arrow(table)
    released = protect(frame, mask).data
    assert type(released) is type(frame)
    assert list(released.dtypes) == [frame[name].dtype for name in released.columns]


@every_method
def test_a_constant_and_an_all_missing_column_are_no_obstacle(mask):
    table = registry(120)
    constant = pa.array([42] * 120, pa.int32())
    missing = pa.nulls(120, pa.float64())
    table = table.append_column("constant", constant).append_column("missing", missing)
    columns = COLUMNS | {"constant": {"role": "quasi"}, "missing": {"role": "quasi"}}
    release = gpuanon.protect(table, recipe(mask, columns=columns), rng=KEY, backend="numpy")
    assert release.data["constant"].to_pylist() == [42] * 120
    assert release.data["missing"].null_count == 120


@every_method
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_too_few_rows_are_an_error_or_a_release_of_as_many_rows(mask, rows):
    table = registry(300).slice(0, rows)
    if rows == 0 or rows < MASKS[mask].get("k", 0):
        with pytest.raises(GpuanonError, match=r"row|record"):
            protect(table, mask)
    else:
        with suppress(GpuanonError):  # a method may want more rows than it promises
            assert protect(table, mask).data.num_rows == rows


@pytest.mark.parametrize("mask", [mask for mask in MASKS if "income" in masked_columns(mask)])
def test_nulls_are_refused_when_the_recipe_says_so(mask):
    with pytest.raises(GpuanonError, match="income"):
        gpuanon.protect(registry(), recipe(mask, nulls="refuse"), rng=KEY, backend="numpy")


@every_method
def test_the_recipe_survives_pickle_and_json(mask):
    loaded = Recipe.load(recipe(mask))
    assert pickle.loads(pickle.dumps(loaded)) == loaded
    assert Recipe.model_validate_json(loaded.model_dump_json()) == loaded
