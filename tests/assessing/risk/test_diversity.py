"""ℓ-diversity, t-closeness and individual risk: published examples and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import hyp2f1
from scipy.stats import wasserstein_distance

from gpuanon.assessing.risk.diversity import l_diversity, t_closeness
from gpuanon.assessing.risk.individual_risk import individual_risk, risks
from gpuanon.errors import InputError, ParameterError


def test_the_salary_example_of_t_closeness() -> None:
    """Li, Li and Venkatasubramanian, section 4.2: salaries 3k to 11k, the classes {3, 4, 5} and {6, 8, 11}."""
    salary = np.array([3, 4, 5, 6, 11, 8, 7, 9, 10])[:, None]
    quasi = np.repeat([0, 1, 2], 3)[:, None]
    first = quasi.copy()
    first[3:] = 1  # their distance of {3,4,5} from all nine is 0.375
    assert t_closeness(first, salary, ordered=[True]).value == pytest.approx(0.375)
    second = np.ones((9, 1), dtype=int)
    second[3:6] = 0  # and that of {6,8,11} is 0.167
    found = t_closeness(second, salary, ordered=[True])
    assert found.value == pytest.approx(1 / 6, abs=1e-12)
    assert t_closeness(quasi, salary, ordered=[True]).value == pytest.approx(0.375)


@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 5), st.integers(1, 30))
@example(0, 1, 1, 1)
@example(3, 2, 5, 30)
def test_against_every_class_by_itself(seed: int, classes: int, levels: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    quasi, sensitive = rng.integers(0, classes, size=(n, 1)), rng.integers(0, levels, size=(n, 1))
    groups = [sensitive[quasi[:, 0] == value, 0] for value in np.unique(quasi)]
    assert l_diversity(quasi, sensitive).value == min(len(np.unique(group)) for group in groups)
    _, codes = np.unique(sensitive[:, 0], return_inverse=True)
    groups = [codes[quasi[:, 0] == value] for value in np.unique(quasi)]
    m = codes.max() + 1
    share = np.bincount(codes) / n
    equal = max(0.5 * np.abs(np.bincount(group, minlength=m) / len(group) - share).sum() for group in groups)
    assert t_closeness(quasi, sensitive).value == pytest.approx(equal)
    ordered = max(wasserstein_distance(group, codes) for group in groups) / max(m - 1, 1)
    assert t_closeness(quasi, sensitive, ordered=[True]).value == pytest.approx(ordered)


def test_entropy_and_commonest_value_by_hand() -> None:
    quasi = np.zeros((4, 1), dtype=int)
    measured = l_diversity(quasi, np.array([[1, 1], [1, 2], [2, 3], [2, 4]]), names=["diagnosis", "cost"])
    assert measured.value == 2
    assert measured.worst == ("diagnosis", 2)
    assert measured.details["entropy_by_column"] == pytest.approx({"diagnosis": 2, "cost": 4})
    assert measured.details["commonest_share_by_column"] == {"diagnosis": 0.5, "cost": 0.25}


def test_extremes() -> None:
    rng = np.random.default_rng(1)
    sensitive = rng.integers(0, 4, size=(500, 2))
    together, alone = np.zeros((500, 1), dtype=int), np.arange(500)[:, None]
    assert t_closeness(together, sensitive, ordered=[True, False]).value == pytest.approx(0, abs=1e-12)
    assert l_diversity(together, sensitive).value == 4
    assert l_diversity(alone, sensitive).value == 1
    assert t_closeness(alone, sensitive).value > 0.7
    with pytest.raises(ParameterError, match="sensitive"):
        l_diversity(together, sensitive[:, :0])
    with pytest.raises(ParameterError, match="ordered"):
        t_closeness(together, sensitive, ordered=[True])
    with pytest.raises(ParameterError, match="rows"):
        l_diversity(together[:3], sensitive)


def test_the_eight_row_example_of_sdcmicro() -> None:
    codes = np.array([[2, 3, 2, 2, 3, 3, 1, 2], [3, 3, 3, 3, 3, 3, 4, 3], [1, 3, 1, 2, 1, 1, 1, 1]]).T
    weights = np.array([18, 45.5, 39, 17, 92, 8, 123.5, 51])
    expected = [0.01369863, 0.08579129, 0.01369863, 0.17707583, 0.01877883, 0.01877883, 0.03931625, 0.01369863]
    np.testing.assert_allclose(risks(codes, weights), expected, atol=5e-9)
    measured = individual_risk(codes, weights)
    assert measured.value == pytest.approx(np.mean(expected), rel=1e-6)
    assert measured.details["above_threshold"] == 1
    assert measured.details["expected_reidentifications"] == pytest.approx(sum(expected), rel=1e-6)


def test_risks_of_ones_and_twos_are_the_hypergeometric_formula() -> None:
    # E[1 / F | f] = p^f / f · 2F1(f, f; f + 1; 1 − p); from three records on sdcMicro's approximation is near it.
    for f in (1, 2, 3, 6):
        for weight in (1.5, 10.0, 200.0):
            p = 1 / weight
            exact = p**f / f * hyp2f1(f, f, f + 1, 1 - p)
            tolerance = 1e-9 if f < 3 else 0.1
            assert risks(np.zeros((f, 1)), np.full(f, weight))[0] == pytest.approx(exact, rel=tolerance)


def test_a_census_has_the_risk_of_its_classes() -> None:
    np.testing.assert_allclose(risks(np.array([[1], [1], [2]]), np.ones(3)), [0.5, 0.5, 1])
    with pytest.raises(InputError, match="positive"):
        risks(np.ones((2, 1)), np.array([1.0, 0.0]))
    with pytest.raises(ParameterError, match="weights"):
        risks(np.ones((2, 1)), np.ones(3))


@pytest.mark.parametrize("weight", [1.0, 1 + 1e-12, 1 + 1e-9, 1 + 1e-7, 1.001, 1.5, 40.0])
@pytest.mark.parametrize("f", [1, 2])
def test_individual_risk_of_weights_near_one(f: int, weight: float) -> None:
    """E[1 / F] is the integral of G(s) / s over (0, 1), G the generating function of the negative binomial."""
    p = 1 / weight
    expected = quad(lambda s: s ** (f - 1) * (p / (1 - (1 - p) * s)) ** f, 0, 1)[0]
    assert risks(np.zeros((f, 1), dtype=int), np.full(f, weight)) == pytest.approx(expected, abs=1e-10)


def test_a_missing_value_is_no_value() -> None:
    import pandas as pd

    rng = np.random.default_rng(3)
    quasi, sensitive = rng.integers(0, 30, (300, 1)), rng.integers(-1, 3, (300, 2))
    sensitive[quasi[:, 0] == 4, 1] = -1  # a class in which nobody has a value
    frame = pd.DataFrame(sensitive, columns=["a", "b"]).mask(sensitive < 0).assign(q=quasi[:, 0])
    expected = frame.groupby("q")[["a", "b"]].nunique().min()
    found = l_diversity(quasi, sensitive, names=["a", "b"])
    assert found.parts[0].values == {"a": expected.a, "b": 0}
    assert found.value == 0
    shares = frame.groupby("q").a.value_counts(normalize=True)
    assert found.details["commonest_share_by_column"]["a"] == pytest.approx(shares.max())
    assert l_diversity(quasi, np.full((300, 1), -1)).value == 0
