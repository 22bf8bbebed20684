"""Effort: how long groups are refined, as turns, steps of a turn and neighbours of a group."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

Seconds: TypeAlias = Annotated[float, Field(strict=True, gt=0, le=86_400, allow_inf_nan=False)]
Effort: TypeAlias = Literal["fast", "normal", "best"] | Seconds
"""Two thirds to four fifths of the usual time; as usual; about a minute, or twenty times the usual; or about so many
seconds on two cores with compiled functions.

Seconds become a number of turns by a fixed cost of a turn, not by a clock: a release depends on the recipe and the key,
never on the speed of a machine.  A small table has at most 50 000 turns, and 250 for each of its groups, beyond which
little was gained on census: it takes less than many seconds.
"""

EFFORT = (
    "how long groups are refined: fast (two thirds to four fifths of the usual time), normal, best (about a minute and"
    " more), or about so many seconds on two cores with compiled functions, fewer for a small table"
)
"""The description of a parameter."""

FAST_BLOCK = 2048
"""Rows of a block of the fast effort, unless others are asked for: half the borders cost less time than turns."""

_NEIGHBOURS, _BEST_NEIGHBOURS = 4, 8
_STEPS = 30
_FAST_STEPS = 40
"""Steps of a turn of the fast effort: it has half as many turns, whose cells and neighbours cost as much as steps."""
_FEWEST_TURNS, _MOST_TURNS = 10, 50
_BEST_WORK = 10_800_000
"""Groups times turns of the best effort: less than a minute, compiled."""
_GROUPS_OF_A_CORE = 1024  # a few cells, which one core exchanges at a time


class Refinement(NamedTuple):
    """What an effort amounts to for a table."""

    turns: int
    steps: int
    neighbours: int


def refinement_of(effort: Effort, groups: int, k: int, columns: int) -> Refinement:
    """Turns, steps of a turn and neighbours: usually more turns for small tables, few for tiny ones."""
    most = min(4 + 250 * groups, 1000 * _MOST_TURNS)  # small tables are refined to the end long before
    if effort == "best":
        turns = min(max(_BEST_WORK // groups, 20 * _FEWEST_TURNS), most)
        return Refinement(turns, _STEPS, _BEST_NEIGHBOURS)
    if not isinstance(effort, str):
        turns = int(np.clip(effort / _seconds_of_turn(groups, k, columns), 2, most))
        return Refinement(turns, _STEPS, _NEIGHBOURS)
    usual = min(int(np.clip(13 * np.sqrt(20_000 / groups), _FEWEST_TURNS, _MOST_TURNS)), 4 + groups // 3)
    if effort == "normal":
        return Refinement(usual, _STEPS, _NEIGHBOURS)
    return Refinement(max(2, usual // 2), _FAST_STEPS, _NEIGHBOURS)


def _seconds_of_turn(groups: int, k: int, columns: int) -> float:
    """Seconds of a turn on two cores, compiled, squared Euclidean distances; few groups keep one core busy.

    The processor time of a group was fitted to 25 cases of k = 2 to 25 and 2 to 32 columns, of which it states 0.8 to
    1.1 of the time; the fixed part is that of Python.
    """
    cores = 2 if groups > _GROUPS_OF_A_CORE else 1
    return 0.3e-3 + 1e-6 * (0.76 + 0.025 * k * columns + 0.007 * k * k) * groups / cores
