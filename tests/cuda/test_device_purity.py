"""Layer 5, device purity: why the stand-in for CuPy checks it, and that it is at least as strict as array-api-strict.

array-api-strict knows a second device whose arrays do not meet the host's.  The project's array code cannot run on
it: it is written in what NumPy and CuPy share (methods, ``reduceat``, ``lexsort``, stable ``argsort``, assignment
through index arrays), which is more than the standard has.  So the stand-in has to refuse by itself whatever that
second device refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import pytest

from gpuanon.arrays.partition import Partition, ranks_within, segment_covariances, shuffle_within
from tests.cuda.support.fake_cupy import fake_cupy

HOST = np.arange(6.0).reshape(2, 3)

IMPURE: dict[str, Callable[[Any], Any]] = {
    "implicit conversion": lambda x: np.asarray(x),
    "conversion by a constructor": lambda x: np.array(x, dtype=np.float64),
    "a sum with a host array": lambda x: x + HOST,
    "a host array first": lambda x: HOST + x,
    "a comparison with a host array": lambda x: x < HOST,
    "a matrix product with a host array": lambda x: x @ HOST.T,
    "a host array as an index": lambda x: x[np.array([0, 1])],
    "a host array assigned": lambda x: x.__setitem__(slice(None), HOST),
    "updating in place from a host array": lambda x: x.__iadd__(HOST),
    "a host mask": lambda x: x[HOST > 2],
}


@pytest.mark.parametrize("what", IMPURE)
def test_what_array_api_strict_refuses_on_a_second_device_is_refused(what: str) -> None:
    strict = array_api_strict.asarray(HOST.tolist(), device=array_api_strict.Device("device1"))
    with pytest.raises((TypeError, ValueError, RuntimeError, IndexError)):
        IMPURE[what](strict)
    with fake_cupy() as cp, pytest.raises((TypeError, ValueError, RuntimeError, IndexError)):
        IMPURE[what](cp.asarray(HOST))


PURE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "parts from labels": lambda xp, X, labels: Partition.from_labels(labels).order,
    "covariances": lambda xp, X, labels: segment_covariances(X, Partition.from_labels(labels)),
    "ranks": lambda xp, X, labels: ranks_within(X[:, 0], Partition.from_labels(labels)),
    "a shuffle": lambda xp, X, labels: shuffle_within(X[:, 1], Partition.from_labels(labels)),
}


@pytest.mark.parametrize("what", PURE)
def test_functions_of_a_partition_stay_on_the_device(what: str) -> None:
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(60, 3)), rng.integers(0, 7, 60)
    with fake_cupy() as cp:
        found = PURE[what](cp, cp.asarray(X), cp.asarray(labels))
        assert isinstance(found, cp.ndarray)
        assert not cp.transfers.downloads
        np.testing.assert_allclose(found.get(), PURE[what](np, X, labels), rtol=1e-12)
