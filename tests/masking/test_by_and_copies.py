"""Masks that group by chosen columns, and several copies in one release."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import gpuanon
from gpuanon.errors import GpuanonError
from gpuanon.masking.methods.combination import Combination
from tests.support.every import recipe, registry

KEY = b"a key for tests, of sixteen bytes or more"


def protect(mask, **changes):
    return gpuanon.protect(registry(), recipe(mask, **changes), rng=KEY, backend="numpy")


def test_groups_by_one_column_are_neighbours_in_it():
    """Every group of equal released rows holds records whose ages follow each other."""
    mask = {"method": "microaggregation", "k": 5, "groups": "first-axis", "by": ["age"], "columns": ["age", "income"]}
    release = protect(mask)
    original = registry().to_pandas().iloc[release.link].reset_index(drop=True)
    released = release.data.to_pandas()
    groups = original["age"].groupby([released["age"], released["income"].fillna(-1)], observed=True)
    spans = sorted(zip(groups.min(), groups.max(), strict=True))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert groups.size().min() >= 5


def test_core_columns_stay_and_their_tables_with_each_masked_column():
    release = protect("core-swap")
    before, after = registry().to_pandas(), release.data.to_pandas()
    for name in ("age", "education", "income"):
        tables = [pd.crosstab([t.sex, t.smoker], t[name].astype(str)) for t in (before, after)]
        pd.testing.assert_frame_equal(tables[1][tables[0].columns], tables[0], check_names=False)


@pytest.mark.parametrize(
    ("combination", "fault"),
    [
        ({"groups": {"use": "whole"}, "operation": {"use": "noise"}, "by": ["age"]}, "by: whole groups"),
        ({"groups": {"use": "univariate", "k": 3}, "operation": {"use": "centroid"}, "by": ["age"]}, "by:"),
        ({"groups": {"use": "mdav", "k": 3}, "operation": {"use": "centroid"}, "copies": 2}, "copies:"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(combination, fault):
    with pytest.raises(ValueError, match=fault):
        Combination.model_validate(combination)


def test_copies_are_numbered_and_differ_and_share_what_is_given():
    mask = {
        "method": "sequential-synthesis",
        "columns": ["education", "income"],
        "given": ["sex"],
        "copies": 3,
        "even": False,
    }
    release = protect(mask)
    table = release.data.to_pandas()
    assert sorted(table["copy"].unique()) == [1, 2, 3]
    assert (table["copy"].value_counts() == 300).all()
    assert np.array_equal(np.sort(release.link[table["copy"] == 1]), np.arange(300))
    assert (release.link[table["copy"] > 1] == -1).all()
    sums = table.groupby("copy")["income"].sum()
    assert sums.nunique() == 3
    shares = table.groupby("copy")["sex"].apply(lambda column: (column == column.iloc[0]).mean())
    assert shares.nunique() <= 2  # the share of a level, or of the other
    assert release.manifest["rows_added"] == 600


def test_a_table_with_a_column_of_that_name_is_refused():
    table = registry().append_column("copy", registry()["visits"])
    with pytest.raises(GpuanonError, match="'copy'"):
        gpuanon.protect(table, recipe({"method": "latin-hypercube", "copies": 2}), rng=KEY, backend="numpy")
