"""Donors of added rows: who they are, against a naive version; and what a class of one tells in a release."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.errors import GuaranteeError
from gpuanon.masking.operations.pad import parents_of, short_classes
from gpuanon.masking.operations.pad.joint import ClassDonors

KEY = b"a key for the tests of donors"


def naive_donors(codes, parent, k):
    """The records of other classes in the order of their codes, and those of them round the place of the class."""
    rows = sorted(range(len(codes)), key=lambda row: (tuple(codes[row]), row))
    others = [row for row in rows if tuple(codes[row]) != tuple(codes[parent])]
    before = sum(tuple(codes[row]) < tuple(codes[parent]) for row in others)
    width = min(2 * k, len(others))
    first = min(max(before - width // 2, 0), len(others) - width)
    return others[first : first + width]


def test_donors_are_the_nearest_records_of_other_classes_each_once():
    rng = np.random.default_rng(5)
    for k in (2, 3, 7):
        codes = rng.integers(-1, 4, (60, 3))
        parents = parents_of(*short_classes(codes, Partition.whole(60), k))
        donors = ClassDonors.of(codes, parents, k)
        smallest = min(len(naive_donors(codes, row, 30)) for row in parents)
        assert donors.width == min(2 * k, smallest)
        drawn = donors.rows(rng.random(len(parents)))
        for row, given in zip(parents, drawn, strict=True):
            assert given in naive_donors(codes, row, k)
        found = pd.DataFrame({"class": [tuple(codes[row]) for row in parents], "donor": drawn})
        assert not found.duplicated().any()
        values = rng.normal(size=60)
        values[:10] = np.nan
        expected = [np.nanmean(values[naive_donors(codes, row, k)]) for row in parents]
        means = donors.means(values, np.full(len(parents), 0.5))
        known = ~np.isnan(means)
        np.testing.assert_allclose(means[known], np.array(expected)[known], atol=1e-12)
        np.testing.assert_array_equal(known, ~np.isnan(values[donors.rows(np.full(len(parents), 0.5))]))


def test_one_row_of_a_person_gives_values_and_few_donors_are_refused():
    codes, persons = np.arange(12)[:, None], np.repeat([4, 2, 7, 9], 3)
    donors = ClassDonors.of(codes, np.array([0, 5]), 3, persons)
    assert set(donors.order) == {0, 3, 6, 9}
    assert 0 not in donors.rows(np.array([0.0, 0.9]))[:1]
    with pytest.raises(GuaranteeError, match="fewer than k = 4 records of other classes"):
        ClassDonors.of(codes, np.array([0, 5]), 4, persons)


@pytest.mark.parametrize("fill", ["joint", "joint-mean"])
def test_a_class_of_one_does_not_tell_what_its_person_has(fill):
    """The commonest sensitive values of a class are not those of the person who was alone in it."""
    rng = np.random.default_rng(8)
    table = pa.table(
        {
            "age": rng.permutation(600),
            "cost": rng.lognormal(5, 1, 600).round(2),
            "code": rng.choice([f"c{i}" for i in range(40)], 600),
        }
    )
    columns = {"age": {"role": "quasi"}, "cost": {"role": "sensitive"}, "code": {"role": "sensitive"}}
    rules = {"columns": columns, "nulls": "category", "mask": [{"method": "synthetic-rows", "k": 5, "fill": fill}]}
    release = gpuanon.protect(table, rules, rng=KEY, backend="numpy").data.to_pandas()
    truth = table.to_pandas().set_index("age")
    for name in ("cost", "code"):
        commonest = release.groupby("age")[name].agg(lambda values: values.value_counts().index[0])
        counts = release.groupby("age")[name].nunique()
        assert counts.min() >= (5 if (name, fill) == ("cost", "joint") else 2)
        assert (commonest == truth[name].reindex(commonest.index)).mean() < 0.35  # one in five, ties and equal codes
