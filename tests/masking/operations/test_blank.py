"""Local suppression: against an integer programme, pair by pair, and through the engine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.errors import GpuanonError, GuaranteeError
from gpuanon.masking.claims import Counted, Evidence
from gpuanon.masking.claims.class_claims import SharedValues
from gpuanon.masking.operations.blank import Blank, RandomBlank, blank_cells, local_suppression, plan_blanks
from gpuanon.masking.operations.blank.local_suppression import kept_cells, randomly_kept
from gpuanon.masking.operations.blank.local_suppression_programme import Lines
from gpuanon.numerics.patterns import Patterns
from tests.support.every import recipe, registry
from tests.support.local_suppression import fewest_sharing, least_cost

KEY = b"a key for the tests of blanked cells"
COLUMNS = ["sex", "education", "region"]
tables = hnp.arrays(np.int64, st.tuples(st.integers(5, 30), st.integers(1, 4)), elements=st.integers(-1, 3))


def released(patterns, lines):
    """The rows that are left, pattern after pattern."""
    return np.repeat(np.where(lines.keep, patterns.codes[lines.of], -1), lines.counts, axis=0)


@settings(max_examples=20)
@given(tables, st.integers(2, 5))
@example(np.full((5, 2), -1), 5)
@example(np.array([[0, -1], [0, 1], [0, 2], [1, 1], [2, 1]]), 2)
def test_what_is_left_is_shared_by_k(table, k):
    patterns = Patterns.of(table)
    order = np.random.default_rng(0).random(patterns.codes.shape)
    for lines in (
        kept_cells(patterns.codes, patterns.counts, k),
        Lines.whole(patterns.counts, randomly_kept(patterns.codes, patterns.counts, k, order)),
    ):
        assert not (lines.keep & (patterns.codes[lines.of] < 0)).any()
        np.testing.assert_array_equal(np.bincount(lines.of, lines.counts), patterns.counts)
        assert fewest_sharing(released(patterns, lines)) >= k


def small_table(seed):
    """Rows with nulls, k and the importance of the columns, all at random."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, int(rng.integers(2, 5)), (int(rng.integers(6, 14)), int(rng.integers(2, 4))))
    rows[rng.random(rows.shape) < rng.choice([0.0, 0.05, 0.2])] = -1
    weights = np.ones(rows.shape[1]) if seed % 2 else rng.choice([0.5, 1.0, 2.0, 3.0], rows.shape[1])
    return rows, int(rng.integers(2, 6)), weights


@pytest.mark.parametrize("first", [5000, pytest.param(5030, marks=pytest.mark.slow)])
def test_small_tables_lose_the_fewest_cells(first):
    """Against a programme that is written record by record; 30 tables, or 300 in the slow run."""
    for seed in range(first, first + (30 if first == 5000 else 300)):
        rows, k, weights = small_table(seed)
        patterns = Patterns.of(rows)
        cost = kept_cells(patterns.codes, patterns.counts, k, weights).cost(patterns.codes, weights)
        assert cost == pytest.approx(least_cost(rows, k, weights), rel=2e-3, abs=1e-9), seed


def test_windows_of_patterns_never_cost_more_and_come_near(monkeypatch):
    """The search of larger tables, on tables that a programme solves at once."""
    for seed in range(3):
        rows = np.minimum(np.random.default_rng(seed).geometric(0.4, (90, 3)) - 1, 5)
        patterns = Patterns.of(rows)
        costs = []
        for name, value in (("_WINDOWS", 32), ("_VARIABLES", 0), ("_WINDOWS", 0)):
            monkeypatch.setattr(local_suppression, name, value)
            lines = kept_cells(patterns.codes, patterns.counts, 5)
            assert fewest_sharing(released(patterns, lines)) >= 5
            costs.append(lines.cost(patterns.codes, np.ones(3)))
        monkeypatch.undo()
        least, windows, greedy = costs
        assert least <= windows <= greedy
        assert windows <= 1.1 * least


def test_records_of_one_pattern_may_keep_different_cells():
    """Three records of one kind help two others of each of two kinds, by different cells."""
    rows = np.array([[0, 0]] * 3 + [[0, 1]] * 2 + [[1, 0]] * 2)
    patterns = Patterns.of(rows)
    lines = kept_cells(patterns.codes, patterns.counts, 4)
    assert lines.cost(patterns.codes, np.ones(2)) == least_cost(rows, 4, np.ones(2))
    blanks = plan_blanks(patterns, lines, 4, 0.0)
    order = np.random.default_rng(1).permutation(len(rows))
    blanked = blank_cells(rows[order], blanks, 4, Key(KEY).draws(np.arange(len(rows))))
    left = np.where(blanked, -1, rows[order])
    np.testing.assert_array_equal(np.sort(left, axis=0), np.sort(released(patterns, lines), axis=0))
    assert fewest_sharing(left) >= 4


