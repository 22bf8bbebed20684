"""Who is alone on few columns: people that one, two or three columns of a table single out.

A set of columns singles a person out if nobody else has these values together.  Whoever is alone on a set is alone on
every set that contains it, so sets of one column are counted first, then pairs, then triples, and a row whose class of
a pair holds one person takes no part in the triples with that pair.  All sets are counted over all rows where that is
affordable.  Of larger tables a random sample of the rows that nothing smaller singles out is compared with all rows:
a row is alone on a set if no row of another person agrees with it on the whole set.

Cost : exact, O(n) per set; of a sample, O(n · d) per row of it and less where its values are rare.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from gpuanon.arrays.threads import each

Host = np.ndarray[Any, Any]

MOST_COLUMNS = 3
EXACT_WORK = 4_000_000_000
"""Sets × rows that are counted exactly; beyond that the largest sets are judged on a sample of rows."""
SAMPLE_WORK = 30_000_000_000
"""Rows of the sample × rows × columns, about."""
_FEWEST, _FULLEST = 200, 2_000  # rows of a sample
_CLEAR = 0.006
"""Standard error from which on no further rows of a sample are compared."""
_FIRST = 4_096  # rows that cover most sets of a row
_LEADING = 8  # sets that are named


@dataclass(frozen=True, repr=False)
class Alone:
    """Who is alone on at most so many columns.

    people  : rows, or persons, of the table
    shares  : share of the people alone on at most 1, 2, … columns
    errors  : standard error of each share; 0 where all sets were counted over all rows
    sampled : rows that were compared with all rows; 0 where everything was counted
    leading : the sets of columns that single out most people by themselves, with the share, the worst first
    """

    people: int
    shares: tuple[float, ...]
    errors: tuple[float, ...]
    sampled: int
    leading: tuple[tuple[tuple[int, ...], float], ...]

    @property
    def share(self) -> float:
        """Share of the people alone on at most as many columns as were looked at."""
        return self.shares[-1] if self.shares else 0.0


def alone_on_few(
    codes: Host,
    persons: Host | None = None,
    most: int = MOST_COLUMNS,
    *,
    counted: Host | None = None,
    rng: np.random.Generator | None = None,
) -> Alone:
    """Share of the people who are alone on at most `most` columns.

    codes   : (n, d) whole numbers, equal for equal values of a column; a null is a value
    persons : (n,) whole numbers, equal for the rows of a person; None: each row is a person
    counted : (n,) whether a row is a person's at all; rows that are not stand beside people and protect them
    rng     : chooses the rows of a sample; by default the same rows for the same table
    """
    n = len(codes)
    who = None if persons is None else np.unique(persons, return_inverse=True)[1].reshape(-1)
    some = np.ones(n, dtype=bool) if counted is None else counted
    people = int(some.sum()) if who is None else len(np.unique(who[some]))
    if people == 0 or codes.shape[1] == 0:
        return Alone(people, (0.0,) * most, (0.0,) * most, 0, ())
    numbered = each(lambda at: _numbered(codes[:, at]), range(codes.shape[1]))
    kept = _different(numbered)
    columns = [numbered[at] for at in kept]
    search = _Search(columns, who, people, some)
    shares: list[float] = []
    errors: list[float] = []
    sampled = 0
    for size in range(1, most + 1):
        if size > len(columns):
            shares, errors = [*shares, shares[-1]], [*errors, errors[-1]]
        elif comb(len(columns), size) * n <= EXACT_WORK or size == 1:
            search.count(size)
            shares, errors = [*shares, search.share], [*errors, 0.0]
        else:
            share, error, sampled = search.estimate(size, rng or np.random.default_rng(len(columns) * 1_000_003 + n))
            shares, errors = [*shares, share], [*errors, error]
    leading = tuple((tuple(kept[at] for at in names), share) for names, share in search.leading)
    return Alone(people, tuple(shares), tuple(errors), sampled, leading)


def _numbered(values: Host) -> Host:
    """(n,) int32: the values of a column, numbered by their first row, so that columns that are equal are equal."""
    codes, levels = _dense(values - values.min(), int(values.max() - values.min()) + 1)
    first = np.empty(levels, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    order = np.empty(levels, dtype=np.int32)
    order[np.argsort(first)] = np.arange(levels, dtype=np.int32)
    return order[codes]


def _different(columns: Sequence[Host]) -> list[int]:
    """Columns with several values; of columns that determine each other the first."""
    seen: set[bytes] = set()
    found: list[int] = []
    for at, column in enumerate(columns):
        digest = hashlib.blake2b(column.tobytes()).digest()
        if column.any() and digest not in seen:
            seen.add(digest)
            found.append(at)
    return found or [0]


class _Search:
    """The rows that were found to be alone, set by set."""

    def __init__(self, columns: Sequence[Host], who: Host | None, people: int, counted: Host) -> None:
        self._columns, self._who, self._people, self._counted = columns, who, people, counted
        self._levels = [int(column.max()) + 1 for column in columns]
        self._alone = np.zeros(len(columns[0]), dtype=bool)
        self._sets: list[tuple[tuple[int, ...], int]] = []

    @property
    def share(self) -> float:
        """Share of the people who are alone on a set that was counted."""
        return self._people_in(self._alone) / self._people

    @property
    def leading(self) -> list[tuple[tuple[int, ...], float]]:
        """The sets that single out most people, the worst first."""
        worst = sorted(self._sets, key=lambda found: (-found[1], len(found[0]), found[0]))[:_LEADING]
        return [(names, count / self._people) for names, count in worst if count]

    def _people_in(self, rows: Host) -> int:
        if self._who is None:
            return int(rows.sum())
        return len(np.unique(self._who[rows]))

    def count(self, size: int) -> None:
        """Count all sets of this size over all rows."""
        if size <= 2:
            tasks: Iterator[tuple[int, ...]] = combinations(range(len(self._columns)), size)
            found = each(self._on_one, list(tasks))
        else:
            pairs = list(combinations(range(len(self._columns)), size - 1))
            found = [one for some in each(self._beyond, pairs) for one in some]
        for names, rows in found:
            rows = rows[self._counted[rows]]
            self._alone[rows] = True
            self._sets.append((names, self._people_in_rows(rows)))
        self._sets = sorted(self._sets, key=lambda one: (-one[1], len(one[0]), one[0]))[:_LEADING]

    def _people_in_rows(self, rows: Host) -> int:
        return len(rows) if self._who is None else len(np.unique(self._who[rows]))

    def _on_one(self, names: tuple[int, ...]) -> tuple[tuple[int, ...], Host]:
        """The set, and the rows that are alone on it."""
        codes, levels = self._combined(names)
        return names, np.flatnonzero(single_person(codes, levels, self._who))

    def _beyond(self, names: tuple[int, ...]) -> list[tuple[tuple[int, ...], Host]]:
        """The same for each set that adds a later column to these; rows that are alone on these take no part."""
        codes, levels = self._combined(names)
        rows = np.flatnonzero(~single_person(codes, levels, self._who))
        if not len(rows):
            return []
        codes, levels = _dense(codes[rows], levels)
        who = None if self._who is None else self._who[rows]
        found = []
        for last in range(names[-1] + 1, len(self._columns)):
            more = codes * self._levels[last] + self._columns[last][rows]
            found.append(((*names, last), rows[single_person(more, levels * self._levels[last], who)]))
        return found

    def _combined(self, names: tuple[int, ...]) -> tuple[Host, int]:
        """(n,) codes of the values of these columns together, and how many there may be."""
        codes, levels = self._columns[names[0]].astype(np.int64), self._levels[names[0]]
        for at in names[1:]:
            codes, levels = codes * self._levels[at] + self._columns[at], levels * self._levels[at]
            if levels > 1 << 40:
                codes, levels = _dense(codes, levels)
        return codes, levels

    def estimate(self, size: int, rng: np.random.Generator) -> tuple[float, float, int]:
        """Share of the people alone on at most `size` columns, its standard error, and the rows that were compared."""
        n, d = len(self._alone), len(self._columns)
        open_rows = np.flatnonzero(~self._alone & self._counted)
        if self._who is not None:  # a person who was found is found
            done = np.zeros(int(self._who.max()) + 1, dtype=bool)
            done[self._who[self._alone]] = True
            open_rows = open_rows[~done[self._who[open_rows]]]
        left = self._people - round(self.share * self._people)
        if not len(open_rows):
            return self.share, 0.0, 0
        wanted = int(np.clip(SAMPLE_WORK // (n * d), _FEWEST, _FULLEST))
        if self._who is None:
            chosen = rng.choice(open_rows, min(wanted, len(open_rows)), replace=False)
            targets = [np.array([row]) for row in chosen]
        else:
            order = np.argsort(self._who[open_rows], kind="stable")
            owners, starts = np.unique(self._who[open_rows][order], return_index=True)
            groups = np.split(open_rows[order], starts[1:])
            targets = [groups[at] for at in rng.choice(len(owners), min(wanted, len(owners)), replace=False)]
        compare = _Compared(self._columns, self._who, size, rng)
        weight = left / self._people
        found: list[bool] = []
        error = 1.0
        while len(found) < len(targets) and error > _CLEAR:
            some = targets[len(found) : len(found) + _FEWEST]
            found += each(lambda rows: any(compare.alone(int(row)) for row in rows), some)
            part = float(np.mean(found))
            error = weight * float(np.sqrt(max(part * (1 - part), 1 / len(found)) / len(found)))
        return self.share + weight * part, 0.0 if len(found) >= left else error, len(found)


class _Compared:
    """Single rows against all rows."""

    def __init__(self, columns: Sequence[Host], who: Host | None, size: int, rng: np.random.Generator) -> None:
        self._columns, self._who, self._size = columns, who, size
        n = len(columns[0])
        self._first = rng.choice(n, min(n, _FIRST), replace=False)
        self._shown = np.stack([column[self._first] for column in columns], axis=1)
        self._orders = each(_order, columns)
        self._starts = [np.concatenate([[0], np.cumsum(np.bincount(column))]) for column in columns]
        self._pairs = np.array(list(combinations(range(len(columns)), size - 1)))

    def alone(self, row: int) -> bool:
        """Whether a set of so many columns singles the row's person out."""
        mine = np.array([column[row] for column in self._columns])
        agree = self._shown == mine
        agree[self._own(self._first, row)] = False
        together = agree.astype(np.float32)
        for at in range(1, self._pairs.shape[1]):
            together = together[:, self._pairs[:, 0]] if at == 1 else together
            together *= agree[:, self._pairs[:, at]]
        seen = together.T @ agree.astype(np.float32)  # (smaller sets, columns) agreeing rows
        last = np.arange(len(self._columns))
        smaller, column = np.nonzero((seen == 0) & (last[None, :] > self._pairs[:, -1:]))
        open_sets = np.concatenate([self._pairs[smaller], column[:, None]], axis=1)
        if not len(open_sets):
            return False
        counts = np.array([starts[value + 1] - starts[value] for starts, value in zip(self._starts, mine, strict=True)])
        rarest = open_sets[np.arange(len(open_sets)), np.argmin(counts[open_sets], axis=1)]
        for at in sorted(set(rarest.tolist()), key=lambda one: counts[one]):
            if not self._all_met(row, mine, at, open_sets[rarest == at]):
                return True
        return False

    def _own(self, rows: Host, row: int) -> Host:
        """Which of the rows are of the same person."""
        return np.asarray(rows == row if self._who is None else self._who[rows] == self._who[row])

    def _all_met(self, row: int, mine: Host, by: int, sets: Host) -> bool:
        """Whether for each of these sets, which contain the column `by`, somebody else agrees on all of it."""
        starts, value = self._starts[by], mine[by]
        rows = self._orders[by][starts[value] : starts[value + 1]]
        step = _FIRST
        for begin in range(0, len(rows), step):
            some = rows[begin : begin + step]
            used = np.unique(sets)
            agree = {at: self._columns[at][some] == mine[at] for at in used.tolist()}
            others = ~self._own(some, row)
            sets = np.array([one for one in sets if not _met(others, [agree[at] for at in one.tolist()])])
            if not len(sets):
                return True
        return False


