"""A model of the release, tested on held-out originals."""

from __future__ import annotations

import numpy as np
import pytest

from gpuanon.assessing.utility.model_efficacy import model_efficacy
from gpuanon.errors import GpuanonError


def table(n=600, seed=0):
    """A number and a category that follow from the first column."""
    x = np.random.default_rng(seed).normal(size=n)
    return np.stack([x, 3 * x + 0.1 * np.sin(40 * x), (x > 0).astype(float)], axis=1)


def efficacy(original, release, target="y", **options):
    kinds = {"categorical": [False, False, True], "names": ("x", "y", "c")}
    return model_efficacy(original, release, target=target, **kinds, **options)


@pytest.mark.parametrize("target", ["y", "c"])
def test_a_copy_predicts_as_well_and_noise_does_not(target):
    original = table()
    assert efficacy(original, original, target, link=np.arange(600)).value == 0
    noise = original.copy()
    at = {"y": 1, "c": 2}[target]
    noise[:, at] = np.random.default_rng(1).permutation(noise[:, at])
    noise[:, 3 - at] = 0.0  # the other column gives the target away
    found = efficacy(original, noise, target, link=np.arange(600))
    assert found.value > 0.7
    assert found.beside[0].value > 0.9


def test_held_out_people_are_in_no_training_rows():
    original = table()
    found = efficacy(original, original, link=np.arange(600))
    assert found.details["held_out"] + found.details["trained_on"] == 600
    assert "made from the held-out people" in efficacy(original, original).note


def test_rows_without_a_target_are_left_out():
    original = table()
    original[:100, 1] = np.nan
    assert efficacy(original, original, link=np.arange(600)).value == 0


def test_what_cannot_be_predicted_is_refused():
    with pytest.raises(GpuanonError, match="target"):
        efficacy(table(), table(), "z")
    with pytest.raises(GpuanonError, match="20 rows"):
        efficacy(table(30), table(30))


def test_a_released_column_without_values_tells_nothing():
    rng = np.random.default_rng(0)
    original = rng.normal(size=(400, 3))
    original[:, 2] = original[:, 0] + original[:, 1]
    release = original.copy()
    release[:, 1] = np.nan
    kinds = {"names": ["a", "b", "y"], "categorical": [False] * 3, "target": "y", "link": np.arange(400)}
    found = model_efficacy(original, release, **kinds)
    assert {one.name: one.value for one in found.beside}["score_release"] == pytest.approx(0.5, abs=0.15)
    release[:, 0] = np.nan
    found = model_efficacy(original, release, **kinds)
    assert {one.name: one.value for one in found.beside}["score_release"] == pytest.approx(0, abs=0.05)
    with pytest.raises(GpuanonError, match="besides the target"):
        model_efficacy(original[:, 2:], release[:, 2:], names=["y"], categorical=[False], target="y")
