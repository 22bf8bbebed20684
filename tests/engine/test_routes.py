"""Routes: through regions rows reach the same destinations, with far fewer opened files and bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from gpuanon.engine.store import FolderStore
from gpuanon.engine.store.routes import MOST_PIECES, Route
from gpuanon.engine.store.workspace import Workspace
from gpuanon.tables.rows import Rows
from gpuanon.tables.table import Table
from tests.support.every import registry
from tests.support.running import in_parts


def names(count):
    return tuple(f"source-{at}" for at in range(count))


@pytest.mark.parametrize(("p", "q"), [(7, 23), (40, 9), (5, 100), (100, 4), (1, 50)])
def test_regrouped_rows_are_those_that_were_put(tmp_path, p, q):
    store = FolderStore(Workspace.begin(tmp_path / "work", {"run": "one", "key": "digest"}, resume=False, force=False))
    route = Route.of(names(p), q, most=0)
    table, random = registry(40 * p), np.random.default_rng(0)
    where = random.integers(0, q, 40 * p)
    for at, name in enumerate(route.sources):
        here = np.arange(40 * at, 40 * at + 40)
        counts = route.put(store, name, Rows(Table.of(table.slice(40 * at, 40)), here), where[here])
        assert counts == {place: int(count) for place, count in enumerate(np.bincount(where[here])) if count}
    assert sum(route.regroup(store, task) for task in route.regroups) == 40 * p
    store.forget(route.sources)
    for place in range(q):
        found = store.get(route.names([place]), [place]).sorted()
        assert found.records.tolist() == np.flatnonzero(where == place).tolist()
        assert found.table.to_arrow().to_pylist() == table.take(np.flatnonzero(where == place)).to_pylist()
    several = store.get(route.names([0, q - 1]), [0, q - 1]).sorted()
    assert several.records.tolist() == np.flatnonzero((where == 0) | (where == q - 1)).tolist()


def test_few_pieces_are_collected_at_once():
    route = Route.of(names(100), MOST_PIECES // 100)
    assert not route.regroups
    assert route.names([3]) == route.sources


@pytest.mark.parametrize(("p", "q"), [(400, 1_000), (2_000, 10_000), (10_000, 2_000), (20_000, 100_000), (100_000, 4)])
def test_opened_files_grow_far_less_than_pieces(p, q):
    route = Route.of(names(p), q, most=0)
    width = -(-p // route.chunks)
    opened = route.regions * p + q * route.chunks
    assert opened <= (p + q) ** 1.5
    assert opened <= p * q / min(p, q) ** 0.5 * 2
    # A regrouping task holds no more than a source or a destination, but for rounding.
    share = width / p * (-(-q // route.regions) / q)
    assert share <= 2 / min(p, q)
    assert sorted({region for place in range(q) for region in [int(route._region(np.asarray(place)))]}) == list(
        range(route.regions)
    )


@pytest.mark.parametrize("mask", ["microaggregation", "resample", "permute"])
def test_regions_do_not_change_a_release(tmp_path, monkeypatch, mask):
    monkeypatch.setattr("gpuanon.engine.pipeline.RELEASE_PART_ROWS", 100)
    table, lines = registry(900), []
    one = in_parts(tmp_path, table, mask, "once", parts=6, cell_rows=100)
    monkeypatch.setattr("gpuanon.engine.store.routes.MOST_PIECES", 10)
    two = in_parts(tmp_path, table, mask, "twice", parts=6, cell_rows=100, log=lines.append)
    assert sum(line.startswith("regroup-") for line in lines) == 2
    assert one[0].equals(two[0])
    assert np.array_equal(one[1], two[1])


def test_a_regrouped_run_is_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuanon.engine.pipeline.RELEASE_PART_ROWS", 100)
    monkeypatch.setattr("gpuanon.engine.store.routes.MOST_PIECES", 10)
    table = registry(600)
    whole = in_parts(tmp_path, table, "microaggregation", "whole", parts=4, cell_rows=100)
    for stop in (9, 11, 15, 22):
        left = [stop]

        def workers(task, items, left=left):
            results = []
            for item in items:
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt
                results.append(task(item))
            return results

        with pytest.raises(KeyboardInterrupt):
            in_parts(tmp_path, table, "microaggregation", f"stop-{stop}", parts=4, cell_rows=100, workers=workers)
        again = in_parts(tmp_path, table, "microaggregation", f"stop-{stop}", parts=4, cell_rows=100, resume=True)
        assert again[0].equals(whole[0])
