"""What a release must not contain: levels that are not released, the order of the rows, two zeros, metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpuanon
from gpuanon.engine.protect import protect_file, protect_in_parts
from gpuanon.tables.class_counts import count_classes
from gpuanon.tables.dictionaries import with_released_levels
from gpuanon.tables.formats import io
from gpuanon.tables.table import Table

KEY = gpuanon.Key(b"a key for tests, of sixteen bytes or more")
MICRO = {"method": "microaggregation", "k": 5}
ROWS = 60


def names() -> list[str]:
    """Texts that are found in a file wherever they are: one for each row, in no order."""
    return [f"secret{(i * 37) % 1009:04d}x" for i in range(ROWS)]


def dictionary(values: list[Any], levels: list[Any], ordered: bool = False) -> pa.DictionaryArray:
    codes = pa.array([None if value is None else levels.index(value) for value in values], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(levels), ordered=ordered)


def people() -> pa.Table:
    """Ages, a unique dictionary column, one with levels of dropped rows, and an ordered one with unused levels."""
    rng = np.random.default_rng(0)
    regions = ["unreleased", "west", "east", "north"]
    degrees = ["never", "low", "mid", "high", "top"]
    return pa.table(
        {
            "pid": dictionary(names(), names()),
            "age": rng.integers(20, 80, ROWS),
            "region": dictionary([regions[1 + i % 3] for i in range(ROWS)], regions),
            "degree": dictionary([degrees[1 + i % 3] for i in range(ROWS)], degrees, ordered=True),
            "code": dictionary([name.replace("secret", "code") for name in names()],
                               [name.replace("secret", "code") for name in names()]),
        }
    )  # fmt: skip


RECIPE = {"columns": {"pid": {"role": "identifier"}, "age": {"role": "quasi"}}, "others": "keep", "mask": [MICRO]}


def written_recipe(folder: Path) -> Path:
    path = folder / "recipe.json"
    path.write_text(json.dumps(RECIPE))
    return path


def content(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.iterdir())) if path.is_dir() else path.read_bytes()


# Levels


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "parts"])
@pytest.mark.parametrize("in_parts", [False, True])
def test_no_unreleased_level_is_in_a_file(tmp_path: Path, name: str, in_parts: bool) -> None:
    source, output = tmp_path / "in.parquet", tmp_path / name
    pq.write_table(people(), source)
    recipe = written_recipe(tmp_path)
    if in_parts:
        protect_in_parts(source, gpuanon.Recipe.load(recipe), output, key=KEY)
    else:
        protect_file(source, recipe, output)
    bytes_ = content(output)
    assert b"secret" not in bytes_
    assert b"unreleased" not in bytes_
    assert b"never" not in bytes_
    back = io.read(output).to_native()
    assert back["region"].chunk(0).dictionary.to_pylist() == ["east", "north", "west"]
    assert back["degree"].chunk(0).dictionary.to_pylist() == ["low", "mid", "high"]
    codes = back["code"].chunk(0).dictionary.to_pylist()
    assert codes == sorted(codes)
    assert back.schema.types == people().drop_columns(["pid"]).schema.types


def test_levels_of_dropped_rows_are_gone_in_every_kind_of_dataframe() -> None:
    table = people()
    frames: dict[str, Any] = {
        "pyarrow": table,
        "pandas": table.to_pandas(),
        "pandas arrow": table.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": pl.from_arrow(table).with_columns(
            pl.col("region").cast(pl.String).cast(pl.Enum(["unreleased", "west", "east", "north"]))
        ),
    }
    for kind, frame in frames.items():
        data = gpuanon.protect(frame, RECIPE, rng=KEY, backend="numpy").data
        assert type(data) is type(frame), kind
        if kind == "polars":
            assert data["region"].dtype == pl.Enum(["west", "east", "north"])
            continue
        if kind == "pandas":
            assert data["region"].cat.categories.tolist() == ["east", "north", "west"]
            assert data["degree"].cat.categories.tolist() == ["low", "mid", "high"]
            assert data["degree"].cat.ordered
            continue
        arrow = data if kind == "pyarrow" else pa.Table.from_pandas(data)
        assert arrow["region"].chunk(0).dictionary.to_pylist() == ["east", "north", "west"]
        assert arrow["degree"].chunk(0).dictionary.to_pylist() == ["low", "mid", "high"]
        assert arrow.schema.field("degree").type == table.schema.field("degree").type


@pytest.mark.parametrize(
    "column",
    [
        pa.DictionaryArray.from_arrays(pa.array([2, 1, 2, None]), pa.array(["unused", None, "b"])),
        pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 0]), pa.array(["a", "a"])),
        pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, None], pa.int8()), pa.array([2.5, 1.5])),
        pa.DictionaryArray.from_arrays(pa.array([1, 1, 1, None], pa.int8()), pa.array([b"u", b"x"])),
        pa.array([None] * 4, pa.dictionary(pa.int32(), pa.string())),
        pa.array([["a"], ["b", "a"], None, []], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        pa.array([{"x": "a"}] * 4, pa.struct([("x", pa.dictionary(pa.int32(), pa.string()))])),
    ],
)
def test_odd_dictionaries_keep_their_values(column: pa.Array) -> None:
    table = Table.of(pa.table({"x": column}))
    made = with_released_levels(table).to_native()
    assert made["x"].to_pylist() == table.to_native()["x"].to_pylist()
    assert made.schema == table.to_native().schema
    none = with_released_levels(table.take(np.empty(0, np.int64))).to_native()
    assert none.schema == table.to_native().schema


def test_nested_dictionaries_lose_unreleased_levels(tmp_path: Path) -> None:
    column = pa.array([["secret"], ["b"], ["a"]], pa.list_(pa.dictionary(pa.int32(), pa.string())))
    made = with_released_levels(Table.of(pa.table({"x": column})).take(np.array([1, 2])))
    io.write(made, tmp_path / "t.arrow")
    assert b"secret" not in (tmp_path / "t.arrow").read_bytes()


def test_ordered_levels_are_in_order_in_every_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part may lack a level: readers would put it last."""
    monkeypatch.setattr("gpuanon.engine.pipeline.RELEASE_PART_ROWS", 7)
    source = tmp_path / "in.parquet"
    degrees = ["low", "mid", "high", "top", "peak", "summit", "unused"]
    degree = dictionary([degrees[i % 6] for i in range(ROWS)], degrees, ordered=True)
    pq.write_table(people().set_column(3, "degree", degree), source)
    loaded = gpuanon.Recipe.load(RECIPE)
    for name in ("parts", "t.parquet", "t.arrow"):
        protect_in_parts(source, loaded, tmp_path / name, key=KEY)
        assert b"unused" not in content(tmp_path / name)
        assert b"secret" not in content(tmp_path / name)
        back = io.read(tmp_path / name).to_native()["degree"]
        assert back.unify_dictionaries().chunk(0).dictionary.to_pylist() == degrees[:6]
        assert sorted(back.to_pylist()) == sorted(degree.to_pylist())
    assert len(list((tmp_path / "parts").iterdir())) > 3


