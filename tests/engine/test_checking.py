"""What `check` expects of a run."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpuanon.arrays import compiled
from gpuanon.engine import checking
from gpuanon.recipe import Recipe
from gpuanon.tables.table import Table
from tests.support.every import recipe, registry


def test_the_expected_time_holds_no_compilation(monkeypatch):
    now = [0.0, 0.0]

    def compiles(sample, plain):
        now[0] += 9.0
        compiled._spent[0] += 8.0
        return SimpleNamespace(manifest={"guarantee": []})

    monkeypatch.setattr(compiled, "_spent", [0.0, 0.0])
    clock = SimpleNamespace(perf_counter=lambda: now[0], process_time=lambda: now[1])
    monkeypatch.setattr(checking, "time", clock)
    monkeypatch.setattr(checking, "protect", compiles)
    estimate, _ = checking._trial(Table.of(registry(60)), Recipe.load(recipe("microaggregation")))
    assert estimate.seconds == 1.0


def test_the_time_of_a_compilation_is_known(tmp_path, monkeypatch):
    pytest.importorskip("numba")
    (tmp_path / "never_compiled.py").write_text("def plus_one(x):\n    return x + 1\n")  # no machine code on the disk
    monkeypatch.syspath_prepend(tmp_path)
    plus_one = importlib.import_module("never_compiled").plus_one
    before = compiled.spent_compiling()
    assert compiled.compiled(plus_one)(1) == 2
    assert all(after > one for after, one in zip(compiled.spent_compiling(), before, strict=True))


@pytest.mark.parametrize("columns", [4, 24])
def test_a_method_that_is_wrong_for_so_many_columns_is_warned_of_with_the_right_one(columns):
    rng = np.random.default_rng(0)
    table = Table.of(pd.DataFrame(rng.integers(0, 50, (60, columns)), columns=[f"c{j}" for j in range(columns)]))
    roles = {name: {"role": "quasi"} for name in table.names}
    wanted = Recipe.load({"columns": roles, "mask": [{"method": "microaggregation", "k": 5}]})
    found = checking.check_table("r", wanted, "t", table, ["x"], trial=False).warnings
    assert any("microaggregation of 24 columns" in line and "sequential-synthesis" in line for line in found) == (
        columns == 24
    )
