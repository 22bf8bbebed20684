"""The attack on minimal suppression, against the example of the thesis and a naive version."""

from __future__ import annotations

import numpy as np
import pytest

from gpuanon.assessing.risk.suppression_reconstruction import suppression_reconstruction
from gpuanon.masking.operations.blank.local_suppression import kept_cells
from gpuanon.numerics.patterns import Patterns
from tests.support.local_suppression import fewest_sharing


def test_the_example_of_the_thesis():
    """100 rows, 90 of one gender and 10 blanked: a minimal pattern tells that they are all of the other."""
    original = np.array([0] * 90 + [1] * 10)[:, None]
    release = np.where(original == 1, -1, original)
    found = suppression_reconstruction(original, release, np.arange(100), names=["gender"])
    assert found.value == 1.0
    assert found.to_json()["baseline"] == 0.0


def naive(original, release):
    """The share told, cell by cell."""
    k = fewest_sharing(release)
    told = cells = 0
    for r, row in enumerate(release):
        for j in range(release.shape[1]):
            if row[j] < 0 <= original[r, j]:
                cells += 1
                kept = [c for c in range(release.shape[1]) if row[c] >= 0]
                same = (release[:, kept] == row[kept]).all(axis=1)
                values = sorted(set(original[original[:, j] >= 0, j]))
                left = [v for v in values if (same & (release[:, j] == v)).sum() + 1 < k]
                told += left == [original[r, j]]
    return told / cells if cells else 0.0


@pytest.mark.parametrize("seed", range(6))
def test_the_share_is_that_of_a_look_at_every_cell(seed):
    rng = np.random.default_rng(seed)
    rows = np.minimum(rng.geometric(0.45, (120, 3)) - 1, 3)
    rows[rng.random(rows.shape) < 0.03] = -1
    patterns = Patterns.of(rows)
    lines = kept_cells(patterns.codes, patterns.counts, 3 + seed % 3)
    original = np.repeat(patterns.codes[lines.of], lines.counts, axis=0)
    release = np.repeat(np.where(lines.keep, patterns.codes[lines.of], -1), lines.counts, axis=0)
    order = rng.permutation(len(release))
    found = suppression_reconstruction(original, release[order], order)
    assert found.value == pytest.approx(naive(original, release))
    assert found.details["cells"] == int(((original >= 0) & (release < 0)).sum()) > 0


def test_no_blanked_cell_is_nothing_told():
    rows = np.array([[0, 1], [0, 1], [-1, 2]])
    found = suppression_reconstruction(rows, rows, np.arange(3))
    assert found.value == 0
    assert "no cell" in found.note
