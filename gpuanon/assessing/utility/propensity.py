"""Propensity scores: can a model tell released records from original ones?

Both tables are stacked, a model predicts which a record comes from, and its predictions (the propensity scores) are
looked at.  If they stay close to the share c of released records, the release is hard to distinguish: good utility.
The model is a logistic regression on main effects, or a classification tree.

References
----------
.. [1] J. Snoke, G. Raab, B. Nowok, C. Dibben, A. Slavkovic (2018), General and specific utility measures for synthetic
   data, J. R. Stat. Soc. A 181(3): pMSE, its expectation, and its ratio to it.
.. [2] R. Kulik (2025), MAT 4376 Foundations of Data Privacy, lectures 7–9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gpuanon.arrays.backend import Array, like, namespace, to_host
from gpuanon.arrays.rng import Key
from gpuanon.assessing.figures import Beside, Counts, Figure, Measured, join
from gpuanon.assessing.utility.pairs import require_comparable, sampled_pairs
from gpuanon.errors import ParameterError
from gpuanon.numerics.class_tree import class_shares
from gpuanon.numerics.ks import ks_distance
from gpuanon.numerics.sampling import sample_rows

Floats = np.ndarray[Any, Any]
Model = Literal["logit", "cart"]

LOGIT_ROWS, CART_ROWS = 100_000, 20_000
"""Rows of each table that a model is fitted to at most; beyond, a repeatable random sample."""

DEPENDENT = "original and release are dependent samples: this is a distance, not a test"

_PUBLIC = Key(b"the permutations of a measure are no secret")


@dataclass(frozen=True, eq=False)
class Scores:
    """Propensity scores, the original's rows first.

    scores   : (N,) predicted probability that a record is a released one
    released : (N,) 1 for released records
    df       : free parameters of the model beside the intercept; None for a tree
    note     : whether a sample was taken, or None
    """

    scores: Floats
    released: Floats
    df: int | None
    note: str | None

    @property
    def overlap(self) -> Counts:
        """How the scores of original and released records are spread."""
        sides = {"original": self.scores[self.released == 0], "release": self.scores[self.released > 0]}
        return Counts.over("propensity score", sides)

    @property
    def pmse(self) -> float:
        """Mean squared difference of the scores from the share of released records."""
        return float(((self.scores - self.released.mean()) ** 2).mean())


def pmse_logit(
    original: Array,
    release: Array,
    *,
    categorical: Sequence[bool] | None = None,
    permutations: int = 0,
    link: Array | None = None,
) -> Measured:
    """Propensity mean squared error by logistic regression: 0 indistinguishable, c(1 − c) perfectly separable.

    Beside it its expectation when the release is drawn from the distribution of the original at hand,
    ``df · c · (1 − c)² / N``, and the ratio to that ([1], as in synthpop); an independent sample of the population
    would have 1 / (1 − c) times as much.  `permutations` and `link`: see `pmse_cart`.
    """
    found = propensity(original, release, "logit", categorical)
    n, c = len(found.released), float(found.released.mean())
    expected = (found.df or 0) * c * (1 - c) ** 2 / n
    details: dict[str, Figure] = {"df": found.df, "share_released": c}
    if expected > 0:
        details |= {"ratio": found.pmse / expected, "independent_ratio": 1 / (1 - c)}
    if permutations:
        X, flags, labels, valid = null_sample(original, release, categorical, link, LOGIT_ROWS)
        design = _dummies(X, flags)
        details |= _against_permuted(lambda y: _logit(design, y)[0], labels, valid, permutations)
    beside = Beside("expected", "draws from the original would have", expected), separable(c)
    return Measured(found.pmse, details, join(DEPENDENT, found.note), parts=(found.overlap,), beside=beside)


def separable(c: float) -> Beside:
    """The pMSE of tables that are perfectly separable, `c` the share of released records."""
    return Beside("separable", "perfectly separable", c * (1 - c))


def one_way_ratio(before: Array, after: Array) -> float:
    """pMSE of one categorical column over its expectation: 1 on average for draws from the original ([1])."""
    from gpuanon.assessing.utility.cells import tables

    _, counts, released = next(tables(before[:, None], after[:, None], 1))
    total = counts + released
    n, c = total.sum(), released.sum() / total.sum()
    pmse = float((total * (released / total - c) ** 2).sum() / n)
    return pmse / float((len(total) - 1) * c * (1 - c) ** 2 / n) if len(total) > 1 else 0.0


def pmse_cart(
    original: Array,
    release: Array,
    *,
    categorical: Sequence[bool] | None = None,
    permutations: int = 0,
    link: Array | None = None,
) -> Measured:
    """Propensity mean squared error by a classification tree: 0 indistinguishable, c(1 − c) perfectly separable.

    Parameters
    ----------
    permutations : how often to fit the tree with labels permuted, to compare with: the ratio to their mean, and the
        share that reach the value
    link : (m,) original row of each released row, −1 for added rows: labels are then permuted within pairs of a
        record and its release, which is valid for dependent samples
    """
    found = propensity(original, release, "cart", categorical)
    c = float(found.released.mean())
    details: dict[str, Figure] = {"share_released": c}
    if permutations:
        X, flags, labels, valid = null_sample(original, release, categorical, link, CART_ROWS)
        details |= _against_permuted(lambda y: class_shares(X, y, flags), labels, valid, permutations)
    parts = (found.overlap,)
    return Measured(found.pmse, details, join(DEPENDENT, found.note), parts=parts, beside=(separable(c),))


def null_sample(
    original: Array, release: Array, categorical: Sequence[bool] | None, link: Array | None, rows: int
) -> tuple[Floats, tuple[bool, ...], Floats, Array | None]:
    """The stacked matrix, flags and labels that a null is made of, and the link within them.

    With a link and more than `rows` rows, a sample of pairs; else as `stacked`.
    """
    before, after = to_host(original), to_host(release)
    if link is not None and max(len(before), len(after)) > rows:
        before, after, link = sampled_pairs(before, after, to_host(link), rows)
    X, flags, labels, _ = stacked(before, after, categorical, rows)
    return X, flags, labels, link


def _against_permuted(
    fit: Callable[[Floats], Floats], labels: Floats, link: Array | None, rounds: int
) -> dict[str, Figure]:
    """The pMSE of these labels beside those of permuted ones."""
    errors = [
        float(((fit(y) - y.mean()) ** 2).mean())
        for y in (labels, *permuted(labels, int((labels == 0).sum()), link, rounds))
    ]
    return {**against_chance(errors[0], errors[1:]), "exchanged_within_pairs": link is not None}


def against_chance(value: float, null: Sequence[float]) -> dict[str, Figure]:
    """`value` beside those of permuted labels: the ratio to their mean, and the share that reach it."""
    mean = float(np.mean(null))
    return {
        "permuted_mean": mean,
        "ratio": value / mean if mean > 0 else None,
        "permuted_share": (1 + sum(other >= value * (1 - 1e-9) for other in null)) / (1 + len(null)),
    }


def propensity_ks(
    original: Array, release: Array, *, model: Model = "logit", categorical: Sequence[bool] | None = None
) -> Measured:
    """Kolmogorov–Smirnov distance between the propensity scores of original and released records, 0 to 1."""
    found = propensity(original, release, model, categorical)
    released = found.released > 0
    return Measured(
        ks_distance(found.scores[~released], found.scores[released]), {"model": model}, join(DEPENDENT, found.note)
    )


def propensity_wilcoxon(
    original: Array, release: Array, *, model: Model = "logit", categorical: Sequence[bool] | None = None
) -> Measured:
    """Wilcoxon rank-sum of the original's propensity scores, as |2 U / (n m) − 1|: 0 mixed, 1 apart."""
    from scipy.stats import rankdata

    found = propensity(original, release, model, categorical)
    released = found.released > 0
    n, m = int((~released).sum()), int(released.sum())
    u = float(rankdata(found.scores)[~released].sum()) - n * (n + 1) / 2
    return Measured(abs(2 * u / (n * m) - 1), {"U": u, "model": model}, join(DEPENDENT, found.note))


