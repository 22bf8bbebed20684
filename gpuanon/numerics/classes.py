"""Equivalence classes of rows: rows with equal codes in every column."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace


def row_classes(codes: Array) -> Array:
    """(n,) class number, from 0, of each row of the integer matrix `codes` (n, d); equal rows share a class.

    Columns are folded in one after the other, so that only one-dimensional sorts are needed.
    """
    xp = namespace(codes)
    labels = xp.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        _, dense = xp.unique(column, return_inverse=True)
        width = int(dense.max()) + 1 if len(dense) else 1
        _, labels = xp.unique(labels * width + dense.reshape(-1), return_inverse=True)
        labels = labels.reshape(-1)
    return labels.astype(np.int64)


def class_sizes(codes: Array) -> Array:
    """(classes,) rows of each class."""
    return namespace(codes).bincount(row_classes(codes))
