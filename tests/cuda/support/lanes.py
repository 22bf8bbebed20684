"""The threads of a launch as lanes of NumPy arrays, and the set of lanes that runs at a moment."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tests.cuda.support.ptx import BYTES

Lanes = np.ndarray[Any, Any]

WARP = 32

DTYPES: dict[str, Any] = {"pred": np.bool_}
for _bits in (8, 16, 32, 64):
    DTYPES |= {f"b{_bits}": np.dtype(f"u{_bits // 8}"), f"u{_bits}": np.dtype(f"u{_bits // 8}")}
    DTYPES[f"s{_bits}"] = np.dtype(f"i{_bits // 8}")
DTYPES |= {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}


class Active:
    """Lanes that execute the next instruction.

    where : what NumPy's ``where=`` takes; True when no other lane can be disturbed
    """

    def __init__(self, mask: Lanes, finished: Lanes) -> None:
        self.mask = mask
        self.finished = finished
        # Registers of threads that are gone, or never were, may be overwritten: then no mask is needed.
        self.where: Any = True if (mask | finished).all() else mask

    @cached_property
    def lanes(self) -> Lanes:
        """Indices of the active lanes."""
        return np.flatnonzero(self.mask)

    @cached_property
    def warps(self) -> int:
        """How many warps have an active lane."""
        return int(self.mask.reshape(-1, WARP).any(axis=1).sum())

    @cached_property
    def all(self) -> bool:
        """Whether every lane is active."""
        return bool(self.mask.all())

    def pick(self, values: Any) -> Lanes:
        """The active lanes' elements of a register (a number stands for the same in every lane)."""
        if np.ndim(values) == 0:
            return np.full(len(self.lanes), values)
        return values if self.all else values[self.lanes]

    def put(self, target: Lanes, values: Any) -> None:
        """Set the active lanes of a register."""
        if self.all:
            target[...] = values
        else:
            target[self.lanes] = values

    def only(self, condition: Lanes) -> Active:
        """The active lanes where `condition` holds."""
        return Active(self.mask & condition, self.finished)


def view(raw: Lanes, kind: str) -> Lanes:
    """The low bytes of a register, as a type that is as wide or narrower; what is written there is written to it."""
    dtype = DTYPES[kind]
    if raw.dtype == np.bool_ or kind == "pred":
        return raw
    step = raw.itemsize // BYTES[kind]
    if step == 0:
        raise TypeError(f"a {kind} cannot be read from a register of {raw.itemsize} bytes")
    return raw.view(dtype)[::step]
