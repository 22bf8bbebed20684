"""The frontier: combinations of groups × basis × operation with the best utility that meet the reference standard.

    GPUANON_DATA=folder python bench/studies/spectral_frontier.py --out DIR [--seeds 10] [--only TEXT]

Same data, decoding and measures as spectral.py.  Writes frontier.csv and prints it: passes, D+ of the three privacy
measures, mean KS distance along 20 kernel principal components, the worst changes of table 4.1, how much of the rarest
category remains, and processor seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from spectral_data import Samples, decode, draw, read
from spectral_figures import write
from spectral_releases import combine

from gpuanon.arrays.rng import Key
from gpuanon.assessing.risk.prediction import predict
from gpuanon.assessing.risk.reference_standard import verdict
from gpuanon.assessing.utility.differences import correlations, means, rank_correlations, variances
from gpuanon.assessing.utility.kernel_pca import components_of, projected
from gpuanon.masking.bases.kernel_basis import KernelBasis
from gpuanon.masking.bases.linear import Ica, Svd
from gpuanon.masking.contract import Basis, Groups, Operation
from gpuanon.masking.groups.mdav.mdav_models import Mdav
from gpuanon.masking.groups.median_cuts import MedianCuts
from gpuanon.masking.groups.plain_groups import Whole
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.masking.operations.swap import Swap, TreeSwap

RAREST = 9
"""The column of the fourth ethnicity, 3 % of the records."""

MEASURES = ("distance", "ambiguity", "uncertainty")
TABLE = (means, variances, correlations, rank_correlations)
HEADER = [
    "combination",
    "passes",
    *(f"D+ {name}" for name in MEASURES),
    *(f"worst D+ {name}" for name in MEASURES),
    "mean KS",
    *(f"{word} {name}" for name in ("mean", "var", "cor", "rank cor") for word in ("median", "largest")),
    "rarest category",
    "seconds",
]


def combinations() -> dict[str, tuple[Groups, Basis, Operation]]:
    """The combinations, by name."""
    found: dict[str, tuple[Groups, Basis, Operation]] = {
        "whole × svd × swap": (Whole(), Svd(), Swap(tol=0.05)),
        "whole × svd, marginals × swap": (Whole(), Svd(marginals=True), Swap(tol=0.05)),
        "whole × svd × tree-swap": (Whole(), Svd(), TreeSwap()),
        "whole × svd, marginals × tree-swap": (Whole(), Svd(marginals=True), TreeSwap()),
        "whole × ica × swap": (Whole(), Ica(), Swap()),
        "whole × ica × tree-swap": (Whole(), Ica(), TreeSwap()),
        "whole × kernel rbf, 5 × swap": (Whole(), KernelBasis(), Swap()),
        "whole × kernel rbf, 20 × swap": (Whole(), KernelBasis(components=20), Swap()),
        "whole × kernel polynomial 2, 5 × swap": (Whole(), KernelBasis(kernel="polynomial"), Swap()),
        "spectral 200 × kernel rbf, 5 × swap": (Spectral(target=200), KernelBasis(per_group=True), Swap()),
    }
    operations = {"swap": Swap(), "swap, orthonormal": Swap(orthonormal=True)}
    operations |= {"tree-swap": TreeSwap(), "tree-swap, orthonormal": TreeSwap(orthonormal=True)}
    for target in (150, 200, 250, 300):
        for basis in (Svd, Ica):
            for marginals in (False, True):
                for name, operation in operations.items():
                    axes = f"{basis.__name__.lower()}{', marginals' if marginals else ''}"
                    part = basis(per_group=True, marginals=marginals)
                    found[f"spectral {target} × {axes} × {name}"] = (Spectral(target=target), part, operation)
    for k in (75, 100):
        near = Mdav(k=k, block=0, refine=False)
        part = Svd(per_group=True, marginals=True)
        found[f"mdav {k} × svd, marginals × swap, orthonormal"] = (near, part, Swap(orthonormal=True))
        cuts = MedianCuts(k=k, on="svd")
        found[f"median cuts {k} × svd, marginals × swap, orthonormal"] = (cuts, part, Swap(orthonormal=True))
    return found


def measure(samples: Samples, seed: int, chosen: dict[str, tuple[Groups, Basis, Operation]]) -> dict[str, list[float]]:
    """All figures of one seed, by combination; the second reference sample among them."""
    X = samples.original
    reference = predict(X, samples.second)
    components = components_of(X, share=1.0, most=20)
    draws = Key(f"spectral frontier, seed {seed:04d}".encode()).draws(np.arange(len(X)))

    def figures(table: Any, seconds: float) -> list[float]:
        result = verdict(predict(X, table), reference)
        distance = float(projected(components, table).distances.mean())
        changes = [f for measured in (m(X, table) for m in TABLE) for f in (measured.value, measured.details["max"])]
        kept = float((table[:, RAREST] > 0).sum() / (X[:, RAREST] > 0).sum())
        excess = [result.excess[name] for name in MEASURES]
        return [float(result.passes), *excess, distance, *map(float, changes), kept, seconds]

    found = {"reference sample": figures(samples.second, 0.0), "third sample": figures(samples.third, 0.0)}
    for name, (groups, basis, operation) in chosen.items():
        start = time.process_time()
        release, _ = combine(X, groups, basis, operation, draws.child(name))
        found[name] = figures(decode(release), time.process_time() - start)
    return found


def main() -> int:
    """Run all combinations on all seeds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="combinations whose name holds this text")
    options = parser.parse_args()
    folder = os.environ.get("GPUANON_DATA")
    if folder is None:
        parser.error("GPUANON_DATA must name the folder of public reference files")
    options.out.mkdir(parents=True, exist_ok=True)
    table = read(Path(folder))
    chosen = {name: parts for name, parts in combinations().items() if options.only in name}
    runs = []
    for seed in range(options.seeds):
        runs.append(measure(draw(*table, seed), seed, chosen))
        print(f"seed {seed} done", file=sys.stderr, flush=True)
    rows = []
    for name in runs[0]:
        cells = np.array([run[name] for run in runs])
        middle = np.median(cells, axis=0)
        rows.append([name, int(cells[:, 0].sum()), *middle[1:4], *cells[:, 1:4].max(axis=0), *middle[4:]])
    write(options.out / "frontier.csv", HEADER, rows)
    for row in rows:
        print(row[0], *(f"{value:.4f}" if isinstance(value, float) else value for value in row[1:]), sep=" | ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
