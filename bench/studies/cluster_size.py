"""Cluster size of partitioned ICA swapping against the number of columns (an open question of Lasko 2007, ch. 5 and 6).

    python bench/studies/cluster_size.py [--seeds 3] [--rows 4000] [--columns 3 6 12 24 48]

Generated tables: d columns that are noisy nonlinear functions of three hidden ones.  For every target the release is
held to the reference standard, and its KS distance along 20 kernel principal components measured.  The best size is the
smallest that meets the standard in every seed: smaller clusters keep more, and protect less.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from gpuanon.arrays.rng import Key
from gpuanon.assessing.risk.prediction import predict
from gpuanon.assessing.risk.reference_standard import verdict
from gpuanon.assessing.utility.kernel_pca import components_of, projected
from gpuanon.masking.bases.linear import Ica
from gpuanon.masking.given import Records
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.masking.operations.swap import Swap

TARGETS = (25, 50, 100, 200, 400, 800)
COLUMNS = (3, 6, 12, 24, 48)


def generated(rows: int, columns: int, seed: int) -> np.ndarray[Any, Any]:
    """(2 · rows, columns) standardised."""
    rng = np.random.default_rng([seed, columns])
    hidden = rng.normal(size=(2 * rows, 3))
    A, B = rng.normal(size=(2, 3, columns))
    X = np.tanh(hidden @ A) + 0.5 * (hidden @ B) ** 2 / 3 + 0.3 * rng.normal(size=(2 * rows, columns))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def one(X: np.ndarray[Any, Any], Y: np.ndarray[Any, Any], target: int, seed: int) -> tuple[bool, float, float]:
    """Whether the standard is met, D⁺ of the distance, and the mean KS distance."""
    draws = Key(f"cluster size, seed {seed:04d}".encode()).draws(np.arange(len(X)))
    groups = Spectral(target=target).form(X, draws.child("groups"))
    T, back = Ica(per_group=True).forward(X, groups)
    release = back(Swap().apply(T, groups, Records(draws.child("swap"))).values)
    result = verdict(predict(X, release), predict(X, Y))
    distances = projected(components_of(X, share=1.0, most=20), release).distances
    return result.passes, result.excess["distance"], float(distances.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--columns", type=int, nargs="*", default=COLUMNS)
    options = parser.parse_args()
    print("| columns | target | meets the standard | D⁺ | KS distance | reference's KS |")
    print("|---|---|---|---|---|---|")
    for columns in options.columns:
        tables = [generated(options.rows, columns, seed) for seed in range(options.seeds)]
        halves = [(table[: options.rows], table[options.rows :]) for table in tables]
        beside = [float(projected(components_of(X, share=1.0, most=20), Y).distances.mean()) for X, Y in halves]
        for target in TARGETS:
            found = [one(X, Y, target, seed) for seed, (X, Y) in enumerate(halves)]
            passes, excess, distance = zip(*found, strict=True)
            print(
                f"| {columns} | {target} | {sum(passes)} of {options.seeds} | {np.median(excess):.3f} |"
                f" {np.median(distance):.4f} | {np.median(beside):.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
