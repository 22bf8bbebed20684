"""All instructions that compute, by opcode."""

from __future__ import annotations

from tests.cuda.support import arithmetic, bits, floats, selection
from tests.cuda.support.builders import BUILDERS

__all__ = ["BUILDERS", "arithmetic", "bits", "floats", "selection"]
