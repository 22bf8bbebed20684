"""Copies: unique people of the original who stand whole in the release, and how many a second sample would show.

A person who is unique on all columns of the original and whose row is in the release, equal in every column, is
reproduced.  The share is over the unique people, as NIST's *unique exact matches* [1]_ count it: over released rows, a
release of many rows would look better than it is.  A second sample of the population reproduces some of them too, by
chance: what goes beyond that was copied.

References
----------
.. [1] G. S. Howarth, C. Task, D. Streat, K. Bhagat (2023), SDNist: deidentified data report tool, NIST.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.assessing.figures import Beside, Measured
from gpuanon.numerics.equal_rows import equal_rows

Host = np.ndarray[Any, Any]

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
    persons : (n,) whole numbers, equal for the records of a person: a person is unique who has a unique record, and
        reproduced if one of these is; None: each record is a person

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
    details = {
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
    alone = np.bincount(labels, minlength=levels)[labels] == 1
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
