"""Tables, partitions and the loss measure that the tests of groupings share."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups.refine.refine import Refinement
from gpuanon.numerics.metric import EUCLIDEAN, Metric

MIXED = Metric("gower", weights=(1.0, 2.0, 1.0), categorical=(False, True, False))
"""Gower's metric on three columns, of which the middle one is categorical."""

METRICS = {
    "untied": EUCLIDEAN,
    "weights": Metric("euclidean", (1.0, 2.0, 0.3)),
    "lattice": EUCLIDEAN,
    "square": EUCLIDEAN,
    "gower": MIXED,
    "tied gower": MIXED,
}
"""The kinds of table that `table` makes, and the metric for each."""


def refine_briefly(monkeypatch: pytest.MonkeyPatch, turns: int, steps: int) -> None:
    """Refine groups in so many turns and steps, whatever the effort: the usual ones are too many to interpret."""
    module = import_module("gpuanon.masking.groups.refine.refine")  # its package has a function of that name
    monkeypatch.setattr(module, "refinement_of", lambda *_: Refinement(turns, steps, 4))


def random_partition(rng: np.random.Generator, n: int, parts: int, k: int) -> Partition:
    """A random partition whose parts have at least k rows."""
    labels = np.concatenate([np.repeat(np.arange(parts), k), rng.integers(0, parts, n - parts * k)])
    return Partition.from_labels(rng.permutation(labels))


def random_rows(rng: np.random.Generator, n: int, metric: Metric) -> Any:
    """(n, 3) random rows; under Gower's metric the middle column holds category codes."""
    X = rng.random((n, 3))
    if metric.kind == "gower":
        X[:, 1] = rng.integers(0, 3, n)
    return X


def table(kind: str, n: int) -> Any:
    """A table of one of the kinds in `METRICS`: n rows, or the points of the smallest square grid with n points."""
    rng = np.random.default_rng(n)
    if kind == "square":
        side = int(np.ceil(np.sqrt(n)))
        return np.stack(np.divmod(np.arange(side * side), side), axis=1).astype(float)
    X = random_rows(rng, n, METRICS[kind])
    if "tied" in kind.split():
        X[:, [0, 2]] = np.round(X[:, [0, 2]] * 3) / 3
    return rng.integers(0, 4, (n, 3)) / 3 if kind == "lattice" else X


def information_loss(X: Any, groups: Partition) -> float:
    """100 · SSE / SST."""
    labels = groups.labels()
    centres = np.stack([X[labels == group].mean(axis=0) for group in range(groups.parts)])
    return float(100 * np.square(X - centres[labels]).sum() / np.square(X - X.mean(axis=0)).sum())


def census(folder: Path) -> Any:
    """The Census reference file, standardised."""
    X = np.loadtxt(folder / "census" / "census.csv", delimiter=",", skiprows=1)
    return (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
