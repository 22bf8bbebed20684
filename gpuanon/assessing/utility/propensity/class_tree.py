"""A classification tree for two classes, with splits over sets of categories and cost-complexity pruning.

scikit-learn's trees cannot split a set of categories; here the categories of a node are ordered by their share of the
second class, which makes the best of all 2^(q−1) divisions one of q − 1 cuts (theorem 4.5 of [1]).  Growth stops, and
branches are cut, by the rule of R's rpart [2], so that published figures can be reproduced:

* a split needs 3 · `smallest` records, leaves `smallest` or more on each side, and makes the Gini index fall most;
* risk is the number of misclassified records, and α = `complexity` × the root's risk is the price of a split;
* the worth of a node is the gain of its subtree per split, without the branches that gain less per split than the
  whole (the weaker is left out first); a node whose worth is not above α is a leaf;
* a node whose risk or allowance is not above α is not split.  The allowance of a child is the gain that is still
  possible for its parent, minus α.

References
----------
.. [1] L. Breiman, J. Friedman, R. Olshen, C. Stone (1984), Classification and Regression Trees.
.. [2] T. M. Therneau, E. J. Atkinson (2022), An introduction to recursive partitioning using the rpart routines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.errors import ParameterError

_DEEPEST = 30


@dataclass(frozen=True)
class GrowthRule:
    """When a node may be split."""

    smallest: int
    alpha: float


@dataclass(frozen=True, eq=False)
class _Data:
    """The columns of the records, numbers by rank, and the array for the shares."""

    columns: tuple[Host, ...]
    y: Host
    categorical: tuple[bool, ...]
    shares: Host


@dataclass(frozen=True)
class _Branch:
    """A node with its subtree, as the cost of its parent counts it.

    risk   : misclassified records if the node were a leaf
    worth  : gain per split, see the module docstring; α for a leaf
    kept   : misclassified records of the subtree as counted for the parent
    splits : splits of the subtree as counted for the parent
    """

    risk: float
    worth: float
    kept: float
    splits: int


def class_shares(
    X: Host, second: Host, categorical: Sequence[bool], smallest: int = 5, complexity: float = 1e-3
) -> Host:
    """(n,) share of the second class in each record's leaf.

    Parameters
    ----------
    X           : (n, d) numbers; whole numbers from 0 up in categorical columns
    second      : (n,) 1 for records of the second class, 0 for the first
    categorical : one flag per column
    smallest    : least records in a leaf
    complexity  : price of a split, as a share of the root's risk
    """
    if len(categorical) != X.shape[1]:
        raise ParameterError(f"categorical: one flag per column is needed ({X.shape[1]}), got {len(categorical)}")
    n, ones = len(X), float(second.sum())
    rule = GrowthRule(smallest, complexity * min(ones, n - ones))
    columns = tuple(x.astype(np.int64) if flag else _ranks(x) for x, flag in zip(X.T, categorical, strict=True))
    data = _Data(columns, second.astype(np.int32), tuple(categorical), np.empty(n))
    _grow(data, np.arange(n), float("inf"), rule, 0)
    return data.shares


def _ranks(x: Host) -> Host:
    """(n,) rank of each number, equal for equal ones: whole numbers of 16 bits are sorted faster, and often here."""
    distinct, ranks = np.unique(x, return_inverse=True)
    return np.asarray(ranks.reshape(-1).astype(np.uint16 if len(distinct) <= 1 << 16 else np.int64))


def _grow(data: _Data, rows: Host, allowance: float, rule: GrowthRule, depth: int) -> _Branch:
    """Grow the node that holds `rows`, and write its leaves' shares."""
    y = data.y[rows]
    ones = float(y.sum())
    risk = min(ones, len(rows) - ones)
    data.shares[rows] = ones / len(rows)
    leaf = _Branch(risk, rule.alpha, risk, 0)
    within = min(risk, allowance)
    if len(rows) < 3 * rule.smallest or within <= rule.alpha or depth >= _DEEPEST:
        return leaf
    goes_left = _best_split([x[rows] for x in data.columns], y, data.categorical, rule.smallest)
    if goes_left is None:
        return leaf
    left = _grow(data, rows[goes_left], within - rule.alpha, rule, depth + 1)
    possible = min(max((risk - left.kept) / (left.splits + 1), risk - left.risk), allowance)
    right = _grow(data, rows[~goes_left], possible - rule.alpha, rule, depth + 1)
    branch = _account(risk, left, right)
    if branch.worth <= rule.alpha:
        data.shares[rows] = ones / len(rows)
        return leaf
    return branch