def propensity(original: Array, release: Array, model: Model, categorical: Sequence[bool] | None = None) -> Scores:
    """Fit the model that tells released records from original ones, and score every record.

    original, release : (n, d) and (m, d) numbers, codes in categorical columns; NaN where a value is missing
    categorical       : one flag per column; None for no categorical column
    """
    rows = LOGIT_ROWS if model == "logit" else CART_ROWS
    X, flags, released, note = stacked(to_host(original), to_host(release), categorical, rows)
    if model == "cart":
        return Scores(class_shares(X, released, flags), released, None, note)
    scores, df = _logit(_dummies(X, flags), released)
    return Scores(scores, released, df, note)


def stacked(
    original: Array, release: Array, categorical: Sequence[bool] | None, rows: int
) -> tuple[Array, tuple[bool, ...], Floats, str | None]:
    """Both tables in one, without gaps: the matrix, its flags, which rows are released, and whether a sample was taken.

    A missing number becomes 0 and a further column says that it was missing; a missing category is a category.
    The matrix stays where the tables are; what is known of its rows is on the host.
    """
    require_comparable(original, release)
    flags = (False,) * original.shape[1] if categorical is None else tuple(categorical)
    if len(flags) != original.shape[1]:
        raise ParameterError(f"categorical: one flag per column is needed ({original.shape[1]}), got {len(flags)}")
    xp = namespace(original)
    chosen = [like(sample_rows(len(table), rows, "propensity"), table) for table in (original, release)]
    parts = [table[at].astype(np.float64) for table, at in zip((original, release), chosen, strict=True)]
    X, columns, out_flags = xp.concatenate(parts), [], []
    for j, flag in enumerate(flags):
        missing = xp.isnan(X[:, j])
        if flag:
            columns.append(xp.unique(X[:, j], return_inverse=True)[1].reshape(-1).astype(np.float64))
            out_flags.append(True)
            continue
        columns.append(xp.where(missing, 0.0, X[:, j]))
        out_flags.append(False)
        if bool(missing.any()):
            columns.append(missing.astype(np.float64))
            out_flags.append(True)
    released = np.concatenate([np.zeros(len(parts[0])), np.ones(len(parts[1]))])
    taken = max(len(original), len(release)) > rows
    note = f"fitted to a random sample of {len(parts[0])} original and {len(parts[1])} released rows" if taken else None
    return xp.stack(columns, axis=1), tuple(out_flags), released, note


