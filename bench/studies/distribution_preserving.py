"""Distribution-preserving k-anonymity: the published experiments, on other data.

    python bench/studies/distribution_preserving.py --out DIR [--quick] [--only NAME ...]

Figures and tables in the form of D. Wei, K. N. Ramamurthy and K. R. Varshney (2018), as plots and CSV files in DIR, on
the RAND Health Insurance Experiment (folder from GPUANON_DATA, omitted if that is not set) and on generated registries,
and CHECKS.csv: every checked figure with its limit.  Without --quick it takes about half an hour on two cores.  The
results are in distribution_preserving.md.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import distribution_preserving_data as study
import distribution_preserving_figures as figures
import numpy as np

from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.rng import Key
from gpuanon.assessing.risk.reidentification import (
    hit_probabilities,
    unmasked_probabilities,
)
from gpuanon.assessing.utility.histogram_intersection import independent_sample, intersection
from gpuanon.assessing.workloads import assess_market
from gpuanon.masking.operations.centroid import centroid
from tests.support.attacks import class_means, permuted_probabilities

KEY = Key(b"the study repeats; a release never has a key that is written down")
SHIFTS = ("none", "logistic", "nonparametric")
CODINGS = ("dummy", "numeric")
PARTS = ("reidentification", "blocks", "distribution", "shift", "markets")


@dataclass(frozen=True)
class Size:
    """Sizes of the study."""

    draws: int = 40
    class_draws: int = 300
    splits: int = 100
    datasets: int = 12
    rows: int = 100_000
    ks: tuple[int, ...] = study.KS


QUICK = Size(draws=4, class_draws=20, splits=6, datasets=2, rows=20_000, ks=(5, 20, 100, 1000))


@dataclass
class Book:
    """The results: CSV files, and checks of figures against their limits."""

    folder: Path
    checks: list[dict[str, Any]] = field(default_factory=list)

    def table(self, name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with (self.folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return rows

    def check(self, what: str, value: float, limit: float, *, least: bool = False, error: float | None = None) -> None:
        holds = value >= limit if least else value <= limit
        line = {
            "check": what,
            "value": value,
            "error": error,
            "limit": limit,
            "side": ">=" if least else "<=",
            "holds": holds,
        }
        self.checks.append(line)
        print(f"{'ok  ' if holds else 'MISS'} {what}: {value:.5g} {line['side']} {limit:.5g}", flush=True)


def spread(function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Run independent jobs on all cores, one thread each; results in the order of the jobs."""
    os.environ["GPUANON_THREADS"] = "1"
    try:
        with one_blas_thread(), ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # inherited by the workers
            return list(pool.map(function, *zip(*jobs, strict=True)))
    finally:
        del os.environ["GPUANON_THREADS"]


# ---- Reidentification: figures 3 to 5 --------------------------------------------------------------------------------


def by_class(data: study.Data, k: int, draws: int) -> dict[str, np.ndarray]:
    """Mean hit rate of each equivalence class, over draws (figures 3 and 4); Gaussian over the whole table."""
    X = study.standardise(data.levels)
    groups = study.clusters(X, data.cost, k)
    link = np.arange(len(X))
    rates = {"centroid": class_means(X, hit_probabilities(X, centroid(X, groups), link))}
    for name in ("resample", "gaussian"):
        hits = np.zeros(len(X))
        for trial in range(draws):
            source = study.release(name, X, groups, KEY.draws(link, f"class {k} {trial}"), block=0)
            hits += hit_probabilities(X, X[source], link)
        rates[name] = class_means(X, hits / draws)
    return rates


def mean_rate(columns: np.ndarray, cost: np.ndarray, k: int, draws: int, whole: bool) -> dict[str, float]:
    """Mean hit rate over all records, and over draws for the random releases (figure 5)."""
    X = study.standardise(columns)
    groups = study.clusters(X, cost, k)
    link = np.arange(len(X))
    rates = {
        "centroid": hit_probabilities(X, centroid(X, groups), link).mean(),
        "permute, closed form": permuted_probabilities(X, groups).mean(),
    }
    kinds = {"resample": ("resample", None), "permute": ("permute", None), "gaussian, blocks": ("gaussian", None)}
    if whole:
        kinds["gaussian, whole table"] = ("gaussian", 0)
    for label, (name, block) in kinds.items():
        values = [
            hit_probabilities(
                X, X[study.release(name, X, groups, KEY.draws(link, f"mean {k} {t}"), block)], link
            ).mean()
            for t in range(draws)
        ]
        rates[label] = float(np.mean(values))
        rates[f"{label}, error"] = float(np.std(values, ddof=1) / np.sqrt(draws))
    return rates


