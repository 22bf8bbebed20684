"""Groups that hold k records of a weight above 0, and the masks that draw by weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.masking.view import with_weight

KEY = Key(b"a key for the tests of weighted groups")
DITHERS = ("gaussian", "cell", "merged-cell", "resample", "permute")


def survey(zeros: float, n: int = 1200) -> pd.DataFrame:
    """Records whose weights grow with a, and some of which have none."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "who": np.arange(n) // 2})
    frame["w"] = np.where(rng.random(n) < zeros, 0.0, np.exp(0.5 * frame["a"]))
    return frame


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("dither", DITHERS)
def test_a_survey_with_weights_of_zero_is_masked_and_its_weighted_mean_is_kept(dither: str, persons: bool) -> None:
    frame = survey(0.02)
    masked = ["a"] if dither == "merged-cell" else ["a", "b"]
    columns = {name: {"role": "quasi", "keep": name not in masked} for name in ("a", "b")}
    frame["beside"] = np.arange(len(frame)) % 7  # what moved rows are hidden from
    columns |= {
        "beside": {"role": "other"},
        "w": {"role": "weight"},
        "who": {"role": "person" if persons else "identifier"},
    }
    mask = {"method": "distribution-preserving", "k": 5, "dither": dither, "columns": masked}
    release = gpuanon.protect(frame, {"columns": columns, "mask": [mask]}, rng=KEY, backend="numpy")
    assert release.manifest["guarantee"][0]["verified"]
    after, weight = release.data["a"], release.data["w"]
    error = frame["a"].std() / np.sqrt(len(frame))
    assert abs(np.average(after, weights=weight) - np.average(frame["a"], weights=frame["w"])) < 5 * error
    assert not after.isin(frame["a"][frame["w"] == 0]).any()  # nothing is drawn from a record without weight


def test_groups_of_too_few_are_united_with_the_nearest_that_has_enough() -> None:
    X = np.repeat([0.0, 1.0, 10.0, 11.0], 3)[:, None]
    weights = np.array([1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0.0])
    groups = Partition.from_labels(np.repeat(np.arange(4), 3))
    found = with_weight(groups, X, weights, 3, None, None).labels()
    assert pd.factorize(found)[0].tolist() == [0] * 6 + [1] * 6
    persons = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    of_persons = with_weight(groups, X, np.ones(12), 3, persons, None)
    assert of_persons.parts == 4  # no weight is 0: the groups stay as they were formed
    strata = Partition.from_labels(np.repeat([0, 1, 0, 1], 3))
    inside = with_weight(groups, X, np.array([1.0] * 9 + [0, 1, 1]), 3, None, strata).labels()
    assert pd.factorize(inside)[0].tolist() == np.repeat([0, 1, 2, 1], 3).tolist()
