"""Faults of a kernel or its launch.  Each is an `AssertionError`, so that the test fails."""

from __future__ import annotations


class CudaFault(AssertionError):
    """A kernel or a launch that breaks a rule of CUDA."""


class Unsupported(CudaFault):
    """PTX that the interpreter does not support: add it, do not work around it."""


class OutOfBounds(CudaFault):
    """An access outside of every array that was passed."""


class Misaligned(CudaFault):
    """An address that is not a multiple of the size of the access."""


class Uninitialised(CudaFault):
    """A read of shared memory that no thread of the block has written."""


class Race(CudaFault):
    """Two threads touch the same word, one of them writes, and nothing orders them."""


class BarrierFault(CudaFault):
    """Not all threads that a barrier waits for reach it."""


class Endless(CudaFault):
    """The kernel ran for longer than it may."""


class BadLaunch(CudaFault):
    """Arguments, grid, block or shared memory that the device would refuse or misread."""


class WrongStream(CudaFault):
    """Work on an array whose device or stream is not the current one of the thread."""
