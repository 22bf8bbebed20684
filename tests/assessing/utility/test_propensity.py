"""Propensity scores: published values of R's synthpop, scikit-learn, statsmodels, and extremes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.tree import DecisionTreeClassifier
from statsmodels.api import Logit

from gpuanon.assessing.utility.propensity.class_tree import class_shares
from gpuanon.assessing.utility.propensity.pmse import (
    pmse_cart,
    pmse_logit,
    propensity,
    propensity_ks,
    propensity_wilcoxon,
)
from gpuanon.assessing.utility.propensity.scores import fitted
from gpuanon.errors import ParameterError

MODELS = ("logit", "cart")


def _tables(seed: int = 1, n: int = 400) -> tuple[np.ndarray, np.ndarray, list[bool]]:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=2 * n), rng.integers(0, 4, size=2 * n), rng.normal(size=2 * n)])
    return X[:n], X[n:] + np.array([0.3, 0, 0]), [False, True, False]


def test_logit_scores_equal_statsmodels() -> None:
    X, Y, flags = _tables()
    both = np.concatenate([X, Y])
    design = np.column_stack([np.ones(800), both[:, [0, 2]], *(both[:, 1] == level for level in (1, 2, 3))]).astype(
        float
    )
    expected = Logit(np.repeat([0, 1], 400), design).fit(disp=0).predict()
    found = propensity(X, Y, "logit", flags)
    np.testing.assert_allclose(found.scores, expected, atol=1e-8)
    assert found.df == 5
    measured = pmse_logit(X, Y, categorical=flags)
    assert measured.value == pytest.approx(np.mean((expected - 0.5) ** 2))
    assert measured.to_json()["expected"] == pytest.approx(5 * 0.125 / 800)


def test_a_collinear_column_costs_no_degree_of_freedom() -> None:
    X, Y, _ = _tables()
    doubled = [np.column_stack([table, table[:, 0] * 2 + 1]) for table in (X, Y)]
    assert propensity(*doubled, "logit").df == 3
    assert pmse_logit(*doubled).value == pytest.approx(pmse_logit(X, Y).value, rel=1e-9)


def test_an_unpruned_numeric_tree_equals_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(500, 3)), rng.integers(0, 2, size=500)
    # Large leaves: in small ones two columns often gain exactly the same, and either may be taken.
    theirs = DecisionTreeClassifier(min_samples_leaf=25, min_samples_split=75, random_state=0).fit(X, y)
    # A price of −1 per split keeps every split; pure nodes cannot gain and are not split by either.
    ours = class_shares(X, y.astype(float), [False] * 3, smallest=25, complexity=-1.0)
    np.testing.assert_allclose(ours, theirs.predict_proba(X)[:, 1])


def test_a_split_of_categories_is_the_best_of_all_divisions() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 6, size=400)
    y = (rng.random(400) < np.array([0.1, 0.8, 0.3, 0.9, 0.2, 0.5])[x]).astype(float)

    def gini(rows: np.ndarray) -> float:
        return len(rows) * 2 * rows.mean() * (1 - rows.mean()) if len(rows) else 0.0

    divisions = (np.array([(bits >> level) & 1 for level in range(6)], dtype=bool)[x] for bits in range(1, 63))
    best = min(gini(y[left]) + gini(y[~left]) for left in divisions)
    shares = class_shares(x[:, None].astype(float), y, [True], smallest=100, complexity=0.0)
    assert len(np.unique(shares)) == 2
    assert sum(gini(y[shares == share]) for share in np.unique(shares)) == pytest.approx(best)


def test_extremes() -> None:
    X, Y, flags = _tables()
    far = Y + np.array([100, 0, 0])
    for measure in (pmse_logit, pmse_cart):
        assert measure(X, X.copy(), categorical=flags).value == pytest.approx(0, abs=1e-12)
        assert measure(X, far, categorical=flags).value == pytest.approx(0.25, abs=1e-6)
    for model in MODELS:
        assert propensity_ks(X, X.copy(), model=model, categorical=flags).value == pytest.approx(0)
        assert propensity_wilcoxon(X, X.copy(), model=model, categorical=flags).value == pytest.approx(0)
        assert propensity_ks(X, far, model=model, categorical=flags).value == 1
        assert propensity_wilcoxon(X, far, model=model, categorical=flags).value == 1


def test_ks_and_wilcoxon_equal_scipy() -> None:
    X, Y, flags = _tables()
    for model in MODELS:
        scores = propensity(X, Y, model, flags).scores  # type: ignore[arg-type]
        expected = stats.ks_2samp(scores[:400], scores[400:]).statistic
        assert propensity_ks(X, Y, model=model, categorical=flags).value == pytest.approx(expected)  # type: ignore[arg-type]
        u = stats.mannwhitneyu(scores[:400], scores[400:]).statistic
        measured = propensity_wilcoxon(X, Y, model=model, categorical=flags)  # type: ignore[arg-type]
        assert measured.details["U"] == pytest.approx(u)


def test_ratio_is_one_for_draws_from_the_original_and_two_for_an_independent_sample() -> None:
    independent, drawn = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, Y = rng.normal(size=(300, 5)), rng.normal(size=(300, 5))
        independent.append(pmse_logit(X, Y).details["ratio"])
        drawn.append(pmse_logit(X, X[rng.integers(0, 300, 300)]).details["ratio"])
    # 40 means of chi-squared with 5 degrees of freedom over 5: deviation 0.1, and 0.2 for twice that.
    assert np.mean(drawn) == pytest.approx(1, abs=0.4)
    assert np.mean(independent) == pytest.approx(2, abs=0.8)


def test_permutations_compare_with_chance() -> None:
    X, Y, flags = _tables(n=150)
    far = Y + np.array([1, 0, 0])
    apart = pmse_cart(X, far, categorical=flags, permutations=9)
    assert apart.details["ratio"] > 1.2  # type: ignore[operator]
    assert apart.details["permuted_share"] == 0.1
    paired = pmse_cart(X, far, categorical=flags, permutations=9, link=np.arange(150))
    assert paired.details["permuted_share"] == 0.1


def test_missing_values_take_part() -> None:
    X, Y, flags = _tables()
    gaps = Y.copy()
    gaps[:200, [0, 1]] = np.nan
    for measure in (pmse_logit, pmse_cart):
        assert measure(X, gaps, categorical=flags).value > 0.05
    with pytest.raises(ParameterError, match="categorical"):
        pmse_logit(X, Y, categorical=[True])
    with pytest.raises(ParameterError, match="columns"):
        pmse_logit(X, Y[:, :2])


def _social_diagnosis(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, list[bool], list[str]]:
    """The ten columns of a synthetic version and of the original; the two kinds of missing income are a column."""
    with open(folder / "sd2011" / f"{name}_seed34567.csv", newline="") as file:
        synthetic = list(csv.DictReader(file))
    with open(folder / "sd2011" / "sd2011.csv", newline="") as file:
        original = list(csv.DictReader(file))
    names = list(synthetic[0])
    columns, flags, labels = [], [], []
    for column in names:
        texts = np.array([row[column] for row in (*original, *synthetic)])
        texts[texts == "NA"] = ""
        if column in ("income", "age", "height", "weight"):
            values = np.array([float(text) if text else np.nan for text in texts])
            if column == "income":
                kind = np.where(np.isnan(values), 2.0, np.where(values < 0, 1.0, 0.0))
                columns.append(kind)
                flags.append(True)
                labels.append("income kind")
                values = np.where(kind > 0, 0.0, values)
            columns.append(values)
            flags.append(False)
        else:
            columns.append(np.unique(texts, return_inverse=True)[1].astype(float))
            flags.append(True)
        labels.append(column)
    X = np.column_stack(columns)
    return X[: len(original)], X[len(original) :], flags, labels


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "cart"),
    [("syn_cart", 0.008475425), ("syn_parametric", 0.02466841)],
)
def test_published_values_of_synthpop(data_folder: Path, name: str, cart: float) -> None:
    X, Y, flags, _ = _social_diagnosis(data_folder, name)
    assert pmse_cart(X, Y, categorical=flags).value == pytest.approx(cart, rel=1e-6)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "ratios"),
    [
        ("syn_cart", (0.548971, 0.435544, 2.295031, 1.816023, 1.211179, 1.168630)),
        ("syn_parametric", (0.5489709, 0.3552980, 0.4053007, 0.8958318, 1.8143655, 0.5641352)),
    ],
)
def test_published_one_way_ratios_of_synthpop(data_folder: Path, name: str, ratios: tuple[float, ...]) -> None:
    X, Y, _, labels = _social_diagnosis(data_folder, name)
    for column, ratio in zip(("sex", "edu", "socprof", "trust", "smoke", "region"), ratios, strict=True):
        j = labels.index(column)
        measured = pmse_logit(X[:, [j]], Y[:, [j]], categorical=[True])
        assert measured.details["ratio"] == pytest.approx(ratio, rel=1e-5)


@pytest.mark.data
def test_published_logit_of_synthpop(data_folder: Path) -> None:
    X, Y, flags, _ = _social_diagnosis(data_folder, "syn_cart")
    measured = pmse_logit(X, Y, categorical=flags)
    assert measured.value == pytest.approx(0.0006421612, rel=1e-6)
    assert measured.details["df"] == 42
    assert measured.details["ratio"] == pytest.approx(1.223164, rel=1e-6)


@pytest.mark.parametrize("sampled", [False, True])
def test_a_shared_fit_gives_the_figures_of_a_fit_for_each_measure(sampled: bool) -> None:
    before, after, categorical = _tables()
    shared = fitted(before, after, "logit", categorical, sampled=sampled)
    for measure in (pmse_logit, propensity_ks, propensity_wilcoxon):
        own = measure(before, after, categorical=categorical, sampled=sampled)
        assert measure(before, after, categorical=categorical, sampled=sampled, fit=shared).to_json() == own.to_json()


def test_scores_that_differ_by_rounding_tie() -> None:
    """Columns permuted by themselves leave a main-effects logit nothing: all scores are 1 / 2, but for rounding."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        original = rng.normal(size=(2000, 4))
        release = np.column_stack([rng.permutation(column) for column in original.T])
        assert propensity_ks(original, release).value == 0
        assert propensity_wilcoxon(original, release).value == 0


def test_a_level_that_one_table_lacks_costs_a_degree_of_freedom() -> None:
    rng = np.random.default_rng(0)
    original, release = rng.integers(0, 3, size=(2, 20_000, 1)).astype(float)
    release[-5:] = 3.0
    design = np.unique(np.concatenate([original, release]), return_inverse=True)[1].reshape(-1, 1) == np.arange(4)
    found = pmse_logit(original, release, categorical=[True])
    assert found.details["df"] == np.linalg.matrix_rank(design.astype(float)) - 1
