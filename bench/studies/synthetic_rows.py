"""The study of synthetic rows: tables 1–2 and figures 1–3 of Fried and Vamvourellis, and what a release costs.

    python bench/studies/synthetic_rows.py --out DIR [--rows 500000] [--fills tree,forest,...]

Two tables: generated students of online courses in the source's proportions, where an oracle draws from the true
conditional distribution, and OULAD's students (with GPUANON_DATA set).  Writes results.json, the figures as PNG with
their numbers as CSV, and prints the tables.  Processor time is of this process and its threads.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("MPLBACKEND", "Agg")

from synthetic_rows_data import COLUMNS, OTHERS, OULAD_COLUMNS, OULAD_QUASI, QUASI, courses, oracle, oulad
from synthetic_rows_figures import bias_map, grades

import gpuanon

FILLS = (
    "marginal", "marginal-mean", "joint", "joint-mean", "regression", "beta", "tree", "forest", "bagging", "boosting",
    "network", "hierarchical",
)  # fmt: skip
CALIBRATED = {
    "mean, correlation": {"means": ["grade"], "correlations": [["grade", "posts"]]},
    "slopes": {"regressions": ["grade ~ posts + birth"]},
    "mean, slopes": {"means": ["grade"], "regressions": ["grade ~ posts + birth"]},
    "mean, correlation, slopes": {
        "means": ["grade"], "correlations": [["grade", "posts"]], "regressions": ["grade ~ posts + birth"],
    },
}  # fmt: skip
K = 5


def main() -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--fills", default=",".join((*FILLS, "calibrated")))
    parser.add_argument("--seed", type=int, default=1, help="of the generated table, the oracle and the releases")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = options.fills.split(",")
    results = {"courses": on_courses(options.rows, chosen, options.out, options.seed)}
    if "GPUANON_DATA" in os.environ:
        results["oulad"] = on_oulad(chosen)
    (options.out / "results.json").write_text(json.dumps(results, indent=1))
    for name, found in results.items():
        print(name, json.dumps({key: value for key, value in found.items() if key != "fills"}))
        print(pd.DataFrame(found["fills"]).T.round(4).to_string())
    return 0


def on_courses(rows: int, fills: list[str], out: Path, seed: int = 1) -> dict[str, Any]:
    """All fills on the generated table, with nulls as wildcards, beside the oracle; and the numbers of rows."""
    table = courses(rows, seed)
    frame = table.to_pandas()
    found: dict[str, Any] = {"rows": rows, "fills": {}}
    for nulls in ("category", "wildcard"):
        release, _ = protect(table, COLUMNS, nulls, {"fill": "marginal-mean"}, seed)
        found[f"added_{nulls}"] = release.manifest["rows_added"]
        found[f"marginal-mean_{nulls}"] = biases(frame, release.data.to_pandas())
    made = np.flatnonzero(release.link < 0)
    drawn = replaced(release.data, made, oracle(release.data.take(pa.array(made)), 98 + seed))
    found["fills"]["oracle"] = measured(table, drawn, release.link, COLUMNS, frame) | {"seconds": None}
    pictures = {"original": frame.grade.to_numpy()}
    settings = {name: {"fill": name} for name in fills if name in FILLS} | {
        f"tree, {name}": {"fill": "tree", "calibrate": named}
        for name, named in CALIBRATED.items()
        if "calibrated" in fills
    }
    for name, setting in settings.items():
        release, seconds = protect(table, COLUMNS, "wildcard", setting, seed)
        figures = measured(table, release.data, release.link, COLUMNS, frame) | {"seconds": round(seconds, 1)}
        if "calibrate" in setting:
            said = release.manifest["mask"][0]["calibration"]["grade"]
            figures |= {f"said_{name}": value for name, value in said.items()}
        found["fills"][name] = figures
        pictures[name] = release.data["grade"].to_numpy()[release.link < 0]
        print(name, figures, file=sys.stderr, flush=True)
    bias_map(found["fills"], out / "figure_1")
    grades({"original": pictures["original"]}, "nonzero grades of the original", out / "figure_2")
    shown = [name for name in ("regression", "beta", "tree") if name in pictures]
    grades({name: pictures[name] for name in ("original", *shown)}, "nonzero grades of added rows", out / "figure_3")
    return found


def on_oulad(fills: list[str]) -> dict[str, Any]:
    """The same on OULAD; the share that passed takes the place of the grade, studied credits that of forum posts."""
    table = oulad()
    frame = table.to_pandas()
    found: dict[str, Any] = {"rows": len(frame), "fills": {}}
    for nulls in ("category", "wildcard"):
        release, _ = protect(table, OULAD_COLUMNS, nulls, {"fill": "marginal-mean"})
        found[f"added_{nulls}"] = release.manifest["rows_added"]
    for name in (name for name in fills if name in FILLS):
        release, seconds = protect(table, OULAD_COLUMNS, "wildcard", {"fill": name})
        after = release.data.to_pandas()
        found["fills"][name] = {
            "mean_bias": float(after.passed.mean() - frame.passed.mean()),
            "correlation_bias": correlation(after, "passed", "studied_credits")
            - correlation(frame, "passed", "studied_credits"),
            "auc": auc(table, release.data, release.link, OULAD_COLUMNS),
            "one_value": one_value(after[release.link < 0], OULAD_QUASI, "studied_credits"),
            "seconds": round(seconds, 1),
        }
        print("oulad", name, found["fills"][name], file=sys.stderr, flush=True)
    return found


def protect(
    table: pa.Table, columns: dict[str, Any], nulls: str, setting: dict[str, Any], seed: int = 1
) -> tuple[Any, float]:
    """The release of a table, and the processor seconds that it took."""
    mask = {"method": "synthetic-rows", "k": K, **setting}
    began = time.process_time()
    release = gpuanon.protect(
        table, {"columns": columns, "nulls": nulls, "mask": [mask]}, rng=4 + seed, backend="numpy"
    )
    return release, time.process_time() - began


def measured(table: pa.Table, release: Any, link: Any, columns: dict[str, Any], frame: pd.DataFrame) -> dict[str, Any]:
    """What the study says of one release of the course table."""
    after = release.to_pandas()
    made = after[link < 0]
    return {
        **biases(frame, after),
        "slope_drift": slope(after) / slope(frame) - 1,
        "zeros_added": float((made.grade == 0).mean()),
        "auc": auc(table, release, link, columns),
        "one_value": one_value(made, QUASI, "grade"),
    }


def biases(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, float]:
    """Change of the mean grade, and of its correlation with the number of forum posts."""
    change = correlation(after, "grade", "posts") - correlation(before, "grade", "posts")
    return {"mean_bias": float(after.grade.mean() - before.grade.mean()), "correlation_bias": change}


def correlation(frame: pd.DataFrame, one: str, other: str) -> float:
    """Of two columns."""
    return float(np.corrcoef(frame[one], frame[other])[0, 1])


def slope(frame: pd.DataFrame) -> float:
    """Of the grade on the number of forum posts, given the year of birth."""
    known = frame.dropna(subset=["birth"])
    X = np.column_stack([np.ones(len(known)), known.posts, known.birth.astype(float)])
    return float(np.linalg.lstsq(X, known.grade.to_numpy(), rcond=None)[0][1])


def auc(table: pa.Table, release: Any, link: Any, columns: dict[str, Any]) -> float:
    """How well added rows are told from the records of their class."""
    recipe = {"columns": columns, "nulls": "category", "mask": [{"method": "suppress", "k": 2}]}
    found = gpuanon.assess(table, release, recipe, link=link, measures=["synthetic_rows_auc"])
    return float(found.measured["synthetic_rows_auc"].value)


def one_value(made: pd.DataFrame, quasi: tuple[str, ...], column: str) -> float:
    """Share of the classes with two added rows or more, and a value other than 0, in which all of them have one."""
    found = made.groupby(list(quasi), dropna=False, observed=True)[column].agg(["nunique", "max", "size"])
    found = found[(found["max"] > 0) & (found["size"] > 1)]
    return float((found["nunique"] == 1).mean())


def replaced(release: pa.Table, rows: Any, drawn: pa.Table) -> pa.Table:
    """The release with other values in these rows, in all columns but the quasi-identifiers."""
    order = np.arange(release.num_rows)
    order[rows] = release.num_rows + np.arange(len(rows))
    columns = {}
    for name in release.column_names:
        both = pa.chunked_array([*release[name].chunks, *drawn[name].cast(release[name].type).chunks])
        columns[name] = both.take(pa.array(order)) if name in OTHERS else release[name]
    return pa.table(columns)


if __name__ == "__main__":
    raise SystemExit(main())
