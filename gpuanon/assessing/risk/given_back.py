"""Given back: people whose masked value follows from a column that was released as it is.

A kept column that determines a masked one (education and its number, income and its decile, year and survey wave)
gives it back: whoever knows the code list reads the original value off.  A kept value tells a masked one if all
originals with that kept value have the same masked value, and they are several people: of one person alone nothing
public would tell the pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.figures import By, Measured
from gpuanon.assessing.measure import RISK_OF_RECORDS, SHARE, Applies, Measure
from gpuanon.tables.codes import level_codes
from gpuanon.tables.row_bits import row_bits

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

PEOPLE = 5
"""People who share a kept value, at least, for the pair to be public knowledge."""
COMMON = 0.95
"""Share of the most frequent value from which on a masked column is no secret."""


def given_back(kept: Host, masked: Host, *, kept_names: Sequence[str], masked_names: Sequence[str]) -> Measured:
    """Share of the people for whom a kept column tells the original value of a masked one.

    kept, masked : (n, p), (n, q) codes of the original, equal for equal values; a null tells nothing and is no secret
    """
    n = len(kept)
    told = np.zeros(n, dtype=bool)
    pairs: dict[str, float | None] = {}
    for at, secret in enumerate(masked_names):
        values = np.unique(masked[:, at], return_inverse=True)[1].reshape(-1)
        if n == 0 or np.bincount(values).max() > COMMON * n:
            continue
        for by, name in enumerate(kept_names):
            rows = _tells(kept[:, by], values) & (masked[:, at] >= 0) & (kept[:, by] >= 0)
            told |= rows
            if rows.any():
                pairs[f"{name} → {secret}"] = float(rows.mean())
    worst = dict(sorted(pairs.items(), key=lambda one: -(one[1] or 0.0))[:20])
    counted = {"kept_columns": len(kept_names), "masked_columns": len(masked_names)}
    return Measured(float(told.mean()) if n else 0.0, counted, parts=(By("pair", worst),) if worst else ())


def _tells(kept: Host, values: Host) -> Host:
    """(n,) whether all people with a row's kept value, several, have one value."""
    codes = np.unique(kept, return_inverse=True)[1].reshape(-1)
    some = np.empty(int(codes.max()) + 1, dtype=np.int64)
    some[codes] = values
    mixed = np.zeros(len(some), dtype=bool)
    mixed[codes[some[codes] != values]] = True
    return ~mixed[codes] & (np.bincount(codes)[codes] >= PEOPLE)


def _given_back(c: Comparison) -> Measured:
    """Of columns that the release has as they were, and of those whose values it changed."""
    names = [name for name in c.shown if name in c.original.names and not c.is_nested(name)]
    kept = [name for name in names if _unchanged(c, name)]
    masked = [name for name in names if name not in kept]
    (before,) = level_codes([c.original], names)
    at = {name: number for number, name in enumerate(names)}
    return given_back(
        before[:, [at[name] for name in kept]],
        before[:, [at[name] for name in masked]],
        kept_names=kept,
        masked_names=masked,
    )


def _unchanged(c: Comparison, name: str) -> bool:
    """Whether every released value of a column is that of its original."""
    if c.original.arrow(name).type != c.points.arrow(name).type:
        return False
    before, after = (row_bits(table, [name])[:, 0] for table in (c.original, c.points))
    there = c.link >= 0
    return bool((before[c.link[there]] == after[there]).all())


GIVEN_BACK = Measure(
    name="given_back", label="masked values that a kept column gives back",
    sentence="For this share of the people the original value of a masked column can be read off a column that was"
    " released as it is.",
    summary="share of people for whom a kept column determines the value of a masked one",
    family="risk", range=SHARE, usual="0", unit="record",
    applies=Applies(("kept", "dropped", "added"), link=True), function=given_back, compute=_given_back, arrays=None,
    weights=RISK_OF_RECORDS, nulls="a null tells nothing, and is no secret", scaling="whole",
    host="counts of codes, column by column", source="ours",
)  # fmt: skip
