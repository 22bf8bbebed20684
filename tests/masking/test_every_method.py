"""What holds for every method, whatever it does."""

from __future__ import annotations

import pickle
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.errors import GpuanonError
from gpuanon.masking.claims import DrawnFromGroup, DrawnFromMixture, EqualRecords
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import COLUMNS, MASKS, QUASI, recipe, registry

KEY = b"a key for tests, of sixteen bytes or more"
every_method = pytest.mark.parametrize("mask", MASKS)


def protect(table, mask, **options):
    return gpuanon.protect(table, recipe(mask), rng=KEY, backend="numpy", **options)


def combination(mask):
    return Recipe.load(recipe(mask)).mask[0].combination()


def masked_columns(mask):
    columns = combination(mask).columns
    if columns == "all":
        return tuple(name for name in registry(1).column_names if name != "person_id")
    return QUASI if columns == "quasi" else tuple(columns)


def released_columns(mask):
    """For each masked column how it is read, and the names under which it is released."""
    table = Table.of(registry())
    schema = Schema.resolve(table, Recipe.load(recipe(mask)).columns)
    readings = {name: combination(mask).operation.reading(schema[name].kind) for name in masked_columns(mask)}
    read = schema.read_as(readings)
    return {name: (reading, read[name].released_names) for name, reading in readings.items()}


def effect(mask):
    return combination(mask).operation.rows


def claims(mask):
    """The kinds of claims, and whether they speak of single columns."""
    parts = combination(mask)
    found = parts.operation.claims(parts.groups.least, [("a",)])
    return {type(claim) for claim in found}, parts.groups.per_column


def promising(kind, per_column=False):
    """The masks that promise this."""
    return [mask for mask in MASKS if claims(mask) == ({kind}, per_column)]


def test_every_method_of_the_catalogue_is_tried():
    assert {entry["name"] for entry in gpuanon.methods()} == {mask["method"] for mask in MASKS.values()}


def test_every_effect_on_rows_is_tried():
    assert {effect(mask) for mask in MASKS} == {"kept", "dropped", "added", "new"}


@every_method
def test_columns_and_types_survive_as_they_are_read_and_identifiers_do_not(mask):
    table = registry()
    release = protect(table, mask)
    readings = released_columns(mask)
    fields = []
    for field in table.drop_columns(["person_id"]).schema:
        reading, names = readings.get(field.name, ("same", (field.name,)))
        made = field if reading in ("same", "interval") else pa.field(field.name, pa.string())
        fields += [made.with_name(name) for name in names]
    found = release.data.schema
    assert found.names == [field.name for field in fields]
    for ours, expected in zip(found, fields, strict=True):
        if pa.types.is_string(expected.type):  # text, whatever its encoding
            ours = pa.field(ours.name, getattr(ours.type, "value_type", ours.type))
            assert pa.types.is_string(ours.type) or pa.types.is_large_string(ours.type)
        else:
            assert ours.type == expected.type


@every_method
def test_rows_are_kept_dropped_added_or_new_as_declared(mask):
    release = protect(registry(), mask)
    link, manifest = release.link, release.manifest
    kept, rows = link[link >= 0], effect(mask)
    assert len(link) == release.data.num_rows == manifest["rows_out"]
    assert len(np.unique(kept)) == len(kept) == 300 - manifest["rows_dropped"]
    assert (link == -1).sum() == manifest["rows_added"]
    assert (len(kept) == 300) == (rows in ("kept", "added"))
    assert (manifest["rows_added"] > 0) == (rows in ("added", "new"))
    if rows == "kept":
        assert np.array_equal(np.sort(link), np.arange(300))
    if rows == "new":
        assert len(kept) == 0
    assert not np.array_equal(link, np.sort(link)) or rows == "new"


@every_method
def test_what_is_not_masked_is_bit_equal_record_by_record(mask):
    table = registry()
    release = protect(table, mask)
    kept = release.link >= 0
    original = table.take(pa.array(release.link[kept]))
    released = release.data.filter(pa.array(kept))
    for name in set(table.column_names) - {"person_id"} - set(masked_columns(mask)):
        assert released[name].combine_chunks().equals(original[name].combine_chunks()), name


