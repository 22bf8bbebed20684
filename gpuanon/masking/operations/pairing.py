"""Random pairs of rows that may exchange their values, in rounds of proposals.

In each round every free row is a sender or a receiver by a coin.  A sender proposes to a random free row among those
that it may be paired with; a receiver accepts one of its proposals at random.  About two fifths of the rows are paired
in a round, so that the work of all rounds is a small multiple of the first one's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.rng import Draws

_ROUNDS = 96

Propose = Callable[[Array, Array], Array]
"""Free rows (m,), ascending, and uniform numbers (m,) → for each the position of another free row, −1 for none."""


def pairs(n: int, propose: Propose, draws: Draws) -> Array:
    """(n,) int64 the row that each of `n` rows is paired with, itself where there is none: an involution.

    propose : whom a row may be paired with; see `Propose`.  May be asymmetric: the pair stands if either proposes
    draws   : of the rows, in their order

    Rows remain single only when no row may propose, or after 96 rounds (not met in practice).

    Cost : that of about three calls of `propose` with all rows, and as many sorts.
    """
    xp = namespace(draws.records)
    partner = xp.arange(n, dtype=np.int64)
    free = partner.copy()
    for number in range(_ROUNDS):
        if len(free) < 2:
            break
        words = draws.take(free).child(str(number)).words(3)
        target = propose(free, (words[:, 0] + 0.5) / 2.0**32)
        if not bool((target >= 0).any()):
            break
        sends = words[:, 1] < 1 << 31
        made = xp.flatnonzero(sends & (target >= 0) & ~sends[xp.maximum(target, 0)])
        # Of the proposals to one receiver that with the smallest word is accepted.
        keys = (target[made].astype(np.uint64) << np.uint64(32)) | words[made, 2].astype(np.uint64)
        made = made[xp.argsort(keys, kind="stable")]
        to = target[made]
        first = xp.concatenate([xp.ones(min(1, len(to)), dtype=bool), to[1:] != to[:-1]])
        senders, receivers = made[first], to[first]
        partner[free[senders]] = free[receivers]
        partner[free[receivers]] = free[senders]
        single = xp.ones(len(free), dtype=bool)
        single[senders] = False
        single[receivers] = False
        free = free[single]
    return partner


def near_pairs(low: Array, high: Array, draws: Draws) -> Array:
    """(n,) the partner of each row i among the rows ``low[i]`` to ``high[i]``, itself where none is free.

    low, high : (n,) int64 ascending; a row may be paired with those between, and they with it
    """
    xp = namespace(low)

    def propose(free: Array, u: Array) -> Array:
        begin = xp.searchsorted(free, low[free], side="left")
        count = xp.searchsorted(free, high[free], side="right") - begin - 1  # without itself
        pick = begin + _share(u, count)
        pick = pick + (pick >= xp.arange(len(free)))
        return xp.where(count > 0, pick, -1)

    return pairs(len(low), propose, draws)


def unlike_pairs(groups: Array, kinds: Array, wanted: Array, draws: Draws) -> Array:
    """(n,) the partner of each row: of the same group and another kind, itself where none is free.

    groups, kinds : (n,) int64, sorted by group and, inside a group, by kind; kinds of different groups differ
    wanted        : (n,) whether a row looks for a partner; the others wait to be asked
    """
    xp = namespace(groups)

    def propose(free: Array, u: Array) -> Array:
        group, kind = groups[free], kinds[free]
        begin, own = xp.searchsorted(group, group), xp.searchsorted(kind, kind)
        alike = xp.searchsorted(kind, kind, side="right") - own
        count = xp.searchsorted(group, group, side="right") - begin - alike
        pick = begin + _share(u, count)
        pick = pick + xp.where(pick >= own, alike, 0)
        return xp.where((count > 0) & wanted[free], pick, -1)

    return pairs(len(groups), propose, draws)


def _share(u: Array, count: Array) -> Array:
    """Whole numbers from 0 to below `count`, at the share `u` (0 to below 1) of it."""
    xp = namespace(u)
    return xp.minimum((u * count).astype(np.int64), xp.maximum(count - 1, 0))
