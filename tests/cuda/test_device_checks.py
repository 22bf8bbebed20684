"""Layer 4 on every kernel: the project's own functions on the stand-in for CuPy, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuanon.cli.doctor.device_checks import CHECKS, Check
from tests.cuda.fixtures import real_device
from tests.cuda.support import nvrtc
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.interpreter import Module


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float", "double"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_interpreted_kernel_agrees_with_numpy(check: Check, dtype: Any) -> None:
    with fake_cupy(races=True) as cp:
        found = check.run(cp, dtype)
        ran = {name for name, _ in cp.launches}
    assert {kernel.split("/")[1] for kernel in check.kernels} <= ran
    assert check.difference(found, check.expected(dtype), dtype) <= check.allowed(dtype)


def test_every_kernel_is_checked() -> None:
    checked = {kernel for check in CHECKS for kernel in check.kernels}
    written = {f"{path.stem}/{name}" for path in nvrtc.kernel_files() for name in Module.of(path.stem, "float").kernels}
    assert checked == written


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float", "double"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_kernel_on_a_device_agrees_with_numpy(check: Check, dtype: Any) -> None:
    assert check.difference(check.run(real_device(), dtype), check.expected(dtype), dtype) <= check.allowed(dtype)
