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

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.arrays.rng import Key
from gpuanon.assessing.columns import sampled_pairs
from gpuanon.assessing.figures import Beside, Figure, Measured, join
from gpuanon.assessing.measure import OF_SCORES, PERMUTATIONS, SHARE, Measure
from gpuanon.assessing.sampling_errors import with_error
from gpuanon.assessing.utility.propensity import scores as propensity_scores
from gpuanon.assessing.utility.propensity.class_tree import class_shares
from gpuanon.assessing.utility.propensity.scores import (
    Fitted,
    Model,
    Stacked,
    dummies,
    fitted,
    logit,
    propensity,
    stacked,
)
from gpuanon.errors import ParameterError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


DEPENDENT = "original and release are dependent samples: this is a distance, not a test"

_PUBLIC = Key(b"the permutations of a measure are no secret")


def pmse_logit(
    original: Array,
    release: Array,
    *,
    categorical: Sequence[bool] | None = None,
    permutations: int = 0,
    link: Array | None = None,
    sampled: bool = False,
    fit: Fitted | None = None,
) -> Measured:
    """Propensity mean squared error by logistic regression: 0 indistinguishable, c(1 − c) perfectly separable.

    Beside it its expectation when the release is drawn from the distribution of the original at hand,
    ``df · c · (1 − c)² / N``, and the ratio to that ([1], as in synthpop); an independent sample of the population
    would have 1 / (1 − c) times as much.  `permutations`, `link` and `sampled`: see `pmse_cart`; `fit`: see
    `propensity_ks`.
    """
    found = (fit or fitted(original, release, "logit", categorical, sampled=sampled)).scores(halved=False)
    n, c = len(found.released), float(found.released.mean())
    expected = (found.df or 0) * c * (1 - c) ** 2 / n
    details: dict[str, Figure] = {"df": found.df, "share_released": c}
    if expected > 0:
        details |= {"ratio": found.pmse / expected, "independent_ratio": 1 / (1 - c)}
    if permutations:
        null, valid = null_sample(original, release, categorical, link, propensity_scores.LOGIT_ROWS)
        design = dummies(null.X, null.categorical)
        details |= against_permuted(lambda y: logit(design, y)[0], null.released, valid, permutations)
    beside = Beside("expected", "draws from the original would have", expected), separable(c)
    measured = Measured(found.pmse, details, join(DEPENDENT, found.note), parts=(found.overlap,), beside=beside)
    return with_error(measured, found.over_refits("pmse"), squares=True)


def separable(c: float) -> Beside:
    """The pMSE of tables that are perfectly separable, `c` the share of released records."""
    return Beside("separable", "perfectly separable", c * (1 - c))


def pmse_cart(
    original: Array,
    release: Array,
    *,
    categorical: Sequence[bool] | None = None,
    permutations: int = 0,
    link: Array | None = None,
    sampled: bool = False,
) -> Measured:
    """Propensity mean squared error by a classification tree: 0 indistinguishable, c(1 − c) perfectly separable.

    Parameters
    ----------
    permutations : how often to fit the tree with labels permuted, to compare with: the ratio to their mean, and the
        share that reach the value
    link : (m,) original row of each released row, −1 for added rows: labels are then permuted within pairs of a
        record and its release, which is valid for dependent samples
    sampled : the tables are samples of larger ones: the error of the value is stated, as it is where a sample is taken
        here
    """
    found = propensity(original, release, "cart", categorical, sampled=sampled)
    c = float(found.released.mean())
    details: dict[str, Figure] = {"share_released": c}
    if permutations:
        null, valid = null_sample(original, release, categorical, link, propensity_scores.CART_ROWS)
        fit = partial(class_shares, null.X, categorical=null.categorical)
        details |= against_permuted(fit, null.released, valid, permutations)
    note, parts = join(DEPENDENT, found.note), (found.overlap,)
    measured = Measured(found.pmse, details, note, parts=parts, beside=(separable(c),))
    return with_error(measured, found.over_refits("pmse"), squares=True)


def null_sample(
    original: Array, release: Array, categorical: Sequence[bool] | None, link: Array | None, rows: int
) -> tuple[Stacked, Array | None]:
    """Both tables in one, that a null is made of, and the link within them.

    With a link and more than `rows` rows, a sample of pairs; else as `stacked`.
    """
    before, after = to_host(original), to_host(release)
    if link is not None and max(len(before), len(after)) > rows:
        before, after, link = sampled_pairs(before, after, to_host(link), rows)
    return stacked(before, after, categorical, rows), link


def against_permuted(fit: Callable[[Host], Host], labels: Host, link: Array | None, rounds: int) -> dict[str, Figure]:
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
    original: Array,
    release: Array,
    *,
    model: Model = "logit",
    categorical: Sequence[bool] | None = None,
    sampled: bool = False,
    fit: Fitted | None = None,
) -> Measured:
    """Kolmogorov–Smirnov distance between the propensity scores of original and released records, 0 to 1.

    fit : the model, fitted to these tables before; saves the time
    """
    found = (fit or fitted(original, release, model, categorical, sampled=sampled)).scores(halved=True)
    measured = Measured(found.ks, {"model": model}, join(DEPENDENT, found.note))
    return with_error(measured, found.over_refits("ks"))