@every_method
def test_something_is_masked(mask):
    table = registry()
    release = protect(table, mask)
    if effect(mask) in ("dropped", "added", "new"):
        assert release.manifest["rows_dropped"] + release.manifest["rows_added"] > 0
        return
    original = table.take(pa.array(release.link))
    names = {name: found for name, (_, found) in released_columns(mask).items()}
    assert any(
        found != (name,) or not release.data[name].equals(original[name].cast(release.data[name].type))
        for name, found in names.items()
    )


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
    mine = protect(table, mask)
    other = gpuanon.protect(table, recipe(mask), rng=b"another key of sixteen bytes or more", backend="numpy")
    if effect(mask) == "new":
        assert not mine.data.equals(other.data)
    else:
        assert not np.array_equal(mine.link, other.link)


@every_method
def test_the_guarantee_is_stated_and_verified(mask):
    (guarantee,) = protect(registry(), mask).manifest["guarantee"]
    promised = bool(claims(mask)[0])
    assert guarantee["verified"] is (True if promised else None)
    assert guarantee["statement"]
    assert guarantee["k"] == (MASKS[mask].get("k") if promised else None)
    assert promised == ("k" in MASKS[mask])


def test_every_kind_of_claim_is_tried():
    assert set().union(*(claims(mask)[0] for mask in MASKS)) == {EqualRecords, DrawnFromGroup, DrawnFromMixture}


@pytest.mark.parametrize("mask", promising(EqualRecords))
def test_a_promise_of_equal_records_holds_on_the_release(mask):
    release = protect(registry(), mask)
    columns = [name for _, names in released_columns(mask).values() for name in names]
    counts = release.data.select(columns).to_pandas().groupby(columns, dropna=False, observed=True).size()
    assert counts.min() >= MASKS[mask]["k"]
    assert release.manifest["guarantee"][0]["smallest_class"] == counts.min()


@pytest.mark.parametrize("mask", promising(EqualRecords, per_column=True))
def test_a_promise_of_shared_values_holds_in_each_column_of_the_release(mask):
    release = protect(registry(), mask)
    for name in masked_columns(mask):
        assert release.data[name].to_pandas().value_counts(dropna=False).loc[lambda n: n > 0].min() >= MASKS[mask]["k"]
    assert "combinations may be unique" in release.manifest["guarantee"][0]["statement"]


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
    readings = released_columns(mask)
    same = [name for name in released.columns if readings.get(name, ("same",))[0] == "same" and name in frame.columns]
    assert same
    assert [released[name].dtype for name in same] == [frame[name].dtype for name in same]


@every_method
def test_a_constant_and_an_all_missing_column_are_no_obstacle(mask):
    table = registry(120)
    constant = pa.array([42] * 120, pa.int32())
    missing = pa.nulls(120, pa.float64())
    table = table.append_column("constant", constant).append_column("missing", missing)
    columns = COLUMNS | {"constant": {"role": "quasi"}, "missing": {"role": "quasi"}}
    release = gpuanon.protect(table, recipe(mask, columns=columns), rng=KEY, backend="numpy")
    interval = MASKS[mask].get("release") == "interval"
    for name in ("constant_low", "constant_high") if interval else ("constant",):
        assert set(release.data[name].to_pylist()) == {42}
    for name in ("missing_low", "missing_high") if interval else ("missing",):
        assert release.data[name].null_count == release.data.num_rows


@every_method
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_too_few_rows_are_an_error_or_a_release_of_as_many_rows(mask, rows):
    table = registry(300).slice(0, rows)
    if rows == 0 or (rows < MASKS[mask].get("k", 0) and effect(mask) != "added"):
        with pytest.raises(GpuanonError, match=r"row|record"):
            protect(table, mask)
    else:
        with suppress(GpuanonError):  # a method may want more rows than it promises
            release = protect(table, mask)
            assert release.data.num_rows == rows + release.manifest["rows_added"] - release.manifest["rows_dropped"]


@pytest.mark.parametrize("mask", [mask for mask in MASKS if "income" in masked_columns(mask)])
def test_nulls_are_refused_when_the_recipe_says_so(mask):
    with pytest.raises(GpuanonError, match="income"):
        gpuanon.protect(registry(), recipe(mask, nulls="refuse"), rng=KEY, backend="numpy")


@every_method
def test_the_recipe_survives_pickle_and_json(mask):
    loaded = Recipe.load(recipe(mask))
    assert pickle.loads(pickle.dumps(loaded)) == loaded
    assert Recipe.model_validate_json(loaded.model_dump_json()) == loaded
