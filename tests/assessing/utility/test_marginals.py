"""Marginals against the definition by pandas, and its two-way form against NIST's K-marginal score."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from gpuanon.assessing.utility import marginals as module
from gpuanon.assessing.utility.marginals import marginals

NAMES = ("a", "b", "c", "d")


def tables(seed, rows=(300, 200)):
    rng = np.random.default_rng(seed)
    return [np.stack([rng.integers(-1, 5, n) for _ in NAMES], axis=1) for n in rows]


def k_marginal(before, after, ways):
    """500 · (2 − mean over all sets of columns of Σ |p − q|)."""
    frames = [pd.DataFrame(side, columns=NAMES) for side in (before, after)]
    far = []
    for names in combinations(NAMES, ways):
        p, q = (frame.groupby(list(names)).size() / len(frame) for frame in frames)
        far.append(p.sub(q, fill_value=0).abs().sum())
    return 500 * (2 - np.mean(far))


@pytest.mark.parametrize("seed", range(5))
def test_each_number_of_columns_is_nists_score(seed):
    found = marginals(*tables(seed), names=NAMES)
    expected = [k_marginal(*tables(seed), ways) for ways in (1, 2, 3)]
    np.testing.assert_allclose(list(found.details["by_ways"].values()), expected)
    assert found.value == pytest.approx(np.mean(expected))


def test_a_copy_has_1000_however_its_rows_are_repeated():
    before, _ = tables(0)
    assert marginals(before, np.concatenate([before, before])[::-1], names=NAMES).value == pytest.approx(1000)


def test_no_cell_in_common_has_0():
    before, _ = tables(0)
    assert marginals(before, before + 100, names=NAMES).value == 0


def test_many_columns_are_judged_on_a_stated_number_of_tables(monkeypatch):
    before, after = tables(2)
    whole = marginals(before, after, names=NAMES).value
    monkeypatch.setattr(module, "MOST_TABLES", 3)
    some = marginals(before, after, names=NAMES)
    assert "3 tables" in some.note
    assert some.value == pytest.approx(whole, abs=40)
