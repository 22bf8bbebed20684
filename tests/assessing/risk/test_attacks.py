"""Attacks on single records: brute force from the definitions, known probabilities, extremes."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gpuanon.arrays.partition import Partition
from gpuanon.assessing.risk.closest_record import closest_record
from gpuanon.assessing.risk.ct_isolation import ct_isolation
from gpuanon.assessing.risk.interval_disclosure import interval_disclosure
from gpuanon.assessing.risk.k_ambiguity import k_ambiguity
from gpuanon.assessing.risk.match_auc import Matches, joint_auc_of, match, match_auc_joint
from gpuanon.assessing.risk.prediction import Prediction, standardised
from gpuanon.assessing.sampling_errors import share_interval
from gpuanon.errors import GpuanonError, InputError, ParameterError
from gpuanon.masking.groups.median_cuts import widest_cuts


def beside(measured, name):
    return next(one.value for one in measured.beside if one.name == name)


def test_the_interval_of_a_share_is_wilsons():
    from statsmodels.stats.proportion import proportion_confint

    for hits, n in ((0, 20), (3, 20), (20, 20), (500, 1000)):
        found = share_interval(hits / n, n)
        assert (found.low, found.high) == pytest.approx(proportion_confint(hits, n, method="wilson"), abs=1e-9)


@pytest.mark.parametrize("seed", [1, 2])
def test_k_ambiguity_counts_the_combinations_of_a_class(seed):
    rng = np.random.default_rng(seed)
    quasi, sensitive = rng.integers(0, 3, size=(60, 2)), rng.integers(0, 3, size=(60, 2))
    seen = defaultdict(set)
    for q, s in zip(quasi.tolist(), sensitive.tolist(), strict=True):
        seen[tuple(q)].add(tuple(s))
    found = k_ambiguity(quasi, sensitive)
    assert found.value == min(map(len, seen.values()))
    alone = np.mean([len(seen[tuple(q)]) == 1 for q in quasi.tolist()])
    assert found.details["disclosed_share"] == pytest.approx(alone)


def test_k_anonymous_records_that_are_equal_on_the_sensitive_columns_have_no_ambiguity():
    quasi, sensitive = np.repeat([[1], [2]], 5, axis=0), np.array([[7]] * 5 + [[1], [2], [3], [3], [4]])
    found = k_ambiguity(quasi, sensitive)
    assert found.value == 1
    assert beside(found, "smallest_class") == 5
    assert found.details["disclosed_share"] == 0.5
    assert k_ambiguity(quasi, np.arange(10)[:, None]).value == 5


@pytest.mark.parametrize("t", [2, 4])
def test_isolation_from_its_definition(t):
    rng = np.random.default_rng(3)
    X, Y, R = rng.normal(size=(70, 2)), rng.normal(size=(50, 2)), rng.normal(size=(40, 2))

    def isolates(q, rows, c):
        distance = np.sqrt(((rows - q) ** 2).sum(axis=1))
        return (distance <= c * distance.min()).sum() < t

    found = ct_isolation(X, Y, R, c=1.5, t=t)
    assert found.value == pytest.approx(np.mean([isolates(q, X, 1.5) for q in Y]))
    assert beside(found, "reference") == pytest.approx(np.mean([isolates(q, X, 1.5) for q in R]))
    left_out = [isolates(q, np.delete(X, i, axis=0), 1.5) for i, q in enumerate(X)]
    assert beside(found, "left_out") == pytest.approx(np.mean(left_out))
    assert found.interval.low < found.value < found.interval.high


def test_a_copy_isolates_everybody_and_a_fresh_sample_as_many_as_originals_left_out():
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(2, 1500, 3))
    assert ct_isolation(X, X).value == 1
    fresh = ct_isolation(X, Y)
    assert fresh.interval.low <= beside(fresh, "left_out") <= fresh.interval.high
    assert ct_isolation(np.repeat(X[:50], 5, axis=0), X[:50]).value == 0, "five equal originals hide each other"
    for bad in ({"c": 1.0}, {"t": 1}):
        with pytest.raises(ParameterError):
            ct_isolation(X, Y, **bad)


def rotated_cells(X, k):
    """SPECTRAL-RHS: median cuts along principal axes, centroids; in the original coordinates."""
    axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2].T
    groups = widest_cuts(X @ axes, Partition.whole(len(X)), k)
    labels = groups.labels()
    sums = np.stack([np.bincount(labels, column) for column in X.T], axis=1)
    return (sums / np.bincount(labels)[:, None])[labels], axes


def test_isolation_is_the_same_along_rotated_axes():
    """The argument by which a guarantee about distances survives the change of basis."""
    rng = np.random.default_rng(15)
    X = rng.normal(size=(400, 4)) @ rng.normal(size=(4, 4))
    Y, axes = rotated_cells(X, 7)
    assert ct_isolation(X @ axes, Y @ axes).value == ct_isolation(X, Y).value
    assert ct_isolation(X @ axes, (X + 0.05 * rng.normal(size=X.shape)) @ axes).value > 0.5


@pytest.mark.parametrize("shape", ["normal", "exponential", "two clouds"])
def test_rotated_cells_hold_the_guarantee_and_releases_near_their_originals_break_it(shape):
    rng = np.random.default_rng(16)
    X = {
        "normal": rng.normal(size=(600, 4)) @ rng.normal(size=(4, 4)),
        "exponential": rng.exponential(size=(600, 4)) @ rng.normal(size=(4, 4)),
        "two clouds": rng.normal(size=(600, 4)) + 8 * rng.integers(0, 2, 600)[:, None],
    }[shape]
    # What RHS proves needs its distributions: of two distant clouds the check finds that it does not hold.
    assert ct_isolation(X, rotated_cells(X, 7)[0]).details["holds"] is (shape != "two clouds")
    assert ct_isolation(X, X).details["holds"] is False
    near = X + 0.05 * X.std(axis=0) * rng.normal(size=X.shape)
    assert ct_isolation(X, near).details["holds"] is False
    single = X.copy()
    single[60:] = rotated_cells(X, 7)[0][60:]  # a tenth of the records is released as it is
    assert ct_isolation(X, single).details["holds"] is False


def test_interval_disclosure_from_its_definition():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 2)) * [1, 10]
    order = rng.permutation(80)
    Y = (X + rng.normal(size=X.shape) * [0.05, 2])[order]
    Y[3, 0] = np.nan
    found = interval_disclosure(X, Y, order, width=0.1, names=["a", "b"])
    shares, chance = [], []
    for j in range(2):
        pairs = [(X[o, j], Y[r, j]) for r, o in enumerate(order) if not np.isnan(Y[r, j])]
        half = 0.1 * X[:, j].std()
        shares.append(np.mean([abs(x - y) <= half for x, y in pairs]))
        chance.append(np.mean([abs(x - y) <= half for x, _ in pairs for _, y in pairs]))
    assert found.to_json()["by_column"] == pytest.approx({"a": shares[0], "b": shares[1]})
    assert found.value == pytest.approx(np.mean(shares))
    assert beside(found, "chance") == pytest.approx(np.mean(chance))


def test_intervals_by_rank_from_their_definition():
    X = np.random.default_rng(6).permutation(100).astype(float)[:, None]
    Y = np.roll(np.sort(X, axis=0), 4, axis=0)  # every value but four stands four places off
    order = np.argsort(X[:, 0])
    found = interval_disclosure(X, Y, order)
    assert found.details["by_rank"] == pytest.approx(0.7 * 0.96)
    assert found.value == 0
    assert interval_disclosure(X, X, np.arange(100)).value == 1


def test_numbers_paired_at_random_are_disclosed_by_chance_only():
    rng = np.random.default_rng(7)
    X, Y = rng.normal(size=(2, 4000, 3))
    found = interval_disclosure(X, Y, np.arange(4000))
    assert found.interval.low <= beside(found, "chance") <= found.interval.high


def test_closest_record_from_its_definition():
    rng = np.random.default_rng(8)
    X, R = rng.normal(size=(2, 60, 2))
    Y = X[:40] + rng.normal(size=(40, 2)) * 0.2
    nearest = [[np.sqrt(((side - q) ** 2).sum(axis=1)).min() for side in (X, R)] for q in Y]
    assert closest_record(X, Y, R).value == pytest.approx(np.mean([own < other for own, other in nearest]))
    assert closest_record(X, X, R).value == 1
    assert closest_record(X, X, X).value == 0.5, "ties count one half"


def test_a_fresh_sample_is_as_close_to_the_reference_whatever_its_size():
    rng = np.random.default_rng(9)
    X, Y, R = rng.normal(size=(3000, 3)), rng.normal(size=(1500, 3)), rng.normal(size=(1000, 3))
    found = closest_record(X, Y, R)
    assert found.interval.low <= 0.5 <= found.interval.high
    assert "1000 of 3000 originals" in found.note


def attack_with(distance, ambiguity, uncertainty, right):
    n = len(right)
    rows = np.arange(n)
    return Matches(
        Prediction(rows, distance[:, None] ** 2, np.ones(n), distance, ambiguity, uncertainty, rows, 0, n),
        right.astype(float),
    )


def test_three_measures_that_tell_nothing_alone_tell_together():
    rng = np.random.default_rng(10)
    distance, ambiguity, uncertainty = rng.uniform(size=(3, 2000))
    right = (distance > 0.5) == (ambiguity > 0.5)  # exclusive or: each alone is independent of it
    found = joint_auc_of(attack_with(distance, ambiguity, uncertainty, right))
    assert beside(found, "best_alone") < 0.55
    assert found.value > 0.9


def test_the_joint_attack_learns_nothing_from_chance():
    rng = np.random.default_rng(11)
    found = joint_auc_of(attack_with(*rng.uniform(size=(3, 2000)), rng.uniform(size=2000) < 0.3))
    assert found.interval.low <= 0.5 <= found.interval.high
    assert found.interval.high - found.interval.low < 0.07


def test_the_joint_attack_is_the_area_of_held_out_scores():
    """One fold after the other against scikit-learn's AUC, weighted by its pairs."""
    from gpuanon.assessing.risk import match_auc as module

    rng = np.random.default_rng(12)
    A = rng.normal(size=(400, 6))
    attack = match(*standardised(A, A + rng.normal(size=A.shape) * 0.7), np.arange(400))
    values = np.stack([getattr(attack.prediction, name) for name in module.MEASURES], axis=1)
    values = np.round(values / values.max(axis=0), 9)
    X, fold = module._features(values), module._folds(values, attack.right)
    wins = pairs = 0.0
    for number in range(5):
        held = fold == number
        score, labels = module._score(X[~held], attack.right[~held], X[held]), attack.right[held] > 0.5
        count = labels.sum() * (~labels).sum()
        wins, pairs = wins + count * roc_auc_score(labels, score), pairs + count
    found = joint_auc_of(attack)
    assert found.value == pytest.approx(wins / pairs)
    assert found.value > beside(found, "best_alone") - 0.05


