"""Models of analysts, fitted to original and release."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from pydantic import ValidationError

import gpuanon
from gpuanon.assessing.declared_models import Analysis, columns_of
from gpuanon.assessing.utility.analysis import Coefficient, analysis, interval_overlap
from gpuanon.errors import InputError, RecipeError

RNG = np.random.default_rng(0)
N = 600
AGE, SEX = RNG.uniform(20, 80, N), RNG.choice(["f", "m"], N)
MEAN = np.exp(4 + 0.02 * AGE + 0.3 * (SEX == "m"))
ANY = RNG.random(N) < 1 / (1 + np.exp(-(-1 + 0.04 * AGE)))
TABLE = pd.DataFrame(
    {"age": AGE, "sex": SEX, "cost": np.where(ANY, RNG.gamma(2, MEAN / 2), 0.0), "ill": ANY.astype(int)}
)
TABLE["paid"] = TABLE["cost"] + 1.0


def coefficients(found):
    return {name.split(" | ")[1]: figures for name, figures in found.parts[1].before.items()}


@pytest.mark.parametrize("family", ["linear", "logistic", "gamma"])
def test_coefficients_intervals_and_p_values_are_those_of_statsmodels(family):
    response = {"linear": "cost", "logistic": "ill", "gamma": "paid"}[family]
    formula = f"{response} ~ age + C(sex)"
    found = coefficients(analysis(TABLE, TABLE, [Analysis(formula=formula, family=family)]))
    if family == "linear":
        expected = smf.ols(formula, TABLE).fit()
    else:
        kind = sm.families.Binomial() if family == "logistic" else sm.families.Gamma(sm.families.links.Log())
        expected = smf.glm(formula, TABLE, family=kind).fit()
    for name, figures in found.items():
        theirs = {"Intercept": "Intercept", "age": "age"}.get(name, "C(sex)[T.m]")
        assert figures["estimate"] == pytest.approx(expected.params[theirs], rel=1e-6)
        assert figures["low"] == pytest.approx(expected.conf_int()[0][theirs], rel=1e-6)
        assert figures["p"] == pytest.approx(expected.pvalues[theirs], rel=1e-5, abs=1e-12)
    assert len(found) == 3


def test_a_two_part_model_is_a_logistic_and_a_gamma_one():
    found = coefficients(analysis(TABLE, TABLE, [Analysis(formula="cost ~ age", family="two-part")]))
    some = TABLE[TABLE["cost"] > 0]
    amount = smf.glm("cost ~ age", some, family=sm.families.Gamma(sm.families.links.Log())).fit()
    chance = smf.logit("ill ~ age", TABLE).fit(disp=0)
    assert found["amount: age"]["estimate"] == pytest.approx(amount.params["age"], rel=1e-6)
    assert found["any: age"]["estimate"] == pytest.approx(chance.params["age"], rel=1e-6)


def test_weights_are_used():
    weights = np.linspace(1, 9, N)
    found = coefficients(analysis(TABLE, TABLE, [Analysis(formula="cost ~ age")], weights=(weights, weights)))
    expected = smf.wls("cost ~ age", TABLE, weights=weights).fit()
    assert found["age"]["estimate"] == pytest.approx(expected.params["age"], rel=1e-8)
    assert found["age"]["low"] == pytest.approx(expected.conf_int()[0]["age"], rel=1e-8)


def test_a_copy_loses_nothing_and_permuted_columns_much():
    model = [Analysis(formula="paid ~ age + C(sex)", family="gamma")]
    assert analysis(TABLE, TABLE.copy(), model).value == 0
    lost = TABLE.assign(paid=RNG.permutation(TABLE["paid"]))
    found = analysis(TABLE, lost, model)
    assert found.value > 0.5
    assert found.details["changed_conclusions"] >= 1
    assert "age" in found.worst[0]


def test_a_level_that_is_gone_has_no_overlap_and_a_new_one_is_left_out():
    table = TABLE.assign(ward=RNG.choice(["a", "b", "c"], N))
    release = table.assign(ward=table["ward"].replace({"c": "zzz"}))
    found = analysis(table, release, [Analysis(formula="cost ~ C(ward)")])
    gone = next(name for name in found.parts[0].values if "c]" in name)
    assert found.parts[0].values[gone] == 1
    assert found.parts[1].after[gone]["estimate"] is None
    assert "records of the release were left out" in found.note


def test_a_coefficient_that_rests_on_few_people_is_not_reported():
    table = TABLE.assign(ward=["rare"] * 3 + ["b", "c"] * ((N - 4) // 2) + ["b"])
    found = analysis(table, table, [Analysis(formula="cost ~ C(ward) + age")])
    assert not any("rare" in name for name in found.parts[1].before)
    assert found.details["coefficients"] == 3


@pytest.mark.parametrize(
    ("formula", "family", "fault"),
    [
        ("cost ~ age", "gamma", "two-part takes zeros"),
        ("cost ~ age", "logistic", "wants two values"),
        ("sex ~ age", "linear", "wants numbers"),
    ],
)
def test_a_model_that_does_not_fit_its_response_is_refused(formula, family, fault):
    with pytest.raises(InputError, match=fault):
        analysis(TABLE, TABLE, [Analysis(formula=formula, family=family)])


@pytest.mark.parametrize(
    "terms",
    ["__import__('os').system('x')", "age + eval(age)", "age[0]", "{age}", "age; sex", "open(age)", "a.b", "'x'"],
)
def test_a_formula_is_no_program(terms):
    with pytest.raises(ValidationError):
        Analysis(formula=f"cost ~ {terms}")


def test_a_formula_names_its_columns():
    assert columns_of("log(age) * C(sex) + `a b`:x2 + poly(bmi, 2)") == ("age", "sex", "a b", "x2", "bmi")
    with pytest.raises(ValidationError, match="one column"):
        Analysis(formula="log(cost) ~ age")


def test_overlap_of_intervals():
    one = Coefficient(1.0, 0.0, 2.0, 0.1)
    assert interval_overlap(one, one) == 1
    assert interval_overlap(one, Coefficient(2.0, 1.0, 3.0, 0.1)) == 0.5
    assert interval_overlap(one, Coefficient(9.0, 8.0, 10.0, 0.1)) == 0
    assert interval_overlap(one, Coefficient(1.0, 0.5, 1.5, 0.1)) == pytest.approx(0.75)
    assert interval_overlap(one, None) == 0
    point, far = Coefficient(1.5, 1.5, 1.5, 0.0), Coefficient(3.0, 3.0, 3.0, 0.0)
    assert interval_overlap(one, point) == interval_overlap(point, one) == 0.5
    assert interval_overlap(point, point) == 1
    assert interval_overlap(one, far) == interval_overlap(point, far) == 0


def test_models_come_from_the_recipe():
    columns = {name: {"role": "quasi"} for name in ("age", "sex")} | {"cost": {"role": "sensitive"}}
    rules = {"columns": columns, "others": "drop", "mask": [{"method": "microaggregation", "k": 3}]}
    table = pa.Table.from_pandas(TABLE[["age", "sex", "cost"]])
    models = [{"formula": "cost ~ age + C(sex)", "family": "two-part"}, {"formula": "cost ~ age"}]
    release = gpuanon.protect(table, rules)
    found = gpuanon.assess(table, release.data, {**rules, "analysis": models}, measures=("analysis",))
    assert found.measured["analysis"].details["coefficients"] == 8
    assert "[[analysis]]" in gpuanon.assess(table, release.data, rules, measures=("analysis",)).failed["analysis"]
    with pytest.raises(RecipeError, match=r"analysis\.0\.family"):
        gpuanon.assess(table, release.data, {**rules, "analysis": [{"formula": "cost ~ age", "family": "probit"}]})
    missing = {**rules, "analysis": [{"formula": "cost ~ wages"}]}
    assert "'wages'" in gpuanon.assess(table, release.data, missing, measures=("analysis",)).failed["analysis"]


def test_a_response_without_spread_is_refused():
    """Intervals as wide as rounding overlap or not by accident."""
    table = pd.DataFrame({"y": np.full(40, 10.0), "x": np.arange(40.0)})
    with pytest.raises(InputError, match="one value in the original"):
        analysis(table, table.copy(), [Analysis(formula="y ~ x")])
