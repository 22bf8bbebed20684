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
from gpuanon.masking.claims import Counted, SharedValues
from gpuanon.masking.evidence import Evidence
from gpuanon.masking.operations.blank import Blank, RandomBlank, blank_cells, plan_blanks
from gpuanon.numerics.local_suppression import kept_cells, randomly_kept
from gpuanon.numerics.patterns import Patterns
from tests.support.every import recipe, registry
from tests.support.local_suppression import fewest_sharing, least_cost

KEY = b"a key for the tests of blanked cells"
COLUMNS = ["sex", "education", "region"]
tables = hnp.arrays(np.int64, st.tuples(st.integers(5, 30), st.integers(1, 4)), elements=st.integers(-1, 3))


@settings(max_examples=20)
@given(tables, st.integers(2, 5))
@example(np.full((5, 2), -1), 5)
@example(np.array([[0, -1], [0, 1], [0, 2], [1, 1], [2, 1]]), 2)
def test_what_is_left_is_shared_by_k(table, k):
    patterns = Patterns.of(table)
    order = np.random.default_rng(0).random(patterns.codes.shape)
    for keep in (
        kept_cells(patterns.codes, patterns.counts, k),
        randomly_kept(patterns.codes, patterns.counts, k, order),
    ):
        assert not (keep & (patterns.codes < 0)).any()
        left = np.where(keep, patterns.codes, -1)
        assert fewest_sharing(np.repeat(left, patterns.counts, axis=0)) >= k


def test_the_cells_are_nearly_the_fewest():
    """Sets of columns that are tried in several orders come within two per cent of the minimum, together."""
    best = found = 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows = rng.integers(0, int(rng.integers(2, 5)), (int(rng.integers(6, 14)), int(rng.integers(2, 4))))
        rows[rng.random(rows.shape) < 0.05] = -1
        weights = np.ones(rows.shape[1]) if seed % 2 else rng.choice([1.0, 2.0, 3.0], rows.shape[1])
        k = int(rng.integers(2, 4))
        patterns = Patterns.of(rows)
        keep = kept_cells(patterns.codes, patterns.counts, k, weights)
        cost = float((((patterns.codes >= 0) & ~keep) @ weights) @ patterns.counts)
        least = least_cost(rows, k, weights)
        assert least - 1e-6 <= cost <= 1.25 * least + 1e-6
        best, found = best + least, found + cost
    assert found <= 1.05 * best


def test_few_records_are_refused_and_many_columns_are_no_obstacle():
    with pytest.raises(GuaranteeError, match="3 records"):
        kept_cells(np.array([[0], [1]]), np.array([1, 2]), 4)
    rows = np.random.default_rng(2).integers(0, 2, (40, 12))
    patterns = Patterns.of(rows)
    left = np.where(kept_cells(patterns.codes, patterns.counts, 3), patterns.codes, -1)
    assert fewest_sharing(np.repeat(left, patterns.counts, axis=0)) >= 3


def test_an_important_column_is_spared():
    rows = np.random.default_rng(5).integers(0, 6, (300, 3))
    patterns = Patterns.of(rows)
    for column in range(3):
        weights = np.where(np.arange(3) == column, 5.0, 1.0)
        lost = (~kept_cells(patterns.codes, patterns.counts, 5, weights)).sum(axis=0)
        assert lost[column] < lost.sum() / 10
        assert lost.sum() > 0


def test_cells_that_cover_others_are_drawn_and_k_records_keep_everything():
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.integers(0, 2, (2000, 2)), rng.integers(2, 30, (60, 2))])
    patterns = Patterns.of(rows)
    keep = kept_cells(patterns.codes, patterns.counts, 5)
    draws = Key(KEY).draws(np.arange(len(rows)))
    plain = blank_cells(rows, plan_blanks(patterns, keep, 5, 0.0), 5, draws)
    covered = blank_cells(rows, plan_blanks(patterns, keep, 5, 3.0), 5, draws)
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
