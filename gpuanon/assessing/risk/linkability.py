"""Linkability: does the release connect two sets of columns of the same person?

The attacker has two tables of the same people with different columns, and no key between them.  A person is linked when
the released record nearest on the first columns is the one nearest on the second; of several nearest records one is
taken at random on either side.  With T₁ and T₂ the sets of nearest records, the probability of a link is
|T₁ ∩ T₂| / (|T₁| |T₂|), which is computed.  The attack is made on original records and on control records [1]: see
`gpuanon.assessing.risk.controlled_attacks`.

References
----------
.. [1] M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi (2023), A unified framework for quantifying privacy risk in
   synthetic data, PoPETs 2023(2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, on_device, to_host
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.threads import each
from gpuanon.assessing.columns import places
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.measure import CONTROLLED, NAMES, NULL_IS_MARKED, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.assessing.risk.controlled_attacks import (
    Attack,
    attacked_tables,
    chosen_columns,
    counted,
    nearest_classes,
    targets_of,
)
from gpuanon.assessing.risk.prediction import EXACT_ROWS
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.distance.distance import nearest_with_ties, paired
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.metric import tie_limit
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

_TILE = 256
_QUERIES = 512  # with a tile they fit a core's cache
_PIECE = 1 << 14  # rows that are scaled at a time
_PAIRS = 1 << 18  # distances from differences that are computed at a time
_LARGEST = 1e15  # squares of larger numbers, in units of the table, may overflow single precision


def nearest_without(X: Host, Y: Host, left_out: Sequence[Sequence[int]]) -> list[tuple[Host, Host]]:
    """For each set of features that is left out, pairs (query, row): the rows of `Y` nearest to each row of `X`.

    Rows that are tied with the nearest one are all there (`tie_limit`); queries ascend, and the rows of a query.

    One pass over the table: ``|x − y|²`` over all features is one product in single precision for a tile of rows and
    all queries; without the features of a column it is that less the column's own part.  Of each tile the smallest is
    kept, with a bound of its rounding error; the tiles that may hold the nearest row are then measured from
    differences.  So the result is exact, at about half a nanosecond per query, row and column.

    Parameters
    ----------
    X, Y : (q, d) and (m, d); memory is q · m / 64 bytes for each set
    left_out : features of each set, fewer than all
    """
    if not all(0 < len(set(out)) < Y.shape[1] for out in left_out):
        raise ParameterError("left_out: some of the features, not all")
    centre, pieces = Y.mean(axis=0), ranges(len(Y), _PIECE)
    radius = max(float(((Y[some] - centre) ** 2).sum(axis=1).max(initial=0.0)) for some in pieces) ** 0.5 or 1.0
    asked = (X - centre) / radius
    reach = 1 + np.sqrt((asked**2).sum(axis=1))
    if not bool((reach < _LARGEST).all()):
        raise ParameterError("X, Y: finite numbers of similar size are needed")
    asked32, points32 = asked.astype(np.float32), np.empty(Y.shape, dtype=np.float32)
    for some in pieces:
        points32[some] = (Y[some] - centre) / radius
    least = np.empty((len(left_out), -(-len(Y) // _TILE), len(X)), dtype=np.float32)

    def look(tiles: slice) -> None:
        for at in range(tiles.start, tiles.stop):
            _smallest(points32[at * _TILE : (at + 1) * _TILE], asked32, left_out, least[:, at])

    with one_blas_thread():
        each(look, ranges(least.shape[1], 64))
    # Rounding of both products, of the sums, and of the inputs, as in `distance_tiles`; and what ties may differ by.
    error = (2 * (3 * Y.shape[1] + 16) * 2.0**-24 * reach**2).astype(np.float32)
    return each(lambda number: _measured(X, Y, left_out[number], least[number], error), range(len(left_out)))


def _smallest(rows: Host, asked: Host, left_out: Sequence[Sequence[int]], out: Host) -> None:
    """(sets, q) the smallest ``|y|² − 2 x·y`` of a tile of rows, without each set of features."""
    squares = rows * rows
    for some in ranges(len(asked), _QUERIES):
        queries = asked[some]
        whole = rows @ (-2 * queries).T
        whole += squares.sum(axis=1)[:, None]
        part = np.empty_like(whole)
        for number, features in enumerate(left_out):
            chosen = list(features)
            if len(chosen) == 1:
                np.multiply(2 * rows[:, chosen], queries[:, chosen].T, out=part)
            else:
                np.matmul(2 * rows[:, chosen], queries[:, chosen].T, out=part)
            part += whole
            part -= squares[:, chosen].sum(axis=1)[:, None]
            part.min(axis=0, out=out[number, some])


def _measured(X: Host, Y: Host, left_out: Sequence[int], least: Host, error: Host) -> tuple[Host, Host]:
    """The nearest rows in the tiles that may hold them, by distances from differences."""
    kept = [j for j in range(Y.shape[1]) if j not in set(left_out)]
    query, tile = np.nonzero((least <= least.min(axis=0) + 2 * error).T)
    found = []
    step = max(1, _PAIRS // _TILE)
    pieces = []
    for some in ranges(len(query), step):
        row = tile[some, None] * _TILE + np.arange(_TILE)
        there = row < len(Y)
        row = np.minimum(row, len(Y) - 1)
        distance = np.zeros(row.shape)
        for j in kept:
            distance += (X[query[some], j][:, None] - Y[row, j]) ** 2
        distance[~there] = np.inf
        pieces.append((row, distance))
    smallest = np.full(len(X), np.inf)
    for some, (_, distance) in zip(ranges(len(query), step), pieces, strict=True):
        np.minimum.at(smallest, query[some], distance.min(axis=1))
    limit = tie_limit(smallest)
    for some, (row, distance) in zip(ranges(len(query), step), pieces, strict=True):
        pair, at = np.nonzero(distance <= limit[query[some]][:, None])
        found.append((query[some][pair], row[pair, at]))
    return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])


TARGETS = 2000
"""People of either table who are attacked, at most: shares are right to ±2 per cent."""

LEAST = 500
"""Of these, so many or more for the risk of each column: right to ±4 per cent."""

PAIRS = EXACT_ROWS**2
"""Pairs of records that are looked at for the risks of all columns, at most, unless `LEAST` people need more."""

_FEATURES = 16  # with more features a search looks at most records
_SOME = 4096  # released records by which it is seen whether most differ

Places = Sequence[int]
"""Features of the points."""


def linkability(
    original: Array,
    release: Array,
    control: Array,
    split: tuple[Places, Places],
    *,
    columns: Mapping[str, Places] | None = None,
    named: tuple[Sequence[str], Sequence[str]] | None = None,
    targets: int = TARGETS,
) -> Measured:
    """Risk that a person's two sets of columns are linked.

    Parameters
    ----------
    original, release, control : (n, d) points, encoded alike
    split   : features of the first and of the second set
    columns : features of each column; by column, it is linked with all the others of the split
    named   : names of the columns of the split, for the reader
    targets : people who are attacked in either table, at most; of more, a repeatable random sample

    Beside it: the shares linked in both tables, and by a record taken at random on either side.  Where the released
    records are very many, the risks by column are of fewer people, as a note says.

    Cost : two searches of the targets among all released records; one per column, and one pass for all columns.
    """
    if min(len(original), len(release), len(control)) == 0:
        raise ParameterError("original, release and control need at least one record each")
    if not (len(split[0]) and len(split[1])):
        raise ParameterError("split: at least one column on either side is needed")
    sides = [side[like(sample_rows(len(side), targets, "linkability"), side)] for side in (original, control)]
    attack = _attack(sides, release, split)
    if attack.risk is None:
        raise InputError("linkability: not defined, every control record is linked")
    used = [*split[0], *split[1]]
    splits = {
        name: (own, [at for at in used if at not in own])
        for name, own in (columns or {}).items()
        if 0 < len(own) < len(used)
    }
    fewer = max(LEAST, PAIRS // (2 * len(release) * max(len(splits), 1)))
    some = [side[like(sample_rows(len(side), fewer, "linkability"), side)] for side in sides]
    risks = _by_column(some, release, splits)
    note = None
    if splits and len(some[0]) < len(sides[0]):
        worst = 1.96 * float(np.sqrt(0.25 / len(some[0])))
        note = f"by column {len(some[0])} people of either table were attacked: shares right to ±{worst:.4f} (95 %)"
    details: dict[str, Figure] = {"records": attack.targets, "control_records": attack.controls}
    if named is not None:
        details |= {"first": list(named[0]), "second": list(named[1])}
    return Measured(
        attack.risk,
        details,
        note,
        parts=(By("column", risks),) if risks else (),
        interval=attack.interval(),
        beside=(
            Beside("success", "linked by the release", attack.success),
            Beside("control", "linked of people not in the table", attack.control),
            Beside("naive", "by records at random", attack.naive),
        ),
    )


def _attack(sides: list[Array], Y: Array, split: tuple[Places, Places]) -> Attack:
    """The attack on originals and control."""
    return _of(linked(namespace(Y).concatenate(sides), Y, split), sides, len(Y))


def _of(both: Array, sides: list[Array], records: int) -> Attack:
    """The attack from the probabilities of a link, of originals and control one after the other."""
    own, control = (float(to_host(side.mean())) for side in (both[: len(sides[0])], both[len(sides[0]) :]))
    return Attack(own, control, 1 / records, len(sides[0]), len(sides[1]))


def _by_column(sides: list[Array], Y: Array, splits: Mapping[str, tuple[Places, Places]]) -> dict[str, float | None]:
    """Risk of each column, which is linked with all the others.

    On the host one pass serves all columns that leave many features to the others, on which nearly every record
    differs from all others; otherwise a search for each leaves out most records.
    """
    some = Y[:: max(1, len(Y) // _SOME)]
    many = [] if on_device(Y) else [name for name, (_, rest) in splits.items() if len(rest) > _FEATURES]
    fine = [name for name in many if _mostly_distinct(some[:, list(splits[name][1])])]
    found: dict[str, float | None] = {}
    if fine:
        X = np.concatenate(sides)
        used = sorted({at for split in (splits[name] for name in fine) for side in split for at in side})
        Z = Y if used == list(range(Y.shape[1])) else np.ascontiguousarray(Y[:, used])
        positions = [[used.index(at) for at in splits[name][0]] for name in fine]
        for name, own, near in zip(fine, positions, nearest_without(X[:, used], Z, positions), strict=True):
            found[name] = _of(_linked_with(X[:, used], Z, own, *near), sides, len(Y)).risk
    return {name: found[name] if name in found else _attack(sides, Y, split).risk for name, split in splits.items()}


def _mostly_distinct(rows: Array) -> bool:
    return int(equal_rows(rows).max()) + 1 > 0.9 * len(rows)


def _linked_with(X: Array, Y: Array, own: Places, query: Array, row: Array) -> Array:
    """(q,) probability of a link with the rows of `Y` (query, row) that are nearest without the features `own`."""
    features = list(own)
    least, records = nearest_with_ties(X[:, features], Y[:, features])
    tied = paired(X[query][:, features], Y[row][:, features]) <= tie_limit(least)[query]
    shared, others = np.bincount(query, tied, minlength=len(X)), np.bincount(query, minlength=len(X))
    return shared / (records * others)


def linked(X: Array, Y: Array, split: tuple[Places, Places]) -> Array:
    """(q,) probability that the record nearest to each target on the first features is the nearest on the second."""
    xp = namespace(X)
    sides = [like(np.asarray(side, dtype=np.int64), X) for side in split]
    first, second = (nearest_classes(X[:, at], Y[:, at]) for at in sides)
    width = len(second.sizes)
    pairs = xp.sort(first.labels * width + second.labels)  # classes that a released record belongs to on both sides
    keys = first.index[:, :, None] * width + second.index[:, None, :]
    both = first.tied[:, :, None] & second.tied[:, None, :]
    shared = xp.where(both, counted(pairs, keys, keys + 1), 0).sum(axis=(1, 2))
    return shared / (first.records * second.records)


def _linkability(c: Comparison, first: list[str] | None = None, second: list[str] | None = None) -> Measured:
    """Of two named sets of columns; by default of two halves of the quasi-identifiers."""
    if (first is None) != (second is None):
        raise ParameterError("first, second: both are needed")
    if first is None or second is None:
        known = c.schema.quasi if len(c.schema.quasi) > 1 else chosen_columns(c, None, "columns", 2)
        first, second = list(known[: -(len(known) // 2)]), list(known[-(len(known) // 2) :])
    names = chosen_columns(c, [*first, *second], "first, second", 2)
    if set(first) & set(second):
        raise ParameterError("first, second: a column may stand on one side only")
    (before, after, control), features = c.points_alike(
        names, *targets_of(attacked_tables(c), TARGETS, "linkability")[0]
    )
    own = places(features)
    left, right = ([at for name in side for at in own[name]] for side in (first, second))
    return linkability(before, after, control, (left, right), columns=own, named=(first, second))


LINKABILITY = Measure(
    name="linkability", label="two halves of a person put together",
    sentence="For this share of people the release lets an attacker who has two halves of their data see that both"
    " belong to one person, beyond people who are not in it.",
    summary="share of people whose columns it links, beyond people not in the table",
    family="risk", range=SHARE,
    usual="0: no more than for people who are not in the table",
    unit="person",
    records="the released records that are near a person may be those of one other",
    applies=CONTROLLED, function=linkability, compute=_linkability,
    options={"first": NAMES, "second": NAMES}, arrays=None, weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED,
    scaling="whole", source="Giomi et al. 2023; ours", long=1,
)  # fmt: skip
