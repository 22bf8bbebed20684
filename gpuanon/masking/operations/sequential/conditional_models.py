"""Sequential synthesis: column after column, each drawn given those before it.

The joint distribution is a product of conditional ones, p(x₁) p(x₂ | x₁) p(x₃ | x₁, x₂) …, each fitted to the
records and drawn for the new rows.

References
----------
.. [1] B. Nowok, G. M. Raab, C. Dibben (2016), synthpop: bespoke creation of synthetic data in R, J. Stat. Softw.
   74(11).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.masking.operations.column_chain.conditional import Conditional
from gpuanon.masking.operations.column_chain.drawing import draw_rows
from gpuanon.masking.operations.column_chain.structural_zeros import StructuralZeros
from gpuanon.masking.operations.column_chain.trees import Coded, tree_conditional
from gpuanon.masking.operations.sequential.conditional_regressions import draw_from_regression

Host = np.ndarray[Any, Any]
Model: TypeAlias = Literal["cart", "parametric", "mixture"]

BLOCK = 100_000
"""Records that one model is fitted to, about: more are divided at random, so that time is linear in their number."""
LEAF = 12
"""Records of a leaf, about."""
_GROWN = 0.5
"""Share of the records that a tree is grown on; all fill its leaves."""
_LEFT_OUT = 0.1
"""Share of the records that even draws of a first column leave out: its counts are then not those of the table."""


def synthesise(
    codes: Host,
    ordered: Sequence[bool],
    draws: Draws,
    *,
    given: Sequence[Coded] = (),
    model: Model = "cart",
    leaf: int = LEAF,
    proper: bool = False,
    even: bool = True,
    block: int = BLOCK,
    zeros: StructuralZeros | None = None,
) -> tuple[Host, int]:
    """(n, c) codes of as many new rows, the columns one after another; and how many could not be drawn as they should.

    given  : columns of the same rows that all others depend on, and that stay as they are
    model  : "cart": values of the leaf of a decision tree; "parametric": regressions; "mixture": each row from one of
             both, with a probability that is itself drawn uniformly, once for each block (uncertainty of the model)
    leaf   : records of a leaf, about: trees are grown on half of the records, until a leaf has half as many
    proper : fit to a bootstrap sample of the records, so that copies also vary as the fitted models do
    even   : trees: draw the records of a leaf equally often; see `pick_records`
    block  : rows of a random part that is synthesised by itself, about
    zeros  : trees: see `draw_rows`; the given columns come first

    Draws : words of the records; which record a new row is drawn for says nothing of its values.
    Cost  : O(n log(block) · c²).
    """
    n, c = codes.shape
    out = np.empty_like(codes)
    counts = [int(codes[:, j].max(initial=-1)) + 1 for j in range(c)]
    columns = [*given, *(Coded(codes[:, j], ordered[j], counts[j]) for j in range(c))]
    blocks = np.array_split(np.argsort(draws.child("block").keys(), kind="stable"), max(1, round(n / block)))

    def work(rows: Host) -> int:
        rows = np.sort(rows)
        own = draws.take(rows)
        source = rows[(own.child("bootstrap").uniform(1)[:, 0] * len(rows)).astype(np.int64)] if proper else rows
        records = [column.take(source) for column in columns]
        among = [column.codes[rows] for column in columns]
        found, left = [], 0
        if model != "parametric":
            chain = _trees(records, len(given), own.child("cart"), leaf, even)
            beside = np.column_stack(among[: len(given)]) if given else np.empty((len(rows), 0), dtype=np.int64)
            made, left = draw_rows(chain, beside, np.column_stack(among), own.child("cart"), even, zeros)
            found.append(made[:, len(given) :])
        if model != "cart":
            found.append(_regressions(records, among, len(given), own.child("parametric")))
        if len(found) == 1:
            out[rows] = found[0]
        else:
            weight = own.child("weight").take(np.zeros(1, dtype=np.int64)).uniform(1)[0, 0]
            out[rows] = np.where(own.child("model").uniform(1) < weight, *found)
        return left

    return out, sum(each(work, [rows for rows in blocks if len(rows)]))


def _trees(records: list[Coded], given: int, draws: Draws, leaf: int, even: bool) -> list[Conditional]:
    """The columns from number `given` on, each by a tree of all before it."""
    first = draws.take(np.zeros(1, dtype=np.int64))

    def fit(j: int) -> Conditional:
        seed = int(first.child(f"seed.{j}").words(1)[0, 0] >> 1)
        target = records[j]
        if j == 0 and even:
            chosen = np.flatnonzero(draws.child("left out").uniform(1)[:, 0] >= _LEFT_OUT)
            target = target.take(chosen) if len(chosen) else target
        grown = draws.child(f"grown.{j}").uniform(1)[:, 0] < _GROWN
        return tree_conditional(target, records[:j], j, range(j), seed, leaf, grown)

    return each(fit, range(len(records) - 1, given - 1, -1))[::-1]  # the widest first


def _regressions(records: list[Coded], among: list[Host], given: int, draws: Draws) -> Host:
    """(n, c) new rows of one block, each column by a regression on all before it.

    among : (n,) of each column the codes of all records of the block, of which `records` may be a bootstrap sample
    """
    new = among[:given]
    for j in range(given, len(records)):
        u = draws.child(str(j)).uniform(2)
        new.append(draw_from_regression(records[j], records[:j], new, u, among[:j]))
    return np.column_stack(new[given:]).astype(np.int64)
