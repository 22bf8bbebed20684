"""Seconds of the measures at scale: exact prediction measures, kernel-PCA utility, and the others.

    python bench/bench_measures.py [--prediction 100000] [--kernel 1000000] [--others 1000000] [--repeat 1] [--json]
    python bench/bench_measures.py --assess 1000000 --columns 20 [--numeric]

The second form is `assess` as a whole: every measure of the catalogue once, with link and reference, on one comparison
(what several measures share is counted for the first of them); a release with noise, in which no two records are equal.

The tables are synthetic: 28 correlated columns, and a release with swapped principal components.  Quality is reported
with speed: the prediction measures are exact (over all pairs), and the kernel-PCA distances by landmarks are compared
with the exact ones on 3000 rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

COLUMNS = 28
LIMITS = {"prediction": 120.0, "kernel_pca": 60.0}
"""Seconds that must not be exceeded, at the default sizes, on two cores."""


def tables(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """An original with skewed, correlated columns and a release of it: every principal component permuted."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(COLUMNS, COLUMNS)) / np.sqrt(COLUMNS)
    X = rng.standard_normal((rows, COLUMNS)) @ mix
    X[:, ::3] = np.expm1(0.5 * X[:, ::3])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    _, V = np.linalg.eigh(np.cov(X.T))
    T = X @ V
    for j in range(COLUMNS):
        T[:, j] = rng.permutation(T[:, j])
    return X, T @ V.T


