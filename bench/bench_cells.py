"""The effect of cell borders: information loss of a table masked as a whole, and in cells of several sizes.

    python bench/bench_cells.py --rows 400000 --columns 8 --cells 100000 50000 25000

Loss is 100 · SSE / SST over the masked columns; an unmasked column holds the row numbers, so that every
released row is compared with its own original.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpuanon.arrays.rng import Key
from gpuanon.recipe import Recipe
from gpuanon.running.protect import protect_in_parts

KEY = Key(b"a benchmark's key is no secret")


def loss(X: np.ndarray, release: pa.Table) -> float:
    """100 · SSE / SST of standardised columns."""
    masked = np.column_stack([release[f"x{j}"].to_numpy() for j in range(X.shape[1])])
    before = X[release["row"].to_numpy()]
    return float(100 * (((before - masked) ** 2).sum(axis=0) / ((X - X.mean(axis=0)) ** 2).sum(axis=0)).mean())


def main() -> None:
    """Run the measurements of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--cells", type=int, nargs="+", default=[100_000])
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shape", choices=["normal", "skewed"], default="normal")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    d = arguments.columns
    X = rng.normal(size=(arguments.rows, d)) @ (rng.normal(size=(d, d)) / np.sqrt(d))
    if arguments.shape == "skewed":
        X = np.exp(X)
    table = pa.table({"row": np.arange(arguments.rows), **{f"x{j}": X[:, j] for j in range(d)}})
    columns = {f"x{j}": {"role": "quasi"} for j in range(d)}
    recipe = Recipe.load({"columns": columns, "mask": [{"method": "microaggregation", "k": arguments.k}]})
    with TemporaryDirectory() as folder:
        pq.write_table(table, Path(folder) / "table.parquet")
        for cell in [10**9, *arguments.cells]:
            output, cpu = Path(folder) / f"release-{cell}", time.process_time()
            protect_in_parts(Path(folder) / "table.parquet", recipe, output, key=KEY, backend="numpy", cell_rows=cell)
            found = {"rows": arguments.rows, "columns": d, "k": arguments.k, "shape": arguments.shape}
            found |= {"seed": arguments.seed, "cell": cell if cell < 10**9 else "whole table"}
            found |= {"loss": round(loss(X, pq.read_table(output)), 4), "cpu": round(time.process_time() - cpu, 1)}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
