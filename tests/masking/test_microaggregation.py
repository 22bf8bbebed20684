"""`microaggregation` with each of its groupings: what it promises, and what it refuses."""

from __future__ import annotations

import re
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import gpuanon
from gpuanon.cli import printing, telling
from gpuanon.errors import GpuanonError, GuaranteeError, RecipeError
from gpuanon.masking.groups import GROUPS
from gpuanon.masking.groups.univariate import optimal_univariate
from gpuanon.masking.methods.microaggregation import MICRO_GROUPS, Microaggregation
from gpuanon.recipe import Recipe
from tests.support.every import recipe, registry
from tests.support.groups import census, information_loss
from tests.support.running import KEY, as_rows, masked, protected, verify, with_value, written

NUMBERS = {"columns": {name: {"role": "quasi"} for name in "xy"}, "others": "keep"}


def numbers(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table({"x": rng.normal(size=rows), "y": rng.lognormal(size=rows)})


def release_of(table, rules=None, **mask):
    rules = (rules or NUMBERS) | {"others": "keep", "mask": [{"method": "microaggregation", "k": 5, **mask}]}
    return gpuanon.protect(table, rules, rng=KEY, backend="numpy")


def in_order(release, name):
    """The released column in the order of the original."""
    values = np.empty(len(release.link))
    values[release.link] = release.data[name].to_numpy()
    return values


def test_every_grouping_is_named_and_said_in_a_line():
    (entry,) = [entry for entry in gpuanon.methods() if entry["name"] == "microaggregation"]
    names = get_args(Microaggregation.model_fields["groups"].annotation)
    assert entry["parameters"]["groups"]["enum"] == list(names) == list(MICRO_GROUPS)
    lines = entry["parameters"]["groups"]["values"]
    assert set(lines) == set(names)
    assert all(line.endswith(".") and "\n" not in line for line in lines.values())
    assert entry["parameters"]["refine"]["default"] is True
    assert entry["parameters"]["block"]["default"] == 1024


def test_the_command_line_says_what_each_grouping_is(capsys, monkeypatch):
    monkeypatch.setattr(printing, "out", Console(width=200))
    telling.methods(json_=False)
    text = capsys.readouterr().out
    for name in MICRO_GROUPS:
        assert re.search(rf"^ {name} +{re.escape((GROUPS[name].__doc__ or '').splitlines()[0])}", text, re.MULTILINE), (
            name
        )


@pytest.mark.parametrize("groups", MICRO_GROUPS)
def test_the_named_method_is_the_free_combination(groups):
    table = numbers()
    free = NUMBERS | {"others": "keep", "mask": [{"groups": {"use": groups, "k": 5}, "operation": {"use": "centroid"}}]}
    combined = gpuanon.protect(table, free, rng=KEY, backend="numpy")
    named = release_of(table, groups=groups)
    assert as_rows(named.data).equals(as_rows(combined.data))  # another recipe, another order of rows
    assert named.manifest["guarantee"] == combined.manifest["guarantee"]


@pytest.mark.parametrize(
    ("groups", "parameter", "value"),
    [
        ("univariate", "refine", True),
        ("univariate", "refine", False),
        ("univariate", "block", 64),
        ("univariate", "metric", "gower"),
        ("optimal-univariate", "refine", True),
        ("optimal-univariate", "block", 0),
        ("optimal-univariate", "metric", "gower"),
        ("first-axis", "block", 64),
        ("first-axis", "metric", "gower"),
        ("fuzzy", "refine", True),
        ("fuzzy", "metric", "gower"),
    ],
)
def test_a_parameter_that_does_not_apply_is_refused_by_name(groups, parameter, value):
    rules = NUMBERS | {
        "others": "keep",
        "mask": [{"method": "microaggregation", "k": 5, "groups": groups, parameter: value}],
    }
    allowed = "know euclidean only" if parameter == "metric" else "only to mdav"
    if parameter == "refine" or groups == "fuzzy":
        allowed = allowed.replace("mdav", "mdav, k-member")
    with pytest.raises(RecipeError, match=rf"mask\.0\.{parameter}: .*{groups} groups,? .*{allowed}"):
        Recipe.load(rules)


@pytest.mark.parametrize("groups", [name for name in MICRO_GROUPS if name not in ("univariate", "optimal-univariate")])
def test_parameters_that_apply_are_in_the_manifest_as_they_were(groups):
    (mask,) = release_of(numbers(60), groups=groups).manifest["mask"]
    fields = GROUPS[groups].model_fields
    assert {name: mask[name] for name in ("refine", "block") if name in mask} == {
        name: fields[name].default for name in ("refine", "block") if name in fields
    }


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"operation": {"use": "resample"}}, "(centroid) are allowed, got identity and resample"),
        (
            {"basis": {"use": "svd"}},
            "(identity) and an operation on single columns (centroid) are allowed, got svd",
        ),
        ({"response_weight": 1.0}, "response_weight: does not apply"),
        ({"metric": "gower"}, "metric: univariate groups know euclidean only, got gower"),
        ({"groups": {"use": "first-axis", "k": 5}, "metric": "gower"}, "metric: first-axis groups know euclidean only"),
    ],
)
def test_combinations_that_mean_nothing_are_refused(changes, fault):
    mask = {"groups": {"use": "univariate", "k": 5}, "operation": {"use": "centroid"}} | changes
    with pytest.raises(RecipeError, match=re.escape(fault)):
        Recipe.load(NUMBERS | {"others": "keep", "mask": [mask]})


