"""Fixtures of the GPU tests."""

from tests.cuda.fixtures import cp, cuml, device, xp

__all__ = ["cp", "cuml", "device", "xp"]
