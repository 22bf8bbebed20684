"""Singled out: people who are alone on at most three columns of what is released, all columns counted.

An intruder who knows three facts about somebody finds the person if nobody else in the file has the three together.
Which columns others may know is not asked: what stands in the file, masked or not, counts.  Of rows that are all new
nobody is alone by right; there it is counted how many originals could be found so: people who are alone in the
original on at most three columns, and of whose values exactly one released row has all.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Host
from gpuanon.arrays.threads import each
from gpuanon.assessing.figures import Beside, Figure, Measured
from gpuanon.assessing.measure import NULL_IS_A_VALUE, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.numerics.alone import EXACT_WORK, MOST_COLUMNS, Alone, alone_on_few
from gpuanon.tables.codes import level_codes

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

LIMIT = 0.05
"""Share of the people from which on a release is not called safe, where a recipe says nothing else."""
SPLITS = 2
"""Random divisions of the original in halves, of which chance is the mean."""


def singled_out(
    codes: Host,
    persons: Host | None = None,
    *,
    names: Sequence[str],
    columns: int = MOST_COLUMNS,
    counted: Host | None = None,
) -> Measured:
    """Share of the persons who are alone on at most so many released columns.

    codes   : (n, d) whole numbers, equal for equal values of a released column
    persons : (n,) whole numbers, equal for the rows of a person; None: each row is a person
    counted : (n,) whether a row is a person's: an added row is not
    """
    return figure_of(alone_on_few(codes, persons, columns, counted=counted), names)


def figure_of(found: Alone, names: Sequence[str]) -> Measured:
    """The share, with the sets of columns that single out most by themselves."""
    details: dict[str, Figure] = {
        "people": found.people,
        "by_columns": {str(size): share for size, share in enumerate(found.shares, 1)},
        "worst_sets": {", ".join(names[at] for at in some): share for some, share in found.leading},
    }
    note = None
    if found.sampled:
        details["sampling_error"] = max(found.errors)
        note = f"the largest sets by {found.sampled} random rows, each compared with all rows"
    return Measured(found.share, details, note=note)


def found_by_few(original: Host, release: Host, *, columns: int = MOST_COLUMNS) -> Measured:
    """Share of the originals who could be found in rows that are all new, beyond chance.

    An original is found if a set of at most so many columns holds values that nobody else in the original has and
    that exactly one released row has.  Chance is the share of one random half of the original in the other half;
    `excess` is what half of the release finds beyond that, doubled: the other half holds as many copies.
    """
    tables = np.concatenate([original, release])
    codes = np.stack([np.unique(column, return_inverse=True)[1].reshape(-1) for column in tables.T], axis=1)
    n = len(original)
    before, after = codes[:n], codes[n:]
    rng = np.random.default_rng(n)
    sets = _sets(codes.shape[1], columns, len(tables), rng)
    looked = judged = chance = 0
    for _ in range(SPLITS):
        first = np.zeros(n, dtype=bool)
        first[rng.permutation(n)[: n // 2]] = True
        for side in (first, ~first):
            some = after[rng.permutation(len(after))[: int((~side).sum())]]
            looked += int(side.sum())
            judged += int(_found(before[side], some, sets).sum())
            chance += int(_found(before[side], before[~side], sets).sum())
    share, by_chance = judged / max(looked, 1), chance / max(looked, 1)
    details: dict[str, float] = {
        "excess": 2 * (share - by_chance),
        "error": 2 * float(np.sqrt(2 * max(share * (1 - share), by_chance * (1 - by_chance)) / max(n, 1))),
        "sets": len(sets),
    }
    details["found"] = float(_found(before, after, sets).mean()) if n else 0.0
    return Measured(
        float(np.clip(details["excess"], 0.0, 1.0)),
        details,
        "every released row is new: originals that could be found beyond what a second sample would find",
        beside=(Beside("chance", "of a second sample", by_chance),),
    )


def _sets(d: int, most: int, rows: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """All sets of at most so many columns; of too many a random choice of the largest."""
    found = [some for size in range(1, min(most, d) + 1) for some in combinations(range(d), size) if size < most]
    room = max(EXACT_WORK // (16 * max(rows, 1)) - len(found), d)
    if comb(d, most) <= room:
        return found + list(combinations(range(d), most))
    chosen = {tuple(sorted(rng.choice(d, most, replace=False).tolist())) for _ in range(room)}
    return found + sorted(chosen)


def _found(before: Host, after: Host, sets: Sequence[tuple[int, ...]]) -> Host:
    """(n,) whether an original is found by one of the sets."""
    levels = np.concatenate([before, after]).max(axis=0, initial=-1) + 1

    def on(columns: tuple[int, ...]) -> Host:
        one, other, size = before[:, columns[0]], after[:, columns[0]], int(levels[columns[0]])
        for at in columns[1:]:
            one, other, size = (
                one * levels[at] + before[:, at],
                other * levels[at] + after[:, at],
                size * int(levels[at]),
            )
            if size > 4 * (len(one) + len(other)):
                both = np.unique(np.concatenate([one, other]), return_inverse=True)[1].reshape(-1)
                one, other, size = both[: len(one)], both[len(one) :], int(both.max(initial=-1)) + 1
        alone = np.bincount(one, minlength=size)[one] == 1
        return np.flatnonzero(alone & (np.bincount(other, minlength=size)[one] == 1))

    found = np.zeros(len(before), dtype=bool)
    for rows in each(on, list(sets)):
        found[rows] = True
    return found


def _singled_out(c: Comparison, columns: int = MOST_COLUMNS) -> Measured:
    """On all released columns; the number of a person's records is one, where pseudonyms show it."""
    if c.all_new:
        names = [name for name in c.shown if name in c.original.names]
        return found_by_few(*level_codes([c.original, c.points], names), columns=columns)
    codes = c.released_codes()
    names, who = list(c.shown), c.released_persons
    if who is not None and len(c.shown) < len(c.release.names):
        numbers = np.unique(who, return_inverse=True)[1].reshape(-1)
        codes = np.concatenate([codes, np.bincount(numbers)[numbers][:, None]], axis=1)
        names.append("number of records")
    counted = None if c.known_link is None else c.known_link >= 0
    return singled_out(codes, who, names=names, columns=columns, counted=counted)


SINGLED_OUT = Measure(
    name="singled_out", label="people alone on three columns",
    sentence="This share of the people is the only one in the release with some three of its values, or fewer, all"
    " released columns counted.",
    summary="share of persons alone on at most three released columns; of new rows, originals found so beyond chance",
    family="risk", range=SHARE, usual="below 0.05; 0 where every released row has look-alikes",
    unit="person", function=singled_out, compute=_singled_out, options={"columns": Annotated[int, Field(ge=1, le=3)]},
    arrays=None, weights=RISK_OF_RECORDS, nulls=NULL_IS_A_VALUE, scaling="whole", long=1,
    host="counts of many small sets of columns: each row is looked up by codes, as a hash would", source="ours",
)  # fmt: skip