def test_few_records_are_refused_and_many_columns_are_no_obstacle():
    with pytest.raises(GuaranteeError, match="3 records"):
        kept_cells(np.array([[0], [1]]), np.array([1, 2]), 4)
    rows = np.random.default_rng(2).integers(0, 2, (40, 12))
    patterns = Patterns.of(rows)
    assert fewest_sharing(released(patterns, kept_cells(patterns.codes, patterns.counts, 3))) >= 3


def test_an_important_column_is_spared():
    rows = np.random.default_rng(5).integers(0, 6, (300, 3))
    patterns = Patterns.of(rows)
    for column in range(3):
        weights = np.where(np.arange(3) == column, 5.0, 1.0)
        lines = kept_cells(patterns.codes, patterns.counts, 5, weights)
        lost = lines.counts @ ~lines.keep
        assert lost[column] < lost.sum() / 10
        assert lost.sum() > 0


def test_cells_that_cover_others_are_drawn_and_k_records_keep_everything():
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.integers(0, 2, (2000, 2)), rng.integers(2, 30, (60, 2))])
    patterns = Patterns.of(rows)
    lines = kept_cells(patterns.codes, patterns.counts, 5)
    draws = Key(KEY).draws(np.arange(len(rows)))
    plain = blank_cells(rows, plan_blanks(patterns, lines, 5, 0.0), 5, draws)
    covered = blank_cells(rows, plan_blanks(patterns, lines, 5, 3.0), 5, draws)
    assert plain[:2000].sum() == 0
    must = plain.sum()
    assert 2 * must < covered[:2000].sum() < 4 * must
    np.testing.assert_array_equal(covered[2000:], plain[2000:])
    assert fewest_sharing(np.where(covered, -1, rows)) >= 5


@pytest.mark.parametrize("mask", [{"method": "blank", "k": 4}, {"method": "random-suppress", "k": 4, "rate": 0.1}])
def test_the_release_is_the_original_but_for_blanked_cells(mask):
    table = registry()
    release = gpuanon.protect(table, recipe(mask | {"columns": COLUMNS}), rng=KEY, backend="numpy")
    before = table.take(release.link).to_pandas()[COLUMNS].astype(object)
    after = release.data.to_pandas()[COLUMNS].astype(object)
    blanked = after.isna() & before.notna()
    assert (
        after.where(~blanked, before).equals(before)
        or (after.where(~blanked, before).fillna("") == before.fillna("")).all().all()
    )
    assert release.manifest["mask"][0]["cells_suppressed"] == blanked.to_numpy().sum() > 0
    codes = np.stack([pd.factorize(after[name])[0] for name in COLUMNS], axis=1)
    assert fewest_sharing(codes) == release.manifest["guarantee"][0]["fewest_sharing"] >= 4


def test_whole_numbers_and_flags_of_pandas_get_a_type_with_nulls():
    frame = pd.DataFrame({"a": [1, 1, 1, 2, 2, 2, 3], "b": [True, True, True, False, False, False, True]})
    rules = {
        "columns": {"a": {"role": "quasi"}, "b": {"role": "quasi"}},
        "nulls": "category",
        "mask": [{"method": "blank", "k": 3}],
    }
    released = gpuanon.protect(frame, rules, rng=KEY, backend="numpy").data
    assert str(released["a"].dtype) == "Int64"
    assert released["a"].isna().sum() == 1
    assert sorted(released["a"].dropna()) == [1, 1, 1, 2, 2, 2]


def test_a_limit_on_cells_is_kept_and_unknown_columns_are_refused():
    mask = {"method": "blank", "k": 4, "columns": COLUMNS}
    with pytest.raises(GuaranteeError, match="limit"):
        gpuanon.protect(registry(), recipe(mask | {"limit": 0.001}), rng=KEY, backend="numpy")
    with pytest.raises(GpuanonError, match="'zip'"):
        gpuanon.protect(registry(), recipe(mask | {"importance": {"zip": 2.0}}), rng=KEY, backend="numpy")
    with pytest.raises(GpuanonError, match="greater than 0"):
        gpuanon.protect(registry(), recipe(mask | {"importance": {"sex": -1.0}}), rng=KEY, backend="numpy")


def test_the_claim_fails_where_values_are_not_shared():
    claim = SharedValues(4, (("a", "b"),))
    (counted,) = claim.counted
    assert counted == Counted(("a", "b"), True, covered=True)
    evidence = Evidence({"groups": 1}, {"smallest_group": 1})
    assert claim.conclude(evidence, {counted: 4}).verified is True
    with pytest.raises(GuaranteeError, match="shared by 3 released records"):
        claim.conclude(evidence, {counted: 3})


def test_what_the_engine_asks():
    for operation in (Blank(k=3), RandomBlank(k=3)):
        assert (operation.sees, operation.rows, operation.learns, operation.whole_table) == (
            "classes",
            "kept",
            True,
            True,
        )
        assert type(operation).model_validate_json(operation.model_dump_json()) == operation
