"""Strata of the response on continuous columns, and the number of clusters by held-out distortion.

    python bench/studies/distribution_preserving_strata.py [--rows 4000] [--registries 4]

Fixed before it was run: registries of the seeds 310, 311, … (300 and 301 were seen with 400 rows, as a trial
of the programme); age and income continuous, sex and education in levels, the
decile of the cost as what may be disclosed; k = 10 and 50; the workload is the cost of the first region, predicted
from all records by age, income, sex and education in five bins.
"""

from __future__ import annotations

import argparse

import numpy as np

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.masking.groups.kmember import KMember
from gpuanon.numerics.distance.distance import k_nearest
from gpuanon.tables.registry import make_registry

QUASI = ("age", "sex", "education", "income")
MEASURES = ("workload", "reidentification", "attribute_disclosure")
VARIANTS = {
    "no bins": {},
    "10 bins": {"bins": 10},
    "5 bins, 10 strata": {"bins": 5, "strata": 10},
    "10 bins, 10 strata": {"bins": 10, "strata": 10},
}
KEY = Key(b"a study has no secrets")


def rules(region: str) -> dict[str, object]:
    """Columns and workload."""
    columns = {name: {"role": "quasi"} for name in QUASI}
    columns |= {"region": {"role": "quasi", "keep": True}, "cost": {"role": "sensitive", "transform": "log1p"}}
    workload = {"new": {"region": region}, "response": "cost", "columns": list(QUASI), "bins": 5}
    return {"columns": columns, "others": "drop", "workload": [workload]}


def mask(k: int, options: dict[str, int]) -> dict[str, object]:
    """The Gaussian dither; strata of columns without bins are refused."""
    return {"method": "distribution-preserving", "k": k, "columns": list(QUASI), **options}


def figures(rows: int, seed: int, k: int, options: dict[str, int]) -> list[float]:
    """Added bias in points (with its sign), hit rate, and excess of attribute disclosure."""
    table = make_registry(2 * rows, seed=seed)
    original, reference = table.slice(0, rows), table.slice(rows)
    region = sorted(set(original["region"].to_pylist()))[0]
    recipe = rules(region)
    release = gpuanon.protect(original, {**recipe, "mask": [mask(k, options)]}, rng=KEY, reference=reference)
    found = gpuanon.assess(
        original, release.data, {**recipe, "mask": [mask(k, options)]}, measures=MEASURES, link=release.link,
        reference=reference,
    )  # fmt: skip
    if found.failed:
        raise SystemExit(str(found.failed))
    sides = found.measured["workload"].to_json()["compared"]
    bias = [next(iter(sides[side].values()))["bias"] for side in ("original", "release")]
    return [bias[1] - bias[0], *(found.measured[name].value for name in MEASURES[1:])]


def held_out(rows: int, seed: int, k: int, times: int) -> float:
    """Mean squared distance of held-out records from the nearest of ⌊n / (times · k)⌋ centres, per unit of variance."""
    table = make_registry(2 * rows, seed=seed)
    X = np.column_stack([table[name].to_numpy() for name in ("age", "bmi", "systolic", "cholesterol")]).astype(float)
    X = X[~np.isnan(X).any(axis=1)]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    train, test = X[: len(X) // 2], X[len(X) // 2 :]
    groups = KMember(k=times * k).form(train, KEY.draws(np.arange(len(train)), "groups"))
    centres = np.stack([train[groups.labels() == one].mean(axis=0) for one in range(groups.parts)])
    return float(k_nearest(test, centres, 1)[0].mean() / X.shape[1])


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--registries", type=int, default=4)
    given = parser.parse_args()
    seeds = range(310, 310 + given.registries)
    for k in (10, 50):
        for name, options in VARIANTS.items():
            found = np.array([figures(given.rows, seed, k, options) for seed in seeds])
            error = found.std(axis=0, ddof=1) / np.sqrt(len(seeds))
            shown = [f"{m:.4f} ± {e:.4f}" for m, e in zip(found.mean(axis=0), error, strict=True)]
            print(f"| {k} | {name} |", " | ".join(shown), "|", flush=True)
    for k in (5, 20):
        values = [np.mean([held_out(given.rows, seed, k, times) for seed in seeds]) for times in (1, 2, 4)]
        print(f"| {k} |", " | ".join(f"{value:.4f}" for value in values), "|", flush=True)


if __name__ == "__main__":
    main()
