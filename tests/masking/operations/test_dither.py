"""Dithers: the distribution is kept, Theorem 1 holds, and the parameters do what they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import GpuanonError, ParameterError
from gpuanon.masking.claims.drawn_claims import DrawnFromGroup, DrawnFromMixture
from gpuanon.masking.constraints import Sensitive
from gpuanon.masking.given import Records
from gpuanon.masking.operations.dither import Dither, association, column_order, gaussian_dither
from gpuanon.masking.operations.dither.cell_dithers import bin_codes, cell_dither, merged_cells
from gpuanon.masking.operations.dither.mixture import group_mixture, group_moments
from gpuanon.masking.operations.dither.permute import Permute, Resample
from gpuanon.masking.outcomes import Changed, Moved
from gpuanon.numerics.cuts.median_blocks import blocks
from tests.cuda.fixtures import host, xp

__all__ = ["xp"]  # a fixture

KEY = Key(b"a key for the tests of dithering")


def discrete_table(n, seed=0):
    """Standardised columns of 2, 5 and 8 levels that hang together."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, 3)) @ np.array([[1, 0.5, 0.3], [0, 1, 0.4], [0, 0, 1]])
    levels = [np.clip(np.floor((latent[:, j] + 2) * q / 4), 0, q - 1) for j, q in enumerate((2, 5, 8))]
    X = np.column_stack(levels)
    return (X - X.mean(axis=0)) / X.std(axis=0)


def near(X, size):
    """Groups of `size` near rows."""
    return blocks(X, Partition.whole(len(X)), size)


def records(n, path="", weights=None):
    return Records(KEY.draws(np.arange(n), path), weights)


def cells_of(X):
    return np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)


class TestMoments:
    def test_equal_numpy_group_by_group(self):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(300, 4)) + 5
        groups = Partition.from_labels(rng.integers(0, 40, 300))
        weights = rng.integers(0, 4, 300).astype(float)
        means, covariances, totals = group_moments(X, groups, weights)
        for g in range(groups.parts):
            rows = groups.order[groups.starts[g] : groups.starts[g + 1]]
            w = weights[rows] if weights[rows].sum() else np.ones(len(rows))
            np.testing.assert_allclose(means[g], np.average(X[rows], axis=0, weights=w), atol=1e-13)
            np.testing.assert_allclose(
                covariances[g], np.cov(X[rows].T, aweights=w, bias=True).reshape(4, 4), atol=1e-13
            )
            assert totals[g] == weights[rows].sum()

    def test_equal_components_are_united_inside_their_part_only(self):
        X = np.repeat(np.array([[0.0, 1], [2, 3], [0, 1], [0, 1]]), 5, axis=0)
        mixture = group_mixture(X, Partition.from_labels(np.repeat(np.arange(4), 5)), 1 / 3)
        united, starts = mixture.merged(Partition.from_labels(np.array([0, 0, 0, 1])))
        np.testing.assert_array_equal(starts, [0, 2, 3])
        first = {tuple(m): w for m, w in zip(united.means[:2], np.exp(united.log_weights[:2]), strict=True)}
        assert first[0.0, 1.0] == pytest.approx(10)
        assert first[2.0, 3.0] == pytest.approx(5)