def _dummies(X: Floats, categorical: tuple[bool, ...]) -> Floats:
    """Intercept, standardised numbers, and an indicator of each category but the first."""
    columns = [np.ones(len(X))]
    for j, flag in enumerate(categorical):
        if flag:
            columns.extend((X[:, j] == level).astype(float) for level in np.unique(X[:, j])[1:])
        else:
            spread = X[:, j].std()
            columns.append((X[:, j] - X[:, j].mean()) / (spread if spread > 0 else 1.0))
    return np.column_stack(columns)


def _logit(X: Floats, y: Floats) -> tuple[Floats, int]:
    """Fitted probabilities of a logistic regression by Newton's method, and its rank without the intercept.

    Where the tables can be separated the coefficients have no limit; the probabilities do, and 30 steps are near it.
    Not scikit-learn's: `LogisticRegression` gives the same probabilities where the design has full rank, in one and a
    half times the time, but warns and changes its solver where columns depend on each other, and does not give the
    rank, which the expectation of the pMSE needs.
    """
    from scipy.special import expit

    beta = np.zeros(X.shape[1])
    rank = 0
    for _ in range(30):
        p = expit(X @ beta)
        weight = np.maximum(p * (1 - p), 1e-10)
        step, _, rank, _ = np.linalg.lstsq((X * weight[:, None]).T @ X, X.T @ (y - p), rcond=1e-12)
        beta = beta + step
        if np.abs(X @ step).max() < 1e-10:
            break
    return expit(X @ beta), int(rank) - 1


def permuted(released: Floats, originals: int, link: Array | None, rounds: int) -> list[Floats]:
    """Labels permuted at random, or exchanged within pairs when the link is known."""
    n = len(released)
    draws = _PUBLIC.draws(np.arange(n))
    if link is None:
        return [released[np.argsort(draws.child(str(r)).uniform()[:, 0], kind="stable")] for r in range(rounds)]
    link = to_host(link)
    if originals + len(link) != n:
        raise ParameterError("link: pairs can be exchanged only where no sample of the rows is taken")
    mates, first = np.unique(np.where(link >= 0, link, -1), return_index=True)
    first = first[mates >= 0]
    labels = []
    for r in range(rounds):
        flip = draws.child(str(r)).uniform()[: len(first), 0] < 0.5
        exchanged = released.copy()
        exchanged[link[first[flip]]] = 1.0
        exchanged[originals + first[flip]] = 0.0
        labels.append(exchanged)
    return labels
