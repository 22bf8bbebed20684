"""Tables that were shifted, mirrored or rotated are the original to whoever knows ten people: risks call them found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.assessing.risk.reidentification import attacked

N = 600
MEASURES = ("reidentification", "reidentification_by_class", "linkage_probabilistic")
RECIPE = {
    "columns": {name: {"role": "quasi"} for name in "abcd"},
    "mask": [{"method": "noise"}],
}


def original() -> np.ndarray:
    random = np.random.default_rng(4)
    mixed = random.normal(size=(N, 4)) @ random.normal(size=(4, 4))
    return mixed * [1, 10, 100, 3] + [0, 50, 1000, -5]


def rotated(X: np.ndarray) -> np.ndarray:
    turn = np.linalg.qr(np.random.default_rng(7).normal(size=(4, 4)))[0]
    return (X - X.mean(axis=0)) @ turn + X.mean(axis=0)


DISGUISES = {
    "shifted": lambda X: X + 10 * X.std(axis=0),
    "mirrored": lambda X: -X,
    "rotated": rotated,
    "shifted, mirrored and rotated": lambda X: -rotated(X) + 3 * X.std(axis=0),
}


def measured(before: np.ndarray, after: np.ndarray, link: np.ndarray) -> dict[str, float]:
    tables = (pa.table(dict(zip("abcd", X.T, strict=True))) for X in (before, after))
    found = gpuanon.assess(*tables, RECIPE, link=link, measures=MEASURES)
    return {name: found[name].value for name in MEASURES}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_every_headline_risk_calls_a_disguised_copy_found(disguise):
    X, order = original(), np.random.default_rng(1).permutation(N)
    found = measured(X, DISGUISES[disguise](X)[order], order)
    assert min(found.values()) > 0.95, found


def test_rows_that_have_nothing_to_do_with_the_original_are_not_called_found():
    X, order = original(), np.random.default_rng(1).permutation(N)
    other = np.random.default_rng(2).multivariate_normal(X.mean(axis=0), np.cov(X.T), N)
    found = measured(X, other, order)
    assert max(found.values()) < 0.05, found


def test_an_attack_that_needs_no_map_stays_as_it_is():
    X, order = original(), np.random.default_rng(1).permutation(N)
    noisy = X[order] + np.random.default_rng(3).normal(size=X.shape) * 0.2 * X.std(axis=0)
    hits = attacked(X / X.std(axis=0), noisy / X.std(axis=0), order)
    assert not hits.mapped
    least = ((X[:, None] / X.std(axis=0) - noisy[None] / X.std(axis=0)) ** 2).sum(axis=2).argmin(axis=1)
    assert hits.values.mean() == pytest.approx((order[least] == np.arange(N)).mean())
