"""Predictions that a recipe declares: against regressions of statsmodels, written from the definition."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.errors import RecipeError

COLUMNS = {name: {"role": "quasi"} for name in ("age", "sex", "region")} | {"cost": {"role": "sensitive"}}
RULES = {"columns": COLUMNS, "mask": [{"method": "microaggregation", "k": 3}]}
MARKET = {"existing": {"region": ["north", "east"]}, "new": {"region": "south"}}
TWO = {**MARKET, "response": "cost", "columns": ["sex", "age"], "bins": 2}


def people(n: int = 400, seed: int = 5) -> pd.DataFrame:
    """Two markets of different ages, and a cost with an interaction that additive models miss."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "east", "south"], n)
    age = rng.choice([30.0, 70.0], n, p=[0.5, 0.5])
    age[region == "south"] = rng.choice([30.0, 70.0], (region == "south").sum(), p=[0.2, 0.8])
    sex = rng.choice(["f", "m"], n)
    cost = 100 + 3 * age + 200 * ((age > 50) & (sex == "m")) + rng.exponential(50, n)
    return pd.DataFrame({"age": age, "sex": sex, "region": region, "cost": cost})


def masked(table: pd.DataFrame) -> pd.DataFrame:
    """Ages in another order: every tie between age and cost is lost."""
    rng = np.random.default_rng(2)
    return table.assign(age=rng.permutation(table["age"].to_numpy()))


def measured(original: pd.DataFrame, release: pd.DataFrame, *workloads, columns=COLUMNS):
    rules = {**RULES, "columns": columns, "workload": list(workloads)}
    return gpuanon.assess(original, release, rules, measures=("workload",))


def expected_bias(original, release, weigh=True):
    """Shares of cells by pandas, least squares by statsmodels."""
    import statsmodels.formula.api as smf

    train, new = release[release.region != "south"].copy(), original[original.region == "south"]
    cells = ["sex", "age"]
    p, q = (rows.groupby(cells).size() / len(rows) for rows in (train, new))
    train["w"] = [(q / p).fillna(0)[tuple(cell)] if weigh else 1.0 for cell in train[cells].to_numpy()]
    fit = smf.wls("cost ~ C(sex) + C(age)", train, weights=train["w"]).fit()
    return 100 * (fit.predict(new).mean() / new["cost"].mean() - 1)


@pytest.mark.parametrize("shift", ["nonparametric", "none"])
def test_the_bias_is_that_of_a_weighted_regression(shift):
    table = people()
    found = measured(table, masked(table), TWO | {"shift": shift, "name": "south"}).measured["workload"]
    sides = found.to_json()["compared"]
    before, after = (expected_bias(table, side, shift != "none") for side in (table, masked(table)))
    assert sides["original"]["south"]["bias"] == pytest.approx(before, abs=1e-8)
    assert sides["release"]["south"]["bias"] == pytest.approx(after, abs=1e-8)
    assert found.value == pytest.approx(abs(after - before), abs=1e-8)
    assert found.to_json()["by_prediction"] == {"south": pytest.approx(found.value)}
    if shift != "none":  # every cell of the new market is there, and has its share
        assert sides["original"]["south"]["similarity"] == pytest.approx(1)


@pytest.mark.parametrize("kind", ["linear", "log", "two-part", "gamma", "multiplicative"])
def test_a_formula_of_indicators_is_the_model_of_columns(kind):
    table = people()
    by_columns = measured(table, masked(table), TWO | {"kind": kind}).measured["workload"].value
    formula = {**MARKET, "formula": "cost ~ C(age) + C(sex)", "bins": 2, "kind": kind}
    # Categories in place of numbers in the formula; other columns of indicators, the same space.
    assert measured(table, masked(table), formula).measured["workload"].value == pytest.approx(by_columns, abs=1e-4)


