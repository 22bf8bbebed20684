"""Contingency-table distances: the lecture's worked example, SciPy, and extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import jensenshannon

from gpuanon.assessing.utility.cell_counts import binned, tables
from gpuanon.assessing.utility.contingency import (
    cell_ks,
    freeman_tukey,
    ft,
    g,
    jsd,
    kl,
    likelihood_ratio,
    vw,
)
from gpuanon.errors import ParameterError

MEASURES = (vw, jsd, kl, cell_ks, ft, g)


def test_the_worked_example_of_the_lecture() -> None:
    """Ten rows, two groups: 6 and 4 in the original, 5 and 5 in the release."""
    before = np.array([1] * 6 + [2] * 4)[:, None]
    after = np.array([1] * 5 + [2] * 5)[:, None]
    assert vw(before, after).value == pytest.approx(0.4)
    assert cell_ks(before, after).value == pytest.approx(0.1)
    half = [0.6 * math.log(12 / 11) + 0.4 * math.log(8 / 9), 0.5 * math.log(10 / 11) + 0.5 * math.log(10 / 9)]
    assert jsd(before, after).value == pytest.approx(sum(half) / 2)


counts = st.lists(st.integers(0, 6), min_size=2, max_size=6).filter(lambda cells: sum(cells) > 0)


@given(counts, counts)
@example([3, 2], [1, 4])
@example([1, 0], [0, 1])
def test_divergences_equal_scipy(before: list[int], after: list[int]) -> None:
    size = max(len(before), len(after))
    p, q = (np.array(cells + [0] * (size - len(cells)), dtype=float) for cells in (before, after))
    tables_ = [np.repeat(np.arange(size), cells.astype(int))[:, None] for cells in (p, q)]
    assert jsd(*tables_).value == pytest.approx(jensenshannon(p, q) ** 2, abs=1e-12)
    assert jsd(*tables_).details["bits"] <= 1 + 1e-12  # type: ignore[operator]
    assert cell_ks(*tables_).value == pytest.approx(np.abs(p / p.sum() - q / q.sum()).max())
    filled = np.where((q == 0) & (p > 0), 0.5, q)
    assert kl(*tables_).value == pytest.approx(stats.entropy(p, filled), abs=1e-12)


def test_all_pairs_are_gone_through() -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.integers(0, 3, size=(200, 4)), rng.integers(0, 3, size=(150, 4))
    for ways, number in ((1, 4), (2, 6), (3, 4)):
        found = list(tables(X, Y, ways))
        assert len(found) == number
        for columns, before, after in found:
            cells = np.concatenate([X, Y])[:, columns]
            occupied = np.unique(cells, axis=0)
            np.testing.assert_array_equal(before, [(X[:, columns] == cell).all(axis=1).sum() for cell in occupied])
            np.testing.assert_array_equal(after, [(Y[:, columns] == cell).all(axis=1).sum() for cell in occupied])


def test_extremes() -> None:
    X = np.random.default_rng(2).integers(0, 5, size=(300, 3))
    for measure in MEASURES:
        assert measure(X, np.random.default_rng(3).permutation(X)).value == pytest.approx(0, abs=1e-12)
    assert jsd(X, X + 10).value == pytest.approx(math.log(2))
    assert jsd(X, X + 10).details["bits"] == pytest.approx(1)
    assert cell_ks(X[:, :1] * 0, X[:, :1] * 0 + 1).value == 1
    with pytest.raises(ParameterError, match="ways"):
        vw(X, X, ways=0)
    with pytest.raises(ParameterError, match="columns"):
        vw(X, X[:, :2])


def test_independent_columns_lose_their_joint_table_but_not_their_own() -> None:
    x = np.random.default_rng(4).integers(0, 4, size=400)
    X = np.column_stack([x, x])
    Y = np.column_stack([x, np.random.default_rng(5).permutation(x)])
    assert jsd(X, Y, ways=1).value == pytest.approx(0, abs=1e-12)
    assert jsd(X, Y, ways=2).value > 0.3


def test_bins_hold_equal_counts_and_a_place_for_missing_values() -> None:
    X = np.column_stack([np.arange(100.0), np.r_[np.full(60, 7.0), np.arange(39.0) + 10, np.nan]])
    before, after = binned(X, np.array([[-5.0, np.nan], [1000.0, 7.0]]), 10)
    np.testing.assert_array_equal(np.bincount(before[:, 0]), np.full(10, 10))
    assert after[0].tolist() == [0, 10]
    assert after[1].tolist() == [9, before[0, 1]]
    assert before[99, 1] == 10


def test_standardised_statistics_are_those_of_the_formulas():
    before, after = np.array([30.0, 50.0, 0.0, 20.0]), np.array([25.0, 60.0, 5.0, 10.0])
    expected = 4 * sum((np.sqrt(s) - np.sqrt(o)) ** 2 for s, o in zip(after, before, strict=True)) / 3
    assert freeman_tukey(before, after) == pytest.approx(expected)
    assert freeman_tukey(before, 2 * before) == pytest.approx(0)  # the original is scaled to the release
    only = np.array([30.0, 50.0, 20.0]), np.array([25.0, 60.0, 15.0])
    statistic = stats.power_divergence(only[1], only[0], lambda_="log-likelihood").statistic
    assert likelihood_ratio(*only) == pytest.approx(statistic / 2)


@pytest.mark.parametrize("statistic", [freeman_tukey, likelihood_ratio])
def test_an_independent_sample_has_about_one(statistic):
    rng = np.random.default_rng(0)
    before = np.array([400.0, 300, 200, 100]) * 10
    found = [statistic(before, rng.multinomial(10_000, before / before.sum()).astype(float)) for _ in range(500)]
    assert np.mean(found) == pytest.approx(1, abs=0.12)


def test_draws_from_the_original_have_about_one_and_fresh_samples_one_and_m_over_n() -> None:
    """Means of 60 releases of 2 000 and 1 000 records, of tables of 4 × 5 cells."""
    rng = np.random.default_rng(12)
    shares = rng.dirichlet(np.full(20, 5.0))

    def sample(rows: int) -> np.ndarray:
        return np.stack(np.divmod(rng.choice(20, rows, p=shares), 5), axis=1)

    for m in (2000, 1000):
        for measure in (vw, jsd, kl, ft, g):
            drawn, fresh = [], []
            for _ in range(60):
                original = sample(2000)
                for release, found in ((original[rng.integers(0, 2000, m)], drawn), (sample(m), fresh)):
                    beside = {one.name: one.value for one in measure(original, release).beside}
                    found.append(beside["standardised"])
            assert np.mean(drawn) == pytest.approx(1, abs=0.2)
            assert np.mean(fresh) == pytest.approx(1 + m / 2000, abs=0.3)
            assert beside["fresh_sample"] == pytest.approx(1 + m / 2000)
