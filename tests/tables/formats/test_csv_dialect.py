"""A CSV comes out as it went in: separator, encoding, decimal sign, thousands, per cent, dates, words for no value."""

import csv
import io
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpuanon.engine.assess import assess
from gpuanon.engine.protect import protect_file as protected
from gpuanon.errors import InputError
from gpuanon.proposing.dialogue import examine_file
from gpuanon.proposing.proposal import assembled
from gpuanon.proposing.purposes import purpose_of
from gpuanon.tables.formats.csv.csv_dialect import read_any
from gpuanon.tables.formats.csv.csv_styles import ColumnStyle, CsvDialect, plain_dates, plain_numbers

N = 300


def protect_file(source, recipe, output):
    """As the command line does it."""
    path = output.with_suffix(".json")
    path.write_text(json.dumps(recipe))
    protected(source, path, output)


def european(encoding="cp1252", line_end="\r\n"):
    rng = np.random.default_rng(5)
    amounts = [f"{whole:,}".replace(",", ".") + f",{cents:02d}" for whole, cents in
               zip(rng.integers(200, 90_000, N), rng.integers(0, 100, N), strict=True)]  # fmt: skip
    lines = ["größe;betrag;anteil;geburt;stadt;kinder"]
    for at in range(N):
        birth = f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.{rng.integers(1940, 2005)}"
        children = "k.A." if at % 7 == 0 else rng.integers(0, 2000)
        city = ["München", "Köln; Nord", 'das "Dorf"'][at % 3]
        lines.append(
            f"{150 + rng.integers(0, 50)},{rng.integers(0, 10)};{amounts[at]};{rng.integers(0, 100)},5 %;{birth};"
            + '"' + city.replace('"', '""') + f'";{children}'
        )  # fmt: skip
    return line_end.join([*lines, ""]).encode(encoding)


PATTERNS = {
    "größe": r"\d+,\d",
    "betrag": r"\d{1,3}(\.\d{3})*,\d\d",
    "anteil": r"\d+,5 %|\d+(,\d+)? %",
    "geburt": r"\d\d\.\d\d\.\d{4}",
    "kinder": r"\d+|k\.A\.",
}


@pytest.mark.parametrize("mask", ["microaggregation", "sequential-synthesis"])
def test_a_european_csv_comes_out_in_its_own_dialect(tmp_path, mask):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(european())
    _, findings = examine_file(source, purpose_of(None))
    options = findings.csv
    assert (options.encoding, options.decimal, options.thousands, options.percent, options.dates) == (
        "cp1252", ",", ".", True, "DD.MM.YYYY")  # fmt: skip
    proposal = assembled(findings)
    columns = {name: spec.model_dump(exclude_defaults=True, mode="json") for name, spec in proposal.columns.items()}
    columns["stadt"] = {"role": "other"}  # kept beside masked ones
    method = {"method": mask, "columns": [name for name in columns if name != "stadt"]}
    method |= {"k": 5} if mask == "microaggregation" else {}
    if mask == "sequential-synthesis":
        columns["stadt"] = {"role": "quasi"}
        method["columns"].append("stadt")
    recipe = {"columns": columns, "mask": [method], "csv": options.model_dump(exclude_defaults=True, mode="json")}
    protect_file(source, recipe, output)
    raw = output.read_bytes()
    assert raw.count(b"\r\n") == N + 1
    assert raw.count(b"\n") == N + 1
    released = pd.read_csv(output, sep=";", encoding="cp1252", dtype=str, keep_default_na=False)
    original = pd.read_csv(source, sep=";", encoding="cp1252", dtype=str, keep_default_na=False)
    assert list(released) == list(original)
    for name, pattern in PATTERNS.items():
        wrong = [value for value in released[name] if not re.fullmatch(pattern, value)]
        assert not wrong, name
    assert set(released.stadt) <= set(original.stadt)
    share = (released.kinder == "k.A.").mean()
    assert share == pytest.approx((original.kinder == "k.A.").mean(), abs=0.08)

    def mean(frame):
        return frame.betrag.str.replace(".", "").str.replace(",", ".").astype(float).mean()

    assert mean(released) == pytest.approx(mean(original), rel=0.15)
    found = assess(source, output, recipe, measures=("marginals",), backend="numpy")
    assert found.measured["marginals"].value > 700