def _met(others: Host, agree: Sequence[Host]) -> bool:
    """Whether a row of somebody else agrees on all columns."""
    for column in agree:
        others = others & column
    return bool(others.any())


def single_person(codes: Host, levels: int, who: Host | None) -> Host:
    """(n,) whether only one person has a row's code."""
    if levels > 4 * len(codes) + 1024:
        codes, levels = _dense(codes, levels)
    if who is None:
        return np.asarray(np.bincount(codes, minlength=levels)[codes] == 1)
    some = np.empty(levels, dtype=who.dtype)
    some[codes] = who
    mixed = np.zeros(levels, dtype=bool)
    mixed[codes[some[codes] != who]] = True
    return ~mixed[codes]


def _order(column: Host) -> Host:
    """(n,) rows by value; by radix sort where a value fits in 16 bits."""
    short = column.astype(np.uint16) if int(column.max()) < 1 << 16 else column
    return np.argsort(short, kind="stable").astype(np.int32)


def _dense(codes: Host, levels: int) -> tuple[Host, int]:
    """The codes, numbered without gaps."""
    if levels <= 16 * len(codes) + 1024:
        there = np.zeros(levels, dtype=bool)
        there[codes] = True
        numbers = np.cumsum(there) - 1
        return numbers[codes], int(numbers[-1]) + 1
    found, numbers = np.unique(codes, return_inverse=True)
    return numbers.reshape(-1), len(found)
