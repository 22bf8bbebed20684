"""All columns of added rows, one after the other: each given the known columns and those that were filled before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Backend, Host, choose
from gpuanon.arrays.rng import Draws
from gpuanon.masking.operations.pad.calibration import ColumnTilt, KeptStatistics, Populations, column_tilt
from gpuanon.masking.operations.pad.fill_columns import Response
from gpuanon.masking.operations.pad.fill_models import (
    boosting,
    device_forests,
    forest,
    hierarchical,
    matched,
    network,
    tree,
)
from gpuanon.masking.operations.pad.parametric import parts_model

Kind: TypeAlias = Literal[
    "marginal", "marginal-mean", "regression", "beta", "tree", "forest", "bagging", "boosting", "network",
    "hierarchical",
]  # fmt: skip
"""Models that are fitted to a sample of the records."""

HOST = choose("numpy")

CANDIDATES = 32
"""Draws of each row that a calibration chooses from."""

_HALVED = 1000  # rows from which predictions are matched on rows that the model was not fitted to
_AVERAGED = 5  # draws that marginal-mean averages, as the source does


class ColumnModel(Protocol):
    """The distribution of one column, given others."""

    def given(self, X: Host) -> Callable[[Host], Host]:
        """Draws for the rows of the known columns `X` (m, c): from uniform numbers (m, 2 or more) to values (m,)."""


@dataclass(frozen=True, eq=False, repr=False)
class Marginal:
    """Values of random rows, whatever is known; the mean of several for numbers, if asked for."""

    values: Host
    averaged: int = 1

    def given(self, X: Host) -> Callable[[Host], Host]:
        """Whatever the known columns: from uniform numbers (m, 5) to values (m,)."""
        return self._draw

    def _draw(self, u: Host) -> Host:
        drawn = self.values[(u[:, : self.averaged] * len(self.values)).astype(np.int64)]
        known = ~np.isnan(drawn)
        count = known.sum(axis=1)
        total = np.where(known, drawn, 0.0).sum(axis=1)
        return np.asarray(np.divide(total, count, out=np.full(len(u), np.nan), where=count > 0))


@dataclass(frozen=True)
class Settings:
    """How the models are fitted.

    leaf  : records that share a leaf, at least
    depth : of a tree, at most; None for no limit
    trees : of a forest
    backend : of the run; forests are grown on its device
    """

    kind: Kind
    leaf: int = 50
    depth: int | None = None
    trees: int = 25
    backend: Backend = HOST

    @property
    def on_device(self) -> bool:
        """Whether the models are fitted on a device."""
        return self.backend.name != "numpy" and self.kind in ("forest", "bagging")


def fit_column(X: Host, levels: Sequence[int], response: Response, settings: Settings, seed: int) -> ColumnModel:
    """The model of one column, fitted to known columns `X` (n, c) and the response (n,)."""
    kind, values = settings.kind, response.values
    if kind == "marginal" or len(values) < 2:
        return Marginal(values)
    if kind == "marginal-mean":
        return Marginal(values, 1 if response.levels else _AVERAGED)
    if kind in ("regression", "beta"):
        return parts_model(X, levels, response, "beta" if kind == "beta" else "probit-gamma", seed)
    Y, known = response.outputs(), tuple(levels)
    if kind == "tree":
        return tree(X, known, values, Y, leaf=settings.leaf, depth=settings.depth, seed=seed)
    features = 5 if kind == "forest" else None
    if kind in ("forest", "bagging") and not settings.on_device:
        return forest(
            X, known, values, Y,
            leaf=settings.leaf, depth=settings.depth, trees=settings.trees, features=features, seed=seed,
        )  # fmt: skip
    fitted, rest = _halves(len(X), seed)
    score: Any
    if settings.on_device:
        score = device_forests(
            X[fitted], known, Y[fitted], settings.backend,
            leaf=settings.leaf, depth=settings.depth, trees=settings.trees, features=features, seed=seed,
        )  # fmt: skip
    elif kind == "boosting":
        score = boosting(X[fitted], known, Y[fitted], seed)
    elif kind == "network":
        score = network(X[fitted], known, Y[fitted], seed)
    else:
        score = hierarchical(X[fitted], known, Y[fitted])
    return matched(values[rest], score, score(X[rest]), Y[rest], leaf=settings.leaf, depth=settings.depth, seed=seed)


def _halves(n: int, seed: int) -> tuple[Host, Host]:
    """Rows that a model is fitted to, and rows that give values to others with a similar prediction.

    They differ, because a model predicts the rows that it was fitted to better than new ones; few rows do both.
    """
    if n < _HALVED:
        return np.arange(n), np.arange(n)
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


@dataclass(frozen=True, eq=False, repr=False)
class FillModel:
    """Models of all columns that are filled.

    known  : number of columns that are known in an added row
    order  : in which the others are filled, by their numbers from 0
    tilts  : for each of them how its draws are tilted; None for not at all
    on_device : whether its forests are on a device
    """

    known: int
    order: tuple[int, ...]
    models: tuple[ColumnModel, ...]
    responses: tuple[Response, ...]
    tilts: tuple[ColumnTilt | None, ...]
    on_device: bool = False

    def draw(self, known: Host, draws: Draws) -> Host:
        """(m, others) values of rows whose first columns are `known` (m, known): numbers or codes; NaN is a null."""
        values = np.column_stack([known, np.full((len(known), len(self.order)), np.nan)])
        for place, column in enumerate(self.order):
            at = self.known + column
            drawn = _drawn(self, place, values, draws.child(f"column {column}"))
            values[:, at] = drawn
        return values[:, self.known :]

    def seen(self, place: int) -> list[int]:
        """The columns that the model at `place` of the order sees."""
        return [*range(self.known), *(self.known + column for column in self.order[:place])]


def fit_sequence(
    records: Host,
    levels: Sequence[int],
    known: int,
    settings: Settings,
    draws: Draws,
    named: KeptStatistics | None = None,
    whole: Populations | None = None,
) -> FillModel:
    """Fit a model of every column but the first `known`, each given those before it in the order of filling.

    Columns are filled in their order; responses of named regressions after all others.

    Parameters
    ----------
    records : (n, columns) sampled records: numbers or codes of levels; NaN is a null
    levels  : for each column the number of its levels; 0 for numbers
    draws   : of the added rows in `whole`, and the key that seeds the models
    named   : statistics of the whole table that are to stay, with `whole`, what is known of it
    """
    last = {response - known for response, _ in named.regressions} if named else set()
    others = range(records.shape[1] - known)
    order = tuple(column for late in (False, True) for column in others if (column in last) == late)
    model = FillModel(known, order, (), (), (), settings.on_device)
    filled = None if whole is None else np.array(whole.added)
    for place, column in enumerate(order):
        at, seen = known + column, model.seen(place)
        seed = int(draws.key.derive(f"{draws.path}/model of column {column}")[0])
        response = Response(records[:, at], levels[at])
        fitted = fit_column(records[:, seen], [levels[j] for j in seen], response, settings, seed)
        model = replace(
            model,
            models=(*model.models, fitted),
            responses=(*model.responses, response),
            tilts=(*model.tilts, None),
        )
        if named is None or whole is None or filled is None or not len(filled):
            continue
        stream = draws.child(f"column {column}")
        if named.concerns(at):
            candidates = _candidates(model, place, filled, stream)
            tilted = column_tilt(named, at, Populations(records, filled, whole.rows, whole.rows_added), candidates)
            model = replace(model, tilts=(*model.tilts[:-1], tilted))
        filled[:, at] = _drawn(model, place, filled, stream)
    return model


def _drawn(model: FillModel, place: int, values: Host, draws: Draws) -> Host:
    """(m,) the column at `place` of the order, for rows of which `values` (m, columns) are known so far."""
    tilted = model.tilts[place]
    if tilted is not None and len(tilted.tilt.multipliers):
        candidates = _candidates(model, place, values, draws)
        return tilted.choose(candidates, values, draws.child("choice").uniform()[:, 0])
    return _smoothed(model, place, model.models[place].given(values[:, model.seen(place)]), draws)


def _candidates(model: FillModel, place: int, values: Host, draws: Draws) -> Host:
    """(m, c) independent draws of each row."""
    draw = model.models[place].given(values[:, model.seen(place)])
    return np.column_stack([_smoothed(model, place, draw, draws.child(str(c))) for c in range(CANDIDATES)])


def _smoothed(model: FillModel, place: int, draw: Callable[[Host], Host], draws: Draws) -> Host:
    """(m,) one draw of each row."""
    u = draws.uniform(_AVERAGED + 1)
    return model.responses[place].smoothed(draw(u), u[:, _AVERAGED])
