"""Arrays of a comparison that several measures work on: made once, and given up after the last of these measures.

The arrays of a table of a million rows and twenty columns are about a gigabyte of each kind; all kinds together would
not fit where one does.  Each measure declares its kind (`gpuanon.assessing.measure.Measure.arrays`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby
from threading import Lock, RLock
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar, overload
from weakref import WeakKeyDictionary

from gpuanon.arrays.threads import wait_for
from gpuanon.errors import GpuanonError

T = TypeVar("T")
Kind: TypeAlias = Literal["classes", "quasi", "points", "values", "encoded"]

ARRAYS: Mapping[Kind, tuple[str, ...]] = {
    "classes": ("classes", "column_classes", "sensitive_codes"),
    "quasi": ("quasi",),
    "points": ("standardised", "standardised_reference"),
    "values": (
        *("codes", "values", "binned", "quasi_codes", "logit_fit"),
        *("two_way_tables", "_weighted_bins", "_weighted_tables"),
    ),
    "encoded": ("encoded", "encoded_reference"),
}
"""Properties of `Comparison`, by kind; measures of one kind run after those of the kind before."""

MADE_FROM: Mapping[Kind, Kind] = {"points": "quasi"}
"""Kinds whose first arrays are made from those of the kind before, which are given up then."""

_FAILS = (GpuanonError, MemoryError, ArithmeticError, ValueError)  # each measure says why, for itself
_locks: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
_locking = Lock()


class made_once(cached_property[T]):
    """A cached property that is made once, whichever thread asks first; another one waits for it."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        name = str(self.attrname)
        if name not in instance.__dict__:
            lock = lock_of(instance, name)
            wait_for(lock)
            try:
                if name not in instance.__dict__:
                    instance.__dict__[name] = self.func(instance)
            finally:
                lock.release()
        return instance.__dict__[name]


def lock_of(instance: Any, name: str) -> Any:
    """The lock of something that is made for `instance`."""
    with _locking:
        return _locks.setdefault(instance, {}).setdefault(name, RLock())


class Works(Protocol):
    """Something that works on arrays of a kind."""

    @property
    def arrays(self) -> Kind | None:
        """The kind; None: on the tables themselves."""


N = TypeVar("N", bound=Works)


def by_kind(measures: Sequence[N]) -> Iterable[tuple[Kind | None, list[N]]]:
    """The measures by the kind of arrays that they work on, one kind after the other."""
    order: list[Kind | None] = [*ARRAYS, None]
    ordered = sorted(measures, key=lambda measure: order.index(measure.arrays))
    return [(kind, list(those)) for kind, those in groupby(ordered, key=lambda measure: measure.arrays)]


def take_up(comparison: Any, kind: Kind | None) -> None:
    """Make what is made from arrays of another kind, and give those up."""
    if kind is not None and kind in MADE_FROM:
        with suppress(*_FAILS):
            getattr(comparison, ARRAYS[kind][0])
        _drop(comparison, ARRAYS[MADE_FROM[kind]])


def give_up(comparison: Any, kind: Kind | None, following: Kind | None = None) -> None:
    """Give up the arrays of a kind; whoever asks for them again gets them made again.

    following : the kind that comes next; what it is made from is kept until then
    """
    if kind is None or (following is not None and MADE_FROM.get(following) == kind):
        return
    _drop(comparison, [name for one in given_up_together(kind) for name in ARRAYS[one]])


def given_up_together(kind: Kind) -> set[Kind]:
    """The kind, and those that it is made from or that are made from it: `give_up` gives up the arrays of them all."""
    return {kind, *(other for pair in MADE_FROM.items() if kind in pair for other in pair)}


def _drop(comparison: Any, names: Iterable[str]) -> None:
    """Forget these properties of a comparison, on host and device."""
    for side in (comparison, comparison.__dict__.get("host", comparison)):
        for name in names:
            side.__dict__.pop(name, None)
