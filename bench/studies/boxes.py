"""Boxes that give the most accurate statistics: widths of guaranteed ranges against other partitions at the same k.

    python bench/studies/boxes.py --out DIR [--part normals|census|tables|search|picture] [--sweeps N] [--anew]

Every partition is released as the ranges of its groups, and the width of the guaranteed range of the wanted statistic
is compared.  Baselines see the columns of the statistic only:

mondrian-k : median cuts of the widest column at multiples of k, so that boxes hold exactly k records but for one
mondrian   : as published, a part of up to 2k records is not cut
mdav       : groups of MDAV, blocks of 4096 rows where the table is larger
refined    : MDAV groups after the exchange of records (the microaggregation method)
bins       : equal-width bins of every column; records of bins below k are put together with the nearest box

The tables census and adult are read from the folder GPUANON_DATA.  Every width is appended to DIR/widths.jsonl when it
is known: a study that is started again measures only what is missing, and with --anew our own widths too.  Without
--sweeps the search is as long as it is by default.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays.partition import Partition, segment_maxima, segment_means, segment_minima
from gpuanon.arrays.rng import Key
from gpuanon.assessing.intervals.interval_statistics import IntervalBoxes
from gpuanon.masking.groups.boxes import BoxGroups
from gpuanon.masking.groups.boxes.sensitivities import Term, local_density, optimal_multiplier, sensitivities
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.median_cuts import cut_in_two, widest_cuts
from gpuanon.masking.groups.refine.refine import refine
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.distance.distance import k_nearest
from gpuanon.numerics.equal_rows import equal_rows

Host = np.ndarray[Any, Any]
STATISTICS = ("mean", "variance", "covariance", "correlation")


def normals(n: int, d: int, seed: int = 0) -> Host:
    """Standardised normal columns with correlations of one half."""
    rng = np.random.default_rng(seed)
    return standardised(rng.normal(size=(n, d)) @ np.linalg.cholesky(0.5 * np.eye(d) + 0.5).T)


def standardised(X: Host) -> Host:
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def width(X: Host, groups: Partition, statistic: str) -> float:
    """Sum over columns, or pairs of columns, of the widths of the guaranteed ranges."""
    boxes, d = IntervalBoxes.of(segment_minima(X, groups), segment_maxima(X, groups), groups.sizes), X.shape[1]
    if statistic in ("mean", "variance"):
        found = [getattr(boxes, statistic)(j) for j in range(d)]
    else:
        found = [getattr(boxes, statistic)(i, j) for i, j in itertools.combinations(range(d), 2)]
    return float(sum(high - low for low, high in found))


def optimal(X: Host, k: int, statistic: str, sweeps: int | None) -> Partition:
    part = BoxGroups(k=k, statistic=statistic, improve=sweeps != 0, sweeps=sweeps or None)
    return part.form(X, Key(b"a study has no secrets").draws(np.arange(len(X)), "boxes"))


def _ranged(X: Host) -> Host:
    return np.asarray(X / (X.max(axis=0) - X.min(axis=0)))


def mondrian(X: Host, k: int) -> Partition:
    return widest_cuts(_ranged(X), Partition.whole(len(X)), k)


def mondrian_k(X: Host, k: int) -> Partition:
    T, level = _ranged(X), Partition.whole(len(X))
    while (level.sizes >= 2 * k).any():
        level = cut_in_two(T, level, level.sizes // k // 2 * k, level.sizes >= 2 * k, True)
    return level


def mdav_groups(X: Host, k: int) -> Partition:
    whole = Partition.whole(len(X))
    return mdav(X, blocks(X, whole, 4096, multiple=k) if len(X) > 4096 else whole, k)


def refined(X: Host, k: int) -> Partition:
    return refine(X, mdav_groups(X, k), k)


def bins(X: Host, k: int) -> Partition:
    """Equal-width bins, as many per column as give k records per bin on average; bins below k join the nearest box."""
    count = max(1, int((len(X) / k) ** (1 / X.shape[1])))
    T = _ranged(X - X.min(axis=0))
    groups = Partition.from_labels(equal_rows(np.minimum((T * count).astype(np.int64), count - 1)))
    while (groups.sizes < k).any() and groups.parts > 1:
        large = np.flatnonzero(groups.sizes >= k)
        small = np.flatnonzero(groups.sizes < k)
        centres = segment_means(X, groups)
        target = large if len(large) else small[:1]
        nearest = k_nearest(centres[small], centres[target], 1)[1][:, 0]
        joins = np.arange(groups.parts)
        joins[small] = target[nearest]
        groups = Partition.from_labels(joins[groups.labels()])
    return groups


BASELINES: dict[str, Callable[[Host, int], Partition]] = {
    "mondrian-k": mondrian_k,
    "mondrian": mondrian,
    "mdav": mdav_groups,
    "refined": refined,
    "bins": bins,
}


def asymptotic(X: Host, k: int, statistic: str) -> float:
    """2 n Σ c(x): the width that small boxes of k records would give."""
    d = X.shape[1]
    columns = itertools.combinations(range(d), 1 if statistic in ("mean", "variance") else 2)
    terms = tuple(Term(statistic, chosen) for chosen in columns)
    a = sensitivities(X, terms, X.mean(axis=0), np.cov(X.T, bias=True).reshape(d, d))
    return float(2 * d * optimal_multiplier(a, local_density(X, k), k).mean())  # to first order; no bound


class Measured:
    """Widths by name, kept in a file of lines, so that a study can be interrupted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.found: dict[str, float] = dict(json.loads(line) for line in lines)

    def get(self, name: str, compute: Callable[[], float]) -> float:
        if name not in self.found:
            self.found[name] = compute()
            with self.path.open("a") as file:
                file.write(json.dumps([name, self.found[name]]) + "\n")
        return self.found[name]

    def forget(self, ending: str) -> None:
        self.found = {name: value for name, value in self.found.items() if not name.endswith(ending)}
        self.path.write_text("".join(json.dumps([*item]) + "\n" for item in self.found.items()))


