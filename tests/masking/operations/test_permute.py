"""Permutation inside groups: without weights, and with weights against full enumeration."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

import gpuanon
from gpuanon.arrays.partition import Partition, shuffle_within
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.given import Records
from gpuanon.masking.operations.dither.permute import Permute, _donor_places, permute, resample
from tests.cuda.support.fake_cupy import fake_cupy
from tests.support.every import recipe, registry

KEY = Key(b"a key for the tests of permutation")
GROUPS = Partition.from_labels(np.random.default_rng(5).integers(0, 60, 700))
UNEQUAL = np.random.default_rng(6).lognormal(0, 1, 700) * (np.arange(700) % 7 > 0)


def copies(n, count):
    """`count` groups of `n` rows, one after the other."""
    return Partition(np.arange(n * count), np.arange(0, n * count + 1, n))


def enumerated(weights):
    """(cases, n) the donor of each receiver in every case: orders × starts × points, in units of weight."""
    n, total = len(weights), weights.sum()
    cases = list(product(permutations(range(n)), range(total), product(*map(range, weights))))
    orders, starts, points = (np.array(part) for part in zip(*cases, strict=True))
    groups = copies(n, len(cases))
    donors = (orders + np.arange(len(cases))[:, None] * n).reshape(-1)
    u = ((points + 0.25) / weights).reshape(-1)  # the quarters keep the points off the borders of the units
    place = _donor_places(u, (starts + 0.5) / total, donors, groups, np.tile(weights, len(cases)))
    return donors[place].reshape(-1, n) % n


@pytest.mark.parametrize("weights", [[1, 3], [1, 2, 3], [2, 1, 3], [1, 1, 2, 3], [1, 3, 1, 3], [1, 1, 1, 5]])
def test_by_enumeration_the_chances_are_the_weights_and_the_variance_is_at_most_that_of_resampling(weights):
    weights = np.array(weights)
    total = weights.sum()
    source = enumerated(weights)
    for row in range(len(weights)):  # whoever receives
        np.testing.assert_allclose(np.bincount(source[:, row]) / len(source), weights / total, rtol=1e-12)
    for members in product([False, True], repeat=len(weights)):
        chosen = np.array(members)
        share = weights[chosen].sum() / total
        received = (chosen[source] * weights).sum(axis=1)
        np.testing.assert_allclose(received.mean(), share * total, rtol=1e-12)
        assert received.var() <= (weights**2).sum() * share * (1 - share) * (1 + 1e-12)


def test_by_enumeration_a_weight_of_0_gives_nothing_and_receives_as_the_others_do():
    weights = np.array([0.0, 2.0, 1.0, 0.0])
    groups = copies(4, 9000)
    source = permute(groups, KEY.draws(np.arange(36_000)), np.tile(weights, 9000)).reshape(-1, 4) % 4
    for row in range(4):
        counts = np.bincount(source[:, row], minlength=4)
        assert counts[[0, 3]].sum() == 0
        assert stats.chisquare(counts[1:3], [6000, 3000]).pvalue > 1e-5


@pytest.mark.parametrize("weight", [1.0, 0.1, 1e-300, 3e200, 0.0])
def test_equal_weights_give_the_unweighted_permutation_to_the_bit(weight):
    draws = KEY.draws(np.arange(700))
    expected = shuffle_within(draws.uniform(1)[:, 0], GROUPS)
    np.testing.assert_array_equal(permute(GROUPS, draws), expected)
    np.testing.assert_array_equal(permute(GROUPS, draws, np.full(700, weight)), expected)


def test_only_groups_of_unequal_weights_are_drawn_otherwise():
    draws, labels = KEY.draws(np.arange(700)), GROUPS.labels()
    source = permute(GROUPS, draws, 1.0 + labels + (labels == 7) * np.arange(700))
    elsewhere = labels != 7
    np.testing.assert_array_equal(source[elsewhere], permute(GROUPS, draws)[elsewhere])
    assert (labels[source] == labels).all()


def test_a_group_is_permuted_alike_whatever_the_other_groups_are():
    labels, draws = GROUPS.labels(), KEY.draws(np.arange(700))
    keep = np.flatnonzero(labels % 3 == 1)
    alone = permute(Partition.from_labels(labels[keep]), draws.take(keep), UNEQUAL[keep])
    np.testing.assert_array_equal(keep[alone], permute(GROUPS, draws, UNEQUAL)[keep])


def test_weighted_totals_are_kept_in_the_mean_and_vary_less_than_by_resampling():
    """Groups of ten with survey weights: the mean within 5 standard errors, the variance clearly below."""
    rng = np.random.default_rng(8)
    weights, values = rng.lognormal(0, 0.6, 10), rng.random(10)
    groups, draws, w = copies(10, 20_000), KEY.draws(np.arange(200_000), "ten"), np.tile(weights, 20_000)
    totals = {f: (values[f(groups, draws, w) % 10].reshape(-1, 10) @ weights) for f in (permute, resample)}
    for found in totals.values():
        assert abs(found.mean() - weights @ values) < 5 * found.std() / np.sqrt(20_000)
    assert totals[permute].var() < 0.75 * totals[resample].var()


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
def test_as_many_records_keep_their_own_values_as_the_claim_allows(spread):
    """One in each group in the mean: 40 000 groups, so that two in a hundred more would be refused."""
    n = 200_000
    weights = np.random.default_rng(9).lognormal(0, spread, n)
    source = permute(copies(5, 40_000), KEY.draws(np.arange(n), "own"), weights)
    assert abs((source == np.arange(n)).sum() - 40_000) < 5 * np.sqrt(40_000)


def test_a_device_gives_the_same():
    expected = permute(GROUPS, KEY.draws(np.arange(700)), UNEQUAL)
    with fake_cupy() as cp:
        groups = Partition(cp.asarray(GROUPS.order), cp.asarray(GROUPS.starts))
        records = Records(KEY.draws(cp.arange(700)), cp.asarray(UNEQUAL))
        found = Permute().apply(cp.zeros((700, 1)), groups, records).source
        np.testing.assert_array_equal(cp.asnumpy(found), expected)


@pytest.mark.parametrize("weights", [[1.0, -1.0], [1.0, np.nan], [1.0, np.inf]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ParameterError, match="weights"):
        permute(Partition.whole(2), KEY.draws(np.arange(2)), np.array(weights))


@pytest.mark.slow
def test_a_weighted_table_is_released_and_its_claim_holds():
    """Weighted means of a release over many keys are those of the table, within 5 standard errors."""
    table = registry(300)
    weights = np.random.default_rng(3).lognormal(0, 1, 300)
    rules = recipe("permute")
    rules["columns"] = rules["columns"] | {"w": {"role": "weight"}}
    table = table.append_column("w", [weights])
    means = []
    for key in range(40):
        release = gpuanon.protect(table, rules, rng=key, backend="numpy")
        w = np.asarray(release.data["w"])
        means.append(np.average(np.asarray(release.data["age"], dtype=float), weights=w))
    expected = np.average(np.asarray(table["age"], dtype=float), weights=weights)
    assert abs(np.mean(means) - expected) < 5 * np.std(means, ddof=1) / np.sqrt(40)
