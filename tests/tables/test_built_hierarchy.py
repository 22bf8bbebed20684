"""Hierarchies built from values: worked examples, nesting, and through the engine."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pydantic import TypeAdapter

import gpuanon
from gpuanon.errors import GpuanonError, RecipeError
from gpuanon.tables.built_hierarchy import AnyBuild
from gpuanon.tables.hierarchy import Hierarchy

KEY = b"a key for the tests of built hierarchies"


def built(values, counts=None, **build):
    array = pa.array(values)
    spec = TypeAdapter(AnyBuild).validate_python(build)
    return Hierarchy.built(spec, "x", array, np.ones(len(array), np.int64) if counts is None else np.asarray(counts))


@pytest.mark.parametrize(
    ("values", "build", "expected"),
    [
        (
            [3, 14, 15, 29],
            {"build": "intervals", "widths": [5, 10]},
            {"3": ("[0, 5)", "[0, 10)", "*"), "14": ("[10, 15)", "[10, 20)", "*"), "29": ("[25, 30)", "[20, 30)", "*")},
        ),
        ([0.15, 0.3], {"build": "intervals", "widths": [0.1], "star": False}, {"0.3": ("[0.3, 0.4)",)}),
        ([-3], {"build": "intervals", "widths": [5], "origin": 1}, {"-3": ("[-4, 1)", "*")}),
        ([14, 15, 150], {"build": "rounding", "steps": [10, 100]}, {"14": ("10", "0", "*"), "15": ("20", "0", "*")}),
        (
            [date(2020, 3, 31), date(2021, 12, 1)],
            {"build": "dates", "units": ["month", "quarter", "year", "decade"]},
            {"2020-03-31": ("2020-03", "2020-Q1", "2020", "2020s", "*")},
        ),
        (
            ["12345", "129"],
            {"build": "prefix", "lengths": [3, 2]},
            {"12345": ("123**", "12***", "*"), "129": ("129", "12*", "*")},
        ),
        (
            ["a", "b", "c"],
            {"build": "order", "sizes": [2, 2]},
            {"a": ("a … b", "a … c", "*"), "c": ("c … c", "a … c", "*")},
        ),
    ],
)
def test_worked_examples(values, build, expected):
    found = built(values, **build)
    for leaf, path in expected.items():
        assert found.paths[leaf] == path


def test_quantiles_have_about_equally_many_records_and_round_borders():
    x = np.sort(np.unique(np.random.default_rng(1).lognormal(7, 1, 5000).round(2)))
    found = built(x, build="quantiles", groups=[8, 4, 2])
    sizes = pd.Series([path[0] for path in found.paths.values()]).value_counts()
    assert len(sizes) == 8
    assert sizes.min() > len(x) / 8 * 0.8
    for path in found.paths.values():
        for label in path[:-1]:
            for number in label.strip("[)<≥ ").split(", "):
                assert float(number) % 10 == 0
    assert_nested(found)


def test_tails_hold_a_share_of_the_records_and_show_no_value():
    x = np.sort(np.random.default_rng(2).lognormal(7, 1, 3000).round(2))
    values, counts = np.unique(x, return_counts=True)
    found = built(values, counts, build="tails", share=0.02)
    labels = pd.Series([found.paths[str(value)][0] for value in x])
    low, high = labels.str.startswith("≤"), labels.str.startswith("≥")
    assert 0.02 <= low.mean() < 0.06
    assert 0.02 <= high.mean() < 0.06
    assert not set(labels[low | high].str[2:]) & {f"{value:g}" for value in values}
    assert (labels[~low & ~high] == pd.Series(x.astype(str))[~low & ~high]).all()
    only = built(values, counts, build="tails", ends="top", least=300)
    assert sum(counts[at] for at, value in enumerate(values) if only.paths[str(value)][0].startswith("≥")) >= 300
    assert not any(path[0].startswith("≤") for path in only.paths.values())


def assert_nested(found):
    for level in range(found.depth - 1):
        parents = {}
        for path in found.paths.values():
            assert parents.setdefault(path[level], path[level + 1]) == path[level + 1]


@pytest.mark.parametrize(
    "build",
    [
        {"build": "intervals", "widths": [4, 6]},
        {"build": "rounding", "steps": [10, 10]},
        {"build": "quantiles", "groups": [8, 3]},
        {"build": "dates", "units": ["year", "month"]},
        {"build": "prefix", "lengths": [2, 3]},
        {"build": "order", "sizes": [1]},
        {"build": "guess"},
        {"build": "tails", "share": 0.7},
    ],
)
def test_levels_that_are_not_nested_are_refused(build):
    with pytest.raises(GpuanonError):
        gpuanon.protect(
            pd.DataFrame({"a": [1, 2]}),
            {"columns": {"a": {"role": "quasi", "hierarchy": build}}, "mask": [{"method": "recode", "levels": 1}]},
        )


def test_values_of_another_kind_are_refused_by_the_name_of_the_column():
    with pytest.raises(RecipeError, match=r"column 'x': hierarchy: build = \"intervals\" is for columns of numbers"):
        built(["a"], build="intervals", widths=[5])
    with pytest.raises(RecipeError, match="dates or times"):
        built([1], build="dates", units=["year"])


def test_a_search_works_on_built_hierarchies():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, 600),
            "born": pd.to_datetime("1950-01-01") + pd.to_timedelta(rng.integers(0, 20_000, 600), unit="D"),
            "zip": [f"{number:05d}" for number in rng.integers(10_000, 10_400, 600)],
            "income": rng.lognormal(10, 0.5, 600).round(0),
        }
    )
    columns = {
        "age": {"role": "quasi", "hierarchy": {"build": "intervals", "widths": [10, 20, 40]}},
        "born": {"role": "quasi", "hierarchy": {"build": "dates", "units": ["year", "decade"]}},
        "zip": {"role": "quasi", "kind": "categorical", "hierarchy": {"build": "prefix", "lengths": [4, 3]}},
        "income": {"role": "quasi", "hierarchy": {"build": "quantiles", "groups": [4, 2]}},
    }
    rules = {"columns": columns, "nulls": "category", "mask": [{"method": "recode", "k": 5, "limit": 0.1}]}
    release = gpuanon.protect(frame, rules, rng=KEY, backend="numpy")
    assert release.data.groupby(list(columns)).size().min() >= 5
    assert release.manifest["rows_dropped"] <= 60
    assert release.manifest["mask"][0]["search_proven"]
    levels = release.manifest["mask"][0]["levels"]
    assert 0 < sum(levels.values()) < 4 + 3 + 3 + 3


@pytest.mark.parametrize("kind", ["money", "ages", "whole"])
def test_labels_of_ordered_groups_hold_their_values_and_show_none(kind):
    rng = np.random.default_rng(3)
    drawn = {
        "money": rng.lognormal(9, 1, 900).round(2),
        "ages": rng.integers(18, 94, 900),
        "whole": rng.normal(size=900),
    }
    values = np.unique(drawn[kind])
    found = built(values, build="order", sizes=[4, 5])
    exact = {float(value) for value in values}
    shown = set()
    for leaf, path in found.paths.items():
        for label in path[:-1]:
            low, high = (float(end) for end in label.split(" (")[0].split(" … "))
            assert low <= float(leaf) <= high
            shown |= {low, high}
    assert max(exact) not in shown
    assert all(end % 10 == 0 for end in shown) if kind == "ages" else not shown & exact
    for level, size in ((0, 4), (1, 20)):  # groups are what they were
        labels = [found.paths[str(value)][level] for value in values]
        assert len(set(labels)) == -(-len(values) // size)
        assert labels == sorted(labels, key=labels.index)
    assert_nested(found)


def test_dates_of_ordered_groups_are_months():
    days = [str(day) for day in np.arange("2020-01-05", "2020-04-15", dtype="M8[D]")]
    found = built([np.datetime64(day).astype(object) for day in days], build="order", sizes=[30])
    assert found.paths["2020-01-05"] == ("2020-01 … 2020-02", "*")
    assert found.paths["2020-04-14"][0] == "2020-04 … 2020-04"