# Numbers

ZEROS = [0.0, -0.0, float("nan"), None]


@pytest.mark.parametrize("kind", ["pyarrow", "pandas", "pandas nullable", "pandas arrow", "polars"])
@pytest.mark.parametrize(
    "mask", [MICRO, {"method": "suppress", "k": 5}, {"method": "distribution-preserving", "k": 5, "dither": "resample"}]
)
def test_masked_floats_have_one_zero_and_one_null(kind: str, mask: dict[str, Any]) -> None:
    table = pa.table({"x": pa.array([ZEROS[i % 4] for i in range(20)] + [1.5] * 20)})
    frame: Any = table
    if kind == "polars":
        frame = pl.from_arrow(table)
    elif kind != "pyarrow":
        mapper = {"pandas nullable": {pa.float64(): pd.Float64Dtype()}.get, "pandas arrow": pd.ArrowDtype}.get(kind)
        frame = table.to_pandas(types_mapper=mapper)
    release = gpuanon.protect(
        frame, {"columns": {"x": {"role": "quasi"}}, "others": "keep", "mask": [mask]}, rng=KEY, backend="numpy"
    )
    column = Table.of(release.data).arrow("x")
    values = column.drop_null().to_numpy()
    assert not np.signbit(values[values == 0]).any()
    assert not np.isnan(values).any()
    assert len(np.unique(values.view(np.uint64))) == len(np.unique(values))
    assert release.table.series("x").dtype == Table.of(frame).series("x").dtype


