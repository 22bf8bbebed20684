"""Columns of intervals: of every library, in files, with nulls; and the label of a box."""

from __future__ import annotations

from collections import Counter
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
from gpuanon.arrays.rng import Key
from gpuanon.engine.protect import protect_in_parts
from gpuanon.errors import OutputError, RecipeError
from gpuanon.recipe import Recipe
from gpuanon.tables.interval_columns import interval_column, with_ends
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.table import Table

KEY = Key(b"interval columns, sixteen or more")
STATISTICS = ["mean", "covariance(age, income)"]
KINDS = {"arrow": pa.table, "pandas": lambda data: pa.table(data).to_pandas(), "polars": pl.DataFrame}
every_kind = pytest.mark.parametrize("kind", KINDS)


def original(n: int = 300) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    age = rng.integers(20, 80, size=n)
    income = np.where(np.arange(n) % 19 == 0, np.nan, np.round(age * 300 + rng.normal(0, 3000, size=n)))
    born = np.datetime64("2000-01-01", "us") + rng.integers(0, 9000, size=n).astype("timedelta64[D]")
    level = pd.Categorical(rng.choice(["low", "high"], size=n), ["low", "high", "never"], ordered=True)
    income_ = pa.array(income, mask=np.isnan(income))
    return {"age": age, "income": income_, "born": born, "level": pa.array(level), "area": rng.choice(list("ab"), n)}


def recipe(**changes: Any) -> dict[str, Any]:
    columns = {name: {"role": "quasi"} for name in original(1)}
    return {
        "columns": columns,
        "nulls": "indicator",
        "mask": [{"method": "optimal-boxes", "k": 5, "statistic": "mean", "sweeps": 1, **changes}],
    }


def protected(data: Any, **changes: Any) -> Any:
    return gpuanon.protect(data, recipe(**changes), rng=KEY, backend="numpy")


@every_kind
def test_both_forms_hold_the_same_boxes_in_every_library(kind: str) -> None:
    data = KINDS[kind](original())
    one, two = (protected(data, release=form).table for form in ("interval-column", "interval"))
    there, apart = with_ends(one), with_ends(two)
    assert sorted(there.names) == sorted(apart.names)
    rows = [Counter(map(str, pa.table({n: t.arrow(n) for n in sorted(t.names)}).to_pylist())) for t in (there, apart)]
    if kind != "polars":  # whose levels have no order
        assert rows[0] == rows[1]
    assert one.names == ("age", "income", "born", "level", "area")


def test_pandas_has_its_own_intervals() -> None:
    frame = protected(KINDS["pandas"](original()), release="interval-column").data
    assert frame["age"].dtype == pd.IntervalDtype("int64", "both")
    assert frame["income"].dtype == pd.IntervalDtype("float64", "both")
    assert (frame["age"].array.left <= frame["age"].array.right).all()
    assert set(frame["level"].array._pa_array.combine_chunks().field("low").to_pylist()) == {"low", "high"}


@every_kind
def test_a_file_holds_structures_and_its_claims_were_checked_on_them(kind: str, tmp_path: Path) -> None:
    release = protected(KINDS[kind](original()), release="interval-column", label="box")
    for name in ("release.parquet", "release.arrow", "folder"):
        manifest = release.write(tmp_path / name)
        assert manifest["guarantee"][0]["smallest_class"] >= 5
        assert "box" in manifest["guarantee"][0]["statement"]
        on_file, in_memory = (gpuanon.intervals(data, STATISTICS) for data in (tmp_path / name, release.data))
        assert on_file.ranges == in_memory.ranges
    written = pq.read_table(tmp_path / "release.parquet")
    assert written["age"].type == pa.struct([("low", pa.int64()), ("high", pa.int64())])
    assert b"never" not in (tmp_path / "release.arrow").read_bytes()  # a level that nobody has
    counts = written.flatten().to_pandas().groupby(list(written.flatten().column_names), dropna=False).size()
    assert counts.min() >= 5


