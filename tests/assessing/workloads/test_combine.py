"""Combining rules: worked examples, and the coverage of nominal 95 % intervals over repetitions."""

from __future__ import annotations

import numpy as np
import pytest

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.assessing.workloads import combine, combined_mean, combined_regression
from gpuanon.errors import ParameterError
from gpuanon.masking.operations.column_chain.conditional import Coded
from gpuanon.masking.operations.sequential import synthesise

M = 5


def test_the_rules_are_a_public_name():
    assert gpuanon.workloads.combine is combine


def test_the_rules_by_hand():
    q, v = [1.0, 2.0, 3.0], [0.5, 0.5, 0.8]
    found = combine(q, v, "imputed")
    assert found.estimate[0] == pytest.approx(2)
    assert found.variance[0] == pytest.approx(0.6 + 4 / 3)
    assert found.degrees[0] == pytest.approx(2 * (1 + 0.6 / (4 / 3)) ** 2)
    assert combine(q, v, "partial").variance[0] == pytest.approx(0.6 + 1 / 3)
    assert combine(q, v, "partial").degrees[0] == pytest.approx(2 * (1 + 0.6 / (1 / 3)) ** 2)
    assert combine(q, v, "full").variance[0] == pytest.approx(4 / 3 - 0.6)
    assert combine(q, v, "simple").variance[0] == pytest.approx(0.8)
    assert combine(q, v, "proper").variance[0] == pytest.approx(1.0)
    negative = combine([1.0, 1.1, 0.9], v, "full")  # Reiter 2002: the variance within, not a negative one
    assert (negative.variance[0], negative.degrees[0]) == (pytest.approx(0.6), np.inf)
    low, high = found.interval()
    assert low[0] < 2 < high[0]


@pytest.mark.parametrize(("m", "low", "high"), [(5, 0.945, 0.97), (10, 0.96, 0.985), (20, 0.965, 0.99)])
@pytest.mark.parametrize("rule", ["full", "proper"])
def test_intervals_of_new_rows_cover_in_a_normal_model(rule, m, low, high):
    """20 000 repetitions of estimates as proper synthesis gives them: the error of a coverage of 0.95 is 0.0015."""
    rng = np.random.default_rng(19)
    own = rng.normal(size=20_000) + rng.normal(size=(m, 20_000)) * np.sqrt(2)
    found = combine(own, rng.chisquare(198, size=own.shape) / 198, rule)
    ends = found.interval()
    held = np.mean((ends[0] <= 0) & (ends[1] >= 0))
    assert 0.945 <= held <= 0.955 if rule == "proper" else low <= held <= high


def test_equal_copies_have_the_interval_of_one():
    found = combine([2.0, 2.0], [1.0, 1.0], "partial")
    assert found.interval()[1][0] == pytest.approx(2 + 1.959964, rel=1e-6)


def test_what_cannot_be_combined_is_refused():
    with pytest.raises(ParameterError, match="two copies"):
        combine([1.0], [1.0], "partial")
    with pytest.raises(ParameterError, match="variances"):
        combine([1.0, 2.0], [1.0], "partial")


def population(rng, n=200):
    """(n, 2): y = 1 + 0.5 x + e."""
    x = rng.normal(size=n)
    return np.column_stack([x, 1 + 0.5 * x + rng.normal(size=n)])


def codes_of(table):
    """Codes and values of every column."""
    found = [np.unique(column, return_inverse=True) for column in table.T]
    return np.column_stack([place.reshape(-1) for _, place in found]), [values for values, _ in found]


def copies_of(table, number, given, settings):
    """M copies by the synthesiser; the first column is given, or new too."""
    codes, values = codes_of(table)
    made = []
    for copy in range(M):
        draws = Key(b"coverage of intervals %d %d" % (number, copy)).draws(np.arange(len(table)))
        if given:
            own, _ = synthesise(
                codes[:, 1:], (True,), draws, given=[Coded(codes[:, 0], True, len(values[0]))], **settings
            )
            new = np.column_stack([codes[:, 0], own])
        else:
            new, _ = synthesise(codes, (True, True), draws, **settings)
        made.append(np.column_stack([values[j][new[:, j]] for j in range(2)]))
    return made


def coverage(rule, given, settings, repetitions):
    """Share of intervals that hold the mean of y (1) and the slope (0.5)."""
    rng = np.random.default_rng(17)
    held = np.zeros(2)
    for number in range(repetitions):
        copies = copies_of(population(rng), number, given, settings)
        mean = combined_mean([copy[:, 1] for copy in copies], rule)
        designs = [np.column_stack([np.ones(len(copy)), copy[:, 0]]) for copy in copies]
        slope = combined_regression(designs, [copy[:, 1] for copy in copies], rule)
        for at, (found, j, truth) in enumerate(((mean, 0, 1.0), (slope, 1, 0.5))):
            low, high = found.interval()
            held[at] += low[j] <= truth <= high[j]
    return held / repetitions


PARAMETRIC = {"model": "parametric"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "given", "settings"),
    [
        ("partial", True, PARAMETRIC | {"proper": True}),
        ("simple", False, PARAMETRIC),
        ("proper", False, PARAMETRIC | {"proper": True}),
        ("full", False, PARAMETRIC | {"proper": True}),
    ],
    ids=["partial", "simple", "proper", "full"],
)
def test_intervals_hold_the_truth_as_often_as_they_say(rule, given, settings):
    """500 repetitions: a coverage of 0.95 has a standard error of 0.0097."""
    held = coverage(rule, given, settings, 500)
    assert ((held >= 0.93) & (held <= 0.97)).all(), held