def _account(risk: float, left: _Branch, right: _Branch) -> _Branch:
    """The worth of a split: weaker branches are left out while the whole gains more per split than they do."""
    kept, splits = left.kept + right.kept, left.splits + right.splits + 1
    for branch in sorted((right, left), key=lambda child: child.worth):
        if (risk - kept) / splits <= branch.worth:
            break
        kept += branch.risk - branch.kept
        splits -= branch.splits
    return _Branch(risk, (risk - kept) / splits, kept, splits)


def _best_split(columns: Sequence[Host], y: Host, categorical: tuple[bool, ...], smallest: int) -> Host | None:
    """(n,) which rows go left in the split with the largest decrease of the Gini index; ties: the first column."""
    best, found = 1e-9, None
    for x, by_category in zip(columns, categorical, strict=True):
        cut = (_cut_categories if by_category else _cut_numbers)(x, y, smallest)
        if cut is not None and cut[0] > best + 1e-9:
            best, found = cut
    return found


def _cut_numbers(x: Host, y: Host, smallest: int) -> tuple[float, Host] | None:
    """Best cut of a numeric column: its gain, and which rows go left."""
    n = len(x)
    first, end = smallest - 1, n - smallest  # a cut after these places leaves enough on both sides
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    left = np.arange(smallest, end + 1, dtype=np.float64)
    gain = _gains(left, y[order].cumsum(dtype=np.int32)[first:end].astype(np.float64), n, float(y.sum()))
    gain[ordered[first + 1 : end + 1] == ordered[first:end]] = -np.inf
    if len(gain) == 0 or gain.max() == -np.inf:
        return None
    at = int(gain.argmax())
    return float(gain[at]), x <= ordered[first + at]


def _cut_categories(x: Host, y: Host, smallest: int) -> tuple[float, Host] | None:
    """Best division of a column's categories: its gain, and which rows go left."""
    counts, ones = np.bincount(x), np.bincount(x, y)
    present = np.flatnonzero(counts)
    if len(present) < 2:
        return None
    order = present[np.argsort(ones[present] / counts[present], kind="stable")]
    left = counts[order].cumsum()[:-1].astype(np.float64)
    gain = _gains(left, ones[order].cumsum()[:-1], len(x), float(y.sum()))
    gain[(left < smallest) | (len(x) - left < smallest)] = -np.inf
    if gain.max() == -np.inf:
        return None
    at = int(gain.argmax())
    left = np.zeros(len(counts), dtype=bool)
    left[order[: at + 1]] = True
    return float(gain[at]), left[x]


def _gains(left: Host, left_ones: Host, n: int, ones: float) -> Host:
    """n × decrease of the Gini index for cuts with `left` rows on the left, `left_ones` of them of the second class."""
    gain = _purity(left, left_ones)
    gain += _purity(n - left, ones - left_ones)
    gain -= (ones**2 + (n - ones) ** 2) / n
    return gain


def _purity(rows: Host, ones: Host) -> Host:
    """(a² + b²) / (a + b) of sides with so many `rows` = a + b, a = `ones` of them of the second class."""
    found, zeros = ones * ones, rows - ones
    zeros *= zeros
    found += zeros
    found /= rows
    return found