def test_nan_of_two_patterns_and_two_zeros_are_classes_of_their_own_as_stored() -> None:
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0, 1 << 63], dtype=np.uint64)
    table = Table.of(pa.table({"x": pa.array(bits.view(np.float64))}))
    (counts,) = count_classes(table, [(("x",), False, False)])
    assert len(counts.sizes) == 4


values = st.one_of(
    st.floats(-1e-15, 1e-15),
    st.floats(1e3, 1e5),
    st.integers(-(10**6), 10**6).map(lambda i: i / 1000),
    st.sampled_from([0.0, -0.0, 1e-16, 2e-16, 2000.0, 1e300, 5e-324]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(values, min_size=12, max_size=40), st.integers(2, 5), st.sampled_from(["none", "normal-scores"]))
@example([1e-16, 2e-16, 3e-16, 4e-16, 2000.0, 2000.0, 2000.5, 1999.123456789012] * 2, 4, "none")
@example([1e-16, 2e-16] * 4 + [2000.0, 2000.0000001] * 4, 2, "none")
def test_float_dust_does_not_split_a_class(column: list[float], k: int, transform: str) -> None:
    recipe = {
        "columns": {"x": {"role": "quasi", "transform": transform}},
        "others": "keep",
        "mask": [{"method": "microaggregation", "k": k}],
    }
    release = gpuanon.protect(pa.table({"x": column}), recipe, rng=KEY, backend="numpy")
    assert release.manifest["quasi"]["smallest_class"] >= k
    _, sizes = np.unique(release.data["x"].to_numpy().view(np.uint64), return_counts=True)
    assert sizes.min() >= k


# Layouts and metadata


def odd_layouts() -> pa.Table:
    texts = [f"t{i % 7}" for i in range(ROWS)]
    runs = pa.RunEndEncodedArray.from_arrays(pa.array(range(4, ROWS + 1, 4), pa.int32()), list(range(ROWS // 4)))
    return people().select(["age"]).append_column("view", pa.array(texts, pa.string_view())).append_column("runs", runs)


def test_views_and_run_ends_come_back_as_they_were(tmp_path: Path) -> None:
    table = odd_layouts()
    recipe = {
        "columns": {"age": {"role": "quasi"}, "view": {"role": "quasi"}},
        "others": "keep",
        "mask": [{"method": "suppress", "k": 2}],
    }
    for masks in ([MICRO], recipe["mask"]):
        release = gpuanon.protect(table, {**recipe, "mask": masks}, rng=KEY, backend="numpy")
        assert release.data.schema == table.schema
        assert set(release.data["runs"].to_pylist()) <= set(table["runs"].to_pylist())
    for name, types in {
        "t.arrow": table.schema.types,
        "t.parquet": [pa.int64(), pa.string_view(), pa.int64()],
        "t.csv": [pa.int64(), pa.string(), pa.int64()],
    }.items():
        release.write(tmp_path / name)
        form = pq.read_schema if name == "t.parquet" else lambda path: pa.ipc.open_file(path).schema
        assert (
            io.read(tmp_path / name).to_native().schema if name == "t.csv" else form(tmp_path / name)
        ).types == types


def test_run_ends_in_parts(tmp_path: Path) -> None:
    with pa.ipc.new_file(tmp_path / "in.arrow", odd_layouts().schema) as file:
        file.write_table(odd_layouts())
    recipe = gpuanon.Recipe.load({"columns": {"age": {"role": "quasi"}}, "others": "keep", "mask": [MICRO]})
    protect_in_parts(tmp_path / "in.arrow", recipe, tmp_path / "parts", key=KEY)
    back = io.read(tmp_path / "parts").to_native()
    assert sorted(back["runs"].to_pylist()) == sorted(odd_layouts()["runs"].to_pylist())


def test_nullable_types_of_pandas_come_back() -> None:
    frame = pd.DataFrame(
        {
            "age": pd.array([*range(30), *[None] * 10], dtype="Int64"),
            "size": pd.array([*np.arange(30) / 7, *[None] * 10], dtype="Float32"),
            "name": pd.array([*"abc" * 10, *[None] * 10], dtype="string"),
            "flag": pd.array([*[True, False] * 15, *[None] * 10], dtype="boolean"),
        }
    )
    recipe = {"columns": {"age": {"role": "quasi"}, "size": {"role": "quasi"}}, "others": "keep", "mask": [MICRO]}
    data = gpuanon.protect(frame, recipe, rng=KEY, backend="numpy").data
    assert data.dtypes.equals(frame.dtypes)
    assert data.isna().sum().equals(frame.isna().sum())


def test_a_named_index_in_parquet_is_a_column_like_any_other(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": range(20)}, index=pd.Index([f"secret{i}" for i in range(20)], name="pid"))
    frame.to_parquet(tmp_path / "in.parquet")
    assert set(io.read(tmp_path / "in.parquet").names) == {"age", "pid"}
    assert set(io.open(tmp_path / "in.parquet").schema.names) == {"age", "pid"}
    recipe = written_recipe(tmp_path)  # it names pid an identifier
    protect_file(tmp_path / "in.parquet", recipe, tmp_path / "t.parquet")
    protect_in_parts(tmp_path / "in.parquet", gpuanon.Recipe.load(recipe), tmp_path / "parts", key=KEY)
    for name in ("t.parquet", "parts"):
        assert b"secret" not in content(tmp_path / name)
        assert b"pid" not in content(tmp_path / name)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "parts"])
@pytest.mark.parametrize("in_parts", [False, True])
def test_no_metadata_is_written(tmp_path: Path, name: str, in_parts: bool) -> None:
    noted = {"note": "secret"}
    inside = pa.struct([pa.field("y", pa.int64(), metadata=noted)])
    fields = [
        pa.field("age", pa.int64(), metadata=noted),
        pa.field("lists", pa.list_(pa.field("item", inside, metadata=noted))),
        pa.field("large", pa.large_list(pa.field("item", pa.int64(), metadata=noted))),
        pa.field("fixed", pa.list_(pa.field("item", pa.int64(), metadata=noted), 1)),
    ]
    columns = [list(range(20)), [[{"y": i}] for i in range(20)], [[i] for i in range(20)], [[i] for i in range(20)]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    pq.write_table(pa.table(arrays, schema=pa.schema(fields, metadata=noted)), tmp_path / "in.parquet")
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps({"columns": {"age": {"role": "quasi"}}, "others": "keep", "mask": [MICRO]}))
    if in_parts:
        protect_in_parts(tmp_path / "in.parquet", gpuanon.Recipe.load(recipe), tmp_path / name, key=KEY)
    else:
        protect_file(tmp_path / "in.parquet", recipe, tmp_path / name)
    import base64

    for text in (b"secret", base64.b64encode(b"secret"), base64.b64encode(b" secret")[4:8]):
        assert text not in content(tmp_path / name)
    back = io.read(tmp_path / name).to_native()
    assert back.schema.types == [field.type for field in fields]
    assert sorted(back["lists"].to_pylist(), key=str) == sorted(columns[1], key=str)


@pytest.mark.parametrize(
    "type_", [pa.decimal32(5, 2), pa.decimal128(5, 2), pa.float16(), pa.date32(), pa.bool_()], ids=str
)
def test_dictionaries_of_any_type_are_rebuilt(type_: pa.DataType) -> None:
    numbers = {pa.bool_(): [True, False], pa.float16(): np.array([1, 0], np.float16)}.get(type_, [1, 0])
    levels = pa.array(numbers, type_)
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 1]), levels)
    made = with_released_levels(Table.of(pa.table({"x": column}))).to_native()["x"]
    assert made.to_pylist() == column.to_pylist()
    assert made.chunk(0).dictionary.to_pylist() == sorted(levels.to_pylist())
    alone = with_released_levels(Table.of(pa.table({"x": column})).take(np.array([0, 3]))).to_native()["x"]
    assert alone.chunk(0).dictionary.to_pylist() == [levels[1].as_py()]
