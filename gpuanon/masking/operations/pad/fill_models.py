"""Models of a response given predictors: draws from leaves of trees, and predictions that match similar records.

References
----------
.. [1] N. Meinshausen (2006), Quantile regression forests, J. Mach. Learn. Res. 7: the conditional distribution that the
   leaves of a forest hold.
.. [2] R. J. A. Little (1988), Missing-data adjustments in large surveys, J. Bus. Econ. Stat. 6(3): predictive mean
   matching, a value is taken from a record with a similar prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays import rapids
from gpuanon.arrays.backend import Backend, Host, to_host
from gpuanon.arrays.blas import one_blas_thread, one_openmp_thread
from gpuanon.arrays.threads import thread_count
from gpuanon.masking.operations.pad.fill_columns import Predictors, level_index, shrunk_means


@dataclass(frozen=True, eq=False, repr=False)
class LeafDonors:
    """The rows of each leaf of a tree: leaf l gives the values of ``order[starts[l]:starts[l + 1]]``."""

    order: Host
    starts: Host

    @classmethod
    def of(cls, leaves: Host, count: int) -> LeafDonors:
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
    donors: tuple[LeafDonors, ...]

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
    return LeafModel(values, score, (grown,), (LeafDonors.of(grown.apply(S), grown.node_count),))


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
    return LeafModel(values, predictors.matrix, grown, tuple(LeafDonors.of(t.apply(M), t.node_count) for t in grown))


def _leaf(leaf: int, rows: int) -> int:
    """Least rows of a leaf; a table of fewer rows has one leaf."""
    return max(1, min(leaf, rows))


_BOOSTED_ROWS = 200_000  # rows that trees are boosted on, at most
_NETWORK_ROWS = 100_000  # rows that a network is trained on, at most
_BINS = 32  # of a column of numbers, in the hierarchical model
_SWEEPS = 8


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """From known columns (m, c) to predictions (m, o)."""

    predictors: Predictors
    models: tuple[Callable[[Host], Host], ...]

    def __call__(self, X: Host) -> Host:
        M = self.predictors.matrix(X)
        with one_blas_thread(), one_openmp_thread():
            found = [model(M) for model in self.models]
        return np.column_stack([f.reshape(len(X), -1) for f in found]).astype(np.float32)


def boosting(X: Host, levels: Sequence[int], Y: Host, seed: int) -> Score:
    """Gradient boosting of histogram trees, for each output of the response by itself."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    predictors = Predictors.fit(X, levels, Y)
    some = np.random.default_rng(seed).permutation(len(X))[:_BOOSTED_ROWS]
    M = predictors.matrix(X[some])
    with one_openmp_thread():
        models = [
            HistGradientBoostingRegressor(max_iter=100, early_stopping=False, random_state=seed).fit(M, Y[some, at])
            for at in range(Y.shape[1])
        ]
    return Score(predictors, tuple(model.predict for model in models))


@dataclass(frozen=True, eq=False, repr=False)
class _DeviceForests:
    """Forests on a device: from a matrix on the host to predictions there."""

    forests: rapids.RegressionForests
    backend: Backend

    def __call__(self, M: Host) -> Host:
        return np.asarray(to_host(self.forests.predict(self.backend.upload(M))))


def device_forests(
    X: Host,
    levels: Sequence[int],
    Y: Host,
    backend: Backend,
    *,
    leaf: int,
    depth: int | None,
    trees: int,
    features: int | None,
    seed: int,
) -> Score:
    """Random forests on a device, one for each output of the response.

    cuML's trees have one output and do not tell their leaves, so values are drawn from records with a similar
    prediction, not from the leaves of a random tree as on the host: the two give different releases.  The matrix of
    predictors goes to the device, predictions come back; matching and draws are on the CPU.

    features : predictors that a split chooses from; None for all (bagging)
    """
    predictors = Predictors.fit(X, levels, Y)
    M = predictors.matrix(X)
    chosen = None if features is None else min(features, M.shape[1])
    forests = rapids.regression_forests(
        backend.upload(M), backend.upload(Y.astype(np.float32)),
        trees=trees, smallest=max(1, min(leaf, len(M))), depth=depth, features=chosen, seed=seed,
    )  # fmt: skip
    return Score(predictors, (_DeviceForests(forests, backend),))


def network(X: Host, levels: Sequence[int], Y: Host, seed: int) -> Score:
    """A small feed-forward network with all outputs of the response."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    predictors = Predictors.fit(X, levels, Y, linear=True)
    some = np.random.default_rng(seed).permutation(len(X))[:_NETWORK_ROWS]
    M = predictors.matrix(X[some])
    model = MLPRegressor(
        hidden_layer_sizes=(32, 32),
        batch_size=min(256, len(M)),
        max_iter=25,
        learning_rate_init=2e-3,
        alpha=1e-4,
        random_state=seed,
    )
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fixed number of passes over the rows is meant
        model.fit(M, Y[some])
    return Score(predictors, (model.predict,))


@dataclass(frozen=True, eq=False, repr=False)
class Hierarchical:
    """Σ over columns of a shrunk effect of the column's level; numbers by quantile bins.

    edges   : for each column the edges of its bins; None for levels
    effects : for each column (size, o)
    """

    levels: tuple[int, ...]
    edges: tuple[Host | None, ...]
    effects: tuple[Host, ...]

    def __call__(self, X: Host) -> Host:
        total = np.zeros((len(X), self.effects[0].shape[1] if self.effects else 1))
        for at, effect in enumerate(self.effects):
            total += effect[_binned(X[:, at], self.levels[at], self.edges[at])]
        return total.astype(np.float32)


def hierarchical(X: Host, levels: Sequence[int], Y: Host) -> Hierarchical:
    """An additive model with a random effect for every level of every column, shrunk by empirical Bayes.

    Effects are fitted in turn to what the others leave, a few sweeps over the columns; how much those of a column are
    shrunk follows from their own variance beyond chance (`shrunk_means`), so that courses with few students borrow
    from all others.
    """
    edges: list[Host | None] = []
    for at, count in enumerate(levels):
        known = X[~np.isnan(X[:, at]), at]
        quantiles = np.unique(np.quantile(known, np.arange(1, _BINS) / _BINS)) if len(known) else known
        edges.append(None if count else quantiles)
    sizes = [(count if edge is None else len(edge)) + 2 for count, edge in zip(levels, edges, strict=True)]
    index = [_binned(X[:, at], count, edges[at]) for at, count in enumerate(levels)]
    effects = [np.zeros((size, Y.shape[1])) for size in sizes]
    rest = Y.copy()
    for _ in range(_SWEEPS):
        for at, size in enumerate(sizes):
            rest += effects[at][index[at]]
            effects[at] = shrunk_means(index[at], rest - rest.mean(axis=0), size, pooled=1)
            rest -= effects[at][index[at]]
    return Hierarchical(tuple(levels), tuple(edges), tuple(effects))


def _binned(values: Host, levels: int, edges: Host | None) -> Host:
    """(n,) the level of each value; nulls have one of their own."""
    if edges is None:
        return level_index(values, levels)
    return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, side="left"))
