"""What the benchmarks share: sizes, ways to compute the same thing, tables, and how a run is recorded.

A benchmark is a function ``test_…(record, …)`` in ``bench/test_<family>.py``.  It calls ``record(work, …)`` once, with
what it computes in a *group* (benchmarks of a group do the same work on different sizes or in different ways):

    @sizes(1_000, 10_000, full=(100_000,))
    @ways("naive", "numpy", "compiled")
    def test_mdav(record, rows, way): ...

`record` keeps rows, columns, the way and its quality in ``extra_info``, with the least processor time beside wall time.
"""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pytest

Host = np.ndarray[Any, Any]

WAYS = {
    "naive": "NumPy, from the definition",
    "scikit-learn": "scikit-learn",
    "scipy": "SciPy",
    "pyarrow": "Arrow",
    "pandas": "pandas",
    "gemm": "matrix products alone",
    "numpy": "gpuanon on NumPy",
    "compiled": "gpuanon, compiled",
    "cupy": "gpuanon on a CUDA device",
}
"""Ways to compute the same thing."""

PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow", "numba", "cupy-cuda13x", "pandas", "dask")


def sizes(*quick: int, full: tuple[int, ...] = ()) -> pytest.MarkDecorator:
    """Rows of a benchmark: `quick` by ``make bench``, and those of `full` only by ``make bench-full``."""
    large = [pytest.param(rows, marks=pytest.mark.full) for rows in full]
    return pytest.mark.parametrize("rows", [*quick, *large], ids=lambda rows: f"{rows:,}")


def ways(*names: str) -> pytest.MarkDecorator:
    """Ways to compute the same thing; ``cupy`` only where there is a device."""
    assert set(names) <= set(WAYS)
    return pytest.mark.parametrize("way", names, indirect=True)


class Record:
    """Time a function and keep what it did; the ``record`` fixture of a benchmark."""

    def __init__(self, benchmark: Any, way: str) -> None:
        self.benchmark, self.way = benchmark, way

    def __call__(
        self,
        work: Callable[[], Any],
        *,
        group: str,
        rows: int,
        columns: int,
        rounds: int = 3,
        warm: bool = True,
        quality: Callable[[Any], dict[str, float]] | None = None,
    ) -> Any:
        """The result of `work`, after a warm-up and `rounds` timed runs.

        group   : what is computed; benchmarks with the same group stand in one table and one plot
        quality : figures of the result, by name
        """
        used: list[float] = []

        def timed() -> Any:
            began = processor_seconds()
            result = work()
            used.append(processor_seconds() - began)
            return result

        self.benchmark.group = group
        result = self.benchmark.pedantic(timed, rounds=rounds, iterations=1, warmup_rounds=int(warm))
        info = {"rows": rows, "columns": columns, "way": self.way, "load": round(os.getloadavg()[0], 1)}
        info |= {"processor_seconds": min(used[int(warm) :] or used)}
        self.benchmark.extra_info.update(info)
        self.benchmark.extra_info["quality"] = {} if quality is None else quality(result)
        return result


def processor_seconds() -> float:
    """Of this process and the children that it waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def environment() -> dict[str, Any]:
    """What the figures depend on; no name of a machine."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python_version": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "load": [round(load, 2) for load in os.getloadavg()],
        "gpuanon_environment": {name: value for name, value in os.environ.items() if name.startswith("GPUANON_C")},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def on(way: str, *arrays: Host) -> tuple[Any, ...]:
    """The arrays where this way computes."""
    from gpuanon.arrays.backend import choose

    xp = choose("cupy" if way == "cupy" else "numpy").xp
    return tuple(xp.asarray(array) for array in arrays)


def normals(rows: int, columns: int, seed: int = 1) -> Host:
    """Correlated normal columns, standardised."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns))
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def mixed_columns(rows: int, seed: int = 0) -> Host:
    """18 skewed columns that depend on each other and on three categories of two, five and four levels: 28 in all."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((rows, 6))
    X = np.empty((rows, 28))
    for at, levels in ((0, 2), (1, 5), (6, 4)):
        score = hidden[:, at % 6] + 0.7 * rng.standard_normal(rows)
        code = np.searchsorted(np.quantile(score[:10_000], np.arange(1, levels) / levels), score)
        if levels == 2:
            X[:, 0] = 2.0 * code - 1
        else:
            X[:, at : at + levels] = np.where(code[:, None] == np.arange(levels), 1.0, -1.0)
    mix = rng.normal(size=(6, 18))
    X[:, 10:] = hidden @ mix / np.sqrt(6) + 0.5 * rng.standard_normal((rows, 18))
    X[:, 10:16] = np.expm1(0.6 * X[:, 10:16])
    X[:, 16:18] = X[:, 18:20] ** 2 + 0.5 * X[:, 16:18]
    X[:, 10:] = (X[:, 10:] - X[:, 10:].mean(axis=0)) / X[:, 10:].std(axis=0)
    return X


REGISTRY_QUASI = ("age", "sex", "education", "income", "bmi")
"""Quasi-identifiers of the generated registry that distribution-preserving releases are measured on."""


def encoded_registry(rows: int) -> Host:
    """Five standardised quasi-identifiers of the generated registry; missing incomes become the median."""
    from gpuanon.tables.registry import make_registry

    table = make_registry(rows, seed=1)
    columns = []
    for name in REGISTRY_QUASI:
        column = table[name].combine_chunks()
        if name in ("sex", "education"):
            column = column.indices if hasattr(column, "indices") else column.chunk(0).indices
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        values = np.where(np.isnan(values), np.nanmedian(values), values)
        columns.append(np.log(values) if name == "income" else values)
    X = np.column_stack(columns)
    return np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0))


def loss_of(X: Host, groups: Any) -> float:
    """100 · SSE / SST of groups, of the host or of a device, whose rows receive their mean."""
    from gpuanon.arrays.backend import on_device, to_host
    from gpuanon.arrays.partition import Partition, segment_means

    if on_device(groups.order):
        groups = Partition.from_labels(to_host(groups.labels()))
    apart = X - segment_means(X, groups)[groups.labels()]
    return float(100 * np.einsum("nd,nd->", apart, apart) / np.square(X - X.mean(axis=0)).sum())


def loss_of_values(X: Host, released: Host) -> float:
    """100 · SSE / SST of released rows, in the order of the originals."""
    return float(100 * np.square(X - released).sum() / np.square(X - X.mean(axis=0)).sum())


def mean_ks(original: Any, released: Any, names: Iterable[str]) -> float:
    """Mean KS distance of these columns of two Arrow tables, without nulls."""
    from gpuanon.assessing.ks_distance import ks_distance

    pairs = ([side[name].drop_null().to_numpy().astype(float) for side in (original, released)] for name in names)
    return float(np.mean([ks_distance(x, y) for x, y in pairs]))
