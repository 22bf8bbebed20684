"""Compiled functions give the results of their NumPy twins, to the bit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays import compiled
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.refine import annealing
from gpuanon.masking.groups.refine.refine import refine
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.metric import EUCLIDEAN, Metric

needs_numba = pytest.mark.skipif(not compiled.use_compiled(10**9), reason="numba is not installed or is turned off")


def random_table(seed: int) -> tuple[Any, int, Metric]:
    """Continuous, whole, repeated and mixed rows (numbers and categories) in turn; k from 2 to 50."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(120, 700)), int(rng.integers(1, 8))
    k = int(rng.integers(2, 12)) if seed % 7 else int(rng.integers(20, 51))
    X = rng.standard_normal((n, d))
    if seed % 4 == 1:
        X = rng.integers(0, 9, (n, d)).astype(float)
    if seed % 4 == 2:
        X = np.repeat(X, 4, axis=0)[:n]
    if seed % 4 != 3:
        return X, k, EUCLIDEAN
    categorical = tuple(bool(flag) for flag in rng.random(d) < 0.5)
    return np.where(categorical, rng.integers(0, 4, (n, d)), X), k, Metric("gower", categorical=categorical)


def refined(X: Any, k: int, metric: Metric, start: Any) -> Any:
    within = blocks(X, Partition.whole(len(X)), max(64, 8 * k), metric, multiple=k)
    return refine(X, start(X, within, k, metric), k, metric).labels()


def check_equal(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LEAST_WORK", 0)
    used = []
    original = annealing._anneal_compiled
    monkeypatch.setattr(annealing, "_anneal_compiled", lambda *given: used.append(1) or original(*given))
    for seed in seeds:
        X, k, metric = random_table(seed)
        start = kmember if seed % 2 else mdav
        monkeypatch.setenv("GPUANON_COMPILED", "0")
        expected = refined(X, k, metric, start)
        assert not used
        monkeypatch.setenv("GPUANON_COMPILED", "1")
        found = refined(X, k, metric, start)
        assert used, "the compiled function was not called"
        used.clear()
        np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}")


@needs_numba
def test_compiled_exchanges_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    check_equal(range(12), monkeypatch)


