"""Graphical models: the product of cliques over separators, by enumeration; margins; any number of columns."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.operations.graphical_table import Contexts, binned, conditionals, graphical_rows
from gpuanon.masking.operations.graphical_table.links import CELL, Entropies, choose_group, find_chain, perfect_order

KEY = Key(b"a key for the tests of graphical models")


def draws(n):
    return KEY.draws(np.arange(n))


def small_table(n=3000, seed=0):
    """a → b → c, d on a and b, e by itself."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    b = np.where(rng.random(n) < 0.7, a, rng.integers(0, 3, n))
    c = np.where(rng.random(n) < 0.6, b, rng.integers(0, 3, n))
    d = np.where(rng.random(n) < 0.8, (a + b) % 2, rng.integers(0, 2, n))
    return np.column_stack([a, b, c, d, rng.integers(0, 2, n)]).astype(np.int64)


COUNTS = [3, 3, 3, 2, 2]


def share(codes, columns, values):
    """Of the records that have these values."""
    return (codes[:, list(columns)] == list(values)).all(axis=1).mean() if len(columns) else 1.0


def model_probability(codes, chain, row):
    """Π p(column | parents), from the definition."""
    found = 1.0
    for column, parents in chain:
        given = [row[at] for at in parents]
        below = share(codes, parents, given)
        found *= share(codes, (*parents, column), [*given, row[column]]) / below if below else 0.0
    return found


def test_the_model_is_the_product_of_cliques_over_separators_and_keeps_the_table_of_every_clique():
    codes = small_table()
    chain = find_chain(codes, COUNTS)
    cells = list(product(*(range(count) for count in COUNTS)))
    p = np.array([model_probability(codes, chain, row) for row in cells])
    assert p.sum() == pytest.approx(1)
    cliques = [{column, *parents} for column, parents in chain]
    for column, parents in chain:
        assert not parents or any(set(parents) <= clique for clique in cliques[: [c for c, _ in chain].index(column)])
    for clique in cliques:
        axes = sorted(clique)
        for values in product(*(range(COUNTS[axis]) for axis in axes)):
            inside = [all(row[axis] == value for axis, value in zip(axes, values, strict=True)) for row in cells]
            assert p[inside].sum() == pytest.approx(share(codes, axes, values), abs=1e-12)


def test_draws_are_from_the_model_found_by_enumeration():
    """Frequencies of 120 000 independent draws of the chain against the exact model: five standard errors."""
    codes = small_table(400)
    chain = find_chain(codes, COUNTS)
    steps = conditionals(codes, COUNTS, chain, np.arange(len(codes)), fixed=range(5))
    n = 120_000
    rows, own = np.zeros((n, 5), dtype=np.int64), draws(n)
    for step in steps:
        u = own.child(str(step.column)).uniform(1)[:, 0]
        rows[:, step.column] = step.draw(step.find(list(rows.T)), u, even=False)
    cells = np.array(list(product(*(range(count) for count in COUNTS))))
    p = np.array([model_probability(codes, chain, row) for row in cells])
    place = np.ravel_multi_index(tuple(rows.T), COUNTS)
    found = np.bincount(place, minlength=len(cells)) / n
    assert (np.abs(found - p) <= 5 * np.sqrt(p * (1 - p) / n) + 1e-12).all()


def test_links_are_by_mutual_information():
    codes = small_table(20_000)
    chain = find_chain(codes, COUNTS)
    assert chain[0] in ((0, ()), (1, ()))
    assert {0, 1} <= set(dict(chain)[3])
    assert chain[-1][0] == 4
    entropies = Entropies(codes, COUNTS)
    joint = pd.crosstab(codes[:, 0], codes[:, 1]).to_numpy() / len(codes)
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    information = (joint * np.log(joint / apart)).sum() - 4 / len(codes)
    assert entropies.information(0, frozenset((1,))) == pytest.approx(information)


def test_named_margins_are_cliques_whatever_cycle_they_make():
    margins = [frozenset(pair) for pair in ((0, 1), (1, 2), (2, 3), (3, 0))]
    chain = perfect_order(margins)
    assert sorted(column for column, _ in chain) == [0, 1, 2, 3]
    cliques = [{column, *parents} for column, parents in chain]
    assert all(any(margin <= clique for clique in cliques) for margin in margins)
    for at, (_, parents) in enumerate(chain):  # perfect: parents are linked, and come before
        assert all(any({a, b} <= clique for clique in cliques[:at]) for a, b in combinations(parents, 2))
        assert set(parents) <= {column for column, _ in chain[:at]}


