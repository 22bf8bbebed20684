"""A guard against slower code: processor time of the hot paths, relative to a reference computation of the same run.

    python bench/guard.py            exits with 1 if a ratio is more than 1.5 times that of bench/guard.json
    python bench/guard.py --write    measures the ratios anew

The reference (sorting, gathering, products and exponentials in NumPy) and each path run in turns, on one thread; the
least time of each counts.  A path that seems slow is measured again before it fails, so that other work on the machine
does not fail it: it only ever adds time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from frame import encoded_registry, mixed_columns, normals
from threadpoolctl import threadpool_limits

KNOWN = Path(__file__).resolve().parent / "guard.json"
SLOWER = 1.5
ROUNDS, AGAIN = 4, 3
Work = Callable[[], Any]


def reference() -> Work:
    """Work of about 50 ms whose speed depends on the machine only."""
    X = np.random.default_rng(0).standard_normal((40_000, 16))

    def work() -> None:
        order = np.argsort(X[:, 0], kind="stable")
        Y = X[order]
        for _ in range(3):
            np.exp(-0.5 * np.square(Y - Y.mean(axis=0)))
            Y = Y @ (Y.T @ Y) / len(Y)
        np.add.at(np.zeros(1000), order % 1000, 1.0)

    return work


def paths() -> dict[str, Work]:
    """The hot paths, each of about a tenth of a second of processor time."""
    return {**array_paths(), **table_paths()}


def array_paths() -> dict[str, Work]:
    """Groups, dither, spectral clusters, distances."""
    from gpuanon.arrays.partition import Partition
    from gpuanon.arrays.rng import Key
    from gpuanon.masking.bases.linear import Ica
    from gpuanon.masking.given import Records
    from gpuanon.masking.groups.kmember import KMember
    from gpuanon.masking.groups.mdav.mdav_models import Mdav
    from gpuanon.masking.groups.refine.refine import refine
    from gpuanon.masking.groups.spanning_tree import SpanningTree
    from gpuanon.masking.groups.spectral_clusters import Spectral
    from gpuanon.masking.operations.dither import Dither
    from gpuanon.numerics.cuts.median_blocks import blocks
    from gpuanon.numerics.distance.distance import k_nearest

    X, R, M = normals(20_000, 8), encoded_registry(8_000), mixed_columns(4_000)
    draws = Key(b"the guard's key is no secret").draws(np.arange(20_000))
    some = draws.take(np.arange(8_000))
    formed = KMember(k=5, refine=False).form(X, draws)
    clusters = KMember(k=10, refine=False).form(R, some)
    spectral = Spectral(target=200)
    parts = spectral.form(M, draws.take(np.arange(4_000)))
    whole = Partition.whole(len(X))

    def compiled(on: bool, work: Work) -> Work:
        def run() -> Any:
            os.environ["GPUANON_COMPILED"] = "1" if on else "0"
            return work()

        return run

    return {
        "blocks": lambda: blocks(X, whole, 1024),
        "mdav": lambda: Mdav(k=5, refine=False).form(X, draws),
        "k-member": lambda: KMember(k=5, refine=False).form(X, draws),
        "spanning tree": lambda: SpanningTree(k=5, refine=False).form(X[:8_000], some),
        "refinement in NumPy": compiled(
            False, lambda: refine(X[:5_000], KMember(k=5).form(X[:5_000], some), 5, turns=8)
        ),
        "refinement, compiled": compiled(True, lambda: refine(X, formed, 5, turns=8)),
        "five nearest rows": lambda: k_nearest(X[:6_000], X[6_000:12_000], 5),
        "Gaussian dither": lambda: Dither().apply(R, clusters, Records(some)),
        "spectral clusters": lambda: spectral.form(M, draws.take(np.arange(4_000))),
        "ICA in clusters": lambda: Ica(per_group=True).forward(M, parts),
    }


def table_paths() -> dict[str, Work]:
    """Files, verification, the exchange, a whole run."""
    import gpuanon
    from gpuanon.engine.store.shuffle import collect, scatter
    from gpuanon.tables.formats import io
    from gpuanon.tables.formats.writing import write
    from gpuanon.tables.registry import make_registry
    from gpuanon.tables.row_bits import row_bits
    from gpuanon.tables.table import Table

    folder = Path(tempfile.mkdtemp())
    registry, X = make_registry(20_000, seed=1), normals(200_000, 8)
    pyarrow.csv.write_csv(registry, folder / "in.csv")
    table = pa.table({f"x{j}": X[:, j] for j in range(8)})
    native, small, to = Table.of(table), table.slice(0, 5_000), np.arange(200_000) * 7919 % 100
    recipe = {
        "columns": {f"x{j}": {"role": "quasi"} for j in range(8)},
        "mask": [{"method": "microaggregation", "k": 5}],
    }

    def exchange() -> None:
        scatter(table, to, folder / "rows.arrow")
        for place in range(0, 100, 10):
            collect([folder / "rows.arrow"], [place])

    return {
        "reading CSV": lambda: io.read(folder / "in.csv"),
        "writing CSV": lambda: write(Table.of(registry), folder / "out.csv", force=True),
        "bits of rows": lambda: row_bits(native, native.names),
        "exchange of rows": exchange,
        "protect, whole run": lambda: gpuanon.protect(small, recipe, backend="numpy"),
    }


def seconds(work: Work) -> float:
    """Processor seconds of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def ratio(work: Work, base: Work) -> float:
    """Least processor time of `work` in units of the least of `base`, measured in turns."""
    work()
    pairs = [(seconds(work), seconds(base)) for _ in range(ROUNDS)]
    return min(one for one, _ in pairs) / min(other for _, other in pairs)


def main() -> int:
    """Measure all paths; 1 if one is slower than it may be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="keep the ratios of this run as known")
    write = parser.parse_args().write
    os.environ["GPUANON_THREADS"] = "1"
    threadpool_limits(1)
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    base, found, slow = reference(), {}, []
    base()
    for name, work in paths().items():
        os.environ["GPUANON_COMPILED"] = "0"  # unless a path asks for it: numba is an option
        limit = SLOWER * known.get(name, np.inf)
        found[name] = min(ratio(work, base) for _ in range(2)) if write else ratio(work, base)
        for _ in range(0 if write else AGAIN):
            if found[name] <= limit:
                break
            found[name] = min(found[name], ratio(work, base))
        late = not write and found[name] > limit
        slow += [name] * late
        mark = "  SLOWER than 1.5 × known" if late else ""
        print(f"{name:24} {found[name]:8.2f}  (known {known.get(name, float('nan')):.2f}){mark}", flush=True)
    if write:
        KNOWN.write_text(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=2) + "\n")
    elif set(known) != set(found):
        print("bench/guard.json names other paths: run with --write", file=sys.stderr)
        return 1
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
