"""What a machine can do: its device, its versions, and every CUDA kernel against its NumPy twin.

Without a GPU it says so, and compiles the kernels instead, if NVIDIA's compiler is there.  Nothing about data or keys
is looked at: the report can be sent to anybody.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gpuanon.arrays import kernels
from gpuanon.arrays.backend import choose
from gpuanon.arrays.compiled import LEAST_WORK, describe_compiled, use_compiled
from gpuanon.arrays.progress import stage
from gpuanon.arrays.threads import each, thread_count

WARMED = (
    ("masking.groups.refine.annealing", "numerics.distance.distance_leaves"),
    (
        "masking.groups.kmember",
        "masking.groups.mdav",
        "masking.operations.dither.rosenblatt",
        "numerics.equal_rows",
        "arrays.sorting",
    ),
)
"""Modules with compiled functions, in two sets that take about the same time to compile."""

PACKAGES = ("gpuanon", "numpy", "scipy", "scikit-learn", "pyarrow", "dask", "cupy", "cuml", "dask-cuda")
ARCHITECTURES = (80,)
"""Compute capabilities that are compiled for where there is no GPU; the tests compile for all that are supported."""

_WHEELS: dict[str, tuple[str, ...]] = {
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "cuml": ("cuml-cu13", "cuml-cu12", "cuml"),
}


def examine(architectures: tuple[int, ...] = ARCHITECTURES, full_rows: int | None = None) -> dict[str, Any]:
    """Examine this machine.

    Parameters
    ----------
    architectures : compute capabilities that kernels are compiled for when there is no GPU
    full_rows : rows of the tables of the full check on a device; None for no full check

    Returns
    -------
    Plain values only: ``device`` (None without a GPU, with the reason in ``reason``), ``versions``, ``checks`` (kernels
    against their twins) and ``cuml`` (whether it answers, and its checks) or ``compiled`` (without a GPU), ``healthy``.
    """
    backend = choose("auto")
    report: dict[str, Any] = {
        "system": {"python": platform.python_version(), "platform": platform.platform(), "threads": thread_count()},
        "versions": _versions(),
        "compiled_functions": _warmed(),
        "device": None,
        "reason": backend.reason,
    }
    if backend.name == "cupy":
        report["device"] = _device(backend.xp)
        report["checks"] = _checks(backend.xp)
        report["cuml"] = _cuml(backend.xp, installed=report["versions"]["cuml"] is not None)
        report["healthy"] = all(check["passed"] for check in report["checks"]) and report["cuml"]["healthy"]
        if full_rows is not None:
            from gpuanon.cli.doctor.full_checks import full_checks

            report["full"] = full_checks(backend.xp, full_rows)
            report["healthy"] = report["healthy"] and report["full"]["healthy"]
    else:
        report["compiled"] = _compiled(architectures)
        report["healthy"] = all(not file["error"] for file in report["compiled"]["files"])
    return report


def _warmed() -> str:
    """What compiled functions there are; they are compiled now, so that no later run waits for it.

    About half of them by another process where there is a second core; this one then loads what that one stored.
    """
    if not use_compiled(LEAST_WORK):
        return describe_compiled()
    began = time.perf_counter()
    with _other_process() if thread_count() > 1 and sys.executable else nullcontext():
        warm(WARMED[0])
    warm(WARMED[1])
    return f"{describe_compiled()}, ready after {time.perf_counter() - began:.1f} s"


@contextmanager
def _other_process() -> Iterator[None]:
    """Another process compiles its part meanwhile; it is waited for, and does not outlive an interrupt."""
    command = [sys.executable, "-P", "-c", "from gpuanon.cli import doctor; doctor.warm(doctor.WARMED[1])"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
        try:
            yield
            other.wait()
        except BaseException:
            other.kill()
            raise


def warm(modules: Iterable[str]) -> None:
    """Compile the functions of these modules of gpuanon, or load their machine code."""
    for name in modules:
        importlib.import_module(f"gpuanon.{name}").warm_compiled()


def _versions() -> dict[str, str | None]:
    """Installed versions, None for what is not installed; nothing is imported to find them."""
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        found[package] = None
        for name in _WHEELS.get(package, (package,)):
            try:
                found[package] = importlib.metadata.version(name)
                break
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def _device(cupy: ModuleType) -> dict[str, Any]:
    """The current CUDA device and the driver."""
    device = cupy.cuda.Device()
    properties = cupy.cuda.runtime.getDeviceProperties(device.id)
    limits = kernels.limits()
    free, total = device.mem_info
    return {
        "name": properties["name"].decode(),
        "compute_capability": device.compute_capability,
        "devices": cupy.cuda.runtime.getDeviceCount(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "memory_free": int(free),
        "memory_total": int(total),
        "multiprocessors": limits.multiprocessors,
        "shared_memory_per_block": limits.shared,
    }


def _checks(cupy: ModuleType) -> list[dict[str, Any]]:
    """Every kernel against its twin, in both types, with the time of a second run."""
    from gpuanon.cli.doctor.device_checks import CHECKS

    with stage("checking kernels"):
        return [_check(cupy, check, dtype) for check in CHECKS for dtype in (np.float32, np.float64)]


def _check(cupy: ModuleType, check: Any, dtype: Any) -> dict[str, Any]:
    """One check; a kernel that fails to compile or to run is a failed check, not the end of the report."""
    result: dict[str, Any] = {"name": check.name, "kernels": list(check.kernels), "type": np.dtype(dtype).name}
    result |= {"allowed": check.allowed(dtype), "difference": None, "seconds": None, "error": None, "passed": False}
    try:
        found = check.run(cupy, dtype)  # compiles
        begin = time.perf_counter()
        check.run(cupy, dtype)
        cupy.cuda.Device().synchronize()
        result["seconds"] = time.perf_counter() - begin
        difference = check.difference(found, check.expected(dtype), dtype)
        result["difference"] = difference if np.isfinite(difference) else None
        result["passed"] = bool(difference <= check.allowed(dtype))
    except Exception as error:  # whatever goes wrong on a user's device is what the report is for
        cause = error.__cause__ or error
        result["error"] = f"{type(cause).__name__}: {str(cause)[:2000]}"
    return result


def _cuml(cupy: ModuleType, installed: bool) -> dict[str, Any]:
    """Whether cuML answers, and its answers against scikit-learn's; without it all but a few measures run."""
    from gpuanon.arrays.rapids import cuml_problem
    from gpuanon.cli.doctor.device_checks import LIBRARY_CHECKS, library_agrees

    problem = cuml_problem()
    checks = []
    with stage("checking cuML"):
        for name in LIBRARY_CHECKS if problem is None else ():
            error = None
            try:
                passed = library_agrees(name, cupy)
            except Exception as raised:  # as above
                passed, error = False, f"{type(raised).__name__}: {str(raised)[:2000]}"
            checks.append({"name": name, "passed": passed, "error": error})
    healthy = all(check["passed"] for check in checks) and (problem is None or not installed)
    return {"problem": problem, "checks": checks, "healthy": healthy}


