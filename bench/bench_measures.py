"""Seconds of the measures at scale: exact prediction measures, kernel-PCA utility, and the others.

    python bench/bench_measures.py [--prediction 100000] [--kernel 1000000] [--others 1000000] [--repeat 1] [--json]

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
    from gpuanon.assessing.utility import (
        bias,
        cells,
        clusters,
        confidence,
        differences,
        information_loss,
        ks,
        propensity,
        propensity_forest,
    )

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


def main() -> int:
    """Run the benchmarks; the exit code is 1 when a limit is exceeded at the default sizes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--prediction", type=int, default=100_000)
    parser.add_argument("--kernel", type=int, default=1_000_000)
    parser.add_argument("--others", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
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
