"""The sampling error of a figure that comes from a sample: the figure again on disjoint pieces of it.

The sample is cut at random into pieces of equal size, each treated as the sample was: models are fitted anew.  A figure
that settles as 1/√n varies over the pieces √pieces times as much as over whole samples, so the error is that of a mean
of the pieces' figures (Student's t), around the figure of the whole sample.  The model is part of what varies; with the
model of the whole sample taken as given, errors would be several times too small.

A mean of squares (a pMSE) settles as 1/√n where the tables differ and as 1/n where they do not.  Its root does so as
1/√n in both cases, as the length of a vector of estimates does: the error is that of the root, squared back.

Some figures do not settle so: how far a single tree grows changes with the rows, and where a logit finds hardly any
difference the direction of its scores, and with it their distance, is a matter of chance at any size.  Their sample is
cut in halves, which are nearer to the whole than eighths: at worst the error is √2 too small.  It is cut several times,
since two figures alone say little of their spread.

A figure of fewer rows may be larger or smaller on average; that is a bias of the pieces and not in the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.figures import Measured, join
from gpuanon.numerics.sampling import uniform_numbers

PIECES = 8


def pieces_of(rows: int, pieces: int = PIECES, cut: int = 0) -> list[Host]:
    """The rows of each piece, ascending; another `cut` has other pieces.

    Tables of the same number of rows are cut alike: a released row that stands where its original does stays with it,
    as it does in a sample of the same row numbers.
    """
    order = np.argsort(uniform_numbers(rows, f"pieces {cut}"), kind="stable")
    return [np.sort(part) for part in np.array_split(order, pieces)]


def sampling_error(
    value: float, refits: Sequence[float] | Sequence[Sequence[float]], *, squares: bool = False
) -> float:
    """95 % error of the figure of a sample, from the figures of disjoint pieces of it.

    refits  : of the pieces of one cut, or of several cuts
    squares : the figure is a mean of squares; see the module docstring
    """
    from scipy.special import stdtrit  # not at import: the first measures run meanwhile on the other cores

    found = np.atleast_2d(np.asarray(refits, dtype=np.float64))
    found = np.sqrt(np.maximum(found, 0.0)) if squares else found
    cuts, pieces = found.shape
    spread = math.sqrt(float(found.var(axis=1, ddof=1).mean()))
    error = float(stdtrit(cuts * (pieces - 1), 0.975)) * spread / math.sqrt(pieces)
    return 2 * math.sqrt(max(value, 0.0)) * error + error**2 if squares else error


def with_error(
    measured: Measured, refits: Sequence[float] | Sequence[Sequence[float]], *, squares: bool = False
) -> Measured:
    """The figure with its sampling error in details and note; as it is without refits (no sample was taken)."""
    if not refits:
        return measured
    error = sampling_error(measured.value, refits, squares=squares)
    cuts, pieces = np.atleast_2d(np.asarray(refits)).shape
    times = f", cut {cuts} times" if cuts > 1 else ""
    note = f"right to ±{error:.2g} (95 %) by refits on {pieces} disjoint pieces of the sample{times}"
    return replace(measured, details={**measured.details, "sampling_error": error}, note=join(measured.note, note))
