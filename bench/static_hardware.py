"""Data sheets of devices, and the occupancy of a multiprocessor (NVIDIA's rules)."""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32


@dataclass(frozen=True)
class Device:
    """One GPU of an architecture.

    fp32, fp64, special, exchange : lanes a cycle and multiprocessor (CUDA programming guide, arithmetic throughput)
    threads, blocks, shared       : what a multiprocessor holds at once
    reserved                      : bytes of shared memory that the system takes of each block
    """

    arch: int
    name: str
    multiprocessors: int
    gigahertz: float
    gigabytes_per_second: float
    fp32: int
    fp64: int
    special: int
    exchange: int
    threads: int
    blocks: int
    shared: int
    reserved: int


DEVICES = (
    Device(75, "T4", 40, 1.59, 320, 64, 2, 16, 32, 1024, 16, 64 << 10, 0),
    Device(80, "A100 40 GB", 108, 1.41, 1555, 64, 32, 16, 32, 2048, 32, 164 << 10, 1024),
    Device(86, "A10", 72, 1.70, 600, 128, 2, 16, 32, 1536, 16, 100 << 10, 1024),
    Device(89, "L4", 58, 2.04, 300, 128, 2, 16, 32, 1536, 24, 100 << 10, 1024),
    Device(90, "H100 SXM", 132, 1.83, 3350, 128, 64, 16, 32, 2048, 32, 228 << 10, 1024),
    Device(100, "B200", 148, 1.85, 8000, 128, 64, 16, 32, 2048, 32, 228 << 10, 1024),
    Device(120, "RTX 5090", 170, 2.41, 1792, 128, 2, 16, 32, 1536, 24, 100 << 10, 1024),
)

SCHEDULERS = 4  # of a multiprocessor; each issues one instruction of one warp a cycle
_REGISTERS = 65536
_REGISTER_UNIT = 256  # a warp's registers are handed out in pieces of this size


def resident_blocks(device: Device, threads: int, registers: int, shared: int) -> int:
    """Blocks that a multiprocessor holds at once."""
    warps = -(-threads // WARP)
    by_warps = device.threads // WARP // warps
    per_warp = -(-registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    by_registers = _REGISTERS // SCHEDULERS // per_warp * SCHEDULERS // warps
    unit = 256 if device.arch == 75 else 128
    taken = -(-(shared + device.reserved) // unit) * unit
    by_shared = device.shared // taken if taken else device.blocks
    return min(device.blocks, by_warps, by_registers, by_shared)


def occupancy(device: Device, threads: int, registers: int, shared: int) -> float:
    """Share of a multiprocessor's warps that such blocks fill."""
    warps = -(-threads // WARP)
    return resident_blocks(device, threads, registers, shared) * warps / (device.threads // WARP)
