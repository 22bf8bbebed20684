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
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from gpuanon.tables.values import plain
from tests.support.every import COLUMNS, MASKS, QUASI, recipe, registry

KEY = b"a key for tests, of sixteen bytes or more"
every_method = pytest.mark.parametrize("mask", MASKS)


def protect(table, mask, **options):
    return gpuanon.protect(table, recipe(mask), rng=KEY, backend="numpy", **options)


def masked_columns(mask):
    columns = parts_of(mask).columns
    if isinstance(columns, str):
        return tuple(registry(2).column_names[1:]) if columns == "all" else QUASI
    return tuple(columns)


def parts_of(mask):
    return Recipe.load(recipe(mask)).mask[0].combination()


def effect(mask):
    return parts_of(mask).rows


def claims(mask):
    """The claims of a mask, as classes."""
    combination = parts_of(mask)
    sets = [("a",), ("b",)] if combination.groups.per_column else [("a", "b")]
    return combination.operation.claims(combination.groups.least, sets)


def released_names(mask, name):
    """The columns that stand for a column of the original."""
    kind = Schema.resolve(Table.of(registry()), COLUMNS)[name].kind
    if name in masked_columns(mask) and parts_of(mask).operation.reading(kind) == "interval":
        return [f"{name}_low", f"{name}_high"]
    return [name]


def interval_type(type_):
    """The Arrow type of a column of intervals; ordered levels are the text of their values."""
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    return pa.struct([("low", plain), ("high", plain)])


def classes(data, columns):
    """Sizes of the classes of equal rows, counted by pandas; both fields of a structure are columns of their own."""
    frame = data.select(columns).flatten().to_pandas()
    return frame.groupby(list(frame.columns), dropna=False, observed=True).size()


promising = [mask for mask in MASKS if claims(mask)]


def test_every_method_of_the_catalogue_is_tried():
    assert {entry["name"] for entry in gpuanon.methods()} == {mask["method"] for mask in MASKS.values()}


def test_every_effect_on_rows_is_tried():
    assert {effect(mask) for mask in MASKS} == {"kept", "dropped", "added", "new"}


@every_method
def test_the_released_columns_and_types_are_those_declared_and_identifiers_are_gone(mask):
    table = registry()
    released = protect(table, mask).data
    names = [place for name in table.column_names[1:] for place in released_names(mask, name)]
    label = MASKS[mask].get("label")
    assert released.column_names == names + ["copy"] * (parts_of(mask).copies > 1) + ([label] if label else [])
    kinds = Schema.resolve(Table.of(table), COLUMNS)
    for name in table.column_names[1:]:
        reading = parts_of(mask).operation.reading(kinds[name].kind) if name in masked_columns(mask) else "same"
        for place in released_names(mask, name):
            if reading in ("same", "interval"):
                assert released.schema.field(place).type == table.schema.field(name).type
            elif reading == "interval-column":
                assert released.schema.field(place).type == interval_type(table.schema.field(name).type)
            else:
                assert pa.types.is_string(released.schema.field(place).type) or pa.types.is_large_string(
                    released.schema.field(place).type
                )


@every_method
def test_the_link_is_what_the_operation_declares(mask):
    release = protect(registry(), mask)
    link = release.link
    assert len(link) == release.data.num_rows
    originals = link[link >= 0]
    assert len(np.unique(originals)) == len(originals)
    assert originals.max(initial=0) < 300
    if effect(mask) == "kept":
        assert np.array_equal(np.sort(link), np.arange(300))
    elif effect(mask) == "dropped":
        assert 0 < len(link) < 300
        assert link.min() >= 0
    elif effect(mask) == "added":
        assert np.array_equal(np.sort(originals), np.arange(300))
        assert len(link) > 300
        assert link.min() == -1
    else:
        assert (link == -1).all()
    assert not np.array_equal(link, np.sort(link)) or effect(mask) == "new"
    manifest = release.manifest
    assert manifest["rows_added"] == (link < 0).sum()
    assert manifest["rows_dropped"] == 300 - len(originals)
    assert manifest["rows_out"] == len(link)


@every_method
def test_what_is_not_masked_is_bit_equal_record_by_record(mask):
    table = registry()
    release = protect(table, mask)
    rows = np.flatnonzero(release.link >= 0)
    original, released = table.take(pa.array(release.link[rows])), release.data.take(pa.array(rows))
    for name in set(table.column_names) - {"person_id"} - set(masked_columns(mask)):
        # levels are those of the release, so that codes differ
        assert plain(released[name]).combine_chunks().equals(plain(original[name]).combine_chunks()), name


