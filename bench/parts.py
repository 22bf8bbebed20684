"""Masking in parts on Dask workers with a memory limit: speed, memory and bytes, compared with a run in memory.

    python bench/parts.py --rows 1000000 4000000 --memory 3GB
    python bench/parts.py --rows 6000000 --memory 700MB --method resample --no-memory-engine

For every size and method one line of JSON is appended to ``--out``: seconds and written bytes of every stage, the
largest resident memory of a worker, processor seconds, and seconds per row of the engine in memory (on at
most ``--in-memory-rows`` rows, files to files, with as many threads as there are workers).  ``--columns 400
--masked 4`` makes a wide table: much larger than the workers' memory without many rows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import threading
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.engine.outputs import work_path
from gpuanon.engine.protect import protect_in_parts
from gpuanon.engine.store.placement import CELL_ROWS
from gpuanon.engine.workers import in_turn
from gpuanon.engine.workers.clusters import LOOPBACK, OnWorkers, worker_environment, worker_settings
from gpuanon.recipe import Recipe
from gpuanon.tables.formats import io

KEY = Key(b"a benchmark's key is no secret")
METHODS: dict[str, dict[str, Any]] = {
    "resample": {"method": "distribution-preserving", "dither": "resample", "k": 10},
    "microaggregation": {"method": "microaggregation", "k": 10},
}
PART_ROWS = 250_000


def make_parts(folder: Path, rows: int, columns: int) -> int:
    """Correlated normal columns in Parquet parts; the bytes of the values."""
    folder.mkdir(parents=True)
    mixing = np.random.default_rng(0).normal(size=(columns, columns)) / np.sqrt(columns)
    part = min(PART_ROWS, 10 * PART_ROWS // columns)
    for number, first in enumerate(range(0, rows, part)):
        count = min(part, rows - first)
        X = np.random.default_rng([1, number]).normal(size=(count, columns)) @ mixing
        table = pa.table({f"x{j}": X[:, j] for j in range(columns)})
        pq.write_table(table, folder / f"{number:05d}.parquet")
    return rows * columns * 8


def recipe(method: str, columns: int = 10) -> Recipe:
    """A recipe with this number of quasi-identifiers and one mask."""
    roles = {f"x{j}": {"role": "quasi"} for j in range(columns)}
    if method == "resample":  # what it hides is beside what the records stand
        roles[f"x{columns - 1}"] = {"role": "sensitive"}
    return Recipe.load({"columns": roles, "mask": [METHODS[method]]})


class Watch:
    """The largest resident and private memory of each worker, and of the workspace's files, while it watches."""

    def __init__(self, pids: list[int], folder: Path) -> None:
        self._processes = [psutil.Process(pid) for pid in pids]
        self._folder = folder
        self.resident = self.private = self.disk = 0
        self.cpu = -self._cpu()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _cpu(self) -> float:
        """Processor seconds of the workers so far, as long as none was restarted."""
        times = [process.cpu_times() for process in self._processes if process.is_running()]
        return sum(found.user + found.system for found in times)

    def _look(self) -> None:
        while not self._over.wait(0.1):
            for process in self._processes:
                try:
                    info = process.memory_info()
                except psutil.Error:
                    continue
                self.resident = max(self.resident, info.rss)
                self.private = max(self.private, info.rss - info.shared)
            try:
                used = sum(entry.stat().st_size for entry in os.scandir(self._folder) if entry.is_file())
            except OSError:
                continue
            self.disk = max(self.disk, used)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.cpu += self._cpu()


