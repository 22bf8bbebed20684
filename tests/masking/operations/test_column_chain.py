"""Rows drawn column after column: leave-one-out, rare values, structural zeros; against brute force."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError, RecipeError
from gpuanon.masking.given import ClassInfo
from gpuanon.masking.operations.column_chain.conditional import Conditional, whole_table
from gpuanon.masking.operations.column_chain.drawing import ROUNDS, chance_to_keep, draw_rows, unique_rows
from gpuanon.masking.operations.column_chain.pooled_table import PooledTable, pool_ordered
from gpuanon.masking.operations.column_chain.rules import SURE, StructuralZeros, zeros_of_pair

KEY = Key(b"a key for the tests of chains of columns")


def draws(n):
    return KEY.draws(np.arange(n))


def chain_of(records):
    """The first column by itself, the second given the first, each by its exact cells."""
    values, leaves = np.unique(records[:, 0], return_inverse=True)
    return [
        Conditional.of(0, records[:, 0], np.zeros(len(records), dtype=np.int64), whole_table),
        Conditional.of(1, records[:, 1], leaves, lambda rows: np.searchsorted(values, rows[0])),
    ]


TINY = np.array([[0, 0], [0, 0], [0, 1], [0, 2], [1, 0], [1, 0], [1, 1], [1, 1]])


def probability(records, row):
    """Of a row under the model of `chain_of`, from its definition; the model of no record gives 0."""
    first = records[records[:, 0] == row[0]]
    return len(first) / len(records) * np.mean(first[:, 1] == row[1]) if len(first) else 0.0


def test_a_copy_of_a_unique_record_is_kept_as_often_as_a_model_without_it_makes_it():
    """The chance to keep is p₋ᵢ(x) / p(x), computed by leaving the record out of the table."""
    chain = chain_of(TINY)
    cells = np.unique(TINY, axis=0)
    leaves = np.column_stack([step.find(list(cells.T)) for step in chain])
    chance, weakest = chance_to_keep(chain, cells, leaves, unique_rows(TINY))
    assert (weakest[chance < 1] == 1).all()
    for row, found in zip(cells, chance, strict=True):
        same = np.flatnonzero((row == TINY).all(axis=1))
        expected = 1.0 if len(same) > 1 else probability(np.delete(TINY, same, axis=0), row) / probability(TINY, row)
        assert found == pytest.approx(expected), row


def test_drawn_rows_have_the_distribution_of_the_redraw():
    """The unique record (0, 1) is never made without it: its share goes to what else has its first value.

    Against frequencies of 60 000 rows: five standard errors.
    """
    records = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [2, 1, 3, 4], axis=0)
    cells = np.unique(records, axis=0)
    chain, n = chain_of(records), 60_000
    made, left = draw_rows(chain, np.empty((n, 0), dtype=np.int64), records, draws(n), even=False)
    assert left == 0
    assert probability(np.delete(records, 2, axis=0), cells[1]) == 0
    expected = np.array([0.3, 0.0, 0.3, 0.4])
    found = np.array([(made == row).all(axis=1).mean() for row in cells])
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected * (1 - expected) / n)).all()


def test_members_occur_as_often_as_people_of_whom_the_model_knows_nothing():
    """Two halves of one population: unique records of either are reproduced alike, and without the redraw are not."""
    rng = np.random.default_rng(3)
    population = np.column_stack([rng.integers(0, 12, 4000) for _ in range(3)])
    population[:, 1] = np.where(rng.random(4000) < 0.5, population[:, 0], population[:, 1])
    population[:, 2] = np.where(rng.random(4000) < 0.5, population[:, 1], population[:, 2])
    one, other = population[:2000], population[2000:]
    chain = chain_of(one)
    chain.append(Conditional.of(2, one[:, 2], one[:, 1], lambda rows: rows[1]))

    def share(records, release):
        keys = records @ [144, 12, 1]
        values, counts = np.unique(keys, return_counts=True)
        return np.isin(values[counts == 1], release @ [144, 12, 1]).mean()

    ratios, plain = [], []
    for number in range(20):
        own = Key(b"the key of halves, number %d" % number).draws(np.arange(2000))
        made, _ = draw_rows(chain, np.empty((2000, 0), dtype=np.int64), one, own, even=True)
        ratios.append(share(one, made) / share(other, made))
        rows = np.zeros((2000, 3), dtype=np.int64)
        for step in chain:
            rows[:, step.column] = step.draw(
                step.find(list(rows.T)), own.child(str(step.column)).uniform(1)[:, 0], True
            )
        plain.append(share(one, rows) / share(other, rows))
    assert 0.9 < np.mean(ratios) < 1.1
    assert np.mean(plain) > 1.15


def test_same_key_same_rows_whatever_the_order_of_the_new_rows():
    """A new row is a function of the key, the stream and its record number; even draws depend on who shares a leaf."""
    records = np.random.default_rng(0).integers(0, 5, size=(300, 2))
    chain, order = chain_of(records), np.random.default_rng(1).permutation(300)
    empty = np.empty((300, 0), dtype=np.int64)
    one, _ = draw_rows(chain, empty, records, draws(300), even=False)
    other, _ = draw_rows(chain, empty, records, draws(300).take(order), even=False)
    assert np.array_equal(one[order], other)


def test_rows_that_cannot_be_drawn_otherwise_are_counted():
    records = np.array([[0, 1]])
    made, left = draw_rows(chain_of(records), np.empty((1, 0), dtype=np.int64), records, draws(1), even=False)
    assert ROUNDS > 1
    assert left == 1
    assert np.array_equal(made, records)


# Rare values.


def random_counts(seed):
    rng = np.random.default_rng(seed)
    held = rng.choice([1, 2, 3, 4, 5, 9], p=[0.4, 0.1, 0.1, 0.1, 0.1, 0.2], size=rng.integers(1, 40))
    return rng.permutation(np.repeat(np.arange(len(held)), held))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("between", [True, False])
def test_pools_are_in_order_hold_enough_records_and_release_no_rare_value(seed, between):
    codes, rare = random_counts(seed), 5
    codes = np.append(codes, [-1, -1])
    pooled = pool_ordered(codes, rare, between)
    known = codes >= 0
    assert (pooled.codes[~known] == -1).all()
    order = np.argsort(codes[known], kind="stable")
    assert (np.diff(pooled.codes[known][order]) >= 0).all()
    sizes = np.bincount(pooled.codes[known])
    assert (sizes >= min(rare, known.sum())).all()
    counts = np.bincount(codes[known])
    pools = np.repeat(np.arange(len(sizes)), 50)
    places = pooled.places(pools, np.tile(np.linspace(0.01, 0.99, 50), len(sizes)))
    assert (places >= pooled.low[pools]).all()
    assert (places <= pooled.high[pools]).all()
    # A pool that stands for one value of the table stands for a common one, where there are places between values.
    single = (pooled.low == pooled.high) & (pooled.low == np.floor(pooled.low))
    held = counts[pooled.low[single].astype(int)]
    if between:
        assert (held >= min(rare, known.sum())).all()
    else:
        assert single.all()
        largest = pd.Series(counts[codes[known]]).groupby(pooled.codes[known]).max()
        assert np.array_equal(held, largest)


def test_the_first_and_the_last_pool_are_codes_of_their_middle():
    codes = np.concatenate([np.arange(7), np.repeat(10, 20), np.arange(20, 26)])
    pooled = pool_ordered(codes, 5, between=True)
    assert pooled.low.tolist() == pooled.high.tolist() == [3.5, 10.0, 22.5]
    assert (pooled.codes == np.repeat([0, 1, 2], [7, 20, 6])).all()


def test_few_rare_values_join_the_larger_neighbour_and_one_has_all():
    codes = np.repeat([0, 1, 2, 3], [8, 2, 9, 1])
    pooled = pool_ordered(codes, 5, between=True)
    assert pooled.low.tolist() == pooled.high.tolist() == [0.0, 2.0]
    assert pooled.codes.tolist() == [0] * 8 + [1] * 12
    whole = pool_ordered(codes, 1, between=True)
    assert whole.low.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_rare_levels_are_replaced_by_those_of_similar_records():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 2000)
    level = np.where(kind == 1, rng.integers(0, 3, 2000), rng.integers(3, 6, 2000))
    level[:3], kind[:3] = 6, 1
    codes = np.column_stack([kind, level])
    classes = ClassInfo(("kind", "level"), (False, False), (np.zeros((1, 1)),) * 2)
    pooled = PooledTable.of(codes, classes, 5, draws(2000))
    assert not (pooled.codes[:, 1] == 6).any()
    assert (pooled.codes[:3, 1] < 3).all()  # levels of the same kind
    assert np.array_equal(pooled.codes[3:], codes[3:])
    with pytest.raises(ParameterError, match="'level'"):
        PooledTable.of(np.column_stack([kind, np.arange(2000)]), classes, 5, draws(2000))


@pytest.mark.parametrize("method", ["sequential-synthesis", "table-synthesis"])
def test_values_that_few_people_have_are_not_released(method):
    rng = np.random.default_rng(5)
    n = 3000
    income = np.where(rng.random(n) < 0.5, rng.integers(1, 40, n) * 1000, rng.integers(1, 4_000_000, n) * 10)
    income[0] = 10**9
    frame = pd.DataFrame(
        {
            "income": income,
            "share": np.round(rng.random(n), 3),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 4000, n), unit="D"),
            "job": rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.199, 0.001]),
        }
    )
    columns = {name: {"role": "quasi"} for name in frame}
    release = gpuanon.protect(frame, {"columns": columns, "mask": [{"method": method}]}, rng=KEY, backend="numpy").data
    assert list(release.dtypes) == list(frame.dtypes)
    for name in frame:
        counts = frame[name].value_counts()
        single = set(counts[counts == 1].index)
        if name == "job":
            assert not set(release[name]) & set(counts[counts < 5].index)
        elif name == "income":
            assert len(single) > 1000
            assert len(set(release[name]) & single) < 0.02 * len(single)
    assert release["income"].max() < 5e7  # the top code
    assert (release["income"] % 1 == 0).all()
    assert np.allclose(release["share"], release["share"].round(3), atol=1e-12)
    common = frame["income"].value_counts()[lambda count: count > 20].index
    shares = [(table["income"].isin(common)).mean() for table in (frame, release)]
    assert abs(shares[0] - shares[1]) < 0.05


# Structural zeros.


def test_what_excludes_itself_is_found_where_it_is_sure():
    rng = np.random.default_rng(1)
    age = rng.integers(0, 90, 5000)
    married = np.where(age < 16, 0, rng.integers(1, 4, 5000))  # 0: not asked
    free = rng.integers(0, 3, 5000)
    codes = np.column_stack([age, married, free])
    zeros = StructuralZeros.of(codes, [True, False, False])
    assert [(i, j) for i, j, _ in zeros.tables] == [(0, 1)]
    rows = np.array([[10, 1, 0], [10, 0, 0], [40, 0, 0], [40, 2, 0], [15, 3, 1], [16, 3, 1]])
    assert zeros.contradicts(rows, 1, [0]).tolist() == [True, False, True, False, True, False]
    assert not zeros.contradicts(rows, 1, [2]).any()


def test_zeros_that_chance_explains_are_not_structural():
    """Of independent columns, tables with empty cells by chance: at most one in 10 000 is called structural."""
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(200):
        counts = rng.multinomial(400, np.outer(*(rng.dirichlet(np.full(8, 0.7)) for _ in range(2))).ravel())
        found += int(zeros_of_pair(counts.reshape(8, 8), True, True).any())
    assert SURE >= 12
    assert found == 0


def test_impossible_rows_are_not_drawn_and_other_columns_keep_their_shares():
    """Children and married people in a chain that does not link them: the contradicting column is drawn again."""
    rng = np.random.default_rng(4)
    child = (rng.random(4000) < 0.2).astype(np.int64)
    married = np.where(child == 1, 0, rng.integers(0, 2, 4000))
    records = np.column_stack([child, married])
    whole = np.zeros(4000, dtype=np.int64)
    chain = [Conditional.of(j, records[:, j], whole, whole_table) for j in range(2)]
    zeros = StructuralZeros.of(records, [False, False])
    made, left = draw_rows(chain, np.empty((4000, 0), dtype=np.int64), records, draws(4000), True, zeros)
    assert left == 0
    assert not ((made[:, 0] == 1) & (made[:, 1] == 1)).any()
    assert made[:, 0].mean() == pytest.approx(child.mean(), abs=0.001)


# Rules of a recipe.


@pytest.mark.parametrize("method", ["sequential-synthesis", "table-synthesis"])
def test_rules_are_followed_by_every_new_row_even_where_records_break_them(method):
    rng = np.random.default_rng(8)
    n = 3000
    age = rng.integers(0, 90, n)
    frame = pd.DataFrame({"age": age, "school": rng.choice(["N", "some", "much"], n), "weight": rng.random(n).round(2)})
    frame.loc[age < 20, "weight"] = np.nan
    rules = [
        {"when": {"age": {"below": 3}}, "then": {"school": "N"}},
        {"when": {"school": ["much"]}, "then": {"age": {"least": 18}}},
        {"when": {"weight": {"null": True}}, "then": {"age": {"below": 30}}},
    ]

    def made(rules, **settings):
        recipe = {
            "columns": {name: {"role": "quasi"} for name in frame},
            "mask": [{"method": method, "rules": rules, **settings}],
        }
        return gpuanon.protect(frame, recipe, rng=KEY, backend="numpy").data

    plain, found = made([]), made(rules)
    assert ((plain["age"] < 3) & (plain["school"] != "N")).any()
    assert not ((found["age"] < 3) & (found["school"] != "N")).any()
    assert not ((found["school"] == "much") & (found["age"] < 18)).any()
    assert not (found["weight"].isna() & (found["age"] >= 30)).any()
    assert 0.1 < found["weight"].isna().mean() < 0.3
    with pytest.raises(ParameterError, match="do not follow"):
        made([{"when": {"age": {"least": 0}}, "then": {"school": "none of them"}}])
    with pytest.raises(ParameterError, match="'income'"):
        made([{"when": {"income": 3}, "then": {"school": "N"}}])
    with pytest.raises(ParameterError, match="no numbers"):
        made([{"when": {"school": {"below": 3}}, "then": {"age": 5}}])
    with pytest.raises(RecipeError, match="another one in then"):
        made([{"when": {"age": 3, "weight": 1}, "then": {"school": "N"}}])
