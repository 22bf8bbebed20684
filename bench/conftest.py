"""Settings of the benchmarks: which sizes, which ways to compute, and what the JSON says of the machine."""

from __future__ import annotations

from typing import Any

import pytest
from frame import Record, environment

from gpuanon.arrays.compiled import LEAST_WORK, use_compiled
from gpuanon.cli.doctor import WARMED, warm


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="the large sizes too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: only with --full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    machine_info.clear()  # the host's name and processor numbers are nobody's business
    machine_info.update(environment())


def pytest_benchmark_update_json(config: pytest.Config, benchmarks: Any, output_json: dict[str, Any]) -> None:
    """Keep the statistics, not every single time; nor where the code lies."""
    output_json.pop("commit_info", None)
    for found in output_json["benchmarks"]:
        found["stats"].pop("data", None)


@pytest.fixture(scope="session", autouse=True)
def compiled_beforehand() -> None:
    """Compile what is compiled before anything is timed: some benchmarks run once, without a warm-up."""
    if use_compiled(LEAST_WORK):
        for modules in WARMED:
            warm(modules)


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    """Compiled, unless a benchmark is parametrised by `ways`."""
    return str(getattr(request, "param", "compiled"))


@pytest.fixture
def possible(way: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set up one way to compute; gpuanon's compiled functions are used for ``compiled`` only."""
    monkeypatch.setenv("GPUANON_COMPILED", "1" if way == "compiled" else "0")
    if way == "compiled":
        pytest.importorskip("numba")
    if way == "cupy":
        from gpuanon.arrays.backend import choose
        from gpuanon.errors import GpuanonError

        try:
            choose("cupy")
        except GpuanonError as error:
            pytest.skip(str(error))
    return way


@pytest.fixture
def record(possible: str, benchmark: Any) -> Record:
    """Time one way to compute something."""
    return Record(benchmark, possible)