Line = dict[str, Any]
Table = Callable[[], Host]


def compared(
    measured: Measured, table: Table, shape: tuple[int, int], k: int, statistic: str, sweeps: int | None, label: str
) -> Line:
    """The width of our boxes for a statistic, and its ratio to each baseline's."""
    name, X = f"{label} {shape[0]} x {shape[1]} k {k} {statistic}", cache(table)

    def of(form: Callable[[Host, int], Partition]) -> Callable[[], float]:
        return lambda: width(X(), form(X(), k), statistic)

    own = measured.get(f"{name} {sweeps} boxes", of(lambda X, k: optimal(X, k, statistic, sweeps)))
    others = {other: measured.get(f"{name} {other}", of(form)) for other, form in BASELINES.items()}
    reference = measured.get(f"{name} asymptotic", lambda: asymptotic(X(), k, statistic))
    line = {"table": label, "rows": shape[0], "columns": shape[1], "k": k, "statistic": statistic, "width": own}
    line |= {other: own / width for other, width in others.items()} | {"asymptotic": own / reference}
    print(json.dumps({n: round(v, 4) if isinstance(v, float) else v for n, v in line.items()}), flush=True)
    return line


def on_normals(measured: Measured, sweeps: int | None) -> list[Line]:
    """All statistics, at 20 000 rows and at k · 2^p near it, where Mondrian's boxes hold exactly k."""
    lines = []
    for statistic, d, k in itertools.product(STATISTICS, (2, 3, 5), (25, 10, 5)):
        for n in (20_000, k * 2 ** round(np.log2(20_000 / k))):
            lines.append(compared(measured, partial(normals, n, d), (n, d), k, statistic, sweeps, "normals"))
    return lines


