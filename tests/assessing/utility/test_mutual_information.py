"""Mutual information of pairs of columns."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from gpuanon.assessing.utility.mutual_information import mutual_information


def test_each_pair_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    before = rng.integers(0, 4, size=(500, 3))
    before[:, 1] = (before[:, 0] + rng.integers(0, 2, 500)) % 4
    after = rng.integers(-1, 4, size=(400, 3))
    found = mutual_information(before, after, names=["a", "b", "c"])
    (part,) = found.parts
    for i, j in ((0, 1), (0, 2), (1, 2)):
        change = mutual_info_score(after[:, i], after[:, j]) - mutual_info_score(before[:, i], before[:, j])
        assert part.values["abc"[i], "abc"[j]] == pytest.approx(abs(change), abs=1e-12)
    assert found.value == pytest.approx(np.mean(list(part.values.values())))


def test_a_column_tells_all_of_its_copy():
    column = np.arange(8) % 4
    before = np.stack([column, column], axis=1)
    after = np.stack([column, np.zeros(8, dtype=int)], axis=1)
    assert mutual_information(before, after).value == pytest.approx(np.log(4))
