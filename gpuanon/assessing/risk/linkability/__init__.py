"""Linkability: does the release connect two sets of columns of the same person?

The attacker has two tables of the same people with different columns, and no key between them.  A person is linked when
the released record nearest on the first columns is the one nearest on the second; of several nearest records one is
taken at random on either side.  With T₁ and T₂ the sets of nearest records, the probability of a link is
|T₁ ∩ T₂| / (|T₁| |T₂|), which is computed.  The attack is made on original records and on control records [1]: see
`gpuanon.assessing.risk.residual`.

References
----------
.. [1] M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi (2023), A unified framework for quantifying privacy risk in
   synthetic data, PoPETs 2023(2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, like, namespace, on_device, to_host
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.measure import CONTROLLED, NAMES, NULL_IS_MARKED, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.assessing.risk.control_tables import attacked_tables, chosen_columns, features_of, targets_of
from gpuanon.assessing.risk.linkability.nearest_without import nearest_without
from gpuanon.assessing.risk.nearest_classes import counted, nearest_classes
from gpuanon.assessing.risk.prediction import EXACT_ROWS
from gpuanon.assessing.risk.residual import Attack
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.distance.distance import nearest_with_ties, paired
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.metric import tie_limit
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

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
        places = [[used.index(at) for at in splits[name][0]] for name in fine]
        for name, own, near in zip(fine, places, nearest_without(X[:, used], Z, places), strict=True):
            found[name] = _of(_linked_with(X[:, used], Z, own, *near), sides, len(Y)).risk
    return {name: found[name] if name in found else _attack(sides, Y, split).risk for name, split in splits.items()}


def _mostly_distinct(rows: Array) -> bool:
    return int(equal_rows(rows).max()) + 1 > 0.9 * len(rows)


def _linked_with(X: Array, Y: Array, own: Places, query: Array, row: Array) -> Array:
    """(q,) probability of a link with the rows of `Y` (query, row) that are nearest without the features `own`."""
    places = list(own)
    least, records = nearest_with_ties(X[:, places], Y[:, places])
    tied = paired(X[query][:, places], Y[row][:, places]) <= tie_limit(least)[query]
    shared, others = np.bincount(query, tied, minlength=len(X)), np.bincount(query, minlength=len(X))
    return shared / (records * others)


def linked(X: Array, Y: Array, split: tuple[Places, Places]) -> Array:
    """(q,) probability that the record nearest to each target on the first features is the nearest on the second."""
    xp = namespace(X)
    places = [like(np.asarray(side, dtype=np.int64), X) for side in split]
    first, second = (nearest_classes(X[:, at], Y[:, at]) for at in places)
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
    places = features_of(features)
    left, right = ([at for name in side for at in places[name]] for side in (first, second))
    return linkability(before, after, control, (left, right), columns=places, named=(first, second))


LINKABILITY = Measure(
    name="linkability", label="two halves of a person put together",
    sentence="For this share of people the release lets an attacker who has two halves of their data see that both"
    " belong to one person, beyond people who are not in it.",
    summary="share of people whose columns it links, beyond people not in the table",
    family="risk", range=SHARE, unit="person", applies=CONTROLLED, function=linkability, compute=_linkability,
    options={"first": NAMES, "second": NAMES}, arrays=None, weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED,
    scaling="whole", source="Giomi et al. 2023; ours", long=1,
)  # fmt: skip
