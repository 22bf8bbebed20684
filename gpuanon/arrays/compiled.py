"""Compiled functions: numba's, where it is installed (``pip install 'gpuanon[fast]'``), with the results of NumPy.

A compiled function works on whole numbers, or repeats its NumPy twin operation by operation, so that equality is a
property of the arithmetic and not of a compiler.  The twin is the definition, and runs where numba is not installed.
Modules whose functions are compiled have names that begin with ``compiled`` and are imported when first used.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import Any, TypeVar

import numpy as np

from gpuanon.errors import ParameterError


def installed_version(name: str) -> str:
    """The version of an installed library; `PackageNotFoundError` if there is none.

    `importlib.metadata.version` parses all of a library's metadata, most of which is the text of licences.
    """
    found = re.search(r"^Version: *(\S+)", distribution(name).read_text("METADATA") or "", re.MULTILINE)
    return found[1] if found else version(name)


Function = TypeVar("Function", bound=Callable[..., Any])

ZERO: Any = np.int64(0)
ONE: Any = np.int64(1)
"""Arguments of compiled functions: for a plain 0 or 1 numba compiles the function once more."""

LEAST_WORK = 2_500_000
"""Rows times passes over them: less is not worth the time that numba takes to be imported."""

_LEAST_LOADED = 2_000  # less is done as fast by a few calls of NumPy
_EVERYWHERE = {
    "nogil": True,
    "error_model": "numpy",  # a quotient by zero is infinite, as in NumPy
    "no_cfunc_wrapper": True,  # no function is called from C
}
_ANY_ORDER = {"reassoc", "contract"}


def use_compiled(work: int) -> bool:
    """Whether compiled functions are used for so much work (rows × passes); ``GPUANON_COMPILED=0`` turns them off."""
    return _wanted() and work >= LEAST_WORK and _works()


def use_loaded(work: int) -> bool:
    """Whether they are used for work that is not worth the import of numba, but may find it imported."""
    return use_compiled(work) or (work >= _LEAST_LOADED and "numba" in sys.modules and _wanted() and _works())


def _wanted() -> bool:
    setting = os.environ.get("GPUANON_COMPILED", "1")
    if setting not in ("0", "1"):
        raise ParameterError(f"GPUANON_COMPILED: 0 or 1 is allowed, got {setting!r}")
    return setting == "1"


@lru_cache(maxsize=1)
def _works() -> bool:
    """Whether numba is installed and works with this NumPy."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def describe_compiled() -> str:
    """What is used from `LEAST_WORK` on, for the log and for ``doctor``; numba is not imported."""
    if not _wanted():
        return "none (turned off by GPUANON_COMPILED)"
    try:
        return f"numba {installed_version('numba')}"
    except PackageNotFoundError:
        return "none (numba is not installed: pip install 'gpuanon[fast]')"


def compiled(function: Function) -> Function:
    """Compile `function` at its first call, without the interpreter lock; the machine code is kept for later runs."""
    return _compile(function)


def compiled_bounds(function: Function) -> Function:
    """The same for a function whose results are bounds, which whoever uses them widens by the rounding error."""
    return _compile(function, fastmath=_ANY_ORDER)


def inner(function: Function) -> Function:
    """Compile `function` for other compiled functions, which alone may call it: Python has no way into it.

    A way for Python takes a fifth of the time of a compilation.  The machine code is kept with the callers' own.
    """
    return _compile_inner(function)


def inner_exact(function: Function) -> Function:
    """`inner` for a function whose sums are exact (whole numbers below 2^53), which may be taken in any order."""
    return _compile_inner(function, fastmath=_ANY_ORDER)


def inner_bounds(function: Function) -> Function:
    """`inner` for a function of `compiled_bounds`."""
    return _compile_inner(function, fastmath=_ANY_ORDER)


def _compile(function: Function, **options: Any) -> Function:
    from numba import njit

    _attend_compilation()
    try:
        found: Function = njit(cache=True, **_EVERYWHERE, **options)(function)
    except RuntimeError:  # no folder for machine code can be written: compiled anew in every process
        found = njit(**_EVERYWHERE, **options)(function)
    return found


def _compile_inner(function: Function, **options: Any) -> Function:
    from numba import njit

    found: Function = njit(no_cpython_wrapper=True, **_EVERYWHERE, **options)(function)
    return found


_spent = [0.0, 0.0]


def spent_compiling() -> tuple[float, float]:
    """Seconds that this process has waited for compilations, and processor seconds that it has worked meanwhile."""
    return _spent[0], _spent[1]


@lru_cache(maxsize=1)
def _attend_compilation() -> None:
    """Have numba say on stderr, once, that it compiles: nothing else would explain a silence of ten seconds.

    Garbage is collected after a compilation, not meanwhile: a tenth of its time.  What numba makes lives until its end.
    """
    from numba.core import event

    class Attendant(event.Listener):  # type: ignore[misc]
        said, depth, collecting = False, 0, False
        began = 0.0, 0.0

        def on_start(self, _: Any) -> None:  # under numba's own lock, as on_end
            if not self.said:
                self.said = True
                print(
                    "compiling functions: ten to twenty seconds of processor time, once on this machine",
                    file=sys.stderr,
                    flush=True,
                )
            if self.depth == 0:
                self.collecting = gc.isenabled()
                gc.disable()
                self.began = time.perf_counter(), time.process_time()
            self.depth += 1

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if self.depth > 0:
                return
            _spent[0] += time.perf_counter() - self.began[0]
            _spent[1] += time.process_time() - self.began[1]
            if self.collecting:
                gc.enable()

    event.register("numba:compile", Attendant())
