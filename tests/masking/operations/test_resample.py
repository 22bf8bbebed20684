"""Resampling with and without replacement inside groups."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.claims.drawn_claims import DrawnFromGroup
from gpuanon.masking.given import Records
from gpuanon.masking.operations.dither.permute import Permute, Resample, permute, resample
from gpuanon.masking.outcomes import Moved

KEY = Key(b"a key for the tests of resampling")


def groups_of(sizes, seed=0):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return Partition.from_labels(np.random.default_rng(seed).permutation(labels))


def test_rows_come_from_the_own_group():
    groups = groups_of([3, 7, 1, 20])
    draws = KEY.draws(np.arange(31))
    for source in (resample(groups, draws), permute(groups, draws)):
        assert (groups.labels()[source] == groups.labels()).all()


def copies(labels, count):
    """`count` copies of a small table one below the other, each with groups of its own."""
    labels = np.asarray(labels)
    width = labels.max() + 1
    return Partition.from_labels((np.arange(count)[:, None] * width + labels).reshape(-1))


def counted(source, size):
    """(size, size) how often each row of the small table received each row."""
    counts = np.zeros((size, size))
    np.add.at(counts, (np.arange(len(source)) % size, source % size), 1)
    return counts


def test_every_member_is_drawn_equally_often():
    labels = np.array([0, 1, 1, 0, 1, 1, 0, 0, 1, 1])
    counts = counted(resample(copies(labels, 4000), KEY.draws(np.arange(40_000))), 10)
    for row in range(10):
        assert stats.chisquare(counts[row, labels == labels[row]]).pvalue > 1e-5
        assert counts[row, labels != labels[row]].sum() == 0


def test_weights_set_the_chances_and_empty_groups_are_drawn_evenly():
    weights = np.array([1.0, 0.0, 3.0, 0.0, 0.0])
    groups = copies([0, 0, 0, 1, 1], 4000)
    counts = counted(resample(groups, KEY.draws(np.arange(20_000), "weighted"), np.tile(weights, 4000)), 5)
    assert counts[:3, 1].sum() == 0
    assert stats.chisquare(counts[:3, [0, 2]].sum(axis=0), [3000, 9000]).pvalue > 1e-5
    assert stats.chisquare(counts[3:, 3:].sum(axis=0)).pvalue > 1e-5


@pytest.mark.parametrize("weights", [[1.0, -1.0], [1.0, np.nan], [1.0, np.inf]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ParameterError, match="weights"):
        resample(Partition.whole(2), KEY.draws(np.arange(2)), np.array(weights))


def test_permutations_are_uniform_over_all_orders():
    source = permute(copies([0, 0, 0], 6000), KEY.draws(np.arange(18_000))).reshape(6000, 3) % 3
    assert (np.sort(source, axis=1) == np.arange(3)).all()
    seen = np.bincount(source @ [9, 3, 1], minlength=27)
    assert (seen > 0).sum() == 6
    assert stats.chisquare(seen[seen > 0]).pvalue > 1e-5


def test_permutation_keeps_the_rows_exactly():
    groups = groups_of([5] * 40)
    assert sorted(permute(groups, KEY.draws(np.arange(200)))) == list(range(200))


def test_draws_follow_the_record_not_its_place():
    """Rows of a shuffled table receive, record by record, the same values."""
    labels = np.repeat(np.arange(10), 5)
    whole = resample(Partition.from_labels(labels), KEY.draws(np.arange(50)))
    keep = np.flatnonzero(labels >= 4)
    part = resample(Partition.from_labels(labels[keep]), KEY.draws(keep))
    np.testing.assert_array_equal(keep[part], whole[keep])


@pytest.mark.parametrize("operation", [Resample(), Permute()])
def test_models_move_rows(operation):
    groups = groups_of([3, 3])
    outcome = operation.apply(np.zeros((6, 1)), groups, Records(KEY.draws(np.arange(6))))
    assert isinstance(outcome, Moved)
    assert operation.claims(5, [("a",)]) == (DrawnFromGroup(5, (("a",),)),)
    assert operation.claims(None, [("a",)]) == ()
    assert (groups.labels()[outcome.source] == groups.labels()).all()
