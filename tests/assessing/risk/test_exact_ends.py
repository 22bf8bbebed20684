"""Ends of intervals that are one person's value, counted row by row."""

from __future__ import annotations

import numpy as np
import pytest

import gpuanon
from gpuanon.assessing.risk.exact_ends import exact_ends
from gpuanon.errors import ParameterError
from tests.support.every import recipe, registry


def test_ends_are_counted_as_by_hand():
    original = np.array([0, 1, 1, 2, 3, -1])
    low, high = np.array([0, 0, 1, -1, 4]), np.array([2, 2, 3, -1, 5])
    found = exact_ends([original], [low], [high], names=["x"])
    # Intervals 0–2, 1–3 and 4–5: 0, 2 and 3 are one record's; 1 is two records', 4 and 5 nobody's; null is no end.
    assert found.value == 3 / 6
    assert found.details["ends"] == 6
    with pytest.raises(ParameterError, match="the same columns"):
        exact_ends([original], [], [])


@pytest.mark.parametrize("form", ["interval", "interval-column"])
def test_a_release_of_intervals_against_pandas(form):
    rules = recipe({"method": "mondrian", "k": 4, "release": form})
    release = gpuanon.protect(registry(300), rules, rng=b"a key for the tests of ends", backend="numpy")
    found = gpuanon.assess(registry(300), release.data, rules, measures=["exact_ends"]).measured["exact_ends"]
    assert found.value > 0.3
    if form == "interval":
        frame, counts = release.data.to_pandas(), registry(300).to_pandas().income.value_counts()
        pairs = frame[["income_low", "income_high"]].drop_duplicates()
        ends = np.concatenate([pairs.income_low, pairs.income_high])
        expected = np.mean([counts.get(end, 0) == 1 for end in ends[~np.isnan(ends)]])
        assert found.parts[0].values["income"] == pytest.approx(expected)


def test_values_that_are_no_intervals_are_both_ends():
    found = gpuanon.assess(registry(300), registry(300), recipe("permute"), measures=["exact_ends"])
    counts = registry(300).to_pandas().income.value_counts()
    assert found.measured["exact_ends"].parts[0].values["income"] == pytest.approx((counts == 1).mean())
