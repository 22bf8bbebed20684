"""Releases whose rows or columns are not those of the original: added, dropped and new rows, intervals, labels."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.assessing.compared_tables import points_of
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import measure
from gpuanon.assessing.streams import Pieces
from gpuanon.engine.assess import assess
from gpuanon.errors import InputError
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import QUASI, recipe, registry

ROWS = 240
NAMES = tuple(measure.name for measure in MEASURES.values())
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
    expected = {name for name in NAMES if not streamed or MEASURES[name].scaling != "whole"}
    of_recipe = {
        "individual_risk",
        "population_uniqueness",
        "household_risk",
        "hierarchical_risk",
        "analysis",
        "workload",
    }
    undeclared = of_recipe | {
        "reference_standard",
        "closest_record",
        "singling_out",
        "linkability",
        "inference",
        "membership",
    }
    assert set(found.measured) == expected - undeclared
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
    unlinked = {name for name in NAMES if name in found.failed and MEASURES[name].scaling != "whole"}
    pairs = {measure.name for measure in MEASURES.values() if measure.scaling == "pairs"}
    of_records = {
        "reidentification",
        "match_auc",
        "match_auc_joint",
        "noise_stripping",
        "linkage_probabilistic",
        *pairs,
    }
    expected = of_records if kind == "new" else set()
    assert unlinked - {"individual_risk", "population_uniqueness"} == expected
    if kind == "new":
        assert expected <= found.inapplicable
        assert all("every released row is new" in found.failed[name] for name in expected)
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


TIMED = ("reidentification", "prediction_distance", "records_changed", "means", "ks", "exact_copies")


def timed(first: pa.DataType, second: pa.DataType, streamed: bool = False, **known: object) -> dict[str, object]:
    """What the measures say of a release with small noise whose dates have another type than the original's."""
    table = people()
    born = np.array(table["born"].cast(pa.int32()).to_numpy()) + np.arange(90) % 2
    released = table.set_column(1, "born", pa.array(born.astype(np.int32)).cast(pa.date32()))
    tables = [t.set_column(1, "born", t["born"].cast(kind)) for t, kind in ((table, first), (released, second))]
    options = {"sample_rows": 1000} if streamed else {}
    names = TIMED[:-1] if streamed else TIMED  # copies need all rows at once
    found = assess(*tables, RULES, link=np.arange(90), measures=names, backend="numpy", **options, **known)
    assert set(found.measured) == set(names)
    return {name: figure.value for name, figure in found.measured.items()}


@pytest.mark.parametrize("kind", [pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))], ids=str)
@pytest.mark.parametrize("streamed", [False, True])
def test_times_of_other_units_are_the_same_moments(kind: pa.DataType, streamed: bool) -> None:
    assert timed(pa.date32(), kind, streamed) == timed(kind, pa.date32(), streamed) == timed(kind, kind, streamed)
    assert timed(kind, kind)["reidentification"] > 0.9


def test_times_of_a_reference_sample_have_the_originals_unit_too() -> None:
    reference = people()
    other = reference.set_column(1, "born", reference["born"].cast(pa.timestamp("us")))
    known = [timed(pa.date32(), pa.date32(), reference=table) for table in (reference, other)]
    assert known[0] == known[1]


def test_times_that_the_originals_type_cannot_hold_are_refused() -> None:
    table = people()
    hours = pa.array(table["born"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy() + 3_600_000_000)
    released = table.set_column(1, "born", hours.cast(pa.timestamp("us")))
    found = assess(table, released, RULES, link=np.arange(90), measures=("reidentification", "k_anonymity"))
    assert "'born': released as timestamp[us], which the original's type, date32" in found.failed["reidentification"]
    assert found.measured["k_anonymity"].value == 1


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (np.zeros(90, dtype=np.int64), "89 released rows have the same original"),
        (np.array(["smith"] * 90), "whole numbers"),
        (np.arange(90) + 0.5, "whole numbers"),
        (np.full(90, np.nan), "whole numbers"),
        (np.arange(90)[:, None], "whole numbers"),
        (np.ones(90, dtype=bool), "whole numbers"),
        (np.arange(89), "the link has 89 rows, the release 90"),
        (np.arange(1, 91), "names rows that the original"),
        (np.arange(90) - 2, "names rows that the original"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"sample_rows": 1000}])
def test_what_cannot_be_a_link_is_refused(link: np.ndarray, said: str, options: dict[str, int]) -> None:
    with pytest.raises(InputError, match=said) as caught:
        assess(people(), people(), RULES, link=link, measures=("match_auc",), **options)
    assert "smith" not in str(caught.value)


