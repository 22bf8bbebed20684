"""Reidentification risk: how often an attacker who knows the quasi-identifiers finds the right released record.

Each original record is matched with the released record at the smallest Euclidean distance on the quasi-identifiers;
among ties one is chosen at random; a hit is the record's own release (section 4.3 of [1]).  The expected hit rate of
a release is computed exactly, record by record: the share of the ties that are the record's own.

The same attack on the unmasked table stands beside it: where many records share their values it is far below 1
already, and a comparison with 1/k alone says little.

References
----------
.. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity, Stat. Anal. Data Min.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, to_host
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.threads import each, thread_count
from gpuanon.assessing.figures import Beside, Distribution, Figure, Interval, Measured, join
from gpuanon.assessing.risk.prediction import EXACT_ROWS, Prediction
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance import k_nearest
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.sampling import sample_rows

Floats = np.ndarray[Any, Any]

_SAME = 1 + 1e-12  # squared distances this close are ties: rounding must not break them
_TREE_COLUMNS = 7  # up to so many columns of many values a k-d tree is faster than bounds on blocks
_FEW_VALUES = 32  # indicators of categories and the like: a tree cuts them away at once
_QUERIES = 1 << 13


@dataclass(frozen=True, eq=False)
class Hits:
    """The attack, record by record.

    rows      : (s,) the original records that were attacked: all, or a repeatable random sample
    values    : (s,) probability that each is matched with its own release
    originals : original records, of which `rows` are all or a sample
    """

    rows: Floats
    values: Floats
    originals: int

    @property
    def note(self) -> str | None:
        """Whether a sample was taken, and its error."""
        if len(self.rows) == self.originals:
            return None
        error = 1.96 * float(self.values.std() / np.sqrt(len(self.rows)))
        return (
            f"a random sample of {len(self.rows)} of {self.originals} original records was attacked: "
            f"right to ±{error:.4f} (95 %)"
        )


def reidentification(
    X: Array, Y: Array, link: Array, *, unmasked: Array | None = None, hits: Hits | None = None
) -> Measured:
    """Expected share of originals whose nearest released record is their own.

    Parameters
    ----------
    X : (n, d) quasi-identifiers of the original records, encoded
    Y : (m, d) those of the released records, encoded alike
    link : (m,) original row of each released row, −1 for an added row
    unmasked : (n,) hit probability of each record when the table is released as it is; None when `X` is the whole
        table, and not a sample of its rows
    hits : of `attacked`, computed before

    Returns
    -------
    Measured
        With the value: its standard error over records (taken as independent) and 95 % interval, the distribution over
        original records, the same attack on the unmasked table, and a blind guess.
    """
    hits = attacked(X, Y, link) if hits is None else hits
    n, value = len(hits.values), float(hits.values.mean())
    error = float(hits.values.std() / np.sqrt(n))
    baseline = float((unmasked_probabilities(X) if unmasked is None else to_host(unmasked)).mean())
    details: dict[str, Figure] = {"standard_error": error, "records": n}
    return Measured(
        value,
        details,
        join(hits.note, _note(baseline)),
        parts=(Distribution.over("original records", hits.values),),
        interval=Interval(max(0.0, value - 1.96 * error), min(1.0, value + 1.96 * error)),
        beside=(Beside("unmasked", "unmasked", baseline), Beside("guess", "a blind guess", 1 / len(Y))),
    )


def reidentification_by_class(X: Array, Y: Array, link: Array, *, hits: Hits | None = None) -> Measured:
    """Expected hit rate by equivalence class of the original quasi-identifiers; the value is the mean over classes.

    A class counts once, however many records it has, so rare combinations weigh as much as common ones.  In one
    release a class of one record has a rate of 0 or 1 / ties: quantiles speak of this release, not of its method.
    Of a sample of the records, each counts by one over the size of its class, and there are no quantiles.
    """
    hits = attacked(X, Y, link) if hits is None else hits
    classes = equal_rows(to_host(X))
    sizes = np.bincount(classes)
    details: dict[str, Figure] = {"classes": len(sizes)}
    parts: tuple[Distribution, ...] = ()
    if len(hits.rows) == hits.originals:
        rates = np.bincount(classes, hits.values) / sizes
        value, error = float(rates.mean()), float(rates.std() / np.sqrt(len(rates)))
        parts = (Distribution.over("classes of equal originals", rates),)
    else:
        share = 1 / sizes[classes[hits.rows]]
        value = float(np.average(hits.values, weights=share))
        error = float(np.sqrt((share**2 * (hits.values - value) ** 2).sum()) / share.sum())
    return Measured(
        value,
        {"standard_error": error, **details},
        join(hits.note, _note(float((1 / sizes[classes]).mean()))),
        parts=parts,
        beside=(Beside("unmasked", "unmasked", float((1 / sizes).mean())),),
    )


def attacked(X: Array, Y: Array, link: Array, *, prediction: Prediction | None = None, limit: int = EXACT_ROWS) -> Hits:
    """The attack on every original, or on a repeatable random sample of ``limit² / m`` of them.

    A sample is taken of more than `limit` rows with so many columns of many values that nearly all distances have to be
    looked at.

    prediction : of the same tables, whose search is used
    """
    X, Y, link = (to_host(array) for array in (X, Y, link))
    _check(X, Y, link)
    few = _many_valued(Y) <= _TREE_COLUMNS
    if prediction is not None and not few:
        return Hits(to_host(prediction.rows), _hits_of(X, Y, link, prediction), len(X))
    if few or max(len(X), len(Y)) <= limit:
        return Hits(np.arange(len(X)), hit_probabilities(X, Y, link), len(X))
    rows = sample_rows(len(X), max(1, limit**2 // len(Y)), "prediction")
    return Hits(rows, hit_probabilities(X[rows], Y, place_in(rows, link)), len(X))


def place_in(rows: Floats, link: Floats) -> Floats:
    """(m,) where the original of each released row stands in `rows`, ascending; −1 where it does not."""
    place = np.minimum(np.searchsorted(rows, link), len(rows) - 1)
    return np.where(rows[place] == link, place, -1)


def _hits_of(X: Floats, Y: Floats, link: Floats, prediction: Prediction) -> Floats:
    """Hit probabilities from the nearest records that were found before; ties beyond them are searched."""
    rows, near = to_host(prediction.rows), to_host(prediction.near)
    tied = near <= near[:, :1] * _SAME
    ties = np.where(near[:, 0] == 0, to_host(prediction.ties), tied.sum(axis=1))
    mates = place_in(rows, link)
    released = np.flatnonzero(mates >= 0)
    mine = mates[released]
    hit = _squared(X[rows[mine]], Y[released]) <= near[mine, 0] * _SAME
    hits = np.bincount(mine[hit], 1 / ties[mine[hit]], minlength=len(rows))
    unsure = np.flatnonzero(tied.all(axis=1) & (near[:, 0] > 0) & (hits > 0))
    if len(unsure):
        hits[unsure] = hit_probabilities(X[rows[unsure]], Y, place_in(rows[unsure], link))
    return np.asarray(hits)


def hit_probabilities(X: Array, Y: Array, link: Array) -> Floats:
    """(n,) probability that each original record is matched with its own release (0 where it was not released).

    Equal rows are searched once; the rest is one search for the two nearest distinct rows, and a count of the ties
    where the two are equally near: in a k-d tree, and with more than 7 columns of many values by bounds on blocks.
    """
    X, Y, link = (to_host(array) for array in (X, Y, link))
    _check(X, Y, link)
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    classes = equal_rows(np.concatenate([X, Y]))
    of_x, of_y = classes[: len(X)], classes[len(X) :]
    released = np.bincount(of_y, minlength=int(classes.max()) + 1)
    nearest, ties = _nearest_classes(X, of_x, Y, of_y, released)
    rows = np.flatnonzero(link >= 0)
    mine = link[rows]
    hit = _squared(X[mine], Y[rows]) <= nearest[of_x[mine]] * _SAME
    return np.bincount(mine[hit], 1 / ties[of_x[mine[hit]]], minlength=len(X))


def unmasked_probabilities(X: Array) -> Floats:
    """(n,) hit probability of each record when the table is released as it is: one over the size of its class."""
    classes = equal_rows(to_host(X))
    return np.asarray(1 / np.bincount(classes)[classes])


def permuted_probabilities(X: Array, groups: Partition) -> Floats:
    """(n,) hit probability of each record, in expectation over all permutations inside the groups.

    Every value of the table is in the release, as often as in the table, so the ties of a record are its class, of
    n(x) records; its own release holds its value with probability n_ℓ(x) / n_ℓ, the value's share of its group ℓ:
    ``n_ℓ(x) / (n_ℓ n(x))``.
    """
    classes = equal_rows(to_host(X))
    labels = to_host(groups.labels())
    in_group = equal_rows(np.stack([labels, classes], axis=1))
    share = np.bincount(in_group)[in_group] / np.bincount(labels)[labels]
    return np.asarray(share / np.bincount(classes)[classes])


def class_means(X: Array, hits: Floats) -> Floats:
    """(classes,) mean of `hits` over the records of each equivalence class of `X`."""
    classes = equal_rows(to_host(X))
    return np.asarray(np.bincount(classes, hits) / np.bincount(classes))


def _nearest_classes(X: Floats, of_x: Floats, Y: Floats, of_y: Floats, released: Floats) -> tuple[Floats, Floats]:
    """(classes,) squared distance from the rows of a class to the nearest released row, and the rows that near."""
    nearest, ties = np.zeros(len(released)), released.astype(np.float64)
    first_x = _first(of_x)
    seek = first_x[released[of_x[first_x]] == 0]  # classes whose own values were released have their match at 0
    if len(seek):
        first_y = _first(of_y)
        search = _tree_search if _many_valued(Y[first_y]) <= _TREE_COLUMNS else _block_search
        nearest[of_x[seek]], ties[of_x[seek]] = search(X[seek], Y[first_y], released[of_y[first_y]])
    return nearest, ties


def _many_valued(rows: Floats) -> int:
    """Number of columns with more than a few values, judged by some thousand rows."""
    some = rows[:: max(1, len(rows) // 4096)]
    return sum(len(np.unique(column)) > _FEW_VALUES for column in some.T)


def _tree_search(queries: Floats, rows: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Squared distance of each query to its nearest row, and the summed counts of the rows that near."""
    from scipy.spatial import cKDTree

    tree = cKDTree(rows, balanced_tree=False, compact_nodes=False)
    near = min(2, len(rows))
    _, index = tree.query(queries, k=[1, 2][:near], workers=thread_count())
    squared = np.stack([_squared(queries, rows[index[:, c]]) for c in range(near)], axis=1)
    order = np.argsort(squared, axis=1, kind="stable")
    squared, index = np.take_along_axis(squared, order, 1), np.take_along_axis(index, order, 1)
    least = squared[:, 0]
    ties = counts[index[:, 0]].astype(np.float64)
    tied = np.flatnonzero(squared[:, -1] <= least * _SAME) if near == 2 else np.empty(0, dtype=np.int64)
    for at in range(0, len(tied), _QUERIES):
        some = tied[at : at + _QUERIES]
        # A ball a little larger than the distance, then the distances themselves.
        found = tree.query_ball_point(queries[some], np.sqrt(least[some]) * (1 + 1e-9), workers=thread_count())
        lengths = np.array([len(members) for members in found])
        query, members = np.repeat(some, lengths), np.concatenate([np.asarray(m, dtype=np.int64) for m in found])
        same = _squared(queries[query], rows[members]) <= least[query] * _SAME
        ties[some] = np.bincount(np.repeat(np.arange(len(some)), lengths), counts[members] * same)
    return least, ties


