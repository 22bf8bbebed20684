"""One column given those before it: records divided into the leaves of a decision tree, from which its value is drawn.

References
----------
.. [1] J. P. Reiter (2005), Using CART to generate partially synthetic public use microdata, J. Off. Stat. 21(3).
.. [2] D. Coppersmith, S. J. Hong, J. R. M. Hosking (1999), Partitioning nominal attributes in decision trees, Data Min.
   Knowl. Disc. 3(2).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.partition import Partition, sort_within


@dataclass(frozen=True, eq=False, repr=False)
class Conditional:
    """The distribution of a column given others: in each leaf that of the records there.

    column  : its place among the columns that are drawn
    codes   : (n,) of the column in the records, −1 for a null
    members : the records of each leaf, ascending by their code
    find    : the leaf (m,) of new rows, whose columns so far it is given; those not yet drawn are empty
    """

    column: int
    codes: Host
    members: Partition
    find: Callable[[Sequence[Host]], Host]

    @classmethod
    def of(cls, column: int, codes: Host, leaves: Host, find: Callable[[Sequence[Host]], Host]) -> Conditional:
        """By the leaf (n,) of each record, from 0; no leaf is empty."""
        order = np.lexsort((codes, leaves))
        starts = np.searchsorted(leaves[order], np.arange(int(leaves.max(initial=-1)) + 2))
        return cls(column, codes, Partition(order, starts), find)

    def draw(self, leaves: Host, u: Host, even: bool) -> Host:
        """(m,) codes of records of these leaves; `u` (m,) uniform numbers, `even` as in `pick_records`."""
        picks = pick_records(leaves, self.members.sizes, u, even)
        return np.asarray(self.codes[self.members.order[self.members.starts[leaves] + picks]])

    def kept_without_one(self, leaves: Host, drawn: Host) -> Host:
        """(m,) how much less likely each drawn code is when one of the records that have it is left out of its leaf.

        With c of s records: [(c − 1) / (s − 1)] / [c / s], and 0 in a leaf of one record.
        """
        key = self._key(leaves, drawn)
        c = np.searchsorted(self._keys, key, side="right") - np.searchsorted(self._keys, key, side="left")
        s = self.members.sizes[leaves]
        c = np.maximum(c, 1)
        return np.asarray((c - 1) * s / (np.maximum(s - 1, 1) * c))

    @cached_property
    def _keys(self) -> Host:
        """(n,) a number for the leaf and the code of each record, ascending."""
        return np.sort(self._key(self.members.part_of_sorted(), self.codes[self.members.order]))

    def _key(self, leaves: Host, codes: Host) -> Host:
        return np.asarray(leaves * (int(self.codes.max(initial=0)) + 2) + codes + 1)


def whole_table(rows: Sequence[Host]) -> Host:
    """(m,) the one leaf of a column that depends on none."""
    return np.zeros(len(rows[0]), dtype=np.int64)


def pick_records(leaves: Host, sizes: Host, u: Host, even: bool) -> Host:
    """(m,) which of the records of its leaf, from 0, each new row draws; `sizes` are those of the leaves.

    even : draw the records of a leaf equally often, to one, in random order: as likely as otherwise, and with less
           sampling error.  Copies then vary less than independent samples
    """
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


def tree_conditional(
    target: Coded,
    predictors: Sequence[Coded],
    column: int,
    used: Sequence[int],
    seed: int,
    leaf: int,
    grown: Host | None = None,
) -> Conditional:
    """The target given its predictors: in each leaf of a tree the records that fall into it [1].

    A tree is grown on records until its leaves cannot be divided into two of at least `leaf` records: by squared
    error for ordered columns, by Gini's index for the others.  Levels of a predictor without an order are put in the
    order of what they predict (for a target of many levels: along the first axis of its shares), as in [2].

    predictors : their codes in the records; new rows have codes that the records have
    column     : place of the target among the columns of new rows, used : those of the predictors
    seed       : for features that divide equally well
    grown      : (n,) the records that the tree is grown on, to leaves of half as many; all fill its leaves.  None: all
                 of them.  A tree divides by what its records happen to be: what the others are is not in its divisions

    Cost : O(n log n · predictors) at the usual depth.
    """
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if not predictors:
        return Conditional.of(column, target.codes, np.zeros(len(target.codes), dtype=np.int64), whole_table)
    wanted = target.outputs() if target.ordered else np.eye(target.count + 1)[target.codes + 1]
    places = [None if predictor.ordered else _places(predictor, wanted) for predictor in predictors]
    X = _features([predictor.codes for predictor in predictors], places)
    chosen, least = (slice(None), leaf) if grown is None or not grown.any() else (grown, max(1, leaf // 2))
    if target.ordered:
        tree: Any = DecisionTreeRegressor(min_samples_leaf=least, random_state=seed).fit(X[chosen], wanted[chosen])
    else:
        with warnings.catch_warnings():  # many levels of few records are levels all the same
            warnings.filterwarnings("ignore", message="The number of unique classes is greater than 50%")
            tree = DecisionTreeClassifier(min_samples_leaf=least, random_state=seed).fit(
                X[chosen], target.codes[chosen]
            )
    number = np.cumsum(tree.tree_.children_left < 0) - 1  # of the leaves among all nodes

    def find(rows: Sequence[Host]) -> Host:
        return np.asarray(number[tree.tree_.apply(_features([rows[at] for at in used], places))])

    return Conditional.of(column, target.codes, number[tree.tree_.apply(X)], find)  # no leaf without a record


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