class TestGaussian:
    @pytest.mark.parametrize("block", [0, None, 200])
    def test_u_is_uniform_and_independent(self, block):
        X = discrete_table(20_000)
        u, within = gaussian_dither(X, near(X, 10), KEY.draws(np.arange(20_000)), block=block)
        assert min(stats.kstest(column, "uniform").pvalue for column in u.T) > 1e-5
        assert np.abs(np.corrcoef(u.T) - np.eye(3)).max() < 5 / np.sqrt(20_000)
        assert within.parts == {0: 1, None: 16, 200: 100}[block]

    def test_blocks_a_few_at_a_time_give_the_same_numbers(self, monkeypatch):
        X, draws = discrete_table(3000), KEY.draws(np.arange(3000))
        groups, weights = near(X, 10), np.random.default_rng(5).integers(0, 4, 3000).astype(float)
        whole, within = gaussian_dither(X, groups, draws, block=200, weights=weights)
        monkeypatch.setattr("gpuanon.masking.operations.dither._HOST_BYTES", 1)
        u, again = gaussian_dither(X, groups, draws, block=200, weights=weights)
        np.testing.assert_array_equal(u, whole)
        np.testing.assert_array_equal(again.order, within.order)

    def test_blocks_are_unions_of_groups(self):
        X = np.random.default_rng(2).normal(size=(1000, 3))
        groups = Partition.from_labels(np.random.default_rng(3).integers(0, 90, 1000))
        _, within = gaussian_dither(X, groups, KEY.draws(np.arange(1000)), block=100)
        pairs = {(g, b) for g, b in zip(groups.labels(), within.labels(), strict=True)}
        assert len(pairs) == 90
        assert within.parts > 5

    @pytest.mark.parametrize("block", [0, None])
    def test_every_cell_keeps_its_share(self, block):
        n = 3000
        X = discrete_table(n)
        groups = near(X, 5)
        cell = cells_of(X)
        trials = 20
        counts = sum(
            np.bincount(
                cell[Dither(block=block).apply(X, groups, records(n, f"t{t}")).source], minlength=cell.max() + 1
            )
            for t in range(trials)
        )
        expected = np.bincount(cell) * trials
        # Draws of different records are independent, each count a sum of Bernoullis: its variance is at most its mean.
        z = (counts - expected) / np.sqrt(expected)
        assert np.abs(z).max() < 5
        assert (z**2).mean() < 1.5

    def test_weights_keep_the_weighted_distribution(self):
        n, trials = 4000, 20
        X = discrete_table(n, seed=5)
        cell = cells_of(X)
        weights = np.random.default_rng(5).integers(0, 5, n).astype(float)
        groups = near(X, 5)
        released = sum(
            np.bincount(
                cell[Dither().apply(X, groups, records(n, f"w{t}", weights)).source], weights, minlength=cell.max() + 1
            )
            for t in range(trials)
        )
        expected = np.bincount(cell, weights) * trials
        spread = np.sqrt(4 * np.maximum(expected, 1))  # at most: a Bernoulli times a weight of up to 4
        assert (np.abs(released - expected) / spread).max() < 5
        unweighted = np.bincount(cell) * trials * weights.mean()
        assert (np.abs(released - unweighted) / spread).max() > 5  # so the check can tell the two apart

    def test_tables_without_weight_are_masked_as_unweighted(self):
        X = discrete_table(300)
        groups = near(X, 5)
        plain = Dither().apply(X, groups, records(300)).source
        np.testing.assert_array_equal(Dither().apply(X, groups, records(300, weights=np.zeros(300))).source, plain)

    def test_one_group_a_block_is_resampling(self):
        X = np.random.default_rng(0).normal(size=(500, 2))
        groups = near(X, 10)
        source = Dither(block=10).apply(X, groups, records(500)).source
        assert (groups.labels()[source] == groups.labels()).all()

    def test_continuous_rows_are_copies_of_real_ones_and_binned_rows_are_not(self):
        X = np.random.default_rng(0).normal(size=(3000, 3))
        groups = near(X, 10)
        moved = Dither().apply(X, groups, records(3000))
        assert isinstance(moved, Moved)
        binned = Dither(bins=20).apply(X, groups, records(3000))
        assert isinstance(binned, Changed)
        assert not np.isin(binned.values, X).any()

    def test_bins_keep_marginals_and_correlations(self):
        n = 20_000
        rng = np.random.default_rng(4)
        X = rng.normal(size=(n, 3)) @ np.array([[1, 0.8, 0], [0, 0.6, 0.5], [0, 0, 1]])
        X[:, 0] = np.sign(X[:, 0])
        released = Dither(bins=20).apply(X, near(X, 10), records(n)).values
        assert set(np.unique(released[:, 0])) == {-1.0, 1.0}
        for j in (1, 2):
            assert stats.ks_2samp(X[:, j], released[:, j]).statistic < 0.015
        np.testing.assert_allclose(np.corrcoef(released.T), np.corrcoef(X.T), atol=0.03)
        # What bins are for: later columns keep their tie to the record.
        loose = X[Dither(block=0, bins=None).apply(X[:4000], near(X[:4000], 10), records(4000)).source]
        tied = Dither(block=0, bins=20).apply(X[:4000], near(X[:4000], 10), records(4000)).values
        tie = [np.corrcoef(X[:4000, 2], part[:, 2])[0, 1] for part in (loose, tied)]
        assert tie[1] > tie[0] + 0.3

    def test_order_of_columns(self):
        X = np.column_stack([np.arange(12.0), np.arange(12) % 2, np.arange(12) % 5, np.zeros(12)])
        assert column_order(X, "fewest") == [3, 1, 2, 0]
        assert column_order(X, "given") == [0, 1, 2, 3]
        assert column_order(X, (2, 0, 1, 3)) == [2, 0, 1, 3]
        assert column_order(X, "fewest", bins=4) == [3, 1, 0, 2]
        with pytest.raises(ParameterError, match="order"):
            column_order(X, (0, 0, 1, 2))

    def test_order_by_the_response_puts_first_what_tells_most_of_it(self):
        rng = np.random.default_rng(2)
        y = rng.integers(0, 40, 900)
        X = np.column_stack([rng.integers(0, 3, 900), y // 8, rng.normal(size=900), (y - 20) ** 2 // 50]).astype(float)
        known = Sensitive(y[:, None], (np.bincount(y),), (True,), (False,))
        assert column_order(X, "response", sensitive=known) == [1, 3, 0, 2]
        X[:, 2] += 100 * y  # tells all, but all its values differ
        assert column_order(X, "response", sensitive=known) == [1, 3, 0, 2]
        assert column_order(X, "response", bins=20, sensitive=known)[0] == 2
        assert column_order(X, "auto", sensitive=known) == column_order(X, "response", sensitive=known)
        assert column_order(X, "auto") == column_order(X, "fewest")
        with pytest.raises(ParameterError, match="sensitive"):
            column_order(X, "response")

    @pytest.mark.parametrize("ordered", [True, False])
    def test_association_is_the_r_squared_of_dummies(self, xp, ordered):
        """Of the ranks on the dummies of a column, or of all indicators of an unordered response (scikit-learn)."""
        rng = np.random.default_rng(3)
        X = rng.integers(0, 5, (400, 2)).astype(float)
        y = rng.integers(0, 4, 400) + (X[:, 0] > 2).astype(int)
        known = Sensitive(xp.asarray(y[:, None]), (xp.asarray(np.bincount(y)),), (ordered,), (False,))
        response = y[:, None].astype(float) if ordered else np.eye(y.max() + 1)[y]
        for found, column in zip(association(xp.asarray(X), known), X.T, strict=True):
            dummies = np.eye(5)[column.astype(int)]
            model = LinearRegression().fit(dummies, response)
            expected = r2_score(response, model.predict(dummies), multioutput="variance_weighted")
            assert found == pytest.approx(expected, abs=2e-9)

    def test_a_response_without_variance_is_told_by_nothing(self):
        known = Sensitive(np.zeros((9, 1), dtype=np.int64), (np.array([9]),), (True,), (False,))
        assert association(np.arange(9.0)[:, None], known) == [0.0]

    def test_binned_values_return_to_their_own_columns(self):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=2000) + 100, rng.integers(0, 2, 2000), rng.normal(size=2000) - 50])
        values = Dither(bins=10).apply(X, near(X, 5), records(2000)).values
        np.testing.assert_allclose(values.mean(axis=0), X.mean(axis=0), atol=0.1)

    def test_degenerate_tables(self):
        constant = np.ones((20, 2))
        assert (constant[Dither().apply(constant, near(constant, 5), records(20)).source] == 1).all()
        single = np.zeros((1, 1))
        assert Dither().apply(single, Partition.whole(1), records(1)).source.tolist() == [0]
        wide = np.random.default_rng(0).normal(size=(12, 30))  # more columns than rows in a group
        assert len(Dither().apply(wide, near(wide, 4), records(12)).source) == 12

    def test_no_loading_with_a_singular_group_is_refused(self):
        X = np.repeat(np.random.default_rng(0).normal(size=(10, 2)), 5, axis=0)
        with pytest.raises(GpuanonError, match="alpha"):
            Dither(alpha=0.0).apply(X, Partition.from_labels(np.repeat(np.arange(10), 5)), records(50))
        spread = np.random.default_rng(0).normal(size=(50, 2))
        Dither(alpha=0.0).apply(spread, near(spread, 10), records(50))

    def test_indicator_columns_return_whole_categories(self):
        rng = np.random.default_rng(0)
        category = rng.integers(0, 4, 2000)
        X = np.column_stack([np.where(category[:, None] == np.arange(4), 1.0, -1.0), rng.normal(size=2000)])
        X[:, :4] /= X[:, :4].std(axis=0)
        for bins in (None, 10):
            outcome = Dither(bins=bins).apply(X, near(X, 5), records(2000))
            released = X[outcome.source] if isinstance(outcome, Moved) else outcome.values
            chosen = (released[:, :4] > 0).sum(axis=1)
            assert (chosen == 1).all()

    def test_result_does_not_depend_on_threads(self, monkeypatch):
        X = np.random.default_rng(0).normal(size=(40_000, 3)).round(1)
        groups = near(X, 10)
        many = Dither().apply(X, groups, records(40_000)).source
        monkeypatch.setenv("GPUANON_THREADS", "1")
        np.testing.assert_array_equal(Dither().apply(X, groups, records(40_000)).source, many)