def _block_search(queries: Floats, rows: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """The same by bounds on blocks; ties by all distances."""
    index = k_nearest(queries, rows, min(2, len(rows)))[1]
    squared = np.stack([_squared(queries, rows[column]) for column in index.T], axis=1)
    least, ties = squared.min(axis=1), counts[index[np.arange(len(index)), squared.argmin(axis=1)]].astype(np.float64)
    tied = np.flatnonzero(squared.max(axis=1) <= least * _SAME) if len(rows) > 1 else np.empty(0, dtype=np.int64)
    if len(tied):
        ties[tied] = _full_search(queries[tied], rows, counts)[1]
    return least, ties


def _full_search(queries: Floats, rows: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """The same by all distances, in tiles."""
    step = max(1, (1 << 22) // len(rows))

    def some(at: int) -> tuple[Floats, Floats]:
        tile = queries[at : at + step]
        squared = np.zeros((len(tile), len(rows)))
        for j in range(rows.shape[1]):
            squared += (tile[:, j : j + 1] - rows[:, j]) ** 2
        least = squared.min(axis=1)
        return least, (squared <= least[:, None] * _SAME) @ counts.astype(np.float64)

    least, ties = zip(*each(some, range(0, len(queries), step)), strict=True)
    return np.concatenate(least), np.concatenate(ties)


def _squared(A: Floats, B: Floats) -> Floats:
    """Squared distances row by row, from differences."""
    return np.asarray(np.einsum("ij,ij->i", A - B, A - B))


def _first(classes: Floats) -> Floats:
    """One row of each class that occurs."""
    return np.unique(classes, return_index=True)[1]


def _check(X: Floats, Y: Floats, link: Floats) -> None:
    """Refuse tables that do not fit together."""
    if len(X) == 0 or len(Y) == 0:
        raise ParameterError("reidentification: original and release need at least one record each")
    if X.shape[1] != Y.shape[1]:
        raise ParameterError(f"columns: both tables need the same number, got {X.shape[1]} and {Y.shape[1]}")
    if len(link) != len(Y):
        raise ParameterError(f"link: one entry per released row is needed ({len(Y)}), got {len(link)}")
    if not (np.isfinite(X).all() and np.isfinite(Y).all()):
        raise ParameterError("columns: distances need finite numbers", hint="encode or fill missing values first")


def _note(unmasked: float) -> str | None:
    """How to read a rate on columns that identify few records in the first place."""
    if unmasked > 0.5:
        return None
    return f"the unmasked table itself gives {unmasked:.3g}: compare with that as well as with 1/k"
