"""How rows get from the tasks that put them to those that collect them: at once, or through regions of destinations.

At once every collecting task opens the file of every source: sources × destinations pieces, which is quadratic in the
rows of a table.  So beyond `MOST_PIECES` rows are moved twice.  A source puts its rows by region, some consecutive
destinations.  Regrouping task (r, c) collects the rows of region r from the c-th chunk of the sources and puts them by
destination; a destination is then collected from the chunks of its region.  With p sources, q destinations, R regions
and K chunks, R · p + q · K files are opened instead of q · p; R = √q and R · K = min(p, q) make that (p + q)^1.5 at
most, and a regrouping task holds no more rows than a source or a destination does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.engine.store import Store

MOST_PIECES = 100_000
"""Pieces that are collected at once: from about here on opening them takes longer than moving the rows once more."""


@dataclass(frozen=True)
class Route:
    """The way of rows from sources to destinations.

    sources      : names under which rows are put
    destinations : their number
    regions      : of destinations; 0 if rows are moved at once
    chunks       : of sources
    """

    sources: tuple[str, ...]
    destinations: int
    regions: int = 0
    chunks: int = 0

    @classmethod
    def of(cls, sources: Sequence[str], destinations: int, most: int | None = None) -> Route:
        """The route for so many sources and destinations.

        most : pieces that are collected at once; by default `MOST_PIECES`
        """
        p, q = len(sources), destinations
        if p * q <= (MOST_PIECES if most is None else most) or q < 4:
            return cls(tuple(sources), q)
        regions = math.isqrt(q)
        return cls(tuple(sources), q, regions, -(-min(p, q) // regions))

    @property
    def regroups(self) -> list[tuple[int, int]]:
        """The regrouping tasks, (region, chunk) each; none if rows are moved at once."""
        return [(region, chunk) for region in range(self.regions) for chunk in range(self.chunks)]

    @property
    def regrouped(self) -> tuple[str, ...]:
        """Names under which the regrouping tasks put rows."""
        return tuple(self._name(*task) for task in self.regroups)

    def put(self, store: Store, name: str, rows: Any, destinations: Host) -> dict[int, int]:
        """Put the rows of a source; the number of rows for each destination."""
        if not self.regions:
            return store.put(name, rows, destinations)
        return store.put(name, rows, destinations, self._region(destinations))

    def regroup(self, store: Store, task: tuple[int, int]) -> int:
        """Do one regrouping task; the number of rows."""
        region, chunk = task
        width = -(-len(self.sources) // self.chunks)
        return store.regroup(self.sources[chunk * width : (chunk + 1) * width], region, self._name(*task))

    def names(self, destinations: Iterable[int]) -> tuple[str, ...]:
        """Where the rows of these destinations are, after all regrouping tasks."""
        if not self.regions:
            return self.sources
        regions = sorted({int(self._region(np.asarray(place))) for place in destinations})
        return tuple(self._name(region, chunk) for region in regions for chunk in range(self.chunks))

    def _region(self, destinations: Host) -> Host:
        return np.asarray(destinations * self.regions // self.destinations)

    def _name(self, region: int, chunk: int) -> str:
        return f"{self.sources[0]}-region-{region:05d}-{chunk:05d}"
