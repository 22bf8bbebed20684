"""The reference standard: is the release any riskier to its subjects than a sample they are not in?

A second, non-overlapping sample A* of the same population poses the risk that everybody bears, whether or not they
took part.  A release is adequate when none of the three prediction measures is smaller under it than under A* (3.1
of [1]).  The thesis tests that with one-sided Kolmogorov–Smirnov tests on random subsamples of 1296 points (distance)
and 324 points (ambiguity, uncertainty), sized to see a shift of 5 % and 10 % of the records.  One such subsample is
a lottery, so the one-sided distance D⁺ of **all** records is computed and given the p-value that the thesis's samples
would have had at that distance:

    p = exp(−2 n_e D⁺²),   n_e = 1296 · 1296 / (1296 + 1296) = 648, and 162

Pass at p > 0.05, that is D⁺ ≤ 0.0481 and 0.0962.  High p is good.

Independent samples of few records fail by that alone (60 in 100 of 200 normal records).  So for fewer than `LARGE`
records the larger of two p-values counts: this one, and that of a permutation test of whether the release is an
independent sample of its own size: release and reference are pooled and divided at random, and the largest distance of
the three measures, each over its limit, is compared with that of the divisions (Westfall and Young).  A release that
passes only for that reason has the verdict 'too few records': nothing speaks against it, and the standard cannot be
said to be met.  That is ours.

A few per cent of records that are released word for word stay below these distances, and are the worst of all.  So
exact copies are held to the reference by themselves: D⁺ is then the share of originals with a copy in the release less
the share with one in the reference, less 1.645 standard errors, and n_e = 15 000 sees a shift of 1 %.  That is ours.

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, sections 3.1 and 5.2.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.assessing.figures import Beside, By, Counts, Figure, Measured
from gpuanon.assessing.ks_distance import ks_excess
from gpuanon.assessing.measure import NULL_IS_MARKED, RISK_OF_RECORDS, SHARE, Applies, Measure
from gpuanon.assessing.risk.prediction import EXACT_ROWS, Prediction, predict, standardised
from gpuanon.errors import ParameterError
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

EFFECTIVE = {"distance": 648, "ambiguity": 162, "uncertainty": 162}
"""n m / (n + m) of the thesis's subsamples, by measure."""

COPIES = "copies"
EFFECTIVE_COPIES = 15_000

LEVEL = 0.05

LARGE = 2000
"""Records from which independent samples are nearer to each other than the standard asks for."""

_SPLITS = 50


@dataclass(frozen=True)
class StandardVerdict:
    """One-sided distances of the three measures under the release from those under the reference, and their p.

    excess : D⁺ = sup_v F_release(v) − F_reference(v), by measure: the share of records that moved towards risk
    p      : the larger of exp(−2 n_e D⁺²) and the p-value of an independent sample, by measure
    """

    excess: dict[str, float]
    p: dict[str, float]

    @property
    def passes(self) -> bool:
        """Whether every measure is adequate."""
        return all(p > LEVEL for p in self.p.values())

    @property
    def failed(self) -> list[str]:
        """The measures that are not adequate."""
        return [name for name, p in self.p.items() if p <= LEVEL]

    @property
    def too_few(self) -> list[str]:
        """The measures that pass, and would not in a table of enough records."""
        return [name for name, p in self.p.items() if p > LEVEL >= p_value(name, self.excess[name])]

    def __str__(self) -> str:
        if self.passes and self.too_few:
            return f"too few records to tell whether it meets the standard on {', '.join(self.too_few)}"
        if self.passes:
            return "passes: predicts its subjects no better than a sample they are not in"
        return f"fails on {', '.join(self.failed)}: predicts its subjects better than a sample they are not in"


def verdict(release: Prediction, reference: Prediction, null: Host | None = None) -> StandardVerdict:
    """Hold the three distributions under a release to those under a reference sample of the same size.

    null : `null_distances` of independent samples of this size; None: they are large
    """
    excess = {name: ks_excess(getattr(release, name), getattr(reference, name)) for name in EFFECTIVE}
    excess[COPIES] = copy_excess(release, reference)
    return StandardVerdict(excess, {name: p_value(name, excess[name], null) for name in excess})


def copy_excess(release: Prediction, reference: Prediction) -> float:
    """Share of originals with an exact copy in the release, less that in the reference and 1.645 standard errors."""
    mine, theirs = release.distance == 0, reference.distance == 0
    n, gained, lost = len(mine), int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
    share = (gained - lost) / n
    error = math.sqrt(max(gained + lost - (gained - lost) ** 2 / n, 0.0)) / n
    return max(0.0, share - 1.645 * error)


def p_value(name: str, excess: float, null: Host | None = None) -> float:
    """The p that the thesis's subsamples would have at this one-sided distance, or that of an independent sample."""
    p = math.exp(-2 * EFFECTIVE.get(name, EFFECTIVE_COPIES) * excess**2)
    if null is None or name not in EFFECTIVE:
        return p
    return max(p, (1 + int((null >= excess / limit_of(name)).sum())) / (1 + len(null)))


def limit_of(name: str) -> float:
    """The largest one-sided distance that passes by the thesis's subsamples: p = 0.05."""
    return math.sqrt(-math.log(LEVEL) / (2 * EFFECTIVE[name]))


