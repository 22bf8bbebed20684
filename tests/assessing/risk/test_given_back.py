"""What a kept column tells of a masked one."""

from __future__ import annotations

import numpy as np

from gpuanon.assessing.risk.given_back import given_back


def figure(kept, masked, changed=None, persons=None):
    changed = np.ones(len(kept), dtype=bool) if changed is None else changed
    names = {"kept_names": ("number",), "masked_names": ("education",)}
    return given_back(kept[:, None], masked[:, None], changed[:, None], **names, persons=persons)


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


def test_what_the_masked_column_itself_says_is_not_given_back():
    """A school of one group: only pupils whose released group is another one are told by the school."""
    rng = np.random.default_rng(1)
    school = np.repeat(np.arange(20), 30)
    group = np.where(school < 5, 0, rng.integers(0, 3, 600))  # five schools of one group
    assert figure(school, group).value == (school < 5).mean()
    assert figure(school, group, np.zeros(600, dtype=bool)).value == 0.0  # released as it was
    moved = rng.random(600) < 0.2
    assert figure(school, group, moved).value == (moved & (school < 5)).mean()


def test_agreement_by_chance_gives_nothing_back():
    """Of a value that nine of ten people have, small classes are often full of it."""
    rng = np.random.default_rng(2)
    kept, masked = np.repeat(np.arange(100), 6), (rng.random(600) < 0.1).astype(int)
    whole = [len(set(masked[kept == at])) == 1 for at in range(100)]
    assert sum(whole) > 30
    assert figure(kept, masked).value == 0.0


def test_people_are_counted_and_not_their_records():
    levels = np.random.default_rng(0).integers(0, 8, 40)
    who = np.arange(40)
    once = figure(levels * 10 + 1, levels, persons=who)
    thrice = figure(np.repeat(levels, 3) * 10 + 1, np.repeat(levels, 3), persons=np.repeat(who, 3))
    assert once.value == thrice.value
    assert figure(np.repeat(np.arange(8), 10), np.repeat(np.arange(8), 10), persons=np.arange(80) // 5).value == 0.0
