"""Attacks on releases that are made twice, on draws, on full disks and on membership; prints the table of attacks.md.

.venv/bin/python bench/studies/attacks.py
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import gpuanon
from gpuanon.tables.registry import make_registry

QUASI = ("age", "sex", "region", "education", "bmi")
FULL = """
import sys
from pathlib import Path
from gpuanon.cli.app import main
sys.argv = ["gpuanon", "protect", "t.parquet", "r.toml", "-o", "out.parquet", "--quiet", *sys.argv[1:]]
main()
"""
NEW = {
    "sequential-synthesis": {},
    "copula": {},
    "table-synthesis": {},
    "clustered-synthesis": {"k": 10},
    "maximum-entropy": {},
    "univariate-synthesis": {},
    "latin-hypercube": {},
}


def registry(n: int, seed: int) -> pd.DataFrame:
    """People without missing values in the columns of the attacks."""
    table = make_registry(2 * n, seed=seed).to_pandas()[[*QUASI, "cost", "visits"]]
    return table.dropna().head(n).reset_index(drop=True)


def recipe(mask: dict[str, object], columns: tuple[str, ...] = QUASI, **roles: str) -> dict[str, object]:
    """The quasi-identifiers, masked."""
    named = {name: {"role": "quasi"} for name in columns} | {name: {"role": role} for name, role in roles.items()}
    return {"columns": named, "others": "drop", "mask": [mask]}


def twice(n: int = 2000) -> tuple[float, float]:
    """Share of the people in two monthly tables whose cost is the only one that both of their classes hold.

    Both tables share four of five people.  The attacker knows in which class somebody is; the second figure is the same
    for one release: classes in which all have one cost.
    """
    people = registry(2 * n, 1)
    people["cost"] = people["cost"].round(-2)  # values that several people have
    months = [people.iloc[:n], people.iloc[n // 5 : n + n // 5]]
    sets = []
    for month in months:
        found = gpuanon.protect(month, recipe({"method": "microaggregation", "k": 5}, cost="sensitive"))
        data = found.data.assign(person=month.index.to_numpy()[found.link])
        held = data.groupby(list(QUASI), observed=True)["cost"].agg(lambda values: frozenset(values))
        sets.append(data.join(held.rename("held"), on=list(QUASI)).set_index("person")["held"])
    both = sets[0].index.intersection(sets[1].index)
    common = [len(sets[0][person] & sets[1][person]) for person in both]
    return float(np.mean(np.array(common) == 1)), float(np.mean([len(sets[0][person]) == 1 for person in both]))


def noisy(n: int = 2000) -> tuple[float, float]:
    """Reidentification by one release with noise, and by the mean of two under two keys that somebody has linked."""
    people = registry(n, 2)[["age", "bmi", "visits"]].astype(float)
    wanted = recipe({"method": "noise", "b": 0.3}, ("age", "bmi", "visits"))
    made = [gpuanon.protect(people, wanted) for _ in range(2)]
    ordered = [one.data.iloc[np.argsort(one.link)].reset_index(drop=True) for one in made]
    rows = np.arange(n)
    found = [
        gpuanon.assess(people, table, wanted, link=rows, measures=("reidentification",))["reidentification"].value
        for table in (ordered[0], (ordered[0] + ordered[1]) / 2)
    ]
    return found[0], found[1]


def streams(n: int = 5000) -> float:
    """The correlation between what two equal masks of one recipe add to two columns that have nothing in common."""
    people = pd.DataFrame(np.random.default_rng(6).normal(size=(n, 2)), columns=["a", "b"])
    masks = [{"method": "noise", "kind": "uncorrelated", "b": 0.5, "columns": [name]} for name in "ab"]
    wanted = {"columns": {name: {"role": "quasi"} for name in "ab"}, "mask": masks}
    found = gpuanon.protect(people, wanted)
    added = found.data.to_numpy() - people.to_numpy()[found.link]
    return float(abs(np.corrcoef(added.T)[0, 1]))


def full_disk(limits: tuple[int, ...] = (2_000, 20_000, 60_000, 120_000, 300_000)) -> list[str]:
    """What is left of runs whose files may not grow beyond each limit: in memory and in parts."""
    found = []
    for limit in limits:
        for how in ((), ("--workers", "0", "--cell", "1000")):
            with tempfile.TemporaryDirectory() as folder:
                registry(4000, 3).to_parquet(Path(folder) / "t.parquet")
                lines = "".join(f'{name} = {{ role = "quasi" }}\n' for name in QUASI)
                mask = '[[mask]]\nmethod = "microaggregation"\nk = 5\n'
                (Path(folder) / "r.toml").write_text(f'others = "keep"\n[columns]\n{lines}{mask}')

                def bounded(most: int = limit) -> None:
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

                done = subprocess.run(
                    [sys.executable, "-c", FULL, *how], cwd=folder, capture_output=True, text=True, preexec_fn=bounded,
                    env=os.environ | {"NUMBA_DISABLE_JIT": "0"}, check=False,
                )  # fmt: skip
                left = sorted(set(os.listdir(folder)) - {"t.parquet", "r.toml"})
                whole = [name for name in left if not name.startswith(".")]
                word = "internal" if "internal error" in done.stderr else "clear"
                found.append(f"{limit:,} bytes {' '.join(how[:1])}: exit {done.returncode}, {word}, outputs {whole}")
    return found


def members(method: str, settings: dict[str, object], n: int = 1500) -> tuple[int, int]:
    """Unique people of the half that was the input, and of the half that was not, who stand whole in the release."""
    people = registry(2 * n, 4)[["age", "sex", "region", "education", "visits"]]
    people = people[~people.duplicated(keep=False)].reset_index(drop=True)
    half = np.random.default_rng(5).permutation(len(people)) < len(people) // 2
    columns = tuple(people.columns)
    data = gpuanon.protect(people[half], recipe({"method": method, "columns": "all", **settings}, columns)).data
    rows = set(map(tuple, data.astype(str).to_numpy()))
    whole = np.array([tuple(row) in rows for row in people.astype(str).to_numpy()])
    return int(whole[half].sum()), int(whole[~half].sum())


def ratio(inside: int, outside: int) -> str:
    """The ratio with its 95 % interval, of two Poisson counts of equal exposure."""
    if min(inside, outside) == 0:
        return "–"
    middle, wide = np.log(inside / outside), 1.96 * np.sqrt(1 / inside + 1 / outside)
    return f"{np.exp(middle):.2f} ({np.exp(middle - wide):.2f}–{np.exp(middle + wide):.2f})"


def main() -> None:
    """Print all."""
    print("| method | members | non-members | ratio (95 %) |")
    for method, settings in NEW.items():
        try:
            inside, outside = members(method, settings)
            print(f"| `{method}` | {inside} | {outside} | {ratio(inside, outside)} |", flush=True)
        except gpuanon.GpuanonError as error:
            print(f"| `{method}` | refused: {str(error).splitlines()[0]} | | |", flush=True)
    print("two months, one cost in common; one month alone:", twice(), flush=True)
    print("noise, one release and two averaged:", noisy(), flush=True)
    print("correlation of two masks' noise:", streams(), flush=True)
    for line in full_disk():
        print(line, flush=True)


if __name__ == "__main__":
    main()
