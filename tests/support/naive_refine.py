"""`neighbours` and `anneal` written from their definitions, with lists, loops and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from gpuanon.masking.groups.refine.annealing import random_words


def neighbours(places: Any, cells: Any, count: int, largest: int | None = None) -> Any:
    """For each position the nearest of its cell, by squared distances as float32 numbers without their last bits."""
    bits = max(1, int(cells.sizes.max()) - 1).bit_length()
    near = np.repeat(np.arange(cells.n)[None, :], count, axis=0)
    for start, end in zip(cells.starts[:-1].tolist(), cells.starts[1:].tolist(), strict=True):
        points = places[cells.order[start:end]].tolist()
        for own, x in enumerate(points):
            squares = [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in points]
            coarse = [int(np.float32(square).view(np.int32)) >> bits for square in squares]
            others = sorted((coarse[other], other) for other in range(len(points)) if other != own)
            near[: len(others), start + own] = [start + other for _, other in others[:count]]
    return near


def distance(x: list[int], y: list[int], mismatch: list[int] | None) -> int:
    """Squared Euclidean, or Gower's distance of whole numbers."""
    if mismatch is None:
        return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    return sum(abs(a - b) if m < 0 else m * (a != b) for a, b, m in zip(x, y, mismatch, strict=True))


class Pair:
    """Two groups, as lists of rows, and the change by exchanges between them."""

    def __init__(self, apart: list[list[int]], a: list[int], b: list[int]) -> None:
        self.apart, self.a, self.b = apart, a, b

    def distortion(self, group: list[int]) -> Fraction:
        return Fraction(sum(self.apart[x][y] for x in group for y in group), 2 * len(group))

    def spread(self) -> float:
        f = [float(self.distortion(group)) for group in (self.a, self.b)]
        return (f[0] + f[1]) / (len(self.a) + len(self.b))

    def after(self, first: list[int], second: list[int]) -> Fraction:
        now = self.distortion(self.a) + self.distortion(self.b)
        return self.distortion(first) + self.distortion(second) - now

    def swaps(self) -> list[tuple[Fraction, list[int], list[int]]]:
        a, b = self.a, self.b
        pairs = [([*a[:i], y, *a[i + 1 :]], [*b[:r], x, *b[r + 1 :]]) for i, x in enumerate(a) for r, y in enumerate(b)]
        return [(self.after(*pair), *pair) for pair in pairs]

    def moves(self, k: int, width: int) -> list[tuple[Fraction, list[int], list[int]]]:
        """From a to b.  The last row of a fills the gap."""
        if len(self.a) == k or len(self.b) == width:
            return []
        found = []
        for i, x in enumerate(self.a):
            rest = [*self.a]
            rest[i] = rest[-1]
            found.append((self.after(rest[:-1], [*self.b, x]), rest[:-1], [*self.b, x]))
        return found

    def best(self, k: int, width: int) -> tuple[Fraction, list[int], list[int]]:
        """The best exchange; ties: swaps, then moves from a, then moves from b, the first of each."""
        back = [(change, a, b) for change, b, a in Pair(self.apart, self.b, self.a).moves(k, width)]
        kinds = [self.swaps(), self.moves(k, width), back]
        least = [min(kind, key=lambda exchange: exchange[0]) for kind in kinds if kind]
        return min(least, key=lambda exchange: exchange[0])


def anneal(
    rows: Any, mismatch: Any, members: Any, sizes: Any, near: Any, cells: Any, k: int, schedule: Any, **known: Any
) -> Any:
    """Pairs of near groups exchange rows, step by step, one pair after another."""
    listed = rows.tolist()
    weights = None if mismatch is None else mismatch.tolist()
    apart = [[distance(x, y, weights) for y in listed] for x in listed]
    order = cells.order.tolist()
    words = [int(word) for word in random_words(cells.order, schedule.turn)]
    changed = Fraction(0)
    for step in range(schedule.steps):
        taken: dict[int, int] = {}
        for own, mate in enumerate(near[step % len(near)].tolist()):
            if words[own] >> step & 1 and not words[mate] >> step & 1:
                taken[mate] = own
        heat = schedule.heat * max(0.0, 1 - (schedule.first + step) / schedule.every)
        for own, asking in taken.items():
            a, b = order[asking], order[own]
            pair = Pair(apart, *(members[line, : sizes[line]].tolist() for line in (a, b)))
            change, *after = pair.best(k, members.shape[1])
            share = ((words[asking] * (2 * step + 1) % 2**64 >> 48) + 0.5) / 65536
            if change < pair.spread() * (heat * -math.log(share)):
                for line, group in zip((a, b), after, strict=True):
                    members[line, : len(group)], sizes[line] = group, len(group)
                changed += change
    return np.float64(float(changed))
