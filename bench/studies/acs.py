"""Synthesis of census tables at the public benchmark: utility, copies, and what a second sample of people would do.

    GPUANON_DATA=FOLDER python bench/studies/acs.py [RESULT.md]

Tables : the excerpts of the American Community Survey 2019 of NIST's Collaborative Research Cycle, Texas and
         Massachusetts; three sets of columns.  Numbers are numbers, 'N' in them is a null; all else are levels.
Halves : a table is divided at random; one half is released, the other is the natural limit: a second sample of the
         same people.  What reproduces more unique records than it does has copied.
Figures: see `acs_figures`.  Five splits, each with a key of its own; the whole table with five keys.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from acs_figures import DEMOGRAPHIC, FAMILY, inconsistencies, k_marginal, near_copies, reproduced, simple_columns, uem

import gpuanon

NUMBERS = ("AGEP", "NOC", "NPF", "DENSITY", "PINCP", "POVPIP", "PWGTP", "WGTP")
SETS: dict[str, Callable[[pd.DataFrame], list[str]]] = {
    "demographic": lambda frame: DEMOGRAPHIC,
    "family": lambda frame: FAMILY,
    "simple": simple_columns,
    "all": lambda frame: list(frame),
}
METHODS: dict[str, dict[str, Any]] = {
    "sequential-synthesis": {"method": "sequential-synthesis"},
    "table-synthesis": {"method": "table-synthesis"},
    "table-synthesis, group = false": {"method": "table-synthesis", "group": False},
}
KEYS = 5


def read(folder: Path, name: str) -> pd.DataFrame:
    """A table of the benchmark."""
    frame = pd.read_csv(folder / "acs" / f"{name}2019.csv", dtype=str, keep_default_na=False)
    for column in NUMBERS:
        frame[column] = pd.to_numeric(frame[column].where(frame[column] != "N"))
    return frame


def released(frame: pd.DataFrame, mask: dict[str, Any], number: int) -> pd.DataFrame:
    """A release of all columns, with a key of the study."""
    kinds = {name: "numeric" if name in NUMBERS else "categorical" for name in frame}
    columns = {name: {"role": "quasi", "kind": kind} for name, kind in kinds.items()}
    recipe = {"columns": columns, "mask": [{**mask, "columns": "all"}]}
    key = gpuanon.Key(b"the key of the study of census tables, number %d" % number)
    return gpuanon.protect(frame, recipe, rng=key, backend="numpy").data


def halves(frame: pd.DataFrame, mask: dict[str, Any]) -> str:
    """A line of figures of releases of halves."""
    hits = np.zeros(4)
    score, chance, auc = [], [], []
    for number in range(KEYS):
        order = np.random.default_rng(number).permutation(len(frame))
        one, other = (frame.iloc[rows].reset_index(drop=True) for rows in np.array_split(order, 2))
        release = released(one, mask, number)
        hits += [*reproduced(one, release, other), *reproduced(other, release, one)]
        score.append(k_marginal(one, release) - k_marginal(one, other))
        chance.append((uem(one, release), uem(one, other)))
        auc.append(near_copies(one, other, release))
    ours, natural = np.mean(chance, axis=0)
    ratio = "–" if min(hits[0], hits[2]) < 20 else f"{(hits[0] / hits[1]) / (hits[2] / hits[3]):.2f}"
    members = f"{ratio} ({hits[0]:.0f} : {hits[2]:.0f})"
    return f"{members} | {ours:.2f} / {natural:.2f} | {np.mean(auc):.3f} | {np.mean(score):+.1f}"


def whole(frame: pd.DataFrame, mask: dict[str, Any]) -> str:
    """A line of figures of releases of a whole table."""
    score, unique, worst, seconds = [], [], [], []
    broken = inconsistencies(frame)
    for number in range(KEYS):
        start = time.perf_counter()
        release = released(frame, mask, 100 + number)
        seconds.append(time.perf_counter() - start)
        score.append(k_marginal(frame, release))
        unique.append(uem(frame, release))
        found = {name: share for name, share in inconsistencies(release).items() if not broken[name]}
        worst.append(max(found.values()))
    spread = f"{np.mean(score):.0f} ({min(score):.0f}–{max(score):.0f})"
    return f"{spread} | {np.mean(unique):.2f} | {np.mean(worst):.2f} | {np.mean(seconds):.1f}"


def main() -> None:
    folder = Path(os.environ["GPUANON_DATA"])
    lines = []
    for table in ("tx", "ma"):
        frame = read(folder, table)
        for columns, choose in SETS.items():
            part = frame[choose(frame)]
            for name, mask in METHODS.items():
                lines.append(
                    f"| {table}, {columns} ({part.shape[1]}) | {name} | {halves(part, mask)} | {whole(part, mask)} |"
                )
                print(lines[-1], flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
