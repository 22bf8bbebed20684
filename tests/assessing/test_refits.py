"""The error of a figure from refits on pieces: against textbook errors, and the spread over fresh samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gpuanon.arrays.rng import Key
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.sampling_errors import PIECES, pieces_of, sampling_error, with_error
from gpuanon.assessing.utility import cluster_balance as clusters
from gpuanon.assessing.utility import confidence_overlap as confidence
from gpuanon.assessing.utility import model_efficacy
from gpuanon.assessing.utility.cluster_balance import cluster_balance
from gpuanon.assessing.utility.confidence_overlap import estimator_mse
from gpuanon.assessing.utility.model_efficacy import model_efficacy as efficacy
from gpuanon.assessing.utility.propensity import forest as propensity_forest
from gpuanon.assessing.utility.propensity import scores as propensity_scores
from gpuanon.assessing.utility.propensity.forest import pmse_forest
from gpuanon.assessing.utility.propensity.pmse import pmse_cart, pmse_logit, propensity_ks, propensity_wilcoxon
from gpuanon.numerics import sampling


def test_pieces_are_disjoint_of_equal_size_and_hold_every_row():
    pieces = pieces_of(1003)
    assert len(pieces) == PIECES
    assert {len(piece) for piece in pieces} == {125, 126}
    np.testing.assert_array_equal(np.sort(np.concatenate(pieces)), np.arange(1003))
    for piece, again in zip(pieces, pieces_of(1003), strict=True):
        np.testing.assert_array_equal(piece, again)
    # Rows that stand next to each other do not share a piece more often than others.
    labels = np.empty(1003)
    for at, piece in enumerate(pieces):
        labels[piece] = at
    assert 80 < (labels[1:] == labels[:-1]).sum() < 170


def test_the_error_of_a_mean_is_that_of_students_interval():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(PIECES, 50)).mean(axis=1)
    low, high = stats.t.interval(0.95, PIECES - 1, means.mean(), stats.sem(means))
    assert sampling_error(0.0, means) == pytest.approx((high - low) / 2)


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.5])
def test_the_error_of_a_mean_of_squares_holds_with_and_without_a_difference(shift):
    """|mean|² of 5 columns is of the order 1/n without a shift and has a deviation of the order 1/√n with one."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(300):
        X = rng.normal(shift, 1, size=(800, 5))
        of_pieces = [float((X[piece].mean(axis=0) ** 2).sum()) for piece in pieces_of(800)]
        value = float((X.mean(axis=0) ** 2).sum())
        found.append((value, sampling_error(value, of_pieces, squares=True)))
    values, errors = np.array(found).T
    assert 0.9 < errors.mean() / (1.96 * values.std(ddof=1)) < 1.8
    assert (np.abs(values - values.mean()) <= errors).mean() > 0.9


def test_the_error_stands_in_details_and_note_and_only_where_there_are_refits():
    plain = Measured(0.5, {"a": 1}, "on a sample")
    assert with_error(plain, []) == plain
    found = with_error(plain, [0.4, 0.5, 0.6, 0.5])
    assert found.details["sampling_error"] == pytest.approx(sampling_error(0.5, [0.4, 0.5, 0.6, 0.5]))
    assert found.note == "on a sample; right to ±0.13 (95 %) by refits on 4 disjoint pieces of the sample"
    assert found.to_json()["sampling_error"] == found.details["sampling_error"]


ROWS, SAMPLE = 20_000, 2_000
NAMES, CATEGORICAL = list("abcde"), [False, False, False, False, True]
MEASURED = {
    "pmse_logit": lambda X, Y: pmse_logit(X, Y, categorical=CATEGORICAL),
    "pmse_cart": lambda X, Y: pmse_cart(X, Y, categorical=CATEGORICAL),
    "pmse_forest": lambda X, Y: pmse_forest(X, Y, categorical=CATEGORICAL),
    "propensity_ks": lambda X, Y: propensity_ks(X, Y, categorical=CATEGORICAL),
    "propensity_wilcoxon": lambda X, Y: propensity_wilcoxon(X, Y, categorical=CATEGORICAL),
    "cluster_balance": cluster_balance,
    "estimator_mse": lambda X, Y: estimator_mse(X, Y, rounds=64),
    "model_efficacy": lambda X, Y: efficacy(X, Y, names=NAMES, categorical=CATEGORICAL, target="a"),
}


def tables(different):
    """A table and a release that differs clearly or little: noise of 0.5 or 0.1 deviations, levels exchanged."""
    rng = np.random.default_rng(7)
    X = rng.gamma(3, size=(ROWS, 5)) @ (np.eye(5) + 0.4 * rng.normal(size=(5, 5)))
    X[:, 4] = np.digitize(X[:, 4], np.quantile(X[:, 4], [0.3, 0.6, 0.9]))
    amount, share = (0.5, 0.3) if different else (0.1, 0.03)
    Y = X + amount * X.std(axis=0) * rng.normal(size=X.shape)
    Y[:, 4] = np.where(rng.random(ROWS) < share, rng.permutation(X[:, 4]), X[:, 4])
    return X, Y


@pytest.fixture
def small_samples(monkeypatch):
    for module, name in (
        (propensity_scores, "LOGIT_ROWS"),
        (propensity_scores, "CART_ROWS"),
        (propensity_forest, "FOREST_ROWS"),
        (clusters, "CLUSTER_ROWS"),
        (confidence, "_BOOTSTRAP_ROWS"),
        (model_efficacy, "MODEL_ROWS"),
    ):
        monkeypatch.setattr(module, name, SAMPLE)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "model_efficacy" else []) for name in MEASURED]
)
@pytest.mark.usefixtures("small_samples")
def test_a_sampled_measure_states_its_error_and_one_of_all_rows_does_not(name):
    X, Y = (table[: SAMPLE + 2000] for table in tables(True))
    found = MEASURED[name](X, Y)
    assert 0 < found.details["sampling_error"] < 2 * abs(found.value) + 0.1
    assert "right to ±" in found.note
    few = MEASURED[name](X[: SAMPLE // 2], Y[: SAMPLE // 2])
    assert "sampling_error" not in few.details
    assert "right to ±" not in (few.note or "")


@pytest.mark.slow
@pytest.mark.parametrize("different", [True, False], ids=["clear", "small"])
@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.usefixtures("small_samples")
def test_the_error_is_the_spread_over_fresh_samples(name, different, monkeypatch):
    X, Y = tables(different)
    found = []
    for sample in range(30 if name in ("pmse_forest", "model_efficacy") else 60):  # these take long
        monkeypatch.setattr(sampling, "_PUBLIC", Key(b"another sample of the same rows %d" % sample))
        found.append(MEASURED[name](X, Y))
    stated = np.mean([one.details["sampling_error"] for one in found])
    spread = 1.96 * np.std([one.value for one in found], ddof=1)
    # Boosted trees of 500 rows vary more than twice as much as those of 2 000: an error that is too large (2.4 seen).
    assert 0.5 < stated / spread < (2.8 if name == "model_efficacy" else 2.2)
