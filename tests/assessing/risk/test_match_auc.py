"""The matching attack: rates, AUC against scikit-learn, the most confident tenth, noise stripping."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from gpuanon.assessing.risk.match_auc import auc_of, match, match_auc, most_confident, roc_area, rounded
from gpuanon.assessing.risk.noise_stripping import noise_stripping
from gpuanon.errors import InputError, ParameterError


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
@example([(0, True), (0, False)])
@example([(1, True), (2, False), (2, True), (3, False)])
def test_area_equals_scikit_learn(records: list[tuple[int, bool]]) -> None:
    values = np.array([float(value) for value, _ in records])
    right = np.array([float(flag) for _, flag in records])
    if 0 < right.sum() < len(right):
        assert roc_area(values, right) == pytest.approx(roc_auc_score(right, -values))
    else:
        assert np.isnan(roc_area(values, right))


def test_area_with_probabilities_is_the_area_of_the_repeated_records() -> None:
    values, right = np.array([1.0, 2.0, 2.0, 3.0]), np.array([0.75, 0.5, 0.0, 0.25])
    repeated = np.repeat(values, 4)
    flags = np.concatenate([np.arange(4) < 4 * share for share in right])
    assert roc_area(values, right) == pytest.approx(roc_auc_score(flags, -repeated))


def test_the_most_confident_tenth_by_hand() -> None:
    values = np.arange(20.0)
    right = np.where(values < 1, 1.0, 0.0)
    assert most_confident(values, right) == 0.5
    # All tied: any tenth is as good as any other, so its expected success is the mean.
    assert most_confident(np.ones(20), right) == pytest.approx(1 / 20)


def test_a_copy_is_matched_always_and_has_no_auc() -> None:
    A = np.random.default_rng(1).normal(size=(100, 5))
    order = np.random.default_rng(2).permutation(100)
    attack = match(A, A[order], order)
    assert (attack.right == 1).all()
    pooled = auc_of([attack])
    assert np.isnan(pooled.value)
    assert pooled.details["rate"] == 1
    assert "no wrong matches" in str(pooled.note)
    with pytest.raises(InputError, match="no wrong matches"):
        match_auc(A, A[order], order)


def test_ties_are_matched_by_chance() -> None:
    A = np.random.default_rng(3).normal(size=(90, 4))
    groups = np.repeat(np.arange(30), 3)
    centres = np.stack([A[groups == g].mean(axis=0) for g in range(30)])[groups]
    order = np.random.default_rng(4).permutation(90)
    right = match(A, centres[order], order).right
    D = ((A[:, None] - centres[order][None]) ** 2).sum(axis=2)
    tied = D.min(axis=1, keepdims=True) * (1 + 1e-12) >= D
    own = tied[np.arange(90), np.argsort(order)]
    np.testing.assert_allclose(right, own / tied.sum(axis=1))
    assert right.mean() <= 1 / 3 + 1e-12


def test_unrelated_data_are_matched_by_accident_only() -> None:
    rng = np.random.default_rng(5)
    A, B = rng.normal(size=(500, 6)), rng.normal(size=(500, 6))
    attack = match(A, B, np.arange(500))
    assert attack.right.mean() < 0.02


def test_noise_gives_right_matches_that_can_be_told_apart() -> None:
    rng = np.random.default_rng(6)
    A = rng.normal(size=(800, 12))
    measured = match_auc(A, A + rng.normal(size=A.shape) * 0.6, np.arange(800))
    assert 0.6 < measured.details["rate"] < 0.98  # type: ignore[operator]
    assert measured.details["ambiguity"]["auc"] > 0.8  # type: ignore[index, call-overload, operator]
    assert measured.value == max(measured.details[name]["auc"] for name in ("distance", "ambiguity", "uncertainty"))  # type: ignore[index, call-overload, type-var]


def test_added_rows_dropped_records_and_several_copies() -> None:
    A = np.array([[0.0], [10.0], [20.0], [30.0]])
    release = np.array([[0.1], [0.1], [10.1], [-5.0], [50.0]])
    link = np.array([0, 0, 1, -1, 3])
    right = match(A, release, link, k=2).right
    assert np.isnan(right[2]), "record 2 was not released"
    np.testing.assert_array_equal(right[[0, 1, 3]], [1, 1, 0])
    assert "1 original records were not released" in str(auc_of([match(A, release, link, k=2)]).note)
    with pytest.raises(ParameterError, match="link: one entry"):
        match(A, release, link[:3])
    with pytest.raises(ParameterError, match="no released row"):
        auc_of([match(A, release, np.full(5, -1))])


def test_pooling_attacks_joins_their_records() -> None:
    rng = np.random.default_rng(7)
    A = rng.normal(size=(200, 5))
    attacks = [match(A, A + rng.normal(size=A.shape) * 0.8, np.arange(200)) for _ in range(3)]
    pooled = auc_of(attacks)
    values = np.concatenate([attack.prediction.distance for attack in attacks])
    right = np.concatenate([attack.right for attack in attacks])
    assert pooled.details["distance"]["auc"] == pytest.approx(roc_auc_score(right > 0.5, -values))  # type: ignore[index, call-overload]


def test_stripping_removes_noise_off_the_leading_components() -> None:
    rng = np.random.default_rng(8)
    A = rng.normal(size=(600, 3)) @ rng.normal(size=(3, 30))
    noisy = A + rng.normal(size=A.shape)
    details = noise_stripping(A, noisy, np.arange(600), components=3, standardise=False).details
    U, D, V = np.linalg.svd(noisy - noisy.mean(axis=0), full_matrices=False)
    stripped = noisy.mean(axis=0) + (U[:, :3] * D[:3]) @ V[:3]
    assert details["error_after"] == pytest.approx(np.sqrt(np.mean((stripped - A) ** 2)))
    # Independent noise spreads over 30 directions evenly: 3 of them keep a tenth of its square.
    assert np.mean((stripped - A) ** 2) < 0.13 * np.mean((noisy - A) ** 2)
    assert details["error_before"] == pytest.approx(np.sqrt(np.mean((noisy - A) ** 2)))


def test_the_attack_beats_plain_matching_on_data_of_low_rank() -> None:
    rng = np.random.default_rng(9)
    A = rng.normal(size=(800, 4)) @ rng.normal(size=(4, 30))
    noisy = A + rng.normal(size=A.shape) * A.std(axis=0) * 0.7
    measured = noise_stripping(A, noisy, np.arange(800))
    assert measured.value > measured.to_json()["baseline"] + 0.02  # type: ignore[operator]
    assert measured.details["error_after"] < 0.6 * measured.details["error_before"]  # type: ignore[operator]
    with pytest.raises(ParameterError, match="components"):
        noise_stripping(A, noisy, np.arange(800), components=31)


def test_records_that_differ_by_rounding_tie() -> None:
    right = np.array([1.0, 0.0, 1.0, 0.0])
    values = np.array([0.1 + 0.2, 0.3, 0.3, 0.1 + 0.2])
    assert roc_area(rounded(values), right) == roc_auc_score(right, np.zeros(4)) == 0.5