def _compiled(architectures: tuple[int, ...]) -> dict[str, Any]:
    """Compile every kernel file for each architecture, as CuPy would, where NVRTC is installed."""
    problem = _compiler_problem()
    result: dict[str, Any] = {"possible": problem is None, "reason": problem, "files": []}
    if problem is None:
        result["architectures"] = list(architectures)
        with stage("compiling kernels"):
            files = sorted(kernels.folder().glob("*.cu"))
            result["files"] = each(lambda file: _compile_file(file, architectures), files)
    return result


def _compiler_problem() -> str | None:
    """Why kernels cannot be compiled here, or None."""
    try:
        importlib.import_module("cupy")
        importlib.import_module("cupy.cuda.compiler")
    except ImportError:
        return "CuPy is not installed"
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:  # a missing library shows in several ways
        return f"NVIDIA's compiler NVRTC cannot be loaded ({type(error).__name__})"
    return None


def _compile_file(file: Path, architectures: tuple[int, ...]) -> dict[str, Any]:
    """Whether one file compiles in both types and all its variants for all architectures; the message if not."""
    begin = time.perf_counter()
    error = None
    for constants in kernels.variants(file.stem):
        options = tuple(f"-D{name}={value}" for name, value in constants.items())
        for real in ("float", "double"):
            for architecture in architectures:
                error = error or _compile(kernels.source(file.stem), real, architecture, options)
    return {"file": file.name, "error": error, "seconds": time.perf_counter() - begin}


