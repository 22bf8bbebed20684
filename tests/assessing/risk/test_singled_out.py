"""People alone on few columns and originals found in new rows, against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from gpuanon.assessing.risk.singled_out import found_by_few, singled_out


def found_naively(before, after, most):
    frames = [pd.DataFrame(side) for side in (before, after)]
    found = np.zeros(len(before), dtype=bool)
    for size in range(1, most + 1):
        for names in map(list, combinations(range(before.shape[1]), size)):
            alone = frames[0].groupby(names)[names[0]].transform("size") == 1
            released = frames[1].groupby(names).size().rename("rows").reset_index()
            found |= (alone & (frames[0].merge(released, how="left", on=names)["rows"] == 1)).to_numpy()
    return found.mean()


@pytest.mark.parametrize("seed", range(6))
def test_originals_found_in_new_rows_are_those_of_every_set(seed):
    rng = np.random.default_rng(seed)
    before, after = (np.stack([rng.integers(-1, 12, n) for _ in range(5)], axis=1) for n in (150, 130))
    assert found_by_few(before, after).value == pytest.approx(found_naively(before, after, 3))


def test_a_copy_is_found_beyond_chance_and_a_second_sample_is_not():
    def sample(seed):
        return np.stack([np.random.default_rng(seed * 7 + j).geometric(0.05, 2000) for j in range(4)], axis=1)

    first = sample(1)
    assert found_by_few(first, first).details["excess"] > 0.3
    far = [found_by_few(sample(seed), sample(seed + 1)).details for seed in range(2, 24, 2)]
    assert all(abs(one["excess"]) < 3 * one["error"] for one in far)
    assert abs(np.mean([one["excess"] for one in far])) < 0.03


def test_the_worst_sets_are_named_and_persons_are_counted():
    weight, height = np.arange(300) // 20, np.arange(300) % 20
    codes = np.stack([np.zeros(300, dtype=int), weight, height], axis=1)
    found = singled_out(codes, names=("sex", "weight", "height"))
    assert found.value == 1.0
    assert next(iter(found.details["worst_sets"].items())) == ("weight, height", 1.0)
    persons = np.arange(300) // 300  # all rows are one person's
    assert singled_out(codes, persons, names=("sex", "weight", "height")).details["people"] == 1
