"""What tells the records of a table apart, against counts by pandas."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from gpuanon.engine.combinations import RISK_COLUMNS, risk_lines, risk_of
from gpuanon.tables.table import Table


@pytest.mark.parametrize("columns", [4, RISK_COLUMNS + 2])
def test_classes_are_of_all_columns_and_sets_of_those_with_most_values(columns: int) -> None:
    rng = np.random.default_rng(columns)
    levels = rng.permutation(np.arange(2, 2 + columns))
    frame = pd.DataFrame({f"c{j}": rng.integers(0, levels[j], 300) for j in range(columns)})
    risk = risk_of(Table.of(frame), list(frame))
    assert risk is not None
    sizes = frame.groupby(list(frame)).size()
    assert risk.columns == tuple(frame)
    assert risk.smallest == sizes.min()
    assert risk.unique == pytest.approx((sizes == 1).sum() / len(frame))
    most = sorted(frame, key=lambda name: -frame[name].nunique())[:RISK_COLUMNS]
    assert set(risk.combined) == set(most)
    alone = np.zeros(len(frame), dtype=bool)
    for at, share in enumerate(risk.up_to):
        for names in combinations(risk.combined, at + 1):
            alone |= (frame.groupby(list(names)).transform("size") == 1).to_numpy()
        assert share == pytest.approx(alone.mean())
    said = " ".join(risk_lines(risk))
    assert ("among the 10 columns with most values" in said) == (columns > RISK_COLUMNS)
