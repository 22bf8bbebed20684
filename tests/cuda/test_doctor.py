"""`gpuanon doctor`: a machine with a device (the stand-in), one without, one without a compiler, and a faulty one."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpuanon.arrays import kernels, rapids
from gpuanon.arrays.partition import Partition
from gpuanon.cli import doctor
from gpuanon.cli.doctor import device_checks, full_checks
from gpuanon.cli.doctor.device_checks import Check
from gpuanon.masking.groups.greedy.greedy_device import KMEMBER_WORDS, MDAV_WORDS
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from tests.cuda.fixtures import device_problem
from tests.cuda.support.fake_cupy import fake_cupy
from tests.support.groups import refine_briefly

SMALL = tuple(check for check in device_checks.CHECKS if check.kernels[0].split("/")[0] in ("segment", "random"))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only some of the checks: all of them are run elsewhere."""
    monkeypatch.setattr(device_checks, "CHECKS", SMALL)


@pytest.mark.usefixtures("few")
def test_on_a_device_every_kernel_is_compared_with_numpy() -> None:
    with fake_cupy():
        report = doctor.examine()
    assert report["device"]["compute_capability"] == "80"
    assert report["device"]["memory_total"] == 40 << 30
    assert [check["type"] for check in report["checks"]] == ["float32", "float64"] * len(SMALL)
    assert all(check["passed"] and check["seconds"] > 0 for check in report["checks"])
    assert report["healthy"]
    text = doctor.rendered(report)
    assert "All is well." in text
    assert text.count(" ok ") == 2 * len(SMALL)
    assert json.loads(json.dumps(report)) == report


@pytest.mark.usefixtures("few")
def test_a_device_that_computes_wrongly_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Check, xp: Any, dtype: Any) -> tuple[np.ndarray[Any, Any], ...]:
        return tuple(result + 1 for result in self.expected(dtype))

    monkeypatch.setattr(Check, "run", wrong)
    with fake_cupy():
        report = doctor.examine()
    assert not report["healthy"]
    assert not any(check["passed"] for check in report["checks"])
    assert "FAILED" in doctor.rendered(report)


@pytest.mark.usefixtures("few")
def test_a_kernel_that_does_not_compile_is_reported_with_the_compilers_message(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = kernels.source("segment") + "\nnonsense;\n"
    true = kernels.source
    monkeypatch.setattr(kernels, "source", lambda file: broken if file == "segment" else true(file))
    kernels._kernel.cache_clear()
    kernels._module.cache_clear()
    with fake_cupy():
        report = doctor.examine()
    kernels._kernel.cache_clear()
    kernels._module.cache_clear()
    failed = [check for check in report["checks"] if not check["passed"]]
    assert {kernel.split("/")[0] for check in failed for kernel in check["kernels"]} == {"segment"}
    assert all("nonsense" in check["error"] for check in failed)


@pytest.mark.skipif(device_problem() is None, reason="this machine has a GPU")
def test_without_a_device_it_says_so_and_compiles_the_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("segment.cu", "random.cu", "normal_quantile.cuh"):
        (tmp_path / name).write_text((kernels.folder() / name).read_text())
    monkeypatch.setattr(kernels, "folder", lambda: tmp_path)
    report = doctor.examine()
    assert report["device"] is None
    assert report["reason"]
    assert report["compiled"]["possible"]
    assert [file["error"] for file in report["compiled"]["files"]] == [None, None]
    assert report["healthy"]
    assert "No GPU is used" in doctor.rendered(report)


def test_a_file_that_does_not_compile_makes_the_report_unhealthy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "bad.cu").write_text('extern "C" __global__ void bad() { missing(); }')
    monkeypatch.setattr(kernels, "folder", lambda: tmp_path)
    compiled = doctor._compiled((80,))
    assert "missing" in compiled["files"][0]["error"]


def test_without_cupy_it_says_that_nothing_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("cupy", "cupyx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cupy", None)
    report = doctor.examine()
    assert report["reason"] == "CuPy is not installed"
    assert not report["compiled"]["possible"]
    assert "not compiled either: CuPy is not installed" in doctor.rendered(report)
    assert report["versions"]["numpy"] == np.__version__


