"""Fixtures of the GPU tests."""

from tests.cuda.fixtures import cp, xp

__all__ = ["cp", "xp"]
