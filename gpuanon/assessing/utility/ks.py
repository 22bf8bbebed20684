"""Kolmogorov–Smirnov distance of each column's distribution from the original's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, to_host
from gpuanon.arrays.rng import Key
from gpuanon.arrays.threads import each
from gpuanon.assessing.columns import Names, column_names, fold
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.ks_distance import distances_from, ks_critical, ks_distances, sorted_columns
from gpuanon.assessing.measure import NULL_IS_MARKED, PERMUTATIONS, SHARE, USED, Measure
from gpuanon.assessing.utility.information_loss import paired
from gpuanon.assessing.weighting import effective_size
from gpuanon.errors import ParameterError
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


DEPENDENT = (
    "original and release are dependent samples: these are distances, not tests; the critical value is what two "
    "independent samples of these sizes would exceed in 5 % of cases"
)
PAIRS = 20_000
"""Pairs of a record and its release that are exchanged at most; beyond, a repeatable random sample."""

_PUBLIC = Key(b"the exchanges of a measure are no secret")


def ks(
    original: Array,
    release: Array,
    *,
    reference: Array | None = None,
    link: Array | None = None,
    permutations: int = 0,
    names: Names = None,
    weights: tuple[Array, Array] | None = None,
) -> Measured:
    """Largest Kolmogorov–Smirnov distance between a released column and the original's; by column over its features.

    Parameters
    ----------
    original, release : (n, d) and (m, d)
    reference : an independent sample of the same population; its distances are reported beside
    permutations : how often to exchange, in a random half of the pairs, a record and its release: the share of
        exchanges whose largest distance reaches the observed one is a valid p-value for dependent samples, of the
        hypothesis that a record and its release are interchangeable
    link : (m,) original row of each released row, for `permutations`; None for tables in the same order
    weights : (n,) and (m,) people that each row stands for; exchanges and the reference count records all the same
    """
    ordered = sorted_columns(original) if weights is None or reference is not None else []
    columns = distances_from(ordered, release) if weights is None else ks_distances(original, release, weights)
    details: dict[str, Figure] = {
        "median": float(np.median(columns)),
        "mean": float(columns.mean()),
    }
    labels = column_names(names, original.shape[1])
    sizes = (len(original), len(release)) if weights is None else tuple(effective_size(own) for own in weights)
    critical = ks_critical(*sizes)
    beside = [Beside("critical_if_independent", "5 % of fresh samples exceed", critical)]
    if reference is not None:
        expected = distances_from(ordered, reference)
        beside.append(Beside("reference", "the reference sample has", float(expected.max())))
        details["reference_by_column"] = dict(fold(expected, labels))
    note = DEPENDENT
    if permutations:
        before, after, _ = paired(original, release, link)
        rows = sample_rows(len(before), PAIRS, "pairs")
        chosen = like(rows, before)
        shares = exchanged_shares(to_host(before[chosen]), to_host(after[chosen]), permutations)
        details["exchanged_share"], details["exchanged_tied_share"] = shares
        note += f"; exchanged_share is valid for dependent samples ({len(rows)} pairs)"
    part = By("column", fold(columns, labels))
    return Measured(float(columns.max()), details, note, parts=(part,), beside=tuple(beside))


def exchanged_shares(before: Host, after: Host, rounds: int) -> tuple[float, float]:
    """Shares of exchanges within pairs whose largest distance over columns reaches, and equals, the observed one.

    The observed pairing counts as one of the exchanges, so that the first share is a valid p-value.  Distances of n
    pairs are multiples of 1 / n and tie: all ties count against rejection, so that the test is conservative.  A mid-p
    (half of the ties) is not valid, and a random share of them has the exact level but depends on a lot.
    """
    if rounds < 1:
        raise ParameterError(f"permutations: 1 or more are allowed, got {rounds}")
    n = len(before)
    draws = _PUBLIC.draws(np.arange(n))
    # Numbers of one byte, whose products and sums take a fraction of the time.
    signs = [np.where(draws.child(str(r)).uniform()[:, 0] < 0.5, -1, 1).astype(np.int8) for r in range(rounds)]

    def largest(j: int) -> Host:
        both = np.concatenate([before[:, j], after[:, j]])
        order = np.argsort(both, kind="stable")
        last = np.append(both[order][1:] != both[order][:-1], True)  # distribution functions step at distinct values
        pair, step = order % n, np.where(order < n, 1, -1).astype(np.int8)
        at = slice(None) if last.all() else last
        # n · (F − G) at every distinct value, for the observed pairing and for each exchange.
        both_ways = (np.cumsum(step * sign[pair], dtype=np.int32)[at] for sign in (np.ones(n, np.int8), *signs))
        return np.array([max(int(apart.max()), -int(apart.min())) for apart in both_ways])

    distances = np.max(each(largest, range(before.shape[1])), axis=0)
    return float((distances >= distances[0]).mean()), float((distances == distances[0]).mean())


def _ks(c: Comparison, permutations: int | None = None) -> Measured:
    """Of every column; the null where the link is known, the reference's distances where there is one."""
    link = c.link_of_pairs
    rounds = (0 if link is None else EXCHANGES) if permutations is None else permutations
    if rounds and link is None:
        raise MissingEvidence("permutations need the private link (--link), and released rows that have an original")
    before, after = c.encoded
    return ks(
        before,
        after,
        reference=c.encoded_reference,
        link=link,
        permutations=rounds,
        names=c.features,
        weights=c.weights,
    )


EXCHANGES = 99

KS = Measure(
    name="ks", label="largest difference of a distribution",
    sentence="In the column that changed most, the share of people up to some value differs by this much between"
    " original and release.",
    summary="largest Kolmogorov–Smirnov distance of a column",
    family="utility", range=SHARE,
    usual="below what 5 % of fresh samples exceed",
    unit="column", function=ks, compute=_ks, options=PERMUTATIONS,
    arrays="encoded", weights=USED, nulls=NULL_IS_MARKED, scaling="sample",
    source="Kulik, lecture on utility and information loss", sees="columns", long=0.5,
)  # fmt: skip
