"""Recoding written from its definition: every node of a lattice, every record by itself."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np


def random_table(rng: np.random.Generator, rows: int, columns: int) -> tuple[Any, list[Any], list[Any]]:
    """Codes, ancestors and shares of a random table with random hierarchies, whose domains may be larger."""
    codes, ancestors, shares = [], [], []
    for _ in range(columns):
        leaves, depths = int(rng.integers(1, 7)), int(rng.integers(1, 4))
        levels = [np.arange(leaves)]
        for _ in range(depths - 1):
            nodes = int(levels[-1].max()) + 1
            parents = np.sort(rng.integers(0, max(1, (nodes + 1) // 2), nodes))
            levels.append(np.unique(parents, return_inverse=True)[1][levels[-1]])
        table = np.stack(levels, axis=1)
        ancestors.append(table)
        shares.append(np.stack([np.bincount(level)[level] / leaves for level in levels], axis=1))
        codes.append(np.minimum(rng.geometric(0.4, rows) - 1, leaves - 1))
    return np.stack(codes, axis=1), ancestors, shares


def judged(codes: Any, ancestors: Any, node: Any, fails: Any) -> tuple[list[Any], list[bool]]:
    """The class of each record at a node, and whether `fails` (records of a class → bool) says so of its class."""
    classes = [
        tuple(int(ancestors[j][v, depth]) for j, (v, depth) in enumerate(zip(row, node, strict=True))) for row in codes
    ]
    members = defaultdict(list)
    for row, name in enumerate(classes):
        members[name].append(row)
    bad = {name: fails(rows) for name, rows in members.items()}
    return classes, [bad[name] for name in classes]


def naive_loss(
    metric: str, codes: Any, ancestors: Any, shares: Any, node: Any, classes: Any, gone: Any, weights: Any
) -> float:
    """The loss of a node, record by record."""
    n, columns = codes.shape
    scale = [w / max(weights) for w in weights]
    if metric == "discernibility":
        sizes = Counter(classes)
        return float(sum(n if lost else sizes[name] for name, lost in zip(classes, gone, strict=True)))
    if metric == "class-size":
        kept = {name for name, lost in zip(classes, gone, strict=True) if not lost}
        return n / (len(kept) + any(gone))
    terms = []
    for j, depth in enumerate(node):
        if metric == "loss":
            least = 1 / len(ancestors[j])
            mean = sum(1.0 if lost else shares[j][v, depth] for v, lost in zip(codes[:, j], gone, strict=True)) / n
            terms.append((mean - least) / (1 - least) if least < 1 else sum(gone) / n)
        elif metric == "precision":
            deepest = ancestors[j].shape[1] - 1
            terms.append(sum(1.0 if lost else (depth / deepest if deepest else 0.0) for lost in gone) / n)
        else:
            values = Counter(codes[:, j].tolist())
            nodes = Counter(ancestors[j][codes[:, j], depth].tolist())
            bits = sum(math.log2(nodes[int(ancestors[j][v, depth])] / values[int(v)]) for v in codes[:, j])
            lost = Counter(int(ancestors[j][v, depth]) for v, out in zip(codes[:, j], gone, strict=True) if out)
            terms.append(bits + sum(c * math.log2(sum(lost.values()) / c) for c in lost.values()))
    weighted = [w * t for w, t in zip(scale, terms, strict=True)]
    if metric == "loss":
        return math.prod(1 + t for t in weighted) ** (1 / columns) - 1
    return sum(weighted) / columns if metric == "precision" else sum(weighted)


def least_loss(
    metric: str, codes: Any, ancestors: Any, shares: Any, most: int, fails: Any, weights: Any
) -> float | None:
    """The least loss over all nodes that suppress at most `most` records; None when there is none."""
    best = None
    for node in itertools.product(*(range(table.shape[1]) for table in ancestors)):
        classes, gone = judged(codes, ancestors, node, fails)
        if sum(gone) <= most:
            loss = naive_loss(metric, codes, ancestors, shares, node, classes, gone, weights)
            best = loss if best is None else min(best, loss)
    return best