def test_the_joint_attack_does_not_depend_on_the_order_of_the_rows():
    rng = np.random.default_rng(13)
    A = rng.normal(size=(200, 4))
    B, order = A + rng.normal(size=A.shape) * 0.5, rng.permutation(200)
    place = np.argsort(order)
    assert match_auc_joint(A[order], B, place).value == pytest.approx(match_auc_joint(A, B, np.arange(200)).value)


def test_a_copy_has_no_joint_area():
    A = np.random.default_rng(14).normal(size=(50, 3))
    with pytest.raises(InputError, match="no wrong matches"):
        match_auc_joint(A, A, np.arange(50))


@pytest.mark.parametrize("attack", [closest_record, lambda X, Y, _: ct_isolation(X, Y)])
def test_an_empty_table_is_refused(attack):
    X = np.zeros((10, 2))
    with pytest.raises(GpuanonError):
        attack(X, X[:0], X)


def grid(seed, rows):
    """Few values whose steps of 0.1 are not exact: equal distances differ by rounding."""
    return np.random.default_rng(seed).integers(0, 6, size=(rows, 2)) * 0.1


@pytest.mark.parametrize("seed", range(5))
def test_isolation_on_a_grid_is_that_of_whole_numbers(seed):
    original, release = grid(seed, 30), grid(seed + 100, 40)
    steps = [np.rint(10 * side).astype(int) for side in (original, release)]
    squares = np.sort(((steps[1][:, None] - steps[0][None]) ** 2).sum(axis=2), axis=1)
    near, far = squares[:, 0], squares[:, 4]
    expected = np.where(near == 0, far > 0, far > 4 * near).mean()
    assert ct_isolation(original, release).value == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_equal_distances_on_a_grid_tie(seed):
    original, release, reference = grid(seed, 12), grid(seed + 100, 40), grid(seed + 200, 12)
    steps = [np.rint(10 * side).astype(int) for side in (original, release, reference)]
    own, other = (((steps[1][:, None] - side[None]) ** 2).sum(axis=2).min(axis=1) for side in (steps[0], steps[2]))
    expected = np.where(own == other, 0.5, own < other).mean()
    assert closest_record(original, release, reference).value == pytest.approx(expected)
