"""Sequential synthesis: column after column, each drawn given those before it.

The joint distribution is a product of conditional ones, p(x₁) p(x₂ | x₁) p(x₃ | x₁, x₂) …, each fitted to the
records and drawn for the new rows.

References
----------
.. [1] B. Nowok, G. M. Raab, C. Dibben (2016), synthpop: bespoke creation of synthetic data in R, J. Stat. Softw.
   74(11).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from gpuanon.arrays.backend import Host
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation, RowEffect, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.operations.column_chain.conditional import Coded, Conditional, tree_conditional
from gpuanon.masking.operations.column_chain.drawing import draw_rows
from gpuanon.masking.operations.column_chain.pooled_table import RARE, PooledTable, Rare
from gpuanon.masking.operations.column_chain.rules import Rules, StructuralZeros, check_rules, exclusions
from gpuanon.masking.operations.random_ranks import mid_scores
from gpuanon.masking.outcomes import Recoded
from gpuanon.numerics.equal_rows import equal_rows

Model: TypeAlias = Literal["cart", "parametric", "mixture"]

BLOCK = 100_000
"""Records that one model is fitted to, about: more are divided at random, so that time is linear in their number."""
LEAF = 40
"""Records of a leaf, about."""
_FITTED = 50_000
"""Records on which a multinomial regression is fitted, at most: the first of a random order."""
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


def draw_from_regression(
    target: Coded, predictors: Sequence[Coded], new: Sequence[Host], u: Host, among: Sequence[Host] | None = None
) -> Host:
    """(m,) codes of the target for new rows, drawn from a main-effects regression on the predictors.

    Ordered columns: normal scores of the ranks are regressed, a normal error is added, and the value at that quantile
    is taken; whether a value is missing is drawn before, from a logistic regression.  Others: a multinomial regression,
    null as a level.  Ordered predictors enter as normal scores with an indicator of nulls, others as indicators.

    u     : (m, 2) uniform numbers
    among : per predictor the codes by whose ranks it is scored; None: those of the records.  Where these are a
            bootstrap sample, ranks in it would be ranks with an error, which draws a regression towards 0
    """
    if not predictors:
        return np.asarray(target.codes[(u[:, 0] * len(target.codes)).astype(np.int64)])
    scored = [column.codes for column in predictors] if among is None else among
    both = [_design(*one) for one in zip(predictors, new, scored, strict=True)]
    X, Y = (np.column_stack([np.ones(len(side[0])), *side]) for side in zip(*both, strict=True))
    if not target.ordered:
        return _draw_level(target.codes, X, Y, u[:, 0])
    null = target.codes < 0
    found = np.full(len(Y), -1)
    missing = _draw_level(null.astype(np.int64), X, Y, u[:, 1]) == 1 if null.any() else np.zeros(len(Y), dtype=bool)
    if null.all():
        return found
    codes = target.codes[~null]
    found[~missing] = _draw_rank(codes, X[~null], Y[~missing], u[~missing, 0])
    return found


def _design(column: Coded, new: Host, among: Host) -> tuple[Host, Host]:
    """Features of a predictor in the records and in the new rows, scored by the ranks `among` these."""
    if not column.ordered:
        levels = np.unique(column.codes)
        place = np.full(column.count + 1, 0)
        place[levels + 1] = np.arange(len(levels))
        records, rows = (np.eye(len(levels))[place[codes + 1]][:, 1:] for codes in (column.codes, new))
        return records, rows
    known = column.codes >= 0
    parts = [_scores(codes, np.sort(among[among >= 0]))[:, None] for codes in (column.codes, new)]
    if not known.all():
        parts = [np.column_stack([part, codes < 0]) for part, codes in zip(parts, (column.codes, new), strict=True)]
    return parts[0], parts[1]


def _scores(codes: Host, ordered: Host) -> Host:
    """(m,) normal scores of codes by their place among the `ordered` ones of the records, who need not have them."""
    from scipy.special import ndtri

    if not len(ordered):
        return np.zeros(len(codes))
    places = np.searchsorted(ordered, codes, side="left") + np.searchsorted(ordered, codes, side="right")
    share = np.clip(places / (2 * len(ordered)), 0.5 / len(ordered), 1 - 0.5 / len(ordered))
    return np.asarray(np.where(codes < 0, 0.0, ndtri(share)))


def _draw_rank(codes: Host, X: Host, Y: Host, u: Host) -> Host:
    """Codes at the quantiles of a normal regression on their scores."""
    from scipy.special import ndtr, ndtri

    z = mid_scores(codes[:, None])[:, 0]
    z /= max(float(np.sqrt(np.mean(z**2))), 1e-9)  # scores of n ranks, or of ties, spread less than the normal's
    beta = np.linalg.lstsq(X, z, rcond=None)[0]
    error = float(np.sqrt(((z - X @ beta) ** 2).sum() / max(1, len(z) - X.shape[1])))
    drawn = ndtr(Y @ beta + error * ndtri(u))
    ordered = np.sort(codes)
    return np.asarray(ordered[np.minimum((drawn * len(ordered)).astype(np.int64), len(ordered) - 1)])


def _draw_level(codes: Host, X: Host, Y: Host, u: Host) -> Host:
    """Codes drawn by the probabilities of a multinomial regression."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    levels = np.unique(codes)
    if len(levels) == 1:
        return np.full(len(Y), levels[0])
    chosen = slice(0, _FITTED)
    if len(np.unique(codes[chosen])) < len(levels):
        chosen = slice(None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a model that is nearly fitted draws nearly as well
        model = LogisticRegression(max_iter=200, C=10.0).fit(X[chosen, 1:], codes[chosen])
    chances = model.predict_proba(Y[:, 1:]).cumsum(axis=1)
    return np.asarray(levels[np.minimum((u[:, None] > chances).sum(axis=1), len(levels) - 1)])


class _Sequential(Operation):
    """Parameters of the models.  Trees and regressions are scikit-learn's, which run on the CPU."""

    sees: ClassVar[Sight] = "classes"
    host_only: ClassVar[bool] = True

    model: Model = Field(
        default="cart",
        description="cart: values of the leaf of a tree; parametric: regressions; mixture: each row by one of both",
    )
    leaf: int = Field(default=LEAF, ge=1, description="cart: records of a leaf, about")
    proper: bool = Field(default=False, description="fit to a bootstrap sample: copies then vary as the models do")
    even: bool = Field(default=True, description="cart: draw the records of a leaf equally often, with less error")
    rare: Rare = RARE
    rules: Rules = ()
    block: int = Field(default=BLOCK, ge=100, description="records that one model is fitted to, about")

    @model_validator(mode="after")
    def _rules_apply(self) -> Self:
        """Refuse rules that would not be followed."""
        if self.rules and (self.model != "cart" or self.conditional):
            raise ValueError('rules: are for new rows by model = "cart"')
        return self

    def synthetic(self, T: Host, groups: Partition, records: Records) -> tuple[PooledTable, Host, int]:
        """The table without its rare values, (n, columns) new rows of it, and how many stayed as they should not."""
        if groups.parts > 1:
            raise ParameterError(
                f"sequential: one group of all rows is allowed, got {groups.parts}", hint='groups = { use = "whole" }'
            )
        if records.classes is None:
            raise ParameterError("sequential: the rows must be seen as classes", hint='basis = { use = "codes" }')
        given = records.given
        columns = [] if given is None else list(zip(given.codes.T, given.classes.ordered, strict=True))
        columns = [column for at, column in enumerate(columns) if at not in self.left_out(records)]
        draws = records.draws.child("sequential")
        pooled = PooledTable.of(T, records.classes, self.rare, draws)
        coded = [Coded(codes, ordered, int(codes.max(initial=-1)) + 1) for codes, ordered in columns]
        known = np.column_stack([*(column.codes for column in coded), pooled.codes])
        zeros = StructuralZeros.of(known, [*(column.ordered for column in coded), *pooled.ordered])
        rules = [] if given is not None else exclusions(self.rules, records.classes, pooled)
        codes, left = synthesise(
            pooled.codes,
            pooled.ordered,
            draws,
            given=coded,
            model=self.model,
            leaf=self.leaf,
            proper=self.proper,
            even=self.even,
            block=self.block,
            zeros=zeros.with_rules(rules),
        )
        check_rules(codes, rules)
        return pooled, codes, left

    def left_out(self, records: Records) -> tuple[int, ...]:
        """Positions of columns of the mask's `by` that the models do not depend on."""
        return ()


class Sequential(_Sequential):
    """Rows that stand for no record: column after column is drawn given those before, the first from its own values.

    A row may equal a record: it stands as often as a model without that record would have made it.
    """

    rows: ClassVar[RowEffect] = "new"

    use: Literal["sequential"] = "sequential"

    def apply(self, T: Host, groups: Partition, records: Records) -> Recoded:
        pooled, codes, left = self.synthetic(T, groups, records)
        columns = pooled.released(codes, records.draws.child("place"))
        rows = np.arange(len(T), dtype=np.int64)
        return Recoded(columns, rows=rows, added=len(T), facts={"rows_not_redrawn": left})


class PartlySynthetic(_Sequential):
    """Rows are kept, and the masked columns are drawn anew: given the columns of the mask's `by`, in chosen rows.

    Rows that are not chosen keep their values: whoever knows that a record is common, or not marked, knows that they
    are real.
    """

    conditional: ClassVar[bool] = True

    use: Literal["partly-synthetic"] = "partly-synthetic"
    below: int | None = Field(
        default=None,
        ge=2,
        description="only records with fewer equals on the masked columns, themselves included; none: all records",
    )
    chosen: str | None = Field(
        default=None, description="only records that this column of the mask's `by`, true or false or 0 or 1, marks"
    )

    def left_out(self, records: Records) -> tuple[int, ...]:
        return () if self.chosen is None else (self._place(records),)

    def _place(self, records: Records) -> int:
        """Position of the column that marks records."""
        names = () if records.given is None else records.given.classes.names
        if records.classes is not None and self.chosen in records.classes.names:
            raise ParameterError(
                f"chosen: {self.chosen!r} marks records, and the mask changes it", hint="name the mask's columns"
            )
        if self.chosen not in names:
            raise ParameterError(f"chosen: {self.chosen!r} is not among the columns that stay, the mask's `by`")
        return names.index(self.chosen)

    def _marked(self, records: Records) -> Host:
        """(n,) whether each record is marked."""
        assert records.given is not None
        assert records.given.flags is not None
        flags = records.given.flags[:, self._place(records)]
        if (flags < 0).any():
            raise ParameterError(f"chosen: {self.chosen!r} must be true or false, or 0 or 1, and never empty")
        return np.asarray(flags == 1)

    def apply(self, T: Host, groups: Partition, records: Records) -> Recoded:
        pooled, codes, left = self.synthetic(T, groups, records)
        chosen = np.ones(len(T), dtype=bool)
        if self.below is not None:
            classes = Partition.from_labels(equal_rows(T))
            chosen = classes.sizes[classes.labels()] < self.below
        if self.chosen is not None:
            chosen &= self._marked(records)
        columns = pooled.released(codes, records.draws.child("place"), ~chosen, T)
        return Recoded(columns, facts={"records_synthetic": int(chosen.sum()), "rows_not_redrawn": left})
