"""`gpuanon doctor --full`: what only a device can show, on made-up tables of a million rows.

Whole runs on both backends, compared and timed by stage; part sizes across the border of shared memory; one of each
family of methods, and every measure, on smaller tables; calls of the libraries beside our kernels; the peak of the
memory pool.  The result is plain values, to be sent with ``--json``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from gpuanon.arrays import kernels, progress
from gpuanon.arrays.backend import choose, to_host
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.sorting import argsort_rows, lexicographic_order, sort_rows
from gpuanon.masking.groups.greedy.greedy_device import KMEMBER_WORDS, MDAV_WORDS
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.numerics.svd import principal_axes

METHOD_ROWS = 20_000
"""Rows of the tables, at most."""

MASKS: dict[str, dict[str, Any]] = {
    "Gaussian dither": {"method": "distribution-preserving", "k": 5},
    "Gaussian dither in single precision": {"method": "distribution-preserving", "k": 5, "precision": "single"},
    "permutation in groups": {"method": "distribution-preserving", "k": 5, "dither": "permute"},
    "boxes": {"method": "optimal-boxes", "k": 5, "sweeps": 1},
    "Mondrian": {"method": "mondrian", "k": 5},
    "optimal groups of each column": {"method": "microaggregation", "k": 5, "groups": "optimal-univariate"},
    "Gower's distance": {"method": "microaggregation", "k": 5, "metric": "gower"},
    "principal components swapped": {"method": "svd-swap", "tol": 0.5},
    "spectral clusters": {"method": "pica", "target": 40, "block": 256},
    "noise by density": {"method": "noise", "kind": "data-dependent"},
    "ranks swapped": {"method": "rank-swap", "window": 10},
    "copula": {"method": "copula"},
    "condensation": {"method": "clustered-synthesis", "k": 5},
    "recoding": {"method": "recode", "k": 3, "limit": 1.0, "columns": ["sex", "region"]},
    "local suppression": {"method": "blank", "k": 3, "columns": ["sex", "region"]},
    "rows added": {"method": "synthetic-rows", "k": 2, "columns": ["sex", "region"]},
}
"""One of each family of methods; the tests run all of them."""

BY_CUML = ("pmse_forest", "cluster_balance")
"""Measures by cuML's forests and clusters, which are not scikit-learn's; the doctor compares them by themselves."""

_SAME_ROWS = 0.98  # of rows: whole numbers may be rounded, and values drawn, either way
_TOLERANCE = 1e-6  # of figures: sums run in another order


def table(rows: int) -> pa.Table:
    """A made-up registry."""
    rng = np.random.default_rng(rows)
    age = rng.integers(18, 90, rows)
    income = np.exp(rng.normal(10, 0.6, rows) + age / 100)
    codes = {"sex": rng.integers(0, 2, rows), "region": rng.integers(0, 4, rows)}
    cost = income * 0.01 + rng.normal(size=rows)
    columns = {"age": age, "income": income, "bmi": rng.normal(26, 4, rows).round(1), "cost": cost}
    return pa.table({**columns, **{name: np.array([*"abcd"])[values] for name, values in codes.items()}})


def _recipe(mask: dict[str, Any]) -> dict[str, Any]:
    roles = dict.fromkeys(("age", "income", "bmi", "sex", "region"), "quasi") | {"cost": "sensitive"}
    columns: dict[str, dict[str, Any]] = {name: {"role": role} for name, role in roles.items()}
    for name in set(roles) - set(mask.get("columns", roles)) - {"cost"}:
        columns[name]["keep"] = True
    return {"columns": columns, "mask": [mask]}


def compared_method(mask: dict[str, Any], rows: int) -> dict[str, Any]:
    """A method on both backends: the share of released rows that are the same, and the seconds of each."""
    from gpuanon.engine.protect import protect

    data, releases, seconds = table(min(rows, METHOD_ROWS)), [], {}
    for backend in ("cupy", "numpy"):
        began = time.perf_counter()
        releases.append(protect(data, _recipe(mask), rng=7, backend=backend).data)
        seconds[backend] = {"all": time.perf_counter() - began}
    share = _same_rows(*releases)
    return {"passed": share >= _SAME_ROWS, "equal_share": share, "seconds": seconds}


def _same_rows(found: pa.Table, expected: pa.Table) -> float:
    """Share of the rows that agree in every column: numbers to rounding, whole ones to 1."""
    if found.schema != expected.schema or found.num_rows != expected.num_rows:
        return 0.0
    same = np.ones(found.num_rows, dtype=bool)
    for name in expected.column_names:
        type_ = expected[name].type
        if pa.types.is_floating(type_) or pa.types.is_integer(type_):
            a, b = (column[name].cast(pa.float64()).to_numpy() for column in (found, expected))
            allowed = 1.0 if pa.types.is_integer(type_) else 1e-9 + 1e-7 * np.abs(b)
            same &= (np.abs(a - b) <= allowed) | (np.isnan(a) & np.isnan(b))
        else:
            same &= np.array(
                [one == other for one, other in zip(*(t[name].to_pylist() for t in (found, expected)), strict=True)]
            )
    return float(same.mean())


def compared_measures(rows: int) -> dict[str, Any]:
    """All measures that run on a device, on both backends: those whose figures differ, and the seconds of each."""
    from gpuanon.assessing.comparison import Comparison
    from gpuanon.assessing.measures import MEASURES
    from gpuanon.assessing.run import compute
    from gpuanon.engine.protect import protect
    from gpuanon.tables.schema import Schema
    from gpuanon.tables.table import Table

    data, recipe = table(2 * min(rows, METHOD_ROWS)), _recipe({"method": "noise", "b": 0.1})
    half = len(data) // 2
    original, reference = Table.of(data.slice(0, half)), Table.of(data.slice(half))
    release = protect(original, recipe, rng=7, backend="numpy")
    schema = Schema.resolve(original, recipe["columns"])
    names = tuple(measure.name for measure in MEASURES.values() if measure.host is None and measure.name not in BY_CUML)
    found, seconds = [], {}
    for backend in ("cupy", "numpy"):
        began = time.perf_counter()
        comparison = Comparison(original, release.table, schema, release.link, reference, choose(backend))
        found.append(compute(comparison, names))
        seconds[backend] = {"all": time.perf_counter() - began}
    apart = [name for name in names if not _same_figure(*(one.measured.get(name) for one in found))]
    return {"passed": not apart, "measures": len(names), "different": apart, "seconds": seconds}


def _same_figure(found: Any, expected: Any) -> bool:
    """Whether both could be computed and agree, or neither could."""
    if found is None or expected is None:
        return found is expected
    return bool(np.isclose(float(found.value), float(expected.value), rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True))


ROWS = 1_000_000
COLUMNS = (4, 5, 10)
SANITIZER = "compute-sanitizer --target-processes all --tool memcheck gpuanon doctor --full --rows 2000"
"""Checks every memory access of such a run; ``--tool racecheck`` and ``initcheck`` find races and unset memory."""

_SAME_SHARE = 0.98  # of integers: a mean half way between two whole numbers may be rounded either way


def full_checks(cupy: ModuleType, rows: int = ROWS) -> dict[str, Any]:
    """All checks, each with ``name``, ``passed``, ``error`` and its figures; and the line for compute-sanitizer."""
    checks: list[dict[str, Any]] = []
    for d in COLUMNS:
        for kind in ("normal", "whole numbers"):
            name = f"protect {rows} rows of {d} columns, {kind}"
            checks.append(_attempt(name, partial(_compared_runs, cupy, rows, d, kind)))
    for d in COLUMNS:
        for grouping, per_row in ((mdav, MDAV_WORDS), (kmember, KMEMBER_WORDS)):
            for size in _border_sizes(4 * d + 8 * per_row, most=min(rows, 8000)):
                name = f"{grouping.__name__}, a part of {size} rows and {d} columns"
                checks.append(_attempt(name, partial(_border, cupy, grouping, size, d)))
    for name, mask in MASKS.items():
        checks.append(_attempt(f"method: {name}", partial(compared_method, mask, rows)))
    checks.append(_attempt("measures", lambda: compared_measures(rows)))
    for name, check in LIBRARIES.items():
        checks.append(_attempt(name, lambda check=check: {"passed": check(cupy, min(rows, 100_000))}))  # type: ignore[misc]
    return {"rows": rows, "checks": checks, "healthy": all(c["passed"] for c in checks), "sanitizer": SANITIZER}


def _attempt(name: str, check: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """One check; what it raises is its result."""
    try:
        return {"name": name, "error": None, **check()}
    except Exception as error:  # whatever goes wrong on a user's device is what the report is for
        return {"name": name, "passed": False, "error": f"{type(error).__name__}: {str(error)[:2000]}"}


def _table(rows: int, d: int, kind: str) -> pa.Table:
    rng = np.random.default_rng([rows, d])
    shared = rng.normal(size=rows)
    columns = [shared + rng.normal(size=rows) for _ in range(d)]
    if kind == "whole numbers":  # ties everywhere
        columns = [np.rint(4 * column).astype(np.int64) for column in columns]
    return pa.table({f"c{j}": column for j, column in enumerate(columns)})


def _compared_runs(cupy: ModuleType, rows: int, d: int, kind: str) -> dict[str, Any]:
    """Microaggregation on both backends: whether the releases agree, the seconds of each stage, the peak of memory."""
    table = _table(rows, d, kind)
    recipe = {
        "columns": {name: {"role": "quasi"} for name in table.column_names},
        "mask": [{"method": "microaggregation", "k": 5}],
    }
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    found, seconds = _timed_run(table, recipe, "cupy")
    peak = int(pool.total_bytes())
    expected, on_host = _timed_run(table, recipe, "numpy")
    shares = {name: _equal_share(found[name], expected[name]) for name in expected.column_names}
    apart = max(_largest_difference(found[name], expected[name]) for name in expected.column_names)
    same = min(shares.values()) >= (1.0 if kind == "normal" else _SAME_SHARE)
    return {
        "passed": same and (kind == "normal" or apart <= 1),
        "equal_share": shares,
        "largest_difference": apart,
        "seconds": {"cupy": seconds, "numpy": on_host},
        "pool_bytes": peak,
    }


def _timed_run(table: pa.Table, recipe: dict[str, Any], backend: Any) -> tuple[pa.Table, dict[str, float]]:
    """The release, and the seconds of each stage and of the whole."""
    from gpuanon.engine.protect import protect

    begin = time.perf_counter()
    last, stages = [begin], dict[str, float]()

    def listen(stage: str, done: float) -> None:
        now = time.perf_counter()
        stages[stage] = stages.get(stage, 0.0) + now - last[0]
        last[0] = now

    with progress.listening(listen):
        released = protect(table, recipe, rng=7, backend=backend)
    return released.data, {**stages, "all": time.perf_counter() - begin}


def _equal_share(found: pa.ChunkedArray, expected: pa.ChunkedArray) -> float:
    """Share of the values that agree, floating-point numbers but for their last digits."""
    a, b = (np.asarray(column.to_numpy(), dtype=np.float64) for column in (found, expected))
    return float(np.mean(np.isclose(a, b, rtol=1e-9, atol=1e-12))) if a.shape == b.shape else 0.0


def _largest_difference(found: pa.ChunkedArray, expected: pa.ChunkedArray) -> float:
    """Of two values of one row; 1 is a whole number that was rounded the other way."""
    a, b = (np.asarray(column.to_numpy(), dtype=np.float64) for column in (found, expected))
    return float(np.abs(a - b).max(initial=0.0)) if a.shape == b.shape else float("inf")


def _border_sizes(bytes_per_row: int, most: int) -> list[int]:
    """Part sizes at which the rows cross 48 KB and the device's maximum, with or without static arrays."""
    borders = (48 * 1024, kernels.limits().shared)
    sizes = {(border - rest) // bytes_per_row + beyond for border in borders for rest in (0, 512, 1024)
             for beyond in (-2, -1, 0, 1, 16)}  # fmt: skip
    return sorted(size for size in sizes if 8 <= size <= most)


