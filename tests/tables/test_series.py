"""Repeated measurements as one row for each person, against pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpuanon.errors import InputError
from gpuanon.tables.series import Aligned, Series, chosen_points, labels
from gpuanon.tables.table import Table
from tests.support.frames import KINDS, as_kind
from tests.support.repeated import measurements, pivoted


def widened(records, least=2, **settings):
    series = Series(**{"time": "week", "columns": ("weight", "state"), **settings})
    aligned = Aligned.of(Table.of(records), "patient", series)
    points = chosen_points(aligned.counts(), series, least)
    return aligned.wide(series, points), labels(points, aligned.dates)


def arrow(records):
    return Table.of(records).to_arrow()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_persons_are_those_of_a_pivot_in_the_order_of_first_records(kind):
    records = measurements(60)
    wide, times = widened(as_kind(arrow(records), kind))
    assert times == tuple("012345")
    assert type(wide.to_native()) is type(as_kind(arrow(records), kind))
    found = wide.to_arrow()
    assert found["patient"].to_pylist() == records["patient"].drop_duplicates().tolist()
    first = records.drop_duplicates("patient")
    assert found["age"].to_pylist() == first["age"].tolist()
    for column in ("weight", "state"):
        expected = pivoted(records, column)
        for week in range(6):
            values = pd.Series(found[f"{column}_{week}"].to_pylist(), dtype=object)
            known = expected[week].notna().to_numpy()
            assert (values.notna().to_numpy() == known).all()
            assert values[known].tolist() == expected[week][known].tolist()
    assert "week" not in found.column_names


def test_types_survive():
    records = measurements(40)
    table = arrow(records.assign(state=records["state"].astype("category"), weight=records["weight"].round()))
    table = table.set_column(3, "weight", table["weight"].cast("int16"))
    wide, _ = widened(table)
    assert str(wide.to_arrow()["weight_0"].type) == "int16"
    assert wide.to_arrow()["state_0"].type == table["state"].type


def test_times_may_count_from_the_first_record_of_a_person():
    records = measurements(50, missing=0)
    start = records.groupby("patient")["week"].transform("size") * 0 + records["patient"].str[-2:].astype(int)
    shifted = records.assign(week=records["week"] + start)
    wide, times = widened(shifted, origin="person")
    assert times == tuple("012345")
    straight, _ = widened(records)
    assert wide.to_arrow().equals(straight.to_arrow())


def test_dates_are_days_and_steps_put_them_together():
    records = measurements(50, missing=0)
    dates = pd.Timestamp("2020-01-01 08:30") + pd.to_timedelta(records["week"] * 7, "D")
    wide, times = widened(arrow(records.assign(week=dates)), least=2)
    assert times[:2] == ("2020-01-01", "2020-01-08")
    assert len(times) == 6
    wide, times = widened(arrow(records.assign(week=dates)), origin="person", step=14.0, several="last")
    assert times == ("0", "14", "28")
    assert np.allclose(wide.to_arrow()["weight_14"], pivoted(records, "weight")[3])
    with pytest.raises(InputError, match="whole days"):
        widened(arrow(records.assign(week=dates)), step=0.5)


@pytest.mark.parametrize("which", ["first", "last", "mean"])
def test_of_several_records_at_one_time_the_recipe_says_which_stands(which):
    records = measurements(50, missing=0.2)
    columns = ("weight",) if which == "mean" else ("weight", "state")
    given = records.drop(columns="state") if which == "mean" else records
    wide, times = widened(given, step=2, several=which, columns=columns)
    assert times == ("0", "2", "4")
    ordered = records.sort_values("week", kind="stable")
    grouped = ordered.assign(week=ordered["week"] // 2 * 2).groupby(["patient", "week"])["weight"]
    expected = grouped.agg(which).unstack().loc[records["patient"].drop_duplicates()]
    for week in (0, 2, 4):
        values = pd.Series(wide.to_arrow()[f"weight_{week}"].to_pylist(), dtype=float).to_numpy()
        assert np.allclose(values, expected[week], equal_nan=True)
    with pytest.raises(InputError, match="several records at one time"):
        widened(given, step=2, columns=columns)


def test_a_column_that_varies_is_refused_with_the_number_of_persons():
    records = measurements(50, missing=0)
    records.loc[records["patient"].isin(["patient 00003", "patient 00004"]) & (records["week"] == 2), "age"] = 99
    with pytest.raises(InputError, match="'age' varies between the records of 2 persons"):
        widened(records)
    records = measurements(50, missing=0)
    records["age"] = records["age"].where(records["patient"] != "patient 00003")
    widened(records)  # always null is always the same


def test_times_of_few_persons_do_not_become_names():
    records = measurements(50, missing=0)
    late = records.loc[records["week"] == 5].head(3).assign(week=99)
    with pytest.raises(InputError, match="1 of 7 times are those of fewer than 4 persons"):
        widened(pd.concat([records, late]), least=4)
    wide, times = widened(pd.concat([records, late]), least=4, rare="drop")
    assert times == tuple("012345")
    assert wide.n_rows == 50


def test_times_must_be_numbers_or_dates_and_there():
    records = measurements(20)
    with pytest.raises(InputError, match="number or a date"):
        widened(records.assign(week=records["week"].astype(str)))
    with pytest.raises(InputError, match="empty in 20 records"):
        widened(records.assign(week=records["week"].astype(float).where(records["week"] > 0)))
    with pytest.raises(InputError, match="'weight_1' is there already"):
        widened(records.assign(weight_1=1))
    with pytest.raises(InputError, match="for numbers"):
        widened(records, several="mean")
