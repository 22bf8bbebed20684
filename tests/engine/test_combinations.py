"""What tells the people of a table apart, against counts by pandas."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from gpuanon.engine.combinations import risk_lines, risk_of
from gpuanon.tables.table import Table


def alone(frame: pd.DataFrame, names: list[str], who: pd.Series) -> pd.Series:
    """Which rows stand in a class that one person alone has."""
    return who.groupby([frame[name] for name in names]).transform("nunique") == 1


@pytest.mark.parametrize("unit", ["record", "person", "household"])
@pytest.mark.parametrize("columns", [2, 4, 12])
def test_classes_and_small_sets_count_the_unit(columns: int, unit: str) -> None:
    rng = np.random.default_rng(columns)
    levels = rng.permutation(np.arange(2, 2 + columns))
    frame = pd.DataFrame({f"c{j}": rng.integers(0, levels[j], 300) for j in range(columns)})
    who = pd.Series(np.arange(300) if unit == "record" else rng.integers(0, 90, 300))
    table = Table.of(frame.assign(who=who))
    risk = risk_of(table, list(frame), None if unit == "record" else "who", unit)
    assert risk is not None
    people = who.nunique()
    assert (risk.people, risk.unit, risk.columns) == (people, unit, tuple(frame))
    assert risk.smallest == who.groupby([frame[name] for name in frame]).nunique().min()
    assert risk.unique == pytest.approx(who[alone(frame, list(frame), who)].nunique() / people)
    seen = np.zeros(300, dtype=bool)
    for at, share in enumerate(risk.up_to):
        for names in combinations(frame, at + 1):
            seen |= alone(frame, list(names), who).to_numpy()
        assert share == pytest.approx(who[seen].nunique() / people)
    for names, share in risk.sets.items():
        counted = who[alone(frame, names.split(", "), who)].nunique() / people
        assert share <= counted + 1e-12  # whom two of three columns single out count for the two
        assert names.count(",") == 2 or share == pytest.approx(counted)
    assert f"of the {unit}s are alone in theirs" in " ".join(risk_lines(risk))


def test_of_a_large_table_all_records_of_some_people_are_looked_at() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": rng.integers(0, 2_000, 10_000), "x": rng.integers(0, 9, 10_000)})
    risk = risk_of(Table.of(frame), ["x"], "who", "person", rows=2_000)
    assert risk is not None
    assert 1_500 < risk.rows < 2_500
    assert risk.rows / risk.people == pytest.approx(5, rel=0.1)  # each person with all records
