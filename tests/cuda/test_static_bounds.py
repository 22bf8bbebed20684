"""The parts of bench/static.py: occupancy against NVIDIA's own header, loops in PTX and machine code, bounds."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from bench.static_hardware import DEVICES, occupancy, resident_blocks
from bench.static_loops import find_nvdisasm, ptx_loops, sass_loops
from bench.static_problems import PROBLEMS, Work
from tests.cuda.support import host_shim, nvrtc
from tests.cuda.support.interpreter import Module

PROBES = Path(__file__).parent / "probes"


def header_folder() -> Path | None:
    """Where cuda_occupancy.h is (package nvidia-cuda-runtime)."""
    found = importlib.util.find_spec("nvidia")
    folders = [Path(place) for place in (found.submodule_search_locations or [])] if found else []
    return next((h.parent for folder in folders for h in folder.glob("*/include/cuda_occupancy.h")), None)


@pytest.mark.skipif(host_shim.MISSING is not None or header_folder() is None, reason="needs g++ and cuda_occupancy.h")
def test_occupancy_equals_nvidias_own_calculation(tmp_path: Path) -> None:
    program = tmp_path / "occupancy"
    command = ["g++", "-std=c++17", "-w", f"-I{header_folder()}", str(PROBES / "occupancy.cpp"), "-o", str(program)]
    subprocess.run(command, check=True)
    sizes = itertools.product(
        (32, 96, 128, 256, 512, 1024), (16, 24, 40, 63, 64, 96, 128, 255), (0, 1, 8320, 24000, 49712)
    )
    cases = [(device, *size) for size in sizes for device in DEVICES]
    lines = [
        f"{d.arch // 10} {d.arch % 10} {d.threads} {d.shared} {d.reserved} {threads} {registers} {shared}"
        for d, threads, registers, shared in cases
    ]
    done = subprocess.run([str(program)], input="\n".join(lines), capture_output=True, text=True, check=True)
    expected = [int(line) for line in done.stdout.split()]
    assert [resident_blocks(*case) for case in cases] == expected
    assert len(set(expected)) > 10


def test_occupancy_is_the_share_of_resident_warps() -> None:
    a100 = next(device for device in DEVICES if device.arch == 80)
    assert occupancy(a100, 256, 32, 0) == 1.0
    assert occupancy(a100, 256, 128, 0) == 0.25
    assert occupancy(a100, 1024, 32, 100 << 10) == 0.5


def test_the_inner_loop_is_found_and_counted_in_ptx() -> None:
    kernels = Module.from_source((PROBES / "loop.cu").read_text(), "float").kernels
    loop = ptx_loops(kernels["nested"])
    assert loop.source == "PTX"
    assert loop.mix["fp32"] == 1
    assert loop.mix["shared"] == 2
    assert loop.mix["global"] == 0
    assert ptx_loops(kernels["straight"]).text() == "no loop"


@pytest.mark.skipif(find_nvdisasm() is None, reason="nvdisasm is not installed; loops are counted in PTX")
def test_the_inner_loop_is_found_and_counted_in_machine_code() -> None:
    loops = sass_loops(nvrtc.cubin((PROBES / "loop.cu").read_text(), "float", 80), str(find_nvdisasm()))
    assert loops["nested"].mix["fp32"] == 1
    assert loops["nested"].mix["shared"] == 2


def test_a_bound_is_set_by_the_unit_that_needs_longest() -> None:
    a100 = next(device for device in DEVICES if device.arch == 80)
    issued = Counter({"fp32": 1e9, "shared": 1e6})
    work = Work(PROBLEMS[0], issued, longest=10.0, blocks=1000, threads=256, shared=0)
    seconds, unit = work.seconds(a100, 32, 4)
    assert unit == "fp32"
    assert seconds == pytest.approx(1e9 * 32 / (108 * 64) / 1.41e9)
    issued["shared"] = 1e9
    assert work.seconds(a100, 32, 4)[1] == "shared"
