"""Layer 1: every kernel file compiles for every architecture and both types with CuPy's own options, and no kernel
spills, uses a stack, or takes more registers than recorded."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.support import ceilings, nvrtc

FILES = [path.stem for path in nvrtc.kernel_files()]
STATIC_SHARED_LIMIT = 48 * 1024


@pytest.mark.parametrize("arch", nvrtc.ARCHITECTURES)
@pytest.mark.parametrize("real", nvrtc.REALS)
@pytest.mark.parametrize("file", FILES)
def test_kernels_compile_and_stay_below_their_ceilings(file: str, real: Any, arch: int) -> None:
    recorded = ceilings.read().get(file, {})
    found = ceilings.compiled(file, real, arch)
    assert found, f"no kernels in {file}.cu"
    for name, resources in found.items():
        ceiling = recorded.get(name, {}).get(real, {}).get(str(arch))
        assert ceiling is not None, f"{name}: no ceiling recorded; run python -m tests.cuda.support.ceilings {file}"
        assert resources.registers <= ceiling["registers"]
        assert resources.shared <= min(ceiling["shared"], STATIC_SHARED_LIMIT)
        assert resources.stack <= ceiling.get("stack", 0)
        assert resources.spill_stores + resources.spill_loads <= ceiling.get("spilled", 0)
        assert len(ceiling.get("reason", "said where it is needed")) > 20, f"{name} spills: say why in ceilings.json"


def test_every_ceiling_belongs_to_a_kernel() -> None:
    assert sorted(ceilings.read()) == FILES
    for file in FILES:
        assert set(ceilings.read()[file]) == set(ceilings.compiled(file, "float", 80))


def test_spills_are_read_from_the_compilers_log() -> None:
    log = """
ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
ptxas         .     16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 16640 bytes smem, 388 bytes cmem[0]
ptxas info    : Compiling entry function 'two' for 'sm_90'
ptxas info    : Function properties for two
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 0 barriers
"""
    assert nvrtc.parse_log(log) == {
        "one": nvrtc.Resources(64, 16, 12, 8, 16640, 1),
        "two": nvrtc.Resources(14, 0, 0, 0, 0, 0),
    }


def test_a_kernel_that_spills_is_detected() -> None:
    source = (Path(__file__).parent / "probes" / "spilling.cu").read_text()
    resources = nvrtc.cubin(source, "float", 80).kernels["spilling"]
    assert resources.registers <= 32
    assert resources.spill_stores > 0
    assert resources.spill_loads > 0


def test_the_compilers_message_reaches_the_reader() -> None:
    with pytest.raises(nvrtc.CompileError, match="__sinkthreads"):
        nvrtc.cubin('extern "C" __global__ void k() { __sinkthreads(); }', "float", 80)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed; NVRTC compiles the same files")
@pytest.mark.parametrize("file", FILES)
def test_each_file_compiles_alone_with_nvcc(file: str, tmp_path: Path) -> None:
    command = ["nvcc", "-ptx", "-arch=sm_90", "-DREAL=float", str(nvrtc.KERNELS / f"{file}.cu"), "-o"]
    done = subprocess.run([*command, str(tmp_path / "out.ptx")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