def distances_of_halves(original: Array, records: Array, rows: Array, k: int, splits: int) -> dict[str, Host]:
    """(2 splits,) one-sided distances between random halves of `records`, both ways, by measure."""
    half = len(records) // 2
    found: dict[str, list[float]] = {name: [] for name in EFFECTIVE}
    for split in range(splits):
        chosen = np.zeros(len(records), dtype=bool)
        chosen[sample_rows(len(records), half, f"halves {split}")] = True
        halves = [like(np.flatnonzero(side)[:half], records) for side in (chosen, ~chosen)]
        a, b = (predict(original, records[side], k, rows=rows, limit=max(len(rows), half)) for side in halves)
        for name, own in found.items():
            x, y = getattr(a, name), getattr(b, name)
            own += [ks_excess(x, y), ks_excess(y, x)]
    return {name: np.asarray(own) for name, own in found.items()}


def null_distances(original: Array, release: Array, reference: Array, rows: Array, k: int) -> Host | None:
    """(100,) largest distance of the measures, each over its limit, between random halves of both tables together.

    None for `LARGE` tables, whose independent samples are within the limits.
    """
    if len(reference) >= LARGE:
        return None
    pool = namespace(reference).concatenate([release, reference])
    found = distances_of_halves(original, pool, rows, k, _SPLITS)
    return np.asarray(np.max([own / limit_of(name) for name, own in found.items()], axis=0))


def reference_standard(
    original: Array,
    release: Array,
    reference: Array,
    *,
    link: Array | None = None,
    k: int = 5,
    standardise: bool = True,
    limit: int = EXACT_ROWS,
) -> Measured:
    """Whether the release predicts its subjects no better than an independent sample does; the value is the smallest p.

    Parameters
    ----------
    original, release, reference : encoded matrices with the same columns; original and reference share no record
    link  : (m,) original row of each released row, −1 for added rows; used when the reference is smaller than the
            release, so that the originals looked at are those of the released records looked at
    k     : candidates that ambiguity and uncertainty look at
    standardise : scale the columns by the original's mean and standard deviation first
    limit : tables of up to this many rows are compared in full; beyond, a repeatable random sample of
            ``limit² / 2 r`` originals is, each with all r records of either table
    """
    if len(reference) < k:
        raise ParameterError(f"reference: at least k = {k} records are needed, got {len(reference)}")
    if standardise:
        original, release, reference = standardised(original, release, reference)
    rows, release, reference, note = _same_size(len(original), release, reference, link)
    rows, of = _looked_at(original, rows, len(reference), limit)
    enough = max(len(rows), len(release))  # for `predict`: the sample is taken already
    under_release = replace(predict(original, release, k, rows=rows, limit=enough), originals=of)
    under_reference = predict(original, reference, k, rows=rows, limit=enough)
    result = verdict(under_release, under_reference, null_distances(original, release, reference, rows, k))
    details: dict[str, Figure] = {"passes": result.passes, "verdict": str(result), "k": k}
    details["too_few_records"] = bool(result.too_few)
    details["records"] = len(under_release.rows)
    for name in result.p:
        details[name] = {"excess": result.excess[name], "p": result.p[name], "passes": result.p[name] > LEVEL}
    notes = [] if note is None else [note]
    if under_release.share_error:
        details["share_error"] = under_release.share_error
        notes.append(
            f"a random sample of {len(under_release.rows)} of {under_release.originals} original records was looked "
            f"at: each distance is right to ±{2 * under_release.share_error:.4f} (95 %)"
        )
    part = By("measure", dict(result.p), "smallest")
    sides = {"release": to_host(under_release.distance), "reference": to_host(under_reference.distance)}
    curves = Counts.over("distance to the nearest record", sides, cumulative=True)
    beside = Beside("level", "passes above", LEVEL)
    return Measured(min(result.p.values()), details, "; ".join(notes) or None, parts=(part, curves), beside=(beside,))


def _looked_at(original: Array, rows: Array | None, records: int, limit: int) -> tuple[Array, int]:
    """The original rows that are looked at, of those of interest, and how many these are."""
    rows = namespace(original).arange(len(original), dtype=np.int64) if rows is None else rows
    n = len(rows)
    if max(n, records) > limit:
        rows = rows[like(sample_rows(n, max(1, limit**2 // (2 * records)), "prediction"), original)]
    return rows, n


def _same_size(
    n: int, release: Array, reference: Array, link: Array | None
) -> tuple[Array | None, Array, Array, str | None]:
    """Make release and reference equally large: among more records the nearest one is nearer by chance.

    Returns the original rows to look at (None: no restriction), both tables, and what must be said.
    """
    m, r = len(release), len(reference)
    if m == r:
        return None, release, reference, None
    if r > m:
        note = f"{m} of {r} reference records were drawn, as many as were released"
        return None, release, reference[like(sample_rows(r, m, "reference"), reference)], note
    chosen = like(sample_rows(m, r, "reference"), release)
    note = f"{r} of {m} released records were drawn, as many as the reference has"
    if link is None:
        note += "; without the link all originals were looked at, most of whose records were not drawn"
        return None, release[chosen], reference, note
    known = like(link, release)[chosen]
    rows = namespace(release).unique(known[(known >= 0) & (known < n)])
    return rows, release[chosen], reference, f"{note}, and their originals looked at"


def _reference_standard(c: Comparison) -> Measured:
    before, after = c.standardised
    others = c.standardised_reference
    return reference_standard(before, after, others, link=c.link_or_none, standardise=False)


REFERENCE_STANDARD = Measure(
    name="reference_standard", label="does it tell no more of its people than a sample of others?",
    sentence="The release passes if it predicts the people in it no better than a sample of other people does; small"
    " figures say that it predicts them better.",
    summary="p: does it predict its subjects no better than a sample does?",
    family="risk", better="higher", range=SHARE, usual="passes above 0.05",
    unit="table", applies=Applies(others="reference", roles=("quasi",)), function=reference_standard,
    compute=_reference_standard, arrays="points", weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED, scaling="queries",
    source="Lasko 2007", long=0.8,
)  # fmt: skip
