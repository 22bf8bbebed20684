"""Distribution-preserving k-anonymity, confirmed on registries that no earlier run had seen.

    python bench/studies/distribution_preserving_confirm.py --out DIR [--first 120] [--seeds 12] [--rows 100000]
    python bench/studies/distribution_preserving_confirm.py --out DIR --merge DIR1 DIR2 ...

Variants, limits and the rule by which a default is chosen were fixed before the first fresh seed was looked at; they
are in distribution_preserving.md ("Second confirmation").  Every case is written to cases.csv as soon as it is known,
so that a run that is stopped leaves what it has, and runs of a few seeds each can be merged.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import distribution_preserving_data as study
import numpy as np

from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws, Key
from gpuanon.assessing.risk.attribute_disclosure import attribute_disclosure
from gpuanon.assessing.risk.reidentification import hit_probabilities
from gpuanon.assessing.workloads import Market, assess_market, simulate_market
from gpuanon.masking.constraints import Sensitive
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import Records
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.operations.centroid import Centroid
from gpuanon.masking.operations.dither import Dither
from gpuanon.masking.operations.dither.permute import Permute, Resample
from gpuanon.masking.outcomes import Moved

KEY = Key(b"the study repeats; a release never has a key that is written down")
FIRST_SEED = 120  # 100 to 107: the first confirmation; 400 to 405: the choice of the order
KS = (5, 10, 20, 50, 100)
MEMBERS = ("drawn", "weighted")
COMPARED = (20, 50, 100)  # values of k with strata, and with hit rate and disclosure of drawn members
DRAWS = 2
STRATA = 10
RELEASES: dict[str, Operation] = {
    "centroid": Centroid(),
    "resample": Resample(),
    "permute": Permute(),
    "gaussian, fewest": Dither(order="fewest"),
    "gaussian, response": Dither(order="response"),
    "gaussian, response, 64 groups": Dither(order="response"),
}
DEFAULTS = ("centroid", "resample", "permute", "gaussian, response")
FIELDS = ("seed", "members", "k", "grouping", "release", "bias", "difference", "S", "hit", "disclosure")


def market(data: study.Data, seed: int, members: str) -> Market:
    """Area 18; members are drawn by their chance of enrolling, or everybody is one with the chance as a weight."""
    rng = np.random.default_rng([seed, 2018])
    train = rng.permutation(len(data.cost)) < len(data.cost) // 2
    chance = study.ENROLMENT[data.name][data.levels[:, 1]]
    return simulate_market(
        data.levels,
        data.cost,
        train,
        tilt=study.tilt(data, study.MAIN),
        enrolment=chance,
        levels=data.counts,
        rng=rng if members == "drawn" else None,
    )


def grouped(X: np.ndarray, cost: np.ndarray, k: int, weight: float) -> Partition:
    """k-member clusters of the quasi-identifiers and, by its weight, the cost; the whole table at once."""
    joined = np.column_stack([X, np.sqrt(weight) * study.standardise(cost)]) if weight else X
    return KMember(k=k, block=0, refine=False).form(joined, None)


def deciles(cost: np.ndarray) -> np.ndarray:
    """(n,) decile of each cost; equal costs share one."""
    return np.searchsorted(np.quantile(cost, np.arange(1, 10) / 10), cost, side="left")


def in_strata(X: np.ndarray, cost: np.ndarray, k: int) -> list[tuple[np.ndarray, Partition]]:
    """The rows of each quantile stratum of the cost, and k-member clusters of the quasi-identifiers inside it."""
    stratum = deciles(cost)
    rows = [np.flatnonzero(stratum == s) for s in np.unique(stratum)]
    return [(some, grouped(X[some], cost[some], k, 0.0)) for some in rows]


def records(draws: Draws, cost: np.ndarray, weights: np.ndarray | None) -> Records:
    """What an operation is told: the cost is the sensitive column."""
    values, codes, counts = np.unique(cost, return_inverse=True, return_counts=True)
    del values
    return Records(draws, weights, sensitive=Sensitive(codes.reshape(-1, 1), (counts,), (True,)))


class Case:
    """The members of one market, and what is measured on each of their releases."""

    def __init__(self, seed: int, rows: int, members: str) -> None:
        self.seed, self.kind = seed, members
        self.market = market(study.registry(rows, seed), seed, members)
        self.levels = self.market.existing[self.market.members]
        self.cost = self.market.cost[self.market.members]
        self.weights = self.market.member_weights if members == "weighted" else None
        self.X = study.standardise(self.levels)
        self.unmasked = assess_market(self.market).bias
        self.rows: list[dict[str, Any]] = []

    def draws(self, name: str) -> Draws:
        return KEY.draws(np.arange(len(self.X)), f"{self.seed} {self.kind} {name}")

    def release(self, name: str, groups: Partition, draws: Draws) -> np.ndarray:
        """(n, d) released levels; centroids are rounded to the nearest."""
        T, operation = self.levels.astype(float) if name == "centroid" else self.X, RELEASES[name]
        if name.endswith("64 groups"):
            operation = operation.model_copy(update={"block": 64 * len(T) // groups.parts})
        outcome = operation.apply(T, groups, records(draws, self.cost, self.weights))
        return self.levels[outcome.source] if isinstance(outcome, Moved) else np.rint(outcome.values).astype(np.int64)

    def release_in_strata(self, strata: list[tuple[np.ndarray, Partition]], draws: Draws) -> np.ndarray:
        """(n, d) released levels: the Gaussian dither over each stratum by itself."""
        out = self.levels.copy()
        for some, groups in strata:
            weights = None if self.weights is None else self.weights[some]
            known = records(draws.take(some), self.cost[some], weights)
            outcome = Dither(block=0, order="response").apply(self.X[some], groups, known)
            assert isinstance(outcome, Moved)
            out[some] = self.levels[some[outcome.source]]
        return out

    def measure(self, k: int, grouping: str, name: str, released: list[np.ndarray]) -> None:
        found = [assess_market(self.market, x) for x in released]
        bias = float(np.mean([f.bias for f in found]))
        row = {"seed": self.seed, "members": self.kind, "k": k, "grouping": grouping, "release": name, "bias": bias}
        row |= {"difference": bias - self.unmasked, "S": found[0].shift, "hit": "", "disclosure": ""}
        if k in COMPARED and self.kind == "drawn":
            scale = self.levels.mean(axis=0), self.levels.std(axis=0)
            Y = (released[0] - scale[0]) / scale[1]
            decile = deciles(self.cost)[:, None]
            row["hit"] = float(hit_probabilities(self.X, Y, np.arange(len(Y))).mean())
            row["disclosure"] = float(attribute_disclosure((self.X, decile), (Y, decile)).value)
        self.rows.append(row)


def one_case(seed: int, rows: int, members: str, defaults: bool) -> list[dict[str, Any]]:
    """All releases of one registry, or those of the defaults."""
    case = Case(seed, rows, members)
    names = DEFAULTS if defaults else tuple(RELEASES)
    for k in KS:
        groupings = ("w = 0",) if defaults else ("w = 0", "w = 1", "strata") if k in COMPARED else ("w = 0", "w = 1")
        for grouping in groupings:
            for name, released in releases(case, k, grouping, names):
                case.measure(k, grouping, name, released)
    return case.rows


def releases(case: Case, k: int, grouping: str, names: tuple[str, ...]) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Every release of one grouping, in as many draws as it has."""
    if grouping == "strata":
        strata = in_strata(case.X, case.cost, k)
        yield "gaussian", [case.release_in_strata(strata, case.draws(f"{k} strata {t}")) for t in range(DRAWS)]
        return
    groups = grouped(case.X, case.cost, k, 1.0 if grouping == "w = 1" else 0.0)
    for name in names:
        many = 1 if name == "centroid" else DRAWS
        yield name, [case.release(name, groups, case.draws(f"{k} {grouping} {t}")) for t in range(many)]


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean paired differences with their standard errors, S, hit rate and disclosure, and whether the limit is met."""
    cases = defaultdict(list)
    for row in rows:
        cases[row["members"], row["grouping"], row["release"], int(row["k"])].append(row)
    out = []
    for (members, grouping, release, k), some in sorted(cases.items()):
        d = np.array([float(row["difference"]) for row in some])
        S = float(np.mean([float(row["S"]) for row in some]))
        line = {"members": members, "grouping": grouping, "release": release, "k": k, "runs": len(d)}
        line |= {"difference": d.mean(), "error": d.std(ddof=1) / np.sqrt(len(d)) if len(d) > 1 else float("nan")}
        line |= {"S": S, "limit": limit(release, k, S)}
        for name in ("hit", "disclosure"):
            known = [float(row[name]) for row in some if row[name] != ""]
            line[name] = np.mean(known) if known else ""
        out.append(line)
    return out


def limit(release: str, k: int, S: float) -> str:
    """The limit on the mean difference, as it was in the first study."""
    if release.startswith("gaussian"):
        return f"<= {0.15 * abs(S) + 0.5:.2f}"
    if release == "centroid":
        return "> 3" if k == 100 else ""
    return "<= 1.5"


def write(path: Path, rows: list[dict[str, Any]], fields: tuple[str, ...]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--defaults", action="store_true", help="w = 0 and the default order only: a third of the time")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--merge", type=Path, nargs="*", help="summarise the cases of these folders instead")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.merge:
        rows = [row for folder in options.merge for row in csv.DictReader((folder / "cases.csv").open())]
        write(options.out / "cases.csv", rows, FIELDS)
        summary = summarise(rows)
        write(options.out / "summary.csv", summary, tuple(summary[0]))
        return 0
    os.environ["GPUANON_THREADS"] = "1"
    began, rows = time.perf_counter(), []
    seeds = range(options.first, options.first + options.seeds)
    jobs = [(seed, options.rows, members, options.defaults) for seed in seeds for members in MEMBERS]
    with one_blas_thread(), ProcessPoolExecutor(options.workers) as pool:
        for done in as_completed([pool.submit(one_case, *job) for job in jobs]):
            rows += done.result()
            write(options.out / "cases.csv", rows, FIELDS)
            summary = summarise(rows)
            write(options.out / "summary.csv", summary, tuple(summary[0]))
            load = os.getloadavg()[0]
            print(f"{len(rows)} cases, {time.perf_counter() - began:.0f} s, load {load:.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