def best_of(repeat: int, work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds of the fastest run, the processor seconds it used (what a busy machine does not change), its result."""
    runs = []
    for _ in range(repeat):
        start, used = time.perf_counter(), time.process_time()
        result = work()
        runs.append((time.perf_counter() - start, time.process_time() - used, result))
    seconds, used, result = min(runs, key=lambda run: run[0])
    return {"seconds": seconds, "processor_seconds": used}, result


def prediction(rows: int, repeat: int) -> dict[str, Any]:
    """The three prediction measures, every original compared with every released record."""
    from gpuanon.assessing.risk.prediction import predict

    X, Y = tables(rows)
    seconds, found = best_of(repeat, lambda: predict(X, Y, limit=max(rows, 1)))
    exact = len(found.rows) == rows
    return {
        "measure": "prediction",
        "rows": rows,
        **seconds,
        "exact": exact,
        "median": float(np.median(found.distance)),
    }


def kernel(rows: int, repeat: int) -> dict[str, Any]:
    """Kernel-PCA utility by 1000 landmarks; beside it how far its distances are from exact ones on 3000 rows."""
    from gpuanon.assessing.utility.kernel_pca import components_of, kernel_pca, projected

    X, Y = tables(rows)
    seconds, found = best_of(repeat, lambda: kernel_pca(X, Y))
    few, shown = X[:3000], Y[:3000]
    exact = projected(components_of(few, share=1.0), shown).distances.mean()
    landmarks = projected(components_of(few, share=1.0, exact=10), shown).distances.mean()  # 1000 of 3000 rows
    return {
        "measure": "kernel_pca",
        "rows": rows,
        **seconds,
        "value": found.value,
        "on_3000_rows": {"exact": float(exact), "landmarks": float(landmarks)},
    }


def others(rows: int, repeat: int) -> list[dict[str, Any]]:
    """The cheap measures, each once."""
    from gpuanon.assessing.utility import bias, differences, information_loss, ks
    from gpuanon.assessing.utility import cluster_balance as clusters
    from gpuanon.assessing.utility import confidence_overlap as confidence
    from gpuanon.assessing.utility import contingency as cells
    from gpuanon.assessing.utility.propensity import forest as propensity_forest
    from gpuanon.assessing.utility.propensity import pmse as propensity

    X, Y = tables(rows)
    codes = cells.binned(X, Y)
    modules = {
        differences: ("means", "variances", "correlations", "rank_correlations"),
        information_loss: ("records_changed", "mse", "r2", "il1s", "information_loss"),
        ks: ("ks",),
        confidence: ("confidence_overlap", "estimator_mse"),
        bias: ("mean_bias", "correlation_bias", "regression_drift"),
        propensity: ("pmse_logit", "pmse_cart", "propensity_ks", "propensity_wilcoxon"),
        propensity_forest: ("pmse_forest",),
        clusters: ("cluster_balance",),
        cells: ("vw", "jsd", "kl", "cell_ks"),
    }
    found = []
    for module, names in modules.items():
        given = codes if module is cells else (X, Y)
        for name in names:
            seconds, _ = best_of(repeat, partial(getattr(module, name), *given))
            found.append({"measure": name, "rows": rows, **seconds})
    return found


def mixed_table(rows: int, columns: int, rng: np.random.Generator, *, numeric: bool) -> Any:
    """Correlated numbers, whole numbers and skewed amounts; unless `numeric`, categories and missing values too."""
    import pandas as pd

    mix = np.random.default_rng(99).normal(size=(columns, columns)) / np.sqrt(columns)
    X = rng.standard_normal((rows, columns)) @ mix
    found: dict[str, Any] = {}
    for j, x in enumerate(X.T):
        if j % 5 == 1 and not numeric:
            found[f"c{j}"] = np.array(list("abcdefgh"))[np.clip((x / x.std() * 1.7 + 4).astype(int), 0, 7)]
        else:
            found[f"x{j}"] = (
                np.round(x if j % 5 != 3 else np.exp(8 + 0.5 * x), 4) if j % 5 != 2 else np.rint(50 + 15 * x)
            )
    if not numeric:
        found["x0"][rng.random(rows) < 0.01] = np.nan
    return pd.DataFrame(found)


def assessed(rows: int, columns: int, numeric: bool) -> list[dict[str, Any]]:
    """Every measure once; one that cannot be computed has its reason."""
    from gpuanon.assessing.comparison import Comparison
    from gpuanon.assessing.measures import MEASURES
    from gpuanon.errors import GpuanonError
    from gpuanon.recipe import Recipe
    from gpuanon.tables.schema import Schema
    from gpuanon.tables.table import Table

    rng = np.random.default_rng(0)
    original, reference = (mixed_table(n, columns, rng, numeric=numeric) for n in (rows, rows // 2))
    release, names = original.copy(), list(original)
    for name in names:
        values = original[name].to_numpy()
        if name.startswith("c"):
            swapped = rng.random(rows) < 0.2
            release.loc[swapped, name] = rng.permutation(values[swapped])
        else:
            release[name] = np.round(values + 0.3 * np.nanstd(values) * rng.normal(size=rows), 4)
    order = rng.permutation(rows)
    roles = {name: {"role": "quasi" if at < columns - 2 else "sensitive"} for at, name in enumerate(names)}
    recipe = Recipe.load({"columns": roles, "mask": [{"method": "svd-swap"}]})
    before, after, other = map(Table.of, (original, release.iloc[order].reset_index(drop=True), reference))
    del original, release, reference
    comparison = Comparison(before, after, Schema.resolve(before, recipe.columns, recipe.others), order, other)
    found = []
    for measure in MEASURES.values():
        start, used = time.perf_counter(), time.process_time()
        record: dict[str, Any] = {"measure": measure.name, "rows": rows}
        try:
            record["value"] = measure.measured(comparison if measure.host is None else comparison.host, {}).value
        except GpuanonError as error:
            record["not_measured"] = str(error).splitlines()[0]
        record |= {"seconds": time.perf_counter() - start, "processor_seconds": time.process_time() - used}
        record["peak_memory_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        found.append(record)
    total = {name: sum(one[name] for one in found) for name in ("seconds", "processor_seconds")}
    return [*found, {"measure": "all of them", "rows": rows, **total}]


def main() -> int:
    """Run the benchmarks; the exit code is 1 when a limit is exceeded at the default sizes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--prediction", type=int, default=100_000)
    parser.add_argument("--kernel", type=int, default=1_000_000)
    parser.add_argument("--others", type=int, default=1_000_000)
    parser.add_argument("--assess", type=int, default=0, help="rows; every measure once, and nothing else")
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--numeric", action="store_true", help="numbers alone, no missing values")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
    if options.assess:
        found = assessed(options.assess, options.columns, options.numeric)
        options.prediction = options.kernel = options.others = 0
    if options.prediction:
        found.append(prediction(options.prediction, options.repeat))
    if options.kernel:
        found.append(kernel(options.kernel, options.repeat))
    if options.others:
        found += others(options.others, options.repeat)
    for record in found:
        limit = LIMITS.get(record["measure"])
        if limit is not None:
            record["limit_seconds"] = limit
    environment = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    if options.json:
        print(json.dumps({"environment": environment, "results": found}))
    else:
        for record in found:
            print(f"{record['measure']:<20} {record['rows']:>9} rows {record['seconds']:>8.2f} s", end="")
            rest = {key: value for key, value in record.items() if key not in ("measure", "rows", "seconds")}
            print(f"  {rest}" if rest else "")
        print(environment, file=sys.stderr)
    return int(any(record["seconds"] > record.get("limit_seconds", np.inf) for record in found))


if __name__ == "__main__":
    sys.exit(main())
