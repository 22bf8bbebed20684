"""The scikit-learn face."""

from __future__ import annotations

import pytest
from sklearn.base import clone

import gpuanon
from tests.support.every import recipe, registry

KEY = b"a key for tests, of sixteen bytes or more"


def test_fit_transform_is_protect():
    frame = registry(60).to_pandas()
    masked = gpuanon.Anonymizer(recipe("microaggregation"), rng=KEY).fit_transform(frame)
    assert masked.equals(gpuanon.protect(frame, recipe("microaggregation"), rng=KEY).data)


def test_unseen_rows_are_refused_with_the_reason():
    frame = registry(60).to_pandas()
    fitted = gpuanon.Anonymizer(recipe("microaggregation")).fit(frame)
    with pytest.raises(gpuanon.GpuanonError, match="no group to mix with"):
        fitted.transform(frame)


def test_a_target_beside_the_table_is_refused():
    frame = registry(60).to_pandas()
    with pytest.raises(gpuanon.GpuanonError, match="column of X"):
        gpuanon.Anonymizer(recipe("microaggregation")).fit(frame, frame["cost"])


def test_it_can_be_cloned():
    one = gpuanon.Anonymizer(recipe("permute"), backend="numpy")
    assert clone(one).get_params() == one.get_params()
