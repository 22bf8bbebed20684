"""Post-randomisation: the algebra of invariant matrices, drawn frequencies, strata."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError, RecipeError
from gpuanon.masking.operations.transition import Transition, draw_values, invariant, spread
from tests.support.every import recipe, registry

KEY = b"a key for the tests of post-randomisation"
COLUMNS = ["sex", "education", "region"]


@pytest.mark.parametrize("stay", [0.0, 0.3, 1.0])
def test_an_invariant_matrix_keeps_the_expected_counts(stay):
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 50, (4, 6))
    counts[2] = 0
    P = rng.dirichlet(np.ones(6), (4, 6)) if stay == 0.3 else spread(counts, stay)
    R = invariant(P, counts)
    np.testing.assert_allclose(R.sum(axis=2), 1)
    assert (R >= 0).all()
    np.testing.assert_allclose(np.einsum("sv,svw->sw", counts, R), counts, atol=1e-9)


def test_values_are_drawn_by_their_chances():
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(5), (2, 5))
    n = 40_000
    codes, stratum = rng.integers(0, 5, n), rng.integers(0, 2, n)
    codes[:10] = -1
    drawn = draw_values(codes, stratum, np.cumsum(P, axis=2), Key(KEY).draws(np.arange(n)).uniform()[:, 0])
    assert (drawn[:10] == -1).all()
    for s in range(2):
        for v in range(5):
            rows = (codes == v) & (stratum == s)
            observed = np.bincount(drawn[rows], minlength=5)
            assert chisquare(observed, rows.sum() * P[s, v]).pvalue > 1e-4


def test_values_are_drawn_within_their_stratum_and_the_stratum_stays():
    table = registry(2000)
    mask = {"method": "pram", "stay": 0.3, "within": "sex", "columns": COLUMNS}
    release = gpuanon.protect(table, recipe(mask), rng=KEY, backend="numpy")
    before, after = table.take(release.link).to_pandas(), release.data.to_pandas()
    assert (before["sex"].astype(object).fillna("") == after["sex"].astype(object).fillna("")).all()
    for _, rows in before.groupby("sex", observed=True).groups.items():
        assert set(after.loc[rows, "region"].dropna()) <= set(before.loc[rows, "region"].dropna())
    same = (before["region"].astype(object) == after["region"].astype(object)).mean()
    expected = release.manifest["mask"][0]["expected_unchanged"]
    assert set(expected) == {"education", "region"}
    assert same == pytest.approx(expected["region"], abs=0.05)
    counts = before["region"].value_counts(), after["region"].value_counts()
    assert (counts[0] - counts[1]).abs().max() < 6 * np.sqrt(counts[0].max())
    assert release.manifest["guarantee"][0]["verified"] is None


def test_a_matrix_can_be_given_by_column():
    table = registry(200)
    values = table["sex"].drop_null().unique().to_pylist()
    swap = np.roll(np.eye(len(values)), 1, axis=1).tolist()
    mask = {"method": "pram", "invariant": False, "matrix": {"sex": swap}, "columns": ["sex"]}
    release = gpuanon.protect(table, recipe(mask), rng=KEY, backend="numpy")
    order = sorted(values)
    moved = {value: order[(at + 1) % len(order)] for at, value in enumerate(order)} | {None: None}
    before = table["sex"].take(release.link).to_pylist()
    assert release.data["sex"].to_pylist() == [moved[value] for value in before]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"within": "zip"}, "within: column 'zip'"),
        ({"matrix": {"zip": [[1.0]]}}, "matrix: column 'zip'"),
        ({"matrix": {"sex": [[1.0]]}}, "the matrix is not"),
        ({"matrix": {"sex": [[0.5, 0.4], [0.5, 0.5]]}}, "add up to 1"),
    ],
)
def test_wrong_settings_are_named(wrong, said):
    with pytest.raises(ParameterError, match=said):
        gpuanon.protect(registry(), recipe({"method": "pram", "columns": COLUMNS, **wrong}), rng=KEY, backend="numpy")


def test_what_the_engine_asks():
    operation = Transition()
    assert (operation.sees, operation.rows, operation.learns) == ("classes", "kept", True)
    assert operation.claims(5, [("a",)]) == ()


@pytest.mark.parametrize(
    "mask",
    [
        {"method": "pram", "invariant": False},
        {
            "groups": {"use": "classes"},
            "basis": {"use": "codes"},
            "operation": {"use": "transition", "invariant": False},
        },
    ],
)
def test_a_second_stage_is_left_out_only_where_there_is_one(mask):
    table = pd.DataFrame({"t": list("pqpq")})
    with pytest.raises(RecipeError, match="invariant: applies to a matrix"):
        gpuanon.protect(table, {"columns": {"t": {"role": "quasi"}}, "mask": [mask]}, backend="numpy")


def test_stay_is_the_chance_that_a_value_is_not_drawn_anew():
    """A value becomes each other one with (1 − stay) times its share: so few change, and the counts are kept."""
    rng = np.random.default_rng(8)
    table = pd.DataFrame({"t": rng.choice(list("pqrs"), 20_000, p=[0.4, 0.3, 0.2, 0.1])})
    rules = {"columns": {"t": {"role": "quasi"}}, "mask": [{"method": "pram", "stay": 0.8}]}
    release = gpuanon.protect(table, rules, rng=KEY, backend="numpy")
    shares = table["t"].value_counts(normalize=True).sort_index().to_numpy()
    seen = pd.crosstab(table["t"].to_numpy()[release.link], release.data["t"].to_numpy()).to_numpy()
    for line, stays in zip(seen, 0.8 * np.eye(4), strict=True):
        assert chisquare(line, line.sum() * (stays + 0.2 * shares)).pvalue > 1e-3
