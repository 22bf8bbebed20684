"""Models that tell released records from original ones, and their propensity scores.

See `gpuanon.assessing.utility.propensity.pmse` for the measures of these scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.assessing.columns import require_comparable
from gpuanon.assessing.figures import Counts
from gpuanon.assessing.ks_distance import ks_distance
from gpuanon.assessing.sampling_errors import PIECES, pieces_of
from gpuanon.assessing.utility.propensity.class_tree import class_shares
from gpuanon.errors import ParameterError
from gpuanon.numerics.sampling import sample_rows

Model = Literal["logit", "cart"]

LOGIT_ROWS, CART_ROWS = 100_000, 20_000
"""Rows of each table that a model is fitted to at most; beyond, a repeatable random sample."""

HALVED = 4
"""How often a sample is cut in halves for refits."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Propensity scores, the original's rows first.

    scores   : (N,) predicted probability that a record is a released one
    released : (N,) 1 for released records
    df       : free parameters of the model beside the intercept; None for a tree
    note     : whether a sample was taken, or None
    refits   : scores of the model fitted to pieces of the sample, by cut; none where all rows were used
    """

    scores: Host
    released: Host
    df: int | None
    note: str | None
    refits: tuple[tuple[Scores, ...], ...] = ()

    def over_refits(self, figure: Literal["pmse", "ks", "wilcoxon"]) -> list[list[float]]:
        """This figure of the refits, by cut."""
        return [[getattr(refit, figure) for refit in cut] for cut in self.refits]

    @property
    def overlap(self) -> Counts:
        """How the scores of original and released records are spread."""
        sides = {"original": self.scores[self.released == 0], "release": self.scores[self.released > 0]}
        return Counts.over("propensity score", sides)

    @property
    def pmse(self) -> float:
        """Mean squared difference of the scores from the share of released records."""
        return float(((self.scores - self.released.mean()) ** 2).mean())

    @cached_property
    def ranked(self) -> Host:
        """(N,) the scores, rounded: records that a model cannot tell apart tie, whatever rounding leaves."""
        return np.round(self.scores, 9)

    @property
    def ks(self) -> float:
        """Kolmogorov–Smirnov distance between the scores of original and released records."""
        released = self.released > 0
        return ks_distance(self.ranked[~released], self.ranked[released])

    @cached_property
    def rank_sum(self) -> float:
        """Mann and Whitney's U of the original's scores."""
        from scipy.stats import rankdata

        own = self.released == 0
        n = int(own.sum())
        return float(rankdata(self.ranked)[own].sum()) - n * (n + 1) / 2

    @property
    def wilcoxon(self) -> float:
        """|2 U / (n m) − 1|."""
        m = int((self.released > 0).sum())
        return abs(2 * self.rank_sum / ((len(self.released) - m) * m) - 1)


def propensity(
    original: Array,
    release: Array,
    model: Model,
    categorical: Sequence[bool] | None = None,
    *,
    sampled: bool = False,
    halved: bool = True,
) -> Scores:
    """Fit the model that tells released records from original ones, and score every record.

    original, release : (n, d) and (m, d) numbers, codes in categorical columns; NaN where a value is missing
    categorical       : one flag per column; None for no categorical column
    sampled           : the tables are samples themselves: the model is refitted to pieces whatever their size
    halved            : the refits are on halves, cut several times; else on eighths, see `sampling_errors`
    """
    return fitted(original, release, model, categorical, sampled=sampled).scores(halved=halved)


def fitted(
    original: Array,
    release: Array,
    model: Model,
    categorical: Sequence[bool] | None = None,
    *,
    sampled: bool = False,
) -> Fitted:
    """The model of `propensity` before any refit: measures of the same scores share it."""
    rows = LOGIT_ROWS if model == "logit" else CART_ROWS
    both = stacked(to_host(original), to_host(release), categorical, rows, sampled=sampled)
    fit = _fit_cart if model == "cart" else _fit_logit
    return Fitted(both, fit, fit(both))


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, how it is fitted to records, and the records that it was fitted to."""

    both: Stacked
    fit: Callable[[Stacked], Scores]
    whole: Scores

    def scores(self, *, halved: bool) -> Scores:
        """Its scores, with those of refits to pieces where the records are a sample; `halved`: see `propensity`."""
        cuts = self.both.cuts(2, HALVED) if halved else self.both.cuts()
        return replace(self.whole, refits=tuple(tuple(self.fit(piece) for piece in cut) for cut in cuts))


def _fit_cart(both: Stacked) -> Scores:
    return Scores(class_shares(both.X, both.released, both.categorical), both.released, None, both.note)


def _fit_logit(both: Stacked) -> Scores:
    scores, df = logit(dummies(both.X, both.categorical), both.released)
    return Scores(scores, both.released, df, both.note)


@dataclass(frozen=True, eq=False)
class Stacked:
    """Original and release in one matrix without gaps, the original's rows first.

    X           : (N, d) where the tables are
    categorical : one flag per column
    released    : (N,) 1 for released records, on the host
    note        : whether a sample was taken, or None
    sampled     : whether these rows are a sample
    """

    X: Array
    categorical: tuple[bool, ...]
    released: Host
    note: str | None
    sampled: bool

    def take(self, rows: Host) -> Stacked:
        """These rows."""
        return replace(self, X=self.X[like(rows, self.X)], released=self.released[rows], sampled=False)

    def cuts(self, pieces: int = PIECES, count: int = 1) -> list[list[Stacked]]:
        """Disjoint pieces of the sample, with their share of both tables, `count` times; none if this is no sample."""
        if not self.sampled:
            return []
        before = int((self.released == 0).sum())
        after = len(self.released) - before
        return [
            [
                self.take(np.concatenate([own, before + other]))
                for own, other in zip(pieces_of(before, pieces, cut), pieces_of(after, pieces, cut), strict=True)
            ]
            for cut in range(count)
        ]


def stacked(
    original: Array, release: Array, categorical: Sequence[bool] | None, rows: int, *, sampled: bool = False
) -> Stacked:
    """Both tables in one, without gaps; of more than `rows` rows a sample.

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
    return Stacked(xp.stack(columns, axis=1), tuple(out_flags), released, note, sampled or taken)


def dummies(X: Host, categorical: tuple[bool, ...]) -> Host:
    """Intercept, standardised numbers, and an indicator of each category but the first."""
    columns = [np.ones(len(X))]
    for j, flag in enumerate(categorical):
        if flag:
            columns.extend((X[:, j] == level).astype(float) for level in np.unique(X[:, j])[1:])
        else:
            spread = X[:, j].std()
            columns.append((X[:, j] - X[:, j].mean()) / (spread if spread > 0 else 1.0))
    return np.column_stack(columns)


def logit(X: Host, y: Host) -> tuple[Host, int]:
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
        step, _, found, _ = np.linalg.lstsq((X * weight[:, None]).T @ X, X.T @ (y - p), rcond=1e-12)
        rank = rank or int(found)  # of the design: later a level that one table lacks has no weight left
        beta = beta + step
        if np.abs(X @ step).max() < 1e-10:
            break
    return expit(X @ beta), rank - 1