@pytest.mark.parametrize("groups", ["first-axis", "fuzzy", "spanning-tree"])
@pytest.mark.parametrize("operation", ["resample", "permute", "dither"])
def test_groups_of_records_serve_other_operations(groups, operation):
    mask = {"groups": {"use": groups, "k": 5}, "operation": {"use": operation}}
    table = numbers(120).append_column("beside", pa.array(np.arange(120) % 7))  # what moved rows are hidden from
    release = gpuanon.protect(table, NUMBERS | {"others": "keep", "mask": [mask]}, rng=KEY, backend="numpy")
    (guarantee,) = release.manifest["guarantee"]
    assert guarantee["smallest_group"] >= 5
    assert guarantee["k"] == 5


def test_each_column_gets_the_means_of_its_own_sorted_neighbours():
    table = numbers(203)
    release = release_of(table, groups="univariate")
    for name in "xy":
        values = table[name].to_numpy()
        order = np.argsort(values)
        expected = np.empty(203)
        for rows in np.split(order, range(5, 200, 5)):
            expected[rows] = values[rows].mean()
        np.testing.assert_allclose(in_order(release, name), expected, rtol=1e-12)


def test_each_column_gets_the_best_groups_there_are():
    table = numbers(203)
    fixed, best = (release_of(table, groups=groups) for groups in ("univariate", "optimal-univariate"))
    for name in "xy":
        values = table[name].to_numpy()
        error = float(np.square(in_order(best, name) - values).sum())
        groups = optimal_univariate(values, 5)
        means = [values[rows].mean() for rows in np.split(groups.order, groups.starts[1:-1])]
        assert error == pytest.approx(np.square(np.array(means)[groups.labels()] - values).sum(), rel=1e-9)
        assert error < np.square(in_order(fixed, name) - values).sum()


def test_the_statement_says_what_holds_and_no_more():
    release = release_of(numbers(), groups="univariate")
    (guarantee,) = release.manifest["guarantee"]
    assert guarantee["statement"] == (
        "in each of x, y by itself, every value is shared by at least 5 released records"
        " (their combinations may be unique)"
    )
    frame = release.data.to_pandas()
    assert frame.groupby(["x", "y"]).size().min() == 1  # the release is not k-anonymous on both
    assert min(frame[name].value_counts().min() for name in "xy") == guarantee["smallest_value_class"] == 5
    kept = NUMBERS | {"columns": {"x": {"role": "quasi"}, "y": {"role": "quasi", "keep": True}}}
    (one,) = release_of(numbers(), kept, groups="univariate", columns=["x"]).manifest["guarantee"]
    assert one["statement"] == "every value of x is shared by at least 5 released records"


