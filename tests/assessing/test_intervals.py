"""Ranges of statistics from released boxes: of tables, files and pieces, and as a measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.assessing.intervals.ranges_of_statistics import PlainValues, ReleasedBoxes
from gpuanon.cli.app import app
from gpuanon.errors import InputError, ParameterError
from gpuanon.tables.statistics import Statistic, expand
from gpuanon.tables.table import Table

KEY = Key(b"intervals tests, sixteen or more")
COLUMNS = {"age": {"role": "quasi"}, "income": {"role": "quasi"}, "cost": {"role": "other"}}
RECIPE: dict[str, Any] = {"columns": COLUMNS, "mask": [{"method": "mondrian", "k": 5, "release": "interval"}]}


def table(n: int = 300) -> pa.Table:
    rng = np.random.default_rng(0)
    age = np.round(rng.normal(50, 10, size=n))
    return pa.table({"age": age, "income": np.round(age * 300 + rng.normal(0, 3000, size=n)), "cost": rng.random(n)})


def release(original: pa.Table) -> Any:
    return gpuanon.protect(original, RECIPE, rng=KEY, backend="numpy").data


def test_every_interval_release_gives_ranges_that_hold() -> None:
    original = table()
    found = gpuanon.intervals(release(original), ["mean", "regression(income ~ age)", "covariance(age, cost)"])
    age, income, cost = (original[name].to_numpy() for name in ("age", "income", "cost"))
    slope = np.polyfit(age, income, 1)
    truth = {
        "mean(age)": age.mean(),
        "regression(income ~ age): age": slope[0],
        "regression(income ~ age): constant": slope[1],
        "covariance(age, cost)": np.cov(age, cost, bias=True)[0, 1],  # a column that was released as it is
    }
    for name, value in truth.items():
        low, high = found[name]
        assert low <= value <= high
    assert found.records == 300
    assert found.columns == ("age", "income")


def test_pieces_give_the_same_boxes() -> None:
    released = release(table())
    whole = ReleasedBoxes.of(Table.of(released))
    pieces = ReleasedBoxes.over([Table.of(released.slice(at, 70)) for at in range(0, 300, 70)])
    assert pieces.rows == whole.rows == 300
    assert whole.chosen(["age"]).mean(0) == pieces.chosen(["age"]).mean(0)


def test_records_without_a_box_are_left_out() -> None:
    data = pa.table({"age_low": [1.0, None, 3.0], "age_high": [2.0, None, 5.0]})
    found = gpuanon.intervals(data, "mean")
    assert (found.ranges[0].low, found.ranges[0].high, found.ranges[0].records) == (2.0, 3.5, 2)


def test_the_command_prints_strict_json_and_says_how(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x_low": [0.0, 0.0], "x_high": [1.0, 1.0], "y": [1.0, 2.0]}), tmp_path / "boxes.parquet")
    command = [
        "intervals",
        str(tmp_path / "boxes.parquet"),
        "--statistic",
        "mean",
        "--statistic",
        "regression(y ~ x)",
        "--json",
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["intervals"][0] == {"statistic": "mean(x)", "low": 0.0, "high": 1.0, "records": 2, "how": "exact"}
    assert found["intervals"][2]["low"] is None  # x may be constant: nothing is known of the slope
    plain = CliRunner().invoke(app, command[:-1])
    assert "mean(x)" in plain.stdout


def test_a_release_of_fewer_records_says_so(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "table.parquet")
    recipe = {"columns": COLUMNS, "mask": [{"method": "optimal-boxes", "k": 5, "dismiss": True}]}
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    command = ["protect", "table.parquet", "recipe.json", "-o", "boxes.parquet", "--backend", "numpy", "--quiet"]
    done = CliRunner().invoke(app, [str(tmp_path / part) if "." in part else part for part in command])
    assert done.exit_code == 0
    found = gpuanon.intervals(tmp_path / "boxes.parquet", "mean")
    assert "were not released" in found.notes[0]


def test_a_table_without_boxes_is_refused() -> None:
    with pytest.raises(InputError, match="no boxes"):
        gpuanon.intervals(table())


def test_the_measure_is_the_width_of_the_ranges() -> None:
    original = table()
    released = release(original)
    figure = gpuanon.assess(original, released, RECIPE, measures=["interval_statistics"]).to_json()["utility"]
    found = figure["interval_statistics"]
    low, high = gpuanon.intervals(released, "covariance(age, income)").ranges[0].low, None
    high = gpuanon.intervals(released, "covariance(age, income)").ranges[0].high
    unit = original["age"].to_numpy().std() * original["income"].to_numpy().std()
    assert found["value"] == pytest.approx((high - low) / unit)
    assert found["outside"] == 0
    low, high = gpuanon.intervals(released, "mean(age)")["mean(age)"]
    assert found["by_column"]["age"] == pytest.approx((high - low) / original["age"].to_numpy().std())


def test_the_measure_says_when_the_original_is_outside() -> None:
    original = table()
    moved = release(original).set_column(0, "age_low", pa.array(np.full(300, 500.0)))
    moved = moved.set_column(1, "age_high", pa.array(np.full(300, 501.0)))
    figure = gpuanon.assess(original, moved, RECIPE, measures=["interval_statistics"]).to_json()["utility"]
    assert figure["interval_statistics"]["outside"] >= 1
    assert "may differ" in figure["interval_statistics"]["note"]


def test_statistics_are_read_from_text() -> None:
    assert str(Statistic.parse(" covariance( age ,income)")) == "covariance(age, income)"
    assert Statistic.parse("regression(y ~ a + b)").columns == ("y", "a", "b")
    assert [str(found) for found in expand(["mean", "covariance", "mean(a)"], ["a", "b"])] == [
        "mean(a)",
        "mean(b)",
        "covariance(a, b)",
    ]


@pytest.mark.parametrize("text", ["mode", "mean(a, b)", "covariance(a, a)", "mean(a", "regression", "regression(y ~)"])
def test_what_is_no_statistic_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="statistic"):
        Statistic.parse(text)


def test_a_release_without_intervals_is_not_searched() -> None:
    """Boxes of no width have one covariance: that of NumPy, inside what the search would find."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=200)
    data = Table.of(pa.table({"a": x, "b": x + rng.normal(size=200)}))
    held, plain = ReleasedBoxes.of(data), PlainValues.over([ReleasedBoxes.each(data)])
    assert plain is not None
    exact = plain.covariance("a", "b")
    low, high = held.covariance("a", "b")
    assert exact[0] == exact[1] == pytest.approx(np.cov(held.low[:, 0], held.low[:, 1], bias=True)[0, 1], rel=1e-12)
    assert low - 1e-12 <= exact[0] <= high + 1e-12
