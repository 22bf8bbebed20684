"""Trees and forests whose leaves give their own records' values: draws from p(response | predictors).

References
----------
.. [1] N. Meinshausen (2006), Quantile regression forests, J. Mach. Learn. Res. 7: the conditional distribution that the
   leaves of a forest hold.
.. [2] R. J. A. Little (1988), Missing-data adjustments in large surveys, J. Bus. Econ. Stat. 6(3): predictive mean
   matching, a value is taken from a record with a similar prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.threads import thread_count
from gpuanon.masking.operations.pad.predictors import Predictors


@dataclass(frozen=True, eq=False, repr=False)
class Donors:
    """The rows of each leaf of a tree: leaf l gives the values of ``order[starts[l]:starts[l + 1]]``."""

    order: Host
    starts: Host

    @classmethod
    def of(cls, leaves: Host, count: int) -> Donors:
        """From the leaf (n,) of each row."""
        order = np.argsort(leaves, kind="stable").astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(np.bincount(leaves, minlength=count))]).astype(np.int64)
        return cls(order, starts)

    def draw(self, leaves: Host, u: Host) -> Host:
        """(m,) a row of each of these leaves, at random by `u` (m,)."""
        low, high = self.starts[leaves], self.starts[leaves + 1]
        return np.asarray(self.order[low + (u * (high - low)).astype(np.int64)])


@dataclass(frozen=True, eq=False, repr=False)
class LeafModel:
    """Values of the rows in the same leaf, of one tree or of a random tree of a forest.

    score : from known columns to what the trees split; the encoded predictors, or predictions of another model
    """

    values: Host
    score: Callable[[Host], Host]
    trees: tuple[Any, ...]
    donors: tuple[Donors, ...]

    def given(self, X: Host) -> Callable[[Host], Host]:
        """Draws for the rows of the known columns `X` (m, c): from uniform numbers (m, 2) to values (m,)."""
        M = self.score(X)
        leaves = self.trees[0].apply(M) if len(self.trees) == 1 else None

        def draw(u: Host) -> Host:
            if leaves is not None:
                return np.asarray(self.values[self.donors[0].draw(leaves, u[:, 0])])
            which = (u[:, 1] * len(self.trees)).astype(np.int64)
            found = np.empty(len(M), dtype=np.int64)
            for number, (tree, donors) in enumerate(zip(self.trees, self.donors, strict=True)):
                rows = np.flatnonzero(which == number)
                if len(rows):
                    found[rows] = donors.draw(tree.apply(M[rows]), u[rows, 0])
            return np.asarray(self.values[found])

        return draw


def tree(
    X: Host, levels: tuple[int, ...], values: Host, Y: Host, *, leaf: int, depth: int | None, seed: int
) -> LeafModel:
    """One regression tree on all outputs of the response at once, at least `leaf` rows in each leaf.

    Parameters
    ----------
    X, levels : (n, c) known columns; see `Predictors.fit`
    values    : (n,) the response
    Y         : (n, o) its outputs

    Cost : O(n log n) for each predictor and level of the tree.
    """
    predictors = Predictors.fit(X, levels, Y)
    return matched(values, predictors.matrix, predictors.matrix(X), Y, leaf=leaf, depth=depth, seed=seed)


def matched(
    values: Host,
    score: Callable[[Host], Host],
    S: Host,
    Y: Host,
    *,
    leaf: int,
    depth: int | None,
    seed: int,
) -> LeafModel:
    """Values of rows with similar scores `S` (n, s): a tree on the scores says which are similar [2]."""
    from sklearn.tree import DecisionTreeRegressor

    model = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=_leaf(leaf, len(S)), random_state=seed)
    model.fit(S, Y)
    grown = model.tree_
    return LeafModel(values, score, (grown,), (Donors.of(grown.apply(S), grown.node_count),))


def forest(
    X: Host,
    levels: tuple[int, ...],
    values: Host,
    Y: Host,
    *,
    leaf: int,
    depth: int | None,
    trees: int,
    features: int | None,
    seed: int,
) -> LeafModel:
    """Bootstrapped trees; a value is drawn from the leaf of a random one, which draws from the forest's mixture [1].

    features : predictors that a split chooses from; None for all (bagging)
    """
    from sklearn.ensemble import RandomForestRegressor

    predictors = Predictors.fit(X, levels, Y)
    M = predictors.matrix(X)
    chosen = 1.0 if features is None else min(features, M.shape[1])
    with one_blas_thread():
        model = RandomForestRegressor(
            trees, max_depth=depth, min_samples_leaf=_leaf(leaf, len(M)), max_features=chosen, random_state=seed,
            n_jobs=thread_count(),
        ).fit(M, Y if Y.shape[1] > 1 else Y[:, 0])  # fmt: skip
    grown = tuple(one.tree_ for one in model.estimators_)
    return LeafModel(values, predictors.matrix, grown, tuple(Donors.of(t.apply(M), t.node_count) for t in grown))


def _leaf(leaf: int, rows: int) -> int:
    """Least rows of a leaf; a table of fewer rows has one leaf."""
    return max(1, min(leaf, rows))
