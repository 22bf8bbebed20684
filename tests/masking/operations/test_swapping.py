"""Swapping of values: what each kind keeps, against counts by pandas and naive versions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import rankdata, spearmanr

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.given import ClassInfo, Given, Records
from gpuanon.masking.operations.rank_match import LatinHypercube, RankMatch, RankNoise
from gpuanon.masking.operations.rank_swap import column_swap, exchange, rank_swap, targeted_swap

KEY = Key(b"a key for the tests of swapping")


def draws(n):
    return KEY.draws(np.arange(n))


def some_codes(n, c=3, levels=7, seed=0):
    return np.random.default_rng(seed).integers(-1, levels, size=(n, c))


def some_groups(n, count, seed=1):
    return Partition.from_labels(np.random.default_rng(seed).integers(0, count, n))


def assert_same_values(found, codes, groups):
    """Each column of each group holds the same values."""
    for part in range(groups.parts):
        rows = groups.order[groups.starts[part] : groups.starts[part + 1]]
        assert np.array_equal(np.sort(found[rows], axis=0), np.sort(codes[rows], axis=0))


@given(st.integers(1, 50), st.integers(1, 4), st.integers(2, 9))
@example(1, 1, 2)
@example(7, 1, 3)
@example(9, 3, 4)
def test_values_of_every_group_and_column_are_kept(n, parts, levels):
    codes, groups = some_codes(n, 3, levels, n), some_groups(n, parts)
    assert_same_values(exchange(codes, groups, draws(n)), codes, groups)
    assert_same_values(rank_swap(codes, groups, draws(n), 20), codes, groups)
    assert_same_values(column_swap(codes, groups, draws(n), 3), codes, groups)
    source, _ = targeted_swap(codes, groups, draws(n), below=3, rate=0.2)
    assert_same_values(codes[source], codes, groups)


def test_rank_swapping_stays_in_its_window_and_moves_nearly_all():
    n = 3000
    codes = np.argsort(np.random.default_rng(0).normal(size=(n, 2)), axis=0).argsort(axis=0)  # all different
    found = rank_swap(codes, Partition.whole(n), draws(n), window=4)
    assert np.abs(found - codes).max() <= 120
    assert (found == codes).mean() < 1 / 120  # those that found no partner lie more than a window apart
    assert (found[:, 0] - codes[:, 0] != found[:, 1] - codes[:, 1]).mean() > 0.9


def test_ranked_columns_are_exchanged_as_the_definition_says():
    """A naive version: sort each subset, shift whole columns in a circle; subsets of equal size."""
    n, subsets = 60, 5
    codes = np.stack([np.random.default_rng(j).permutation(n) for j in range(2)], axis=1)
    found = column_swap(codes, Partition.whole(n), draws(n), subsets)
    words = draws(n).child("subset").words(1)[:, 0]
    subset = np.empty(n, dtype=int)
    subset[np.argsort(words)] = np.arange(n) % subsets
    for j in range(2):
        step = 1 + int(draws(n).child(f"step.{j}").take(np.array([0])).uniform(1)[0, 0] * (subsets - 1))
        expected = np.empty(n, dtype=int)
        for own in range(subsets):
            rows = np.flatnonzero(subset == own)
            donors = np.sort(codes[subset == (own + step) % subsets, j])
            expected[rows[np.argsort(codes[rows, j])]] = donors
        assert np.array_equal(found[:, j], expected)
        assert (found[:, j] != codes[:, j]).all()


def test_core_swapping_keeps_the_tables_of_the_core_and_one_column():
    n = 2000
    table = pd.DataFrame(some_codes(n, 4, 4, seed=3), columns=list("abcd"))
    table["d"] = (table["c"] + (np.arange(n) % 5 == 0)) % 4
    groups = Partition.from_labels(table.groupby(["a", "b"]).ngroup().to_numpy())
    codes = table[["c", "d"]].to_numpy()
    found = table.assign(**dict(zip("cd", exchange(codes, groups, draws(n)).T, strict=True)))
    for name in "cd":
        pd.testing.assert_frame_equal(pd.crosstab([found.a, found.b], found[name]),
                                      pd.crosstab([table.a, table.b], table[name]))  # fmt: skip
    assert not pd.crosstab(found.c, found.d).equals(pd.crosstab(table.c, table.d))
    together = table.assign(**dict(zip("cd", exchange(codes, groups, draws(n), together=True).T, strict=True)))
    assert together.value_counts().sort_index().equals(table.value_counts().sort_index())


def test_targeted_swapping_exchanges_the_rare_with_somebody_from_elsewhere():
    rng = np.random.default_rng(5)
    n = 3000
    match = rng.integers(0, 20, n)
    area = rng.choice(30, n, p=np.r_[np.full(10, 0.095), np.full(20, 0.0025)])
    groups = Partition.from_labels(match)
    source, facts = targeted_swap(area[:, None], groups, draws(n), below=3)
    sizes = pd.Series(1, range(n)).groupby([match, area]).transform("size").to_numpy()
    rare = sizes < 3
    assert facts["records_at_risk"] == rare.sum() > 50
    assert facts["at_risk_without_partner"] == 0
    assert (source[rare] != np.flatnonzero(rare)).all()
    assert np.array_equal(source[source], np.arange(n))
    moved = source != np.arange(n)
    assert facts["records_exchanged"] == moved.sum() <= 2 * rare.sum()
    assert (match[source] == match).all()
    assert (area[source] != area)[moved].all()
    _, more = targeted_swap(area[:, None], groups, draws(n), below=3, rate=0.3)
    assert abs(more["records_exchanged"] / n - 0.3) < 0.03  # chosen at random; two of them may meet


def test_a_rare_record_without_anybody_to_exchange_with_is_counted():
    source, facts = targeted_swap(np.zeros((1, 1), dtype=int), Partition.whole(1), draws(1))
    assert facts == {"records_at_risk": 1, "records_exchanged": 0, "at_risk_without_partner": 1}
    assert source.tolist() == [0]


# Values in the order of a guide.


def correlated(n=20_000, seed=2):
    """Codes of continuous, coarse and binary columns, and of a category of five levels in no order."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 5)) @ np.linalg.cholesky(0.5 * np.eye(5) + 0.5).T
    levels = np.array([3, 0, 4, 1, 2])[np.digitize(Z[:, 4] + 0.5 * rng.normal(size=n), [-1, -0.3, 0.3, 1])]
    return np.stack(
        [rankdata(Z[:, 0]) - 1, rankdata(np.exp(Z[:, 1])) - 1, np.digitize(Z[:, 2], [-1, 0, 1]), Z[:, 3] > 0.5, levels],
        axis=1,
    ).astype(np.int64)


