"""Tree-dependent components in place of independent ones (Lasko 2007, 6.3), on the table of the spectral study.

    GPUANON_DATA=folder python bench/studies/tree_components.py [--seeds 5]

Seeds from 100 on, which no choice was made on.  Prints, as medians over the seeds: how often the reference standard is
met, D⁺ of the prediction distance, the mean KS distance along 20 kernel principal components with its range, and
processor seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from spectral_data import draw, read
from spectral_frontier import measure

from gpuanon.masking.bases.linear import Ica
from gpuanon.masking.bases.tca import Tca
from gpuanon.masking.groups.plain_groups import Whole
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.masking.operations.swap import Swap, TreeSwap

COMBINATIONS = {
    "whole × ica × swap": (Whole(), Ica(), Swap()),
    "whole × ica × tree-swap": (Whole(), Ica(), TreeSwap()),
    "whole × tca × tree-swap": (Whole(), Tca(), TreeSwap()),
    "spectral 250 × ica × swap": (Spectral(target=250), Ica(per_group=True), Swap()),
    "spectral 250 × ica × tree-swap": (Spectral(target=250), Ica(per_group=True), TreeSwap()),
    "spectral 250 × tca × tree-swap": (Spectral(target=250), Tca(per_group=True), TreeSwap()),
    "spectral 250 × ica × swap, orthonormal": (Spectral(target=250), Ica(per_group=True), Swap(orthonormal=True)),
    "spectral 250 × tca × tree-swap, orthonormal": (
        Spectral(target=250),
        Tca(per_group=True),
        TreeSwap(orthonormal=True),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    table = read(Path(os.environ["GPUANON_DATA"]))
    runs = [measure(draw(*table, seed), seed, COMBINATIONS) for seed in range(100, 100 + seeds)]
    print("| combination | meets the standard | D⁺ | KS distance | range | seconds |")
    print("|---|---|---|---|---|---|")
    for name in runs[0]:
        cells = np.array([run[name] for run in runs])
        middle, distance = np.median(cells, axis=0), cells[:, 4]
        print(
            f"| {name} | {int(cells[:, 0].sum())} of {seeds} | {middle[1]:.3f} | {middle[4]:.4f} |"
            f" {distance.min():.4f}–{distance.max():.4f} | {middle[-1]:.1f} |"
        )


if __name__ == "__main__":
    main()
