"""Copies: unique people of the original whose whole record is in the release, and how many chance would show.

A person who is unique on all columns of the original and whose row is in the release, equal in every column, is
reproduced.  The share is over the unique people, as NIST's *unique exact matches* [1]_ count it: over released rows, a
release of many rows would look better than it is.  A second sample of the population reproduces some of them too, by
chance: what goes beyond that was copied.  `exact_copies` counts released records instead, on the compared columns.

References
----------
.. [1] G. S. Howarth, C. Task, D. Streat, K. Bhagat (2023), SDNist: deidentified data report tool, NIST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import HOST, Array, Host, namespace
from gpuanon.assessing.figures import Beside, Figure, Measured
from gpuanon.assessing.measure import NULL_IS_A_VALUE, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.errors import ParameterError
from gpuanon.numerics.alone import single_person
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.codes import level_codes
from gpuanon.tables.row_bits import row_bits

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

MARGIN = 0.01
"""By how much a share may exceed chance, beside its sampling error, before people count as copied."""
SPLITS = 3
"""Random divisions of the original in halves, of which chance is the mean."""


def copies(
    original: Host,
    release: Host,
    reference: Host | None = None,
    persons: Host | None = None,
    *,
    rng: np.random.Generator | None = None,
) -> Measured:
    """Share of the unique people of the original who stand whole in the release.

    original, release, reference : (n, d) codes, equal where values are equal
    persons : (n,) whole numbers, equal for the records of a person: a person is unique who has a record that nobody
        else has, and reproduced if one of these is; None: each record is a person

    Beside it `chance`: the same share for a second sample.  With a reference, of the unique people of the original in
    it.  Without one, of one random half of the original in the other half; whether people were copied is then decided
    on equal terms, by a random half of the release in place of that other half; `excess` is doubled, because the other
    half of the release holds as many copies.
    """
    tables = [original, release, *(() if reference is None else (reference,))]
    labels = np.split(equal_rows(np.concatenate(tables)), np.cumsum([len(table) for table in tables])[:-1])
    who = np.arange(len(original)) if persons is None else np.unique(persons, return_inverse=True)[1].reshape(-1)
    unique, found = reproduced(labels[0], labels[1], who)
    value = found / unique if unique else 0.0
    if reference is None:
        judged, chance, looked = _of_halves(labels[0], labels[1], who, np.random.default_rng(0) if rng is None else rng)
        excess = 2 * (judged - chance)
        sample = "two random halves of the original"
    else:
        judged, chance, looked = value, _share(reproduced(labels[0], labels[2], who)), unique
        excess, sample = judged - chance, "the reference"
    margin = MARGIN + 2 * float(np.sqrt(2 * max(chance * (1 - chance), judged * (1 - judged)) / max(looked, 1)))
    details: dict[str, Figure] = {
        "unique_originals": unique,
        "reproduced": found,
        "chance_from": sample,
        "beyond_chance": bool(excess > margin),
        "excess": excess,
        "margin": margin,
    }
    return Measured(value, details, beside=(Beside("chance", "of a second sample", chance),))


def reproduced(labels: Host, others: Host, who: Host) -> tuple[int, int]:
    """Number of unique people among rows with these labels, and of those whose label is among the others."""
    levels = int(max(labels.max(initial=-1), others.max(initial=-1))) + 1
    alone = single_person(labels, levels, who)
    there = np.zeros(levels, dtype=bool)
    there[others] = True
    return len(np.unique(who[alone])), len(np.unique(who[alone & there[labels]]))


def _of_halves(labels: Host, released: Host, who: Host, rng: np.random.Generator) -> tuple[float, float, int]:
    """Shares of the unique people of one half whom half of the release, and the other half, shows; their number."""
    people = int(who.max(initial=-1)) + 1
    unique = copied = met = 0
    for _ in range(SPLITS):
        first = np.zeros(people, dtype=bool)
        first[rng.permutation(people)[: people // 2]] = True
        for side in (first[who], ~first[who]):
            some = released[rng.permutation(len(released))[: int((~side).sum())]]
            mine, shown = reproduced(labels[side], some, who[side])
            unique, copied = unique + mine, copied + shown
            met += reproduced(labels[side], labels[~side], who[side])[1]
    return _share((unique, copied)), _share((unique, met)), unique


def _share(counted: tuple[int, int]) -> float:
    unique, found = counted
    return found / unique if unique else 0.0


def _copies(c: Comparison) -> Measured:
    """On all columns that original and release have."""
    if c.reference_table is None:
        before, after = c.rows_alike(c.original, c.points)
        return copies(before, after, persons=c.persons)
    before, after, others = c.rows_alike(c.original, c.points, c.reference_table)
    return copies(before, after, others, c.persons)


COPIES = Measure(
    name="copies", label="unique people who stand whole in the release",
    sentence="Of the people who are unique in the original, this share is in the release with every value unchanged;"
    " beside it, the share that a second sample of the population would show by chance.",
    summary="share of the unique originals that stand whole in the release, beside chance",
    family="risk", range=SHARE, usual="no more than a second sample shows by chance",
    unit="person", function=copies, compute=_copies, arrays=None, weights=RISK_OF_RECORDS, nulls=NULL_IS_A_VALUE,
    scaling="whole", host="rows are compared by their bits, which are made on the host", source="Howarth et al. 2023",
)  # fmt: skip


def exact_copies(original: Array, release: Array, reference: Array | None = None) -> Measured:
    """Share of released records that equal, in every column, a record that is unique in the original.

    original, release, reference : (n, d) codes, equal where values are equal.  What an independent sample shares with
        the original by chance stands beside it, where a reference is given
    """
    if min(len(original), len(release)) == 0:
        raise ParameterError("original and release need at least one row each")
    tables = [original, release, *(() if reference is None else (reference,))]
    xp = namespace(original)
    labels = equal_rows(xp.concatenate(tables))
    ends = np.cumsum([len(table) for table in tables]).tolist()
    before, after, *others = xp.split(labels, ends[:-1])
    unique = xp.bincount(before, minlength=int(labels.max()) + 1) == 1
    copied = unique[after]
    details = {
        "copies": int(copied.sum()),
        "originals_copied": len(xp.unique(after[copied])),
        "unique_originals": int(unique[before].sum()),
    }
    beside = tuple(Beside("reference", "of an independent sample", float(unique[rows].mean())) for rows in others)
    return Measured(float(copied.mean()), details, beside=beside)


def _exact_copies(c: Comparison) -> Measured:
    """On all quasi-identifiers and sensitive columns."""
    if c.reference_table is None:
        return exact_copies(*c.codes)
    tables = [c.original, c.points, c.reference_table]
    alike = all(len({table.arrow(name).type for table in tables}) == 1 for name in c.columns)
    # Bits of rows need no sort of any column; values of different types have equal codes only.
    found = [row_bits(table, c.columns).view(np.int64) for table in tables] if alike else level_codes(tables, c.columns)
    return exact_copies(*map((c.backend or HOST).upload, found))


EXACT_COPIES = Measure(
    name="exact_copies", label="unique people released unchanged",
    sentence="This share of the released records repeats, in every compared column, the record of a person who was"
    " unique in the original.",
    summary="share of released records that equal a unique original record",
    family="risk", range=SHARE,
    usual="0; no more than chance repeats",
    unit="record",
    records="it counts equal records; copies counts the people",
    function=exact_copies, compute=_exact_copies, arrays="values",
    weights=RISK_OF_RECORDS, nulls=NULL_IS_A_VALUE, scaling="whole", source="ours",
)  # fmt: skip