def test_american_dates_and_thousands_are_read_and_written_back(tmp_path):
    rng = np.random.default_rng(6)
    days = [f"{rng.integers(1, 13):02d}/{rng.integers(1, 29):02d}/{rng.integers(1990, 2020)}" for _ in range(N)]
    rows = [f'{day},"{rng.integers(1, 10**6):,}"' for day in days]
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("\n".join(["visit,cost", *rows, ""]))
    table, options, _ = read_any(source)
    assert (options.dates, options.thousands, options.decimal) == ("MM/DD/YYYY", ",", ".")
    expected = pd.read_csv(source, thousands=",")
    assert table.arrow("cost").to_pylist() == expected.cost.tolist()
    dates = pd.to_datetime(expected.visit, format="%m/%d/%Y")
    assert [str(day) for day in table.arrow("visit").to_pylist()] == dates.dt.strftime("%Y-%m-%d").tolist()
    columns = {"visit": {"role": "quasi", "kind": "date"}, "cost": {"role": "quasi"}}
    recipe = {"columns": columns, "mask": [{"method": "microaggregation", "k": 3}],
              "csv": options.model_dump(exclude_defaults=True)}  # fmt: skip
    protect_file(source, recipe, output)
    released = pd.read_csv(output, thousands=",")
    assert pd.to_datetime(released.visit, format="%m/%d/%Y").dt.year.between(1990, 2020).all()
    assert released.cost.mean() == pytest.approx(expected.cost.mean(), rel=0.01)
    assert released.groupby(["visit", "cost"]).size().min() >= 3


def test_not_applicable_comes_back_and_a_blanked_cell_is_empty(tmp_path):
    rng = np.random.default_rng(7)
    ages = rng.integers(0, 90, N)
    rows = [f"{age},{'N' if age < 15 else rng.integers(0, 60_000)}" for age in ages]
    source = tmp_path / "in.csv"
    source.write_text("\n".join(["age,income", *rows, ""]))
    _, _, missing = read_any(source)
    assert missing == {"income": ("N",)}
    columns = {"age": {"role": "quasi"}, "income": {"role": "quasi", "kind": "numeric", "missing": ["N"]}}
    made = {}
    for method in ({"method": "microaggregation", "k": 3}, {"method": "random-suppress", "k": 2}):
        output = tmp_path / f"{method['method']}.csv"
        protect_file(source, {"columns": columns, "mask": [method]}, output)
        made[method["method"]] = pd.read_csv(output, dtype=str, keep_default_na=False)
    kept = made["microaggregation"]
    assert set(kept.income[~kept.income.str.fullmatch(r"\d+")]) == {"N"}
    assert (kept.income == "N").sum() == pytest.approx((ages < 15).sum(), abs=6)
    blanked = made["random-suppress"]
    assert (blanked.income == "").any()
    assert not (blanked.income == "N").any()  # what is blanked could not be told from what is not applicable


def test_codes_that_are_called_missing_are_refused_where_they_were_not_read_so():
    import gpuanon

    frame = pd.DataFrame({"age": [20, 30, -9, 40] * 10})
    recipe = {"columns": {"age": {"role": "quasi", "missing": [-9]}}, "mask": [{"method": "microaggregation", "k": 2}]}
    with pytest.raises(InputError, match="'age': 10 rows hold what is called missing"):
        gpuanon.protect(frame, recipe)


@pytest.mark.parametrize(
    ("text", "decimal", "thousands", "percent", "plain"),
    [
        ("1.234,5", ",", ".", False, "1234.5"), ("1,234.5", ".", ",", False, "1234.5"),
        ("12,5 %", ",", None, True, "12.5"), ("1 234 567", ".", " ", False, "1234567"),
        ("1.5", ",", ".", False, "1_5"), ("12'345.60", ".", "'", False, "12345.60"),
        ("-3,25", ",", ".", False, "-3.25"), ("1.2345", ",", ".", False, "1_2345"),
    ],
)  # fmt: skip
def test_numbers_lose_their_notation_and_nothing_else(text, decimal, thousands, percent, plain):
    import pyarrow as pa

    found = plain_numbers(pa.chunked_array([pa.array([text])]), decimal, thousands, percent)
    assert found.to_pylist() == [plain]


