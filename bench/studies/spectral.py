"""The spectral study on NHANES: tables 4.1, 5.1 and figures 4-3, 4-4, 5-2, 5-3 of Lasko's thesis, and its claims.

    GPUANON_DATA=folder python bench/studies/spectral.py --out DIR [--quick] [--seeds 10]

Writes tables (CSV), figures (PNG with their numbers as CSV) and claims.csv, and prints the claims.  The exit code is 1
if a claim is not met.
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
os.environ.setdefault("MPLBACKEND", "Agg")

from spectral_claims import Claim, best_combination, claims
from spectral_data import draw, read
from spectral_figures import distributions, pairs, right_and_wrong, write
from spectral_runs import TABLE, Pictures, Run, run

BASIC = ("svd-swap", "spectral-rhs", "noise 0.1")
NONLINEAR = ("svd-swap", "pica 100", "pica 200", "pica 300")


def main() -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="three seeds")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    folder = os.environ.get("GPUANON_DATA")
    if folder is None:
        parser.error("GPUANON_DATA must name the folder of public reference files")
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    table = read(Path(folder))
    runs: list[Run] = []
    first: Pictures | None = None
    for seed in range(3 if options.quick else options.seeds):
        found, pictures = run(draw(*table, seed), seed)
        runs.append(found)
        first = first or pictures
        print(f"seed {seed}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    assert first is not None
    best = [name for name in (best_combination(runs), best_combination(runs, rare=True)) if name]
    tables(runs, options.out)
    figures(runs, first, best, options.out)
    found_claims = claims(runs)
    show(found_claims, options.out, time.perf_counter() - start)
    return 0 if all(claim.met is not False for claim in found_claims) else 1


def tables(runs: list[Run], out: Path) -> None:
    """Tables 4.1 and 5.1, the verdicts and the frontier: medians over seeds."""
    names = list(runs[0].table)
    rows: list[list[Any]] = []
    for name in names:
        cells = [[run.table[name][title] for run in runs] for title in TABLE]
        rows.append(
            [
                name,
                *(float(np.median([c[0] for c in cell])) for cell in cells),
                *(float(np.median([c[1] for c in cell])) for cell in cells),
            ]
        )
    write(out / "table_4_1.csv", ["release", *TABLE, *(f"max {title}" for title in TABLE)], rows)
    distances = {name: np.median([run.distances[name] for run in runs], axis=0) for name in runs[0].distances}
    rows = [[at + 1, *(float(distances[name][at]) for name in distances)] for at in range(20)]
    rows.append(["mean", *(float(np.median([run.distances[name].mean() for run in runs])) for name in distances)])
    write(out / "table_5_1.csv", ["component", *distances], rows)
    measures = ("distance", "ambiguity", "uncertainty")
    rows = []
    for name in runs[0].verdicts:
        found = [run.verdicts[name] for run in runs]
        excess = [[v.excess[measure] for v in found] for measure in measures]
        mean = float(np.median([run.distances[name].mean() for run in runs]))
        cells = [*(float(np.median(values)) for values in excess), *(max(values) for values in excess), mean]
        rows.append([name, sum(v.passes for v in found), len(found), *cells])
    header = ["release", "passes", "seeds", *(f"{word}D+ {m}" for word in ("", "worst ") for m in measures), "mean KS"]
    write(out / "verdicts.csv", header, rows)


def figures(runs: list[Run], first: Pictures, best: list[str], out: Path) -> None:
    """Figures 4-3 and 5-2 (distributions), 4-4 (right and wrong matches), 5-3 (pair plots), of the first seed."""
    reference = first.predictions["reference"]
    for name, releases, title in (
        ("figure_4_3", BASIC, "Privacy of basic spectral anonymization (seed 0)"),
        ("figure_5_2", NONLINEAR, "Privacy of nonlinear spectral anonymization (seed 0)"),
    ):
        chosen = {**{release: first.predictions[release] for release in releases}, "reference": reference}
        distributions(chosen, title, out / name)
    attacks = {name: [run.attacks[name] for run in runs] for name in ("spectral-rhs", "noise 0.1", "noise 0.3")}
    right_and_wrong(attacks, "Right and wrong matches, all seeds", out / "figure_4_4")
    shown = dict.fromkeys(["reference", *NONLINEAR, *best])
    for name in shown:
        groups = first.groups[name].labels() if name in first.groups and name != "svd-swap" else None
        file = out / f"figure_5_3_{name.replace(' ', '_').replace(',', '').replace('×', 'x')}"
        pairs(
            first.projections[name], f"Kernel principal components: original and {name} (seed 0)", file, groups=groups
        )


def show(found: list[Claim], out: Path, seconds: float) -> None:
    """Print the claims and write them to a file."""
    words = {True: "met", False: "NOT MET", None: "reported"}
    width = max(len(claim.text) for claim in found)
    for claim in found:
        print(f"{claim.text:<{width}}  {words[claim.met]:<8}  {claim.figure}")
    print(f"{seconds:.0f} s")
    write(out / "claims.csv", ["claim", "met", "figure"], [[c.text, words[c.met], c.figure] for c in found])


if __name__ == "__main__":
    sys.exit(main())