def in_parts(source: Path, method: str, rows: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Mask `source` on the workers: seconds, stages, memory."""
    output = source.with_name(f"{source.name}-{method}")
    lines: list[str] = []
    with (
        worker_settings(),
        LocalCluster(
            n_workers=arguments.workers,
            threads_per_worker=1,
            memory_limit=arguments.memory,
            dashboard_address=LOOPBACK,
            env=worker_environment(arguments.workers),
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(_imported)
        before = {address: info["id"] for address, info in client.scheduler_info(n_workers=-1)["workers"].items()}
        with Watch(list(client.run(os.getpid).values()), work_path(output)) as watch:
            began = time.perf_counter()
            manifest = protect_in_parts(
                source,
                recipe(method, arguments.masked),
                output,
                key=KEY,
                backend="numpy",
                workers=OnWorkers(client),
                cell_rows=arguments.cell,
                log=lines.append,
            )
            seconds = time.perf_counter() - began
        after = {address: info["id"] for address, info in client.scheduler_info(n_workers=-1)["workers"].items()}
    assert manifest["rows_out"] == rows
    shutil.rmtree(output)
    Path(f"{output}.manifest.json").unlink()
    return {
        "seconds": round(seconds, 2),
        "rows_per_second": round(rows / seconds),
        "worker_cpu_us_per_row": round(1e6 * watch.cpu / rows, 2),
        "stages": {found["name"]: stage_figures(found) for found in map(parsed, lines)},
        "peak_worker_rss_mb": round(watch.resident / 1e6),
        "peak_worker_private_mb": round(watch.private / 1e6),
        "peak_workspace_mb": round(watch.disk / 1e6),
        "workers_restarted": len(set(before) - set(after)),
    }


def in_process(source: Path, method: str, rows: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Mask `source` in parts in this process: processor seconds of every stage, and bytes."""
    output = source.with_name(f"{source.name}-{method}")
    lines: list[str] = []
    cpu: list[float] = []

    def timed(task: Any, items: Any) -> list[Any]:
        began = time.process_time()
        results = in_turn(task, items)
        cpu.append(time.process_time() - began)
        return results

    options: dict[str, Any] = {"key": KEY, "backend": "numpy", "cell_rows": arguments.cell, "log": lines.append}
    began = time.perf_counter()
    protect_in_parts(source, recipe(method, arguments.masked), output, workers=timed, **options)
    seconds = time.perf_counter() - began
    shutil.rmtree(output)
    Path(f"{output}.manifest.json").unlink()
    stages = {found["name"]: stage_figures(found) for found in map(parsed, lines)}
    for figures, used in zip(stages.values(), cpu, strict=True):
        figures["cpu_us_per_row"] = round(1e6 * used / rows, 2)
    return {
        "seconds": round(seconds, 2),
        "stages": stages,
        "worker_cpu_us_per_row": round(1e6 * sum(cpu) / rows, 2),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
    }


def _imported() -> None:
    """Load what the tasks need, so that imports are not timed."""
    import gpuanon.engine.tasks  # noqa: F401


def parsed(line: str) -> dict[str, str]:
    """The figures of a stage's log line."""
    found = re.match(r"(?P<name>\S+): (?P<tasks>\d+) tasks, (?P<seconds>[\d.]+) s.*?(?:, (?P<mb>[\d.,]+) MB)?", line)
    assert found
    moved = re.search(r"([\d.,]+) MB written", line)
    return {**found.groupdict(), "mb": moved[1].replace(",", "") if moved else "0"}


def stage_figures(found: dict[str, str]) -> dict[str, float]:
    """As numbers."""
    return {"tasks": int(found["tasks"]), "seconds": float(found["seconds"]), "mb_written": float(found["mb"])}


def in_memory(source: Path, method: str, rows: int) -> tuple[float, float]:
    """Seconds and processor seconds per row of the engine for a table in memory, files to files, on `rows` rows."""
    folder = source.with_name("in-memory")
    folder.mkdir(exist_ok=True)
    files = sorted(source.glob("*.parquet"))[: max(1, rows // PART_ROWS)]
    for file in files:
        shutil.copy(file, folder / file.name)
    began, cpu = time.perf_counter(), time.process_time()
    release = gpuanon.protect(io.read(folder), recipe(method), rng=KEY, backend="numpy")
    release.write(folder.with_name("in-memory.parquet"), force=True)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    count = release.manifest["rows_out"]
    shutil.rmtree(folder)
    return seconds / count, cpu / count


def main() -> None:
    """Run the measurements of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--method", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--workers", type=int, default=2, help="0: in this process")
    parser.add_argument("--memory", default="3GB", help="limit of each worker")
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--masked", type=int, default=10, help="columns that are masked")
    parser.add_argument("--cell", type=int, default=CELL_ROWS)
    parser.add_argument("--in-memory-rows", type=int, default=1_000_000)
    parser.add_argument("--no-memory-engine", action="store_true", help="do not time the engine in memory")
    parser.add_argument("--folder", type=Path, help="where the tables go; default: a temporary folder")
    parser.add_argument("--out", type=Path, help="file that gets a line of JSON a run")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(mkdtemp())
    for rows in arguments.rows:
        source = folder / f"table-{rows}"
        size = make_parts(source, rows, arguments.columns)
        for method in arguments.method:
            load = round(os.getloadavg()[0], 1)
            result = {"rows": rows, "method": method, "table_mb": round(size / 1e6), "memory": arguments.memory}
            result |= {"workers": arguments.workers, "cores": os.cpu_count(), "load_before": load}
            result |= (in_parts if arguments.workers else in_process)(source, method, rows, arguments)
            if not arguments.no_memory_engine:
                wall, cpu = in_memory(source, method, min(rows, arguments.in_memory_rows))
                result["in_memory_us_per_row"] = round(1e6 * wall, 2)
                result["in_memory_cpu_us_per_row"] = round(1e6 * cpu, 2)
                result["ratio"] = round(result["seconds"] / rows / wall, 3)
                result["cpu_ratio"] = round(result["worker_cpu_us_per_row"] / result["in_memory_cpu_us_per_row"], 3)
            print(json.dumps(result))
            if arguments.out:
                with arguments.out.open("a") as out:
                    out.write(json.dumps(result) + "\n")
        shutil.rmtree(source)


if __name__ == "__main__":
    main()
