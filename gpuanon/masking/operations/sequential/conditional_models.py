"""Sequential synthesis: column after column, each drawn given those before it.

The joint distribution is a product of conditional ones, p(x₁) p(x₂ | x₁) p(x₃ | x₁, x₂) …, each fitted to the
records and drawn for the new rows.

References
----------
.. [1] B. Nowok, G. M. Raab, C. Dibben (2016), synthpop: bespoke creation of synthetic data in R, J. Stat. Softw.
   74(11).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.masking.operations.random_ranks import mid_scores
from gpuanon.masking.operations.sequential.conditional_trees import Coded, draw_from_tree

_FITTED = 50_000
"""Records on which a multinomial regression is fitted, at most: the first of a random order."""


def draw_from_regression(
    target: Coded, predictors: Sequence[Coded], new: Sequence[Host], u: Host, among: Sequence[Host] | None = None
) -> Host:
    """(m,) codes of the target for new rows, drawn from a main-effects regression on the predictors.

    Ordered columns: normal scores of the ranks are regressed, a normal error is added, and the value at that quantile
    is taken; whether a value is missing is drawn before, from a logistic regression.  Others: a multinomial regression,
    null as a level.  Ordered predictors enter as normal scores with an indicator of nulls, others as indicators.

    u     : (m, 2) uniform numbers
    among : per predictor the codes by whose ranks it is scored; None: those of the records.  Where these are a
            bootstrap sample, ranks in it would be ranks with an error, which draws a regression towards 0
    """
    if not predictors:
        return np.asarray(target.codes[(u[:, 0] * len(target.codes)).astype(np.int64)])
    scored = [column.codes for column in predictors] if among is None else among
    both = [_design(*one) for one in zip(predictors, new, scored, strict=True)]
    X, Y = (np.column_stack([np.ones(len(side[0])), *side]) for side in zip(*both, strict=True))
    if not target.ordered:
        return _draw_level(target.codes, X, Y, u[:, 0])
    null = target.codes < 0
    found = np.full(len(Y), -1)
    missing = _draw_level(null.astype(np.int64), X, Y, u[:, 1]) == 1 if null.any() else np.zeros(len(Y), dtype=bool)
    if null.all():
        return found
    codes = target.codes[~null]
    found[~missing] = _draw_rank(codes, X[~null], Y[~missing], u[~missing, 0])
    return found


def _design(column: Coded, new: Host, among: Host) -> tuple[Host, Host]:
    """Features of a predictor in the records and in the new rows, scored by the ranks `among` these."""
    if not column.ordered:
        levels = np.unique(column.codes)
        place = np.full(column.count + 1, 0)
        place[levels + 1] = np.arange(len(levels))
        records, rows = (np.eye(len(levels))[place[codes + 1]][:, 1:] for codes in (column.codes, new))
        return records, rows
    known = column.codes >= 0
    parts = [_scores(codes, np.sort(among[among >= 0]))[:, None] for codes in (column.codes, new)]
    if not known.all():
        parts = [np.column_stack([part, codes < 0]) for part, codes in zip(parts, (column.codes, new), strict=True)]
    return parts[0], parts[1]


def _scores(codes: Host, ordered: Host) -> Host:
    """(m,) normal scores of codes by their place among the `ordered` ones of the records, who need not have them."""
    from scipy.special import ndtri

    if not len(ordered):
        return np.zeros(len(codes))
    places = np.searchsorted(ordered, codes, side="left") + np.searchsorted(ordered, codes, side="right")
    share = np.clip(places / (2 * len(ordered)), 0.5 / len(ordered), 1 - 0.5 / len(ordered))
    return np.asarray(np.where(codes < 0, 0.0, ndtri(share)))


def _draw_rank(codes: Host, X: Host, Y: Host, u: Host) -> Host:
    """Codes at the quantiles of a normal regression on their scores."""
    from scipy.special import ndtr, ndtri

    z = mid_scores(codes[:, None])[:, 0]
    z /= max(float(np.sqrt(np.mean(z**2))), 1e-9)  # scores of n ranks, or of ties, spread less than the normal's
    beta = np.linalg.lstsq(X, z, rcond=None)[0]
    error = float(np.sqrt(((z - X @ beta) ** 2).sum() / max(1, len(z) - X.shape[1])))
    drawn = ndtr(Y @ beta + error * ndtri(u))
    ordered = np.sort(codes)
    return np.asarray(ordered[np.minimum((drawn * len(ordered)).astype(np.int64), len(ordered) - 1)])


def _draw_level(codes: Host, X: Host, Y: Host, u: Host) -> Host:
    """Codes drawn by the probabilities of a multinomial regression."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    levels = np.unique(codes)
    if len(levels) == 1:
        return np.full(len(Y), levels[0])
    chosen = slice(0, _FITTED)
    if len(np.unique(codes[chosen])) < len(levels):
        chosen = slice(None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a model that is nearly fitted draws nearly as well
        model = LogisticRegression(max_iter=200, C=10.0).fit(X[chosen, 1:], codes[chosen])
    chances = model.predict_proba(Y[:, 1:]).cumsum(axis=1)
    return np.asarray(levels[np.minimum((u[:, None] > chances).sum(axis=1), len(levels) - 1)])


Model: TypeAlias = Literal["cart", "parametric", "mixture"]

BLOCK = 100_000
"""Records that one model is fitted to, about: more are divided at random, so that time is linear in their number."""


def synthesise(
    codes: Host,
    ordered: Sequence[bool],
    draws: Draws,
    *,
    given: Sequence[Coded] = (),
    model: Model = "cart",
    leaf: int = 5,
    proper: bool = False,
    even: bool = True,
    block: int = BLOCK,
) -> Host:
    """(n, c) codes of as many new rows, the columns one after another.

    given  : columns of the same rows that all others depend on, and that stay as they are
    model  : "cart": values of the leaf of a decision tree; "parametric": regressions; "mixture": each row from one of
             both, with a probability that is itself drawn uniformly, once for each block (uncertainty of the model)
    leaf   : records of a leaf, at least
    proper : fit to a bootstrap sample of the records, so that copies also vary as the fitted models do
    even   : trees: draw the records of a leaf equally often; see `draw_from_tree`
    block  : rows of a random part that is synthesised by itself, about

    Draws : words of the records; which record a new row is drawn for says nothing of its values.
    Cost  : O(n log(block) · c²).
    """
    n, c = codes.shape
    out = np.empty_like(codes)
    counts = [int(codes[:, j].max(initial=-1)) + 1 for j in range(c)]
    columns = [Coded(codes[:, j], ordered[j], counts[j]) for j in range(c)]
    blocks = np.array_split(np.argsort(draws.child("block").keys(), kind="stable"), max(1, round(n / block)))

    def work(rows: Host) -> None:
        rows = np.sort(rows)
        own = draws.take(rows)
        source = rows[(own.child("bootstrap").uniform(1)[:, 0] * len(rows)).astype(np.int64)] if proper else rows
        beside = [column.codes[rows] for column in given]
        records = [column.take(source) for column in (*given, *columns)]
        models: tuple[Model, ...] = ("cart", "parametric") if model == "mixture" else (model,)
        among = [column.codes[rows] for column in (*given, *columns)]
        found = [_block(records, beside, among, own.child(one), one, leaf, even) for one in models]
        if len(found) == 1:
            out[rows] = found[0]
        else:
            weight = own.child("weight").take(np.zeros(1, dtype=np.int64)).uniform(1)[0, 0]
            out[rows] = np.where(own.child("model").uniform(1) < weight, *found)

    each(work, [rows for rows in blocks if len(rows)])
    return out


def _block(
    records: list[Coded], beside: list[Host], among: list[Host], draws: Draws, model: Model, leaf: int, even: bool
) -> Host:
    """(n, c) new rows of one block; the first columns of `records` are given as `beside` in the new rows.

    among : (n,) of each column the codes of all records of the block, of which `records` may be a bootstrap sample
    """
    new = list(beside)
    for j in range(len(beside), len(records)):
        own = draws.child(str(j))
        u = own.uniform(2)
        if model == "cart":
            seed = int(own.take(np.zeros(1, dtype=np.int64)).child("seed").words(1)[0, 0] >> 1)
            new.append(draw_from_tree(records[j], records[:j], new, u[:, 0], seed, leaf, even))
        else:
            new.append(draw_from_regression(records[j], records[:j], new, u, among[:j]))
    return np.column_stack(new[len(beside) :]).astype(np.int64)
