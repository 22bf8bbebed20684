"""How kernels use memory, request by request: no bank conflict worse than 2-way and no global access that moves more
than twice the least number of sectors, or the reason is said here."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays.kernels import folder
from gpuanon.cli.doctor.device_checks import CHECKS
from tests.cuda.support.fake_cupy import fake_cupy

MOST = 2.0


@dataclass(frozen=True)
class Excuse:
    """An access that may be worse: the kernel, a piece of its source line, and why."""

    kernel: str
    text: str
    reason: str


SEARCH = "a binary search: the data choose the places, lanes share only its first steps"
ONCE = "after the loop, once a row: global memory is written in order instead"
OWN_ROW = "after the loop, once a row: each thread writes its own row"
FEW_COLUMNS = "with few columns a warp serves several runs, each with its own row"
ROW_OF_GROUP = "one thread per group writes the few coordinates of its own row, once a turn"
RUNS = "with few columns a warp serves several runs of rows, each at its own place"
GATHERED = "rows of a part stand where the table has them: a gather, whose places the data choose"
COUNTED = "a histogram of digits: equal digits meet in one counter"
EXCUSES = (
    Excuse("locate", "whole[group * e + j] = (int)rint(__dmul_rn(centre, finer));", ROW_OF_GROUP),
    Excuse("locate", "for (int j = 0; j < e; ++j) axes[group * e + j] = (float)centres[j * g", ROW_OF_GROUP),
    Excuse("sums", "for (long long r = begin; r < end; r += step) sum = __dadd_rn(sum, X[(", RUNS),
    Excuse("cut_parts", "values[i] = work.X[order[i] * work.d + column]", GATHERED),
    Excuse("cut_parts", "work.X[work.order[range.begin + i * size / sample]", GATHERED),
    Excuse("cut_parts", "atomicAdd(counts + (int)(key", COUNTED),
    Excuse("locate", "places[held[slot] * e + j]", GATHERED),
    Excuse("empirical_inverse", "running[low]", SEARCH),
    Excuse("empirical_inverse", "running[middle]", SEARCH),
    Excuse("empirical_inverse", "column[middle]", SEARCH),
    Excuse("empirical_inverse", "column[place]", SEARCH),
    Excuse("k_nearest", "values[slot * LIST_ROWS + r]", ONCE),
    Excuse("k_nearest", "rows[slot * LIST_ROWS + r]", ONCE),
    Excuse("product", "out[first + c] = real(total[c])", OWN_ROW),
    Excuse("polynomial", "out[first + c] = real(total[c])", OWN_ROW),
    Excuse("rbf", "out[first + c] = real(total[c])", OWN_ROW),
    Excuse("products", "order[r] * d", FEW_COLUMNS),
    Excuse("products", "double(x[i]) - ci", FEW_COLUMNS),
)


@cache
def source_line(place: str) -> str:
    file, _, number = place.partition(":")
    return (folder() / file).read_text().splitlines()[int(number) - 1]


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def accesses() -> dict[tuple[str, str, str, str], tuple[float, float]]:
    """For each access of each kernel, by its line: sectors over the least, or the worst bank conflict."""
    totals: dict[Any, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for dtype in (np.float32, np.float64):
        for check in CHECKS:
            with fake_cupy(traffic=True) as cp:
                check.run(cp, dtype)
                launches = list(cp.launches)
            for name, launch in launches:
                for counter in launch.traffic.table():
                    total = totals[name, counter.space, counter.what, counter.line, dtype]
                    total[0] += counter.taken
                    total[1] += counter.least
                    total[2] = max(total[2], counter.worst)
    worst: dict[tuple[str, str, str, str], float] = defaultdict(float)
    for (name, space, what, line, _), (taken, least, conflict) in totals.items():
        key = (name, space, what, line)
        worst[key] = max(worst[key], conflict if space == "shared" else taken / least)
    return worst


def excuse_of(kernel: str, line: str) -> Excuse | None:
    return next((e for e in EXCUSES if e.kernel == kernel and e.text in source_line(line)), None)


def test_accesses_move_no_more_than_twice_the_least(accesses: dict[tuple[str, str, str, str], float]) -> None:
    assert len(accesses) > 50
    bad = {key: value for key, value in accesses.items() if value > MOST and excuse_of(key[0], key[3]) is None}
    assert not bad


def test_every_exception_is_still_needed(accesses: dict[tuple[str, str, str, str], float]) -> None:
    needed = {excuse_of(key[0], key[3]) for key, value in accesses.items() if value > MOST}
    assert needed == set(EXCUSES)
