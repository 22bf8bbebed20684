"""Finite memory: every method finishes on a device as small, for its table, as 8 GB are for 10 million rows.

Groups are formed by a shortcut here (rows in order) and Rosenblatt's kernel is left out, because interpreted they would
take hours for this many rows; everything else runs as it is.  The stand-in counts every array, keeps freed
blocks in a pool, and raises CuPy's error when the device is full.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import gpuanon
from gpuanon.arrays.backend import namespace
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import mix_bits
from gpuanon.errors import BackendError
from gpuanon.masking.operations.dither import rosenblatt
from tests.cuda.support.fake_cupy import fake_cupy
from tests.support.every import ON_THE_DEVICE, recipe, registry
from tests.support.groups import refine_briefly

ROWS = 10_000
MEMORY = (8 << 30) * ROWS // 10_000_000
FIXED = dict.fromkeys(("pica", "clustered-swap", "noise data-dependent"), 24 << 20) | {
    name: 96 << 20 for name in ON_THE_DEVICE if name.startswith("optimal-boxes")
}
"""Bytes of batches whose size does not grow with the table: nothing on 8 GB, much on a device scaled down."""


WIDE = ("copula", "univariate-synthesis", "clustered-synthesis")
"""Methods for which indicators make 45 columns of the 10: the error says what to do."""


def consecutive(X: Any, within: Partition, k: int, metric: Any) -> Partition:
    """Groups of k consecutive rows of each part; the last of a part has up to 2 k − 1."""
    xp, part = namespace(X), within.part_of_sorted()
    counts = within.sizes // k
    place = xp.minimum((xp.arange(within.n) - within.starts[part]) // k, counts[part] - 1)
    labels = xp.empty(within.n, dtype=np.int64)
    labels[within.order] = (xp.cumsum(counts) - counts)[part] + place
    return Partition.from_labels(labels)


def spread(u: Any) -> None:
    """Fill an array with numbers that are spread over (0, 1): values must seem to be drawn."""
    words = mix_bits(namespace(u).arange(u.size).astype(np.uint64)) >> np.uint64(11)
    u[...] = (words * 2.0**-53).reshape(u.shape)


@pytest.fixture
def quick_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mdav", "kmember"):
        monkeypatch.setattr(import_module(f"gpuanon.masking.groups.{name}"), f"{name}_cuda", consecutive)
    refine_briefly(monkeypatch, turns=0, steps=0)
    monkeypatch.setattr(rosenblatt, "launch", lambda *arguments, **sizes: spread(arguments[-1]))


@pytest.mark.slow
@pytest.mark.usefixtures("quick_groups")
@pytest.mark.parametrize("name", ON_THE_DEVICE)
def test_every_method_finishes_on_a_small_device(name: str) -> None:
    data: Any = registry(500 if name in FIXED else ROWS)  # their kernels take minutes to interpret
    memory = MEMORY + FIXED.get(name, 0)
    with fake_cupy(free_memory=memory, total_memory=memory, limit=2**62) as cp:
        if name in WIDE:
            with pytest.raises(BackendError, match=r"device memory: it is full .*\nHint: run in parts"):
                gpuanon.protect(data, recipe(name), rng=7, backend="cupy")
            return
        found = gpuanon.protect(data, recipe(name), rng=7, backend="cupy")
        print(f"{name}: peak {cp.memory.peak / memory:.2f} of the device, {len(cp.memory.waits)} waits")
    assert found.manifest["backend"] == "cupy"
