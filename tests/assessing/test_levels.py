"""Tests of level and coverage: of a true hypothesis every p-value rejects 5 ± 1 %, and intervals hold 95 ± 1.5 %.

The seed was fixed before the shares were looked at.  `reference_standard` is not here: its p is that of the thesis's
subsamples at the distance of all records, so that a null of larger tables is rejected less often by design.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpuanon.assessing.declared_models import Analysis
from gpuanon.assessing.risk.reidentification import reidentification
from gpuanon.assessing.sampling_errors import mean_interval
from gpuanon.assessing.utility.analysis import analysis
from gpuanon.assessing.utility.cdf_points import cdf_points
from gpuanon.assessing.utility.distribution_fit import distribution_fit
from gpuanon.assessing.utility.ks import ks
from gpuanon.assessing.utility.mmd import mmd
from gpuanon.assessing.utility.paired_means import paired_means
from gpuanon.assessing.utility.propensity.pmse import pmse_cart, pmse_logit

NULLS = 1000
pytestmark = pytest.mark.slow


def exchangeable(rng, n, d):
    """A record and its release, interchangeable: the same person measured twice."""
    person = rng.normal(size=(n, d))
    return person + 0.5 * rng.normal(size=(n, d)), person + 0.5 * rng.normal(size=(n, d))


def flips(rng):
    return paired_means(*exchangeable(rng, 40, 3), permutations=199).value


def flips_in_the_limit(rng):
    return paired_means(*exchangeable(rng, 2100, 3), permutations=199).value


def exchanged_ks(rng):
    before, after = exchangeable(rng, 50, 2)
    found = ks(before, after, link=np.arange(50), permutations=99).details
    return found["exchanged_share"], found["exchanged_tied_share"]


def exchanged_mmd(rng):
    before, after = exchangeable(rng, 50, 2)
    return mmd(before, after, link=np.arange(50), features=32, permutations=99).details["permuted_share"]


def permuted_mmd(rng):
    found = mmd(rng.normal(size=(50, 2)), rng.normal(size=(40, 2)), features=32, permutations=19)
    return found.details["permuted_share"]


def exchanged_logit(rng):
    before, after = exchangeable(rng, 50, 2)
    return pmse_logit(before, after, permutations=19, link=np.arange(50)).details["permuted_share"]


def permuted_logit(rng):
    return pmse_logit(rng.normal(size=(50, 2)), rng.normal(size=(50, 2)), permutations=19).details["permuted_share"]


def exchanged_cart(rng):
    before, after = exchangeable(rng, 60, 2)
    return pmse_cart(before, after, permutations=19, link=np.arange(60)).details["permuted_share"]


def point_of_a_distribution(rng):
    before, after = rng.normal(size=(900, 1)), rng.normal(size=(900, 1))
    found = cdf_points(before, after, names=["x"], at={"x": [0.1]})
    return next(iter(found.parts[1].after.values()))["p_if_independent"]


def one_sample_fit(rng):
    values = rng.normal(3, 2, size=(2000, 1))
    return distribution_fit(values, values, names=["x"], parameters={"x": (3, 2)}).parts[1].before["x"]["p"]


def coefficient_of_a_model(rng):
    table = pd.DataFrame({"y": rng.normal(size=80), "x": rng.normal(size=80)})
    found = analysis(table, table, [Analysis(formula="y ~ x")])
    return found.parts[1].before["y ~ x | x"]["p"]


QUICK = (flips, flips_in_the_limit, permuted_mmd, point_of_a_distribution, one_sample_fit)
SLOWER = (exchanged_mmd, exchanged_logit, permuted_logit, exchanged_cart, coefficient_of_a_model)


def rejections(p_value, nulls):
    rng = np.random.default_rng(20260)
    return np.mean([p_value(rng) <= 0.05 + 1e-12 for _ in range(nulls)])


@pytest.mark.parametrize("p_value", [*QUICK, *SLOWER])
def test_a_true_hypothesis_is_rejected_in_five_per_cent(p_value):
    """With 1000 nulls one standard error is 0.7 %, and a seventh of all valid tests would miss ± 1 %: quick ones have
    4000."""
    rejected = rejections(p_value, 4 * NULLS if p_value in QUICK else NULLS)
    assert 0.04 <= rejected <= 0.06, rejected


def test_the_exchange_test_of_ks_is_conservative_and_exact_where_a_lot_decides_ties():
    """Distances of 50 pairs are multiples of 1 / 50: all ties with the observed one count against rejection."""
    rng, lots = np.random.default_rng(20260), np.random.default_rng(20261)
    found = [exchanged_ks(rng) for _ in range(4 * NULLS)]
    reported, decided = np.array([(share, share - lots.uniform() * tied) for share, tied in found]).T
    assert 0.04 <= np.mean(decided <= 0.05) <= 0.06
    assert 0.01 <= np.mean(reported <= 0.05 + 1e-12) <= 0.05


VALUES = {
    "shares": lambda rng, n, p: ((rng.random(n) < p).astype(float), p),
    "rare": lambda rng, n, p: ((rng.random(n) < p / 10).astype(float), p / 10),
    "ties": lambda rng, n, p: ((rng.random(n) < p) / rng.choice([1, 1, 2, 3, 10], n), p * 0.5867),
    "probabilities": lambda rng, n, p: (rng.beta(2 * p, 2 - 2 * p, n), p),
}


@pytest.mark.parametrize("n", [20, 200, 5000])
@pytest.mark.parametrize("kind", VALUES)
def test_the_interval_of_a_mean_holds_it_in_95_per_cent(kind, n):
    """The mean is drawn anew for each sample: the coverage of one share of few records jumps with that share.

    Of 20 records it is 94.5 to 96.4 %, so near to the limits that 20 000 samples are needed to say so.
    """
    rng, held = np.random.default_rng(20260), []
    for _ in range((20 if n == 20 else 4) * NULLS):
        values, mean = VALUES[kind](rng, n, rng.uniform(0.02, 0.6))
        found = mean_interval(values.mean(), values.var(), n)
        held.append(found.low <= mean <= found.high)
    assert 0.935 <= np.mean(held) <= 0.965


def attack(kind, rng, n):
    """Two columns with noise; with heavy tails, or with few values."""
    X = rng.standard_t(2, size=(n, 2)) if kind == "tails" else rng.normal(size=(n, 2))
    Y = X + (0.3 if n < 1000 else 0.1) * rng.normal(size=(n, 2))
    return (np.rint(2 * X), np.rint(2 * Y)) if kind == "ties" else (X, Y)


@pytest.mark.parametrize(("n", "tables"), [(20, 3000), (200, 2000), (5000, 200)])
@pytest.mark.parametrize("kind", ["plain", "tails", "ties"])
def test_the_interval_of_an_attack_holds_its_expectation_in_95_per_cent(kind, n, tables):
    """Of 200 tables a share has a standard error of 1.5 %.  Where records share their values it covers more."""
    rng = np.random.default_rng(20260)
    found = [reidentification(*attack(kind, rng, n), np.arange(n)) for _ in range(tables)]
    expected = np.mean([one.value for one in found])
    held = np.mean([one.interval.low <= expected <= one.interval.high for one in found])
    assert (0.93 if tables < 1000 else 0.935) <= held <= (1.0 if kind == "ties" or tables < 1000 else 0.965)
