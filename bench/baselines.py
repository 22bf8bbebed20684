"""Other tools beside gpuanon on the same tables: task × tool × seconds × quality, into bench/results/baselines.json.

    python bench/baselines.py [--only TEXT]

Every tool is installed into an environment of its own in ``.bench`` at its first use, by its name in the package index;
one that cannot be installed is recorded as missing.  Both sides run in turn on the same machine; a tool runs once, in a
process of its own whose imports are not timed, gpuanon three times after a warm-up (the least counts; once if it takes
ten seconds).  anonymeter attacks other people of the same table, by Gower's distance in place of the Euclidean one: its
risks and ours are two estimates, and need not be equal.

sdcMicro is an R package: its task runs where ``Rscript`` finds it, and quotes a figure of another run elsewhere.  By
hand:

    python bench/baselines.py --write table.csv
    Rscript bench/other_tools/sdcmicro.R table.csv 5

ARX is a Java program that recodes by hierarchies; bench/studies/recoding.md has its figures beside ours.  With its
library (libarx, https://arx.deidentifier.org) and the folder that GPUANON_DATA names:

    java -cp libarx.jar bench/other_tools/Recode.java $GPUANON_DATA/adult 0.05
    python bench/studies/recoding.py
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from frame import Host, environment, loss_of, mixed_columns, normals
from test_spectral import release, utility

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.assessing.ks_distance import ks_distances
from gpuanon.assessing.risk.inference import inference
from gpuanon.assessing.risk.linkability import linkability
from gpuanon.assessing.risk.singling_out import singling_out
from gpuanon.masking.groups.constrained_kmeans import ConstrainedKMeans
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.groups.mdav.mdav_models import Mdav
from gpuanon.masking.groups.median_cuts import MedianCuts
from gpuanon.tables.class_counts import ClassCounts, smallest_of
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.table import Table

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS, RESULTS = ROOT / ".bench", ROOT / "bench" / "results" / "baselines.json"

SDCMICRO = "sdcMicro"
"""Not in the Python package index: run by Rscript."""

HEAD = """
import json, sys, time
import numpy as np
X = np.load(sys.argv[1])
"""
LABELS = """
labels = np.empty(len(X), dtype=int)
for number, rows in enumerate(parts):
    labels[np.asarray(rows)] = number
