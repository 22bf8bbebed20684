"""The Wasserstein distance against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from gpuanon.assessing.figures import By
from gpuanon.assessing.utility.wasserstein import wasserstein


@pytest.mark.parametrize("ties", [False, True])
def test_it_is_the_distance_of_scipy(ties: bool) -> None:
    rng = np.random.default_rng(4)
    before, after = rng.normal(size=(70, 3)), rng.normal(0.4, 1.5, size=(45, 3))
    if ties:
        before, after = np.round(before), np.round(after)
    found = wasserstein(before, after, names=["a", "b", "c"])
    expected = [wasserstein_distance(before[:, j], after[:, j]) for j in range(3)]
    assert found.value == pytest.approx(max(expected))
    part = found.parts[0]
    assert isinstance(part, By)
    assert list(part.values.values()) == pytest.approx(expected)


def test_a_shift_is_its_own_distance() -> None:
    values = np.random.default_rng(1).normal(size=(30, 1))
    assert wasserstein(values, values + 2.5).value == pytest.approx(2.5)
    assert wasserstein(values, values).value == 0
