"""The releases of the spectral study, made of the same parts that recipes use."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from spectral_data import CATEGORIES, Samples, decode

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws, Key
from gpuanon.assessing.risk.auto_target import TargetChoice, auto_target
from gpuanon.masking.bases.linear import Ica, Identity, Svd
from gpuanon.masking.contract import Basis, Groups, Operation
from gpuanon.masking.given import ClassInfo, Records
from gpuanon.masking.groups.mdav.mdav_models import Mdav
from gpuanon.masking.groups.median_cuts import MedianCuts, all_cuts, small_share
from gpuanon.masking.groups.plain_groups import Whole
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.masking.operations.added_noise import Noise
from gpuanon.masking.operations.centroid import Centroid
from gpuanon.masking.operations.rank_match import RankMatch
from gpuanon.masking.operations.swap import Swap

Floats = np.ndarray[Any, Any]

RHS_K = 7
TARGETS = (100, 200, 300)
CANDIDATES = tuple(range(50, 1001, 25))

PLAIN, TURNED = Swap(), Swap(orthonormal=True)
FRONTIER: dict[str, tuple[Groups, Basis, Operation]] = {
    **{f"spectral {t} × svd": (Spectral(target=t), Svd(per_group=True), PLAIN) for t in (100, 150, 200, 300)},
    **{
        f"spectral {t} × svd, orthonormal": (Spectral(target=t), Svd(per_group=True), TURNED)
        for t in (100, 125, 150, 200)
    },
    **{f"spectral {t} × ica, orthonormal": (Spectral(target=t), Ica(per_group=True), TURNED) for t in (200, 250, 300)},
    **{
        f"mdav {t} × svd, orthonormal": (Mdav(k=t, block=0, refine=False), Svd(per_group=True), TURNED)
        for t in (50, 75, 100)
    },
    "median cuts 50 × svd, orthonormal": (MedianCuts(k=50, on="svd"), Svd(per_group=True), TURNED),
}
"""Unpublished combinations, in search of the best utility that meets the standard."""


@dataclass
class Releases:
    """What one seed gives.

    raw    : releases before decoding, by name
    groups : the groups of those that have some
    choice : the automatic choice of PICA's target
    rhs    : share of records alone in their group under plain RHS, share in groups below k, seconds
    """

    raw: dict[str, Floats]
    groups: dict[str, Partition]
    choice: TargetChoice
    rhs: tuple[float, float, float]
    decoded: dict[str, Floats] = field(init=False)

    def __post_init__(self) -> None:
        self.decoded = {name: decode(table) for name, table in self.raw.items()}


def combine(
    X: Floats, groups: Groups | Partition, basis: Basis, operation: Operation, draws: Draws
) -> tuple[Floats, Partition]:
    """groups × basis × operation: the release before decoding, and the groups."""
    parts = groups if isinstance(groups, Partition) else groups.form(X, draws.child("groups"))
    T, back = basis.forward(X, parts)
    outcome = operation.apply(T, parts, Records(draws.child("operation")))
    return back(outcome.values), parts  # type: ignore[union-attr]


def make(samples: Samples, seed: int) -> Releases:
    """All releases of one seed."""
    X = samples.original
    draws = Key(f"spectral study, seed {seed:04d}".encode()).draws(np.arange(len(X)))
    raw: dict[str, Floats] = {}
    groups: dict[str, Partition] = {}

    def add(name: str, how: Groups | Partition, basis: Basis, operation: Operation) -> None:
        raw[name], groups[name] = combine(X, how, basis, operation, draws.child(name))

    add("svd-swap", Whole(), Svd(), Swap(tol=0.05))
    add("svd-swap, orthonormal", Whole(), Svd(), Swap(tol=0.05, orthonormal=True))
    for target in TARGETS:
        add(f"pica {target}", Spectral(target=target), Ica(per_group=True), Swap())
    equal = Partition.from_labels(np.random.default_rng(seed).permutation(len(X)) % (len(X) // 200))
    add("random 200 × ica", equal, Ica(per_group=True), Swap())
    add("spectral-rhs", MedianCuts(k=RHS_K, on="svd"), Identity(), Centroid())
    for b in (0.1, 0.3):
        add(f"noise {b}", Whole(), Identity(), Noise(b=b, kind="corrected"))
    raw["data shuffling"] = shuffled(X, draws.child("data shuffling"))
    for name, (how, basis, operation) in FRONTIER.items():
        add(name, how, basis, operation)

    def pica(target: int) -> Floats:
        table, _ = combine(X, Spectral(target=target), Ica(per_group=True), Swap(), draws.child(f"auto {target}"))
        return decode(table)

    choice = auto_target(X, samples.first, pica, CANDIDATES, standardise=False)
    raw["pica auto"] = choice.release
    return Releases(raw, groups, choice, plain_rhs(X))


def shuffled(X: Floats, draws: Draws) -> Floats:
    """Data shuffling, of each variable as one column: the indicators of a category are one."""
    plain = [j for j in range(X.shape[1]) if not any(place.start <= j < place.stop for place in CATEGORIES)]
    columns = [np.unique(X[:, j], return_inverse=True) for j in plain]
    codes = np.column_stack(
        [*(place.reshape(-1) for _, place in columns), *(X[:, place].argmax(axis=1) for place in CATEGORIES)]
    )
    ordered = (True,) * len(plain) + (False,) * len(CATEGORIES)
    classes = ClassInfo(tuple(map(str, range(len(ordered)))), ordered, ())
    outcome = RankMatch().apply(codes, Partition.whole(len(X)), Records(draws, classes=classes))
    found = [column.codes for column in outcome.columns]
    table = np.full_like(X, -1.0)
    for j, (values, _), new in zip(plain, columns, found, strict=False):
        table[:, j] = values[new]
    for place, new in zip(CATEGORIES, found[len(plain) :], strict=True):
        table[np.arange(len(X)), place.start + new] = 1.0
    return table


def plain_rhs(X: Floats) -> tuple[float, float, float]:
    """Plain RHS: share of records alone, share in groups below k, and seconds."""
    start = time.perf_counter()
    groups = all_cuts(X, Partition.whole(len(X)), RHS_K)
    return small_share(groups, 2), small_share(groups, RHS_K), time.perf_counter() - start
