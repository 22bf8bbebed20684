"""What a measure of risk or utility returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Figure: TypeAlias = "float | int | bool | str | list[Figure] | dict[str, Figure] | None"
"""Anything that JSON can hold."""


@dataclass(frozen=True)
class Measured:
    """One measured figure, with what is needed to read it.

    value    : the headline figure
    details  : further figures (intervals, quantiles, baselines, per-column values), ready for JSON
    note     : what the reader must know (a sample was taken, an assumption does not hold), or None
    """

    value: float
    details: Mapping[str, Figure] = field(default_factory=dict)
    note: str | None = None

    def to_json(self) -> dict[str, Figure]:
        """The measure's object in ``assess --json``."""
        return {"value": self.value, **self.details, **({} if self.note is None else {"note": self.note})}