def _compile(source: str, real: str, architecture: int, constants: tuple[str, ...] = ()) -> str | None:
    """Compile with the options that CuPy adds to a `RawModule`; the compiler's message, or None."""
    from cupy._core import core
    from cupy.cuda import compiler

    wanted = ("-std=c++17", f"-DREAL={real}", f"-arch=sm_{architecture}", *constants)
    options = (*core.assemble_cupy_compiler_options(wanted), "-ftz=true", "--device-as-default-execution-space")
    try:
        compiler._NVRTCProgram(source, "kernel.cu", method="cubin").compile(options)
    except compiler.CompileException as error:
        return str(error)[:2000]
    return None


def rendered(report: dict[str, Any]) -> str:
    """The report as text."""
    lines = [
        f"Python {report['system']['python']} on {report['system']['platform']}, {report['system']['threads']} threads"
    ]
    lines += [f"  {name:<14}{version or 'not installed'}" for name, version in report["versions"].items()]
    lines.append(f"Compiled functions: {report['compiled_functions']}")
    device = report["device"]
    if device is None:
        lines += [
            f"No GPU is used: {report['reason']}.  Everything runs on NumPy.",
            *_rendered_compilation(report["compiled"]),
        ]
    else:
        free, total = (device[key] / 2**30 for key in ("memory_free", "memory_total"))
        lines += [
            f"{device['name']}, compute capability {device['compute_capability']}, driver {device['driver']}, "
            f"{free:.1f} of {total:.1f} GiB free",
            *(_rendered_check(check) for check in report["checks"]),
            *_rendered_cuml(report["cuml"]),
            *_rendered_full(report.get("full")),
        ]
    lines.append("All is well." if report["healthy"] else "Something is wrong: please send this report with --json.")
    return "\n".join(lines)


def _rendered_full(full: dict[str, Any] | None) -> list[str]:
    from gpuanon.cli.doctor import full_checks

    return [] if full is None else full_checks.rendered(full)


def _rendered_compilation(compiled: dict[str, Any]) -> list[str]:
    if not compiled["possible"]:
        return [f"The kernels were not compiled either: {compiled['reason']}."]
    names = ", ".join(f"sm_{architecture}" for architecture in compiled["architectures"])
    lines = [f"The CUDA kernels compile for {names}, in float and double:"]
    for file in compiled["files"]:
        lines.append(f"  {file['file']:<24}{'ok' if file['error'] is None else 'FAILED'}")
        if file["error"]:
            lines += [f"    {line}" for line in file["error"].splitlines()[:20]]
    return lines


def _rendered_cuml(cuml: dict[str, Any]) -> list[str]:
    if cuml["problem"] is not None:
        return [f"{cuml['problem']}: pmse_forest and cluster_balance need --backend numpy."]
    lines = []
    for check in cuml["checks"]:
        why = "" if check["error"] is None else f"  {check['error'].splitlines()[0]}"
        lines.append(f"  {'ok' if check['passed'] else 'FAILED':<7}{check['name']}{why}")
    return lines


def _rendered_check(check: dict[str, Any]) -> str:
    verdict = "ok" if check["passed"] else "FAILED"
    numbers = "" if check["difference"] is None else f"  difference {check['difference']:.1e}"
    timing = "" if check["seconds"] is None else f"  {1000 * check['seconds']:.2f} ms"
    why = "" if check["error"] is None else f"  {check['error'].splitlines()[0]}"
    return f"  {verdict:<7}{check['name']:<34}{check['type']:<9}{numbers}{timing}{why}"
