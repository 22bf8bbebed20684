"""Open problems of Lasko's thesis (section 6.3), measured: hierarchical categories and wide data.

    GPUANON_DATA=folder python bench/studies/spectral_open_problems.py [--seeds 5]

Hierarchies: UCI Adult with ARX's hierarchies, 4000 records masked, flat indicators against an indicator for every node.
Wide data: genotypes (0, 1, 2) of 300 synthetic people at 3000 sites with linkage, ten times more columns than rows.
Anonymising in kernel space and tree-dependent components are in spectral_frontier.py.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.studies.category_paths import decode_paths, encode_paths, path_matrix
from gpuanon.arrays.rng import Draws, Key
from gpuanon.assessing.risk.prediction import predict
from gpuanon.assessing.risk.reference_standard import verdict
from gpuanon.masking.bases.linear import Ica, Svd
from gpuanon.masking.contract import Basis, Groups, Operation
from gpuanon.masking.given import Records
from gpuanon.masking.groups.plain_groups import Whole
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.masking.operations.swap import Swap

Floats = np.ndarray[Any, Any]

NUMERIC = ("age", "education-num", "hours-per-week")
HIERARCHIES = ("education", "marital-status", "native-country", "occupation", "workclass")
FLAT = ("sex", "race", "income")
ROWS = 4000
METHODS: dict[str, tuple[Groups, Basis, Operation]] = {
    "svd-swap": (Whole(), Svd(), Swap(tol=0.05)),
    "clustered-swap": (Spectral(target=250), Ica(per_group=True), Swap(orthonormal=True)),
}


def release(X: Floats, parts: tuple[Groups, Basis, Operation], draws: Draws) -> Floats:
    """groups × basis × operation, before decoding."""
    groups, basis, operation = parts
    formed = groups.form(X, draws.child("groups"))
    T, back = basis.forward(X, formed)
    return back(operation.apply(T, formed, Records(draws.child("operation"))).values)  # type: ignore[union-attr]


class Adult:
    """Adult as numbers, with the ancestors of every leaf of five hierarchical columns."""

    def __init__(self, folder: Path) -> None:
        with open(folder / "adult" / "adult_train_complete_30162.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.numbers = np.array([[float(row[name]) for name in NUMERIC] for row in rows])
        self.ancestors, self.leaves = {}, {}
        for name in HIERARCHIES:
            with open(folder / "adult" / "hierarchies" / f"adult_hierarchy_{name}.csv", encoding="utf-8") as file:
                lines = [line.strip().split(";") for line in file if line.strip()]
            present = {row[name] for row in rows}
            lines = [line for line in lines if line[0] in present]
            levels = [np.unique(column, return_inverse=True)[1] for column in np.array(lines).T]
            self.ancestors[name] = np.column_stack([np.arange(len(lines)), *levels[1:]])
            at = {line[0]: i for i, line in enumerate(lines)}
            self.leaves[name] = np.array([at[row[name]] for row in rows])
        for name in FLAT:
            kinds, codes = np.unique([row[name] for row in rows], return_inverse=True)
            self.ancestors[name] = np.arange(len(kinds))[:, None]
            self.leaves[name] = codes

    def paths(self, name: str, nested: bool) -> Floats:
        return path_matrix(self.ancestors[name] if nested else self.ancestors[name][:, :1])

    def encode(self, rows: Floats, nested: bool) -> Floats:
        """Standardised numbers, then the indicators; those of one column have the variance 1 together."""
        numbers = self.numbers[rows]
        blocks = [(numbers - self.numbers.mean(axis=0)) / self.numbers.std(axis=0)]
        for name in self.leaves:
            block = encode_paths(self.leaves[name][rows], self.paths(name, nested))
            blocks.append(block / np.sqrt(block.var(axis=0).sum()))
        return np.column_stack(blocks)

    def decode(self, table: Floats, nested: bool) -> dict[str, Floats]:
        """Leaf of every column of categories."""
        found, at = {}, len(NUMERIC)
        for name in self.leaves:
            paths = self.paths(name, nested)
            found[name] = decode_paths(table[:, at : at + paths.shape[1]], paths)
            at += paths.shape[1]
        return found


def hierarchies(folder: Path, seeds: int) -> None:
    """Total variation of leaves and of branches, and of branches against income, flat and nested."""
    adult = Adult(folder)
    print("method | encoding | leaves | branches | branches × income (total variation, mean of five columns)")
    for method, parts in METHODS.items():
        for nested in (False, True):
            figures = []
            for seed in range(seeds):
                rows = np.random.default_rng(seed).permutation(len(adult.numbers))[:ROWS]
                draws = Key(f"open problems, seed {seed:04d}".encode()).draws(np.arange(ROWS), method)
                found = adult.decode(release(adult.encode(rows, nested), parts, draws), nested)
                figures.append(np.mean([changes(adult, rows, found, name) for name in HIERARCHIES], axis=0))
            leaf, branch, joint = np.median(figures, axis=0)
            print(f"{method} | {'every node' if nested else 'flat'} | {leaf:.4f} | {branch:.4f} | {joint:.4f}")


def changes(adult: Adult, rows: Floats, found: dict[str, Floats], name: str) -> list[float]:
    """Total variation between original and release: leaves, their parents, parents × income."""
    before, after = adult.leaves[name][rows], found[name]
    parents = adult.ancestors[name][:, 1]
    income = adult.leaves["income"][rows], found["income"]
    return [
        variation(before, after),
        variation(parents[before], parents[after]),
        variation(2 * parents[before] + income[0], 2 * parents[after] + income[1]),
    ]


def variation(a: Floats, b: Floats) -> float:
    """Total variation distance of two samples of codes."""
    most = int(max(a.max(), b.max())) + 1
    return float(0.5 * np.abs(np.bincount(a, minlength=most) / len(a) - np.bincount(b, minlength=most) / len(b)).sum())


def genotypes(n: int, sites: int, seed: int) -> Floats:
    """Genotypes of n people: two chromosomes, each a mosaic of twelve ancestral haplotypes with rare switches."""
    rng = np.random.default_rng(0)
    frequency = rng.beta(1.0, 2.0, size=sites).clip(0.05, 0.95)
    ancestral = rng.random((12, sites)) < frequency
    rng = np.random.default_rng(seed + 1)
    switch = rng.random((2 * n, sites)) < 0.01
    source = np.where(switch, rng.integers(0, 12, size=(2 * n, sites)), -1)
    source[:, 0] = rng.integers(0, 12, size=2 * n)
    last = np.maximum.accumulate(np.where(source >= 0, np.arange(sites), 0), axis=1)
    chromosomes = ancestral[np.take_along_axis(source, last, axis=1), np.arange(sites)]
    return chromosomes[:n].astype(np.float64) + chromosomes[n:]


def wide(seeds: int) -> None:
    """SVD swapping with ten times more columns than rows, decoded to 0, 1, 2."""
    print(
        "wide data | passes | D+ distance, ambiguity, uncertainty | allele frequency | neighbouring sites' r | seconds"
    )
    for title, parts in {
        "svd-swap, orthonormal": (Whole(), Svd(), Swap(orthonormal=True)),
        "svd, marginals × swap": (Whole(), Svd(marginals=True), Swap()),
    }.items():
        figures, passed = [], 0
        for seed in range(seeds):
            X, reference = genotypes(300, 3000, 2 * seed), genotypes(300, 3000, 2 * seed + 1)
            draws = Key(f"open problems, seed {seed:04d}".encode()).draws(np.arange(300), title)
            start = time.perf_counter()
            table = release(X, parts, draws)
            seconds = time.perf_counter() - start
            table = np.clip(np.rint(table), 0, 2)
            result = verdict(predict(X, table), predict(X, reference))
            passed += result.passes
            frequency = np.abs(table.mean(axis=0) - X.mean(axis=0)).mean() / 2
            linkage = np.abs(neighbours(table) - neighbours(X)).mean()
            figures.append([*result.excess.values(), frequency, linkage, seconds])
        d, a, u, frequency, linkage, seconds = np.median(figures, axis=0)
        print(
            f"{title} | {passed}/{seeds} | {d:.3f}, {a:.3f}, {u:.3f} | {frequency:.4f} | {linkage:.3f} | {seconds:.2f}"
        )


def neighbours(table: Floats) -> Floats:
    """Correlations of neighbouring sites; 0 where a site does not vary."""
    centred = table - table.mean(axis=0)
    deviation = table.std(axis=0)
    product = (centred[:, 1:] * centred[:, :-1]).mean(axis=0)
    scale = deviation[1:] * deviation[:-1]
    return np.where(scale > 0, product / np.where(scale > 0, scale, 1.0), 0.0)


def main() -> int:
    """Both open problems."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    wide(options.seeds)
    folder = os.environ.get("GPUANON_DATA")
    if folder is None:
        parser.error("GPUANON_DATA must name the folder of public reference files")
    hierarchies(Path(folder), options.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
