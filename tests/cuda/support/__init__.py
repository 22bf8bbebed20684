"""The GPU path without a GPU: see README.md beside this file."""

from __future__ import annotations

__all__: list[str] = []
