"""Cells of near groups, between which rows are exchanged, and the nearest groups of each group inside its cell.

The cells are cut anew at every turn, along axes that are rotated differently.  (A k-d tree would find all neighbours,
but slowly beyond a few columns.  Cells miss some neighbours, different ones at every turn.)
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device
from gpuanon.arrays.compiled import use_loaded
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.ranges import row_ranges
from gpuanon.arrays.threads import each
from gpuanon.masking.groups.refine.neighbours import exact_bits, neighbours
from gpuanon.numerics.cuts.median_blocks import blocks

CELL = 256
"""Groups in a cell; the distances of all pairs are computed."""
_COARSE = 1 << 13
_TREES = 3
_REFLECTIONS = 5
_BATCH = 1 << 14  # groups of a batch on the host


class Neighbourhood:
    """The groups of near rows of a table, and who is near whom at each turn.

    places : (n, e) int32 places of the rows, of `bits` bits and a sign
    count  : neighbours of each group
    """

    def __init__(self, places: Array, bits: int, count: int) -> None:
        self.places, self.count = places, count
        self.finer = 2.0 ** (exact_bits(places.shape[1]) - bits)
        self.trees: list[Partition] = []

    def at(self, turn: int, members: Array, sizes: Array) -> tuple[Partition, Array]:
        """The cells of a turn, and (count, g) for each position in their order those of its nearest groups.

        members : (g, w) places of each group's rows, of which ``sizes`` (g,) count
        """
        whole, axes = self._locate(members, sizes, _mirrors(turn, self.places.shape[1]))
        cells = self._cells(axes, turn)
        return cells, neighbours(whole, cells, self.count)

    def _locate(self, members: Array, sizes: Array, mirrors: Host) -> tuple[Array, Array]:
        """(g, e) mean places of the groups: in finer whole numbers, and as float32 along mirrored axes."""
        if not on_device(members) and use_loaded(members.size):
            return self._locate_compiled(members, sizes, mirrors)
        centres = _centres(self.places, members, sizes)
        whole = namespace(centres).rint(centres * self.finer).astype(np.int32)
        return whole, _mirrored(centres, mirrors)

    def _locate_compiled(self, members: Host, sizes: Host, mirrors: Host) -> tuple[Host, Host]:
        from gpuanon.masking.groups.refine.compiled_cells import locate

        shape = (len(members), self.places.shape[1])
        out = (np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.float32))

        def work(lines: slice) -> None:
            locate(self.places, members, sizes, self.finer, mirrors, (lines.start, lines.stop), out)

        each(work, row_ranges(members, _BATCH // 2))
        return out

    def _cells(self, axes: Array, turn: int) -> Partition:
        """Cells by median cuts.  The upper cuts cost as much as the lower ones: those of the first turns are reused."""
        within = Partition.whole(len(axes), like=axes)
        if len(axes) > _COARSE:
            if len(self.trees) < _TREES:
                self.trees.append(blocks(axes, within, _COARSE))
            within = self.trees[turn % _TREES]
        return blocks(axes, within, CELL)


def _mirrors(turn: int, e: int) -> Host:
    """(m, e) unit vectors: reflections along them, one after another, rotate the axes of a turn."""
    rng = np.random.default_rng(turn)
    mirrors = np.empty((_REFLECTIONS, e))
    for mirror in mirrors:
        mirror[:] = rng.standard_normal(e)
        mirror /= np.sqrt((mirror * mirror).sum())
    return mirrors


def _centres(places: Array, members: Array, sizes: Array) -> Array:
    """(g, e) mean places of the groups, from exact sums of whole numbers: the same on every device."""
    xp, (g, w) = namespace(places), members.shape
    centres = xp.empty((g, places.shape[1]), dtype=np.float64)

    def work(lines: slice) -> None:
        held, used = members[lines], sizes[lines]
        total = xp.zeros((len(held), places.shape[1]), dtype=np.int64)
        for slot in range(w):
            total += xp.where((slot < used)[:, None], places.take(held[:, slot], axis=0), 0)
        centres[lines] = total / used[:, None]

    each(work, row_ranges(members, _BATCH))
    return centres


def _mirrored(centres: Array, mirrors: Host) -> Array:
    """(g, e) float32 coordinates of the `centres` (g, e) along the mirrored axes."""
    xp = namespace(centres)
    rotated = xp.ascontiguousarray(centres.T)
    for mirror in mirrors:
        # One operation at a time, columns added in their order: every device rounds alike.
        if on_device(rotated):  # column by column with Python numbers: nothing is copied to the device
            along = sum(column * float(share) for column, share in zip(rotated, mirror, strict=True))
            for j, share in enumerate(mirror):
                rotated[j] -= along * float(2 * share)
        else:
            along = sum(rotated * mirror[:, None])
            rotated -= along * (2 * mirror[:, None])
    return xp.ascontiguousarray(rotated.T.astype(np.float32))
