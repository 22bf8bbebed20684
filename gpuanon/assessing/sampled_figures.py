"""Figures of tables that are samples of larger ones: measured again on disjoint pieces, for their error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, cast

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.figures import Measured, join
from gpuanon.assessing.refits import pieces_of, with_error
from gpuanon.assessing.source import EvidenceSource
from gpuanon.errors import GpuanonError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

UNKNOWN = "the error of the sample is not known: a piece of it cannot be measured"


def with_sampling_error(
    figure: Measured, c: Comparison, measure: Callable[[Comparison], Measured], *, squares: bool
) -> Measured:
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


def pieces(c: Comparison) -> list[Comparison]:
    """The tables in disjoint pieces, made once for all measures."""
    return c.collect(_cut)


def _cut(source: EvidenceSource) -> list[Comparison]:
    """A released row is with its original where that is known.  Pieces are encoded by the whole original, as `c` is."""
    c = cast("Comparison", source)
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
