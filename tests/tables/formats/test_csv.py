"""CSV files: values come out as they went in, and no row is swallowed by a quote."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import gpuanon
from gpuanon.engine.protect import InParts, protect_file, protect_in_parts
from gpuanon.errors import GpuanonError
from gpuanon.tables.formats import io
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.formats.csv.csv_types import CsvColumns
from gpuanon.tables.table import Table
from tests.support.files import error_message

RECIPE = """
others = "keep"

[columns]
pid = { role = "identifier" }
age = { role = "quasi" }

[[mask]]
method = "microaggregation"
k = 5
"""


def written(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    content = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder / name


def consume(path: Path, **given: object) -> Table:
    source = io.open(path, **given)
    return (
        Table.of(pa.Table.from_batches([], source.schema))
        if not source.rows
        else Table.concatenated(list(source.batches()))
    )


def people(odd: dict[int, str], rows: int = 100, end: str = "\n") -> str:
    lines = [odd.get(i, f"P{i:04d},{20 + i % 60},note") for i in range(rows)]
    return end.join(["pid,age,note", *lines, ""])


# Quotes and rows


@pytest.mark.parametrize("use", [io.read, consume])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("rows", [100, 300_000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_stray_quote_is_refused_with_its_line(tmp_path: Path, use, name: str, rows: int, end: str) -> None:
    path = written(tmp_path, people({39: 'P0039,59,"6 feet tall'}, rows, end), name)
    message = error_message(lambda: use(path))
    assert "does not end on its line" in message
    assert "line 41" in message
    assert "feet" not in message
    assert "P00" not in message


@pytest.mark.parametrize("use", [io.read, consume])
def test_two_stray_quotes_are_refused_too(tmp_path: Path, use) -> None:
    path = written(tmp_path, people({39: 'P0039,59,"6 feet tall', 60: 'P0060,59,"7 feet tall'}))
    assert "lines 41, 62" in error_message(lambda: use(path))


@pytest.mark.parametrize("use", [io.read, consume])
def test_a_stray_quote_in_the_header_or_the_last_row(tmp_path: Path, use) -> None:
    assert "lines 1, 3" in error_message(lambda: use(written(tmp_path, 'a,"b\n1,2\n3,4"\n5,6\n')))
    assert "line 3" in error_message(lambda: use(written(tmp_path, 'a,b\n1,2\n3,"4\n')))


@pytest.mark.parametrize("use", [io.read, consume])
@pytest.mark.parametrize("rows", [100, 300_000])
def test_ragged_rows_are_refused_with_their_lines_and_counts(tmp_path: Path, use, rows: int) -> None:
    path = written(tmp_path, people({39: "P0039,59", 50: "P0050,1,2,3"}, rows))
    message = error_message(lambda: use(path))
    assert "the header has 3: lines 41, 52" in message
    assert "P00" not in message


@pytest.mark.parametrize("use", [io.read, consume])
def test_a_ragged_row_is_named_by_its_line_behind_values_of_several_lines(tmp_path: Path, use) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes('ä;b\n1;"two\nlines"\n\n3;"x;y"\n4;5;6\n7\n'.encode("latin-1"))
    message = error_message(lambda: use(path, csv=CsvOptions(newlines=True, encoding="latin-1")))
    assert "a row has 3 values, the header has 2: lines 6, 7" in message


@pytest.mark.parametrize("use", [io.read, consume])
def test_a_ragged_row_beside_a_very_long_value_is_refused_too(tmp_path: Path, use) -> None:
    path = written(tmp_path, f"a,b\n1,{'x' * 200_000}\n2\n")
    assert "a row has 1 values, the header has 2" in error_message(lambda: use(path))


@pytest.mark.parametrize("use", [io.read, consume])
def test_line_breaks_are_read_where_they_are_declared(tmp_path: Path, use) -> None:
    path = written(tmp_path, 'a,b\n1,"two\nlines"\n2,x\n')
    assert "lines 2, 3" in error_message(lambda: use(path))
    table = use(path, csv=CsvOptions(newlines=True))
    assert table.to_native()["b"].to_pylist() == ["two\nlines", "x"]


@pytest.mark.parametrize("use", [io.read, consume])
def test_quotes_inside_of_a_value_are_harmless(tmp_path: Path, use) -> None:
    path = written(tmp_path, 'a,b\n1,6" tall\n2,"say ""hi"", then"\n3,\n')
    assert use(path).to_native()["b"].to_pylist() == ['6" tall', 'say "hi", then', None]


def test_rows_are_as_many_as_lines(tmp_path: Path) -> None:
    path = written(tmp_path, people({}, 250_000))
    assert io.read(path).n_rows == io.open(path).rows == 250_000


@pytest.mark.parametrize("in_parts", [False, True])
def test_identifiers_do_not_leave_inside_of_a_text(tmp_path: Path, in_parts: bool) -> None:
    path = written(tmp_path, people({39: 'P0039,59,"6 feet tall'}))
    recipe, output = tmp_path / "recipe.toml", tmp_path / "release.csv"
    recipe.write_text(RECIPE)
    loaded, key = gpuanon.Recipe.load(recipe), gpuanon.Key(b"k" * 32)
    with pytest.raises(GpuanonError, match="line 41"):
        protect_in_parts(path, loaded, output, key=key) if in_parts else protect_file(path, recipe, output)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["recipe.toml", "t.csv"]


# Values

TEXTS = ["00019", "019.10", "+49 170 1234567", "12345678901234567890", "NA", "1e5", "True", "", "null", " x ", "1,5"]


@pytest.mark.parametrize("in_parts", [False, True])
def test_unmasked_columns_come_out_text_for_text(tmp_path: Path, in_parts: bool) -> None:
    frame = pd.DataFrame(
        {f"c{j}": [text] * 20 for j, text in enumerate(TEXTS)} | {"mixed": [TEXTS[i % len(TEXTS)] for i in range(20)]}
    )
    frame.insert(0, "age", [str(20 + i) for i in range(20)])
    frame.insert(0, "pid", [f"P{i}" for i in range(20)])
    path, recipe, output = tmp_path / "t.csv", tmp_path / "recipe.toml", tmp_path / "release.csv"
    frame.to_csv(path, index=False)
    recipe.write_text(RECIPE)
    link = tmp_path / "link.csv"
    if in_parts:
        protect_in_parts(path, gpuanon.Recipe.load(recipe), output, key=gpuanon.Key(b"k" * 32), link=link)
    else:
        protect_file(path, recipe, output, link=link)
    back = pd.read_csv(output, dtype=str, keep_default_na=False)
    rows = pd.read_csv(link)["row"]
    expected = frame.iloc[rows].reset_index(drop=True)
    for name in frame.columns[2:]:
        assert back[name].tolist() == expected[name].tolist(), name
    assert back["age"].str.fullmatch(r"\d+").all()


MEASURED = {
    "cost": ["12.50", "1e3", "+5", "", "0.0", "-0", "NA", "007.5", "3", " 4"],
    "weight": ["1.0", "2", "1.50", "0010", "3.", ".5", "1e0", "2.00", "1", "4.0"],
    "kept": ["1.50", "1.5"] * 5,
    "when": ["2020-01-01 10:00", "2020-01-01T10:00:30"] * 5,
    "day": ["2020-01-01", "2020-02-01"] * 5,
    "flag": ["true", "True"] * 5,
}
ROLES = """
pid = { role = "identifier" }
age = { role = "quasi" }
cost = { role = "sensitive", kind = "numeric" }
weight = { role = "weight" }
kept = { role = "quasi", kind = "numeric", keep = true }
when = { role = "sensitive", kind = "date" }
day = { role = "sensitive" }
flag = { role = "sensitive" }
"""


def measured(
    folder: Path, method: str, in_parts: bool, limits: str = ""
) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """The texts of a CSV with columns that are measured or kept, those of its release, and the link."""
    frame = pd.DataFrame({"pid": [f"P{i}" for i in range(30)], "age": [str(20 + i // 4) for i in range(30)]})
    frame = frame.assign(**{name: values * 3 for name, values in MEASURED.items()})
    path, recipe, output = folder / "t.csv", folder / "recipe.toml", folder / "release.csv"
    frame.to_csv(path, index=False)
    recipe.write_text(f'[columns]{ROLES}[[mask]]\nmethod = "{method}"\nk = 3\n{limits}')
    link = folder / "link.csv"
    protect_file(path, recipe, output, link=link, in_parts=InParts(workers=0) if in_parts else None)
    back, rows = pd.read_csv(output, dtype=str, keep_default_na=False), pd.read_csv(link)["row"].to_numpy()
    manifest = json.loads((folder / "release.csv.manifest.json").read_text())
    assert manifest["quasi"]["smallest_class"] == back.groupby(["age", "kept"]).size().min()  # of the texts
    return frame, back, rows


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("limits", ["", "[limits]\nk_anonymity = 1\n"])
def test_columns_that_are_measured_or_kept_come_out_text_for_text(tmp_path: Path, in_parts: bool, limits: str) -> None:
    frame, back, rows = measured(tmp_path, "microaggregation", in_parts, limits)
    for name in MEASURED:
        if name != "kept" or not limits:
            assert back[name].tolist() == frame[name].iloc[rows].tolist(), name


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_limit_that_was_measured_on_values_holds_of_the_texts(tmp_path: Path, in_parts: bool) -> None:
    _, back, _ = measured(tmp_path, "microaggregation", in_parts, "[limits]\nk_anonymity = 3\nuniqueness = 0.0\n")
    assert back.groupby(["age", "kept"]).size().min() >= 3
    assert set(back["kept"]) == {"1.5"}


@pytest.mark.parametrize("in_parts", [False, True])
def test_no_text_tells_an_added_row_from_a_record(tmp_path: Path, in_parts: bool) -> None:
    """Where rows were added, each value has one text; records keep their values."""
    frame, back, rows = measured(tmp_path, "synthetic-rows", in_parts)
    assert (rows < 0).any()
    records = frame.iloc[rows[rows >= 0]].reset_index(drop=True)
    for name in ("cost", "weight", "kept"):
        texts = back[name][back[name] != ""]
        assert texts.nunique() == texts.astype(float).nunique(), name
        given, released = (pd.to_numeric(one, errors="coerce") for one in (records[name], back.loc[rows >= 0, name]))
        assert released.fillna(-1).tolist() == given.fillna(-1).tolist(), name
    for name in ("when", "day"):
        assert back[name].str.len().nunique() == 1, name


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.one_of(st.none(), texts), st.one_of(st.none(), st.floats(allow_nan=False))), min_size=1))
@example([("a\rb", 1.0), ("\r\n", 2.0), (" ", -0.0), ('"', None), (",", None), ("", None), (None, None)])
def test_a_written_cell_is_read_back_by_pandas(tmp_path: Path, rows: list[tuple[str | None, float | None]]) -> None:
    words, numbers = (list(column) for column in zip(*rows, strict=True))
    for columns in ({"w": pa.array(words, pa.string()), "x": pa.array(numbers, pa.float64())}, {"w": words}):
        io.write(Table.of(pa.table(columns)), tmp_path / "t.csv", force=True)
        back = pd.read_csv(tmp_path / "t.csv", dtype=str, keep_default_na=False)
        assert back["w"].tolist() == ["" if word is None else word for word in words]
        if "x" in back:
            assert [None if text == "" else float(text) for text in back["x"]] == numbers


# Types and notes


def typed(tmp_path: Path, values: list[str], kind: str | None = None, **options: object) -> tuple[Table, Table]:
    path = written(tmp_path, "\n".join(["x,y", *(f'"{value}",a' for value in values), ""]))
    given = {"csv": CsvOptions(**options), "columns": CsvColumns({"x": kind}, rest=False)}
    return io.read(path, **given), consume(path, **given)


@pytest.mark.parametrize(
    ("values", "type_", "note"),
    [
        (["1", "2", "NA"], "int64", None),
        (["1", " 2", "2.5"], "double", None),
        (["+5", "1e5", "nan"], "double", None),
        (["2020-01-01", ""], "date32[day]", None),
        (["2020-01-01 10:00:00", "2020-01-01"], "timestamp[s]", None),
        (["12:30", "12:31:10"], "time32[s]", None),
        (["True", "False"], "string", None),
        (["NA", ""], "string", None),
        (["01234", "99999"], "string", "1 of 2 values are digits that a number would not keep"),
        (["12345678901234567890", "2"], "string", "1 of 2 values are digits"),
        (["0x1F", "2"], "string", "1 of 2 values are digits"),
        ([*map(str, range(99)), "oops"], "string", "1 of 100 values are not numbers; read as categories"),
        (["1,5", "2,25", "3"], "string", "2 of 3 values are numbers with a decimal comma"),
        (["1,234.50", "2,000,000", "3.5"], "string", "2 of 3 values are numbers with separators of thousands"),
        (["a", "b", "1"], "string", None),
    ],
)
def test_types_are_inferred_without_a_loss(tmp_path: Path, values: list[str], type_: str, note: str | None) -> None:
    for table in typed(tmp_path, values):
        assert str(table.arrow("x").type) == type_
    notes = io.read(tmp_path / "t.csv", columns=CsvColumns({"x": None}, rest=False)).notes
    assert notes == io.open(tmp_path / "t.csv", columns=CsvColumns({"x": None}, rest=False)).notes
    assert (note is None and not notes) or note in notes[0]
    assert "oops" not in "".join(notes)


def test_notes_count_numbers_by_the_decimal_point_of_the_file(tmp_path: Path) -> None:
    options = CsvOptions(decimal=",")
    (tmp_path / "t.csv").write_text("x;y\n1,5;1.234,5\n2,5;2.000,25\n-;3,5\n")
    notes = io.read(tmp_path / "t.csv", csv=options).notes
    assert any("'x': 1 of 3 values are not numbers" in note for note in notes)
    assert any("'y': 2 of 3 values are numbers with separators of thousands" in note for note in notes)
    for name, hint in (("x", "nulls = "), ("y", "without separators of thousands")):
        columns = CsvColumns({name: "numeric"})
        assert hint in error_message(lambda columns=columns: io.read(tmp_path / "t.csv", csv=options, columns=columns))


@pytest.mark.parametrize(
    ("header", "count"),
    [
        ("31.12.1980,Anna,f", 1), ("000017,1980-12-31,x", 2), ("1234.5,12345,x", 2), ("12345,0.5,1e3", 2),
        ("id,age,sex", 0), ("year,2019,2020", 0), ("1,2,3", 0), ("Q1.2,v0.5,icd-10", 0),
    ],
)  # fmt: skip
def test_a_first_line_that_seems_to_be_a_record_is_pointed_out(tmp_path: Path, header: str, count: int) -> None:
    (tmp_path / "t.csv").write_text(f"{header}\n1,2,3\n")
    for notes in (io.read(tmp_path / "t.csv").notes, io.open(tmp_path / "t.csv").notes):
        found = [note for note in notes if "if the first line is a record" in note]
        assert len(found) == (count > 0)
        assert not count or f"{count} of 3 names of columns are numbers or dates" in found[0]
        assert not any(name in note for note in found for name in header.split(",") if len(name) > 3)


def test_a_kind_that_is_given_is_read_or_refused(tmp_path: Path) -> None:
    for table in typed(tmp_path, ["01", "2"], "numeric"):
        assert table.to_native()["x"].to_pylist() == [1, 2]
    assert "'x': kind numeric" in error_message(lambda: typed(tmp_path, ["1", "2", "oops"], "numeric"))
    assert "1 of 3 are not" in error_message(lambda: typed(tmp_path, ["1", "2", "oops"], "numeric"))
    assert "kind date" in error_message(lambda: typed(tmp_path, ["2020-01-01", "oops"], "date"))


def test_a_late_bad_cell_is_counted_over_all_batches(tmp_path: Path) -> None:
    path = written(tmp_path, "\n".join(["x,y", *(f"{i},{'a' * 50}" for i in range(200_000)), "oops,b", ""]))
    for notes in (io.read(path).notes, io.open(path).notes):
        assert any("'x': 1 of 200001 values are not numbers" in note for note in notes)


def test_options(tmp_path: Path) -> None:
    for table in typed(tmp_path, ["1,5", "2"], decimal=","):
        assert table.to_native()["x"].to_pylist() == [1.5, 2.0]
    for table in typed(tmp_path, ["1", "-9", "."], nulls=["-9", "."]):
        assert table.to_native()["x"].to_pylist() == [1, None, None]
    for table in typed(tmp_path, ["a", "-9", "NA"], "categorical", nulls=["-9"]):
        assert table.to_native()["x"].to_pylist() == ["a", None, "NA"]
    assert io.read(written(tmp_path, "a|b\n1|2\n"), csv=CsvOptions(separator="|")).names == ("a", "b")
    for bad in ({"separator": "\n"}, {"separator": "ab"}, {"encoding": "klingon"}, {"decimal": ";"}, {"odd": 1}):
        with pytest.raises(ValidationError):
            CsvOptions(**bad)


@pytest.mark.parametrize("use", [io.read, consume])
@pytest.mark.parametrize("encoding", ["latin-1", "windows-1252", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(tmp_path: Path, use, encoding: str) -> None:
    path = written(tmp_path, "name,n\njäne,1\n".encode(encoding))
    message = error_message(lambda: use(path))
    assert ("utf-16" if encoding.startswith("utf-16") else "latin-1") in message
    assert "UTF-8" in message
    table = use(path, csv=CsvOptions(encoding=encoding))
    assert table.to_native().to_pydict() == {"name": ["jäne"], "n": [1]}


# The recipe


def test_the_recipe_says_which_columns_are_converted() -> None:
    def columns(mask: dict[str, object]) -> CsvColumns:
        roles = {"p": "identifier", "q": "quasi", "s": "sensitive", "w": "weight", "o": "other"}
        specs = {name: {"role": role} for name, role in roles.items()} | {"z": {"role": "quasi", "kind": "categorical"}}
        return gpuanon.Recipe.load({"columns": specs, "mask": [mask], "csv": {"separator": ";"}}).csv_columns

    micro = {"method": "microaggregation", "k": 5}
    found = columns(micro)
    assert found.kinds == {"p": "categorical", "q": None, "s": None, "w": "numeric", "z": "categorical"}
    assert not found.rest
    noise = {"groups": {"use": "k-member", "k": 5}, "basis": {"use": "identity"}, "operation": {"use": "centroid"}}
    assert columns({**noise, "columns": "all"}).rest
    assert "o" in columns({**noise, "columns": ["q", "o"]}).kinds


def test_notes_are_warnings_of_the_manifest_and_the_command_line(tmp_path: Path) -> None:
    path, recipe = written(tmp_path, people({5: "P0005,old,note"}).replace(",", ";")), tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    result = protect_file(path, recipe, tmp_path / "release.csv")
    assert any("'age': 1 of 100 values are not numbers" in warning for warning in result["warnings"])
    loaded = gpuanon.Recipe.load(recipe)
    manifest = protect_in_parts(path, loaded, tmp_path / "parts", key=gpuanon.Key(b"k" * 32))
    assert manifest["warnings"] == result["warnings"]


def test_codes_are_pointed_out_by_check(tmp_path: Path) -> None:
    from gpuanon.engine.checking import checked

    lines = ["sex,age", *(f"{1 + i % 2},{i}" for i in range(60)), ""]
    recipe = tmp_path / "recipe.json"
    mask = '"mask": [{"method": "microaggregation", "k": 5}]'
    recipe.write_text('{"columns": {"sex": {"role": "quasi"}, "age": {"role": "quasi"}}, ' + mask + "}")
    notes = [
        line
        for line in checked(recipe, written(tmp_path, "\n".join(lines)), trial=False).lines()
        if line.startswith("note")
    ]
    assert len(notes) == 1
    assert "'sex': whole numbers with 2 distinct values" in notes[0]


def test_a_release_is_assessed_as_it_is_written_not_as_its_original_was(tmp_path: Path) -> None:
    from gpuanon.engine.assess import assess

    zips = ["01234", "99999", "88888"]
    rows = [f'{20 + i % 60};{zips[i % 3]};"a\nb"' for i in range(60)]
    original = written(tmp_path, "\n".join(["age;zip;note", *rows, ""]))
    recipe, output = tmp_path / "recipe.toml", tmp_path / "release.csv"
    recipe.write_text(
        'others = "keep"\n'
        '[columns]\nage = { role = "quasi" }\nzip = { role = "quasi" }\n[csv]\nseparator = ";"\nnewlines = true\n'
        '[[mask]]\nmethod = "microaggregation"\nk = 5\n'
    )
    protect_file(original, recipe, output)
    output.write_text("\n".join(line for line in output.read_text().replace("01234", "99999").split("\n")))
    found = assess(original, output, recipe, measures=("k_anonymity",), backend="numpy")
    assert found.measured["k_anonymity"].value >= 5


@pytest.mark.parametrize("header", ["", "a,b\n1,2\n"])
@pytest.mark.parametrize("fill", [b"1,", b"a"])
def test_a_line_without_an_end_is_refused_soon(tmp_path, header, fill):
    """Of four hundred megabytes that a few hundred kilobytes hold."""
    path = tmp_path / "line.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header.encode())
        for _ in range(20 if fill == b"1," and header else 400):
            file.write(fill * (1_000_000 // len(fill)))
    message = error_message(lambda: io.read(path), GpuanonError)
    assert "longer than 16 MB" in message or "the header has 2" in message
