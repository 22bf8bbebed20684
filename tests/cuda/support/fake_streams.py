"""Current device and current stream, which CuPy keeps for each thread, and the order that they give to work.

Work on one stream is done in order.  Work on two streams is not, unless the host waited in between.  A thread starts
on device 0 and on a default stream of its own (as with ``CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=1``, the strictest
setting).  An array that was written on another stream or device is refused until somebody has waited for it.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

from tests.cuda.support.faults import WrongStream

_numbers = itertools.count(1)
_settled: dict[tuple[int, int, int], int] = {}  # device, stream, thread: the last work that somebody waited for


class Stream:
    """Stands in for `cupy.cuda.Stream`."""

    null: Stream
    ptds: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: Any = None
    ) -> None:
        self.ptr = 2 if ptds else 0 if null else next(_numbers) + 1000

    def synchronize(self) -> None:
        """Wait: what was written on this stream may be used on any."""
        settle((_current.devices[-1], self.ptr, _current.owner if self.ptr == 2 else 0))

    def use(self) -> Stream:
        _Current.of().streams[-1] = self
        return self

    def __enter__(self) -> Stream:
        _Current.of().streams.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _Current.of().streams.pop()


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)


class _Current(threading.local):
    """The stacks of devices and streams of one thread."""

    def __init__(self) -> None:
        self.devices = [0]
        self.streams = [Stream.ptds]
        self.owner = threading.get_ident()

    @staticmethod
    def of() -> _Current:
        return _current


_current = _Current()

Place = tuple[int, int, int]
Mark = tuple[Place, int]


def current_stream() -> Stream:
    return _current.streams[-1]


def devices() -> list[int]:
    """The stack of devices of this thread; the last is the current one."""
    return _current.devices


def place() -> Place:
    """Device, stream and (of a default stream) thread on which work is started now."""
    stream = _current.streams[-1].ptr
    return _current.devices[-1], stream, _current.owner if stream == 2 else 0


def settle(where: Place | None = None) -> None:
    """The work on the current stream (or on another) is finished."""
    _settled[place() if where is None else where] = next(_numbers)


def mark() -> Mark:
    """Place and number of work that is started now."""
    return place(), next(_numbers)


def check(written: Mark, what: str) -> None:
    """Refuse an array that was written elsewhere, and that nobody has waited for."""
    (device, _, _), number = written
    here = place()
    if device != here[0]:
        raise WrongStream(f"{what} is on device {device}, and the current device of this thread is {here[0]}")
    if written[0] != here and number > _settled.get(written[0], 0):
        raise WrongStream(f"{what} was written on another stream or by another thread, and nobody waited for it")
