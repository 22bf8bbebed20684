"""Prediction distance, ambiguity and uncertainty against the definitions of section 3.1 of Lasko's thesis."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gpuanon.assessing.ks_distance import ks_distance
from gpuanon.assessing.risk.prediction import (
    predict,
    prediction_ambiguity,
    prediction_distance,
    prediction_uncertainty,
    standardised,
)
from gpuanon.errors import ParameterError


def _naive(A: np.ndarray, B: np.ndarray, k: int) -> np.ndarray:
    """The three measures of each row of A, one record at a time."""
    rows = []
    for a in A:
        s = np.array([np.sqrt(np.mean((a - b) ** 2)) for b in B])
        order = np.argsort(s, kind="stable")[:k]
        rows.append(
            (s[order[0]], s[order[0]] / s[order[-1]], np.mean([np.var(B[order, j], ddof=1) for j in range(A.shape[1])]))
        )
    return np.array(rows)


def test_the_three_measures_equal_their_definitions() -> None:
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(60, 7)), rng.normal(size=(80, 7))
    for k in (2, 5):
        found = predict(A, B, k)
        ours = np.stack([found.distance, found.ambiguity, found.uncertainty], axis=1)
        np.testing.assert_allclose(ours, _naive(A, B, k), rtol=1e-12)


def test_a_copy_has_distance_and_ambiguity_zero() -> None:
    A = np.random.default_rng(2).normal(size=(50, 4))
    found = predict(A, A[::-1].copy(), 5)
    assert (found.distance == 0).all()
    assert (found.ambiguity == 0).all()
    assert (found.uncertainty > 0).all()
    np.testing.assert_array_equal(found.nearest, np.arange(50)[::-1])


def test_k_equal_candidates_have_ambiguity_one_and_no_uncertainty() -> None:
    A = np.random.default_rng(3).normal(size=(40, 4))
    found = predict(A, np.repeat(A.mean(axis=0, keepdims=True), 40, axis=0), 5)
    assert (found.ambiguity == 1).all()
    assert (found.uncertainty == 0).all()
    assert found.copies == 0


def test_k_exact_copies_count_as_a_tie_and_that_is_said() -> None:
    A = np.random.default_rng(4).normal(size=(10, 3))
    measured = prediction_ambiguity(A, np.repeat(A, 5, axis=0), k=5)
    assert measured.value == 1
    assert measured.details["tied_copies"] == 10
    assert "0/0" in str(measured.note)
    assert predict(A, np.repeat(A, 4, axis=0), 5).ambiguity.max() == 0


def test_independent_data_of_many_columns_are_ambiguous_and_far() -> None:
    rng = np.random.default_rng(5)
    A, B = rng.normal(size=(300, 40)), rng.normal(size=(300, 40))
    assert prediction_distance(A, B).value > 0.8
    assert prediction_ambiguity(A, B).value > 0.85
    assert prediction_uncertainty(A, B).value > 0.4


def test_standardising_makes_the_measures_free_of_scale() -> None:
    rng = np.random.default_rng(6)
    A, B = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    scale, shift = np.array([1e3, 1e-3, 1.0]), np.array([5.0, -1.0, 0.0])
    for measure in (prediction_distance, prediction_ambiguity, prediction_uncertainty):
        assert measure(A * scale + shift, B * scale + shift).value == pytest.approx(measure(A, B).value, rel=1e-9)


def test_a_constant_column_is_centred_only() -> None:
    A, B = standardised(np.array([[1.0, 0.1], [3.0, 0.1], [2.0, 0.1]]), np.array([[2.0, 2.1]]))
    np.testing.assert_allclose(A, [[-(1.5**0.5), 0], [1.5**0.5, 0], [0, 0]], atol=1e-15)
    np.testing.assert_allclose(B, [[0, 2]], atol=1e-15)


def test_beyond_the_limit_a_sample_is_taken_and_its_error_stated() -> None:
    rng = np.random.default_rng(7)
    A, B = rng.normal(size=(3000, 3)), rng.normal(size=(3000, 3))
    everything, sample = predict(A, B, 3), predict(A, B, 3, limit=1000)
    assert len(sample.rows) == 333
    assert everything.share_error == 0
    np.testing.assert_array_equal(sample.distance, everything.distance[sample.rows])
    for name in ("distance", "ambiguity", "uncertainty"):
        assert ks_distance(getattr(sample, name), getattr(everything, name)) <= sample.share_error
    measured = prediction_distance(A, B, prediction=sample)
    assert measured.details["share_error"] == sample.share_error
    assert "random sample of 333 of 3000" in str(measured.note)
    assert measured.interval is not None
    assert measured.interval.low < np.median(everything.distance) < measured.interval.high
    assert prediction_distance(A, B, prediction=everything).interval is None


def test_details_are_ready_for_json_and_hold_the_distribution() -> None:
    rng = np.random.default_rng(8)
    A, B = rng.normal(size=(30, 3)), rng.normal(size=(30, 3))
    measured = prediction_distance(A, B, standardise=False)
    read = json.loads(json.dumps(measured.to_json()))
    distance = predict(A, B).distance
    found = read["distribution"]
    assert found["of"] == "original records"
    assert found["count"] == 30
    for name, level in (("min", 0), ("q05", 0.05), ("q95", 0.95), ("max", 1)):
        assert found[name] == pytest.approx(np.quantile(distance, level))
    assert read["value"] == found["median"] == pytest.approx(np.median(distance))


def test_too_few_candidates_are_refused() -> None:
    A = np.ones((4, 2))
    with pytest.raises(ParameterError, match="k: 2 or more"):
        predict(A, A, 1)
    with pytest.raises(ParameterError, match="release: at least k = 5 records are needed, got 4"):
        predict(A, A, 5)
    with pytest.raises(ParameterError, match="at least one record"):
        predict(A[:0], A, 2)


def test_uncertainty_by_column_and_weighted_from_the_definition():
    rng = np.random.default_rng(31)
    X, Y = rng.normal(size=(2, 40, 3))
    names, k = ["a", "b", "b"], 4  # b is a category of two features
    rows = []
    for x in X:
        near = Y[np.argsort(((Y - x) ** 2).sum(axis=1), kind="stable")[:k]]
        variance = near.var(axis=0, ddof=1)
        rows.append([variance[0], (variance[1] + variance[2]) / 2])
    plain = prediction_uncertainty(X, Y, k=k, standardise=False, names=names)
    medians = np.median(rows, axis=0)
    assert plain.to_json()["by_column"] == pytest.approx({"a": medians[0], "b": medians[1]})
    assert plain.value == pytest.approx(np.median(np.array(rows) @ [1 / 3, 2 / 3]))
    weighted = prediction_uncertainty(X, Y, k=k, standardise=False, names=names, weights={"a": 3, "b": 1})
    assert weighted.value == pytest.approx(np.median(np.array(rows) @ [0.75, 0.25]))
    alone = prediction_uncertainty(X, Y, k=k, standardise=False, names=names, weights={"b": 2})
    assert alone.value == pytest.approx(medians[1])
    for bad in ({"c": 1.0}, {"a": -1.0, "b": 2.0}, {"a": 0.0}):
        with pytest.raises(ParameterError, match="weights"):
            prediction_uncertainty(X, Y, k=k, names=names, weights=bad)