def test_subgroups_show_who_pays_for_the_mask():
    table = people()
    release = table.copy()
    release.loc[release.sex == "m", "cost"] *= 2
    groups = {"women": {"sex": "f"}, "old men": {"sex": "m", "age": {"from": 50}}}
    found = measured(table, release, TWO | {"subgroups": groups, "name": "south"}).measured["workload"]
    added = found.to_json()["by_prediction"]
    assert set(added) == {"south", "south | women", "south | old men"}
    assert added["south | women"] < 15 < 80 < added["south | old men"]
    assert found.worst is not None
    assert found.worst[0] == "south | old men"
    sides = found.to_json()["compared"]
    assert sides["release"]["south"]["gap"] > sides["original"]["south"]["gap"] + 50


def test_sample_weights_stand_for_rows():
    table = people(200)
    twice = pd.concat([table, table[table.sex == "m"]])
    weighted = table.assign(w=np.where(table.sex == "m", 2.0, 1.0))
    columns = COLUMNS | {"w": {"role": "weight"}}
    release = masked(table)
    release_twice = pd.concat([release, release[release.sex == "m"]])
    found = measured(weighted, release.assign(w=weighted["w"]), TWO, columns=columns).measured["workload"]
    assert found.value == pytest.approx(measured(twice, release_twice, TWO).measured["workload"].value, abs=1e-6)


def test_records_without_a_response_are_left_out_and_counted():
    table = people()
    table.loc[:9, "cost"] = np.nan
    found = measured(table, masked(table), TWO).measured["workload"]
    assert "10 records of the original were left out" in found.note


def failure(*workloads, table=None):
    table = people() if table is None else table
    return measured(table, masked(table), *workloads).failed["workload"]


def test_nothing_is_told_of_a_few_people():
    table = people()
    table.loc[table.index[:9], "region"] = "west"
    west = {**TWO, "new": {"region": "west"}}
    assert "fewer than 10 records" in failure(west, table=table)
    assert "fewer than 10 records" in failure(TWO | {"existing": {"region": "west"}}, table=table)
    others = {"all but a few": {"region": ["north", "east", "south"]}}
    assert "fewer than 10 records" in failure({**TWO, "new": {}, "subgroups": others}, table=table)


def test_what_cannot_be_predicted_is_said():
    assert "'wages'" in failure(TWO | {"response": "wages"})
    assert "column of numbers" in failure({**MARKET, "response": "region", "columns": ["sex"]})
    assert "range" in failure(TWO | {"new": {"region": {"from": 3}}})
    assert "a number, a list or a range" in failure(TWO | {"new": {"age": "old"}})
    assert "[[workload]]" in failure()
    table = people()
    assert "at least 0" in failure(TWO | {"kind": "gamma"}, table=table.assign(cost=table.cost - 300))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({**MARKET, "response": "cost"}, "needs a formula, or response and columns"),
        ({"formula": "cost ~ age", "columns": ["sex"]}, "stand without one"),
        ({"response": "cost", "columns": ["cost"]}, "among its predictors"),
        ({**TWO, "kind": "probit"}, r"workload\.0\.kind"),
        ({**TWO, "new": {"age": {}}}, "from, to or both"),
        ({"formula": "cost ~ open(age)"}, "no function open"),
    ],
)
def test_a_faulty_workload_is_refused_with_the_recipe(fault, said):
    with pytest.raises(RecipeError, match=said):
        gpuanon.Recipe.load({**RULES, "workload": [fault]})


def test_terminal_json_and_report_show_it(tmp_path):
    table = people(120)
    found = measured(table, masked(table), {**TWO, "name": "to <the> south"}, TWO)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert "workload" in str(found)
    found.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "to &lt;the&gt; south" in page
    assert "to <the> south" not in page


def test_a_limit_holds_a_release_to_its_predictions():
    table = pa.Table.from_pandas(people(), preserve_index=False)
    rules = {**RULES, "workload": [TWO], "limits": {"workload": 1e-9}}
    with pytest.raises(gpuanon.GpuanonError, match="workload"):
        gpuanon.protect(table, rules)