@pytest.mark.parametrize("mask", [mask for mask in MASKS if effect(mask) == "kept"])
def test_something_is_masked(mask):
    table = registry()
    release = protect(table, mask)
    original = table.take(pa.array(release.link))
    names = masked_columns(mask)
    assert not all(name in release.data.column_names and release.data[name].equals(original[name]) for name in names)


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
    one = protect(table, mask)
    assert not (np.array_equal(one.link, other.link) and one.data.equals(other.data))


@every_method
def test_the_guarantee_is_stated_and_verified_or_there_is_none(mask):
    guarantees = protect(registry(), mask).manifest["guarantee"]
    spread = parts_of(mask).groups.spread is not None
    assert len(guarantees) == max(1, len(claims(mask)) + spread)
    for guarantee in guarantees:
        assert guarantee["statement"]
        assert guarantee["verified"] is (True if mask in promising else None)
        assert guarantee["k"] == (MASKS[mask].get("k") if mask in promising else None)


@every_method
def test_the_headline_is_the_smallest_class_over_all_quasi_identifiers(mask):
    release = protect(registry(), mask)
    columns = [place for name in QUASI for place in released_names(mask, name)]
    assert release.manifest["quasi"]["smallest_class"] == classes(release.data, columns).min()
    assert release.manifest["quasi"]["columns"] == list(QUASI)


@pytest.mark.parametrize(
    "mask", [mask for mask in promising if any(not counted.wildcard for counted in claims(mask)[0].counted)]
)
def test_a_promise_of_equal_records_holds_on_the_release(mask):
    release = protect(registry(), mask)
    names = masked_columns(mask)
    apart = parts_of(mask).groups.per_column
    for columns in [[name] for name in names] if apart else [list(names)]:
        places = [place for name in columns for place in released_names(mask, name)]
        assert classes(release.data, places).min() >= MASKS[mask]["k"]
    assert ("combinations may be unique" in release.manifest["guarantee"][0]["statement"]) == apart


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
    for name in table.column_names[1:]:
        kind = Schema.resolve(Table.of(table), COLUMNS)[name].kind
        reading = parts_of(mask).operation.reading(kind) if name in masked_columns(mask) else "same"
        for place in released_names(mask, name):
            if reading == "interval-column":
                assert str(released[place].dtype).lower().startswith(("interval", "struct"))
            else:
                assert reading in ("level", "set") or same_type(released[place].dtype, frame[name].dtype)


def same_type(one, other):
    """Whether two types are equal, but for levels of a categorical that are not released."""
    return one == other or (type(one) is type(other) and type(one).__name__ in ("CategoricalDtype", "Enum"))


@every_method
def test_a_constant_and_an_all_missing_column_are_no_obstacle(mask):
    table = registry(120)
    constant = pa.array([42] * 120, pa.int32())
    missing = pa.nulls(120, pa.float64())
    table = table.append_column("constant", constant).append_column("missing", missing)
    columns = COLUMNS | {"constant": {"role": "quasi"}, "missing": {"role": "quasi"}}
    release = gpuanon.protect(table, recipe(mask, columns=columns), rng=KEY, backend="numpy")
    rows = release.data.num_rows
    for ending in ("", "_low", "_high"):
        if f"constant{ending}" in release.data.column_names:
            (value,) = set(map(str, release.data[f"constant{ending}"].to_pylist()))
            assert value in ("42", "{'low': 42, 'high': 42}")
        if f"missing{ending}" in release.data.column_names:
            assert release.data[f"missing{ending}"].null_count == rows
    assert {"constant", "constant_low"} & set(release.data.column_names)


@every_method
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_too_few_rows_are_an_error_or_a_release_of_as_many_rows(mask, rows):
    table = registry(300).slice(0, rows)
    if rows == 0 or (effect(mask) == "kept" and rows < MASKS[mask].get("k", 0)):
        with pytest.raises(GpuanonError, match=r"row|record"):
            protect(table, mask)
    else:
        with suppress(GpuanonError):  # a method may want more rows than it promises
            release = protect(table, mask)
            assert release.data.num_rows == len(release.link) > 0


@pytest.mark.parametrize("mask", [mask for mask in MASKS if "income" in masked_columns(mask)])
def test_nulls_are_refused_when_the_recipe_says_so(mask):
    with pytest.raises(GpuanonError, match="income"):
        gpuanon.protect(registry(), recipe(mask, nulls="refuse"), rng=KEY, backend="numpy")


@every_method
def test_the_recipe_survives_pickle_and_json(mask):
    loaded = Recipe.load(recipe(mask))
    assert pickle.loads(pickle.dumps(loaded)) == loaded
    assert Recipe.model_validate_json(loaded.model_dump_json()) == loaded