def reidentification(book: Book, size: Size, data: study.Data) -> None:
    """Figures 3 to 5 and their checks."""
    if data.name == "randhie":
        for figure, k in ((3, 5), (4, 10)):
            rates = by_class(data, k, size.class_draws)
            book.table(
                f"figure{figure}_{data.name}",
                [dict(zip(rates, row, strict=True)) for row in zip(*rates.values(), strict=True)],
            )
            figures.class_histograms(book.folder / f"figure{figure}_{data.name}.png", rates, k)
    whole = data.name == "randhie"
    tables = {"levels": data.levels, "undiscretised": data.raw, "continuous": data.raw[:, [1, 3]]}
    ks = [k for k in size.ks if 2 * k <= len(data.cost)]
    jobs = [(columns, data.cost, k, size.draws, whole) for columns in tables.values() for k in ks]
    found = iter(spread(mean_rate, jobs))
    rows = []
    for name, columns in tables.items():
        unmasked = float(unmasked_probabilities(columns).mean())
        rows += [{"columns": name, "k": k, "unmasked": unmasked, **next(found)} for k in ks]
    book.table(f"figure5_{data.name}", rows)
    figures.mean_rates(book.folder / f"figure5_{data.name}.png", rows)
    for row in rows:
        k, n = row["k"], len(data.cost)
        label = f"{data.name}, {row['columns']}, k = {k}"
        if row["columns"] != "levels":
            for name in ("centroid", "resample", "permute"):
                many = 1 if name == "centroid" else size.draws
                book.check(
                    f"reidentification, {label}: {name} (1/k and 4 errors)",
                    row[name],
                    1 / k + 4 / np.sqrt(k * n * many),
                )
        if k in (5, 10) and whole:
            for mode, limit in (("gaussian, whole table", 0.2), ("gaussian, blocks", 0.4)):
                limit = 0.1 if row["columns"] == "continuous" else limit
                book.check(f"reidentification, {label}: {mode} over centroid", row[mode] / row["centroid"], limit)


