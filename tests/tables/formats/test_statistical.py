"""Files of Stata, SPSS, SAS and spreadsheets: labels become categories and come back; written files are verified."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pyarrow as pa
import pyreadstat
import pytest

import gpuanon
from gpuanon.engine.protect import protect_file
from gpuanon.errors import GpuanonError
from gpuanon.tables.formats import io
from gpuanon.tables.table import Table
from tests.support.workbook import workbook

N = 60
LABELS = {"sex": {1: "male", 2: "female"}, "area": {10: "rural", 5: "urban", 7: "coast"}, "age": {99: "unknown"}}
RECIPE = """
[columns]
sex  = { role = "quasi" }
area = { role = "quasi" }
age  = { role = "quasi" }
born = { role = "other" }
name = { role = "identifier" }
[[mask]]
method = "microaggregation"
k = 5
"""


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "sex": rng.integers(1, 3, N).astype(float),
            "area": rng.choice([5.0, 7.0, 10.0], N),
            "age": rng.integers(20, 80, N).astype(float),
            "born": [dt.date(1950, 1, 1) + dt.timedelta(int(day)) for day in rng.integers(0, 9000, N)],
            "name": [f"person {at}" for at in range(N)],
        }
    )


def written(folder, frame, suffix):
    path = folder / f"survey.{suffix}"
    write = {"dta": pyreadstat.write_dta, "sav": pyreadstat.write_sav}[suffix]
    write(frame, path, variable_value_labels=LABELS)
    return path


@pytest.mark.parametrize("suffix", ["dta", "sav"])
def test_value_labels_become_categories_in_the_order_of_their_codes(tmp_path, frame, suffix):
    table = io.read(written(tmp_path, frame, suffix))
    area = table.arrow("area").combine_chunks()
    assert area.dictionary.to_pylist() == ["urban", "coast", "rural"]
    assert area.to_pylist() == [LABELS["area"][int(code)] for code in frame["area"]]
    assert table.arrow("age").to_pylist() == frame["age"].to_list()  # only a missing value has a label
    assert any("'age'" in note for note in table.notes)
    assert table.arrow("born").to_pylist() == frame["born"].to_list()


@pytest.mark.parametrize("suffix", ["dta", "sav"])
def test_a_release_has_its_labels_again_and_is_verified_as_written(tmp_path, frame, suffix):
    source = written(tmp_path, frame, suffix)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    result = protect_file(source, tmp_path / "recipe.toml", tmp_path / f"release.{suffix}")
    read = {"dta": pyreadstat.read_dta, "sav": pyreadstat.read_sav}[suffix]
    released, about = read(tmp_path / f"release.{suffix}", output_format="polars")
    assert "name" not in released.columns
    assert set(about.variable_value_labels["area"].values()) <= {"urban", "coast", "rural"}
    counts = released.group_by(["sex", "area", "age"]).len()["len"]
    assert counts.min() == result["quasi"]["smallest_class"] >= 5


def test_sas_transport_files_are_read_and_not_written(tmp_path, frame):
    pyreadstat.write_xport(frame.select("sex", "age"), tmp_path / "t.xpt")
    assert io.read(tmp_path / "t.xpt").arrow("age").to_pylist() == frame["age"].to_list()
    with pytest.raises(GpuanonError, match="read, not written"):
        io.check_output(tmp_path / "out.xpt")


def test_a_spreadsheet_is_read(tmp_path):
    workbook(tmp_path / "t.xlsx", [["age", "sex"], [30, "f"], [41.5, "m"]])
    table = io.read(tmp_path / "t.xlsx")
    assert table.to_arrow().to_pydict() == {"age": [30.0, 41.5], "sex": ["f", "m"]}
    assert gpuanon.propose(table).columns["sex"].role == "quasi"


@pytest.mark.parametrize("suffix", ["dta", "sav", "sas7bdat", "xlsx"])
def test_what_is_no_such_file_is_one_message(tmp_path, suffix):
    (tmp_path / f"t.{suffix}").write_bytes(b"secret, not a file of that kind")
    with pytest.raises(GpuanonError) as failed:
        io.read(tmp_path / f"t.{suffix}")
    assert "secret" not in str(failed.value)
    assert f"t.{suffix}" in str(failed.value)


def test_a_missing_library_is_named_with_what_installs_it(tmp_path, frame, monkeypatch):
    path = written(tmp_path, frame, "sav")
    monkeypatch.setitem(__import__("sys").modules, "pyreadstat", None)
    with pytest.raises(GpuanonError, match=r"gpuanon\[formats\]"):
        io.read(path)


def test_an_opened_file_gives_its_rows_in_batches(tmp_path, frame):
    opened = io.open(written(tmp_path, frame, "sav"))
    assert opened.rows == N
    assert sum(batch.n_rows for batch in opened.batches(25)) == N


def test_other_types_become_numbers(tmp_path):
    """Integers and booleans of a release become numbers, as these formats have nothing else."""
    table = pa.table({"flag": [True, False], "count": [1, 2]})
    with io.Writing() as out:
        out.table(tmp_path / "t.sav", Table.of(table))
    assert io.read(tmp_path / "t.sav").to_arrow().to_pydict() == {"flag": [1.0, 0.0], "count": [1.0, 2.0]}