def test_added_rows_may_have_no_original_each() -> None:
    link = np.where(np.arange(90) < 5, -1, np.arange(90))
    assert "reidentification" in assess(people(), people(), RULES, link=link, measures=("reidentification",)).measured


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("rows", [1, 90])
def test_infinite_released_values_fail_measures_one_by_one(value: float, rows: int) -> None:
    table = people()
    cost = np.where(np.arange(90) < rows, value, table["cost"].to_numpy())
    released = table.set_column(table.column_names.index("cost"), "cost", pa.array(cost))
    found = assess(table, released, RULES, link=np.arange(90), measures=NAMES, reference=people(), backend="numpy")
    assert set(found.measured) | set(found.failed) == set(NAMES)
    assert found.measured["k_anonymity"].value == 1
    json.dumps(found.to_json(), allow_nan=False)
    assert "'cost': " in found.failed["pmse_logit"]
    assert "infinite" in found.failed["pmse_logit"]


def test_a_column_of_nulls_fails_measures_one_by_one() -> None:
    table = people()
    released = table.set_column(table.column_names.index("cost"), "cost", pa.nulls(90, pa.float64()))
    found = assess(table, released, RULES, link=np.arange(90), measures=NAMES, reference=people(), backend="numpy")
    assert set(found.measured) | set(found.failed) == set(NAMES)


def test_a_reference_sample_that_does_not_fit_is_refused() -> None:
    for reference, said in ((people().drop_columns(["zip"]), "has no column 'zip'"), (people()[:0], "has no rows")):
        found = assess(people(), people(), RULES, reference=reference, measures=("reference_standard", "exact_copies"))
        assert all(said in found.failed[name] for name in ("reference_standard", "exact_copies"))


@pytest.mark.parametrize("streamed", [False, True])
def test_constant_quasi_identifiers_show_beside_the_median_of_all_features(streamed: bool) -> None:
    table = registry(400)
    constant = table
    for name in QUASI:
        column = table[name].take(pa.array([0] * 400))
        constant = constant.set_column(constant.column_names.index(name), name, column)
    names = ("means", "variances", "correlations", "covariances", "rank_correlations")
    options = {"sample_rows": 1000} if streamed else {}
    found = assess(table, constant, recipe("noise"), measures=names, backend="numpy", **options).to_json()["utility"]
    assert found["variances"]["value"] == 0  # the levels of the diagnosis are most of the features
    assert found["variances"]["quasi_median"] == 1
    assert found["variances"]["max"] == 1
    assert found["means"]["quasi_median"] > 0.3
    assert found["covariances"]["quasi_median"] > found["covariances"]["value"]
    same = assess(table, table, recipe("noise"), measures=names, backend="numpy", **options).to_json()["utility"]
    assert all(same[name]["quasi_median"] == 0 for name in names)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_column_that_was_blown_up_is_the_worst(streamed: bool) -> None:
    table = registry(400)
    age = pa.array(table["age"].to_numpy() * 1e9)
    blown = table.set_column(table.column_names.index("age"), "age", age)
    options = {"sample_rows": 1000} if streamed else {}
    found = assess(table, blown, recipe("noise"), measures=("means", "ks"), backend="numpy", **options).to_json()
    assert found["utility"]["means"]["worst"] == "age"
    assert found["utility"]["means"]["max"] > 1e9
    assert found["utility"]["ks"]["value"] == 1


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_few_released_records_are_found_all_the_same(rows: int) -> None:
    """Reidentification looks for the nearest record alone; what needs five of them says so."""
    x = pa.table({"x": [0.0, 1.0, 2.0, 3.0, 10.0], "y": [3.0, 1.0, 0.0, 4.0, 1.0]})
    columns = {"x": {"role": "quasi"}, "y": {"role": "quasi"}}
    names = ["reidentification", "reidentification_by_class", "noise_stripping", "prediction_distance"]
    rules = {"columns": columns, "mask": [{"method": "noise", "b": 0.1}]}
    found = gpuanon.assess(x, x.slice(0, rows), rules, link=np.arange(rows), measures=names)
    assert found.measured["reidentification"].value == rows / 5
    assert found.measured["reidentification_by_class"].value == rows / 5
    assert found.measured["noise_stripping"].value > 0
    assert found.failed["prediction_distance"] == f"release: at least k = 5 records are needed, got {rows}"
