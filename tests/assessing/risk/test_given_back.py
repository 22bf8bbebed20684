"""What a kept column tells of a masked one."""

from __future__ import annotations

import numpy as np

from gpuanon.assessing.risk.given_back import given_back


def figure(kept, masked):
    return given_back(kept[:, None], masked[:, None], kept_names=("number",), masked_names=("education",))


def test_a_number_of_a_masked_level_gives_it_back():
    levels = np.random.default_rng(0).integers(0, 8, 400)
    found = figure(levels * 10 + 1, levels)
    assert found.value == 1.0
    assert found.parts[0].values == {"number → education": 1.0}


def test_an_independent_column_gives_nothing_back():
    rng = np.random.default_rng(0)
    assert figure(rng.integers(0, 8, 400), rng.integers(0, 8, 400)).value == 0.0


def test_a_value_of_few_people_is_no_public_knowledge_and_nulls_tell_nothing():
    assert figure(np.arange(400), np.arange(400) % 7).value == 0.0
    levels = np.random.default_rng(0).integers(0, 8, 400)
    kept = np.where(levels < 4, -1, levels)
    assert figure(kept, levels).value == (levels >= 4).mean()


def test_a_column_of_nearly_one_value_is_no_secret():
    masked = np.zeros(400, dtype=int)
    masked[:8] = 1
    assert figure(masked, masked).value == 0.0
