"""`Table` returns the same kind of dataframe with its types and values, and nothing but the columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuanon.errors import InputError
from gpuanon.tables.codes import level_codes
from gpuanon.tables.table import Table
from tests.support.frames import KINDS, arrow_tables, as_kind, example_table, same


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(table=arrow_tables(), data=st.data())
def test_rows_taken_keep_every_type_and_value(kind: str, table: pa.Table, data: st.DataObject) -> None:
    n = table.num_rows
    rows = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=20)) if n else [], dtype=np.int64)
    frame = as_kind(table, kind)
    taken = Table.of(frame).take(rows)
    if isinstance(frame, pd.DataFrame):
        expected = frame.iloc[rows].reset_index(drop=True)
    else:
        expected = as_kind(table.take(pa.array(rows)), kind)
    assert same(taken.to_native(), expected)
    assert taken.n_rows == len(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_replaced_dropped_and_selected(kind: str) -> None:
    table = Table.of(as_kind(example_table(), kind))
    backwards = table.take(np.arange(table.n_rows)[::-1])
    mixed = table.replace({"text": backwards.series("text"), "date": backwards.series("date")})
    assert mixed.names == table.names
    assert same(mixed.select(["date", "text"]).to_native(), backwards.select(["date", "text"]).to_native())
    assert same(mixed.drop(["date", "text"]).to_native(), table.drop(["date", "text"]).to_native())
    assert table.drop(["text"]).names == tuple(name for name in table.names if name != "text")


@pytest.mark.parametrize("kind", KINDS)
def test_tables_stacked(kind: str) -> None:
    table = Table.of(as_kind(example_table(), kind))
    both = Table.concatenated([table.take(np.arange(10)), table.take(np.arange(10, 40))])
    assert same(both.to_native(), table.to_native())


def test_a_pandas_index_and_metadata_are_dropped() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=pd.Index(["ann", "bob", "cy"], name="who"))
    frame.attrs["secret"] = "ann"
    for out in (Table.of(frame), Table.of(frame).take(np.array([2, 0])), Table.of(frame).drop([])):
        native = out.to_native()
        assert isinstance(native.index, pd.RangeIndex)
        assert native.index.name is None
        assert native.attrs == {}
    assert frame.index.name == "who"
    assert frame.attrs == {"secret": "ann"}
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    assert Table.of(arrow).to_native().schema.metadata is None


@pytest.mark.parametrize(
    "data",
    [
        pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "twice", "twice"]),
        pd.DataFrame([[1, 2, 3]], columns=["a", "twice", "twice"]),
    ],
)
def test_duplicate_names_are_refused_by_name(data: object) -> None:
    with pytest.raises(InputError, match="twice: 'twice'"):
        Table.of(data)


@pytest.mark.parametrize("data", [[1, 2], {"a": [1]}, None, "table.csv"])
def test_objects_that_are_not_dataframes_are_refused(data: object) -> None:
    with pytest.raises(InputError, match="dataframe in memory"):
        Table.of(data)


def test_names_that_are_not_text_are_refused() -> None:
    with pytest.raises(InputError, match="must be text, 1 of 2"):
        Table.of(pd.DataFrame({"a": [1], 3: [2]}))


def test_names_with_spaces_and_unicode() -> None:
    names = ["systolic (mmHg)", "größe", "年龄", " ", "a.b", "a'b\"c", "🙂"]
    for kind in KINDS:
        table = Table.of(as_kind(pa.table({name: [1, 2] for name in names}), kind))
        assert table.names == tuple(names)
        assert table.replace({"年龄": table.series("größe")}).take(np.array([1])).names == tuple(names)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_rows_or_columns(kind: str) -> None:
    empty = Table.of(as_kind(example_table(0), kind))
    assert empty.n_rows == 0
    assert empty.take(np.array([], dtype=np.int64)).names == empty.names
    assert level_codes([empty], empty.names)[0].shape == (0, len(empty.names))
    assert Table.of(as_kind(pa.table({}), kind)).names == ()


def test_repr_and_errors_contain_no_value() -> None:
    table = Table.of(pd.DataFrame({"a": ["jane", 1]}))
    assert "jane" not in repr(table)
    with pytest.raises(InputError) as caught:
        table.arrow("a")
    assert "jane" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@given(
    st.lists(
        st.lists(st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), -3.0]), min_size=0, max_size=8),
        min_size=1,
        max_size=3,
    )
)
@example([[0.0, -0.0, None, float("nan")], [1.5]])
def test_codes_are_joint_ranks_and_nulls_are_minus_one(columns: list[list[float | None]]) -> None:
    tables = [Table.of(pa.table({"x": pa.array(values, pa.float64())})) for values in columns]
    known = sorted({value + 0.0 for values in columns for value in values if value is not None and value == value})
    for codes, values in zip(level_codes(tables, ["x"]), columns, strict=True):
        expected = [-1 if value is None or value != value else known.index(value + 0.0) for value in values]
        assert codes[:, 0].tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_codes_tell_equal_from_unequal_in_every_type(kind: str) -> None:
    table = example_table()
    (codes,) = level_codes([Table.of(as_kind(table, kind))], table.column_names)
    for number, name in enumerate(table.column_names):
        cells = table[name].to_pylist()
        for i in range(len(cells)):
            for j in range(i):
                assert (codes[i, number] == codes[j, number]) == (cells[i] == cells[j])


def test_codes_of_large_whole_numbers_are_exact() -> None:
    table = Table.of(pa.table({"x": [2**53, 2**53 + 1, -(2**62), 2**53]}))
    assert level_codes([table], ["x"])[0][:, 0].tolist() == [1, 2, 0, 1]


def test_codes_across_types_that_mean_the_same() -> None:
    one = Table.of(pa.table({"x": pa.array([1, 2], pa.int8()), "s": pa.array(["a", "b"]).dictionary_encode()}))
    other = Table.of(pl.DataFrame({"x": [2.0, 1.5], "s": ["b", "c"]}))
    first, second = level_codes([one, other], ["x", "s"])
    assert first.tolist() == [[0, 0], [2, 1]]
    assert second.tolist() == [[2, 1], [1, 2]]
    with pytest.raises(InputError, match="different types"):
        level_codes([one, Table.of(pa.table({"x": ["1"], "s": ["a"]}))], ["x"])


def test_a_path_in_place_of_a_dataframe_is_told_how_to_be_read():
    for path in ("registry.csv", Path("registry.csv")):
        with pytest.raises(
            InputError, match=r"a dataframe in memory is needed.*\nHint: gpuanon.read\(path\) reads a file"
        ):
            Table.of(path)
