"""The automatic choice of a target: it passes, smaller ones do not, and it holds against a sample it never saw."""

from __future__ import annotations

import numpy as np
import pytest

from gpuanon.assessing.ks_distance import ks_excess
from gpuanon.assessing.risk.auto_target import _smallest, auto_target
from gpuanon.assessing.risk.prediction import predict
from gpuanon.assessing.risk.reference_standard import distances_of_halves, limit_of, p_value, reference_standard
from gpuanon.errors import GuaranteeError, ParameterError


@pytest.fixture(scope="module")
def samples() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 8)) @ rng.normal(size=(8, 8))
    return X[:500], X[500:1000], X[1000:]


def _noisy(original: np.ndarray):  # type: ignore[no-untyped-def]
    """A masking whose protection grows with the target: noise of target / 100 deviations."""
    noise = np.random.default_rng(2).normal(size=original.shape) * original.std(axis=0)
    return lambda target: original + noise * target / 100


def test_the_choice_is_the_smallest_that_passes(samples: tuple[np.ndarray, ...]) -> None:
    original, reference, _ = samples
    candidates = [5, 10, 20, 40, 80, 160, 320]
    choice = auto_target(original, reference, _noisy(original), candidates)
    np.testing.assert_array_equal(choice.release, _noisy(original)(choice.target))
    tried = {trial.target: trial for trial in choice.trials}
    assert tried[choice.target].passes
    below = [target for target in candidates if target < choice.target]
    assert below, "the smallest candidate must fail, or the test tests nothing"
    assert not tried[below[-1]].passes


def test_it_holds_against_a_second_sample(samples: tuple[np.ndarray, ...]) -> None:
    original, reference, second = samples
    choice = auto_target(original, reference, _noisy(original), range(10, 300, 10))
    assert reference_standard(original, choice.release, second).details["passes"] is True


def test_a_smaller_reference_is_used_whole(samples: tuple[np.ndarray, ...]) -> None:
    original, reference, _ = samples
    assert auto_target(original, reference[:200], _noisy(original), [5, 300]).target == 300


def test_no_candidate_is_an_error(samples: tuple[np.ndarray, ...]) -> None:
    original, reference, _ = samples
    with pytest.raises(GuaranteeError, match="none of the 2 candidates"):
        auto_target(original, reference, lambda target: original, [10, 20])
    for candidates in ([], [20, 10]):
        with pytest.raises(ParameterError, match="candidates"):
            auto_target(original, reference, lambda target: original, candidates)


def test_the_margin_is_the_distance_between_two_samples() -> None:
    rng = np.random.default_rng(3)
    original, reference = rng.normal(size=(300, 6)), rng.normal(size=(300, 6))
    halves = distances_of_halves(original, reference, np.arange(300), 5, 20)
    predictions = [predict(original, rng.normal(size=(300, 6))) for _ in range(8)]
    for name in ("distance", "ambiguity", "uncertainty"):
        found = [ks_excess(getattr(a, name), getattr(b, name)) for a in predictions for b in predictions if a is not b]
        assert np.mean(found) / 1.8 < halves[name].mean() / np.sqrt(2) < np.mean(found) * 1.8


def test_limits_are_where_p_is_five_per_cent() -> None:
    for name in ("distance", "ambiguity", "uncertainty"):
        assert p_value(name, limit_of(name)) == pytest.approx(0.05)


def test_search_tries_few_and_finds_the_border() -> None:
    for count in (1, 2, 7, 30):
        for border in range(count):
            tried: list[int] = []

            def passes(at: int, border: int = border, tried: list[int] = tried) -> bool:
                tried.append(at)
                return at >= border

            assert _smallest(passes, count) == border
            assert len(tried) <= 2 * count.bit_length() + 1
        assert _smallest(lambda at: False, count) is None


def test_a_table_of_few_records_finds_a_target() -> None:
    """A mask that draws new records from the population at any target is as good as a sample."""
    rng = np.random.default_rng(9)
    found = []
    for original, reference, release in rng.normal(size=(10, 3, 250, 4)):
        try:
            found.append(auto_target(original, reference, lambda _, release=release: release, [50]).target)
        except GuaranteeError:
            found.append(None)
    assert found.count(50) >= 8  # by the limits of large tables none of them did
