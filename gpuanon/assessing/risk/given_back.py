"""Given back: people whose masked value follows from a column that was released as it is.

A kept column that determines a masked one (education and its number, income and its decile, year and survey wave)
gives it back: whoever knows the code list reads the original value off.  A kept value tells a masked one if all
originals with that kept value have the same masked value, they are several people (of one person alone nothing public
would tell the pair), and chance would hardly make them agree.  It gives the value back to those for whom the release
has another one: what the masked column itself says is not given by the kept one.
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
CHANCE = 0.01
"""Probability from which on people who share a kept value may have one masked value by chance."""
COMMON = 0.95
"""Share of the most frequent value from which on a masked column is no secret."""


def given_back(
    kept: Host,
    masked: Host,
    changed: Host,
    *,
    kept_names: Sequence[str],
    masked_names: Sequence[str],
    persons: Host | None = None,
) -> Measured:
    """Share of the people for whom a kept column tells the original value of a masked one.

    kept, masked : (n, p), (n, q) codes of the original, equal for equal values; a null tells nothing and is no secret
    changed      : (n, q) whether the release has another value for the record
    persons      : (n,) whole numbers, equal for the records of a person; None: each record is a person
    """
    n = len(kept)
    who = np.arange(n) if persons is None else np.unique(persons, return_inverse=True)[1].reshape(-1)
    told = np.zeros(n, dtype=bool)
    pairs: dict[str, float | None] = {}
    people = int(who.max(initial=-1)) + 1
    for at, secret in enumerate(masked_names):
        values = np.unique(masked[:, at], return_inverse=True)[1].reshape(-1)
        if n == 0 or np.bincount(values).max() > COMMON * n:
            continue
        open_ = changed[:, at] & (masked[:, at] >= 0)
        for by, name in enumerate(kept_names):
            rows = _tells(kept[:, by], values, who) & open_ & (kept[:, by] >= 0)
            told |= rows
            if rows.any():
                pairs[f"{name} → {secret}"] = len(np.unique(who[rows])) / people
    worst = dict(sorted(pairs.items(), key=lambda one: -(one[1] or 0.0))[:20])
    counted = {"kept_columns": len(kept_names), "masked_columns": len(masked_names)}
    share = len(np.unique(who[told])) / people if n else 0.0
    return Measured(share, counted, parts=(By("pair", worst),) if worst else ())


def _tells(kept: Host, values: Host, who: Host) -> Host:
    """(n,) whether all people with a row's kept value, several, have one value, and not by chance."""
    codes = np.unique(kept, return_inverse=True)[1].reshape(-1)
    some = np.empty(int(codes.max()) + 1, dtype=np.int64)
    some[codes] = values
    mixed = np.zeros(len(some), dtype=bool)
    mixed[codes[some[codes] != values]] = True
    people = np.bincount(np.unique(codes * (int(who.max()) + 1) + who) // (int(who.max()) + 1))
    by_chance = (np.bincount(values) / len(values))[some] ** people  # of people who have nothing in common
    return np.asarray((~mixed & (people >= PEOPLE) & (by_chance <= CHANCE))[codes])


def _given_back(c: Comparison) -> Measured:
    """Of columns that the release has as they were, and of those whose values it changed."""
    names = [name for name in c.shown if name in c.original.names and not c.is_nested(name)]
    kept = [name for name in names if _unchanged(c, name)]
    masked = [name for name in names if name not in kept]
    (before,) = level_codes([c.original], names)
    at = {name: number for number, name in enumerate(names)}
    changed = np.zeros((len(before), len(masked)), dtype=bool)
    there = c.link >= 0
    for number, name in enumerate(masked):
        changed[c.link[there], number] = _differs(c, name)[there]
    return given_back(
        before[:, [at[name] for name in kept]],
        before[:, [at[name] for name in masked]],
        changed,
        kept_names=kept,
        masked_names=masked,
        persons=c.persons,
    )


def _differs(c: Comparison, name: str) -> Host:
    """(m,) whether a released value differs from that of its original; of another type, all do."""
    if c.original.arrow(name).type != c.points.arrow(name).type:
        return np.ones(c.release.n_rows, dtype=bool)
    before, after = (row_bits(table, [name])[:, 0] for table in (c.original, c.points))
    return np.asarray(before[np.maximum(c.link, 0)] != after)


def _unchanged(c: Comparison, name: str) -> bool:
    """Whether every released value of a column is that of its original."""
    return not bool(_differs(c, name)[c.link >= 0].any())


GIVEN_BACK = Measure(
    name="given_back", label="masked values that a kept column gives back",
    sentence="For this share of the people the original value of a masked column can be read off a column that was"
    " released as it is.",
    summary="share of people for whom a kept column determines the value of a masked one",
    family="risk", range=SHARE, usual="0", unit="person",
    applies=Applies(("kept", "dropped", "added"), link=True), function=given_back, compute=_given_back, arrays=None,
    weights=RISK_OF_RECORDS, nulls="a null tells nothing, and is no secret", scaling="whole",
    host="counts of codes, column by column", source="ours",
)  # fmt: skip
