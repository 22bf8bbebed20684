"""The stand-in's functions: NumPy's, under the names and with the arguments of the real CuPy, and no others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tests.cuda.support.fake_array import Host, call, ndarray, poisoned, rewrap, transfers, unwrap, wrap
from tests.cuda.support.fake_calls import calls, counted
from tests.cuda.support.fake_memory import caller, memory
from tests.cuda.support.real_cupy import cupy as real
from tests.cuda.support.signatures import check_call


class Namespace(ModuleType):
    """A module whose names are those of a module of the real CuPy, computed by its counterpart."""

    def __init__(self, name: str, true: ModuleType, counterpart: ModuleType, own: dict[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(own)
        self.__dict__["_true"], self.__dict__["_counterpart"] = true, counterpart

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if not hasattr(self._true, name):
            raise AttributeError(f"the real CuPy has no {full}")
        true = getattr(self._true, name)
        if isinstance(true, type | np.dtype | int | float | str) or true is None:
            value = true  # types and constants are NumPy's own
        elif isinstance(true, ModuleType):
            raise AttributeError(f"the stand-in has no module {full}: add it to tests/cuda/support/fake_cupy.py")
        elif not hasattr(self._counterpart, name):
            raise NotImplementedError(f"{full}: the stand-in has no counterpart for it")
        elif isinstance(true, real.ufunc):
            value = Ufunc(full, getattr(self._counterpart, name))
        else:
            value = _function(full, name, true, getattr(self._counterpart, name))
        self.__dict__[name] = value
        return value


def _function(full: str, name: str, true: Callable[..., Any], host: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **keywords: Any) -> Any:
        check_call(true, full.partition(".")[2], args, keywords)
        check_restrictions(name, args, keywords)
        return call(host, args, keywords)

    function.__name__ = name
    return counted(full)(function)


class Ufunc:
    """A ufunc with the methods that CuPy has written for it, not all that NumPy has."""

    def __init__(self, name: str, host: Any) -> None:
        self.name, self._host = name, host

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        unknown = set(keywords) - {"out", "dtype", "casting", "where"}
        if unknown:
            raise TypeError(f"{self.name}: wrong arguments {sorted(unknown)}")
        if not any(isinstance(part, ndarray) for part in (*args, *keywords.values())):
            for part in args:
                unwrap(part)  # refuses NumPy arrays
        return calls.run(self.name, lambda *a, **k: call(self._host, a, k), args, keywords)

    @counted("ufunc.reduce")
    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        self._only("reduce", "add", "multiply")
        return call(self._host.reduce, (array,), {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims})

    @counted("ufunc.accumulate")
    def accumulate(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        self._only("accumulate", "add", "multiply")
        return call(self._host.accumulate, (array,), {"axis": axis, "dtype": dtype, "out": out})

    @counted("ufunc.reduceat")
    def reduceat(self, array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        self._only("reduceat", "add")
        return call(self._host.reduceat, (array, indices), {"axis": axis, "dtype": dtype, "out": out})

    @counted("ufunc.outer")
    def outer(self, a: Any, b: Any, **keywords: Any) -> Any:
        return call(self._host.outer, (a, b), keywords)

    @counted("ufunc.at")
    def at(self, array: ndarray, indices: Any, b: Any = None) -> None:
        self._only("at", "add", "maximum", "minimum")
        if array.dtype.kind == "f" and self.name.endswith(".add"):
            raise TypeError(f"{self.name}.at on floating-point numbers uses atomics: not repeatable to the bit")
        memory.note(array._host, writes=True)
        self._host.at(unwrap(array), unwrap(indices), unwrap(b))

    def _only(self, method: str, *names: str) -> None:
        """CuPy has these methods for a few ufuncs only (its ``_core/_kernel.pyx``)."""
        if self.name.rpartition(".")[2] not in names:
            raise NotImplementedError(f"`{self.name}.{method}` is not supported yet")


_WAITS = {"flatnonzero": 1, "nonzero": 1, "argwhere": 1, "unique": 1, "bincount": 2}
"""How often CuPy copies a size to the host inside these functions (``_sorting/search.py``, ``_statistics``)."""


def check_restrictions(name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Arguments that CuPy refuses although its signature has them; what it waits for, and its working memory."""
    for _ in range(_WAITS.get(name, 0)):
        memory.wait(f"{name}()")
    if name in ("sort", "argsort", "lexsort", "unique") and isinstance(args[0], ndarray):
        if name != "unique" and args[0].ndim > 1:
            memory.slow_sorts.append(caller())
        memory.workspace(args[0].nbytes + 8 * args[0].size)  # keys and places are double-buffered
    if name in ("sort", "argsort"):
        kind = keywords.get("kind", args[2] if len(args) > 2 else None)
        if kind not in (None, "stable"):
            raise ValueError("kind can only be None or 'stable'")
    elif name == "lexsort" and not (isinstance(args[0], ndarray) and args[0].ndim <= 2):
        raise TypeError("cupy.lexsort wants its keys stacked in one array of at most two dimensions")
    elif name == "bincount" and (len(args) > 1 or keywords.get("weights") is not None):
        raise TypeError("cupy.bincount with weights uses floating-point atomics: not repeatable to the bit")
    elif name == "svd" and args[0].ndim > 2 and len(args[0]) > 1 and max(args[0].shape[1:]) > 32:
        raise TypeError("cupy.linalg.svd of many matrices of more than 32 columns is a loop in Python")
    elif name == "einsum" and any(isinstance(part, ndarray) and part.dtype.kind == "b" for part in args):
        raise TypeError("cupy.einsum of booleans")


