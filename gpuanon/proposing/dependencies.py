"""What columns tell of each other and of people before anything is masked.

A column that stays as it is gives back a masked one that it determines, or nearly (education and its number, income and
its decile, year and survey wave).  Columns that stay single people out, one, two and three at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.numerics.alone import alone_on_few
from gpuanon.proposing.choices import Choice
from gpuanon.tables.codes import level_codes
from gpuanon.tables.table import Table

PAIR_ROWS = 20_000
NEARLY = 0.98
"""Share of the rows whose value follows from another column, from which on that column determines it nearly."""
_SCREENED = 1_000  # rows on which pairs are ruled out
_ROWS_PER_VALUE = 20
PAIRED = 200  # columns that are looked at in pairs, at most: the first
_COMMON = 0.95  # share of the most frequent value, from which on there is nothing to be determined
ALONE_ROWS = 50_000


@dataclass(frozen=True)
class KeptColumns:
    """Columns that stay as they are, and the share of the people who are alone on at most 1, 2, 3 of them."""

    columns: tuple[str, ...]
    shares: tuple[float, ...]
    unit: str = "records"

    def __str__(self) -> str:
        if not self.columns:
            return "No column stays as it is: every column that is released is masked."
        listed = ", ".join(self.columns[:6]) + (f" and {len(self.columns) - 6} more" if len(self.columns) > 6 else "")
        steps = ", ".join(f"{share:.1%} on {size}" for size, share in enumerate(self.shares, 1))
        return f"Left as they are: {listed}.  Of the {self.unit}, alone on at most so many of them: {steps}."


def unmasked(table: Table, chosen: Sequence[Choice], masked: Sequence[str]) -> KeptColumns:
    """How many people the columns that no mask changes single out; of a large table, on a random sample of it."""
    kept = [one.name for one in chosen if one.released and one.name not in masked and one.profile.distinct > 1]
    person = next((one.name for one in chosen if one.role == "person"), None)
    if not kept or table.n_rows == 0:
        return KeptColumns((), ())
    names = [*kept, *([person] if person is not None else [])]
    rows = table.select(names)
    if table.n_rows > ALONE_ROWS:
        rows = rows.take(np.sort(np.random.default_rng(0).choice(table.n_rows, ALONE_ROWS, replace=False)))
    (codes,) = level_codes([rows], names)
    found = alone_on_few(codes[:, : len(kept)], None if person is None else codes[:, -1])
    return KeptColumns(tuple(kept), found.shares, "records" if person is None else "persons")


def determinations(table: Table, chosen: Sequence[Choice]) -> dict[str, tuple[str, ...]]:
    """Columns that another column determines, or nearly, on up to `PAIR_ROWS` rows: name → those that determine it.

    A column of few values determines another one if nearly all rows with a value have the same value there.  In a
    column of many numbers a value occurs too seldom to say so: it determines another one that is nearly constant along
    its order.

    Cost : a pair is ruled out on `_SCREENED` rows, and counted on all rows if it is not.
    """
    rows = min(table.n_rows, PAIR_ROWS)
    usable = [one for one in chosen if one.profile.distinct >= 2 and one.profile.holds != "other"][:PAIRED]
    if rows < 2 * _ROWS_PER_VALUE or len(usable) < 2:
        return {}
    names = [one.name for one in usable]
    picked = np.random.default_rng(1).choice(table.n_rows, rows, replace=False)
    (codes,) = level_codes([table.select(names).take(picked)], names)
    codes = np.stack([np.unique(column, return_inverse=True)[1].reshape(-1) for column in codes.T], axis=1)
    levels = codes.max(axis=0) + 1
    common = np.array([np.bincount(column).max() for column in codes.T]) / rows
    secrets = np.flatnonzero((levels <= rows / _ROWS_PER_VALUE) & (common <= _COMMON))
    found: dict[str, list[str]] = {}
    for one in range(len(names)):
        few = levels[one] <= rows / _ROWS_PER_VALUE
        if not few and usable[one].kind != "numeric":
            continue
        told = _follow if few else _constant_along
        others = [int(at) for at in secrets if at != one and (levels[at] <= levels[one] or not few)]
        first = codes[:_SCREENED]
        others = [at for at in others if told(first[:, one], first[:, at]) >= NEARLY - 0.02]
        for at in others:
            share = told(codes[:, one], codes[:, at])
            if share >= NEARLY and 1 - share <= 0.1 * (1 - common[at]):
                found.setdefault(names[at], []).append(names[one])
    return {name: tuple(by) for name, by in found.items()}


def _follow(one: Host, other: Host) -> float:
    """Share of the rows with the most frequent value of `other` among the rows with their value of `one`."""
    size = int(other.max()) + 1
    pairs, counts = np.unique(one * size + other, return_counts=True)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(pairs // size) != 0]))
    return float(np.maximum.reduceat(counts, starts).sum() / len(one))


def _constant_along(one: Host, other: Host) -> float:
    """Share of the rows, in the order of `one`, that have the value of `other` that the row before has.

    Each value of `other` may begin once.
    """
    along = other[np.lexsort((other, one))]
    changes = int((np.diff(along) != 0).sum()) - int(np.unique(other).size - 1)
    return 1 - max(changes, 0) / max(len(one) - 1, 1)


def dependency_notes(
    determined: Mapping[str, tuple[str, ...]], chosen: Sequence[Choice], masked: Sequence[str]
) -> list[str]:
    """What to do about kept columns that give masked ones back, and about columns that say the same."""
    roles = {one.name: one.role for one in chosen}
    kept = {name for name, role in roles.items() if role in ("other", "weight", "sensitive") and name not in masked}
    notes = [
        f"{by} stays as it is and gives {name} back: mask both alike (role quasi), or drop one"
        for name, several in determined.items()
        for by in several
        if name in masked and by in kept
    ]
    same = [
        f"{name} and {by}"
        for name, several in determined.items()
        for by in several
        if name < by and name in determined.get(by, ()) and {name, by} <= set(masked)
    ]
    if same:
        notes.append(f"say the same, are masked alike, and one would do: {', '.join(same[:6])}")
    return notes
