"""What a run asks of a device does not grow unnoticed; a ledger says what a run cost and nothing of its table."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gpuanon
from gpuanon.arrays import progress
from gpuanon.arrays.kernels import launch
from gpuanon.arrays.ledger import OUTSIDE, Ledger, recording
from gpuanon.cli.app import app
from tests.cuda.support import one_lane
from tests.cuda.support.fake_cupy import fake_cupy

CEILINGS = {
    "microaggregation": (1129, 86, 126),
    "Gaussian": (2011, 138, 181),
    "PICA": (10180, 154, 416),
}
"""Calls and launches, distinct signatures, and waits of a run of 3000 rows; lower them when a run needs fewer."""

MASKS: dict[str, dict[str, Any]] = {
    "microaggregation": {"method": "microaggregation", "k": 5},
    "Gaussian": {"method": "distribution-preserving", "k": 10, "dither": "gaussian"},
    "PICA": {"method": "pica"},
}


def table(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, 5)) + rng.normal(size=(rows, 5))
    return pa.table({f"c{j}": X[:, j] for j in range(5)})


def recipe(mask: dict[str, Any], names: list[str]) -> Any:
    return {"columns": {name: {"role": "sensitive" if name == "c4" else "quasi"} for name in names}, "mask": [mask]}


@pytest.mark.skipif(one_lane.MISSING is not None, reason=str(one_lane.MISSING))
@pytest.mark.parametrize("name", MASKS)
def test_calls_signatures_and_waits_stay_below_their_ceilings(name: str) -> None:
    data = table(3000)
    with fake_cupy(one_lane=True) as cp, recording(Ledger()) as ledger:
        gpuanon.protect(data, recipe(MASKS[name], data.column_names), rng=7, backend="cupy")
        started = sum(cp.calls.functions.values()) + sum(ledger.launches.values())
        found = np.array([started, len(cp.calls.signatures), len(cp.memory.waits)])
    assert (found <= CEILINGS[name]).all(), found
    assert (found >= 0.8 * np.array(CEILINGS[name])).all(), f"{found}: lower the ceilings"


def test_calls_are_counted_once_and_views_not_at_all() -> None:
    with fake_cupy() as cp:
        X = cp.asarray(np.arange(6.0).reshape(2, 3))
        assert cp.calls.functions == {"asarray (upload)": 1}
        cp.calls.clear()
        Y = X.T[1:].reshape(-1)[None]
        assert not cp.calls.functions
        cp.var(Y + 1)  # `var` is one function, whatever it calls
        Y[:, cp.asarray([1, 0])].sum()
        X[0] = 2.0
        float(X.max())
        calls = {"add": 1, "cupy.var": 1, "asarray (upload)": 1, "gather": 1, "sum": 1, "assign": 1}
        assert cp.calls.functions == calls | {"max": 1, "float()": 1}
        (before,) = {kind for kind in cp.calls.signatures if kind[0] == "add"}
        Y + np.float32(1)
        Y + 2
        assert len({kind for kind in cp.calls.signatures if kind[0] == "add"}) == 2
        assert before == ("add", "float64", "int")
        assert cp.calls.seconds > 0


def test_stages_are_charged_for_their_own_time() -> None:
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    with recording(Ledger(lambda: now[0])) as ledger:
        wait(1)
        with progress.stage("outer"):
            wait(2)
            with progress.stage("inner"):
                wait(4)
            with progress.stage(""):  # no name: that of the stage around it
                wait(8)

            def elsewhere() -> None:
                with progress.stage("of another thread"):
                    wait(16)

            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
        wait(32)
    assert ledger.seconds() == {OUTSIDE: 33, "outer": 26, "inner": 4}
    with progress.stage("not recorded"):
        wait(1)
    assert "not recorded" not in ledger.seconds()


def test_launches_are_counted_by_kernel() -> None:
    with fake_cupy() as cp, recording(Ledger()) as ledger:
        X, out = cp.asarray(np.ones((4, 2))), cp.empty((1, 2))
        for _ in range(2):
            launch("segment", "sums", X, None, cp.asarray([0, 4]), 1, 2, out, over=1, each=4, threads=128)
        launch("segment", "sums", X, None, cp.asarray([0]), 0, 2, out, over=0, each=4, threads=128)
    assert ledger.launches == {"sums": 2}


def test_protect_writes_a_ledger_without_any_value(tmp_path: Path) -> None:
    data, secret = table(400), 7123456.25
    data = data.set_column(0, "c0", pa.array([secret, *np.asarray(data["c0"])[1:]]))
    pq.write_table(data, tmp_path / "in.parquet")
    (tmp_path / "r.json").write_text(json.dumps(recipe(MASKS["microaggregation"], data.column_names)))
    where = [str(tmp_path / name) for name in ("in.parquet", "r.json", "out.parquet", "ledger.json")]
    began = time.perf_counter()
    done = CliRunner().invoke(
        app, ["protect", *where[:2], "-o", where[2], "--backend", "numpy", "--profile", where[3], "--quiet"]
    )
    took = time.perf_counter() - began
    assert done.exit_code == 0, done.output
    text = (tmp_path / "ledger.json").read_text()
    assert "7123456" not in text
    found = json.loads(text)
    assert {"read", "encode", "groups", "mask", "decode", "verify", "count", "write"} <= set(found["seconds"])
    assert 0 < found["seconds_in_all"] <= took
    assert found["seconds_in_all"] == pytest.approx(sum(found["seconds"].values()), abs=1e-4)
    assert found["launches"] == {}
    assert found["peak_bytes"] > 1 << 20
    assert found["peak_device_bytes"] is None
    again = CliRunner().invoke(
        app, ["protect", *where[:2], "-o", str(tmp_path / "b.parquet"), "--profile", where[0], "--force"]
    )
    assert again.exit_code != 0, "a ledger must not replace the input"