@pytest.mark.parametrize(
    ("values", "order", "expected"),
    [
        (["31.12.2020", "01.02.1999"], "DD.MM.YYYY", ["2020-12-31", "1999-02-01"]),
        (["1.2.1999", "11.12.2020"], "DD.MM.YYYY", ["1999-02-01", "2020-12-11"]),
        (["12/31/2020"], "MM/DD/YYYY", ["2020-12-31"]), (["12/31/2020"], "DD/MM/YYYY", None),
        (["31.02.2020"], "DD.MM.YYYY", None), (["1.02.2020", "11.3.2020"], "DD.MM.YYYY", None),
    ],
)  # fmt: skip
def test_dates_are_read_where_they_can_be_written_again(values, order, expected):
    import pyarrow as pa

    found = plain_dates(pa.chunked_array([pa.array(values)]), order)
    assert (None if found is None else found.to_pylist()) == expected


def test_a_style_writes_every_number_that_it_reads():
    import pyarrow as pa

    rng = np.random.default_rng(8)
    values = np.concatenate([rng.normal(0, 10**6, 200).round(2), [0.0, -1.5, 999.99, 1000.0, -1000.25, 1e15]])
    for decimals in (None, 2):
        style = ColumnStyle(",", ".", decimals=decimals)
        texts = style.texts(pa.chunked_array([pa.array(values)]))
        again = plain_numbers(texts, ",", ".", False).cast(pa.float64())
        assert again.to_pylist() == values.tolist()


def test_decimals_that_all_values_have_come_back(tmp_path):
    rng = np.random.default_rng(9)
    rows = [
        f"{rng.integers(1, 6)}.0,{rng.integers(100, 900) / 100:.2f},{rng.normal():.{at % 5 + 1}f}" for at in range(N)
    ]
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("\n".join(["scale,price,free", *rows, ""]))
    columns = {name: {"role": "quasi"} for name in ("price", "free")} | {"scale": {"role": "quasi", "kind": "ordinal"}}
    protect_file(source, {"columns": columns, "mask": [{"method": "microaggregation", "k": 3}]}, output)
    released = pd.read_csv(output, dtype=str)
    assert set(released.scale) <= {"1.0", "2.0", "3.0", "4.0", "5.0"}
    assert released.price.str.fullmatch(r"\d\.\d\d").all()
    assert '"' not in output.read_text()


def test_bands_that_a_recipe_calls_ordinal_are_no_reason_for_a_warning(tmp_path):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    hours = ["<5", "5", "6", "7", "10+"]
    source.write_text("\n".join(["age,sleep", *(f"{20 + at % 50},{hours[at % 5]}" for at in range(N)), ""]))
    columns = {"age": {"role": "quasi"}, "sleep": {"role": "quasi", "kind": "ordinal", "levels": hours}}
    protect_file(source, {"columns": columns, "mask": [{"method": "microaggregation", "k": 5}]}, output)
    assert json.loads((tmp_path / "out.csv.manifest.json").read_text())["warnings"] == []
    assert set(pd.read_csv(output, dtype=str).sleep) <= set(hours)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_plain_csv_has_no_quotes_that_it_did_not_have(tmp_path, line_end):
    rng = np.random.default_rng(2)
    rows = [f"{rng.integers(20, 60)},{'abc'[at % 3]},{'x y' if at % 2 else ''}" for at in range(60)]
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(line_end.join(["age,level,note", *rows, ""]).encode())
    columns = {"age": {"role": "quasi"}, "level": {"role": "quasi"}, "note": {"role": "other"}}
    protect_file(
        source, {"columns": columns, "mask": [{"method": "microaggregation", "k": 3}], "nulls": "category"}, output
    )
    written = output.read_bytes().decode()
    assert '"' not in written
    assert written.split(line_end)[0] == "age,level,note"
    assert written.count(line_end) == 61 == written.count("\n")


def test_texts_are_quoted_where_a_reader_needs_it():
    texts = ["a,b", 'say "x"', "two\nlines", " led", "", None, "plain"]
    rows = pa.table({"t": texts, "d": pa.array(texts).dictionary_encode(), "n": range(7)})
    dialect = CsvDialect()
    written = (dialect.header(rows.column_names) + bytes(dialect.lines(rows))).decode()
    read = list(csv.reader(io.StringIO(written)))
    assert read[1:] == [[text or "", text or "", str(at)] for at, text in enumerate(texts)]
    assert written.splitlines()[-1] == "plain,plain,6"
    assert written.splitlines()[-2] == ",,5"
    assert written.splitlines()[-3] == '"","",4'
