"""The reference standard: verdicts on extremes, and the p-value that stands for the thesis's subsamples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gpuanon.assessing.risk.prediction import predict
from gpuanon.assessing.risk.reference_standard import (
    COPIES,
    EFFECTIVE,
    p_value,
    reference_standard,
    verdict,
)
from gpuanon.errors import ParameterError


@pytest.fixture
def samples() -> tuple[np.ndarray, ...]:
    """Three independent samples of one population, correlated columns."""
    rng = np.random.default_rng(1)
    mix = rng.normal(size=(12, 12))
    X = rng.normal(size=(4500, 12)) @ mix
    return X[:1500], X[1500:3000], X[3000:]


def test_an_untouched_sample_passes(samples: tuple[np.ndarray, ...]) -> None:
    original, other, reference = samples
    measured = reference_standard(original, other, reference)
    assert measured.details["passes"] is True
    assert measured.value > 0.05
    assert str(measured.details["verdict"]).startswith("passes")


def test_a_copy_fails_on_distance_and_ambiguity(samples: tuple[np.ndarray, ...]) -> None:
    original, _, reference = samples
    measured = reference_standard(original, original.copy(), reference)
    assert measured.details["passes"] is False
    assert measured.details["distance"]["excess"] == 1.0  # type: ignore[index, call-overload]
    assert measured.details["ambiguity"]["passes"] is False  # type: ignore[index, call-overload]
    assert "fails on distance, ambiguity" in str(measured.details["verdict"])


def test_a_few_verbatim_copies_fail_though_the_distributions_pass(samples: tuple[np.ndarray, ...]) -> None:
    original, other, reference = samples
    release = other.copy()
    release[:45] = original[:45]  # 3 %
    measured = reference_standard(original, release, reference)
    passes = {name: measured.details[name]["passes"] for name in (*EFFECTIVE, COPIES)}  # type: ignore[index, call-overload]
    assert passes == dict.fromkeys(EFFECTIVE, True) | {COPIES: False}
    assert measured.details["passes"] is False
    assert measured.value <= 0.05


def test_small_noise_fails_on_distance(samples: tuple[np.ndarray, ...]) -> None:
    original, _, reference = samples
    noise = np.random.default_rng(2).normal(size=original.shape) * original.std(axis=0) * 0.1
    measured = reference_standard(original, original + noise, reference)
    assert measured.details["distance"]["passes"] is False  # type: ignore[index, call-overload]


def test_the_p_value_is_the_asymptotic_one_of_the_thesis_samples() -> None:
    # SciPy's one-sided two-sample p-value at 1296 and 324 points a side, asymptotically exp(−2 n_e D²).
    for name, size in (("distance", 1296), ("ambiguity", 324), ("uncertainty", 324)):
        x = np.arange(size, dtype=float)
        shift = size // 20
        theirs = stats.ks_2samp(x, x + shift, alternative="greater", method="asymp")
        assert p_value(name, theirs.statistic) == pytest.approx(math.exp(-2 * (size / 2) * theirs.statistic**2))
        assert p_value(name, theirs.statistic) == pytest.approx(theirs.pvalue, rel=0.15)


def test_the_limits_of_a_pass() -> None:
    assert p_value("distance", 0.0480) > 0.05 > p_value("distance", 0.0482)
    assert p_value("ambiguity", 0.0961) > 0.05 > p_value("ambiguity", 0.0963)


def test_verdict_uses_all_records_one_sided(samples: tuple[np.ndarray, ...]) -> None:
    original, other, reference = samples
    near, far = predict(original, other), predict(original, 3 * reference)
    result = verdict(near, far)
    expected = stats.ks_2samp(near.distance, far.distance, alternative="greater", method="asymp").statistic
    assert result.excess["distance"] == pytest.approx(expected)
    assert verdict(far, near).excess["distance"] == 0
    assert "distance" not in verdict(far, near).failed


def test_sizes_are_made_equal_and_that_is_said(samples: tuple[np.ndarray, ...]) -> None:
    original, other, reference = samples
    larger = reference_standard(original[:700], other[:700], reference)
    assert larger.details["passes"] is True
    assert "700 of 1500 reference records" in str(larger.note)
    smaller = reference_standard(original, other, reference[:500])
    assert smaller.details["passes"] is True
    assert "500 of 1500 released records" in str(smaller.note)


def test_a_small_reference_with_a_link_still_sees_every_copy(samples: tuple[np.ndarray, ...]) -> None:
    original, _, reference = samples
    order = np.random.default_rng(3).permutation(1500)
    measured = reference_standard(original, original[order], reference[:300], link=order)
    assert measured.details["records"] == 300
    assert measured.details["distance"]["excess"] == 1.0  # type: ignore[index, call-overload]
    blind = reference_standard(original, original[order], reference[:300])
    assert blind.details["distance"]["excess"] < 0.5  # type: ignore[index, call-overload, operator]
    assert "without the link" in str(blind.note)


def test_a_sampled_verdict_says_so(samples: tuple[np.ndarray, ...]) -> None:
    original, other, reference = samples
    measured = reference_standard(original, other, reference, limit=1000)
    assert measured.details["records"] == 333  # 1000² / (2 · 1500): two searches
    assert "random sample of 333 of 1500" in str(measured.note)


def test_a_tiny_reference_is_refused() -> None:
    A = np.random.default_rng(4).normal(size=(20, 2))
    with pytest.raises(ParameterError, match="reference: at least"):
        reference_standard(A, A, A[:3])


@pytest.mark.parametrize("n", [50, 200])
def test_independent_samples_of_few_records_fail_in_one_of_twenty(n: int) -> None:
    """60 tables: more than 8 failures have a chance of 2 in 1000 at a level of 5 %; by the limits alone most fail."""
    rng = np.random.default_rng(n)
    failed, beyond = 0, 0
    for _ in range(60):
        original, release, reference = rng.normal(size=(3, n, 4))
        found = reference_standard(original, release, reference).details
        failed += found["passes"] is False
        beyond += any(p_value(name, found[name]["excess"]) <= 0.05 for name in EFFECTIVE)  # type: ignore[index, call-overload]
        if found["passes"] and found["too_few_records"]:
            assert str(found["verdict"]).startswith("too few records")
    assert failed <= 8
    assert beyond > 25


def test_a_copy_of_few_records_fails_still() -> None:
    original, other, reference = np.random.default_rng(8).normal(size=(3, 100, 4))
    assert reference_standard(original, original + 0.01 * other, reference).details["passes"] is False