@needs_numba
@pytest.mark.slow
@pytest.mark.parametrize("first", range(12, 300, 36))
def test_compiled_exchanges_are_those_of_numpy_on_many_tables(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the twelve above, 300 tables."""
    check_equal(range(first, first + 36), monkeypatch)


@needs_numba
@pytest.mark.parametrize("threads", ["1", "3"])
def test_compiled_blocks_are_those_of_numpy(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of continuous, tied and mixed tables, cut as a whole and part by part, in both precisions."""
    monkeypatch.setattr(compiled, "LEAST_WORK", 0)
    monkeypatch.setenv("GPUANON_THREADS", threads)
    for seed in range(40):
        X, k, metric = random_table(seed)
        X = np.concatenate([X, X[::-1], X]).astype(np.float32 if seed % 5 == 0 else np.float64)
        found = {}
        for setting in ("0", "1"):
            monkeypatch.setenv("GPUANON_COMPILED", setting)
            coarse = blocks(X, Partition.whole(len(X)), len(X) // 3 + 1, metric)
            found[setting] = (
                coarse,
                blocks(X, coarse if seed % 2 else Partition.whole(len(X)), 2 * k, metric, multiple=k),
            )
        for mine, twin in zip(found["1"], found["0"], strict=True):
            np.testing.assert_array_equal(mine.order, twin.order, err_msg=f"seed {seed}")
            np.testing.assert_array_equal(mine.starts, twin.starts, err_msg=f"seed {seed}")


@needs_numba
@pytest.mark.parametrize("shape", ["normal", "skewed", "tied", "far from zero"])
def test_compiled_clusters_of_large_parts_are_those_of_numpy(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are looked for near the seed only: those that are passed over must never be the nearest."""
    monkeypatch.setattr(compiled, "LEAST_WORK", 0)
    for d in (1, 2, 5, 12):
        rng = np.random.default_rng(d)
        X = rng.standard_normal((1500, d))
        if shape == "skewed":
            X = np.exp(3 * X)
        if shape == "tied":
            X = np.rint(X)
        if shape == "far from zero":
            X[1:] = 1e6 + 1e-3 * X[1:]
        for k in (2, 5, 23):
            labels = []
            for setting in ("0", "1"):
                monkeypatch.setenv("GPUANON_COMPILED", setting)
                labels.append(kmember(X, Partition.whole(len(X)), k).labels())
            np.testing.assert_array_equal(*labels, err_msg=f"{d} columns, k = {k}")


@needs_numba
@pytest.mark.parametrize("group", [kmember, mdav])
def test_compiled_greedy_groups_are_those_of_numpy(group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks with leftover rows and as a whole; many rows repeat, so that ties decide."""
    monkeypatch.setattr(compiled, "LEAST_WORK", 0)
    for seed in range(24):
        X, k, metric = random_table(seed)
        if metric.kind != "euclidean":
            continue
        if seed % 3 == 0:
            X = X.round(1) + 0.0 if seed % 2 else X * 1e-3 - 5e6  # zeros of one sign; a column far from zero
        whole = Partition.whole(len(X))
        for within in (whole, blocks(X, whole, max(3 * k, 50))):
            found = []
            for setting in ("0", "1"):
                monkeypatch.setenv("GPUANON_COMPILED", setting)
                found.append(group(X, within, k, metric).labels())
            np.testing.assert_array_equal(*found, err_msg=f"seed {seed}")


def mixed_table(seed: int) -> tuple[Any, int, Metric]:
    """Continuous, whole, repeated and unequally scaled columns in turn, none, some or all replaced by categories.

    Codes may be negative, and as many as there are rows; every third table has weights.
    """
    rng = np.random.default_rng(seed)
    X, k, _ = random_table(seed)
    (n, d), share = X.shape, (0.5, 0.0, 1.0, 0.3, 0.7)[seed % 5]
    if seed % 4 == 3:
        X = X * 10.0 ** rng.integers(-6, 6, d)
    categorical = tuple(bool(flag) for flag in rng.random(d) < share)
    levels = (4, 30, 1000, 2)[seed // 2 % 4]
    weights = tuple(rng.random(d) + 0.1) if seed % 3 == 0 else None
    return (
        np.where(categorical, rng.integers(-3, levels, (n, d)), X),
        k,
        Metric("gower", weights=weights, categorical=categorical),
    )


def check_gower_groups(seeds: range, group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LEAST_WORK", 0)
    for seed in seeds:
        X, k, metric = mixed_table(seed)
        whole = Partition.whole(len(X))
        for within in (whole, blocks(X, whole, max(3 * k, 50), metric)):
            found = []
            for setting in ("0", "1"):
                monkeypatch.setenv("GPUANON_COMPILED", setting)
                found.append(group(X, within, k, metric).labels())
            np.testing.assert_array_equal(*found, err_msg=f"seed {seed}")


@needs_numba
@pytest.mark.parametrize("group", [kmember, mdav])
def test_compiled_groups_under_gower_are_those_of_numpy(group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check_gower_groups(range(20), group, monkeypatch)


@needs_numba
@pytest.mark.slow
@pytest.mark.parametrize("group", [kmember, mdav])
def test_compiled_groups_under_gower_are_those_of_numpy_on_many_tables(
    group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the twenty above, 300 tables."""
    check_gower_groups(range(20, 300), group, monkeypatch)


@needs_numba
@pytest.mark.parametrize("group", [kmember, mdav])
def test_compiled_groups_under_gower_of_a_large_part(group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Distances as large as the grid allows: 2^29, all columns at their ends."""
    monkeypatch.setattr(compiled, "LEAST_WORK", 0)
    rng = np.random.default_rng(8)
    X = np.where(rng.random((1500, 6)) < 0.5, rng.random((1500, 6)), rng.integers(0, 2, (1500, 6)))
    metric = Metric("gower", categorical=(False, False, True, False, True, False))
    found = []
    for setting in ("0", "1"):
        monkeypatch.setenv("GPUANON_COMPILED", setting)
        found.append(group(X, Partition.whole(len(X)), 7, metric).labels())
    np.testing.assert_array_equal(*found)


@needs_numba
def test_threads_do_not_change_compiled_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(5).standard_normal((6000, 3))
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("GPUANON_THREADS", threads)
        found.append(refined(X, 3, EUCLIDEAN, mdav))
    np.testing.assert_array_equal(*found)


def test_small_tables_do_not_wait_for_numba() -> None:
    code = (
        "import sys, numpy as np, gpuanon; from gpuanon.arrays.partition import Partition;"
        "from gpuanon.masking.groups.mdav import mdav; from gpuanon.masking.groups.refine.refine import refine;"
        "X = np.random.default_rng(1).standard_normal((900, 2));"
        "refine(X, mdav(X, Partition.whole(900), 3), 3); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_they_can_be_turned_off_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUANON_COMPILED", "0")
    assert not compiled.use_compiled(10**9)
    assert "none" in compiled.describe_compiled()


def test_any_other_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUANON_COMPILED", "yes")
    with pytest.raises(ParameterError, match="GPUANON_COMPILED: 0 or 1"):
        compiled.use_compiled(10**9)


@needs_numba
@pytest.mark.slow
def test_no_folder_for_machine_code_is_no_obstacle(tmp_path: Any) -> None:
    """numba refuses to cache where neither the package's folder nor the user's can be written."""
    code = (
        "import numba.core.caching as c; c.CacheImpl._locator_classes = [];"
        "from gpuanon.masking.operations.dither.compiled_rosenblatt import negate_half_squares as f;"
        "import numpy as np;"
        "y = np.ones(2); f(y, y); print(y)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}, check=False)
    assert done.stdout.strip() == "[-0.5 -0.5]", done.stderr


@needs_numba
@pytest.mark.slow
def test_a_first_compilation_is_announced_and_a_second_run_is_silent(tmp_path: Any) -> None:
    code = "from gpuanon.masking.groups.refine.annealing import warm_compiled as w; print(w())"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "GPUANON_COMPILED": "1"}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        for _ in range(2)
    ]
    assert [run.stderr.count("compiling functions") for run in runs] == [1, 0]
    first, second = (float(run.stdout) for run in runs)
    assert second < first / 2


@needs_numba
@pytest.mark.slow
def test_no_run_compiles_what_the_doctor_has_compiled(tmp_path: Any) -> None:
    """Groups of k members and of MDAV, both metrics, the Gaussian dither, classes, and a search for near records."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "GPUANON_COMPILED": "1", "COLUMNS": "200"}
    run = partial(subprocess.run, capture_output=True, text=True, env=environment, check=False)
    program = [sys.executable, "-m", "gpuanon.cli.app"]
    checked = run([*program, "doctor"])
    assert "compiling functions" in checked.stderr
    assert f"{compiled.describe_compiled()}, ready after" in checked.stdout
    work = """
        import numpy as np, pyarrow as pa, gpuanon
        from gpuanon.arrays import compiled, sorting
        from gpuanon.numerics import equal_rows
        compiled.LEAST_WORK = sorting.LEAST_COMPILED = equal_rows.LEAST_COMPILED = 0
        X = np.random.default_rng(1).standard_normal((4000, 5))
        table = pa.table({f"x{j}": X[:, j] for j in range(5)} | {"beside": np.arange(4000) % 7})
        for mask in (
            {"method": "microaggregation", "k": 5},
            {"method": "microaggregation", "k": 5, "groups": "mdav", "metric": "gower"},
            {"method": "microaggregation", "k": 5, "groups": "k-member", "metric": "gower"},
            {"method": "distribution-preserving", "k": 10, "dither": "gaussian"},
        ):
            recipe = {"columns": {f"x{j}": {"role": "quasi"} for j in range(5)}, "others": "keep", "mask": [mask]}
            release = gpuanon.protect(table, recipe, backend="numpy")
        found = gpuanon.assess(table, release.data, recipe, link=release.link, measures=["reidentification"])
        print(len(found.measured))
    """
    done = run([sys.executable, "-c", textwrap.dedent(work)])
    assert done.stdout.strip() == "1", done.stderr
    assert "compiling functions" not in done.stderr


def test_a_run_says_which_functions_are_compiled(tmp_path: Any) -> None:
    rows = "".join(f"{age}\n" for age in range(20, 60))
    (tmp_path / "in.csv").write_text(f"age\n{rows}")
    (tmp_path / "recipe.toml").write_text(
        '[columns]\nage = { role = "quasi" }\n[[mask]]\nmethod = "microaggregation"\nk = 5\n'
    )
    command = [sys.executable, "-m", "gpuanon.cli.app", "protect", "in.csv", "recipe.toml", "-o", "out.csv"]
    for setting in ("0", "1"):
        environment = {**os.environ, "GPUANON_COMPILED": setting, "COLUMNS": "200"}
        done = subprocess.run(
            [*command, "--force"], cwd=tmp_path, capture_output=True, text=True, env=environment, check=True
        )
        told = "none (turned off" if setting == "0" else compiled.describe_compiled()
        assert f"compiled functions: {told}" in done.stderr


def test_nothing_is_warmed_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUANON_COMPILED", "0")
    assert annealing.warm_compiled() is None
