"""Probabilistic linkage beside the distance attack, on the releases of the spectral study.

    GPUANON_DATA=folder python bench/studies/spectral_linkage.py [--seeds 3]

Same data, releases and decoding as spectral.py, the combinations of its frontier included; seeds from 200 on, which no
choice was made on.  Prints, as means over the seeds with the standard error of a share of all their records: what is
linked rightly by distance, by the normal model and by levels of agreement, each found by EM without the link, and by
an attacker who knows which pairs belong together.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from spectral_data import Samples, decode, draw, read
from spectral_releases import FRONTIER, RHS_K, combine

from gpuanon.arrays.rng import Key
from gpuanon.assessing.risk.linkage import linkage_probabilistic
from gpuanon.assessing.risk.linkage.candidate_pairs import Side
from gpuanon.masking.bases.linear import Ica, Identity, Svd
from gpuanon.masking.contract import Basis, Groups, Operation
from gpuanon.masking.groups.median_cuts import MedianCuts
from gpuanon.masking.groups.plain_groups import Whole
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.masking.operations.added_noise import Noise
from gpuanon.masking.operations.centroid import Centroid
from gpuanon.masking.operations.swap import Swap

FIRST = 200
COLUMNS = ("distance", "normal", "levels", "informed")
RELEASES: dict[str, tuple[Groups, Basis, Operation]] = {
    "noise 0.1": (Whole(), Identity(), Noise(b=0.1, kind="corrected")),
    "noise 0.3": (Whole(), Identity(), Noise(b=0.3, kind="corrected")),
    "noise 1": (Whole(), Identity(), Noise(b=1.0, kind="corrected")),
    "spectral-rhs": (MedianCuts(k=RHS_K, on="svd"), Identity(), Centroid()),
    "svd-swap": (Whole(), Svd(), Swap(tol=0.05)),
    **{f"pica {target}": (Spectral(target=target), Ica(per_group=True), Swap()) for target in (100, 200, 300)},
    **FRONTIER,
}


def shares(samples: Samples, seed: int, only: str) -> dict[str, list[float]]:
    """What is linked in each release of a seed."""
    X = samples.original
    draws = Key(f"linkage in the spectral study, seed {seed:04d}".encode()).draws(np.arange(len(X)))
    tables = {
        name: decode(combine(X, *parts, draws.child(name))[0]) for name, parts in RELEASES.items() if only in name
    }
    tables |= {"third sample": samples.third} if only in "third sample" else {}
    found = {}
    for name, table in tables.items():
        measured = linkage_probabilistic(
            Side(X, X), Side(table, table), np.arange(len(X)), categorical=[False] * X.shape[1]
        )
        models = measured.details["linked_by_model"]
        informed = next(one.value for one in measured.beside if one.name == "informed")
        found[name] = [models[column] for column in COLUMNS[:-1]] + [informed]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="releases whose name has this text")
    options = parser.parse_args()
    table = read(Path(os.environ["GPUANON_DATA"]))
    runs = []
    for seed in range(FIRST, FIRST + options.seeds):
        runs.append(shares(draw(*table, seed), seed, options.only))
        print(f"seed {seed} done", file=sys.stderr, flush=True)
    print("| release | " + " | ".join(COLUMNS) + " | error of distance |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for name in runs[0]:
        means = np.mean([run[name] for run in runs], axis=0)
        error = np.sqrt(means[0] * (1 - means[0]) / (2000 * len(runs)))
        print(f"| {name} | " + " | ".join(f"{value:.4f}" for value in means) + f" | {error:.4f} |", flush=True)


if __name__ == "__main__":
    main()
