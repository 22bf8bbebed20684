"""Layer 3 against kernels that break one rule each: the sanitizers or the scheduler of the fibers must detect it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda.support import faults, host_shim

pytestmark = pytest.mark.skipif(host_shim.MISSING is not None, reason=str(host_shim.MISSING))

PROBES = Path(__file__).parent / "probes"


def sums(fault: int, schedule: int = 0, n: int = 300) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The result of the probe with this fault, and the correct result."""
    built = host_shim.program("float", {"FAULT": fault}, (PROBES / "warps.cu").read_text())
    x = np.random.default_rng(6).normal(size=n).astype(np.float32)
    out = np.full(3, np.nan, np.float32)
    host_shim.launch(built, "block_sums", 3, 128, (x, out, np.int32(n)), schedule=schedule)
    return out, np.concatenate([x, np.zeros(384 - n, np.float32)]).reshape(3, 128).sum(1)


def test_a_sound_kernel_gives_the_same_bits_under_every_schedule() -> None:
    results = [sums(0, schedule) for schedule in range(4)]
    np.testing.assert_allclose(results[0][0], results[0][1], rtol=1e-5)
    for found, _ in results[1:]:
        np.testing.assert_array_equal(found, results[0][0])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (1, "heap-buffer-overflow"),  # a load without its guard
        (3, "out of bounds"),  # one past the end of shared memory
        (5, "barrier"),  # a barrier that half of the threads skip
        (8, "heap-buffer-overflow"),  # one past the end of the result
        (11, "mask names a lane"),
        (12, "misaligned"),
    ],
)
def test_a_broken_kernel_is_stopped(fault: int, message: str) -> None:
    with pytest.raises(host_shim.SanitizerFault, match=message):
        sums(fault)


@pytest.mark.parametrize("fault", [2, 4, 6])
def test_a_missing_barrier_or_value_shows_under_some_schedule(fault: int) -> None:
    wrong = []
    for schedule in range(4):
        found, expected = sums(fault, schedule)
        wrong.append(not np.allclose(found, expected, rtol=1e-4))
    assert any(wrong)


def test_a_32_bit_index_that_overflows_is_stopped() -> None:
    built = host_shim.program("float", {}, (PROBES / "overflow.cu").read_text())
    place = np.zeros(1, np.int64)
    host_shim.launch(built, "index_64", 1, 1, (place, np.int32(70_000), np.int32(70_000)))
    assert place[0] == 70_000**2
    with pytest.raises(host_shim.SanitizerFault, match="signed integer overflow"):
        host_shim.launch(built, "index_32", 1, 1, (place, np.int32(70_000), np.int32(70_000)))


def test_shuffles_and_votes_agree_with_the_interpreter() -> None:
    from tests.cuda.support.interpreter import Module

    text = (PROBES / "warps.cu").read_text()
    x = np.random.default_rng(3).integers(-99, 100, 128).astype(np.int32)
    ours, theirs = np.zeros((12, 128), np.int32), np.zeros((12, 128), np.int32)
    host_shim.launch(host_shim.program("float", {"FAULT": 0}, text), "shuffles", 2, 64, (x, ours), schedule=2)
    Module.from_source(text, "float", define={"FAULT": 0}).launch("shuffles", 2, 64, (x, theirs))
    np.testing.assert_array_equal(ours, theirs)


def test_a_kernel_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_shim, "TIMEOUT", 2)
    with pytest.raises(faults.Endless):
        sums(9)