def test_every_variant_of_a_file_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    text = '// variants: KIND=0 KIND=1\nextern "C" __global__ void some() {\n#if KIND\nmissing();\n#endif\n}\n'
    (tmp_path / "variants_of_a_test.cu").write_text(text)
    monkeypatch.setattr(kernels, "folder", lambda: tmp_path)
    assert "missing" in doctor._compiled((80,))["files"][0]["error"]


@pytest.mark.usefixtures("few", "cuml")
def test_a_cuml_that_answers_is_checked_against_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    report = doctor.examine()
    assert report["cuml"] == {
        "problem": None,
        "checks": [{"name": name, "passed": True, "error": None} for name in device_checks.LIBRARY_CHECKS],
        "healthy": True,
    }
    assert "ok     cuML forest" in doctor.rendered(report)
    true = rapids.forest
    monkeypatch.setattr(rapids, "forest", lambda X, *a, **b: true(X, *a, **b) + (not isinstance(X, np.ndarray)))
    sick = doctor.examine()
    assert [check["passed"] for check in sick["cuml"]["checks"]] == [True, False]
    assert not sick["healthy"]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("installed", [True, False])
def test_a_missing_cuml_is_healthy_and_a_failing_one_is_not(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    rapids._problem.cache_clear()
    versions = doctor._versions() | {"cuml": "26.10" if installed else None}
    monkeypatch.setattr(doctor, "_versions", lambda: versions)
    with fake_cupy():
        report = doctor.examine()
    assert report["cuml"]["problem"] == "cuML is not installed"
    assert report["healthy"] is not installed
    assert "cuML is not installed: pmse_forest and cluster_balance" in doctor.rendered(report)


@pytest.mark.usefixtures("few")
def test_the_full_check_runs_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    refine_briefly(monkeypatch, turns=1, steps=2)
    monkeypatch.setattr(full_checks, "COLUMNS", (4,))
    monkeypatch.setattr(full_checks, "MASKS", {"ranks": full_checks.MASKS["ranks swapped"]})  # see test_method_checks
    monkeypatch.setattr(full_checks, "compared_measures", lambda rows: {"passed": True})
    with fake_cupy():
        report = doctor.examine(full_rows=120)
    assert [check["error"] for check in report["full"]["checks"]] == [None] * len(report["full"]["checks"])
    assert report["full"]["healthy"]
    runs = report["full"]["checks"][:2]
    assert all(run["seconds"]["cupy"]["all"] > 0 and len(run["seconds"]["cupy"]) > 2 for run in runs)
    assert all(run["pool_bytes"] > 0 for run in runs)
    assert json.loads(json.dumps(report)) == report
    assert "compute-sanitizer" in doctor.rendered(report)


def test_the_full_check_notices_a_whole_number_of_another_group(monkeypatch: pytest.MonkeyPatch) -> None:
    table = full_checks._table(400, 2, "whole numbers")
    moved = table.set_column(0, "c0", pa.array(np.where(np.arange(400) == 7, 2, 0) + table["c0"].to_numpy()))
    runs = {"cupy": (moved, {"all": 1.0}), "numpy": (table, {"all": 1.0})}
    monkeypatch.setattr(full_checks, "_timed_run", lambda given, recipe, backend: runs[backend])
    with fake_cupy() as cp:
        found = full_checks._compared_runs(cp, 400, 2, "whole numbers")
    assert (found["passed"], found["largest_difference"]) == (False, 2.0)
    assert found["equal_share"]["c0"] > 0.98


@pytest.mark.parametrize("grouping", [mdav, kmember])
@pytest.mark.parametrize("d", [4, 5, 10])
def test_part_sizes_of_the_full_check_cross_the_borders(grouping: Any, d: int) -> None:
    words = {mdav: MDAV_WORDS, kmember: KMEMBER_WORDS}[grouping]
    with fake_cupy(execute=False, shared_per_block_optin=64 * 1024) as cp:
        sizes = full_checks._border_sizes(4 * d + 8 * words, 8000)
        for size in sizes:
            grouping(cp.asarray(np.zeros((size, d))), Partition.whole(size, cp.zeros(1)), 5)
        needed = np.array([dynamic + static for _, dynamic, static in cp.hardware.shared_memory])
    for border in (48 * 1024, 64 * 1024):
        near = np.abs(needed - border) < 1024
        assert (needed[near] <= border).any()
    assert (needed[np.abs(needed - 48 * 1024) < 1024] > 48 * 1024).any()
    assert max(sizes) * (4 * d + 8 * words) > 64 * 1024  # in global memory