class TestBins:
    def test_shares_are_even_and_order_is_kept(self):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=1000), rng.integers(0, 3, 1000)])
        parts = Partition.from_labels(np.repeat([0, 1], 500))
        codes = bin_codes(X, parts, 20)
        for part in (slice(0, 500), slice(500, 1000)):
            assert np.bincount(codes[part, 0]).tolist() == [25] * 20
            assert (np.diff(codes[part, 0][np.argsort(X[part, 0])]) >= 0).all()
            np.testing.assert_array_equal(codes[part, 1], X[part, 1])

    def test_equal_values_share_a_bin(self):
        X = np.random.default_rng(0).integers(0, 40, (500, 1)).astype(float)
        codes = bin_codes(X, Partition.whole(500), 7)[:, 0]
        assert codes.max() < 7
        assert all(len(set(codes[X[:, 0] == v])) == 1 for v in range(40))


class TestCells:
    @pytest.mark.parametrize("weighted", [False, True])
    def test_the_drawn_cell_comes_back_every_time(self, weighted):
        """Theorem 1: cell dither and Rosenblatt's transformation are resampling, draw by draw."""
        from gpuanon.masking.operations.dither.permute import resample

        n = 20_000
        X = discrete_table(n)
        X[:, 2] += np.random.default_rng(0).integers(0, 3000, n) * 1e-3
        weights = np.random.default_rng(1).integers(1, 9, n).astype(float) if weighted else None
        groups = near(X, 7)
        for trial in range(5):
            draws = KEY.draws(np.arange(n), f"cells {trial}")
            source = cell_dither(X, groups, draws, weights)
            np.testing.assert_array_equal(X[source], X[resample(groups, draws.child("cell"), weights)])

    def test_equals_resampling_with_replacement_in_distribution(self):
        X = np.array([[0.0, 1], [0, 2], [0, 1], [1, 1], [1, 2], [1, 2], [0, 2], [1, 1]])
        labels, count = np.array([0, 0, 0, 1, 1, 1, 1, 0]), 1500
        # 1500 tables one below the other: values are shared by all groups, which Theorem 1 allows.
        groups = Partition.from_labels((np.arange(count)[:, None] * 2 + labels).reshape(-1))
        source = Dither(kind="cell").apply(np.tile(X, (count, 1)), groups, records(8 * count, "chi")).source
        cell = cells_of(X)
        counts = np.zeros((2, 4))
        np.add.at(counts, (np.tile(labels, count), cell[source % 8]), 1)
        for g in (0, 1):
            share = np.bincount(cell[labels == g], minlength=4) / 4
            assert counts[g, share == 0].sum() == 0
            assert stats.chisquare(counts[g, share > 0], 4 * count * share[share > 0]).pvalue > 1e-5

    def test_merged_cells_by_hand(self):
        # values    0  1  1  2  3  3  4  5; groups a a a a b a b b: 0 1 2 are all a, 3 is shared, 4 5 are b
        values = np.array([0, 1, 1, 2, 3, 3, 4, 5])
        groups = Partition.from_labels(np.array([0, 0, 0, 0, 1, 0, 1, 1]))
        np.testing.assert_array_equal(merged_cells(values, groups), [0, 0, 0, 0, 1, 1, 2, 2])

    def test_merged_cells_draw_members_in_proportion(self):
        x, labels, count = np.array([0.0, 1, 1, 2, 3, 3, 4, 5]), np.array([0, 0, 0, 0, 1, 0, 1, 1]), 3000
        # 3000 tables side by side on the line, far apart.
        line = (np.arange(count)[:, None] * 100 + x).reshape(-1, 1)
        groups = Partition.from_labels((np.arange(count)[:, None] * 2 + labels).reshape(-1))
        operation = Dither(kind="merged-cell")
        source = operation.apply(line, groups, records(8 * count, "merged")).source
        assert (source // 8 == np.arange(8 * count) // 8).all()
        counts = np.zeros((2, 6))
        np.add.at(counts, (np.tile(labels, count), x[source % 8].astype(int)), 1)
        for g in (0, 1):
            share = np.bincount(x[labels == g].astype(int), minlength=6) / (labels == g).sum()
            assert counts[g, share == 0].sum() == 0
            assert stats.chisquare(counts[g, share > 0], counts[g].sum() * share[share > 0]).pvalue > 1e-5
        assert operation.claims(5, [("a",)]) == (DrawnFromGroup(5, (("a",),)),)
        assert Dither().claims(5, [("a",)]) == (DrawnFromMixture(5, (("a",),)),)

    def test_merged_cells_need_one_column_and_cells_need_weight(self):
        X = np.zeros((4, 2))
        with pytest.raises(ParameterError, match="one column"):
            Dither(kind="merged-cell").apply(X, Partition.whole(4), records(4))
        groups = Partition.from_labels(np.array([0, 0, 1, 1]))
        with pytest.raises(ParameterError, match="above 0"):
            Dither(kind="cell").apply(X, groups, records(4, weights=np.array([0.0, 0, 1, 1])))


class TestOnEitherDevice:
    """The same release on NumPy and on the stand-in for CuPy (and on CuPy, where there is a device)."""

    @pytest.mark.parametrize(
        "operation",
        [
            Dither(),
            Dither(block=0),
            Dither(block=40),
            Dither(bins=5),
            Dither(kind="cell"),
            Resample(),
            Permute(),
        ],
        ids=lambda operation: (
            " ".join(str(v) for v in operation.model_dump(exclude_defaults=True).values()) or operation.use
        ),
    )
    @pytest.mark.parametrize("weighted", [False, True])
    def test_release_is_the_same(self, xp, operation, weighted):
        X = discrete_table(120)
        X[:, 2] += np.random.default_rng(0).normal(size=120) * 0.1
        weights = np.random.default_rng(1).integers(1, 4, 120).astype(float) if weighted else None
        groups = near(X, 6)
        expected = operation.apply(X, groups, records(120, "device", weights))
        there = Partition(xp.asarray(groups.order), xp.asarray(groups.starts))
        on_device = Records(KEY.draws(xp.arange(120), "device"), None if weights is None else xp.asarray(weights))
        outcome = operation.apply(xp.asarray(X), there, on_device)
        if isinstance(expected, Moved):
            assert isinstance(outcome.source, xp.ndarray)
            np.testing.assert_array_equal(host(outcome.source), expected.source)
        else:
            assert isinstance(outcome.values, xp.ndarray)
            np.testing.assert_allclose(host(outcome.values), expected.values, atol=1e-12)

    def test_merged_cells(self, xp):
        x = np.random.default_rng(3).integers(0, 30, (60, 1)).astype(float)
        groups = near(x, 6)
        there = Partition(xp.asarray(groups.order), xp.asarray(groups.starts))
        operation = Dither(kind="merged-cell")
        expected = operation.apply(x, groups, records(60, "m")).source
        outcome = operation.apply(xp.asarray(x), there, Records(KEY.draws(xp.arange(60), "m")))
        np.testing.assert_array_equal(host(outcome.source), expected)
