"""Every format keeps what it says: round trips, refusals, whole or nothing, verification, unknown suffixes.

Written files are read back by libraries that know nothing of ours: polars, pandas, the csv module, pyreadstat, pyarrow.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io as streams
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pyreadstat
import pytest
from typer.testing import CliRunner

from gpuanon.cli.app import app
from gpuanon.errors import InputError, OutputError
from gpuanon.tables.formats import FORMATS, TYPES, Format, TypeName, formats, io, type_name
from gpuanon.tables.table import Table
from gpuanon.visible import visible
from tests.support.workbook import workbook

SAMPLES: dict[TypeName, pa.Array] = {
    "whole number": pa.array([1, None, -3]),
    "float": pa.array([1.5, None, -0.1]),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("2.25")]),
    "truth value": pa.array([True, None, False]),
    "text": pa.array(["a", None, 'ü, "x"']),
    "binary": pa.array([b"a", None, b"\xff"]),
    "date": pa.array([dt.date(2020, 1, 2), None, dt.date(1960, 5, 6)]),
    "time of day": pa.array([dt.time(1, 2, 3), None, dt.time(23, 5, 6)], pa.time32("s")),
    "timestamp": pa.array([dt.datetime(2020, 1, 2, 3, 4, 5), None, dt.datetime(1969, 1, 1)], pa.timestamp("s")),
    "timestamp with zone": pa.array([0, None, 86400 * 365 + 1], pa.timestamp("s", "UTC")),
    "duration": pa.array([5, None, 86400], pa.duration("s")),
    "levels": pa.array(["b", None, "a"]).dictionary_encode(),
    "ordered levels": pa.DictionaryArray.from_arrays(
        pa.array([1, None, 0], pa.int8()), pa.array(["low", "high"]), ordered=True
    ),
    "levels of numbers": pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), pa.array([5, 7])),
    "list": pa.array([[1], None, [2, 3]]),
    "structure": pa.array([{"low": 1.0, "high": 2.0}, None, {"low": 0.0, "high": 1.0}]),
    "map": pa.array([[("a", 1)], None, [("b", 2)]], pa.map_(pa.string(), pa.int64())),
    "nulls only": pa.nulls(3),
    "other": pa.array([(1, 2, 3), None, (0, 0, 1)], pa.month_day_nano_interval()),
}
RECIPE = """
[columns]
age  = { role = "quasi", kind = "numeric" }
cost = { role = "quasi" }
name = { role = "identifier" }
[[mask]]
method = "microaggregation"
k = 5
"""
WRITTEN = [form for form in formats().values() if form.writes]
READ_ONLY = [form for form in formats().values() if not form.writes]
STORED = [(form, type_) for form in WRITTEN for type_ in TYPES if type_ not in form.refuses]
REFUSED = [(form, type_) for form in WRITTEN for type_ in form.refuses]


def named(value: Any) -> str:
    return value.name if isinstance(value, Format) else str(value)


def place(folder: Path, form: Format) -> Path:
    return folder / f"release{form.suffixes[0] if form.suffixes else ''}"


def sample(type_: TypeName) -> pa.Table:
    """A column of the type beside one without nulls."""
    return pa.table({"row": [1.0, 2.0, 3.0], "x": SAMPLES[type_]})


def csv_texts(path: Path) -> list[str]:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    return [row["x"] for row in csv.DictReader(streams.StringIO(text, newline=""))]


def as_written(value: Any) -> str:
    """The text of a value in a CSV, as the documentation of pyarrow's writer gives it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.timedelta):
        return str(int(value.total_seconds()))
    zone = "Z" if isinstance(value, dt.datetime) and value.tzinfo is not None else ""
    if zone:
        value = value.replace(tzinfo=None)
    return "" if value is None else f"{value}{zone}"


def elsewhere(path: Path, form: Format) -> list[Any]:
    """The column in a written file, by a library that knows nothing of ours."""
    if form.name in ("parquet", "parts"):
        return pa.parquet.read_table(path)["x"].to_pylist()
    if form.name == "arrow":
        return pa.ipc.open_file(path).read_all()["x"].to_pylist()
    if form.name == "orc":
        return pa.orc.read_table(path)["x"].to_pylist()
    columns, about = getattr(pyreadstat, f"read_{form.name}")(path, output_format="dict")
    labels = about.variable_value_labels.get("x", {})
    missing = [value is None or value == "" or value != value for value in columns["x"]]
    return [None if null else labels.get(value, value) for value, null in zip(columns["x"], missing, strict=True)]


def test_every_format_is_declared_under_its_own_name() -> None:
    assert {name: form.name for name, form in formats().items()} == {name: name for name in FORMATS}
    suffixes = [suffix for form in formats().values() for suffix in form.suffixes]
    assert len(set(suffixes)) == len(suffixes)
    assert all(not (set(form.becomes) & set(form.refuses)) for form in WRITTEN)
    assert {type_name(SAMPLES[type_].type) for type_ in TYPES} == set(TYPES)


