"""Kill random workers at random times during the stages of runs on a local Dask cluster, and report the results.

    python bench/hpc/kills.py --kills 20

Every run loses a worker (SIGKILL) in a stage drawn at random, after a random share of the time that the stage took in
a run without a kill.  A run ends *right* (the release of a run without a kill), *clean* (an error of this package,
nothing in place, and the right release after it was resumed) or WRONG.  The program fails if one is wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow.parquet as pq
from distributed import Client

from gpuanon.arrays.rng import Key
from gpuanon.engine.outputs import work_path
from gpuanon.engine.protect import protect_in_parts
from gpuanon.engine.workers import in_turn
from gpuanon.engine.workers.clusters import OnWorkers, cluster
from gpuanon.errors import GpuanonError
from gpuanon.recipe import Recipe
from gpuanon.tables.registry import make_registry, registry_recipe

KEY = Key(b"a key that is no secret, for a registry that nobody is in")


class Killing:
    """Workers that time their stages, one of which loses a worker."""

    def __init__(self, client: Client, stage: int = -1, delay: float = 0.0) -> None:
        self._client, self._run = client, OnWorkers(client)
        self._stage, self._delay = stage, delay
        self.seconds: list[float] = []

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        killer = None
        if len(self.seconds) == self._stage:
            victim = random.choice(list(self._client.run(os.getpid).values()))
            killer = threading.Timer(self._delay, os.kill, (victim, signal.SIGKILL))
            killer.start()
        began = time.perf_counter()
        try:
            return self._run(task, items)
        finally:
            self.seconds.append(time.perf_counter() - began)
            if killer is not None:
                killer.join()


def main() -> None:
    """Count the results of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, default=3_200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    folder = Path(mkdtemp())
    (folder / "registry").mkdir()
    table, part = make_registry(arguments.rows), arguments.rows // 8
    for number in range(8):
        pq.write_table(table.slice(number * part, part), folder / "registry" / f"{number}.parquet")
    (folder / "recipe.toml").write_text(registry_recipe())
    recipe = Recipe.load(folder / "recipe.toml")

    def protect(output: Path, workers: Any, *, resume: bool = False) -> None:
        options: dict[str, Any] = {"key": KEY, "backend": "numpy", "cell_rows": arguments.rows // 8}
        protect_in_parts(folder / "registry", recipe, output, workers=workers, resume=resume, **options)

    tally: Counter[tuple[int, str]] = Counter()
    with cluster("local", 2) as client:
        protect(folder / "warm", OnWorkers(client))
        undisturbed = Killing(client)
        protect(folder / "expected", undisturbed)
        expected = pq.read_table(folder / "expected")
        for number in range(arguments.kills):
            client.cluster.scale(2)  # a nanny may have gone with its worker
            client.wait_for_workers(1)
            stage = random.randrange(len(undisturbed.seconds))
            delay = random.random() * undisturbed.seconds[stage]
            output = folder / f"release-{number}"
            ended = "right"
            try:
                protect(output, Killing(client, stage, delay))
            except GpuanonError:
                ended = "clean" if not output.exists() else "WRONG"
                protect(output, in_turn, resume=True)
            same = pq.read_table(output).equals(expected) and not work_path(output).exists()
            ended = ended if same else "WRONG"
            tally[stage, ended] += 1
            print(f"kill {number + 1}: stage {stage}, after {delay:.2f} s: {ended}", flush=True)
    shutil.rmtree(folder)
    for (stage, ended), times in sorted(tally.items()):
        print(f"stage {stage}: {times} {ended}")
    wrong = sum(times for (_, ended), times in tally.items() if ended == "WRONG")
    print(f"{arguments.kills} kills: {arguments.kills - wrong} right releases or clean failures, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
