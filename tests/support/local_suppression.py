"""The fewest blanked cells by an integer programme, and what k records share, pair by pair."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix


def fewest_sharing(rows: Any) -> int:
    """Records that have all values of the record that has the fewest such; −1 is a null."""
    shared = (rows[:, None] == rows[None]) | (rows[:, None] < 0)
    return int(shared.all(axis=2).sum(axis=1).min())


def least_cost(rows: Any, k: int, weights: Any) -> float:
    """The least cost of blanked cells: each record keeps one set of columns, which k records keep with these values."""
    n, d = rows.shape
    sets = list(itertools.product([True, False], repeat=d))
    kept = [(r, s) for r in range(n) for s in sets if not any(s[j] and rows[r, j] < 0 for j in range(d))]
    cost = [sum(weights[j] for j in range(d) if rows[r, j] >= 0 and not s[j]) for r, s in kept]
    A = lil_matrix((n + len(kept), len(kept)))
    for i, (r, s) in enumerate(kept):
        A[r, i] = 1  # one set for each record
        for m, (t, u) in enumerate(kept):
            if all(not s[j] or (u[j] and rows[t, j] == rows[r, j]) for j in range(d)):
                A[n + i, m] += 1
        A[n + i, i] -= k
    low = np.concatenate([np.ones(n), np.zeros(len(kept))])
    high = np.concatenate([np.ones(n), np.full(len(kept), np.inf)])
    constraint = LinearConstraint(A.tocsr(), low, high)
    found = milp(cost, constraints=constraint, integrality=np.ones(len(kept)), bounds=Bounds(0, 1))
    assert found.status == 0
    return float(found.fun)
