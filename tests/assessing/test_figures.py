"""The types that measures return: labelled, and strict JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gpuanon.assessing.columns import column_names, constant_note, fold, fold_pairs, largest_absolute
from gpuanon.assessing.evidence import TableMoments
from gpuanon.assessing.figures import Beside, By, ByPair, ConfidenceInterval, Distribution, Measured, join, strict
from gpuanon.errors import ParameterError


def test_a_value_by_column_names_the_worst() -> None:
    measured = Measured(0.0002, parts=(By("column", {"age": 0.0001, "income": 0.0009, "sex": None}),))
    assert measured.to_json() == {
        "value": 0.0002,
        "by_column": {"age": 0.0001, "income": 0.0009, "sex": None},
        "worst": "income",
    }
    assert measured.worst == ("income", 0.0009)
    assert By("column", {"age": 0.9, "income": 0.1}, "smallest").worst == ("income", 0.1)
    assert By("column", {"age": None, "income": float("nan")}).to_json()["worst"] is None


def test_a_value_by_pair_is_an_object_of_objects() -> None:
    pairs = ByPair({("age", "income"): 0.1, ("age", "sex"): 0.4, ("income", "sex"): None})
    assert Measured(0.25, parts=(pairs,)).to_json() == {
        "value": 0.25,
        "by_pair": {"age": {"income": 0.1, "sex": 0.4}, "income": {"sex": None}},
        "worst": ["age", "sex"],
    }
    assert pairs.worst == ("age × sex", 0.4)


def test_the_first_part_gives_the_worst() -> None:
    parts = (
        Distribution.over("records", np.arange(3.0)),
        By("column", {"age": 1.0}),
        By("estimator", {"mean": 2.0, "median": 3.0}),
    )
    found = Measured(1.0, parts=parts).to_json()
    assert found["worst"] == "age"
    assert found["by_estimator"] == {"mean": 2.0, "median": 3.0}
    assert Measured(1.0, parts=parts).worst == ("age", 1.0)


def test_a_distribution_has_named_quantiles() -> None:
    values = np.random.default_rng(1).normal(size=999)
    found = Measured(0.0, parts=(Distribution.over("classes", values),)).to_json()["distribution"]
    assert found["of"] == "classes"
    assert found["count"] == 999
    assert found["mean"] == pytest.approx(values.mean())
    for name, level in (("min", 0), ("q01", 0.01), ("q25", 0.25), ("median", 0.5), ("q99", 0.99), ("max", 1)):
        assert found[name] == pytest.approx(np.quantile(values, level))


def test_intervals_baselines_and_notes_have_places_of_their_own() -> None:
    measured = Measured(
        0.3,
        {"records": 7},
        "a note",
        interval=ConfidenceInterval(0.1, 0.5),
        beside=(Beside("unmasked", "unmasked", 0.9), Beside("guess", "a blind guess", None)),
    )
    assert measured.to_json() == {
        "value": 0.3, "interval": [0.1, 0.5], "interval_level": 0.95, "unmasked": 0.9, "guess": None,
        "records": 7, "note": "a note",
    }  # fmt: skip


def test_json_is_strict() -> None:
    measured = Measured(float("inf"), {"a": float("nan"), "b": [np.float64(1), np.inf], "c": {"d": np.int64(3)}})
    text = json.dumps(measured.to_json(), allow_nan=False)
    assert json.loads(text) == {"value": None, "a": None, "b": [1.0, None], "c": {"d": 3}}
    assert strict(np.bool_(True)) is True
    assert strict("text") == "text"
    assert join(None, "one", None, "two") == "one; two"
    assert join(None) is None


def test_features_fold_to_the_columns_of_the_table() -> None:
    names = ["sex", "sex", "age"]
    values = np.array([0.1, np.nan, -0.7])
    assert fold(values, names) == {"sex": 0.1, "age": -0.7}
    assert fold(np.array([1.0, 2.0, 4.0]), names, np.sum) == {"sex": 3.0, "age": 4.0}
    assert fold(np.array([1.0, -2.0, 4.0]), names, largest_absolute) == {"sex": -2.0, "age": 4.0}
    assert fold(np.full(3, np.nan), names) == {"sex": None, "age": None}
    matrix = np.array([[0, 0.5, 0.1], [0, 0, 0.9], [0, 0, 0]])
    assert fold_pairs(matrix, names) == {("sex", "sex"): 0.5, ("sex", "age"): 0.9}
    assert fold_pairs(np.full((3, 3), np.nan), names) == {("sex", "sex"): None, ("sex", "age"): None}
    assert column_names(None, 2) == ("column 1", "column 2")
    with pytest.raises(ParameterError, match="names: one per feature"):
        column_names(["a"], 2)


def test_constant_columns_are_named_when_all_their_features_are_constant() -> None:
    names = ["sex", "sex", "age", "income"]
    before = np.array([True, True, False, True])
    after = np.array([False, True, False, False])
    assert constant_note(names, before, after) == (
        "constant in the original and left out: age; constant in the release: income"
    )
    assert constant_note(names, np.ones(4, bool), np.ones(4, bool)) is None


def test_moments_merge_to_those_of_all_rows_whatever_the_mean() -> None:
    X = np.random.default_rng(2).normal(size=(500, 3)) @ np.array([[1, 2, 0], [0, 1, 1], [0, 0, 1]]) + [0, 1e9, -5]
    whole, merged = TableMoments.of(X), TableMoments.over(X[at : at + 73] for at in range(0, 500, 73))
    np.testing.assert_allclose(merged.mean, X.mean(axis=0), rtol=1e-12)
    # A mean of 1e9 leaves 16 - 9 digits of each value.
    np.testing.assert_allclose(merged.variance, X.var(axis=0), rtol=1e-6)
    np.testing.assert_allclose(merged.correlation, np.corrcoef(X.T), atol=1e-6)
    assert (whole.low == merged.low).all()
    constant = TableMoments.over([np.full((3, 1), 0.1), np.full((2, 1), 0.1)])
    assert constant.variance[0] == 0
    assert np.isnan(constant.correlation).all()
    with pytest.raises(ParameterError, match="at least one"):
        TableMoments.of(X[:0])