def applied(operation, codes, given=None, ordered=(True, True, True, True, False)):
    def info(count, flags):
        return ClassInfo(tuple("abcde"[:count]), flags, (np.zeros((1, 1)),) * count)

    seen = None if given is None else Given(given, info(given.shape[1], (True,) * given.shape[1]))
    records = Records(draws(len(codes)), classes=info(codes.shape[1], ordered), given=seen)
    outcome = operation.apply(codes, Partition.whole(len(codes)), records)
    return np.stack([column.codes for column in outcome.columns], axis=1)


@pytest.mark.parametrize("operation", [RankMatch(), RankNoise(b=0.5), LatinHypercube()], ids=lambda o: o.use)
def test_a_guide_keeps_the_values_of_every_column_exactly(operation):
    codes = correlated(500)
    codes[::7, 4] = -1
    found = applied(operation, codes)
    assert np.array_equal(np.sort(found, axis=0), np.sort(codes, axis=0))
    assert not np.array_equal(found, codes)


@pytest.mark.parametrize(
    ("operation", "tolerance"), [(RankMatch(), 0.03), (RankNoise(b=0.5), 0.03), (LatinHypercube(), 0.02)],
    ids=lambda o: getattr(o, "use", ""),
)  # fmt: skip
def test_rank_correlations_are_kept(operation, tolerance):
    """Sampling error is about 0.007 for 20 000 rows; correlations of coarse columns are corrected approximately."""
    codes = correlated()
    before, after = spearmanr(codes[:, :4])[0], spearmanr(applied(operation, codes)[:, :4])[0]
    np.testing.assert_allclose(after, before, atol=tolerance)