def test_one_value_that_differs_breaks_the_promise():
    mask, before, result = masked(Microaggregation(k=5, groups="univariate"))
    verify(mask, before, result.trace, result.rows)
    broken = result.rows.with_table(with_value(result.rows.table, "age", 7, 99))
    with pytest.raises(GuaranteeError, match="a value of age is shared by 1 released records, fewer than k = 5"):
        verify(mask, before, result.trace, broken)


def test_nulls_and_rare_levels_are_shared_by_k_or_vanish():
    rng = np.random.default_rng(1)
    x = [
        None if missing else float(value)
        for missing, value in zip(rng.random(90) < 0.2, rng.normal(size=90), strict=True)
    ]
    level = ["common"] * 60 + ["rare"] * 2 + ["usual"] * 28
    table = pa.table({"x": x, "level": level})
    rules = {"columns": {"x": {"role": "quasi"}, "level": {"role": "quasi"}}}
    for groups in ("univariate", "optimal-univariate"):
        frame = release_of(table, rules, groups=groups).data.to_pandas()
        counts = frame["level"].value_counts()
        assert "rare" not in counts.index
        assert frame["x"].value_counts(dropna=False).min() >= 5
        assert abs(frame["x"].isna().sum() - sum(value is None for value in x)) < 5


@pytest.mark.parametrize("groups", ["univariate", "first-axis", "fuzzy", "spanning-tree", "optimal-univariate"])
def test_a_run_in_parts_keeps_the_promise(tmp_path, groups):
    mask = {"method": "microaggregation", "k": 4, "groups": groups}
    source = written(tmp_path, [registry(450), registry(450)])
    manifest = protected(source, tmp_path / "release", recipe(mask), cell_rows=200)
    frame = pq.read_table(tmp_path / "release").to_pandas()
    columns = manifest["mask"][0]["columns"]
    classes = [[name] for name in columns] if "univariate" in groups else [columns]
    assert min(frame.groupby(by, dropna=False, observed=True).size().min() for by in classes) >= 4
    assert manifest["guarantee"][0]["verified"] is True
    assert manifest["rows_out"] == 900


def test_groups_for_the_cpu_are_refused_before_a_run_in_parts_begins(tmp_path, monkeypatch):
    from gpuanon.arrays.backend import Backend

    monkeypatch.setattr("gpuanon.engine.protect.choose", lambda name: Backend("cupy", "for this test"))
    source = written(tmp_path, [registry(60)])
    mask = {"method": "microaggregation", "k": 4, "groups": "fuzzy"}
    with pytest.raises(GpuanonError, match=r"'fuzzy' runs on the CPU only[\s\S]*--backend numpy"):
        protected(source, tmp_path / "release", recipe(mask))
    assert [path.name for path in tmp_path.iterdir()] == ["input"]


@pytest.mark.parametrize("groups", MICRO_GROUPS)
def test_medians_of_any_group_are_shared_to_the_bit(groups):
    release = release_of(numbers(101, seed=3), groups=groups, centre="median")
    assert release.manifest["guarantee"][0]["verified"] is True


@pytest.mark.data
def test_losses_on_census_stand_in_the_known_order(data_folder):
    X = census(data_folder)

    def lost(groups, **options):
        return information_loss(X, GROUPS[groups](k=3, **options).form(X, KEY.draws(np.arange(len(X)))))

    assert lost("mdav", block=0, refine=False) == pytest.approx(5.692186, abs=1e-6)
    tree, axis = (lost(groups, refine=False) for groups in ("spanning-tree", "first-axis"))
    assert 5 < tree < axis
    assert lost("first-axis") < 0.4 * axis  # exchanges make up for most of what one axis cannot see
    assert lost("spanning-tree") < 5.33  # what a local search from MDAV reaches
