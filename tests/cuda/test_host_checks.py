"""Layer 3 on every kernel: the same files through g++ with AddressSanitizer and UndefinedBehaviorSanitizer, the threads
of a block in three orders, against the NumPy twins; and the same bits whatever the order."""

from __future__ import annotations

import numpy as np
import pytest

from gpuanon.cli.doctor.device_checks import CHECKS, Check
from tests.cuda.support import host_shim
from tests.cuda.support.fake_cupy import fake_cupy

pytestmark = pytest.mark.skipif(host_shim.MISSING is not None, reason=str(host_shim.MISSING))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_kernel_on_the_host_agrees_with_numpy_in_every_order_of_threads(check: Check) -> None:
    results = []
    for schedule in (0, 1, 2):
        with fake_cupy(schedule=schedule) as cp:
            results.append(check.run(cp, np.float64))
    assert check.difference(results[0], check.expected(np.float64), np.float64) <= check.allowed(np.float64)
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(first, second)
