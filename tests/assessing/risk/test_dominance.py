"""Dominance against the sensitivity rules written from their definition, and on a registry with one rich person."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.assessing.risk.dominance import dominance
from gpuanon.errors import GuaranteeError, ParameterError


def naive(x, v, classes, p, n, k):
    """Class after class, as tables of magnitudes are checked."""
    disclosed, concentrated = [], []
    for label in set(classes.tolist()):
        held = sorted(x[classes == label], reverse=True)
        total = float(v[classes == label].sum())
        others = total - held[0] - (held[1] if len(held) > 1 else 0)
        told = abs(total - sum(held)) < p / 100 * held[0]  # otherwise it is by chance
        disclosed.append(told and abs(others) < p / 100 * held[0])
        concentrated.append(sum(held[:n]) > k / 100 * sum(held))
    return np.mean(disclosed), np.mean(concentrated)


@pytest.mark.parametrize(("p", "n", "k"), [(10, 2, 85), (50, 1, 40), (5, 3, 99)])
def test_shares_are_those_of_the_rules(p, n, k):
    rng = np.random.default_rng(p)
    x, classes = rng.lognormal(0, 2, (300, 2)), rng.integers(0, 60, 300)
    means = np.column_stack([np.bincount(classes, x[:, j])[classes] / np.bincount(classes)[classes] for j in range(2)])
    for v in (means, np.round(means, 1), x[::-1]):
        found = dominance(x, v, classes, p=p, n=n, k=k, names=["a", "b"])
        expected = [naive(x[:, j], v[:, j], classes, p, n, k) for j in range(2)]
        assert found.value == max(share for share, _ in expected)
        assert found.details["nk_share"] == {"a": expected[0][1], "b": expected[1][1]}


def test_nulls_and_numbers_below_0_are_left_out():
    x = np.array([[1.0, -1], [2, 5], [np.nan, 4], [100, 3]])
    found = dominance(x, np.nan_to_num(x), np.zeros(4, int), names=["a", "b"])
    assert found.parts[0].values == {"a": 1.0, "b": None}  # 103 − 2 − 100 is within 10 % of 100
    with pytest.raises(ParameterError, match="p above 0"):
        dominance(x, x, np.zeros(4, int), p=0)


def rich(rows=500):
    rng = np.random.default_rng(4)
    income = rng.lognormal(10, 0.1, rows).round()
    income[7] = 250e6
    return pa.table({"age": rng.integers(20, 90, rows), "income": income, "cost": rng.normal(size=rows)})


def test_one_value_that_follows_from_a_centroid_is_found_limited_and_cured_by_medians():
    columns = {"age": {"role": "quasi"}, "income": {"role": "quasi"}, "cost": {"role": "sensitive"}}
    rules = {"columns": columns, "mask": [{"method": "microaggregation", "k": 5}]}
    key = b"a key for the tests of dominance"
    release = gpuanon.protect(rich(), rules, rng=key, backend="numpy")
    found = gpuanon.assess(rich(), release.data, rules, link=release.link, measures=["dominance"]).measured["dominance"]
    assert 0 < found.parts[0].values["income"] <= 0.02
    with pytest.raises(GuaranteeError, match="dominance"):
        gpuanon.protect(rich(), rules | {"limits": {"dominance": 0.0}}, rng=key, backend="numpy")
    rules["mask"][0]["centre"] = "median"
    cured = gpuanon.protect(rich(), rules | {"limits": {"dominance": 0.0}}, rng=key, backend="numpy")
    assert cured.manifest["measured"]["dominance"] == 0
