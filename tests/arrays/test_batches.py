"""Padded batches of parts hold every row once, and their padding depends on the part only."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuanon.arrays.batches import even_batches, gather, padded_length, scatter, tiles
from gpuanon.arrays.partition import Partition

labels = hnp.arrays(np.int64, st.integers(1, 60), elements=st.integers(-3, 6))
ALL_ONE, ALL_APART = np.zeros(7, dtype=np.int64), np.arange(7)


@given(labels, st.integers(1, 80))
@example(ALL_ONE, 1)
@example(ALL_APART, 3)
def test_batches_hold_every_row_once_and_respect_their_size(given_labels, elements):
    p = Partition.from_labels(given_labels)
    seen = []
    for batch in even_batches(p, elements=elements):
        assert batch.rows.size <= max(elements, padded_length(p.sizes).max())
        for part, rows, valid in zip(batch.parts, batch.rows, batch.valid, strict=True):
            assert len(rows) == padded_length(p.sizes)[part]
            assert np.array_equal(rows[valid], p.order[p.starts[part] : p.starts[part + 1]])
            assert (rows[~valid] == rows[0]).all()
            seen.append(part)
    assert sorted(seen) == list(range(p.parts))


@given(labels)
@example(ALL_ONE)
def test_scattered_rows_are_the_gathered_ones(given_labels):
    X = np.random.default_rng(0).normal(size=(len(given_labels), 2))
    found = np.full_like(X, np.nan)
    for batch in even_batches(Partition.from_labels(given_labels)):
        values = gather(X, batch)
        values[~batch.valid] = -1  # padding must not be written
        scatter(values, batch, found)
    assert np.array_equal(found, X)


def test_lengths_are_rounded_up_to_five_significant_bits():
    sizes = np.arange(1, 5000)
    lengths = padded_length(sizes)
    assert (lengths >= sizes).all()
    assert np.array_equal(lengths[:32], sizes[:32])
    assert (lengths < sizes * (1 + 1 / 16)).all()


@given(labels, st.integers(1, 20))
@example(ALL_ONE, 3)
@example(ALL_APART, 1)
def test_tiles_cut_every_part_in_its_order(given_labels, rows):
    p = Partition.from_labels(given_labels)
    pieces, owner = tiles(p, rows)
    assert np.array_equal(pieces.order, p.order)
    assert pieces.sizes.max() <= rows
    assert np.array_equal(owner[pieces.part_of_sorted()], p.part_of_sorted())
    assert np.array_equal(np.bincount(owner), -(-p.sizes // rows))


def test_no_rows_have_no_batches_and_no_tiles():
    nothing = Partition.whole(0)
    assert even_batches(nothing) == []
    assert tiles(nothing)[0].parts == 0
