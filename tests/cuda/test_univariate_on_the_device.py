"""Groups of single columns on the stand-in for CuPy equal those of NumPy, and nothing is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuanon.masking.groups import univariate as module
from tests.cuda.support.fake_cupy import fake_cupy


@pytest.mark.parametrize("function", [module.univariate, module.optimal_univariate])
@pytest.mark.parametrize("features", [1, 4])
@pytest.mark.parametrize("stretch", [16, 512])
def test_groups_equal_those_of_the_host(
    function: Any, features: int, stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", stretch)
    rng = np.random.default_rng(features)
    values = rng.lognormal(size=(150, 1)) if features == 1 else np.eye(features)[rng.integers(0, features, 150)]
    expected = function(values, 3)
    with fake_cupy() as cp:
        X = cp.asarray(values)
        copied = len(cp.transfers.uploads)
        found = function(X, 3)
        assert len(cp.transfers.uploads) == copied
        assert not cp.transfers.downloads
        np.testing.assert_array_equal(cp.asnumpy(found.order), expected.order)
        np.testing.assert_array_equal(cp.asnumpy(found.starts), expected.starts)
