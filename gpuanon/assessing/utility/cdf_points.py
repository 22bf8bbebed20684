"""Shares of values up to chosen points: would an analyst of the release count as many people below a threshold?

References
----------
.. [1] R. Kulik (2025), MAT 4376 Foundations of Data Privacy, lectures 7–9: interval and test of F(x0).
.. [2] E. B. Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22, 209–212.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.figures import By, Compared, Figure, Measured
from gpuanon.assessing.measure import LEVEL, NULL_IS_LEFT_OUT, SHARE, USED, Measure
from gpuanon.assessing.weighting import effective_size, inverse_shares
from gpuanon.errors import InputError, ParameterError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


DEPENDENT = "original and release are dependent samples: z and p_if_independent are distances, not tests"
_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


def cdf_points(
    original: Host,
    release: Host,
    *,
    names: Sequence[str],
    at: Mapping[str, Sequence[float]] | None = None,
    level: float = 0.95,
    weights: tuple[Host, Host] | None = None,
) -> Measured:
    """Largest difference of F(x0), the share of values up to x0, over points and columns.

    Parameters
    ----------
    original, release : (n, d) and (m, d) numbers, NaN for a missing value; shares are of the known values
    at : points of each column that is to be looked at; None: deciles 1 and 9 and quartiles of every column
    level : of Wilson's interval [2] of the original's F(x0), (F + z²/2n ± z √(F(1 − F)/n + z²/4n²)) / (1 + z²/n), which
        keeps its level for few records and for shares near 0 and 1
    weights : (n,) and (m,) people that each row stands for; n in intervals and tests is then Kish's effective size

    Beside the value: the share of points whose released F(x0) lies in the original's interval, and the largest z of
    the two-sample test; at each point both shares, the interval, z, and its p-value for independent samples.  Original
    and release are dependent, so that z and p are distances and no tests.
    """
    if not 0 < level < 1:
        raise ParameterError(f"level: a number between 0 and 1 is allowed, got {level}")
    unknown = [name for name in at or {} if name not in names]
    if unknown:
        raise ParameterError(
            f"at: {', '.join(map(repr, unknown))}: there is no such column of numbers that is compared"
        )
    from scipy.special import ndtr, ndtri

    z, found, inside, scores = float(ndtri((1 + level) / 2)), {}, [], []
    sides: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for number, name in enumerate(names):
        before, own_before = _known(original[:, number], None if weights is None else weights[0])
        after, own_after = _known(release[:, number], None if weights is None else weights[1])
        if (at is not None and name not in at) or not len(before) or not len(after):
            continue
        people = [own_before, own_after]
        n, m = (
            len(side) if own is None else effective_size(own) for side, own in zip((before, after), people, strict=True)
        )
        points = _quantiles(before, people[0]) if at is None else np.asarray(at[name], dtype=float)
        p, q = (_shares(side, points, own) for side, own in zip((before, after), people, strict=True))
        found[name] = float(np.abs(p - q).max())
        low, high = wilson(p, n, z)
        inside += ((low <= q) & (q <= high)).tolist()
        own = [_score(a, b, n, m) for a, b in zip(p, q, strict=True)]
        scores += own
        # A quantile is the value of a record: it has a name here, and not its value.
        texts = [f"{round(100 * one)} % quantile" for one in _LEVELS] if at is None else [f"{x:g}" for x in points]
        ends = zip(low.tolist(), high.tolist(), strict=True)
        for text, a, b, score, (least, most) in zip(texts, p.tolist(), q.tolist(), own, ends, strict=True):
            sides[0][f"{name} ≤ {text}"] = {"share": a, "low": least, "high": most}
            sides[1][f"{name} ≤ {text}"] = {"share": b, "z": score, "p_if_independent": float(2 * ndtr(-score))}
    if not found:
        raise InputError("cdf_points: needs a column of numbers or dates with known values")
    details: dict[str, Figure] = {
        "points": len(inside),
        "inside_interval": float(np.mean(inside)),
        "largest_z": max(scores),
        "level": level,
    }
    parts = (By("column", dict(found)), Compared("point", sides[0], sides[1]))
    return Measured(max(found.values()), details, DEPENDENT, parts=parts)


def _known(values: Host, weights: Host | None) -> tuple[Host, Host | None]:
    """The known values, and the people that each stands for; a record without weight says nothing."""
    known = ~np.isnan(values)
    if weights is None:
        return values[known], None
    known &= weights > 0
    return values[known], weights[known]


def wilson(p: Host, n: float, z: float) -> tuple[Host, Host]:
    """Ends of Wilson's interval of shares `p` of n records: where the score test does not reject."""
    middle, reach = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    return np.maximum((middle - reach) / (1 + z * z / n), 0.0), np.minimum((middle + reach) / (1 + z * z / n), 1.0)


def _quantiles(values: Host, weights: Host | None) -> Host:
    """The values at `_LEVELS`, each that of a record."""
    if weights is None:
        return np.quantile(values, _LEVELS, method="inverted_cdf")
    return np.asarray(inverse_shares(values, np.asarray(_LEVELS), weights))


def _shares(values: Host, points: Host, weights: Host | None) -> Host:
    """Share of the values up to each point."""
    if weights is None:
        return np.asarray(np.searchsorted(np.sort(values), points, side="right") / len(values))
    order = np.argsort(values)
    reached = np.append(0.0, np.cumsum(weights[order]))
    return np.asarray(reached[np.searchsorted(values[order], points, side="right")] / reached[-1])


def _score(p: float, q: float, n: float, m: float) -> float:
    """|p − q| in standard errors of the difference of two independent shares; 0 where both are all or nothing."""
    pooled = (n * p + m * q) / (n + m)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    return abs(p - q) / error if error > 0 else 0.0


def _cdf_points(c: Comparison, **options: Any) -> Measured:
    """Of the columns of numbers and dates."""
    chosen = [at for at, name in enumerate(c.columns) if c.schema[name].kind in ("numeric", "date")]
    before, after = (side[:, chosen] for side in c.values)
    names = [c.columns[at] for at in chosen]
    return cdf_points(before, after, names=names, weights=c.weights_or_none, **options)


CDF_POINTS = Measure(
    name="cdf_points", label="change of the share up to a point",
    sentence="At the point that changed most, the share of people with at most that value differs by this much.",
    summary="largest change of the share of values up to a point",
    family="utility", range=SHARE,
    usual="0 for a copy; 0.01 is one person in a hundred",
    unit="column", function=cdf_points, compute=_cdf_points,
    options={**LEVEL, "at": dict[str, list[float]]}, arrays="values", weights=USED, nulls=NULL_IS_LEFT_OUT,
    scaling="sample",
    host="not written for a device: sorts of columns with missing values, for five points of each",
    source="Kulik, lecture on utility and information loss", sees="columns",
)  # fmt: skip
