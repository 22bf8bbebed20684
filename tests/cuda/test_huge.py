"""Indices beyond 2³¹ address the right elements."""

from __future__ import annotations

import pytest

from tests.cuda.huge import PROBLEMS
from tests.cuda.support.interpreter import Module


@pytest.mark.parametrize("name", PROBLEMS)
def test_elements_beyond_two_to_the_31_are_reached(name: str) -> None:
    PROBLEMS[name](lambda file: Module.of(file, "float"))
