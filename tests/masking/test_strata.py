"""Gaussian dither in strata of the response."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import RecipeError
from gpuanon.masking.constraints import Sensitive
from gpuanon.masking.given import Records
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.operations.dither import Dither
from gpuanon.masking.view import form_inside, strata_of

KEY = Key(b"a key for the tests of strata of the response")
COLUMNS = {name: {"role": "quasi"} for name in ("a", "b")} | {"cost": {"role": "sensitive"}}
MASK = {"method": "distribution-preserving", "k": 20, "bins": 8}


def sensitive(codes, ordered=(True,)):
    codes = np.asarray(codes, dtype=np.int64).reshape(len(codes), -1)
    return Sensitive(codes, tuple(np.bincount(column) for column in codes.T), ordered, (False,) * len(ordered))


def people(n=2000):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, 2))
    cost = np.round(np.exp(X @ [0.8, 0.4] + 0.5 * rng.normal(size=n)), 2)
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "cost": cost})


def released(table, columns=COLUMNS, **options):
    return gpuanon.protect(table, {"columns": columns, "mask": [MASK | options]}, rng=b"0123456789abcdef")


def test_strata_are_quantiles_of_equal_size():
    values = np.random.default_rng(1).integers(0, 400, 1003)
    strata = strata_of(sensitive(values), 7, 10, KEY.draws(np.arange(1003), "s"))
    assert set(strata.sizes.tolist()) == {143, 144}
    parts = [values[strata.order[low:high]] for low, high in pairwise(strata.starts)]
    assert all(one.max() <= other.min() for one, other in pairwise(parts))


def test_few_rows_make_fewer_strata():
    values, draws = np.arange(50), KEY.draws(np.arange(50), "s")
    assert strata_of(sensitive(values), 7, 10, draws).parts == 5
    assert strata_of(sensitive(values), 7, 60, draws).parts == 1


def test_equal_responses_are_divided_at_random():
    """Not by the order of the records: half of each half of them lies in either stratum."""
    labels = strata_of(sensitive(np.zeros(1000)), 2, 4, KEY.draws(np.arange(1000), "s")).labels()
    assert 200 < labels[:500].sum() < 300  # a standard deviation of 8


def test_the_first_column_with_an_order_is_the_response():
    codes = np.column_stack([np.arange(40) % 3, np.arange(40)[::-1]])
    strata = strata_of(sensitive(codes, (False, True)), 2, 4, KEY.draws(np.arange(40), "s"))
    assert set(strata.labels()[:20].tolist()) == {1}


def test_neither_groups_nor_blocks_cross_a_stratum():
    X, n = np.random.default_rng(3).normal(size=(900, 2)), 900
    draws = KEY.draws(np.arange(n), "x")
    strata = strata_of(sensitive(np.arange(n)[::-1]), 3, 8, draws.child("strata"))
    groups = form_inside(strata, lambda rows: KMember(k=4).form(X[rows], draws.take(rows)))
    assert groups.sizes.min() >= 4
    assert len(np.unique(groups.labels() * 3 + strata.labels())) == groups.parts
    outcome = Dither(bins=5, strata=3, block=40).apply(X, groups, Records(draws, strata=strata))
    assert outcome.minima["groups_in_block"] > 1
    # Inside a stratum a released value lies in a bin that the stratum holds, in its share.
    cuts = np.quantile(X[:, 0], [0.2, 0.4, 0.6, 0.8])
    for rows in (strata.labels() == one for one in range(3)):
        before, after = (np.bincount(np.searchsorted(cuts, Y[rows, 0]), minlength=5) for Y in (X, outcome.values))
        assert np.abs(before - after).max() < 4 * np.sqrt(60)  # draws of 300 rows, a fifth in a bin


def test_values_come_from_the_whole_table():
    """Columns that tell the stratum: a value drawn in the bin is as likely from another stratum as its rows are."""
    n = 3000
    rng = np.random.default_rng(4)
    y = np.arange(n) % 3
    X = rng.permutation(n)[:, None] * 3.0 + y[:, None]  # the value modulo 3 is the stratum
    draws = KEY.draws(np.arange(n), "x")
    strata = Partition.from_labels(y)
    groups = form_inside(strata, lambda rows: KMember(k=5).form(X[rows], draws.take(rows)))
    values = Dither(bins=5, strata=3).apply(X, groups, Records(draws, strata=strata)).values[:, 0]
    nearest = X[np.abs(values[:, None] - X[None, :, 0]).argmin(axis=1), 0] % 3
    assert abs((nearest == y).mean() - 1 / 3) < 4 * np.sqrt(2 / 9 / n)


def test_strata_keep_more_of_what_predicts_the_response():
    table = people()

    def slope(frame):
        return np.polyfit(frame["a"], np.log(frame["cost"]), 1)[0]

    whole, plain, inside = (slope(t) for t in (table, released(table).data, released(table, strata=10).data))
    assert plain < inside
    assert abs(inside - whole) < 0.6 * abs(plain - whole)


def test_the_distribution_is_kept_and_the_claim_verified():
    table = people()
    found = released(table, strata=5)
    assert [one["verified"] for one in found.manifest["guarantee"]] == [True]
    assert found.manifest["guarantee"][0]["k"] == 20
    for name in ("a", "b"):
        quantiles = (np.quantile(frame[name], np.arange(1, 8) / 8) for frame in (table, found.data))
        assert (
            np.abs(np.subtract(*quantiles)).max() < 0.15
        )  # of a normal column: 3 standard errors of a quantile, twice
    assert sorted(found.data["cost"]) == sorted(table["cost"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bins": None}, "who knows it would know the response"),
        ({"bins": 11}, "10 at most"),
        ({"dither": "resample"}, "gaussian dither, got resample"),
        ({"dither": "cell"}, "gaussian dither, got cell"),
        ({"diversity": 2}, "want the contrary"),
    ],
)
def test_strata_that_would_disclose_are_refused(options, said):
    with pytest.raises(RecipeError, match=said):
        released(people(100), strata=3, **options)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (COLUMNS | {"cost": {"role": "other"}}, "role sensitive"),
        (COLUMNS | {"cost": {"role": "sensitive", "kind": "categorical"}}, "have an order"),
        (COLUMNS | {"who": {"role": "person"}}, "k counts persons"),
    ],
)
def test_strata_need_a_response_of_records(columns, said):
    table = people(100).assign(who=np.arange(100) // 2)
    with pytest.raises(RecipeError, match=said):
        released(table, {"who": {"role": "dropped"}} | columns, k=2, strata=3)


def test_the_order_by_the_response_needs_no_constraint():
    table = people(300)
    assert not released(table, k=3, order="response").data.equals(released(table, k=3, order="given").data)
    with pytest.raises(RecipeError, match="role sensitive"):
        released(table, COLUMNS | {"cost": {"role": "other"}}, k=3, order="response")


def test_the_order_follows_the_response_by_default_where_there_is_one():
    table = people(300)
    table["b"] = np.round(table["b"])  # few values, and tells less of the cost: first by number, last by the response
    table["a"] = np.round(table["a"] * 4)
    unknown = COLUMNS | {"cost": {"role": "other"}}

    def rows(columns=COLUMNS, **options):
        """Released rows, sorted: their order depends on the recipe's text."""
        return released(table, columns, k=3, **options).data.sort_values(["cost", "a", "b"]).to_numpy()

    assert not np.array_equal(rows(order="response"), rows(order="fewest"))
    np.testing.assert_array_equal(rows(), rows(order="response"))
    np.testing.assert_array_equal(rows(unknown), rows(unknown, order="fewest"))


def test_a_response_that_an_earlier_mask_released_as_intervals_is_not_heeded():
    table = people(300)
    earlier = {"method": "mondrian", "k": 5, "columns": ["cost"], "release": "interval"}
    masks = [earlier, {"method": "distribution-preserving", "k": 5}]
    found = gpuanon.protect(table, {"columns": COLUMNS, "mask": masks}, rng=b"0123456789abcdef")
    assert len(found.data) == 300