# -- functions that create arrays, or carry them over -----------------------------------------------------


def _upload(value: Any, dtype: Any, how: str, order: Any = None) -> ndarray:
    """A copy of host data; lists that hold device arrays are concatenated on the device."""
    if isinstance(value, tuple | list) and _holds_device(value):
        return wrap(np.array(unwrap(value), dtype=dtype))
    with calls.timed():
        calls.functions[f"{how} (upload)"] += 1
        host = np.array(value, dtype=dtype, order=order if order in ("C", "F") else "C")
        transfers.note("up", host.nbytes, how)
        memory.stage(host.nbytes)
        return wrap(host)


def _holds_device(value: Any) -> bool:
    return isinstance(value, ndarray) or (isinstance(value, tuple | list) and any(map(_holds_device, value)))


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> ndarray:
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == np.dtype(dtype) else a.astype(dtype)
    return _upload(a, dtype, "asarray", order)


def array(
    obj: Any,
    dtype: Any = None,
    copy: Any = True,
    order: Any = "K",
    subok: bool = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> ndarray:
    if isinstance(obj, ndarray):
        return wrap(np.array(obj._host, dtype=dtype, copy=copy or None, ndmin=ndmin))
    made = _upload(obj, dtype, "array", order)
    return wrap(np.array(made._host, ndmin=ndmin))


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    if isinstance(a, ndarray) and a.flags.c_contiguous and (dtype is None or a.dtype == np.dtype(dtype)):
        return wrap(np.ascontiguousarray(a._host))
    if isinstance(a, ndarray):
        return calls.run("ascontiguousarray", lambda a: wrap(np.ascontiguousarray(a._host, dtype=dtype)), (a,), {})
    return _upload(a, dtype, "ascontiguousarray")


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Host:
    return a.get(order=order, out=out) if isinstance(a, ndarray) else np.asarray(a)


def get_array_module(*args: Any) -> ModuleType:
    return sys.modules["cupy"] if any(isinstance(a, ndarray) for a in args) else np


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    with calls.timed():
        return wrap(poisoned(unwrap(shape), dtype, order))


def empty_like(prototype: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    if not isinstance(prototype, ndarray):
        raise TypeError("cupy.empty_like of something that is no device array")
    with calls.timed():
        return wrap(poisoned(prototype.shape if shape is None else shape, dtype or prototype.dtype))


@counted("cupy.flatnonzero")
def flatnonzero(a: ndarray) -> ndarray:
    memory.wait("flatnonzero()")
    return rewrap(np.flatnonzero(unwrap(a)))


CREATION = {
    "asarray": asarray,
    "array": array,
    "ascontiguousarray": ascontiguousarray,
    "asnumpy": asnumpy,
    "get_array_module": get_array_module,
    "empty": empty,
    "empty_like": empty_like,
    "flatnonzero": flatnonzero,
    "ndarray": ndarray,
}
