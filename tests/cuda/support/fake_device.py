"""The stand-in's device: its limits, its memory, and kernels that run in the interpreter.

The numbers are those of an A100 (compute capability 8.0), unless a test changes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.cuda.support import fake_memory, nvrtc
from tests.cuda.support.fake_array import ndarray
from tests.cuda.support.fake_calls import calls
from tests.cuda.support.fake_memory import memory
from tests.cuda.support.fake_streams import Stream, current_stream, devices, settle
from tests.cuda.support.faults import BadLaunch
from tests.cuda.support.interpreter import kernels_of, launch
from tests.cuda.support.machine import Launch, Watch
from tests.cuda.support.real_cupy import cupy as real

DEFAULT_SHARED = 48 * 1024


@dataclass
class Hardware:
    """The properties of the simulated device."""

    name: str = "stand-in for an A100"
    compute_capability: str = "80"
    shared_per_block: int = DEFAULT_SHARED
    shared_per_block_optin: int = 163 * 1024
    threads_per_block: int = 1024
    multiprocessors: int = 108
    free_memory: int = 39 << 30
    total_memory: int = 40 << 30
    pool_limit: int = 0
    devices: int = 1
    watch: Watch = field(default_factory=lambda: Watch(races=False))
    schedule: int | None = None  # None: the interpreter; else the host program with this schedule of threads
    one_lane: bool = False  # the kernels as plain C++ without sanitizers, for large problems (layer 8)
    execute: bool = True  # False: launches are checked and recorded, and nothing is computed
    launches: list[tuple[str, Launch]] = field(default_factory=list)
    shared_memory: list[tuple[str, int, int]] = field(default_factory=list)  # kernel, dynamic and static bytes


hardware = Hardware()


class Device:
    """Stands in for `cupy.cuda.Device`."""

    def __init__(self, device: Any = None) -> None:
        self.id = devices()[-1] if device is None else int(device)
        if not 0 <= self.id < hardware.devices:
            raise RuntimeError("cudaErrorInvalidDevice: invalid device ordinal")

    @property
    def compute_capability(self) -> str:
        return hardware.compute_capability

    @property
    def attributes(self) -> dict[str, int]:
        return {
            "MaxSharedMemoryPerBlock": hardware.shared_per_block,
            "MaxSharedMemoryPerBlockOptin": hardware.shared_per_block_optin,
            "MaxSharedMemoryPerMultiprocessor": 164 * 1024,
            "MaxThreadsPerBlock": hardware.threads_per_block,
            "MaxThreadsPerMultiProcessor": 2048,
            "MaxRegistersPerBlock": 65536,
            "MultiProcessorCount": hardware.multiprocessors,
            "WarpSize": 32,
            "ClockRate": 1410000,
            "MaxGridDimX": 2**31 - 1,
            "MaxGridDimY": 65535,
            "MaxGridDimZ": 65535,
        }

    @property
    def mem_info(self) -> tuple[int, int]:
        return memory.free(), hardware.total_memory

    @property
    def pci_bus_id(self) -> str:
        return "0000:00:00.0"

    def synchronize(self) -> None:
        """Wait for the current stream."""
        memory.wait("synchronize()")

    def use(self) -> Device:
        devices()[-1] = self.id
        return self

    def __enter__(self) -> Device:
        devices().append(self.id)
        return self

    def __exit__(self, *error: Any) -> None:
        devices().pop()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


class RawModule:
    """Stands in for `cupy.RawModule`: lazy, as the real one; kernels run in the interpreter."""

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | None = None,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Any = None,
        jitify: Any = None,
    ) -> None:
        if code is None or backend != "nvrtc" or name_expressions is not None:
            raise NotImplementedError("the stand-in compiles source text with NVRTC")
        self._code, self._options = code, tuple(options)

    def get_function(self, name: str) -> RawKernel:
        options = (*self._options, *nvrtc.interpreted_options(int(hardware.compute_capability)))
        with calls.timed():
            kernels = kernels_of(self._code, options)
        if name not in kernels:
            raise RuntimeError(f"CUDA_ERROR_NOT_FOUND: named symbol not found: {name}")
        return RawKernel(name, kernels[name], self._code, self._options)


class RawKernel:
    """Stands in for a kernel of `cupy.RawModule`."""

    def __init__(self, name: str, kernel: Any, code: str, options: tuple[str, ...]) -> None:
        self.name, self._kernel, self._code = name, kernel, code
        self._macros = dict(option[2:].split("=") for option in options if option.startswith("-D"))
        self._dynamic = hardware.shared_per_block - self.shared_size_bytes  # as the driver sets it at first

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self._dynamic

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        if size + self.shared_size_bytes > hardware.shared_per_block_optin:
            raise BadLaunch(f"{self.name}: CUDA_ERROR_INVALID_VALUE: {size} + {self.shared_size_bytes} bytes")
        self._dynamic = size

    max_threads_per_block = property(lambda self: self._kernel.max_threads)
    shared_size_bytes = property(lambda self: self._kernel.shared_bytes)
    local_size_bytes = property(lambda self: self._kernel.local_bytes)
    const_size_bytes = property(lambda self: 0)
    attributes = property(
        lambda self: {
            "max_threads_per_block": self.max_threads_per_block,
            "shared_size_bytes": self.shared_size_bytes,
            "local_size_bytes": self.local_size_bytes,
            "max_dynamic_shared_size_bytes": self.max_dynamic_shared_size_bytes,
        }
    )

    def __call__(
        self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0, stream: Any = None, **other: Any
    ) -> None:
        if other:
            raise TypeError(f"{self.name}: unexpected arguments {sorted(other)}")
        if shared_mem > self._dynamic:
            raise BadLaunch(
                f"{self.name}: CUDA_ERROR_INVALID_VALUE: {shared_mem} bytes of dynamic shared memory besides "
                f"{self.shared_size_bytes} static ones without asking for them"
            )
        hardware.shared_memory.append((self.name, shared_mem, self.shared_size_bytes))
        calls.touched += sum(value.nbytes for value in args if isinstance(value, ndarray))
        with calls.timed():
            self._run(grid, block, args, shared_mem)

    def _run(self, grid: Any, block: Any, args: Any, shared_mem: int) -> None:
        """Execute it in one of the three ways."""
        given = [self._argument(number, value) for number, value in enumerate(args)]
        if not hardware.execute:
            return
        if hardware.one_lane:
            from tests.cuda.support import one_lane

            one_lane.launch(self._code, self._macros, self.name, grid, block, given, shared_mem)
        elif hardware.schedule is None:
            done = launch(self._kernel, tuple(grid), tuple(block), given, shared_mem, hardware.watch)
            hardware.launches.append((self.name, done))
        else:
            self._launch_on_host(tuple(grid), tuple(block), given, shared_mem, hardware.schedule)

    def _launch_on_host(
        self, grid: tuple[int, ...], block: tuple[int, ...], given: list[Any], shared: int, schedule: int
    ) -> None:
        from tests.cuda.support import host_shim

        macros = {key: value for key, value in self._macros.items() if key != "REAL"}
        program = host_shim.program(self._macros.get("REAL", "float"), macros, self._code)
        host_shim.launch(program, self.name, grid, block, given, shared, schedule)

    def _argument(self, number: int, value: Any) -> Any:
        """As CuPy passes it: arrays by address, Python numbers as 8 bytes, NumPy scalars as they are."""
        if isinstance(value, ndarray):
            memory.note(value._host, writes=True)
            return value._host if value.ndim else value._host.reshape(1)
        if isinstance(value, np.ndarray) and value.size != 1:
            raise TypeError(f"{self.name}: argument {number} is a NumPy array: a kernel cannot read host memory")
        if isinstance(value, bool):
            return np.bool_(value)
        if isinstance(value, int):
            return np.int64(value)
        if isinstance(value, float):
            return np.float64(value)
        return value


def cuda_module() -> ModuleType:
    """Stands in for `cupy.cuda`."""
    made = ModuleType("cupy.cuda")
    true = real.cuda.memory
    properties = {"name": hardware.name.encode(), "major": 8, "minor": 0, "totalGlobalMem": hardware.total_memory}
    made.__dict__.update(
        Device=Device,
        Stream=Stream,
        get_current_stream=current_stream,
        is_available=lambda: True,
        MemoryPool=fake_memory.Pool,
        get_allocator=fake_memory.get_allocator,
        set_allocator=fake_memory.set_allocator,
        memory=SimpleNamespace(OutOfMemoryError=true.OutOfMemoryError),
        runtime=SimpleNamespace(
            getDeviceCount=lambda: hardware.devices,
            getDevice=lambda: devices()[-1],
            memGetInfo=lambda: Device().mem_info,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13000,
            getDeviceProperties=lambda device: dict(properties, name=hardware.name.encode()),
            deviceSynchronize=settle,
        ),
    )
    return made