@pytest.mark.parametrize(("form", "type_"), STORED, ids=named)
def test_a_type_comes_back_as_declared_with_equal_values(tmp_path: Path, form: Format, type_: TypeName) -> None:
    path, data = place(tmp_path, form), sample(type_)
    io.write(Table.of(data), path)
    back = io.read(path).to_arrow()
    if (type_, form.becomes.get(type_)) == ("duration", "whole number"):  # counted in its unit
        data = data.set_column(1, "x", data["x"].cast(pa.int64()))
    assert back["x"].to_pylist() == data["x"].to_pylist()
    assert back["row"].to_pylist() == [1.0, 2.0, 3.0]
    assert type_name(back["x"].type) == form.becomes.get(type_, type_)
    pieces = pa.concat_tables(piece.to_arrow() for piece in io.open(path).batches(2))
    assert pieces["x"].to_pylist() == data["x"].to_pylist()


@pytest.mark.parametrize(("form", "type_"), STORED, ids=named)
def test_others_read_the_same_values(tmp_path: Path, form: Format, type_: TypeName) -> None:
    path, data = place(tmp_path, form), sample(type_)
    io.write(Table.of(data), path)
    expected = data["x"].to_pylist()
    if form.is_text:
        assert csv_texts(path) == [as_written(value) for value in expected]
    else:
        assert elsewhere(path, form) == expected


def test_polars_and_pandas_read_what_is_written(tmp_path: Path) -> None:
    """Libraries with readers of their own, not built on those that write."""
    types: tuple[TypeName, ...] = ("whole number", "float", "text", "truth value", "date", "timestamp")
    data = pa.table({type_: SAMPLES[type_] for type_ in types})
    for name in ("release.parquet", "release.arrow", "release"):
        io.write(Table.of(data), tmp_path / name)
    expected = data.to_pylist()
    assert pl.read_parquet(tmp_path / "release.parquet").to_dicts() == expected
    assert pl.read_parquet(tmp_path / "release" / "*.parquet").to_dicts() == expected
    assert pl.read_ipc(tmp_path / "release.arrow").to_dicts() == expected
    stata = pa.table({"x": SAMPLES["float"], "level": SAMPLES["levels"]})
    io.write(Table.of(stata), tmp_path / "release.dta")
    found = pd.read_stata(tmp_path / "release.dta").astype(object)
    assert found.where(found.notna(), None).to_dict("records") == stata.to_pylist()


@pytest.mark.parametrize(("form", "type_"), REFUSED, ids=named)
def test_a_type_that_is_not_stored_is_refused_with_its_reason(tmp_path: Path, form: Format, type_: TypeName) -> None:
    with pytest.raises(OutputError, match="'x'") as refused:
        io.write(Table.of(sample(type_)), place(tmp_path, form))
    assert form.refuses[type_] in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", WRITTEN, ids=named)
def test_a_table_appears_whole_or_not_at_all(tmp_path: Path, form: Format) -> None:
    path, data = place(tmp_path, form), sample("float")

    def interrupted() -> None:
        with io.Writing() as out:
            put = out.stream(path, data.schema)
            put(data)
            assert not path.exists()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    with io.Writing() as out:
        put = out.stream(path, data.schema)
        put(data)
        put(data.slice(0, 1))
    assert io.read(path).arrow("x").to_pylist() == [1.5, None, -0.1, 1.5]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("form", WRITTEN, ids=named)
def test_a_table_without_rows_keeps_its_columns(tmp_path: Path, form: Format) -> None:
    io.write(Table.of(sample("float").slice(0, 0)), place(tmp_path, form))
    assert io.read(place(tmp_path, form)).names == ("row", "x")
    assert io.read(place(tmp_path, form)).n_rows == 0


@pytest.mark.parametrize("form", WRITTEN, ids=named)
@pytest.mark.parametrize("type_", ["float", "text", "whole number"])
def test_rereading_sees_a_changed_value(tmp_path: Path, form: Format, type_: TypeName) -> None:
    """The classes of a file are those of its values, not of the table that was to be written."""

    class Counted:
        columns, wildcard, covered = ("x",), False, False

    values = SAMPLES[type_].to_pylist()[::2]
    equal, changed = (pa.table({"row": range(6), "x": [values[0]] * (6 - n) + values[1:] * n}) for n in (0, 1))
    counted = Counted()
    found = []
    for folder, data in (("equal", equal), ("changed", changed)):
        (tmp_path / folder).mkdir()
        path = place(tmp_path / folder, form)
        io.write(Table.of(data), path)
        found.append(io.smallest_classes(path, path, [counted], 6)[counted])
        assert not io.holds(path, path, Table.of(changed if data is equal else equal), ["x"])
    assert found == [6, 1]


@pytest.mark.parametrize("form", [form for form in formats().values() if not form.is_folder], ids=named)
def test_a_broken_file_is_one_message_without_its_content(tmp_path: Path, form: Format) -> None:
    path = place(tmp_path, form)
    path.write_bytes(b'\x00\xffsecret "')
    with pytest.raises(InputError) as failed:
        list(io.open(path).batches())
    assert str(failed.value).startswith(str(path))
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize("form", READ_ONLY, ids=named)
def test_a_format_that_is_only_read_says_so(tmp_path: Path, form: Format) -> None:
    with pytest.raises(OutputError, match=r"is read, not written"):
        io.check_output(place(tmp_path, form))