def block_size(columns: np.ndarray, cost: np.ndarray, k: int, draws: int) -> list[dict[str, Any]]:
    """Gaussian over centroid hit rates, and the time of a release, for blocks of more and more groups."""
    X = study.standardise(columns)
    groups = study.clusters(X, cost, k)
    link = np.arange(len(X))
    base = hit_probabilities(X, centroid(X, groups), link).mean()
    rows = []
    for many in (1, 4, 16, 32, 64, 128, 256, 512, 0):
        if many > groups.parts:
            continue
        began = time.process_time()
        sources = [
            study.release("gaussian", X, groups, KEY.draws(link, f"block {t}"), many * len(X) // groups.parts)
            for t in range(draws)
        ]
        seconds = (time.process_time() - began) / draws
        rate = np.mean([hit_probabilities(X, X[source], link).mean() for source in sources])
        tie = [float(np.corrcoef(X[:, j], X[sources[0], j])[0, 1]) for j in range(X.shape[1])]
        place = {"k": k, "groups in a block": many or "all", "over centroid": rate / base}
        rows.append({**place, "cpu seconds": seconds, "smallest correlation with own value": min(tie)})
    return rows


def block_sizes(book: Book, size: Size, data: study.Data) -> None:
    """Figures for the default block: hit rate and time of the dither."""
    tables = {"levels": data.levels, "undiscretised": data.raw}
    cases = [(name, k) for name in tables for k in size.ks if k in (5, 10, 20, 100, 500)]
    found = spread(block_size, [(tables[name], data.cost, k, max(2, size.draws // 10)) for name, k in cases])
    rows = [{"columns": name, **row} for (name, _), some in zip(cases, found, strict=True) for row in some]
    book.table(f"blocks_{data.name}", rows)


# ---- Distribution: histogram intersection ----------------------------------------------------------------------------


def similarities(data: study.Data, k: int) -> dict[str, float]:
    """Histogram intersection of release and original over the combinations of levels."""
    X = study.standardise(data.levels)
    groups = study.clusters(X, data.cost, k)
    cells = np.ravel_multi_index(tuple(data.levels.T), data.counts)
    p = np.bincount(cells, minlength=int(np.prod(data.counts)))
    draws = KEY.draws(np.arange(len(X)), f"similarity {k}")
    found = {}
    for name in study.RELEASES:
        released = study.released_levels(name, data.levels, groups, draws)
        q = np.bincount(np.ravel_multi_index(tuple(released.T), data.counts), minlength=len(p))
        found[name] = intersection(p, q)
    found["floor"], found["floor deviation"] = independent_sample(p / p.sum(), len(X))
    return found


def distribution(book: Book, size: Size, data: study.Data) -> None:
    """Every release against the sampling floor."""
    rows = [
        {"k": k, **found} for k, found in zip(size.ks, spread(similarities, [(data, k) for k in size.ks]), strict=True)
    ]
    book.table(f"similarity_{data.name}", rows)
    for row in rows:
        label = f"histogram intersection, {data.name}, k = {row['k']}"
        for name in ("resample", "gaussian"):
            book.check(f"{label}: {name}", row[name], row["floor"] - 4 * row["floor deviation"], least=True)
        book.check(f"{label}: permute is exact", row["permute"], 1.0, least=True)
        if row["k"] == 1000:
            book.check(f"{label}: centroid", row["centroid"], 0.5)


# ---- Prediction with privacy and with market shift: figures 6 to 10, tables 1 and 2 ----------------------------------


def one_market(
    data: study.Data, seed: int, ks: tuple[int, ...], draws: int, areas: tuple[int | None, ...], enrol: bool
) -> list[dict[str, Any]]:
    """One split: every k, release, area, shift and coding.  k = 0 is the unmasked table."""
    markets = {area: study.market(data, area, seed, enrol) for area in areas}
    base = markets[areas[0]]
    members = base.existing[base.members]
    X, cost = study.standardise(members), base.cost[base.members]
    rows = []

    def assess(k: int, name: str, releases: list[np.ndarray]) -> None:
        for area, made in markets.items():
            if k not in (0, 100) and area not in (None, study.MAIN):
                continue  # the other areas at one k: they tell how the bias grows with the shift
            everything = k == 0 or area in (None, study.MAIN)
            for shift in ("none",) if area is None else SHIFTS if everything else ("nonparametric",):
                for coding in CODINGS if everything else ("dummy",):
                    found = [assess_market(made, x, shift=shift, coding=coding) for x in releases]
                    mean = {key: float(np.mean([getattr(f, key) for f in found])) for key in vars(found[0])}
                    rows.append(
                        {
                            "seed": seed,
                            "area": "none" if area is None else area + 1,
                            "k": k,
                            "release": name,
                            "shift": shift,
                            "coding": coding,
                            "bias": mean["bias"],
                            "r2": mean["r2"],
                            "similarity": mean["similarity"],
                            "S": mean["shift"],
                        }
                    )

    assess(0, "unmasked", [members])
    for k in ks:
        if 2 * k > len(members):
            continue
        groups = study.clusters(X, cost, k)
        for name in study.RELEASES:
            trials = 1 if name == "centroid" else draws
            stream = (KEY.draws(np.arange(len(X)), f"market {seed} {k} {t}") for t in range(trials))
            assess(k, name, [study.released_levels(name, members, groups, d) for d in stream])
    return rows


def market_jobs(size: Size, data: study.Data, areas: tuple[int | None, ...], enrol: bool) -> list[tuple[Any, ...]]:
    """Splits of one table by person, or registries of their own."""
    if data.name == "randhie":
        return [(data, seed, size.ks, 1, areas, enrol) for seed in range(size.splits)]
    return [(study.registry(size.rows, seed), seed, size.ks, 3, areas, enrol) for seed in range(size.datasets)]


def covariate_shift(book: Book, size: Size, data: study.Data) -> None:
    """Covariate shift alone (section 2 of the paper): all people of both markets are members."""
    rows = [row for found in spread(one_market, market_jobs(size, data, (study.MAIN,), False)) for row in found]
    book.table(f"shift_{data.name}", rows)
    check_bias(book, "shift", data.name, differences(rows))


def markets(book: Book, size: Size, data: study.Data) -> None:
    """Market risk with enrolment: figures 6 to 10, tables 1 and 2, and the checks of the bias."""
    name, areas = data.name, (None, *range(len(study.AREAS)))
    rows = [row for found in spread(one_market, market_jobs(size, data, areas, True)) for row in found]
    book.table(f"markets_{name}", rows)
    summary = summarise(rows)
    book.table(f"markets_{name}_summary", summary)
    for number, coding in ((1, "dummy"), (2, "numeric")):
        book.table(f"table{number}_{name}", area_table(summary, coding))
    figures.no_shift(book.folder / f"figure6_{name}.png", summary)
    for number, kind in ((7, "centroid"), (8, "resample"), (9, "gaussian")):
        figures.with_shift(book.folder / f"figure{number}_{name}.png", summary, kind, study.MAIN + 1)
    figures.similarity(book.folder / f"figure10_{name}.png", summary, study.MAIN + 1)
    check_bias(book, "shift and enrolment", name, differences(rows))


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over splits, with the standard error of the bias."""
    keys = ("area", "k", "release", "shift", "coding")
    cases = defaultdict(list)
    for row in rows:
        cases[tuple(row[key] for key in keys)].append(row)
    summary = []
    for case, found in cases.items():
        values = {key: np.array([row[key] for row in found]) for key in ("bias", "r2", "similarity", "S")}
        error = float(values["bias"].std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan")
        means = {key: float(value.mean()) for key, value in values.items()}
        summary.append({**dict(zip(keys, case, strict=True)), "runs": len(found), **means, "bias_error": error})
    return summary


def area_table(summary: list[dict[str, Any]], coding: str) -> list[dict[str, Any]]:
    """Tables 1 and 2: R² and relative bias of the unmasked data in every area, by shift method."""
    table: dict[Any, dict[str, Any]] = defaultdict(dict)
    for row in summary:
        if row["k"] == 0 and row["coding"] == coding and row["area"] != "none":
            line = table[row["area"]]
            line |= {"area": row["area"], "S": row["S"]}
            line |= {f"r2 {row['shift']}": row["r2"], f"bias {row['shift']}": row["bias"]}
    return [
        dict(sorted(line.items(), key=lambda item: (item[0] not in ("area", "S"), item[0][:2] != "r2")))
        for line in table.values()
    ]


def differences(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Paired differences of the bias from the unmasked data's: nonparametric weights, dummy-coded, each area."""
    chosen = [row for row in rows if row["shift"] == "nonparametric" and row["coding"] == "dummy"]
    base = {(row["seed"], row["area"]): row["bias"] for row in chosen if row["k"] == 0}
    cases = defaultdict(list)
    for row in chosen:
        if row["k"]:
            cases[row["area"], row["k"], row["release"]].append(
                (row["bias"] - base[row["seed"], row["area"]], row["S"])
            )
    out = []
    for (area, k, release), pairs in cases.items():
        d, s = np.array(pairs).T
        error = float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else float("nan")
        out.append(
            {
                "area": area,
                "k": k,
                "release": release,
                "mean": float(d.mean()),
                "error": error,
                "rms": float(np.sqrt((d**2).mean())),
                "S": float(s.mean()),
            }
        )
    return out


def check_bias(book: Book, what: str, name: str, found: list[dict[str, Any]]) -> None:
    """Registry: means of paired differences; randhie: root mean squares against the centroid's."""
    book.table(f"bias_differences_{what.replace(' ', '_')}_{name}", found)
    main = [row for row in found if row["area"] == study.MAIN + 1]
    if name == "registry":
        for row in main:
            label = f"bias difference, {what}, {name}, k = {row['k']}: {row['release']}"
            if row["k"] > 100:
                continue
            if row["release"] in ("resample", "permute"):
                book.check(label, abs(row["mean"]), 1.5, error=row["error"])
            elif row["release"] == "gaussian":
                book.check(
                    f"{label} (S = {row['S']:.1f} %)", abs(row["mean"]), 0.15 * abs(row["S"]) + 0.5, error=row["error"]
                )
            elif row["k"] == 100:
                book.check(label, abs(row["mean"]), 3.0, least=True, error=row["error"])
        return
    rms = {row["release"]: row["rms"] for row in main if row["k"] == 100}
    for release in ("resample", "permute", "gaussian"):
        label = f"RMS bias difference, {what}, {name}, k = 100: {release} over centroid"
        book.check(label, rms[release] / rms["centroid"], 0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="minutes instead of half an hour; figures are rough")
    parser.add_argument("--only", nargs="*", choices=PARTS)
    parser.add_argument("--data", nargs="*", choices=["randhie", "registry"], default=["randhie", "registry"])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    size, book = (QUICK if options.quick else Size()), Book(options.out)
    wanted = options.only or PARTS
    folder = os.environ.get("GPUANON_DATA")
    if folder is None:
        print("GPUANON_DATA is not set: the RAND experiment is left out", file=sys.stderr)
    tables = [] if folder is None else [study.randhie(Path(folder))]
    began = time.perf_counter()
    tables.append(study.registry(size.rows, 0))
    for data in (table for table in tables if table.name in options.data):
        if "reidentification" in wanted:
            few = (
                size if data.name == "randhie" else replace(size, draws=max(2, size.draws // 10), ks=(5, 10, 100, 1000))
            )
            reidentification(book, few, data)
        if "blocks" in wanted and data.name == "randhie":
            block_sizes(book, size, data)
        if "distribution" in wanted:
            distribution(book, size, data)
        if "shift" in wanted:
            covariate_shift(book, size, data)
        if "markets" in wanted:
            markets(book, size, data)
    if book.checks:
        book.table("CHECKS_" + "_".join([*wanted, *options.data]) if options.only else "CHECKS", book.checks)
    missed = [line for line in book.checks if not line["holds"]]
    print(f"{len(book.checks)} checks, {len(missed)} missed, {time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
