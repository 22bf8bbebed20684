"""Ready recipes by purpose: which mask, and which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuanon.errors import ParameterError


@dataclass(frozen=True)
class Purpose:
    """What a release is for.

    mask    : of the recipe
    limits  : measures that the release is held to, and the worst value that is written
    safe_harbor : whether HIPAA's rules come first: three digits of a ZIP code, ages to 89, dates by their year
    instead : other masks, which are tried where the first loses much; they are held to no limits of groups
    """

    name: str
    summary: str
    mask: Mapping[str, Any]
    limits: Mapping[str, float] = field(default_factory=dict)
    instead: tuple[Mapping[str, Any], ...] = ()
    safe_harbor: bool = False

    def to_json(self) -> dict[str, Any]:
        """As ``recipes --json`` lists it."""
        return {
            "name": self.name,
            "summary": self.summary,
            "mask": dict(self.mask),
            "limits": dict(self.limits),
        }


PURPOSES: tuple[Purpose, ...] = (
    Purpose(
        "research",
        "a research file: every column that is released is masked, in groups of 5 or by rows drawn anew",
        {"method": "microaggregation", "k": 5, "columns": "all"},
        {"k_anonymity": 5, "uniqueness": 0.0},
        instead=({"method": "sequential-synthesis", "columns": "all"},),
    ),
    Purpose(
        "public-use",
        "a public-use file: every column that is released is masked, in groups of 10",
        {"method": "microaggregation", "k": 10, "columns": "all"},
        {"k_anonymity": 10, "uniqueness": 0.0, "reidentification": 0.2},
    ),
    Purpose(
        "training",
        "training data for models: all columns drawn anew from groups of 10, so that their distribution is kept",
        {"method": "distribution-preserving", "k": 10, "dither": "gaussian", "bins": 20, "columns": "all"},
        {"reidentification": 0.2},
    ),
    Purpose(
        "statistics",
        "statistics only: components of all columns swapped over the whole table; means and covariances are kept, no"
        " record is",
        {"method": "svd-swap", "orthonormal": True, "columns": "all"},
        {"reidentification": 0.05, "means": 0.05},
    ),
    Purpose(
        "hipaa",
        "HIPAA's safe harbor first (no identifiers, three digits of ZIP codes, ages above 89 in one class, years for"
        " dates), then groups of 5: the rules alone leave people who are alone on three columns",
        {"method": "microaggregation", "k": 5, "columns": "all"},
        {"k_anonymity": 5, "uniqueness": 0.0},
        safe_harbor=True,
    ),
)
"""The first is the one that is taken if none is named."""


def purpose_of(name: str | None) -> Purpose:
    """The purpose of this name; None for the first."""
    if name is None:
        return PURPOSES[0]
    for purpose in PURPOSES:
        if purpose.name == name:
            return purpose
    known = ", ".join(purpose.name for purpose in PURPOSES)
    raise ParameterError(f"purpose: there is no {name!r}; there are {known}", hint="'gpuanon recipes' describes them")
