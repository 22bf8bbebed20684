"""The stand-in's array: NumPy inside, and outside as strict as a device array.

It does not become a NumPy array by itself, it does not meet NumPy arrays, and every copy between host and device
is counted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.cuda.support.fake_calls import calls, counted
from tests.cuda.support.fake_memory import memory
from tests.cuda.support.real_cupy import cupy as real
from tests.cuda.support.signatures import check_call

Host = np.ndarray[Any, Any]

SCALAR_BYTES = 128
"""Copies up to this size count as scalars: a count, a pair of bounds, one number for each of a few columns."""


@dataclass
class Copy:
    """One copy between host and device."""

    direction: str
    bytes: int
    how: str


@dataclass
class Transfers:
    """All copies since the stand-in was installed."""

    copies: list[Copy] = field(default_factory=list)

    def note(self, direction: str, size: int, how: str) -> None:
        self.copies.append(Copy(direction, size, how))

    @property
    def uploads(self) -> list[Copy]:
        """Host to device, scalars left out."""
        return [copy for copy in self.copies if copy.direction == "up" and copy.bytes > SCALAR_BYTES]

    @property
    def downloads(self) -> list[Copy]:
        """Device to host, scalars left out."""
        return [copy for copy in self.copies if copy.direction == "down" and copy.bytes > SCALAR_BYTES]

    @property
    def scalars(self) -> list[Copy]:
        """Copies of a few bytes, either way."""
        return [copy for copy in self.copies if copy.bytes <= SCALAR_BYTES]

    def clear(self) -> None:
        self.copies.clear()


transfers = Transfers()

_NUMERIC = "biufc"


class ndarray:
    """Stands in for `cupy.ndarray`."""

    __slots__ = ("__weakref__", "_host")
    __array_priority__ = 100
    __hash__ = None

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> None:
        if memptr is not None or strides is not None:
            raise NotImplementedError("an array at a given address")
        self._host = poisoned(shape, dtype, order)
        memory.note(self._host)

    # -- what a device array refuses ----------------------------------------------------------------------

    def __array__(self, *args: Any, **keywords: Any) -> Host:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **keywords: Any) -> Any:
        if not hasattr(real, ufunc.__name__):
            return NotImplemented
        return calls.run(ufunc.__name__, call, (getattr(ufunc, method), args, keywords), {})

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        from tests.cuda.support.fake_cupy import module

        name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
        return operator.attrgetter(name)(module())(*args, **keywords)

    def __iter__(self) -> Iterator[ndarray]:
        if self._host.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        if self._host.ndim == 1 and len(self._host) > 8:
            raise TypeError("iterating over the elements of a device array: one launch for each")
        return (wrap(row) for row in self._host)

    # -- scalars: each is a copy to the host that waits for the device ------------------------------------

    def _download(self, size: int, how: str) -> None:
        memory.note(self._host)
        transfers.note("down", size, how)
        calls.functions[how] += 1
        memory.wait(how)

    def _scalar(self, how: str) -> Any:
        if self._host.size != 1:
            raise TypeError("only size-1 arrays can be converted to Python scalars")
        self._download(self._host.itemsize, how)
        return self._host.reshape(()).item()

    def __float__(self) -> float:
        return float(self._scalar("float()"))

    def __int__(self) -> int:
        return int(self._scalar("int()"))

    def __index__(self) -> int:
        return operator.index(self._scalar("index()"))

    def __bool__(self) -> bool:
        if self._host.size > 1:
            raise ValueError("The truth value of an array with more than one element is ambiguous.")
        return bool(self._scalar("bool()"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex()"))

    def item(self, *args: Any) -> Any:
        check_call(real.ndarray.item, "ndarray.item", (self, *args), {})
        return self._scalar("item()")

    @counted("get()")
    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Host:
        memory.note(self._host)
        transfers.note("down", self._host.nbytes, "get()")
        memory.wait("get()")
        if out is None:
            return np.array(self._host, order=order)
        out[...] = self._host
        return out

    def tolist(self) -> Any:
        self._download(self._host.nbytes, "tolist()")
        return self._host.tolist()

    # -- what an array is ---------------------------------------------------------------------------------

    shape = property(lambda self: self._host.shape, lambda self, shape: setattr(self._host, "shape", shape))
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    nbytes = property(lambda self: self._host.nbytes)
    itemsize = property(lambda self: self._host.itemsize)
    strides = property(lambda self: self._host.strides)
    flags = property(lambda self: self._host.flags)
    T = property(lambda self: wrap(self._host.T))
    real = property(lambda self: wrap(self._host.real))
    imag = property(lambda self: wrap(self._host.imag))
    flat = property(lambda self: (_ for _ in ()).throw(NotImplementedError("flat")))

    @property
    def device(self) -> Any:
        from tests.cuda.support.fake_device import Device

        return Device(0)

    def __len__(self) -> int:
        if self._host.ndim == 0:
            raise TypeError("len() of unsized object")
        return len(self._host)

    def __repr__(self) -> str:
        return f"<device array {self.shape} {self.dtype}>"

    def __getitem__(self, key: Any) -> ndarray:
        if _is_gather(key):
            return calls.run("gather", self._taken, (key,), {})
        return self._taken(key)

    def _taken(self, key: Any) -> ndarray:
        memory.note(self._host)
        if _is_mask(key):
            memory.wait("a mask as an index")
        return wrap(np.asarray(self._host[_index(key)]))

    @counted("assign")
    def __setitem__(self, key: Any, value: Any) -> None:
        memory.note(self._host, writes=True)
        if _is_mask(key) and np.ndim(unwrap(value)):
            memory.wait("an array assigned to a mask")
        self._host[_index(key)] = unwrap(value)

    @counted("set()")
    def set(self, arr: Host, stream: Any = None) -> None:
        """Copy a host array into this one, without pinned memory."""
        if not isinstance(arr, np.ndarray) or arr.dtype != self.dtype or arr.shape != self.shape:
            raise TypeError("a NumPy array of the same type and shape is needed")
        if not (self._host.flags.c_contiguous or self._host.flags.f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        memory.note(self._host, writes=True)
        transfers.note("up", arr.nbytes, "set()")
        self._host[...] = arr

    @counted("astype")
    def _cast(self, target: Any, order: str) -> ndarray:
        return wrap(self._host.astype(target, order=order, copy=True))

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> ndarray:
        target = np.dtype(dtype)
        if not copy and target == self._host.dtype:
            return self
        memory.note(self._host)
        return self._cast(target, order)

    @counted("copy")
    def copy(self, order: str = "C") -> ndarray:
        memory.note(self._host)
        return wrap(self._host.copy(order=order))

    def __getattr__(self, name: str) -> Any:
        """A method that the real array has, with the arguments that it takes."""
        if name.startswith("_") or not hasattr(real.ndarray, name):
            raise AttributeError(f"'cupy.ndarray' object has no attribute {name!r}")
        from tests.cuda.support.fake_namespace import check_restrictions

        true, method = getattr(real.ndarray, name), getattr(self._host, name)
        if not callable(method):
            raise NotImplementedError(f"cupy.ndarray.{name}")

        def bound(*args: Any, **keywords: Any) -> Any:
            check_call(true, f"ndarray.{name}", (self, *args), keywords)
            check_restrictions(name, (self, *args), keywords)
            memory.note(self._host, writes=name in ("sort", "fill", "partition"))
            return call(method, args, keywords)

        return lambda *args, **keywords: calls.run(name, lambda _, *a, **k: bound(*a, **k), (self, *args), keywords)


def _binary(symbol: str, swapped: bool = False, in_place: bool = False) -> Callable[[ndarray, Any], Any]:
    function = getattr(operator, symbol)

    @counted(symbol)
    def apply(self: ndarray, other: Any) -> Any:
        value = unwrap(other)
        memory.note(self._host, writes=in_place)
        if in_place:
            function(self._host, value)
            return self
        return wrap(np.asarray(function(value, self._host) if swapped else function(self._host, value)))

    return apply


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
    "matmul",
):
    _plain = _name.rstrip("_")
    setattr(ndarray, f"__{_plain}__", _binary(_name))
    setattr(ndarray, f"__r{_plain}__", _binary(_name, swapped=True))
    setattr(ndarray, f"__i{_plain}__", _binary(f"i{_plain}", in_place=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(ndarray, f"__{_name}__", _binary(_name))


def _unary(symbol: str) -> Callable[[ndarray], ndarray]:
    function = getattr(operator, symbol)
    return counted(symbol)(lambda self: wrap(np.asarray(function(unwrap(self)))))


for _name in ("neg", "pos", "abs", "invert"):
    setattr(ndarray, f"__{_name}__", _unary(_name))


def wrap(host: Host) -> ndarray:
    """A NumPy array that is already on the device."""
    if host.dtype.kind not in _NUMERIC:
        raise ValueError(f"Unsupported dtype {host.dtype}")
    array = object.__new__(ndarray)
    array._host = host
    memory.note(host)
    return array


def poisoned(shape: Any, dtype: Any, order: str = "C") -> Host:
    """Uninitialised memory: values that spoil every result computed from them."""
    host = np.empty(shape, dtype, order=order)
    if host.dtype.kind == "b":
        host.fill(True)
    elif host.dtype.kind in "iu":
        host.fill(np.iinfo(host.dtype).max - 5)
    else:
        host.fill(np.nan)
    return host


def unwrap(value: Any) -> Any:
    """An argument as NumPy gets it; a host array is refused."""
    if isinstance(value, ndarray):
        memory.note(value._host)
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}: a NumPy array of shape {value.shape} among device arrays")
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(unwrap, value))
    if isinstance(value, tuple | list):
        return type(value)(map(unwrap, value))
    if isinstance(value, dict):
        return {key: unwrap(item) for key, item in value.items()}
    return value


def _index(key: Any) -> Any:
    """An index: device arrays, slices and integers; a list is copied to the device, as in CuPy."""
    if isinstance(key, tuple):
        return tuple(_index(part) for part in key)
    if isinstance(key, slice):
        return slice(*(None if part is None else operator.index(part) for part in (key.start, key.stop, key.step)))
    if isinstance(key, list):
        host = np.asarray(key)
        transfers.note("up", host.nbytes, "a list as an index")
        return host
    return unwrap(key)


def _is_gather(key: Any) -> bool:
    """Whether an index holds an array or a list: elements are copied; anything else is a view."""
    return any(isinstance(part, ndarray | list) for part in (key if isinstance(key, tuple) else (key,)))


def _is_mask(key: Any) -> bool:
    """Whether an index holds an array of booleans: the size of the result is known on the device only."""
    return any(
        isinstance(part, ndarray) and part.dtype.kind == "b" for part in (key if isinstance(key, tuple) else (key,))
    )


def rewrap(result: Any) -> Any:
    """Results as device arrays, scalars as 0-d device arrays."""
    if isinstance(result, np.ndarray | np.generic):
        return wrap(np.asarray(result))
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*map(rewrap, result))
    if isinstance(result, tuple | list):
        return type(result)(map(rewrap, result))
    return result


def call(function: Callable[..., Any], args: Any, keywords: dict[str, Any]) -> Any:
    """Call a NumPy function on the host arrays of the arguments."""
    out = keywords.get("out")
    with np.errstate(all="ignore"):  # a device raises no floating-point warnings
        result = function(*unwrap(tuple(args)), **unwrap(keywords))
    for written in out if isinstance(out, tuple) else (out,):
        if isinstance(written, ndarray):
            memory.note(written._host, writes=True)
    if isinstance(out, ndarray):
        return out
    if isinstance(out, tuple) and len(out) == 1:
        return out[0]
    return rewrap(result)