@every_kind
@pytest.mark.parametrize("name", ["release.csv", "release.csv.gz"])
def test_a_csv_is_refused(kind: str, name: str, tmp_path: Path) -> None:
    release = protected(KINDS[kind](original(60)), release="interval-column")
    with pytest.raises(OutputError):
        release.write(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_csv_is_refused_before_any_work_is_done(tmp_path: Path) -> None:
    pq.write_table(pa.table(original(60)), tmp_path / "in.parquet")
    loaded = Recipe.load(recipe(release="interval-column"))
    with pytest.raises(OutputError, match="columns of intervals"):
        protect_in_parts(tmp_path / "in.parquet", loaded, tmp_path / "out.csv", key=KEY, backend="numpy")
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_a_release_in_parts_is_that_of_memory(tmp_path: Path) -> None:
    pq.write_table(pa.table(original()), tmp_path / "in.parquet")
    changes = {"release": "interval-column", "label": "box"}
    loaded = Recipe.load(recipe(**changes))
    protect_in_parts(tmp_path / "in.parquet", loaded, tmp_path / "out", key=KEY, backend="numpy", cell_rows=300)
    expected = protected(pq.read_table(tmp_path / "in.parquet"), **changes).data
    assert pq.read_table(tmp_path / "out").to_pylist() == expected.to_pylist()


def test_a_box_has_one_label_and_a_label_one_box() -> None:
    data = protected(pa.table(original()), release="interval", label="box").data
    boxes = [tuple(row.values()) for row in data.drop_columns(["box"]).to_pylist()]
    pairs = set(zip(boxes, data["box"].to_pylist(), strict=True))
    assert len(pairs) == len(set(boxes)) == len({label for _, label in pairs}) > 20


def test_labels_tell_neither_an_order_nor_what_another_release_has() -> None:
    table = pa.table(original(2000))
    data = protected(table, release="interval", label="box").data
    labels = np.array([int(label, 16) for label in data["box"].to_pylist()], dtype=np.float64)
    middle = data["age_low"].to_numpy() + data["age_high"].to_numpy()
    _, first = np.unique(labels, return_index=True)
    assert abs(np.corrcoef(labels[first], middle[first])[0, 1]) < 4 / np.sqrt(len(first))
    again = protected(table, release="interval", label="box", sweeps=2).data
    assert not set(data["box"].to_pylist()) & set(again["box"].to_pylist())  # another recipe under the same key


@pytest.mark.parametrize("changes", [{"label": "age"}, {"label": "age_low"}, {"label": "area"}])
def test_a_label_needs_a_name_of_its_own(changes: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match="already"):
        protected(pa.table(original(60)), **changes)


@pytest.mark.parametrize("release", ["midpoint", "centroid"])
def test_a_label_is_that_of_a_box(release: str) -> None:
    with pytest.raises(RecipeError, match="label"):
        protected(pa.table(original(60)), release=release, label="box")


def test_a_column_of_intervals_is_not_masked_again() -> None:
    masks = [recipe(release="interval-column")["mask"][0], {"method": "rank-swap", "columns": ["age"]}]
    with pytest.raises(RecipeError, match="earlier mask"):
        gpuanon.protect(pa.table(original(60)), recipe() | {"mask": masks}, rng=KEY, backend="numpy")


ends = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=20)


@given(ends)
@example([(0, 0, True)])
@example([(0, 0, False), (0, 0, True)])
@settings(max_examples=60, deadline=None)
def test_equal_intervals_have_equal_bits_and_different_ones_have_not(rows: list[tuple[int, int, bool]]) -> None:
    low = pa.array([None if null else start for start, _, null in rows], pa.float64())
    high = pa.array([None if null else start + width for start, width, null in rows], pa.float64())
    values = list(zip(low.to_pylist(), high.to_pylist(), strict=True))
    for make in (pa.table, lambda data: pa.table(data).to_pandas(), lambda data: pl.from_arrow(pa.table(data))):
        both = Table.of(make({"low": low, "high": high}))
        column = Table.of(interval_column(both.series("low"), both.series("high"), "x").to_frame())
        bits = [tuple(line) for line in row_bits(column, ["x"], stored=True).tolist()]
        assert len(set(zip(values, bits, strict=True))) == len(set(values)) == len(set(bits))
        again = with_ends(column)
        assert again.arrow("x_low").to_pylist() == low.to_pylist()
        assert again.arrow("x_high").to_pylist() == high.to_pylist()