def test_named_margins_are_kept_in_expectation():
    """Three columns that are pairwise independent, and dependent together: only a named margin keeps them."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 20_000))
    codes = np.column_stack([a, b, a ^ b, rng.integers(0, 4, 20_000)])
    ordered = (False,) * 4
    made, _ = graphical_rows(codes, ordered, draws(20_000), margins=[frozenset((0, 1, 2))])
    assert (made[:, 0] ^ made[:, 1] == made[:, 2]).all()
    for cell in product(range(2), range(2)):
        before, after = (share(table, (0, 1), cell) for table in (codes, made))
        assert abs(before - after) < 5 * np.sqrt(before * (1 - before) / 20_000)


def test_a_group_column_is_in_every_clique():
    codes = small_table(5000)
    chain = find_chain(codes, COUNTS, group=4)
    assert chain[0] == (4, ())
    assert all(4 in parents for column, parents in chain[1:])


def strata_table(n=6000, seed=0):
    """Region shifts all else a little; profession says much of income; parts of a household are uneven."""
    rng = np.random.default_rng(seed)
    region, profession, income = rng.integers(0, 5, n), rng.integers(0, 6, n), rng.random(n)
    columns = [(profession + (rng.random(n) < 0.3) * region) % 6, (6 * income).astype(int) + profession]
    columns += [(rng.random(n) < 0.1 + 0.06 * region).astype(int) for _ in range(3)]
    kind = np.digitize(rng.random(n), [0.9, 0.97])
    return np.column_stack([*columns, kind, region, 10 * region]).astype(np.int64)


def test_the_group_is_the_stratum_that_nothing_else_explains():
    """The last column determines the region, and is determined by it: they are one, and do not hinder each other."""
    codes = strata_table()
    codes[:, 7] //= 10
    counts = [int(codes[:, j].max()) + 1 for j in range(8)]
    ordered = [False] * 7 + [True]
    assert choose_group(codes, counts, ordered) == 6
    assert choose_group(codes[:, 5:6], counts[5:6], [False]) is None  # levels that are not all common
    noise = np.random.default_rng(1).random(len(codes)) < 0.5
    explained = np.column_stack([codes[:, 6], np.where(noise, 4, codes[:, 6])])
    assert choose_group(explained, [5, 5], [False, False]) is None
    assert choose_group(codes, counts, [True] * 8) is None


def test_a_group_that_is_chosen_is_used_as_one_that_is_named():
    codes = strata_table()[:, :7]
    auto, named, none = (
        graphical_rows(codes, (False,) * 7, draws(6000), group=group)[0] for group in ("auto", 6, None)
    )
    assert np.array_equal(auto, named)
    assert not np.array_equal(auto, none)


@pytest.mark.parametrize("seed", range(10))
def test_a_context_has_enough_records_and_as_many_parents_as_it_may(seed):
    """Against the definition, row by row."""
    rng = np.random.default_rng(seed)
    cells = np.column_stack([rng.geometric(p, 400) - 1 for p in (0.5, 0.4, 0.3)])
    counts, least = [int(cells[:, j].max()) + 1 for j in range(3)], 20
    contexts = Contexts(cells, (2, 0, 1), counts, least)
    sizes = np.bincount(contexts.leaves)
    assert (sizes >= least).all()
    assert set(contexts.records) == set(range(400))
    rows = np.column_stack([rng.integers(0, count, 300) for count in counts])
    for row, leaf in zip(rows, contexts(list(rows.T)), strict=True):
        members = cells[contexts.records[contexts.leaves == leaf]]
        for parents in ((2, 0, 1), (2, 0), (2,), ()):
            same = (cells[:, list(parents)] == row[list(parents)]).all(axis=1)
            if same.sum() >= least:
                assert (members[:, list(parents)] == row[list(parents)]).all()
                break


def test_pairs_of_a_clique_keep_their_counts_up_to_the_draw_and_cells_have_records():
    codes = small_table(6000)
    made, left = graphical_rows(codes, (False,) * 5, draws(6000))
    assert left == 0
    for column, parents in find_chain(codes, COUNTS):
        for other in parents:
            before, after = (pd.crosstab(t[:, column], t[:, other]).to_numpy() for t in (codes, made))
            assert (np.abs(before - after) <= 5 * np.sqrt(before + 1)).all()
        held = np.unique(codes[:, [column, *parents]], axis=0)
        assert len(parents) < 2 or len(held) * CELL <= len(codes)


def test_numbers_are_drawn_in_bins_and_nulls_are_kept():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 500, 5000)
    y = np.clip(x + rng.integers(-20, 20, 5000), 0, 499)
    y[rng.random(5000) < np.where(x > 250, 0.5, 0.0)] = -1
    codes = np.column_stack([x, y])
    made, _ = graphical_rows(codes, (True, True), draws(5000), bins=10)
    assert np.isin(made[:, 0], x).all()
    assert np.isin(made[:, 1], y).all()
    assert abs((made[:, 1] < 0).mean() - (y < 0).mean()) < 0.03
    assert (made[made[:, 0] < 200, 1] >= 0).mean() > 0.99
    known = made[:, 1] >= 0
    assert np.corrcoef(made[known].T)[0, 1] > 0.95
    cells = binned(codes, (True, True), 10)
    assert cells[:, 0].max() == 9
    assert cells[:, 1].max() <= 10


def test_any_number_of_columns_and_the_same_key_the_same_bytes():
    rng = np.random.default_rng(2)
    base = rng.integers(0, 12, (1500, 1))
    columns = np.where(rng.random((1500, 40)) < 0.6, base, rng.integers(0, 12, (1500, 40)))
    frame = pd.DataFrame(columns, columns=[f"c{j}" for j in range(40)]).astype(str)
    recipe = {
        "columns": {name: {"role": "quasi"} for name in frame},
        "mask": [{"method": "table-synthesis", "margins": [["c3", "c7"]]}],
    }
    one, other = (gpuanon.protect(frame, recipe, rng=KEY, backend="numpy").data for _ in range(2))
    assert one.equals(other)
    assert len(one) == 1500
    agree = [(table["c3"] == table["c7"]).mean() for table in (frame, one)]
    assert abs(agree[0] - agree[1]) < 0.05
    for wrong in ({"margins": [["c3", "z"]]}, {"group": "z"}):
        recipe["mask"] = [{"method": "table-synthesis", **wrong}]
        with pytest.raises(ParameterError, match="'z'"):
            gpuanon.protect(frame, recipe, rng=KEY, backend="numpy")
