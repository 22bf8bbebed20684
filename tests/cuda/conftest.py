"""Fixtures of the GPU tests."""

from tests.cuda.fixtures import cp, cuml, xp

__all__ = ["cp", "cuml", "xp"]
