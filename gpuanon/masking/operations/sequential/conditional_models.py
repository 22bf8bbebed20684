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
from gpuanon.masking.operations.sequential.conditional_regressions import draw_from_regression
from gpuanon.masking.operations.sequential.conditional_trees import Coded, draw_from_tree

Host = np.ndarray[Any, Any]
Model: TypeAlias = Literal["cart", "parametric", "mixture"]

BLOCK = 100_000
"""Records that one model is fitted to, about: more are divided at random, so that time is linear in their number."""


def synthesise(
    codes: Host,
    ordered: Sequence[bool],
    draws: Draws,
    *,
    given: Sequence[Coded] = (),
    model: Model = "cart",
    leaf: int = 5,
    proper: bool = False,
    even: bool = True,
    block: int = BLOCK,
) -> Host:
    """(n, c) codes of as many new rows, the columns one after another.

    given  : columns of the same rows that all others depend on, and that stay as they are
    model  : "cart": values of the leaf of a decision tree; "parametric": regressions; "mixture": each row from one of
             both, with a probability that is itself drawn uniformly, once for each block (uncertainty of the model)
    leaf   : records of a leaf, at least
    proper : fit to a bootstrap sample of the records, so that copies also vary as the fitted models do
    even   : trees: draw the records of a leaf equally often; see `draw_from_tree`
    block  : rows of a random part that is synthesised by itself, about

    Draws : words of the records; which record a new row is drawn for says nothing of its values.
    Cost  : O(n log(block) · c²).
    """
    n, c = codes.shape
    out = np.empty_like(codes)
    counts = [int(codes[:, j].max(initial=-1)) + 1 for j in range(c)]
    columns = [Coded(codes[:, j], ordered[j], counts[j]) for j in range(c)]
    blocks = np.array_split(np.argsort(draws.child("block").keys(), kind="stable"), max(1, round(n / block)))

    def work(rows: Host) -> None:
        rows = np.sort(rows)
        own = draws.take(rows)
        source = rows[(own.child("bootstrap").uniform(1)[:, 0] * len(rows)).astype(np.int64)] if proper else rows
        beside = [column.codes[rows] for column in given]
        records = [column.take(source) for column in (*given, *columns)]
        models: tuple[Model, ...] = ("cart", "parametric") if model == "mixture" else (model,)
        among = [column.codes[rows] for column in (*given, *columns)]
        found = [_block(records, beside, among, own.child(one), one, leaf, even) for one in models]
        if len(found) == 1:
            out[rows] = found[0]
        else:
            weight = own.child("weight").take(np.zeros(1, dtype=np.int64)).uniform(1)[0, 0]
            out[rows] = np.where(own.child("model").uniform(1) < weight, *found)

    each(work, [rows for rows in blocks if len(rows)])
    return out


def _block(
    records: list[Coded], beside: list[Host], among: list[Host], draws: Draws, model: Model, leaf: int, even: bool
) -> Host:
    """(n, c) new rows of one block; the first columns of `records` are given as `beside` in the new rows.

    among : (n,) of each column the codes of all records of the block, of which `records` may be a bootstrap sample
    """
    new = list(beside)
    for j in range(len(beside), len(records)):
        own = draws.child(str(j))
        u = own.uniform(2)
        if model == "cart":
            seed = int(own.take(np.zeros(1, dtype=np.int64)).child("seed").words(1)[0, 0] >> 1)
            new.append(draw_from_tree(records[j], records[:j], new, u[:, 0], seed, leaf, even))
        else:
            new.append(draw_from_regression(records[j], records[:j], new, u, among[:j]))
    return np.column_stack(new[len(beside) :]).astype(np.int64)
