"""Cells of near groups, between which rows are exchanged, and the nearest groups of each group inside its cell.

The cells are cut anew at every turn, along axes that are rotated differently.  (A k-d tree would find all neighbours,
but slowly beyond a few columns.  Cells miss some neighbours, different ones at every turn.)
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, on_device
from gpuanon.arrays.compiled import use_loaded
from gpuanon.arrays.kernels import launch
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.ranges import row_ranges
from gpuanon.arrays.threads import each
from gpuanon.masking.groups.refine.neighbours import exact_bits, neighbours
from gpuanon.numerics.cuts.device_cuts import CutPlan
from gpuanon.numerics.cuts.median_blocks import blocks

CELL = 256
"""Groups in a cell; the distances of all pairs are computed."""
_COARSE = 1 << 13
_TREES = 3
_REFLECTIONS = 5
_BATCH = 1 << 14  # groups of a batch on the host
_THREADS = 128
_AHEAD = 64  # turns whose mirrors are copied to a device at once


class Neighbourhood:
    """The groups of near rows of a table, and who is near whom at each turn.

    places : (n, e) int32 places of the rows, of `bits` bits and a sign
    groups : how many there are
    count  : neighbours of each group
    turns  : how many there will be
    """

    def __init__(self, places: Array, bits: int, groups: int, count: int, turns: int) -> None:
        self.places, self.count = places, count
        self.finer = 2.0 ** (exact_bits(places.shape[1]) - bits)
        self.trees: list[Partition] = []
        self.turns = turns
        self.mirrors: Array = None  # of some turns, from `first` on, on the device
        self.first = -1
        self.plans: dict[int, CutPlan] = {}
        self.whole = Partition.whole(groups, like=places)

    def at(self, turn: int, members: Array, sizes: Array) -> tuple[Partition, Array, int]:
        """The cells of a turn, for each position in their order those of its nearest groups (count, g), and groups of
        the largest cell.

        members : (g, w) places of each group's rows, of which ``sizes`` (g,) count
        """
        whole, axes = self.locate(members, sizes, turn)
        cells, largest = self._cells(axes, turn)
        return cells, neighbours(whole, cells, self.count, largest), largest

    def _mirrors(self, turn: int) -> Array:
        """Those of a turn; those of several turns are copied to a device at once."""
        e = self.places.shape[1]
        if not on_device(self.places):
            return _mirrors(turn, e)
        first = turn - turn % _AHEAD
        if self.first != first:
            self.first = first
            ahead = range(first, min(first + _AHEAD, self.turns))
            self.mirrors = like(np.stack([_mirrors(later, e) for later in ahead]), self.places)
        return self.mirrors[turn - first]

    def locate(self, members: Array, sizes: Array, turn: int) -> tuple[Array, Array]:
        """(g, e) mean places of the groups: in finer whole numbers, and as float32 along the axes of a turn."""
        mirrors = self._mirrors(turn)
        if on_device(members):
            return self._locate_cuda(members, sizes, mirrors)
        if use_loaded(members.size):
            return self._locate_compiled(members, sizes, mirrors)
        centres = _centres(self.places, members, sizes)
        return np.rint(centres * self.finer).astype(np.int32), _mirrored(centres, mirrors)

    def _locate_cuda(self, members: Array, sizes: Array, mirrors: Array) -> tuple[Array, Array]:
        """One thread per group (``kernels/refine_cells.cu``)."""
        xp, (g, width), e = namespace(members), members.shape, self.places.shape[1]
        centres = xp.empty((e, g), dtype=np.float64)
        whole, axes = xp.empty((g, e), dtype=np.int32), xp.empty((g, e), dtype=np.float32)
        table = (self.places, e, members, sizes, g, width, self.finer, mirrors, len(mirrors))
        launch("refine_cells", "locate", *table, centres, whole, axes, over=g, threads=_THREADS)
        return whole, axes

    def _locate_compiled(self, members: Host, sizes: Host, mirrors: Host) -> tuple[Host, Host]:
        from gpuanon.masking.groups.refine.compiled_cells import locate

        shape = (len(members), self.places.shape[1])
        out = (np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.float32))

        def work(lines: slice) -> None:
            locate(self.places, members, sizes, self.finer, mirrors, (lines.start, lines.stop), out)

        each(work, row_ranges(members, _BATCH // 2))
        return out

    def _cells(self, axes: Array, turn: int) -> tuple[Partition, int]:
        """Cells by median cuts, and groups of the largest.

        The upper cuts cost as much as the lower ones: those of the first turns are reused.
        """
        within = self.whole
        if len(axes) > _COARSE:
            if len(self.trees) < _TREES:
                self.trees.append(self._cut(axes, within, _COARSE)[0])
            within = self.trees[turn % _TREES]
        return self._cut(axes, within, CELL)

    def _cut(self, axes: Array, within: Partition, size: int) -> tuple[Partition, int]:
        """Blocks of at most `size` groups, and groups of the largest; on a device the cuts are planned once."""
        if not on_device(axes):
            cells = blocks(axes, within, size)
            return cells, int(cells.sizes.max())
        if size not in self.plans:
            coarse = self.plans.get(_COARSE)
            bounds = np.array([0, len(axes)]) if coarse is None else coarse.bounds
            self.plans[size] = CutPlan.of(bounds, size, axes.shape[1], axes)
        plan = self.plans[size]
        return plan.cut(axes, within.order), plan.largest


def _mirrors(turn: int, e: int) -> Host:
    """(m, e) unit vectors: reflections along them, one after another, rotate the axes of a turn."""
    rng = np.random.default_rng(turn)
    mirrors = np.empty((_REFLECTIONS, e))
    for mirror in mirrors:
        mirror[:] = rng.standard_normal(e)
        mirror /= np.sqrt((mirror * mirror).sum())
    return mirrors


def _centres(places: Host, members: Host, sizes: Host) -> Host:
    """(g, e) mean places of the groups, from exact sums of whole numbers: the same on every device."""
    g, w = members.shape
    centres = np.empty((g, places.shape[1]), dtype=np.float64)

    def work(lines: slice) -> None:
        held, used = members[lines], sizes[lines]
        total = np.zeros((len(held), places.shape[1]), dtype=np.int64)
        for slot in range(w):
            total += np.where((slot < used)[:, None], places.take(held[:, slot], axis=0), 0)
        centres[lines] = total / used[:, None]

    each(work, row_ranges(members, _BATCH))
    return centres


def _mirrored(centres: Host, mirrors: Host) -> Host:
    """(g, e) float32 coordinates of the `centres` (g, e) along the mirrored axes."""
    rotated = np.ascontiguousarray(centres.T)
    for mirror in mirrors:
        # One operation at a time, columns added in their order: every device rounds alike.
        along = sum(rotated * mirror[:, None])
        rotated -= along * (2 * mirror[:, None])
    return np.ascontiguousarray(rotated.T.astype(np.float32))
