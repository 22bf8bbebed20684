"""Every call of the stand-in that would start work on a device: by function, by signature, and the time it took here.

Views (slices, reshaped and transposed arrays), attributes and uninitialised memory start nothing and are not counted.
A function of CuPy that starts several kernels, such as a sort, counts once.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

VIEWS = frozenset(
    (
        *("reshape", "ravel", "transpose", "view", "squeeze", "swapaxes", "moveaxis", "broadcast_to", "expand_dims"),
        *("diagonal", "atleast_1d", "atleast_2d", "shape", "ndim", "result_type", "dtype", "may_share_memory", "split"),
    )
)


@dataclass
class Calls:
    """All calls since the stand-in was installed.

    functions  : calls by name; kernels of this project are not among them
    signatures : names with the types of their arguments: CuPy compiles a kernel for each
    touched    : bytes of all arrays that calls read or wrote, those of kernels included
    seconds    : that the stand-in itself took
    """

    functions: Counter[str] = field(default_factory=Counter)
    signatures: set[tuple[str, ...]] = field(default_factory=set)
    touched: int = 0
    seconds: float = 0.0
    depth: int = 0

    def clear(self) -> None:
        self.functions.clear()
        self.signatures.clear()
        self.touched, self.seconds, self.depth = 0, 0.0, 0

    @contextmanager
    def timed(self) -> Iterator[bool]:
        """The time of the block is the stand-in's own; gives whether no other call is under way."""
        began, outer = time.perf_counter(), self.depth == 0
        self.depth += 1
        try:
            yield outer
        finally:
            self.depth -= 1
            if outer:
                self.seconds += time.perf_counter() - began

    def run(self, name: str, work: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Count a call, unless it is part of another one, and make it."""
        with self.timed() as outer:
            result = work(*args, **keywords)
            if outer and name.rpartition(".")[2] not in VIEWS:
                self.functions[name] += 1
                given = [*args, *keywords.values()]
                self.signatures.add((name, *(_kind(value) for value in given)))
                self.touched += sum(_bytes(value) for value in (*given, result))
        return result


calls = Calls()


def counted(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function whose calls are counted under `name`."""

    def decorate(work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def run(*args: Any, **keywords: Any) -> Any:
            return calls.run(name, work, args, keywords)

        return run

    return decorate


def _kind(value: Any) -> str:
    """What CuPy chooses a compiled kernel by: the type of an array or of a number."""
    if isinstance(value, tuple | list):
        return "+".join(sorted({_kind(one) for one in value}))
    dtype = getattr(value, "dtype", None)
    return str(dtype) if dtype is not None else type(value).__name__ if isinstance(value, int | float) else ""


def _bytes(value: Any) -> int:
    if isinstance(value, tuple | list):
        return sum(_bytes(one) for one in value)
    return int(value.nbytes) if hasattr(value, "nbytes") and hasattr(value, "_host") else 0
