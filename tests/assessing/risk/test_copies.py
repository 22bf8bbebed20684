"""Unique people who stand whole in a release, against pandas, and chance against simulated samples."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpuanon.assessing.risk.copies import copies


def matched_by_pandas(original, release):
    """NIST's unique exact matches: records unique in the original, merged with the release's distinct records."""
    frame = pd.DataFrame(original)
    unique = frame[~frame.duplicated(keep=False)]
    return len(unique.merge(pd.DataFrame(release).drop_duplicates(), how="inner")) / len(unique)


@pytest.mark.parametrize("seed", range(8))
def test_the_share_is_that_of_unique_exact_matches(seed):
    rng = np.random.default_rng(seed)
    original, release = (np.stack([rng.integers(0, 6, 400) for _ in range(4)], axis=1) for _ in range(2))
    assert copies(original, release).value == pytest.approx(matched_by_pandas(original, release))


def test_a_person_counts_once_with_all_records():
    original = np.array([[0, 0], [1, 1], [2, 2], [3, 3], [3, 3]])
    persons = np.array([7, 7, 8, 9, 9])
    found = copies(original, np.array([[0, 0], [1, 1], [3, 3]]), persons=persons)
    assert found.details["unique_originals"] == 2  # persons 7 and 8; nobody is unique on 3, 3
    assert found.value == 0.5


def test_a_copy_is_beyond_chance_and_a_second_sample_is_not():
    def sample(seed):
        rng = np.random.default_rng(seed)
        return np.stack([rng.geometric(0.3, 3000) for _ in range(4)], axis=1)

    first = sample(0)
    copied = copies(first, first)
    assert copied.value == 1.0
    assert copied.details["beyond_chance"]
    beyond = [copies(first, sample(seed)).details["beyond_chance"] for seed in range(1, 21)]
    assert sum(beyond) <= 1
    beside = {one.name: one.value for one in copies(first, sample(21), reference=sample(22)).beside}
    assert beside["chance"] == pytest.approx(matched_by_pandas(first, sample(22)))


def test_nobody_unique_is_nobody_copied():
    original = np.zeros((6, 2), dtype=int)
    assert copies(original, original).value == 0.0
