"""What `check` expects of a run."""

from __future__ import annotations

from types import SimpleNamespace

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


def test_the_time_of_a_compilation_is_known():
    pytest.importorskip("numba")
    before = compiled.spent_compiling()
    assert compiled.compiled(lambda x: x + 1)(1) == 2
    assert all(after > one for after, one in zip(compiled.spent_compiling(), before, strict=True))
