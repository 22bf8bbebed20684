"""Draws of one column given others, from the leaves of a decision tree.

References
----------
.. [1] J. P. Reiter (2005), Using CART to generate partially synthetic public use microdata, J. Off. Stat. 21(3).
.. [2] D. Coppersmith, S. J. Hong, J. R. M. Hosking (1999), Partitioning nominal attributes in decision trees, Data Min.
   Knowl. Disc. 3(2).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.partition import Partition, sort_within


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """A column as codes: (n,) int64 in the order of the values, −1 for a null; and whether that order means something.

    count : codes from 0 up, at most
    """

    codes: Host
    ordered: bool
    count: int

    def take(self, rows: Host) -> Coded:
        """Some of the rows."""
        return Coded(self.codes[rows], self.ordered, self.count)

    def outputs(self) -> Host:
        """(n, o) what a tree is to predict: the code and, where there are nulls, whether it is one, each in [0, 1]."""
        null = self.codes < 0
        known = self.codes[~null]
        filled = np.where(null, known.mean() if len(known) else 0.0, self.codes) / max(1, self.count - 1)
        return np.column_stack([filled, null]) if null.any() else filled[:, None]


def draw_from_tree(
    target: Coded,
    predictors: Sequence[Coded],
    new: Sequence[Host],
    u: Host,
    seed: int,
    leaf: int = 5,
    even: bool = False,
) -> Host:
    """(m,) codes of the target for new rows, drawn from the records in the leaf that each new row falls into [1].

    A tree is grown on the records until its leaves cannot be divided into two of at least `leaf` records: by squared
    error for ordered columns, by Gini's index for the others.  Levels of a predictor without an order are put in the
    order of what they predict (for a target of many levels: along the first axis of its shares), as in [2].

    predictors : their codes in the records
    new        : their codes in the new rows, which the records have all
    u          : (m,) uniform numbers: which record of the leaf
    seed       : for features that divide equally well
    even       : draw the records of a leaf equally often, to one, in random order: as likely as otherwise, and with
                 less sampling error.  Copies then vary less than independent samples

    Cost : O(n log n · predictors) at the usual depth.
    """
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if not predictors:
        return np.asarray(
            target.codes[_picked(np.zeros(len(u), dtype=np.int64), np.array([len(target.codes)]), u, even)]
        )
    wanted = target.outputs() if target.ordered else np.eye(target.count + 1)[target.codes + 1]
    places = [None if column.ordered else _places(column, wanted) for column in predictors]
    X = _features([column.codes for column in predictors], places)
    if target.ordered:
        tree: Any = DecisionTreeRegressor(min_samples_leaf=leaf, random_state=seed).fit(X, wanted)
    else:
        with warnings.catch_warnings():  # many levels of few records are levels all the same
            warnings.filterwarnings("ignore", message="The number of unique classes is greater than 50%")
            tree = DecisionTreeClassifier(min_samples_leaf=leaf, random_state=seed).fit(X, target.codes)
    leaves = tree.tree_.apply(X)
    members = Partition.from_labels(leaves)
    number = np.full(tree.tree_.node_count, -1)
    number[leaves[members.order[members.starts[:-1]]]] = np.arange(members.parts)
    found = number[tree.tree_.apply(_features(new, places))]
    return np.asarray(target.codes[members.order[members.starts[found] + _picked(found, members.sizes, u, even)]])


def _picked(leaves: Host, sizes: Host, u: Host, even: bool) -> Host:
    """(m,) which of the records of its leaf, from 0, each new row draws; `sizes` are those of the leaves."""
    if not even:
        return np.asarray((u * sizes[leaves]).astype(np.int64))
    # Systematic sampling: the rows of a leaf, in random order, take its records at equal steps from a random start.
    parts = Partition.from_labels(leaves)
    part = parts.part_of_sorted()
    order = sort_within(u, parts)
    start = u[parts.order[parts.starts[:-1]]]  # of the lowest row, whose place in the order matters little
    step = (np.arange(len(u)) - parts.starts[part] + start[part]) / parts.sizes[part]
    out = np.empty(len(u), dtype=np.int64)
    out[order] = (step * sizes[leaves[order]]).astype(np.int64)
    return out


def _places(column: Coded, wanted: Host) -> Host:
    """(count + 1,) where each code, null first, lies in the order of what it predicts; codes without records at 0."""
    shares = np.zeros((column.count + 1, wanted.shape[1]))
    np.add.at(shares, column.codes + 1, wanted)
    weights = np.bincount(column.codes + 1, minlength=column.count + 1).astype(np.float64)
    shares /= np.maximum(weights, 1)[:, None]
    centred = (shares - np.average(shares, axis=0, weights=weights)) * np.sqrt(weights)[:, None]
    axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    axis = axis * np.sign(axis[np.abs(axis).argmax()])
    return np.asarray(np.where(weights > 0, shares @ axis, 0.0))


def _features(columns: Sequence[Host], places: Sequence[Host | None]) -> Host:
    """(n, predictors) float32, as the trees want them."""
    found = [codes if place is None else place[codes + 1] for codes, place in zip(columns, places, strict=True)]
    return np.column_stack(found).astype(np.float32)
