"""Empirical conditional distributions of the rows of a table, and their inverses, for all rows at once.

Rows are sorted lexicographically inside their block.  The rows that agree with x̂ on the first j columns are a range
of this order in which column j ascends, and a conditional quantile is a place in the range: found by a product without
weights, by a search in the running sum of the weights with them.

References
----------
.. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity, Stat. Anal. Data Min.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.partition import Partition, segment_maxima
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.sorting import lexicographic_order
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

_SORT_ROWS = 1 << 16  # rows that one thread sorts at a time
_PART_BITS, _TABLE_BITS = 52, 62  # of the sum of weights of a part (exact in float64) and of all parts


def lexicographic(X: Array, blocks: Partition) -> Array:
    """(n,) rows, block after block, ascending inside a block by column 0, then 1, …; ties go to the lower row."""

    def sort(places: slice) -> Array:
        rows = blocks.order[places]
        return rows[lexicographic_order([*(X[rows, j] for j in reversed(range(X.shape[1]))), part[places]])]

    part = blocks.part_of_sorted()
    if on_device(X):
        return sort(slice(0, blocks.n))
    return np.concatenate(each(sort, ranges_of_parts(blocks, _SORT_ROWS)))


def ranges_of_parts(p: Partition, rows: int) -> list[slice]:
    """Cut the places of a host partition into ranges of whole parts, of about `rows` rows or one longer part."""
    ends = p.starts[1:]
    last = np.concatenate([np.flatnonzero(np.diff(ends // rows)), [p.parts - 1]])
    stops = ends[np.unique(last)]
    return [slice(int(a), int(b)) for a, b in zip(np.concatenate([[0], stops[:-1]]), stops, strict=True)]


def conditional_inverse(u: Array, X: Array, blocks: Partition, weights: Array | None = None) -> Array:
    """Inverse empirical conditional distribution functions, column after column (eq. 7–9 of [1]).

    ``x̂_j`` is the smallest value v of column j with ``F_j(v | x̂_<j) ≥ u_j``, where F_j is the distribution of
    column j over the rows of the block whose first j values equal ``x̂_<j``.  There always are such rows, so x̂
    is a row of the table.

    Parameters
    ----------
    u : (n, d) in [0, 1], row i for row i of `X`
    X : (n, d) the table; columns in the order of conditioning
    blocks : row i is transformed by the distribution of its own block
    weights : (n,) of the rows, at least 0 (a block whose weights are all 0 counts as unweighted); None for all 1

    Returns
    -------
    (n,) int64 the row that x̂ equals; among equal rows the lowest

    Notes
    -----
    Cost : one lexicographic sort and d passes over the rows; memory O(n).
    """
    low, _, order = conditional_ranges(u, X, blocks, weights)
    return order[low]


def conditional_ranges(
    u: Array, X: Array, blocks: Partition, weights: Array | None = None
) -> tuple[Array, Array, Array]:
    """`conditional_inverse` as ranges: the rows equal to x̂ of row i are ``order[low[i]:high[i]]``.

    Returns
    -------
    (n,) low, (n,) high, (n,) order
    """
    order = lexicographic(X, blocks)
    labels = blocks.labels()
    low, high = blocks.starts[labels], blocks.starts[labels + 1]
    running = None if weights is None else running_weights(weights[order], blocks)
    if on_device(X):
        return *_ranges_cuda(u, X[order], labels, blocks.starts, running), order
    new = _first_places(blocks)
    for j in range(X.shape[1]):
        place = quantile_place(u[:, j], low, high, running)
        values = X[order, j]
        new[1:] |= values[1:] != values[:-1]
        starts, run = runs(new)
        low, high = starts[run[place]], starts[run[place] + 1]
    return low, high, order


def _ranges_cuda(u: Array, rows: Array, labels: Array, starts: Array, running: Array | None) -> tuple[Array, Array]:
    """The ranges by nested searches in the sorted `rows`, one thread per record (``kernels/empirical_inverse.cu``)."""
    from gpuanon.arrays.kernels import launch, pieces

    xp = namespace(rows)
    real = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
    columns = xp.ascontiguousarray(rows.T, dtype=real)
    low, high = xp.empty_like(labels), xp.empty_like(labels)
    for at in pieces(len(u), u.shape[1] * np.dtype(np.float64).itemsize):
        wanted = xp.ascontiguousarray(u[at].T, dtype=np.float64)
        arguments = (wanted, columns, labels[at], starts, running, *wanted.shape[::-1], len(rows), low[at], high[at])
        launch("empirical_inverse", "empirical_inverse", *arguments, over=wanted.shape[1])
    return low, high


def cell_cdfs(x: Array, cells: Array, weights: Array | None = None) -> Array:
    """Conditional distribution functions of the piecewise uniform distribution over cells (eq. 6 and 10 of [1]).

    Row i of the table spreads its weight uniformly over the unit cell ``cells[i] + [0, 1)^d``.  Any rectangular
    partition of space becomes such unit cells by a monotone map of each axis, under which conditional distribution
    functions do not change.

    Parameters
    ----------
    x : (m, d) points inside occupied cells
    cells : (n, d) int64 cell of each row, at least 0
    weights : (n,) at least 0, not all 0 in the cell of a point; None for all 1

    Returns
    -------
    (m, d) float64 ``u[i, j] = F_j(x[i, j] | x[i, :j])``
    """
    xp = namespace(cells)
    n, d = cells.shape
    whole = Partition.whole(n, like=cells)
    order = lexicographic(cells, whole)
    running = xp.arange(n + 1, dtype=np.int64) if weights is None else running_weights(weights[order], whole)
    new = _first_places(whole)
    at = xp.floor(x).astype(np.int64)
    low = xp.zeros(len(x), dtype=np.int64)
    high = xp.full(len(x), n, dtype=np.int64)
    u = xp.empty((len(x), d), dtype=np.float64)
    for j in range(d):
        values = cells[order, j]
        _, run = runs(new)
        # (run, value) ascends along the order, so one search finds the value inside the run of every point.
        width = int(values.max()) + 1
        keys, wanted = run * width + values, run[low] * width + at[:, j]
        first, last = xp.searchsorted(keys, wanted, side="left"), xp.searchsorted(keys, wanted, side="right")
        own = (x[:, j] - at[:, j]) * (running[last] - running[first])
        u[:, j] = (running[first] - running[low] + own) / (running[high] - running[low])
        new[1:] |= values[1:] != values[:-1]
        low, high = first, last
    return u


def runs(new: Array) -> tuple[Array, Array]:
    """Where runs start, with n at the end, and (n,) the run of each place, from the (n,) marks of first places."""
    xp = namespace(new)
    return xp.concatenate([xp.flatnonzero(new), xp.asarray([len(new)])]), xp.cumsum(new) - 1


def running_weights(weights: Array, parts: Partition) -> Array:
    """(n + 1,) int64 running sum of weights that lie part after part, each part in whole units of its own.

    A part's unit is a power of two, so small that the part's weights sum to less than 2^52 of them and those of all
    parts to less than 2^62, and cancels inside the part.  Weights are rounded to it (whole numbers and other short
    ones are multiples of it as they are), those above 0 to at least 1.  Sums of whole numbers are exact in any order,
    so a parallel scan on a device gives the same as the host.  A part without any weight counts as unweighted.
    """
    xp = namespace(weights)
    weights = weights.astype(np.float64, copy=False)
    largest = segment_maxima(weights, Partition(xp.arange(parts.n, dtype=np.int64), parts.starts))
    part = parts.part_of_sorted()
    weights = xp.where((largest > 0)[part], weights, 1.0)
    bits = min(_PART_BITS, _TABLE_BITS - parts.parts.bit_length())
    # Powers of two above the largest weight and above the number of rows: their product is above the part's sum.
    weight_bits = xp.frexp(xp.where(largest > 0, largest, 1.0))[1].astype(np.int64)
    size_bits = xp.frexp(parts.sizes.astype(np.float64))[1].astype(np.int64)
    units = xp.rint(xp.ldexp(weights, (bits - weight_bits - size_bits)[part])).astype(np.int64)
    units = xp.maximum(units, (weights > 0).astype(np.int64))
    return xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(units, dtype=np.int64)])


def quantile_place(u: Array, low: Array, high: Array, running: Array | None = None) -> Array:
    """(n,) first place of each range ``low:high`` at which the share of the range up to this place reaches `u`.

    running : (places + 1,) running sum of weights in whole units, or None for equal weights
    """
    xp = namespace(u)
    if running is None:
        place = low + xp.ceil(u * (high - low)).astype(np.int64) - 1
    else:
        target = running[low] + xp.ceil(u * (running[high] - running[low])).astype(np.int64)
        place = xp.searchsorted(running, target, side="left") - 1
    return xp.clip(place, low, high - 1)


def _first_places(parts: Partition) -> Array:
    """(n,) True where a part starts."""
    new = namespace(parts.order).zeros(parts.n, dtype=bool)
    new[parts.starts[:-1]] = True
    return new


def resample(groups: Partition, draws: Draws, weights: Array | None = None) -> Array:
    """(n,) for each row a row of its own group, drawn with replacement in proportion to `weights`.

    Guarantee : the expected (weighted) distribution of the drawn rows is that of the table (Lemma 1 of [1]), and
        a drawn value belongs to a member of the record's own group.
    Weights   : (n,) at least 0, or None for all 1; a group whose weights are all 0 is drawn from evenly.
    Draws     : one uniform number a record, inverted over the members in ascending order of row.

    References
    ----------
    .. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity, section 3.2.1.
    """
    check_weights(weights)
    labels = groups.labels()
    running = None if weights is None else running_weights(weights[groups.order], groups)
    u = draws.uniform(1)[:, 0]
    return groups.order[quantile_place(u, groups.starts[labels], groups.starts[labels + 1], running)]


def check_weights(weights: Array | None) -> None:
    """Refuse negative and missing weights."""
    if weights is not None and not bool((namespace(weights).isfinite(weights) & (weights >= 0)).all()):
        raise ParameterError("weights: finite numbers of at least 0 are allowed")
