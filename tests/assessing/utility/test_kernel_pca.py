"""Kernel-PCA utility against scikit-learn and SciPy, on extremes, and by Nyström."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import KernelPCA

from bench.studies.pair_plot import pair_plot
from gpuanon.assessing.utility.kernel_pca import components_of, kernel_pca, projected
from gpuanon.errors import ParameterError


@pytest.fixture(scope="module")
def tables() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(800, 5))  # bounded: a few outliers would be all of the variance of fourth powers
    X[:, 1] = 2 * X[:, 0] ** 2 - 1 + 0.1 * X[:, 1]
    return X[:400], X[400:]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"degree": 4}, {"kernel": "poly", "degree": 4, "gamma": 1, "coef0": 1}),
        ({"degree": 3}, {"kernel": "poly", "degree": 3, "gamma": 1, "coef0": 1}),
        ({"kernel": "rbf", "sigma": 2.0}, {"kernel": "rbf", "gamma": 1 / 8}),
    ],
)
def test_distances_equal_those_of_scikit_learns_scores(
    tables: tuple[np.ndarray, ...], ours: dict, theirs: dict
) -> None:
    X, Y = tables
    model = KernelPCA(6, **theirs).fit(X)
    before, after = model.transform(X), model.transform(Y)
    expected = [stats.ks_2samp(before[:, j], after[:, j]).statistic for j in range(6)]
    measured = kernel_pca(X, Y, share=1.0, most=6, **ours)
    np.testing.assert_allclose(list(measured.to_json()["by_component"].values()), expected, atol=1e-12)
    assert measured.value == pytest.approx(np.mean(expected))


def test_components_reach_the_share_of_variance(tables: tuple[np.ndarray, ...]) -> None:
    X, _ = tables
    full = components_of(X, share=1.0, most=399)
    assert full.cumulative[-1] == pytest.approx(1)
    found = components_of(X, share=0.99, most=399)
    count = len(found.variances)
    assert count > 3
    assert found.cumulative[-1] >= 0.99 > full.cumulative[count - 2]
    assert len(components_of(X, share=0.99, most=3).variances) == 3


def test_a_copy_is_at_distance_zero_and_other_data_far(tables: tuple[np.ndarray, ...]) -> None:
    X, _ = tables
    assert kernel_pca(X, np.random.default_rng(2).permutation(X)).value == pytest.approx(0, abs=1e-12)
    assert kernel_pca(X, X + 100).value > 0.9


def test_it_sees_what_correlations_do_not() -> None:
    angle = np.random.default_rng(3).uniform(0, 2 * np.pi, size=1200)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])  # uncorrelated, and far from independent
    X, Y = circle[:600], circle[600:]
    broken = np.random.default_rng(4).permuted(X, axis=0)
    measured = kernel_pca(X, broken, reference=Y)
    assert measured.value > 2 * measured.to_json()["reference"]
    json.dumps(measured.to_json(), allow_nan=False)


def test_landmarks_that_are_all_rows_change_nothing(tables: tuple[np.ndarray, ...]) -> None:
    X, Y = tables
    for options in ({"degree": 4}, {"kernel": "rbf"}):
        exact = components_of(X, share=1.0, most=8, **options)  # type: ignore[arg-type]
        nystroem = components_of(X, share=1.0, most=8, landmarks=400, exact=10, **options)  # type: ignore[arg-type]
        np.testing.assert_allclose(nystroem.variances, exact.variances, rtol=1e-6)
        np.testing.assert_allclose(
            np.abs(nystroem.model.project(Y)), np.abs(exact.model.project(Y)), rtol=1e-5, atol=1e-5
        )
        assert nystroem.cumulative[-1] == pytest.approx(exact.cumulative[-1])


def test_few_landmarks_give_nearly_the_same_distances() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1600, 4)) @ rng.normal(size=(4, 4)) / 2
    Y = np.random.default_rng(5).permuted(X, axis=0)
    exact = projected(components_of(X, share=1.0, most=10), Y).distances
    found = projected(components_of(X, share=1.0, most=10, landmarks=200, exact=100), Y)
    # Degree 4 in 4 columns has 70 dimensions: 200 landmarks span them, and only rounding remains.
    np.testing.assert_allclose(found.distances, exact, atol=0.01)
    measured = kernel_pca(np.concatenate([X, X]), Y, most=10, landmarks=200)
    assert measured.details["landmarks"] == 200
    assert "Nyström" in str(measured.note)


def test_parameters_are_checked(tables: tuple[np.ndarray, ...]) -> None:
    X, Y = tables
    for options in ({"degree": 0}, {"share": 0.0}, {"kernel": "rbf", "sigma": -1.0}, {"most": 0}):
        with pytest.raises(ParameterError):
            kernel_pca(X, Y, **options)  # type: ignore[arg-type]


def test_pair_plot_has_a_panel_a_pair(tables: tuple[np.ndarray, ...]) -> None:
    X, Y = tables
    found = projected(components_of(X, most=3), Y)
    figure = pair_plot(found.components.scores, found.release, found.labels(), "release", groups=np.arange(len(Y)))
    axes = figure.axes
    assert len(axes) == 9
    assert "KS" in axes[0].texts[0].get_text()
    assert [line.get_color() for line in axes[4].lines] == ["#1f5fbf", "#c8282d"]
    figure.canvas.draw()


def test_pair_plot_of_a_constant_component_does_not_fail() -> None:
    scores = np.column_stack([np.arange(50.0), np.zeros(50)])
    figure = pair_plot(scores, scores, ["a", "b"])
    figure.canvas.draw()
    assert len(figure.axes) == 4
