"""Figures of tables that are samples of larger ones: measured again on disjoint pieces, for their error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.figures import Measured, join
from gpuanon.assessing.refits import pieces_of, with_error
from gpuanon.assessing.source import EvidenceSource
from gpuanon.errors import GpuanonError

UNKNOWN = "the error of the sample is not known: a piece of it cannot be measured"


def with_sampling_error(figure: Measured, c: Any, measure: Callable[[Any], Measured], *, squares: bool) -> Measured:
    """The figure with its error; as it is where the tables are no samples, or where it has an error already."""
    if not c.sampled or figure.interval is not None or "sampling_error" in figure.details:
        return figure
    try:
        refits = [measure(piece).value for piece in pieces(c)]
    except (GpuanonError, ArithmeticError, ValueError):
        refits = [float("nan")]
    if not all(map(isfinite, refits)):
        return replace(figure, note=join(figure.note, UNKNOWN))
    return with_error(figure, refits, squares=squares)


def pieces(c: Any) -> list[Any]:
    """The tables in disjoint pieces, made once for all measures."""
    found: list[Any] = c.collect(_cut)
    return found


def _cut(source: EvidenceSource) -> list[Any]:
    """A released row is with its original where that is known.  Pieces are encoded by the whole original, as `c` is."""
    c: Any = source  # a `Comparison`, which measures are computed on and which imports some of them
    owns, link = pieces_of(c.original.n_rows), c.known_link
    known: list[Host | None] = [None] * len(owns)
    if link is None:
        others = pieces_of(c.release.n_rows)
    else:
        others = [np.flatnonzero(np.isin(link, own)) for own in owns]
        known = [np.searchsorted(own, link[other]) for own, other in zip(owns, others, strict=True)]
    return [
        replace(
            c,
            original=c.original.take(own),
            release=c.release.take(other),
            known_link=its_link,
            hit_unmasked=None,
            note=None,
        )
        for own, other, its_link in zip(owns, others, known, strict=True)
    ]