np.save(sys.argv[2], labels)
print(json.dumps({"seconds": seconds}))
"""


@dataclass(frozen=True)
class Task:
    """One task, for a tool and for gpuanon.

    code    : the tool's program, after `HEAD`
    ours    : what gpuanon does, by name
    quality : of the tool's result (what it saved) and of ours
    quoted  : seconds, quality and source of another run, where the tool cannot be run here
    needs   : what is installed with the package
    """

    name: str
    package: str
    table: Callable[[], Host]
    code: str
    ours: dict[str, Callable[[Host], Any]]
    quality: Callable[[Host, Any], dict[str, float]]
    quoted: dict[str, Any] | None = None
    needs: tuple[str, ...] = ()


def draws(X: Host) -> Any:
    """A fixed key: figures can be repeated."""
    return Key(b"a benchmark's key is no secret").draws(np.arange(len(X)))


def loss(X: Host, found: Any) -> dict[str, float]:
    """Of labels or groups."""
    return {"loss %": loss_of(X, found if isinstance(found, Partition) else Partition.from_labels(np.asarray(found)))}


def smallest_class(X: Host) -> int:
    """Records of the smallest equivalence class."""
    table = Table.of(pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])}))
    return int(smallest_of([ClassCounts.of(row_bits(table, table.names), (0, 1))]) or 0)


ATTACKED = 10_000
ATTACKS = 2_000


def attacked() -> Host:
    """Originals, their release with noise, and people who are not in the table, one below the other.

    Seven numbers, and fifths of an eighth as a code: the secret of the attack on attributes.
    """
    X = normals(2 * ATTACKED, 8)
    Y = X[:ATTACKED] + 0.2 * np.random.default_rng(0).standard_normal((ATTACKED, 8))
    cuts = np.quantile(X[:, 7], [0.2, 0.4, 0.6, 0.8])
    every = np.concatenate([X[:ATTACKED], Y, X[ATTACKED:]])
    return np.column_stack([every[:, :7], np.searchsorted(cuts, every[:, 7])])


def sides(X: Host) -> tuple[Host, Host, Host]:
    """Original, release and control."""
    return X[:ATTACKED], X[ATTACKED : 2 * ATTACKED], X[2 * ATTACKED :]


def risk(_: Host, found: Any) -> dict[str, float]:
    """Of an attack beyond the same attack on people who are not in the table."""
    return {"risk": float(found)}


def our_linkability(X: Host) -> float:
    """Four columns against three."""
    points = [side[:, :7] for side in sides(X)]
    return linkability(*points, (range(4), range(4, 7)), targets=ATTACKS).value


def our_inference(X: Host) -> float:
    """The code from the seven numbers."""
    known, secrets = zip(*((side[:, :7], side[:, 7:]) for side in sides(X)), strict=True)
    return inference(known, secrets, (0.0,), targets=ATTACKS).value


def our_singling_out(X: Host) -> float:
    """By predicates of three columns; those of one column are tried as well."""
    found = singling_out(*(side[:, :7] for side in sides(X)), categorical=[False] * 7, size=3, attacks=500)
    return next(float(part.values["several columns"] or 0) for part in found.parts if part.of == "kind")


ATTACK = (
    f"n = {ATTACKED}\nattacks = {ATTACKS}\n"
    + """import logging, warnings
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator
warnings.filterwarnings("ignore")
np.random.seed(0)  # the people it attacks
logging.disable(logging.WARNING)
names = [f"x{j}" for j in range(7)] + ["code"]
original, release, control = (pd.DataFrame(X[at:at + n], columns=names) for at in (0, n, 2 * n))
for side in (original, release, control):
    side["code"] = side["code"].map("level {:.0f}".format).astype(object)
warm = [side.head(200) for side in (original, release, control)]  # its functions are compiled by numba
InferenceEvaluator(*warm[:2], names[:7], "code", n_attacks=50, control=warm[2]).evaluate(n_jobs=-1)
LinkabilityEvaluator(*warm[:2], (names[:4], names[4:7]), n_attacks=50, control=warm[2]).evaluate(n_jobs=-1)
began = time.perf_counter()
"""
)
ATTACKED_RISK = """
found = attack.risk().value
seconds = time.perf_counter() - began
np.save(sys.argv[2], found)
print(json.dumps({"seconds": seconds}))
"""

FRAME = "import pandas as pd\nframe = pd.DataFrame(X, columns=[f'x{j}' for j in range(X.shape[1])])\n"

TASKS = [
    Task(
        "MDAV, 2 000 × 8, k = 5",
        "anonypyx",
        lambda: normals(2_000, 8),
        FRAME
        + """from anonypyx.microaggregation import MDAVGeneric
began = time.perf_counter()
parts = MDAVGeneric(frame, list(frame.columns)).partition(5)
seconds = time.perf_counter() - began"""
        + LABELS,
        {
            "gpuanon, as published": lambda X: Mdav(k=5, block=0, refine=False).form(X, draws(X)),
            "gpuanon, by default": lambda X: KMember(k=5).form(X, draws(X)),
        },
        loss,
    ),
    Task(
        "Mondrian, 10 000 × 8, k = 5",
        "anonypyx",
        lambda: normals(10_000, 8),
        FRAME
        + """from anonypyx.mondrian import Mondrian
from anonypyx.models import kAnonymity
began = time.perf_counter()
parts = Mondrian(frame, list(frame.columns)).partition([kAnonymity(5)])
seconds = time.perf_counter() - began"""
        + LABELS,
        {
            "gpuanon, median cuts": lambda X: MedianCuts(k=5).form(X, draws(X)),
            "gpuanon, MDAV in blocks": lambda X: Mdav(k=5, refine=False).form(X, draws(X)),
            "gpuanon, by default": lambda X: KMember(k=5).form(X, draws(X)),
        },
        loss,
    ),
    Task(
        "k-means with least sizes, 2 000 × 4, k = 10",
        "k-means-constrained",
        lambda: normals(2_000, 4),
        """from k_means_constrained import KMeansConstrained
