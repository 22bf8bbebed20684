"""Values of groups of rows against those of a table: how many differ, and the earth mover's distance.

References
----------
.. [1] N. Li, T. Li, S. Venkatasubramanian (2007), t-Closeness, ICDE '07: earth mover's distance, equal and ordered.
"""

from __future__ import annotations

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_sums


def distinct_values(labels: Array, values: Array, missing: Array | None = None) -> Array:
    """(g,) different `values` (n,) of the rows of each group.

    labels  : (n,) group of each row, from 0, each with at least one row
    missing : (n,) whether a row has no value: all such rows have one number, which does not count
    """
    xp = namespace(labels)
    of_group, _, _ = pairs(labels, values)
    different = xp.bincount(of_group)
    if missing is not None:
        different = different - (xp.bincount(labels[missing], minlength=len(different)) > 0)
    return different


def equal_distance(labels: Array, values: Array, table: Array, counts: Array | None = None) -> Array:
    """(g,) ½ Σ |p − q| of each group from a table: the earth mover's distance where all values are equally far apart.

    table  : (levels,) rows of each value in the table
    counts : (n,) rows that each row stands for; None: itself

    Summed over the values that a group has: those that it lacks add what the others are short.
    """
    xp = namespace(labels)
    of_group, value, count = pairs(labels, values, counts)
    p = count / _totals(of_group, count)[of_group]
    q = table[value] / table.sum()
    return segment_sums(xp.maximum(p - q, 0.0), _adjacent(of_group))


def ordered_distance(labels: Array, values: Array, table: Array, counts: Array | None = None) -> Array:
    """(g,) Σ over ranks of |cumulated p − cumulated q| / (levels − 1), without a groups × levels table.

    table  : (levels,) rows of each value in the table, in the order of the values
    counts : (n,) rows that each row stands for; None: itself

    Between two values that a group has, its cumulated share stands still while the table's Q rises: the sum of |P − Q|
    there is a difference of prefix sums of Q, cut where Q passes P.
    """
    xp = namespace(labels)
    levels = len(table)
    of_group, value, count = pairs(labels, values, counts)
    groups = _adjacent(of_group)
    if levels == 1:
        return xp.zeros(groups.parts)
    Q = xp.cumsum(table) / table.sum()
    prefix = xp.concatenate([xp.zeros(1), xp.cumsum(Q)])
    running = xp.cumsum(count)
    starts = groups.starts[:-1]
    P = (running - (running[starts] - count[starts])[of_group]) / _totals(of_group, count)[of_group]
    end = xp.concatenate([value[1:], xp.full(1, levels, dtype=value.dtype)])  # P holds for the ranks value .. end − 1
    end[groups.starts[1:] - 1] = levels
    P[groups.starts[1:] - 1] = 1.0
    cut = xp.clip(xp.searchsorted(Q, P, side="left"), value, end)  # from here on Q ≥ P
    below = P * (cut - value) - (prefix[cut] - prefix[value])
    above = (prefix[end] - prefix[cut]) - P * (end - cut)
    area = below + above
    area[starts] += prefix[value[starts]]  # before the group's first value: P = 0
    return segment_sums(area, groups) / (levels - 1)


def pairs(labels: Array, values: Array, counts: Array | None = None) -> tuple[Array, Array, Array]:
    """The (group, value) pairs that occur, ascending: group, value, rows."""
    xp = namespace(labels)
    levels = int(values.max()) + 1
    keys = labels * levels + values
    if counts is None:
        found, count = xp.unique(keys, return_counts=True)
    else:
        found = xp.unique(keys)
        count = segment_sums(counts, Partition.from_labels(keys))
    return found // levels, found % levels, count


def _totals(of_group: Array, count: Array) -> Array:
    """(g,) rows of each group."""
    return segment_sums(count, _adjacent(of_group))


def _adjacent(of_group: Array) -> Partition:
    """The partition of pairs, which ascend by group."""
    return Partition.from_labels(of_group)