def test_formats_that_are_only_read_are_read(tmp_path: Path) -> None:
    """No library writes .sas7bdat; it has the reader of the others."""
    frame = pl.DataFrame({"x": [1.5, None, -0.25], "t": ["a", "", "b"]})
    pyreadstat.write_xport(frame, tmp_path / "t.xpt")
    pyreadstat.write_por(frame, tmp_path / "t.por")
    workbook(tmp_path / "t.xlsx", [["x", "t"], [1.5, "a"], ["", ""], [-0.25, "b"]])
    for name in ("t.xpt", "t.por"):
        found = {key.lower(): values for key, values in io.read(tmp_path / name).to_arrow().to_pydict().items()}
        assert found == {"x": [1.5, None, -0.25], "t": ["a", None, "b"]}
    assert io.read(tmp_path / "t.xlsx").arrow("t").to_pylist()[::2] == ["a", "b"]


def test_an_unknown_suffix_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    (tmp_path / "t.docx").write_bytes(b"")
    for use, error in ((io.read, InputError), (io.open, InputError), (io.check_output, OutputError)):
        with pytest.raises(error, match=r"suffix '\.docx'") as refused:
            use(tmp_path / "t.docx")
        assert all(suffix in str(refused.value) for form in formats().values() for suffix in form.suffixes)


@pytest.mark.parametrize("form", [form for form in formats().values() if form.needs], ids=named)
def test_a_missing_library_is_named_before_any_work(
    tmp_path: Path, form: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place(tmp_path, form)
    if form.writes:
        io.check_output(path)
    monkeypatch.setitem(__import__("sys").modules, form.needs[0], None)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=rf"{form.needs[0]}, which is not installed\nHint: .*gpuanon\[formats\]"):
        io.read(path)
    if form.writes:
        with pytest.raises(OutputError, match="not installed"):
            io.check_output(path, force=True)


@pytest.mark.parametrize("name", ["release.dta", "release.sav"])
def test_values_that_a_statistical_file_would_change_are_refused(tmp_path: Path, name: str) -> None:
    fine = pa.array([1], pa.timestamp("us"))
    for column in (pa.array([2**53 + 1]), fine):
        with pytest.raises(OutputError, match="column 'x': cannot be stored"):
            io.write(Table.of(pa.table({"x": column})), tmp_path / name)
    for bad in ("a name with blanks", "1st", "a" * 65, "a-b", "a\n"):
        with pytest.raises(OutputError, match="cannot be stored in this format: the name of column") as caught:
            io.write(Table.of(pa.table({"fine": [1.0], bad: [1.0]})), tmp_path / name)
        assert visible(repr(bad)) in str(caught.value)
        assert "fine" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_numbers_and_times_that_orc_has_otherwise_keep_their_values_or_are_refused(tmp_path: Path) -> None:
    kept = [pa.array([255], pa.uint8()), pa.array([1.5], pa.float16()), pa.array([0], pa.date64())]
    for at, column in enumerate(kept):
        io.write(Table.of(pa.table({"x": column})), tmp_path / f"{at}.orc")
        assert pa.orc.read_table(tmp_path / f"{at}.orc")["x"].to_pylist() == column.to_pylist()
    far = pa.array([dt.datetime(9000, 1, 1)], pa.timestamp("us"))
    for column in (pa.array([2**63], pa.uint64()), far):
        with pytest.raises(OutputError, match="cannot be stored"):
            io.write(Table.of(pa.table({"x": column})), tmp_path / "refused.orc")
    assert len(list(tmp_path.iterdir())) == len(kept)


@pytest.mark.parametrize("how", [(), ("--workers", "0")], ids=["memory", "parts"])
@pytest.mark.parametrize("form", [form for form in WRITTEN if not form.is_text], ids=named)
def test_a_release_of_each_format_is_verified_as_written(tmp_path: Path, form: Format, how: tuple[str, ...]) -> None:
    """From one format to the same one, in memory and in parts; the smallest class is counted by pandas."""
    rng = np.random.default_rng(1)
    data = pa.table(
        {"age": rng.integers(20, 80, 200), "cost": rng.normal(size=200), "name": list(map(str, range(200)))}
    )
    (tmp_path / "in").mkdir()
    source, output = place(tmp_path / "in", form), place(tmp_path, form)
    io.write(Table.of(data), source)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    command = ["protect", str(source), str(recipe), "-o", str(output), "--json", *how]
    manifest = json.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout)
    frame = io.read(output).to_arrow().to_pandas()
    assert sorted(frame.columns) == ["age", "cost"]
    assert frame.groupby(["age", "cost"]).size().min() == manifest["quasi"]["smallest_class"] >= 5
    assert len(frame) == 200