def test_a_latin_hypercube_keeps_correlations_of_normal_scores_beyond_sampling_error():
    """Two samples of 20 000 rows would differ by 0.007; the guide is exact, and ranking it changes little."""
    codes = correlated()[:, :2]
    found = applied(LatinHypercube(), codes, ordered=(True, True))
    before, after = (np.corrcoef(ndtri((values.T + 0.5) / len(values)))[0, 1] for values in (codes, found))
    assert abs(before - after) < 0.001


def test_levels_without_an_order_keep_their_link_to_the_main_axis():
    """Without the scaling the means by level would be equal, and the correlation about 0."""
    codes = correlated()
    found = applied(RankMatch(), codes)
    before, after = (pd.DataFrame(values).groupby(4)[0].mean() for values in (codes, found))
    assert np.corrcoef(before, after)[0, 1] > 0.98
    assert after.std() > 0.75 * before.std()


def test_shuffling_keeps_the_link_to_columns_that_stay_and_loses_the_own_value():
    codes = correlated()
    given, own = codes[:, [1, 2]], codes[:, [0, 3]]
    found = applied(RankMatch(), own, given, (True, True))
    both = np.hstack([given, own]), np.hstack([given, found])
    np.testing.assert_allclose(spearmanr(both[1])[0], spearmanr(both[0])[0], atol=0.03)
    # Given the columns that stay, new and old value are independent: their partial correlation is 0, to 5 / √n.
    Z = np.column_stack([rankdata(column) for column in (found[:, 0], own[:, 0], given[:, 0], given[:, 1])])
    inverse = np.linalg.inv(np.corrcoef(Z.T))
    assert abs(inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])) < 0.05


def test_little_noise_leaves_the_order_and_much_noise_does_not():
    codes = correlated()[:, :1]
    little, much = (spearmanr(codes[:, 0], applied(RankNoise(b=b), codes, None, (True,))[:, 0])[0] for b in (0.01, 4.0))
    # The correlation of z and (z + r) / √(1 + b) is 1 / √(1 + b); Spearman's is 6/π asin of half of it.
    for found, b in ((little, 0.01), (much, 4.0)):
        assert abs(found - 6 / np.pi * np.arcsin(0.5 / np.sqrt(1 + b))) < 0.02


def test_several_groups_are_refused():
    with pytest.raises(ParameterError, match="one group"):
        RankMatch().apply(some_codes(10), some_groups(10, 3), Records(draws(10)))


@pytest.mark.parametrize("shape", [(60, 200), (100, 60)])
def test_wide_tables_are_swapped_where_the_covariance_is_turned_back(shape):
    X = np.random.default_rng(1).normal(size=shape) @ np.random.default_rng(2).normal(size=(shape[1],) * 2)
    frame = pd.DataFrame(X, columns=[f"c{at}" for at in range(shape[1])])
    recipe = {"columns": {name: {"role": "quasi"} for name in frame}, "mask": [{"method": "svd-swap"}]}
    with pytest.raises(ParameterError, match="orthonormal = true"):
        gpuanon.protect(frame, recipe, backend="numpy")
    recipe["mask"] = [{"method": "svd-swap", "orthonormal": True}]
    found = gpuanon.protect(frame, recipe, backend="numpy").data
    assert np.allclose(np.cov(found.T), np.cov(X.T), atol=1e-8 * np.abs(np.cov(X.T)).max())


@pytest.mark.parametrize("method", ["svd-swap", "pica", "clustered-swap"])
def test_every_method_that_swaps_components_can_give_back_the_values_of_each_column(method):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"count": rng.poisson(1.2, 800), "income": rng.lognormal(8, 1, 800)})
    recipe = {"columns": {name: {"role": "quasi"} for name in frame}, "mask": [{"method": method, "marginals": True}]}
    found = gpuanon.protect(frame, recipe, rng=KEY, backend="numpy").data
    for name in frame:
        assert np.sort(found[name]).tolist() == pytest.approx(np.sort(frame[name]).tolist(), rel=1e-12)
