"""One-sample distances of both tables from a named distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats._lilliefors import get_lilliefors_table

from gpuanon.assessing.utility.distribution_fit import critical_of_fitted, distribution_fit
from gpuanon.errors import InputError, ParameterError

RNG = np.random.default_rng(0)
BEFORE = RNG.normal(50, 5, size=(300, 1))
AFTER = np.round(BEFORE / 5) * 5 + RNG.normal(0, 1e-9, size=(300, 1))


@pytest.mark.parametrize(
    ("family", "given", "reference"),
    [
        ("normal", (50, 5), stats.norm(50, 5)),
        ("lognormal", (3.9, 0.1), stats.lognorm(0.1, scale=np.exp(3.9))),
        ("exponential", (50,), stats.expon(scale=50)),
        ("uniform", (30, 70), stats.uniform(30, 40)),
    ],
)
def test_distances_and_p_are_those_of_scipy(family, given, reference):
    found = distribution_fit(BEFORE, AFTER, names=["x"], distribution=family, parameters={"x": given})
    tables = found.parts[1]
    for side, values in ((tables.before, BEFORE), (tables.after, AFTER)):
        expected = stats.kstest(values[:, 0], reference.cdf, method="exact")
        assert side["x"]["distance"] == pytest.approx(expected.statistic, abs=1e-12)
        assert side["x"]["p"] == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    changes = abs(tables.before["x"]["distance"] - tables.after["x"]["distance"])
    assert found.value == pytest.approx(changes)


def test_rounding_is_rejected_on_one_side_only():
    found = distribution_fit(BEFORE, AFTER, names=["x"], parameters={"x": (50, 5)})
    assert found.details["columns_rejected_on_one_side_only"] == 1


def test_estimated_parameters_have_no_p_value_and_missing_values_are_left_out():
    some = BEFORE.copy()
    some[:20] = np.nan
    found = distribution_fit(some, some, names=["x"])
    assert found.value == 0
    assert found.parts[1].before["x"]["p"] is None
    assert found.parts[1].before["x"]["distance"] == pytest.approx(
        stats.kstest(BEFORE[20:, 0], "norm", args=(BEFORE[20:].mean(), BEFORE[20:].std())).statistic
    )


def test_what_cannot_be_is_refused():
    with pytest.raises(InputError, match="lognormal"):
        distribution_fit(-BEFORE, -AFTER, names=["x"], distribution="lognormal")
    with pytest.raises(ParameterError, match="normal has 2"):
        distribution_fit(BEFORE, AFTER, names=["x"], parameters={"x": (1, 2, 3)})
    with pytest.raises(ParameterError, match="'y'"):
        distribution_fit(BEFORE, AFTER, names=["x"], parameters={"y": (1, 2)})


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize(
    ("family", "draw"),
    [("normal", RNG.normal), ("exponential", RNG.exponential), ("lognormal", RNG.lognormal), ("uniform", RNG.uniform)],
)
def test_a_fitted_distribution_is_rejected_in_at_most_one_of_twenty_samples_of_it(family, draw, n):
    """1 500 samples; five standard errors.  The critical value of a known distribution would reject next to none."""
    fits = [distribution_fit(x, x, names=["x"], distribution=family) for x in draw(size=(1500, n, 1))]
    sides = [fit.parts[1].before["x"] for fit in fits]
    share = np.mean([side["distance"] > side["critical"] for side in sides])
    assert share < 0.05 + 5 * np.sqrt(0.05 * 0.95 / 1500)
    if family != "uniform":
        assert share > 0.05 - 5 * np.sqrt(0.05 * 0.95 / 1500)


def test_the_critical_value_of_a_fitted_normal_is_that_of_lilliefors():

    table = get_lilliefors_table("norm")
    for n in (20, 50, 200):
        assert critical_of_fitted("normal", n) == pytest.approx(table.crit(0.05, n), rel=0.01)
