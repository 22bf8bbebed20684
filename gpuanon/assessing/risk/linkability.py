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

import numpy as np

from gpuanon.arrays.backend import Array, like, namespace, to_host
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.risk.nearest_classes import counted, nearest_classes
from gpuanon.assessing.risk.prediction import EXACT_ROWS
from gpuanon.assessing.risk.residual import Attack
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.sampling import sample_rows

TARGETS = 2000
"""People of either table who are attacked, at most: shares are right to ±2 per cent."""

LEAST = 500
"""Of these, so many or more for the risk of each column: right to ±4 per cent."""

PAIRS = EXACT_ROWS**2
"""Pairs of records that are looked at for the risks of all columns, at most, unless `LEAST` people need more."""

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

    Cost : two searches of the targets among all released records, and two per column.
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
    risks = {name: _attack(some, release, one).risk for name, one in splits.items()}
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
    both = linked(namespace(Y).concatenate(sides), Y, split)
    own, control = (float(to_host(side.mean())) for side in (both[: len(sides[0])], both[len(sides[0]) :]))
    return Attack(own, control, 1 / len(Y), len(sides[0]), len(sides[1]))


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
