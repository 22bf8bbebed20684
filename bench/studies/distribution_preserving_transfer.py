"""Transfer learning from masked tasks, end to end: courses that release their students' results (source 2 and 3).

    GPUANON_DATA=folder python bench/studies/distribution_preserving_transfer.py [--splits 5]

The tasks are the seven courses of the Open University's table (OULAD); each masks its own students with
`gpuanon.protect` and releases them.  One course, the target, has only 300 students; the others give 8000 together.
From what was released, passing is predicted for the other students of the target course.  Fixed before it was run:
k = 10, every course as the target, five draws of the 300 students; a trial of the programme saw one draw of one course.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.assessing.workloads import design, fit_weighted, nonparametric_weights, relative_bias, transfer_weights

KEY = Key(b"a study has no secrets")
FEW, POOL, K = 300, 8000, 10
COLUMNS = ("gender", "education", "deprivation", "age", "attempts", "credits", "disability")
EDUCATION = (
    "No Formal quals",
    "Lower Than A Level",
    "A Level or Equivalent",
    "HE Qualification",
    "Post Graduate Qualification",
)
LEVELS = (2, 5, 10, 3, 3, 3, 2)
MASKS = {
    "permute": {"method": "distribution-preserving", "k": K, "dither": "permute"},
    "Gaussian": {"method": "distribution-preserving", "k": K},
    "centroid": {"method": "microaggregation", "k": K},
}


def students(folder: Path) -> pd.DataFrame:
    """The courses' students in levels; 1111 without a deprivation band are left out."""
    with (folder / "oulad" / "oulad_student_info.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["imd_band"]]
    bands = sorted({row["imd_band"].rstrip("%") for row in rows}, key=lambda band: int(band.split("-")[0]))
    credits = np.array([float(row["studied_credits"]) for row in rows])
    return pd.DataFrame(
        {
            "course": [row["code_module"] for row in rows],
            "gender": [int(row["gender"] == "F") for row in rows],
            "education": [EDUCATION.index(row["highest_education"]) for row in rows],
            "deprivation": [bands.index(row["imd_band"].rstrip("%")) for row in rows],
            "age": [("0-35", "35-55", "55<=").index(row["age_band"]) for row in rows],
            "attempts": [min(2, int(row["num_of_prev_attempts"])) for row in rows],
            "credits": np.searchsorted([60, 120], credits),
            "disability": [int(row["disability"] == "Y") for row in rows],
            "passed": [int(row["final_result"] in ("Pass", "Distinction")) for row in rows],
        }
    )


def released(table: pd.DataFrame, mask: str) -> pd.DataFrame:
    """What a course releases; centroids are rounded to levels."""
    if mask == "unmasked":
        return table
    columns = {name: {"role": "quasi", "kind": "numeric"} for name in COLUMNS}
    recipe = {"columns": columns | {"passed": {"role": "sensitive", "kind": "numeric"}}, "mask": [MASKS[mask]]}
    out = gpuanon.protect(table[[*COLUMNS, "passed"]], recipe, rng=KEY, backend="numpy").data
    return out.round().astype(int)


def predictions(few: pd.DataFrame, pool: pd.DataFrame, test: pd.DataFrame) -> dict[str, np.ndarray]:
    """Chance of passing of the test students, by every way to use the pool."""
    both = pd.concat([few, pool])
    x, y, wanted = (part.to_numpy() for part in (both[list(COLUMNS)], both["passed"], test[list(COLUMNS)]))
    task = np.repeat([1, 0], [len(few), len(pool)])
    dummies = design(x, "dummy", LEVELS)[:, 1:]
    weights = {
        "target alone": task.astype(float),
        "pooled": np.ones(len(x)),
        "covariate shift": nonparametric_weights(x, x, x[task == 1]),
        "transfer, cells": transfer_weights(x, y, task, 1),
        "transfer, logistic": transfer_weights(dummies, y, task, 1, method="logistic"),
    }
    return {how: fit_weighted(x, y, w, coding="dummy", levels=LEVELS).predict(wanted) for how, w in weights.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--courses", nargs="*")
    given = parser.parse_args()
    table = students(Path(os.environ["GPUANON_DATA"]))
    courses = {name: part.reset_index(drop=True) for name, part in table.groupby("course")}
    found = defaultdict(list)
    for mask in ("unmasked", *MASKS):
        others = {name: released(part, mask) for name, part in courses.items()}
        for number, (target, part) in enumerate(courses.items()):
            if given.courses and target not in given.courses:
                continue
            for split in range(given.splits):
                rng = np.random.default_rng([number, split])
                order = rng.permutation(len(part))
                few = released(part.iloc[order[:FEW]].reset_index(drop=True), mask)
                pool = pd.concat([rows for name, rows in others.items() if name != target])
                pool = pool.iloc[rng.permutation(len(pool))[:POOL]]
                test = part.iloc[order[FEW:]]
                actual = test["passed"].to_numpy()
                for how, predicted in predictions(few, pool, test).items():
                    error = float(np.mean((predicted - actual) ** 2) / actual.var())
                    found[mask, how].append((target, relative_bias(predicted, actual), 1 - error))
    for (mask, how), values in found.items():
        names = np.array([one[0] for one in values])
        figures = np.array([one[1:] for one in values])
        mine = np.array([figures[names == name].mean(axis=0) for name in np.unique(names)])
        size = np.array([np.abs(figures[names == name, 0]).mean() for name in np.unique(names)])
        print(
            f"| {mask} | {how} | {size.mean():.1f} | {mine[:, 0].mean():+.1f} | {mine[:, 1].mean():.4f} |"
            f" by course {dict(zip(np.unique(names).tolist(), mine[:, 0].round(1).tolist(), strict=True))}",
            flush=True,
        )


if __name__ == "__main__":
    main()
