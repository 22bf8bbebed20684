"""Time, memory and information loss of the groupings, each case in its own process.

    python bench/bench_groups.py [--out FILE.json] [--case NAME …] [--repeat 3]

Cases (normal columns, correlated; standardised):

default    k-member and MDAV by default (blocks of 1024 rows, refinement) and the centroids, 100 000 to 4 000 000 × 10
wide       the same at 1 000 000 × 5, k = 10: the clusters of distribution-preserving masking
quality    20 000 × 8, k = 5: loss and time of whole-table MDAV and k-member against blocks and refinement
census     the Census reference file (GPUANON_DATA): loss before and after refinement

A figure is the best of the repeats: other work on the machine only adds time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (100_000, 250_000, 1_000_000, 4_000_000)


def normals(n: int, d: int, seed: int = 1) -> Any:
    """Correlated normal columns, standardised."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def loss(X: Any, groups: Any) -> float:
    """100 · SSE / SST."""
    from gpuanon.arrays.partition import segment_means

    apart = X - segment_means(X, groups)[groups.labels()]
    return float(100 * np.einsum("nd,nd->", apart, apart) / np.square(X - X.mean(axis=0)).sum())


def stages(X: Any, k: int, use: str, block: int, refined: bool) -> tuple[dict[str, Any], Any]:
    """Seconds of each stage, and the groups."""
    from gpuanon.arrays.partition import Partition, segment_means
    from gpuanon.masking.groups.kmember import kmember
    from gpuanon.masking.groups.mdav import mdav
    from gpuanon.masking.groups.refine import refine
    from gpuanon.numerics.median_blocks import blocks

    times: dict[str, Any] = {}

    def timed(name: str, work: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        times[name] = round(time.perf_counter() - wall, 3)
        times["cpu"] = round(times.get("cpu", 0) + time.process_time() - cpu, 3)
        return result

    groups = Partition.whole(len(X))
    if block:
        groups = timed("blocks", lambda: blocks(X, groups, block, multiple=k))
    groups = timed("groups", lambda: (kmember if use == "k-member" else mdav)(X, groups, k))
    if refined:
        groups = timed("refinement", lambda: refine(X, groups, k))
    timed("centroids", lambda: segment_means(X, groups)[groups.labels()])
    times["seconds"] = round(sum(v for name, v in times.items() if name != "cpu"), 3)
    times["rows_per_second"] = int(len(X) / times["seconds"])
    return times, groups


def run(case: dict[str, Any]) -> dict[str, Any]:
    """One case, in this process."""
    if case.get("census"):
        X = np.loadtxt(Path(os.environ["GPUANON_DATA"]) / "census" / "census.csv", delimiter=",", skiprows=1)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    else:
        X = normals(case["n"], case["d"])
    stages(X[: min(len(X), 2000)], case["k"], case["use"], case["block"], case["refine"])  # imports and first calls
    times, groups = stages(X, case["k"], case["use"], case["block"], case["refine"])
    sizes = groups.sizes
    return {
        **case,
        **times,
        "loss": round(loss(X, groups), 4),
        "smallest": int(sizes.min()),
        "largest": int(sizes.max()),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def cases(names: list[str]) -> list[dict[str, Any]]:
    """The cases of these names."""
    chosen: list[dict[str, Any]] = []
    usual = {"block": 1024, "refine": True}
    if "default" in names:
        chosen += [
            {"case": "default", "n": n, "d": 10, "k": 5, "use": use, **usual}
            for use in ("mdav", "k-member")
            for n in SIZES
        ]
    if "wide" in names:
        chosen += [{"case": "wide", "n": 1_000_000, "d": 5, "k": 10, "use": "k-member", **usual}]
    if "quality" in names:
        for use in ("mdav", "k-member"):
            for block, refine in ((0, False), (1024, False), (1024, True), (0, True)):
                chosen += [
                    {"case": "quality", "n": 20_000, "d": 8, "k": 5, "use": use, "block": block, "refine": refine}
                ]
    if "census" in names and "GPUANON_DATA" in os.environ:
        for k in (3, 5, 10):
            for refine in (False, True):
                chosen += [{"case": "census", "census": True, "k": k, "use": "mdav", "block": 0, "refine": refine}]
    return chosen


def environment() -> dict[str, Any]:
    """What the figures depend on."""
    import scipy

    return {
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--case", nargs="+", default=["default", "wide", "quality", "census"])
    parser.add_argument("--most", type=int, default=SIZES[-1], help="rows of the largest table")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(run(json.loads(arguments.one))))
        return
    results = []
    for case in cases(arguments.case):
        if case.get("n", 0) > arguments.most:
            continue
        command = [sys.executable, __file__, "--one", json.dumps(case)]
        tries = [
            json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(arguments.repeat)
        ]
        results.append(min(tries, key=lambda result: result["seconds"]))
        print(json.dumps(results[-1]), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps({"environment": environment(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
