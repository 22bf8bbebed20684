"""The backend is chosen once, with a reason, and never changed silently."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from gpuanon.arrays import backend
from gpuanon.errors import BackendError, ParameterError


def broken(available):
    """A CuPy whose device does not work."""
    module = types.ModuleType("cupy")
    module.ndarray = type("ndarray", (), {})
    module.cuda = types.SimpleNamespace(is_available=lambda: available)

    def arange(n):
        raise RuntimeError("cudaErrorNoDevice and a secret path")

    module.arange = arange
    return module


def test_numpy_is_used_when_requested():
    chosen = backend.choose("numpy")
    assert (chosen.name, chosen.xp) == ("numpy", np)
    array = np.arange(3)
    assert chosen.upload(array) is array
    assert backend.to_host(array) is array


@pytest.mark.parametrize(
    ("module", "reason"),
    [(None, "not installed"), (broken(False), "no CUDA device"), (broken(True), "does not answer")],
)
def test_without_a_device_auto_gives_the_reason_and_cupy_raises(monkeypatch, module, reason):
    monkeypatch.setitem(sys.modules, "cupy", module)
    chosen = backend.choose("auto")
    assert chosen.name == "numpy"
    assert reason in chosen.reason
    assert "secret" not in chosen.reason
    with pytest.raises(BackendError, match=reason):
        backend.choose("cupy")


def test_an_unknown_backend_is_refused():
    with pytest.raises(ParameterError, match="auto, numpy, cupy"):
        backend.choose("tpu")
