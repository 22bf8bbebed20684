"""SUDA2 against the scores that sdcMicro publishes for small tables, and against a naive DIS score."""

from __future__ import annotations

import numpy as np
import pytest

from gpuanon.assessing.risk.suda2 import dis_scores, suda2, uniques

# sdcMicro's own examples (tests/testthat/test_suda2.R, version 5.7): rows as strings of level codes.
GUIDELINE = (
    ["UFiE", "UFiE", "UFpN", "UMcE", "RFcU", "UMcE", "UFqN", "UMoU", "UFiN", "UFiN"],
    [0, 0, 6, 0, 12, 0, 6, 10, 0, 0],
)
BOOK = (["2m+h", "2m+h", "2m-h", "2m-h", "2f-u", "2f-h", "2f-m", "6m-u"], [0, 0, 0, 0, 4, 2, 6, 8])


def codes_of(rows):
    return np.array([[ord(letter) for letter in row] for row in rows])


@pytest.mark.parametrize(("rows", "scores"), [GUIDELINE, BOOK])
def test_scores_are_those_of_sdcmicro(rows, scores):
    assert uniques(codes_of(rows), "abcd", 4).scores.tolist() == scores


@pytest.mark.parametrize("order", ["abc", "acb", "cab", "cba"])
def test_contributions_are_those_of_sdcmicro(order):
    columns = {"a": [2, 1, 1], "b": [0, 3, 0], "c": [0, 6, 0]}
    found = suda2(np.array([columns[name] for name in order]).T, names=list(order), size=3).to_json()
    assert found["by_column"] == {name: {"a": 0.5, "b": 0.375, "c": 0.375}[name] for name in order}


def test_the_figure_names_the_sets_and_counts_records_once():
    found = suda2(codes_of(GUIDELINE[0]), names=list("RGEL"), size=2)
    assert found.details["records"] == 4  # those with a score: each has a set of one or two columns
    assert found.value == 0.4
    assert found.details["share_up_to_columns"] == {"1": 0.4, "2": 0.4}
    assert found.to_json()["by_set"]["E"] == 0.3


def test_by_default_few_columns_are_the_value_and_all_sizes_have_scores(monkeypatch):
    """A record has a score by sets of any size just where it is alone on all columns."""
    rows, names = np.random.default_rng(3).integers(0, 2, (60, 6)), list("abcdef")
    found, every, three = (suda2(rows, names=names, **size) for size in ({}, {"size": 6}, {"size": 3}))
    assert found.details["scored_records"] == (np.unique(rows, axis=0, return_counts=True)[1] == 1).sum()
    assert found.details["scored_records"] > found.details["records"]
    assert found.value == three.value < every.value
    assert found.details["mean_score"] == every.details["mean_score"]
    monkeypatch.setattr("gpuanon.assessing.risk.suda2.CHEAP", 60)
    assert suda2(rows, names=names).to_json() == three.to_json()


def test_nobody_is_singled_out_in_equal_records():
    found = suda2(np.zeros((6, 3), dtype=np.int64), names=list("abc"))
    assert found.value == 0
    assert found.to_json()["mean_dis_score"] == 0


def test_a_null_is_in_no_set():
    assert uniques(np.array([[-1, 0], [0, 0], [0, 0]]), "ab", 2).scores.tolist() == [0, 0, 0]


def test_dis_scores_follow_the_formula():
    rows = codes_of(GUIDELINE[0])
    scores, f, p = np.array(GUIDELINE[1], dtype=float), 0.1, 4
    alone, paired = 4, 2 * 3  # four records alone on all columns, three pairs
    dis = alone * f / (alone * f + paired * (1 - f))
    q = 1 + (8 - p) / 20
    adjust = sum(1 / score**q for score in scores if score)
    expected = [1 / (1 + (alone / dis - alone) / (score**q * adjust)) if score else 0 for score in scores]
    np.testing.assert_allclose(dis_scores(scores, rows, f), expected, rtol=1e-12)
    assert suda2(rows, names=list("RGEL"), size=4, fraction=f).to_json()["mean_dis_score"] == pytest.approx(
        np.mean(expected)
    )


def test_the_fraction_of_the_recipe_goes_before_that_of_the_weights():
    rows = codes_of(BOOK[0])
    fractions = [suda2(rows, names=list("abcd"), **given).details["sampling_fraction"] for given in
                 ({}, {"known": 0.2}, {"known": 0.2, "fraction": 0.3})]  # fmt: skip
    assert fractions == [0.01, 0.2, 0.3]