def propensity_wilcoxon(
    original: Array,
    release: Array,
    *,
    model: Model = "logit",
    categorical: Sequence[bool] | None = None,
    sampled: bool = False,
    fit: Fitted | None = None,
) -> Measured:
    """Wilcoxon rank-sum of the original's propensity scores, as |2 U / (n m) − 1|: 0 mixed, 1 apart.

    fit : as for `propensity_ks`
    """
    found = (fit or fitted(original, release, model, categorical, sampled=sampled)).scores(halved=True)
    measured = Measured(found.wilcoxon, {"U": found.rank_sum, "model": model}, join(DEPENDENT, found.note))
    return with_error(measured, found.over_refits("wilcoxon"))


def permuted(released: Host, originals: int, link: Array | None, rounds: int) -> list[Host]:
    """Labels permuted at random, or exchanged within pairs when the link is known."""
    n = len(released)
    if link is None:
        draws = _PUBLIC.draws(np.arange(n))
        return [released[np.argsort(draws.child(str(r)).uniform()[:, 0], kind="stable")] for r in range(rounds)]
    link = to_host(link)
    if originals + len(link) != n:
        raise ParameterError("link: pairs can be exchanged only where no sample of the rows is taken")
    mates, first = np.unique(np.where(link >= 0, link, -1), return_index=True)
    first = first[mates >= 0]
    draws, labels = _PUBLIC.draws(np.arange(len(first))), []
    for r in range(rounds):
        flip = draws.child(str(r)).uniform()[:, 0] < 0.5
        exchanged = released.copy()
        exchanged[link[first[flip]]] = 1.0
        exchanged[originals + first[flip]] = 0.0
        labels.append(exchanged)
    return labels


def _pmse_logit(c: Comparison, permutations: int = 0) -> Measured:
    return _of_scores(pmse_logit, c, permutations, fit=c.logit_fit)


def _pmse_cart(c: Comparison, permutations: int = 0) -> Measured:
    return _of_scores(pmse_cart, c, permutations)


def _of_scores(measure: Callable[..., Measured], c: Comparison, permutations: int, **shared: Any) -> Measured:
    """A measure of propensity scores; its null permutes labels, within pairs where the link is known."""
    link = c.link_of_pairs if permutations else None
    more = {"permutations": permutations, "link": link, "sampled": c.sampled, **shared}
    return measure(*c.values, categorical=c.categorical, **more)


def _propensity_ks(c: Comparison, model: Model = "logit") -> Measured:
    return _by_model(propensity_ks, c, model)


def _propensity_wilcoxon(c: Comparison, model: Model = "logit") -> Measured:
    return _by_model(propensity_wilcoxon, c, model)


def _by_model(measure: Callable[..., Measured], c: Comparison, model: Model) -> Measured:
    """A measure of the propensity scores of a model that a recipe may choose."""
    fit = c.logit_fit if model == "logit" else None
    return measure(*c.values, model=model, categorical=c.categorical, sampled=c.sampled, fit=fit)


SCORES: Mapping[str, Any] = {
    "family": "utility",
    "unit": "record",
    "arrays": "values",
    "weights": OF_SCORES,
    "nulls": "a missing number is 0 with a column that marks it; a missing category is a category",
    "scaling": "sample",
}
PMSE_LOGIT = Measure(
    name="pmse_logit", label="can a simple model tell the tables apart?",
    sentence="A simple model guesses which table a record comes from, and its certainty exceeds guessing by this"
    " much, squared: 0 not at all, 0.25 always, for tables of one size.",
    summary="mean squared propensity score error, main-effects logit",
    usual="0: they cannot be told apart; 0.25: always; standardised, below 1: less varied than a sample",
    range=(0.0, 0.25), function=pmse_logit, compute=_pmse_logit, options=PERMUTATIONS,
    host="a logit of 100 000 rows at most, with the rank of its design",
    source="Snoke et al. 2018; synthpop", sees="columns", **SCORES,
)  # fmt: skip
PMSE_CART = Measure(
    name="pmse_cart", label="can a decision tree tell the tables apart?",
    sentence="A decision tree guesses which table a record comes from, and its certainty exceeds guessing by this"
    " much, squared: 0 not at all, 0.25 always.",
    summary="mean squared propensity score error, classification tree",
    usual="0: they cannot be told apart; 0.25: always; standardised, below 1: less varied than a sample",
    range=(0.0, 0.25), function=pmse_cart, compute=_pmse_cart, options=PERMUTATIONS,
    host="one tree of 20 000 rows at most, grown as synthpop's is; cuML has forests only (`pmse_forest`)",
    source="Snoke et al. 2018; synthpop", long=1, **SCORES,
)  # fmt: skip
PROPENSITY_KS = Measure(
    name="propensity_ks", label="largest gap of the tables' propensity scores",
    sentence="How much a record looks released is scored for both tables, and the shares of records up to some"
    " score differ by at most this.",
    summary="Kolmogorov–Smirnov distance of the propensity scores",
    usual="0: they cannot be told apart; 1: always",
    range=SHARE, function=propensity_ks, compute=_propensity_ks, options={"model": Model},
    host="the scores of `pmse_logit` or `pmse_cart`",
    source="Kulik, lecture on utility and information loss", **SCORES,
)  # fmt: skip
PROPENSITY_WILCOXON = Measure(
    name="propensity_wilcoxon", label="do released records rank apart by propensity score?",
    sentence="Ranked by how much they look released, records of both tables are mixed (0) or stand apart (1).",
    summary="distance of the propensity scores' rank sums",
    usual="0: they cannot be told apart; 1: always",
    range=SHARE, function=propensity_wilcoxon, compute=_propensity_wilcoxon, options={"model": Model},
    host="the scores of `pmse_logit` or `pmse_cart`",
    source="Kulik, lecture on utility and information loss", **SCORES,
)  # fmt: skip