def on_census(measured: Measured, sweeps: int | None) -> list[Line]:
    """Every pair of columns."""
    census = np.genfromtxt(Path(os.environ["GPUANON_DATA"]) / "census/census.csv", delimiter=",", skip_header=1)
    census = standardised(census[:, census.std(axis=0) > 0])
    lines = []
    for pair in itertools.combinations(range(census.shape[1]), 2):
        columns = np.ascontiguousarray(census[:, list(pair)])
        line = compared(measured, lambda X=columns: X, columns.shape, 5, "covariance", sweeps, f"census {pair}")
        lines.append(line | {"r": float((columns[:, 0] * columns[:, 1]).mean())})
    return lines


def on_tables(measured: Measured, sweeps: int | None) -> list[Line]:
    """Adult and the registry, numeric columns together."""
    import pyarrow.csv as pc

    from gpuanon.tables.registry import make_registry

    adult = pc.read_csv(Path(os.environ["GPUANON_DATA"]) / "adult/adult_train_complete_30162.csv")
    chosen = [name for name in adult.column_names if name in ("age", "fnlwgt", "education-num", "hours-per-week")]
    registry = make_registry(20_000, seed=1)
    found = {"adult": (adult, chosen), "registry": (registry, ["age", "income", "cost"])}
    lines = []
    for statistic, (label, (table, names)) in itertools.product(STATISTICS, found.items()):
        X = np.stack([table[name].to_numpy().astype(float) for name in names], axis=1)
        X = standardised(X[~np.isnan(X).any(axis=1)])
        lines.append(compared(measured, lambda X=X: X, X.shape, 5, statistic, sweeps, label))
    return lines


def on_search(measured: Measured) -> list[Line]:
    """What further sweeps of the search bring."""
    lines = []
    for d, k in ((2, 10), (3, 10), (5, 10)):
        for sweeps in (0, 1, 4, 8, 16, 32, 64, 128):
            table, shape = partial(normals, 20_000, d), (20_000, d)
            lines.append(compared(measured, table, shape, k, "covariance", sweeps, "normals") | {"sweeps": sweeps})
    return lines


def picture(path: Path, sweeps: int | None) -> None:
    """Boxes of two columns, for the mean and for the covariance, beside Mondrian's."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X = normals(1000, 2, seed=4)
    shown = {
        "Mondrian, cut at multiples of k": mondrian_k(X, 10),
        "optimal for the means": optimal(X, 10, "mean", sweeps),
        "optimal for the covariance": optimal(X, 10, "covariance", sweeps),
    }
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), sharex=True, sharey=True)
    for axis, (title, groups) in zip(axes, shown.items(), strict=True):
        low, high = segment_minima(X, groups), segment_maxima(X, groups)
        for (x0, y0), (x1, y1) in zip(low, high, strict=True):
            axis.add_patch(plt.Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, lw=0.7, color="tab:blue"))
        axis.plot(*X.T, ".", ms=1.5, color="0.4")
        ends = IntervalBoxes.of(low, high, groups.sizes).covariance(0, 1)
        axis.set_title(f"{title}\ncovariance in [{ends[0]:.3f}, {ends[1]:.3f}]", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", choices=("normals", "census", "tables", "search", "picture"), action="append")
    parser.add_argument("--sweeps", type=int)
    parser.add_argument("--anew", action="store_true", help="measure our boxes again")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    measured = Measured(chosen.out / "widths.jsonl")
    if chosen.anew:
        measured.forget("boxes")
    parts: dict[str, Callable[[], Any]] = {
        "census": lambda: on_census(measured, chosen.sweeps),
        "tables": lambda: on_tables(measured, chosen.sweeps),
        "search": lambda: on_search(measured),
        "normals": lambda: on_normals(measured, chosen.sweeps),
    }
    for part in chosen.part or (*parts, "picture"):
        if part == "picture":
            picture(chosen.out / "boxes.png", chosen.sweeps)
        else:
            (chosen.out / f"boxes-{part}.json").write_text(json.dumps(parts[part](), indent=1) + "\n")


if __name__ == "__main__":
    main()
