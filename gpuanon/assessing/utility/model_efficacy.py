"""Machine learning on the release: how much worse a model predicts people it was not made from.

References
----------
.. [1] C. Esteban, S. L. Hyland, G. Rätsch (2017), Real-valued medical time series generation: train on synthetic, test
   on real.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.rng import Key
from gpuanon.assessing.figures import Beside, Figure, Measured, join
from gpuanon.assessing.measure import OF_SCORES, Measure
from gpuanon.assessing.sampling_errors import pieces_of, with_error
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


MODEL_ROWS = 50_000
PIECES, CUTS = 4, 2
"""Pieces of the sample that models are fitted to again, and how often it is cut: trees of fewer rows vary more."""

_PUBLIC = Key(b"the split of a measure is no secret")


def model_efficacy(
    original: Host,
    release: Host,
    *,
    names: Sequence[str],
    categorical: Sequence[bool],
    target: str,
    link: Host | None = None,
) -> Measured:
    """Score of a model trained on originals, less that of one trained on the release, on the same held-out originals.

    Parameters
    ----------
    original, release : (n, d) and (m, d) numbers and codes; a category without a code is −1, a missing number NaN
    target : column that the others predict; the score is R² for numbers, and for categories the accuracy beyond that
        of the most frequent level, as a share of what could be gained (κ of a constant guess is 0)
    link : (m,) original row of each released row: the model on the release then sees only those whose originals are
        not held out; without it the release was made from the held-out people too, which flatters it

    Gradient boosted trees on histograms; half of the originals are held out.  Each model is fitted to at most
    `MODEL_ROWS` rows, a random sample of the rows, and scored on as many.
    """
    if target not in names:
        raise ParameterError(f"target: {target!r} is not one of the compared columns")
    if len(names) < 2:
        raise InputError("model_efficacy: needs a column besides the target")
    at = list(names).index(target)
    lots = np.asarray(_PUBLIC.draws(np.arange(len(original), dtype=np.int64), "held out").uniform())[:, 0]
    held = lots < np.median(lots)
    seen = np.ones(len(release), dtype=bool) if link is None else (link >= 0) & ~held[np.maximum(link, 0)]
    train, learned, test = (_known(rows, at, categorical) for rows in (original[~held], release[seen], original[held]))
    if min(len(train), len(learned), len(test)) < 20:
        raise InputError("model_efficacy: needs at least 20 rows with a known target on every side")
    several = max(len(train), len(learned), len(test)) > MODEL_ROWS
    train, learned, test = (
        rows[sample_rows(len(rows), MODEL_ROWS, name)]
        for rows, name in ((train, "train"), (learned, "learned"), (test, "test"))
    )
    scores = [_score(rows, test, at, categorical) for rows in (train, learned)]
    details: dict[str, Figure] = {"target": target, "held_out": len(test), "trained_on": len(learned)}
    note = join(
        None if link is not None else "without a link the release was made from the held-out people too",
        f"models of {len(train)} and {len(learned)} rows, sampled at random" if several else None,
    )
    beside = (
        Beside("score_original", "score of a model of the original", scores[0]),
        Beside("score_release", "score of a model of the release", scores[1]),
    )
    measured = Measured(scores[0] - scores[1], details, note, beside=beside)
    if not several:
        return measured
    refits = [
        [
            _score(own, unseen, at, categorical) - _score(other, unseen, at, categorical)
            for own, other, unseen in zip(*(_pieces(rows, cut) for rows in (train, learned, test)), strict=True)
        ]
        for cut in range(CUTS)
    ]
    return with_error(measured, refits)


def _pieces(rows: Host, cut: int) -> list[Host]:
    """Disjoint pieces of a sample, each of which a model is fitted to or scored on."""
    return [rows[chosen] for chosen in pieces_of(len(rows), PIECES, cut)]


def _known(rows: Host, at: int, categorical: Sequence[bool]) -> Host:
    """The rows whose target is known."""
    target = rows[:, at]
    return rows[target >= 0] if categorical[at] else rows[~np.isnan(target)]


def _score(train: Host, test: Host, at: int, categorical: Sequence[bool]) -> float:
    """R², or the gain in accuracy over the most frequent level of the test rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    X, y = np.delete(train, at, axis=1), train[:, at]
    unseen, truth = np.delete(test, at, axis=1), test[:, at]
    tells = ~np.isnan(X).all(axis=0)  # a column without a value tells nothing, and scikit-learn refuses it
    X, unseen = X[:, tells], unseen[:, tells]
    if not categorical[at]:
        if not tells.any():
            return _r2(np.full(len(truth), y.mean()), truth)
        return _r2(HistGradientBoostingRegressor(max_iter=50, random_state=0).fit(X, y).predict(unseen), truth)
    if not tells.any() or len(np.unique(y)) == 1:
        levels, counts = np.unique(y, return_counts=True)
        guess = np.full(len(truth), levels[counts.argmax()])
    else:
        guess = HistGradientBoostingClassifier(max_iter=50, random_state=0).fit(X, y).predict(unseen)
    blind = np.unique(truth, return_counts=True)[1].max() / len(truth)
    return float(((guess == truth).mean() - blind) / (1 - blind)) if blind < 1 else 0.0


def _r2(predicted: Host, truth: Host) -> float:
    """1 − SSE / SST; 0 for a target without spread."""
    spread = float(((truth - truth.mean()) ** 2).sum())
    return 1 - float(((predicted - truth) ** 2).sum()) / spread if spread > 0 else 0.0


def _model_efficacy(c: Comparison, target: str | None = None) -> Measured:
    """For a named target, else the last sensitive column, else the last column."""
    named = target or (c.schema.sensitive or c.columns)[-1]
    codes = [c.schema[name].kind not in ("numeric", "date") for name in c.columns]
    before, after = c.values
    return model_efficacy(before, after, names=c.columns, categorical=codes, target=named, link=c.link_or_none)


MODEL_EFFICACY = Measure(
    name="model_efficacy", label="how much worse a model learns from the release",
    sentence="A model trained on the release predicts real people worse than one trained on the original by this"
    " much of its score.",
    summary="how much worse a model of the release predicts held-out originals",
    family="utility", range=(-inf, inf), usual="0: as good as from the original",
    unit="table", function=model_efficacy, compute=_model_efficacy, options={"target": str}, arrays="values",
    weights=OF_SCORES, nulls="the trees see a null as missing; records whose target is missing are left out",
    scaling="whole",
    host="gradient boosting of scikit-learn, on at most 50 000 rows; cuML has none",
    source="Esteban, Hyland and Rätsch 2017", long=0.7, openmp=True,
)  # fmt: skip
