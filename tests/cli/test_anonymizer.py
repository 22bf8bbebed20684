"""The scikit-learn face."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

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


@pytest.mark.parametrize("rng", [KEY, gpuanon.Key(KEY), 987654321, np.int64(987654321)])
@pytest.mark.parametrize("fitted", [False, True])
def test_neither_its_text_nor_its_pickle_holds_the_key(rng, fitted):
    one = gpuanon.Anonymizer(recipe("permute"), backend="numpy", rng=rng)
    if fitted:
        one.fit(registry(60).to_pandas())
    shown = repr(one) + str(one) + one._repr_html_() + repr(make_pipeline(one)) + make_pipeline(one)._repr_html_()
    assert not any(secret in shown for secret in (KEY.decode(), "987654321"))
    pickled = pickle.dumps(one)
    assert KEY not in pickled
    assert np.int64(987654321).tobytes()[:4] not in pickled
    for other in (pickle.loads(pickled), copy.deepcopy(one), copy.copy(one)):
        assert other.rng is None
    assert one.set_params(rng=rng).rng._secret == clone(one).rng._secret
    assert KEY.decode() not in repr(one)


def test_a_clone_draws_as_the_first_one_does():
    frame = registry(60).to_pandas()
    one = gpuanon.Anonymizer(recipe("microaggregation"), rng=KEY)
    assert clone(one).fit_transform(frame).equals(one.fit_transform(frame))


def test_a_pickle_holds_the_release_but_not_the_link(tmp_path):
    fitted = gpuanon.Anonymizer(recipe("permute"), rng=KEY).fit(registry(60).to_pandas())
    assert len(fitted.release_.link) == 60
    link = fitted.release_.link.tobytes()
    pickled = pickle.dumps(fitted)
    assert link not in pickled
    other = pickle.loads(pickled).release_
    assert other.data.equals(fitted.release_.data)
    assert other.manifest == fitted.release_.manifest
    assert other.link is None
    with pytest.raises(gpuanon.GpuanonError, match="copy of a release"):
        other.write(tmp_path / "release.parquet")
    assert not (tmp_path / "release.parquet").exists()


def test_what_is_no_secret_and_what_is_no_recipe_are_refused():
    frame = registry(60).to_pandas()
    for rng in (-1, np.int64(-5)):
        with pytest.raises(gpuanon.GpuanonError, match="rng: a whole number from 0 up") as caught:
            gpuanon.protect(frame, recipe("permute"), rng=rng)
        assert "5" not in str(caught.value)
    for wrong in (None, 3, ["recipe.toml"]):
        with pytest.raises(gpuanon.GpuanonError, match="recipe: a Recipe, a mapping or the path"):
            gpuanon.protect(frame, wrong)
