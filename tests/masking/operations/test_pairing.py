"""Random pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.rng import Key
from gpuanon.masking.operations.rank_swap import near_pairs, unlike_pairs

KEY = Key(b"a key for the tests of pairs")


def windows(n, reach):
    place = np.arange(n)
    return np.maximum(place - reach, 0), np.minimum(place + reach, n - 1)


@given(st.integers(0, 60), st.integers(1, 60))
@example(2, 1)
@example(3, 1)
def test_near_pairs_are_mutual_and_inside_the_window_and_nobody_is_left_who_could_be_paired(n, reach):
    partner = near_pairs(*windows(n, reach), KEY.draws(np.arange(n)))
    place = np.arange(n)
    assert np.array_equal(partner[partner], place)
    assert np.abs(partner - place).max(initial=0) <= reach
    single = place[partner == place]
    assert (np.diff(single) > reach).all()


def test_partners_are_spread_over_the_window():
    """Uniform over −w … w without 0: mean size (w + 1) / 2, except near the ends and for what is paired last."""
    n, reach = 40_000, 400
    partner = near_pairs(*windows(n, reach), KEY.draws(np.arange(n)))
    assert abs(np.abs(partner - np.arange(n)).mean() / reach - 0.5) < 0.03


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans()), max_size=40))
@example([(0, 0, True), (0, 1, False)])
@example([(0, 0, True), (0, 0, True)])
def test_unlike_pairs_share_a_group_and_differ_and_are_maximal(rows):
    rows = sorted(rows)
    groups = np.array([row[0] for row in rows], dtype=np.int64)
    kinds = np.array([3 * row[0] + row[1] for row in rows], dtype=np.int64)
    wanted = np.array([row[2] for row in rows], dtype=bool)
    partner = unlike_pairs(groups, kinds, wanted, KEY.draws(np.arange(len(rows))))
    place = np.arange(len(rows))
    assert np.array_equal(partner[partner], place)
    moved = partner != place
    assert (groups[partner] == groups).all()
    assert (kinds[partner] != kinds)[moved].all()
    assert (wanted | wanted[partner])[moved].all()
    for row in place[~moved & wanted]:
        free = ~moved & (groups == groups[row]) & (kinds != kinds[row])
        assert not free.any()
