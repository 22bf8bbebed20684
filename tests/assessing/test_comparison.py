"""Releases whose rows or columns are not those of the original: added, dropped and new rows, intervals, labels."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.assessing.comparison import Comparison, points_of
from gpuanon.assessing.measures import MEASURES, by_name
from gpuanon.assessing.streams import Pieces
from gpuanon.errors import InputError
from gpuanon.running.assess import assess, measure
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import recipe, registry

ROWS = 240
NAMES = tuple(measure.name for measure in MEASURES)
COLUMNS = {
    "age": {"role": "quasi"},
    "born": {"role": "quasi", "kind": "date"},
    "school": {"role": "quasi", "kind": "ordinal", "levels": ["none", "primary", "secondary", "tertiary"]},
    "zip": {"role": "quasi"},
    "cost": {"role": "sensitive"},
}
RULES = {"columns": COLUMNS, "others": "keep", "mask": [{"method": "microaggregation", "k": 3}], "nulls": "indicator"}


def people(rows: int = 90) -> pa.Table:
    rng = np.random.default_rng(5)
    day = datetime.date(1950, 1, 1)
    return pa.table(
        {
            "age": rng.integers(18, 90, rows),
            "born": [day + datetime.timedelta(days=int(d)) for d in rng.integers(0, 20000, rows)],
            "school": rng.choice(["none", "primary", "secondary", "tertiary"], rows),
            "zip": rng.choice(["1010", "1020", "2020"], rows),
            "cost": rng.normal(size=rows),
        }
    )


def boxes(table: pa.Table, size: int = 3) -> tuple[pa.Table, np.ndarray]:
    """Age, birth and school as intervals of `size` records in the order of age, and the link."""
    order = np.argsort(table["age"].to_numpy(), kind="stable")
    ordered = table.take(pa.array(order))
    frame = ordered.to_pandas()
    rank = frame["school"].map({level: code for code, level in enumerate(COLUMNS["school"]["levels"])})
    group = np.arange(len(order)) // size
    levels = np.array(COLUMNS["school"]["levels"])
    out = {"zip": ordered["zip"], "cost": ordered["cost"]}
    for end, pick in (("low", "min"), ("high", "max")):
        out[f"age_{end}"] = pa.array(frame.groupby(group)["age"].transform(pick))
        out[f"born_{end}"] = pa.array(frame["born"].groupby(group).transform(pick).tolist(), pa.date32())
        out[f"school_{end}"] = pa.array(levels[rank.groupby(group).transform(pick)])
    return pa.table(out), order


def test_midpoints_of_numbers_dates_and_levels() -> None:
    day = datetime.date
    release = pa.table(
        {
            "age_low": [20, 30, None],
            "age_high": [25, 30, 40],
            "born_low": [day(1960, 1, 1), day(1960, 1, 1), None],
            "born_high": [day(1960, 1, 3), day(1960, 1, 1), None],
            "school_low": ["none", "primary", "secondary"],
            "school_high": ["tertiary", "primary", "tertiary"],
            "zip": ["1010"] * 3,
            "cost": [0.0] * 3,
        }
    )
    points = points_of(Table.of(release), Schema.infer(Table.of(people()), COLUMNS))
    assert points.arrow("age").to_pylist() == [22.5, 30, None]
    assert points.arrow("born").to_pylist() == [day(1960, 1, 2), day(1960, 1, 1), None]
    assert points.arrow("school").to_pylist() == ["primary", "primary", "secondary"]
    assert set(points.names) == set(COLUMNS)
    whole = Table.of(people())
    assert points_of(whole, Schema.infer(whole, COLUMNS)) is whole


@pytest.mark.parametrize("streamed", [False, True])
def test_a_release_of_intervals_is_assessed_like_any_other(streamed: bool) -> None:
    table = people()
    release, link = boxes(table)
    schema = Schema.resolve(Table.of(table), COLUMNS)
    found = measure(
        Pieces.of(Table.of(table)), Pieces.of(Table.of(release)), schema, NAMES, link=link,
        sample_rows=10**6 if streamed else None,
    )  # fmt: skip
    expected = {name for name in NAMES if not streamed or by_name()[name].scaling != "whole"}
    assert set(found.measured) == expected - {"individual_risk", "reference_standard", "household_risk", "analysis"}
    groups = release.group_by([name for name in release.column_names if name != "cost"]).aggregate([([], "count_all")])
    sizes = groups["count_all"].to_numpy()
    assert found.measured["k_anonymity"].value == sizes.min()
    assert found.measured["k_anonymity"].details["classes"] == len(sizes)
    assert 0 < found.measured["information_loss"].to_json()["by_column"]["age"] < 20
    assert found.measured["records_changed"].to_json()["by_column"]["zip"] == 0
    json.dumps(found.to_json(), allow_nan=False)


def test_classes_are_counted_on_both_ends_of_an_interval() -> None:
    """Two boxes with the same middle are two classes."""
    table = people(4)
    release = table.drop_columns(["age"]).take(pa.array([0, 0, 0, 0]))
    release = release.append_column("age_low", pa.array([20, 20, 30, 30]))
    release = release.append_column("age_high", pa.array([60, 60, 50, 50]))
    found = assess(table, release, RULES, measures=["k_anonymity"])
    assert found.measured["k_anonymity"].value == 2


@pytest.mark.parametrize("streamed", [False, True])
def test_labels_in_place_of_numbers_compare_by_equality_and_the_rest_says_why_not(streamed: bool) -> None:
    table = people()
    ages = [f"{age // 10 * 10}-{age // 10 * 10 + 9}" for age in table["age"].to_pylist()]
    release = table.set_column(0, "age", pa.array(ages))
    found = assess(table, release, RULES, link=np.arange(90), sample_rows=10**6 if streamed else None)
    by_codes = {"k_anonymity", "uniqueness", "records_changed", "histogram_intersection"}
    assert by_codes <= set(found.measured)
    assert found.measured["records_changed"].to_json()["by_column"] == {
        "age": 1.0, "born": 0.0, "school": 0.0, "zip": 0.0, "cost": 0.0,
    }  # fmt: skip
    for name in ("means", "reidentification", "information_loss", "ks", "pmse_logit", "kl"):
        assert "column 'age': released as text where the original holds numbers" in found.failed[name]
    assert not [label for label in ages if label in str(found.failed)]


def test_labels_of_a_hierarchy_are_no_levels_of_the_original() -> None:
    table = people()
    zips = [code[:2] + "**" for code in table["zip"].to_pylist()]
    release = table.set_column(table.column_names.index("zip"), "zip", pa.array(zips))
    found = assess(table, release, RULES, link=np.arange(90))
    assert "column 'zip': 2 released labels are not in the original" in found.failed["means"]
    assert found.measured["records_changed"].to_json()["worst"] == "zip"
    assert {"l_diversity", "kl", "pmse_cart"} <= set(found.measured)
    assert "10**" not in str(found.failed)


def test_a_column_that_is_wholly_suppressed_still_compares() -> None:
    table = people()
    for name in ("age", "zip", "school"):
        release = table.set_column(table.column_names.index(name), name, pa.nulls(90))
        found = assess(table, release, RULES, link=np.arange(90), measures=("k_anonymity", "means", "records_changed"))
        assert found.failed == {}, name
        assert found.measured["records_changed"].to_json()["by_column"][name] == 1


def of_link(kind: str) -> tuple[pa.Table, np.ndarray]:
    table = registry(ROWS)
    release = gpuanon.protect(table, recipe("permute"), rng=1, backend="numpy")
    rows = np.arange(ROWS)
    if kind == "dropped":
        rows = rows[::2]
    if kind == "added":
        rows = np.concatenate([rows, rows[:30]])
    link = release.link[rows]
    if kind == "added":
        link[-30:] = -1
    if kind == "new":
        link = np.full(ROWS, -1)
    return release.data.take(pa.array(rows)), link


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["added", "dropped", "new"])
def test_rows_that_were_added_dropped_or_all_new(kind: str, streamed: bool) -> None:
    release, link = of_link(kind)
    reference = registry(2 * ROWS).slice(ROWS)
    size = 10**6 if streamed else None
    found = assess(registry(ROWS), release, recipe("permute"), link=link, reference=reference, sample_rows=size)
    json.dumps(found.to_json(), allow_nan=False)
    unlinked = {name for name in NAMES if name in found.failed and by_name()[name].scaling != "whole"}
    pairs = {measure.name for measure in MEASURES if measure.scaling == "pairs"}
    expected = {"match_auc", "noise_stripping", *pairs} if kind == "new" else set()
    assert unlinked - {"individual_risk"} == expected
    if kind == "new":
        assert found.measured["reidentification"].value == 0
    if kind == "added" and not streamed:
        assert "30 added rows" in found.measured["mse"].note


def test_an_empty_release_is_reported_measure_by_measure() -> None:
    table = people()
    found = assess(table, table.slice(0, 0), RULES, link=np.empty(0, np.int64))
    assert not found.measured
    assert set(found.failed) == set(NAMES)


def test_a_column_that_was_dropped_need_not_be_there_unless_it_is_compared() -> None:
    table = people().append_column("note", pa.array(["x"] * 90))
    schema = Schema.resolve(Table.of(table), COLUMNS)
    assert Comparison(Table.of(table), Table.of(table.drop_columns(["note"])), schema).columns == tuple(COLUMNS)
    with pytest.raises(InputError, match="the release has no column 'age'"):
        Comparison(Table.of(table), Table.of(table.drop_columns(["age"])), schema)
