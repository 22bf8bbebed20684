"""Throughput of the distribution-preserving releases: a generated registry, five quasi-identifiers, end to end.

    python bench/bench_distribution_preserving.py [--rows 1000000] [--k 10] [--repeat 3] [--through arrays|protect]

Prints one JSON object per size: rows per second of clustering and release, the seconds of each stage (best run), the
largest resident memory of the process, and the reidentification rate with its seconds.  Sizes double up to
``--rows``, so that the last column of the table on stderr shows whether the cost is linear.  Each size runs in its
own process, so that its memory is measured separately.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time

import numpy as np

QUASI = ("age", "sex", "education", "income", "bmi")


def encoded_registry(rows: int) -> np.ndarray:
    """Five standardised quasi-identifiers of the generated registry; missing incomes become the median."""
    from gpuanon.tables.registry import make_registry

    table = make_registry(rows, seed=1)
    columns = []
    for name in QUASI:
        column = table[name].combine_chunks()
        if name in ("sex", "education"):
            column = column.indices if hasattr(column, "indices") else column.chunk(0).indices
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        values = np.where(np.isnan(values), np.nanmedian(values), values)
        columns.append(np.log(values) if name == "income" else values)
    X = np.column_stack(columns)
    return np.ascontiguousarray((X - X.mean(axis=0)) / X.std(axis=0))


def through_arrays(rows: int, k: int, repeat: int) -> dict:
    """Clustering and Gaussian dither on the encoded matrix."""
    from gpuanon.arrays.rng import Key
    from gpuanon.assessing.risk.reidentification import reidentification
    from gpuanon.masking.contract import Records
    from gpuanon.masking.groups import KMember
    from gpuanon.masking.operations.dither import Dither

    X = encoded_registry(rows)
    draws = Key.fresh().draws(np.arange(rows))
    runs = []
    for _ in range(repeat):
        began = time.perf_counter()
        groups = KMember(k=k).form(X, draws.child("groups"))
        clustered = time.perf_counter()
        source = Dither().apply(X, groups, Records(draws.child("dither"))).source
        runs.append((time.perf_counter() - began, clustered - began, time.perf_counter() - clustered))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds, clustering, dither = min(runs)
    began = time.perf_counter()
    risk = reidentification(X, X[source], np.arange(rows))
    return {
        "rows": rows,
        "columns": X.shape[1],
        "k": k,
        "rows_per_second": round(rows / seconds),
        "seconds": {"clustering": round(clustering, 2), "dither": round(dither, 2), "all": round(seconds, 2)},
        "peak_memory_gb": round(memory, 2),
        "reidentification": {"value": risk.value, "seconds": round(time.perf_counter() - began, 1)},
    }


def through_protect(rows: int, k: int, repeat: int) -> dict:
    """`gpuanon.protect` on the table itself: reading, encoding, verification and the final shuffle included."""
    import gpuanon
    from gpuanon.tables.registry import make_registry

    table = make_registry(rows, seed=1)
    recipe = {
        "columns": {
            "person_id": {"role": "identifier"},
            **{name: {"role": "quasi"} for name in QUASI},
            "cost": {"role": "sensitive"},
        },
        "mask": [{"method": "distribution-preserving", "k": k}],
    }
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        gpuanon.protect(table, recipe, backend="numpy")
        seconds.append(time.perf_counter() - began)
    return {
        "rows": rows,
        "k": k,
        "through": "protect",
        "rows_per_second": round(rows / min(seconds)),
        "seconds": round(min(seconds), 2),
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--through", choices=["arrays", "protect"], default="arrays")
    parser.add_argument("--alone", action="store_true", help="this size only, in this process")
    options = parser.parse_args()
    if options.alone:
        run = through_arrays if options.through == "arrays" else through_protect
        print(json.dumps(run(options.rows, options.k, options.repeat)))
        return
    print(f"{platform.processor() or platform.machine()}, numpy {np.__version__}", file=sys.stderr)
    for rows in (options.rows // 8, options.rows // 4, options.rows // 2, options.rows):
        command = [sys.executable, __file__, "--alone", "--rows", str(rows), "--k", str(options.k)]
        command += ["--repeat", str(options.repeat), "--through", options.through]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(json.dumps(result))
        line = f"{rows:>9} rows  {result['rows_per_second']:>8} rows/s  {result['peak_memory_gb']} GB"
        print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