def _border(cupy: ModuleType, grouping: Callable[..., Partition], size: int, d: int) -> dict[str, Any]:
    """Groups of one part of whole numbers, on the device and on the host."""
    X = np.random.default_rng(size).integers(0, 64, (size, d)).astype(np.float64)
    expected = grouping(X, Partition.whole(size), 5).labels()
    x = cupy.asarray(X)
    return {"passed": bool(np.array_equal(to_host(grouping(x, Partition.whole(size, x), 5).labels()), expected))}


def _sorts(cupy: ModuleType, rows: int) -> bool:
    X = np.random.default_rng(1).integers(0, 50, (8, rows)).astype(np.float64)
    x = cupy.asarray(X)
    pairs = (
        (argsort_rows(x), argsort_rows(X)),
        (sort_rows(x), sort_rows(X)),
        (lexicographic_order(list(x)), lexicographic_order(list(X))),
    )
    return all(np.array_equal(to_host(ours), theirs) for ours, theirs in pairs)


def _eigenvalues(cupy: ModuleType, rows: int) -> bool:
    A = np.random.default_rng(2).normal(size=(max(1, rows // 200), 10, 10))
    A = A @ A.transpose(0, 2, 1)
    return bool(np.allclose(to_host(cupy.linalg.eigh(cupy.asarray(A))[0]), np.linalg.eigh(A)[0], rtol=1e-9, atol=1e-9))


def _axes(cupy: ModuleType, d: int) -> bool:
    X = np.random.default_rng(d).normal(size=(600, d)) * np.geomspace(1, 1e-2, d)
    starts = np.array([0, 200, 400, 600])
    found = principal_axes(cupy.asarray(X), Partition(cupy.arange(600), cupy.asarray(starts)))
    expected = principal_axes(X, Partition(np.arange(600), starts))
    return bool(np.allclose(to_host(found.s), expected.s, rtol=1e-8))


LIBRARIES: dict[str, Callable[[ModuleType, int], bool]] = {
    "sorts": _sorts,
    "eigenvalues of many matrices": _eigenvalues,
    "singular values, 10 columns": lambda cupy, rows: _axes(cupy, 10),
    "singular values, 40 columns": lambda cupy, rows: _axes(cupy, 40),
}


def rendered(report: dict[str, Any]) -> list[str]:
    """The checks as lines of text."""
    lines = [f"The full check, {report['rows']} rows:"]
    for check in report["checks"]:
        timing = f"  {check['seconds']['cupy']['all']:.2f} s" if "seconds" in check else ""
        why = "" if check["error"] is None else f"  {check['error'].splitlines()[0]}"
        lines.append(f"  {'ok' if check['passed'] else 'FAILED':<7}{check['name']}{timing}{why}")
    return [*lines, f"To look for memory errors: {report['sanitizer']}"]
