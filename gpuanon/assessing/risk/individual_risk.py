"""Individual risk from sample weights: how likely a class in the sample stands for one person in the population.

A record in a class of f sampled records that stand for F people (the sum of their weights) is reidentified with
probability E[1 / F | f], where F given f is negative binomial with success probability p = f / F̂ [1].

References
----------
.. [1] L. Franconi, S. Polettini (2004), Individual risk estimation in μ-Argus, PSD '04.
.. [2] M. Templ, A. Kowarik, B. Meindl (2015), sdcMicro, J. Stat. Softw. 67(4): the same formulas and approximation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, to_host
from gpuanon.arrays.partition import Partition, segment_sums
from gpuanon.assessing.figures import Distribution, Figure, Measured
from gpuanon.assessing.measure import NULL_IS_A_VALUE, SHARE, Applies, Measure, Weights
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.equal_rows import equal_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def individual_risk(codes: Array, weights: Array, *, threshold: float = 0.1) -> Measured:
    """Expected share of records reidentified in the population, from sample weights; the value is the mean risk.

    codes     : (n, d) codes of the quasi-identifiers, equal where values are equal
    weights   : (n,) people that each record stands for, positive
    threshold : records at a higher risk are counted
    """
    risk = risks(codes, weights)
    details: dict[str, Figure] = {
        "expected_reidentifications": float(risk.sum()),
        "above_threshold": int((risk > threshold).sum()),
        "threshold": threshold,
    }
    return Measured(float(risk.mean()), details, parts=(Distribution.over("released records", risk),))


def risks(codes: Array, weights: Array) -> Host:
    """(n,) E[1 / F | f] of each record; classes of three records or more by the approximation p / (f − (1 − p))."""
    xp = namespace(weights)
    weights = weights.astype(np.float64)
    if len(codes) != len(weights) or len(weights) == 0:
        raise ParameterError(f"weights: one per record is needed ({len(codes)}), got {len(weights)}")
    if not bool((xp.isfinite(weights) & (weights > 0)).all()):
        raise InputError("weights: every weight must be a positive number")
    classes = equal_rows(codes)
    f, people = xp.bincount(classes), segment_sums(weights, Partition.from_labels(classes))
    f, people = to_host(f), to_host(people)  # one number per class
    return np.asarray(_expected_inverse(f, np.maximum(people - f, 0.0) / people)[to_host(classes)])


def _expected_inverse(f: Host, q: Host) -> Host:
    """E[1 / F] of a negative binomial F ≥ f with failure probability q = 1 − p; 1 / f where q = 0.

    p^f / f · ₂F₁(f, f; f + 1; q) = p / f · ₂F₁(1, 1; f + 1; q): the closed forms of [1], differences of large numbers
    where q is small, lose their digits there.
    """
    from scipy.special import hyp2f1

    p = 1 - q
    exact, few = np.empty(len(f)), f <= 2
    exact[few] = p[few] / f[few] * hyp2f1(1, 1, f[few] + 1, q[few])
    return np.where(few, exact, p / (f - q))


def _individual_risk(c: Comparison) -> Measured:
    return individual_risk(c.classes, c.release_weights)


INDIVIDUAL_RISK = Measure(
    name="individual_risk", label="chance of being found in the population",
    sentence="This share of the released records would be matched with the right person by somebody who knows the whole"
    " population, on average.",
    summary="expected share of records reidentified in the population (weights)",
    family="risk", range=SHARE,
    usual="at most 1/k where k records look alike",
    unit="record",
    records="sample weights say how many people of the population a record stands for",
    applies=Applies(roles=("quasi", "weight")),
    function=individual_risk, compute=_individual_risk, arrays="classes",
    weights=Weights("used", "a class stands for as many people as its sample weights add up to"),
    nulls=NULL_IS_A_VALUE, scaling="whole", source="Benedetti and Franconi 1998; sdcMicro",
)  # fmt: skip
