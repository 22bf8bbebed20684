"""Figures of the public benchmark of synthetic census tables: marginals score, unique exact matches, inconsistencies.

The definitions are those of NIST's Collaborative Research Cycle, written anew from their description:

K-marginal : 500 · (2 − mean over all pairs of columns of Σ|p − q|), 1000 is equal; in each group where there is a group
             column, whose counts are then part of p and q; ages, incomes and weights in 20 bins of equal counts of the
             original, a null or a top code is a bin of its own
UEM        : per cent of the records that are unique in the original and stand whole in the release
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

Host = np.ndarray[Any, Any]

DEMOGRAPHIC = ["AGEP", "SEX", "MSP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DEYE"]
FAMILY = ["PUMA", "AGEP", "SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "OWN_RENT", "PINCP_DECILE", "POVPIP"]
BINS = 20
_PERCENTILES = ("AGEP", "POVPIP", "PINCP", "PWGTP", "WGTP")
_TOP = {"POVPIP": 501}
_DENSITY = np.r_[0.0, 150.0, np.logspace(1, np.log10(52864.7 + 500), 21)[8:]]


def simple_columns(frame: pd.DataFrame) -> list[str]:
    """All columns but the detailed industry and the weights."""
    return [name for name in frame if name not in ("INDP", "WGTP", "PWGTP")]


def _numeric_bins(before: pd.Series[Any], after: pd.Series[Any], top: float | None) -> tuple[Host, Host]:
    """Bins of equal counts of the values before; nulls and the top code apart."""
    known = before.dropna()
    known = known[known != top].to_numpy(dtype=float).astype(np.int64)
    rank = pd.Series(known).rank(pct=True)
    label = np.where(rank < 1, (BINS * rank).astype(int), BINS - 1)
    ends = pd.Series(known).groupby(label).max().cummax().to_numpy()

    def binned(values: pd.Series[Any]) -> Host:
        numbers = values.fillna(0).to_numpy(dtype=float).astype(np.int64)
        found = np.minimum(np.searchsorted(ends, numbers), len(ends) - 1)
        found = np.where(values == top, len(ends), found)
        return np.asarray(np.where(values.isna(), len(ends) + 1, found))

    return binned(before), binned(after)


def binned_pair(before: pd.DataFrame, after: pd.DataFrame, numeric: list[str] | None = None) -> tuple[Host, Host]:
    """(n, c) and (m, c) codes of both tables, equal for values in one bin.

    numeric : the columns that are binned; None: those of the benchmark
    """
    sides: tuple[list[Host], list[Host]] = ([], [])
    for name in before:
        if name in (_PERCENTILES if numeric is None else numeric):
            both = _numeric_bins(before[name], after[name], _TOP.get(str(name)))
        elif name == "DENSITY":
            both = tuple(np.searchsorted(_DENSITY, frame[name].to_numpy()) for frame in (before, after))
        else:
            codes = pd.factorize(pd.concat([before[name], after[name]]), use_na_sentinel=False)[0]
            both = (codes[: len(before)], codes[len(before) :])
        sides[0].append(both[0])
        sides[1].append(both[1])
    return np.column_stack(sides[0]), np.column_stack(sides[1])


def k_marginal(before: pd.DataFrame, after: pd.DataFrame, numeric: list[str] | None = None) -> float:
    """The marginals score of the release `after`, from 0 to 1000."""
    names = [name for name in before if name not in ("PUMA", "INDP")]
    columns = [*(["PUMA"] if "PUMA" in before else []), *names]
    p, q = binned_pair(before[columns], after[columns], numeric)
    count = np.maximum(p.max(axis=0), q.max(axis=0)) + 1
    group = [0] if "PUMA" in before else []
    total = 0.0
    pairs = list(combinations(range(len(group), len(columns)), 2))
    for pair in pairs:
        axes = [*group, *pair]
        cells = int(np.prod(count[axes]))
        shares = []
        for codes in (p, q):
            place = np.ravel_multi_index(tuple(codes[:, axis] for axis in axes), tuple(count[axes]))
            shares.append(np.bincount(place, minlength=cells) / len(codes))
        total += float(np.abs(shares[0] - shares[1]).sum())
    return 500 * (2 - total / len(pairs))


def _keys(frames: list[pd.DataFrame]) -> list[Host]:
    """(n,) a number for each row, equal for equal rows of all tables."""
    together = pd.concat([frame.astype(object).where(frame.notna(), "null").astype(str) for frame in frames])
    codes = together.groupby(list(together.columns), sort=False).ngroup().to_numpy()
    return np.split(codes, np.cumsum([len(frame) for frame in frames])[:-1])


def reproduced(records: pd.DataFrame, release: pd.DataFrame, others: pd.DataFrame | None = None) -> tuple[int, int]:
    """How many unique records of a table stand whole in the release, and how many there are.

    others : a table whose rows do not count as unique if they stand there too; None: only `records` themselves
    """
    keys = _keys([records, release, *([] if others is None else [others])])
    values, counts = np.unique(keys[0], return_counts=True)
    unique = values[counts == 1]
    if others is not None:
        unique = unique[~np.isin(unique, keys[2])]
    return int(np.isin(unique, keys[1]).sum()), len(unique)


def uem(before: pd.DataFrame, after: pd.DataFrame) -> float:
    """Per cent of the unique records that stand whole in the release."""
    hits, unique = reproduced(before, after)
    return 100 * hits / max(1, unique)


def inconsistencies(frame: pd.DataFrame) -> dict[str, float]:
    """Per cent of the rows that break each rule of the benchmark whose columns the table has."""
    f = frame

    def null(name: str) -> Any:
        return f[name].isna() | (f[name].astype(str) == "N")

    rules: dict[str, tuple[set[str], Any]] = {
        "child_DVET": ({"AGEP", "DVET"}, lambda: (f.AGEP < 15) & ~null("DVET")),
        "child_MSP": ({"AGEP", "MSP"}, lambda: (f.AGEP < 15) & ~null("MSP")),
        "child_PINCP": ({"AGEP", "PINCP"}, lambda: (f.AGEP < 15) & ~null("PINCP")),
        "child_PINCP_DECILE": ({"AGEP", "PINCP_DECILE"}, lambda: (f.AGEP < 15) & ~null("PINCP_DECILE")),
        "child_INDP": ({"AGEP", "INDP"}, lambda: (f.AGEP < 15) & ~null("INDP")),
        "child_INDP_CAT": ({"AGEP", "INDP_CAT"}, lambda: (f.AGEP < 15) & ~null("INDP_CAT")),
        "child_phd": ({"AGEP", "EDU"}, lambda: (f.AGEP < 15) & (f.EDU.astype(str) == "12")),
        "child_NOC": ({"AGEP", "NOC"}, lambda: (f.AGEP < 10) & f.NOC.notna() & (f.NOC > 0)),
        "toddler_DPHY": ({"AGEP", "DPHY"}, lambda: (f.AGEP < 5) & ~null("DPHY")),
        "toddler_DREM": ({"AGEP", "DREM"}, lambda: (f.AGEP < 5) & ~null("DREM")),
        "toddler_diploma": (
            {"AGEP", "EDU"},
            lambda: (f.AGEP < 5) & ~null("EDU") & (pd.to_numeric(f.EDU, errors="coerce") >= 5),
        ),
        "infant_EDU": ({"AGEP", "EDU"}, lambda: (f.AGEP < 3) & ~null("EDU")),
        "invalid_INDP_CAT": ({"INDP", "INDP_CAT"}, lambda: null("INDP") != null("INDP_CAT")),
        "too_many_children": ({"NOC", "NPF"}, lambda: f.NOC.notna() & f.NPF.notna() & (f.NOC >= f.NPF)),
        "gq_own": (
            {"HOUSING_TYPE", "OWN_RENT"},
            lambda: (f.HOUSING_TYPE.astype(str) != "1") & (f.OWN_RENT.astype(str) != "0"),
        ),
        "gq_family_NPF": ({"HOUSING_TYPE", "NPF"}, lambda: (f.HOUSING_TYPE.astype(str) != "1") & f.NPF.notna()),
        "gq_family_NOC": ({"HOUSING_TYPE", "NOC"}, lambda: (f.HOUSING_TYPE.astype(str) != "1") & f.NOC.notna()),
        "house_NOC": ({"HOUSING_TYPE", "NOC"}, lambda: (f.HOUSING_TYPE.astype(str) == "1") & f.NOC.isna()),
        "house_OWN_RENT": (
            {"HOUSING_TYPE", "OWN_RENT"},
            lambda: (f.HOUSING_TYPE.astype(str) == "1") & (f.OWN_RENT.astype(str) == "0"),
        ),
    }
    return {name: 100 * float(rule().mean()) for name, (needs, rule) in rules.items() if needs <= set(frame.columns)}


def near_copies(members: pd.DataFrame, others: pd.DataFrame, release: pd.DataFrame, most: int = 1000) -> float:
    """Probability that a member of the table lies nearer to the release than somebody who is not in it; ties are half.

    Distance: the number of columns in different bins, to the nearest released row; `most` people of each side.
    """
    both, new = binned_pair(pd.concat([members[:most], others[:most]], ignore_index=True), release)
    nearest = np.full(len(both), both.shape[1])
    for at in range(0, len(new), 256):
        apart = np.zeros((len(both), len(new[at : at + 256])), dtype=np.int8)
        for j in range(both.shape[1]):
            apart += both[:, j, None] != new[None, at : at + 256, j]
        nearest = np.minimum(nearest, apart.min(axis=1))
    inside, outside = np.split(nearest, [min(most, len(members))])
    counts = [np.bincount(side, minlength=both.shape[1] + 1) / len(side) for side in (inside, outside)]
    farther = 1 - np.cumsum(counts[1])
    return float((counts[0] * (farther + 0.5 * counts[1])).sum())