model = KMeansConstrained(n_clusters=len(X) // 12, size_min=10, n_init=1, max_iter=10, random_state=0)
began = time.perf_counter()
labels = model.fit_predict(X)
seconds = time.perf_counter() - began
np.save(sys.argv[2], labels)
print(json.dumps({"seconds": seconds}))
""",
        {
            "gpuanon, constrained k-means": lambda X: ConstrainedKMeans(k=10).form(X, draws(X)),
            "gpuanon, by default": lambda X: KMember(k=10).form(X, draws(X)),
        },
        loss,
    ),
    Task(
        "smallest class, 100 000 × 4",
        "pycanon",
        lambda: normals(100_000, 4).round(0),
        FRAME
        + """from pycanon.anonymity import k_anonymity
began = time.perf_counter()
k = k_anonymity(frame, list(frame.columns))
seconds = time.perf_counter() - began
np.save(sys.argv[2], np.asarray(k))
print(json.dumps({"seconds": seconds}))
""",
        {"gpuanon": smallest_class},
        lambda _, found: {"k": float(found)},
    ),
    Task(
        "KS distance of ten columns, 100 000 rows",
        "sdmetrics",
        lambda: normals(200_000, 10),
        """import pandas as pd
from sdmetrics.single_column import KSComplement
X, Y = X[:100_000], X[100_000:] * 1.1
columns = [(pd.Series(a), pd.Series(b)) for a, b in zip(X.T, Y.T)]
began = time.perf_counter()
found = [1 - KSComplement.compute(a, b) for a, b in columns]
seconds = time.perf_counter() - began
np.save(sys.argv[2], np.mean(found))
print(json.dumps({"seconds": seconds}))
""",
        {"gpuanon": lambda X: ks_distances(X[:100_000], 1.1 * X[100_000:]).mean()},
        lambda _, found: {"mean KS": float(found)},
    ),
    Task(
        "PICA, 5 000 × 28, clusters of about 200",
        "scikit-learn",
        lambda: mixed_columns(5_000),
        (Path(__file__).resolve().parent / "spectral_reference.py").read_text()
        + """
import warnings
warnings.filterwarnings("ignore")
began = time.perf_counter()
released = with_scikit_learn(X)
seconds = time.perf_counter() - began
np.save(sys.argv[2], released)
print(json.dumps({"seconds": seconds}))
""",
        {"gpuanon": lambda X: release(X, "pica")},
        utility,
        needs=("scipy",),
    ),
    Task(
        "singling out by three columns, 10 000 × 7, 500 attacks",
        "anonymeter",
        attacked,
        ATTACK
        + """numbers = [side[names[:7]] for side in (original, release, control)]
attack = SinglingOutEvaluator(*numbers[:2], n_attacks=500, n_cols=3, control=numbers[2], max_attempts=100_000, seed=0)
attack.evaluate(mode="multivariate")"""
        + ATTACKED_RISK,
        {"gpuanon, predicates of one column too": our_singling_out},
        risk,
    ),
    Task(
        "linkability of four columns and three, 10 000 records, 2 000 attacks",
        "anonymeter",
        attacked,
        ATTACK
        + """split = (names[:4], names[4:7])
attack = LinkabilityEvaluator(original, release, split, n_attacks=attacks, control=control)
attack.evaluate(n_jobs=-1)"""
        + ATTACKED_RISK,
        {"gpuanon": our_linkability},
        risk,
    ),
    Task(
        "inference of a code of five levels, 10 000 × 8, 2 000 attacks",
        "anonymeter",
        attacked,
        ATTACK
        + """attack = InferenceEvaluator(original, release, names[:7], "code", n_attacks=attacks, control=control)
attack.evaluate(n_jobs=-1)"""
        + ATTACKED_RISK,
        {"gpuanon": our_inference},
        risk,
    ),
    Task(
        "MDAV, 100 000 × 8, k = 5",
        SDCMICRO,
        lambda: normals(100_000, 8),
        "",
        {
            "gpuanon, as published": lambda X: Mdav(k=5, block=0, refine=False).form(X, draws(X)),
            "gpuanon, by default": lambda X: KMember(k=5).form(X, draws(X)),
        },
        loss,
        quoted={
            "seconds": 51.4,
            "quality": {"loss %": 2.46},
            "source": "quoted: one run of its compiled MDAV on two shared cores, on another table of 8 numeric columns",
        },
    ),
]


def python_of(package: str, needs: tuple[str, ...] = ()) -> Path | None:
    """The interpreter of an environment with this package, made at its first use; None if that fails."""
    folder = ENVIRONMENTS / package
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", package, *needs, "setuptools<81"]
        if subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            return None
        (folder / "ready").touch()
    return python


def run_tool(task: Task, X: Host, folder: Path) -> dict[str, Any]:
    """Seconds and quality of the tool, or what is missing."""
    if task.package == SDCMICRO:
        return run_sdcmicro(task, X, folder)
    python = python_of(task.package, task.needs)
    if python is None:
        return {"missing": "cannot be installed here"}
    np.save(folder / "table.npy", X)
    command = [str(python), "-c", HEAD + task.code, str(folder / "table.npy"), str(folder / "found.npy")]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"missing": f"failed: {last[:80]}"}
    return json.loads(done.stdout.splitlines()[-1]) | {"quality": task.quality(X, np.load(folder / "found.npy"))}


def run_sdcmicro(task: Task, X: Host, folder: Path) -> dict[str, Any]:
    """Seconds and loss where R and sdcMicro are installed; otherwise what is quoted."""
    write_csv(X, folder / "table.csv")
    program = ROOT / "bench" / "other_tools" / "sdcmicro.R"
    if shutil.which("Rscript"):
        command = ["Rscript", str(program), str(folder / "table.csv"), "5"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.returncode:
            found = json.loads(done.stdout.splitlines()[-1])
            return {"seconds": found["seconds"], "quality": {"loss %": found["loss"]}}
    return dict(task.quoted or {"missing": "Rscript finds no sdcMicro"})


def write_csv(X: Host, path: Path) -> None:
    """The table with names of columns."""
    np.savetxt(path, X, delimiter=",", header=",".join(f"x{j}" for j in range(X.shape[1])), comments="")


def run_ours(task: Task, X: Host, work: Callable[[Host], Any]) -> dict[str, Any]:
    """Least seconds of three runs, and quality."""
    began = time.perf_counter()
    found, seconds = work(X), []
    for _ in range(3 if time.perf_counter() - began < 10 else 1):
        began = time.perf_counter()
        found = work(X)
        seconds.append(time.perf_counter() - began)
    return {"seconds": min(seconds), "quality": task.quality(X, found)}


def main() -> None:
    """Run the tasks and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="tasks whose name holds this text; results of the others stay")
    parser.add_argument("--write", type=Path, help="write the table of sdcMicro's task as a CSV, and nothing else")
    options = parser.parse_args()
    if options.write:
        write_csv(next(task for task in TASKS if task.package == SDCMICRO).table(), options.write)
        return
    results = []
    before = json.loads(RESULTS.read_text())["results"] if RESULTS.exists() else []
    for task in TASKS:
        if options.only not in task.name:
            results += [result for result in before if result["task"] == task.name]
            continue
        X = task.table()
        with tempfile.TemporaryDirectory() as folder:
            results.append({"task": task.name, "tool": task.package, **run_tool(task, X, Path(folder))})
        for name, work in task.ours.items():
            results.append({"task": task.name, "tool": name, **run_ours(task, X, work)})
        print(*map(json.dumps, results[-1 - len(task.ours) :]), sep="\n", flush=True)
    RESULTS.write_text(json.dumps({"machine_info": environment(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
