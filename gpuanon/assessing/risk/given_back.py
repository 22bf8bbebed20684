"""Given back: people whose masked value follows from a column that was released as it is.

A kept column that determines a masked one (education and its number, income and its decile, year and survey wave)
gives it back: whoever knows the code list reads the original value off.  A kept value tells a masked one if all
originals with that kept value have the same masked value, and they are several people: of one person alone nothing
public would tell the pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuanon.assessing.figures import By, Measured

Host = np.ndarray[Any, Any]

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
    return Measured(float(told.mean()) if n else 0.0, parts=(By("pair", worst),) if worst else ())


def _tells(kept: Host, values: Host) -> Host:
    """(n,) whether all people with a row's kept value, several, have one value."""
    codes = np.unique(kept, return_inverse=True)[1].reshape(-1)
    some = np.empty(int(codes.max()) + 1, dtype=np.int64)
    some[codes] = values
    mixed = np.zeros(len(some), dtype=bool)
    mixed[codes[some[codes] != values]] = True
    return ~mixed[codes] & (np.bincount(codes)[codes] >= PEOPLE)
