"""Singling out: do predicates that hold for one released record hold for exactly one person of the table?

The attacker reads predicates off the release that exactly one released record meets, and guesses that exactly one
original does [1, 2]:

one column      : a value that occurs once; the smallest or the largest number
several columns : some columns of a released record: a category as it is, a number at least or at most as large,
                  whichever is the smaller side of the median

A predicate that holds for one person in N has this success with probability 1/e in any sample of N people.  So the
same predicates are tried on control records: see `controlled_attacks`.  The larger of the tables is
thinned to the size of the other: of a predicate that K of n records meet, the probability that exactly one record of a
random sample of s meets it is K · C(n − K, s − 1) / C(n, s).

References
----------
.. [1] A. Cohen, K. Nissim (2020), Towards formalizing the GDPR's notion of singling out, PNAS 117(15).
.. [2] M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi (2023), A unified framework for quantifying privacy risk in
   synthetic data, PoPETs 2023(2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.rng import Key
from gpuanon.arrays.threads import each
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.measure import CONTROLLED, NAMES, RISK_OF_RECORDS, SHARE, WHOLE, Measure
from gpuanon.assessing.risk.controlled_attacks import Attack, attacked_tables, chosen_columns, values_of
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


ATTACKS = 1000
"""Predicates of each kind, at most: shares are right to ±3 per cent."""

SIZE = 3
"""Columns of a predicate of several columns."""

_PUBLIC = Key(b"the predicates of a measure are no secret")
_TRIES = 16  # predicates that are tried for each one that is wanted
_TOGETHER = 64  # predicates that a thread counts at a time
_SOME = 4096  # records on which most predicates that hold for many are given up
_NULL, _LEAST, _MOST = -np.inf, -1e300, np.inf  # a null is below every number


@dataclass(frozen=True, eq=False)
class Predicates:
    """Predicates: the column ``columns[i, j]`` lies between ``low[i, j]`` and ``high[i, j]``, for every j."""

    columns: Host
    low: Host
    high: Host

    def take(self, chosen: Host) -> Predicates:
        """Some of them."""
        return Predicates(self.columns[chosen], self.low[chosen], self.high[chosen])

    def counts(self, V: Ordered) -> Host:
        """(p,) records of a table that meet each predicate.

        Cost : two searches per condition, and a look at the records that meet the rarest condition of a predicate.
        """
        if not len(self.low):
            return np.zeros(0, dtype=np.int64)
        first, last = V.within(self.columns, self.low, self.high)
        rarest = np.argsort(last - first, axis=1, kind="stable")

        def one(i: int) -> int:
            j, *others = rarest[i]
            rows = V.rows(self.columns[i, j], first[i, j], last[i, j])
            for j in others:
                values = V.values[self.columns[i, j]][rows]
                rows = rows[(self.low[i, j] <= values) & (self.high[i, j] >= values)]
            return len(rows)

        def some(part: slice) -> list[int]:
            return [one(i) for i in range(part.start, part.stop)]

        return np.array([count for part in each(some, ranges(len(self.low), _TOGETHER)) for count in part])


@dataclass(frozen=True, eq=False)
class Ordered:
    """The columns of a table, each with the order of its values.

    values : (d, n) the columns
    order  : (d, n) the records by the values of each column
    """

    values: Host
    order: Host

    @classmethod
    def of(cls, V: Host) -> Ordered:
        """The columns of `V` (n, d)."""
        values = np.ascontiguousarray(V.T)
        order = each(lambda column: np.argsort(column).astype(np.int32), list(values))  # ties in any order
        return cls(values, np.stack(order))

    @property
    def n(self) -> int:
        """Records of the table."""
        return int(self.values.shape[1])

    def within(self, columns: Host, low: Host, high: Host) -> tuple[Host, Host]:
        """Places in the order of each column where the values between `low` and `high` begin and end."""
        first, last = np.empty(columns.shape, dtype=np.int64), np.empty(columns.shape, dtype=np.int64)
        for j, (values, order) in enumerate(zip(self.values, self.order, strict=True)):
            chosen = columns == j
            if chosen.any():
                ordered = values[order]
                first[chosen] = np.searchsorted(ordered, low[chosen], side="left")
                last[chosen] = np.searchsorted(ordered, high[chosen], side="right")
        return first, np.maximum(first, last)

    def rows(self, column: int, first: int, last: int) -> Host:
        """The records at these places in the order of a column."""
        return self.order[column, first:last]


def singling_out(
    original: Host,
    release: Host,
    control: Host,
    *,
    categorical: Sequence[bool],
    names: Names = None,
    size: int = SIZE,
    attacks: int = ATTACKS,
) -> Measured:
    """Risk that a predicate read off the release singles out a person of the table; of one column or of several.

    Parameters
    ----------
    original, release, control : (n, d) numbers, and codes of categories that are common to all; NaN for null
    categorical : per column whether its values are codes
    size        : columns of a predicate of several columns, at most
    attacks     : predicates of each kind, at most: per column, and of several columns

    Beside it: the shares of predicates that single out in both tables, and of predicates whose values come from
    different released records.  No predicate, no risk: k equal released records are singled out by none.

    Cost : a sort of each column; for a predicate of several columns a look at the records that meet its rarest
        condition.
    """
    if min(len(original), len(release), len(control)) == 0:
        raise ParameterError("original, release and control need at least one record each")
    if len(categorical) != original.shape[1]:
        raise ParameterError("categorical: one flag per column is needed")
    tables = [np.where(np.isnan(side), _NULL, side) for side in (original, release, control)]
    flags = np.asarray(categorical, dtype=bool)
    alone = each(
        lambda j: _one_column([side[:, j] for side in tables], bool(flags[j]), attacks), list(range(len(flags)))
    )
    columns = column_names(names, len(flags))
    by_column = {name: None if one is None else one.risk for name, one in zip(columns, alone, strict=True)}
    kinds = {"one column": _pooled([one for one in alone if one is not None])}
    if len(flags) > 1:
        kinds["several columns"] = _several(tables, flags, min(size, len(flags)), attacks)
    return _figure(kinds, by_column)


def _figure(kinds: dict[str, Attack | None], by_column: dict[str, float | None]) -> Measured:
    """The figure from the attack of each kind; None where no predicate was found."""
    found = {name: attack for name, attack in kinds.items() if attack is not None}
    risks = {name: attack.risk for name, attack in found.items()}
    details: dict[str, Figure] = {}
    for word in ("success", "control", "naive", "targets"):
        details["predicates" if word == "targets" else word + "_by_kind"] = {
            name: getattr(attack, word) for name, attack in found.items()
        }
    part = By("column", by_column)
    known = {name: risk for name, risk in risks.items() if risk is not None}
    if not found:
        note = "no predicate holds for exactly one released record"
        return Measured(0.0, {"predicates": 0}, note, (part,))
    if not known:
        raise InputError("singling_out: not defined, every predicate singles out a control record")
    worst = max(known, key=lambda name: known[name])
    attack = found[worst]
    return Measured(
        known[worst],
        details,
        parts=(part, By("kind", {name: risks.get(name) for name in kinds})),
        interval=attack.interval(len(known)),
        beside=(
            Beside("success", "predicates that single out", attack.success),
            Beside("control", "of people not in the table", attack.control),
            Beside("naive", "values of different records", attack.naive),
        ),
    )


def _one_column(sides: Sequence[Host], category: bool, attacks: int) -> Attack | None:
    """Values that occur once in the release, and its extremes."""
    x, y, c = sides
    values, counts = np.unique(y, return_counts=True)
    low = high = values[counts == 1]
    if not category:
        once = (counts == 1) & (values > _NULL)
        least, most = once & (np.cumsum(values > _NULL) == 1), once & (np.arange(len(values)) == len(values) - 1)
        low = np.concatenate([low, np.full(int(least.sum()), _LEAST), values[most]])
        high = np.concatenate([high, values[least], np.full(int(most.sum()), _MOST)])
    if not len(low):
        return None
    chosen = sample_rows(len(low), attacks, "predicates of one column")
    low, high = low[chosen], high[chosen]
    ordered, control = np.sort(x), np.sort(c)
    within = [
        np.searchsorted(side, high, side="right") - np.searchsorted(side, low, side="left")
        for side in (ordered, control)
    ]
    drawn = y[(_PUBLIC.draws(np.arange(len(low)), "naive").uniform()[:, 0] * len(y)).astype(np.int64)]
    guessed = np.searchsorted(ordered, drawn, side="right") - np.searchsorted(ordered, drawn, side="left")
    return _attack(within[0], len(x), within[1], len(c), guessed)


def _several(tables: Sequence[Host], categorical: Host, size: int, attacks: int) -> Attack | None:
    """Predicates of several columns that one released record meets."""
    V, W, C = tables
    columns, rows = _drawn(len(W), len(categorical), size, _TRIES * attacks)
    numbers = np.where(W > _NULL, W, np.nan)
    there = ~np.isnan(numbers).all(axis=0)
    medians = np.full(W.shape[1], np.inf)
    medians[there] = np.nanmedian(numbers[:, there], axis=0)
    tried = _from(W[rows[:, :1], columns], columns, medians, categorical)
    _, first = np.unique(np.concatenate([columns, tried.low, tried.high], axis=1), axis=0, return_index=True)
    tried = tried.take(np.sort(first))
    ordered = Ordered.of(W)
    found = _unique(tried, ordered, Ordered.of(W[sample_rows(len(W), _SOME, "predicates")]), attacks)
    count = len(found.low)
    if not count:
        return None
    mixed = _from(W[rows[:count, :size], columns[:count]], columns[:count], medians, categorical)
    del ordered
    own = Ordered.of(V)
    guessed, inside = mixed.counts(own), found.counts(own)
    del own
    return _attack(inside, len(V), found.counts(Ordered.of(C)), len(C), guessed)


def _unique(tried: Predicates, W: Ordered, some: Ordered, attacks: int) -> Predicates:
    """The first `attacks` predicates that one record meets; most that hold for many are given up on `some` records."""
    found: list[Host] = []
    step = 2 * attacks
    for at in range(0, len(tried.low), step):
        chosen = np.arange(at, min(at + step, len(tried.low)))
        chosen = chosen[tried.take(chosen).counts(some) <= 1]
        found.append(chosen[tried.take(chosen).counts(W) == 1])
        if sum(map(len, found)) >= attacks:
            break
    return tried.take(np.concatenate(found)[:attacks])


def _drawn(m: int, d: int, size: int, count: int) -> tuple[Host, Host]:
    """(count, size) different columns, in order, and released records, of each predicate that is tried."""
    draws = _PUBLIC.draws(np.arange(count), "several columns")
    columns = np.sort(np.argsort(draws.child("columns").uniform(d), axis=1)[:, :size], axis=1)
    return columns, (draws.child("rows").uniform(size) * m).astype(np.int64)


def _from(values: Host, columns: Host, medians: Host, categorical: Host) -> Predicates:
    """The predicates that these values (p, size) give."""
    equal = categorical[columns] | (values == _NULL)
    above = values > medians[columns]
    return Predicates(
        columns,
        np.where(equal | above, values, _LEAST),
        np.where(equal | ~above, values, _MOST),
    )


def _attack(own: Host, n: int, control: Host, c: int, naive: Host) -> Attack:
    """From the records that meet each predicate, at the size of the smaller table."""
    s = min(n, c)
    one, other, guess = (float(_exactly_one(K, rows, s).mean()) for K, rows in ((own, n), (control, c), (naive, n)))
    return Attack(one, other, guess, len(own), len(own), s / n)


def _exactly_one(K: Host, n: int, s: int) -> Host:
    """Probability that exactly one of K of n records is in a random sample of s."""
    from scipy.stats import hypergeom

    if s == n:
        return np.asarray(K == 1, dtype=np.float64)
    levels, places = np.unique(K, return_inverse=True)
    return np.asarray(hypergeom.pmf(1, n, levels, s))[places.reshape(-1)]


def _pooled(attacks: Sequence[Attack]) -> Attack | None:
    """All predicates of one column together; None without any."""
    if not attacks:
        return None
    counts = np.array([one.targets for one in attacks], dtype=np.float64)
    shares = np.array([[one.success, one.control, one.naive] for one in attacks])
    total = int(counts.sum())
    own, control, naive = (float(value) for value in counts @ shares / total)
    return Attack(own, control, naive, total, total, attacks[0].ceiling)


def _singling_out(c: Comparison, columns: list[str] | None = None, **options: Any) -> Measured:
    """Of all compared columns, or of named ones."""
    names = chosen_columns(c, columns, "columns")
    (before, after, control), coded = values_of(c, names, attacked_tables(c))
    return singling_out(before, after, control, categorical=coded, names=names, **options)


SINGLING_OUT = Measure(
    name="singling_out", label="people singled out by a description read off the release",
    sentence="This share of the descriptions that an attacker reads off the release fits exactly one person in the"
    " table, beyond what fits people who are not in it.",
    summary="share of predicates that single out people, beyond people not in the table",
    family="risk", range=SHARE,
    usual="0: no more than for people who are not in the table",
    unit="person",
    records="its predicates are tried on the released records",
    applies=CONTROLLED, function=singling_out, compute=_singling_out,
    options={"columns": NAMES, "size": WHOLE, "attacks": WHOLE}, arrays=None, weights=RISK_OF_RECORDS,
    nulls="a description may say that a value is missing", scaling="whole",
    host="a few thousand predicates over ranges and levels of the table itself; most are given up on 4 096 records",
    source="Giomi et al. 2023; ours", long=0.8,
)  # fmt: skip
