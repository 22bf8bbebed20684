"""Sequential synthesis: columns drawn one after another, each given those before it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import NewColumn, Operation, Recoded, Records, RowEffect, Sight
from gpuanon.numerics.conditional_trees import Coded
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.sequential import BLOCK, Model, synthesise

Host = np.ndarray[Any, Any]


class _Sequential(Operation):
    """Parameters of the models.  Trees and regressions are scikit-learn's, which run on the CPU."""

    sees: ClassVar[Sight] = "classes"
    host_only: ClassVar[bool] = True

    model: Model = Field(
        default="cart",
        description="cart: values of the leaf of a tree; parametric: regressions; mixture: each row by one of both",
    )
    leaf: int = Field(default=5, ge=1, description="cart: records of a leaf, at least")
    proper: bool = Field(default=False, description="fit to a bootstrap sample: copies then vary as the models do")
    even: bool = Field(default=True, description="cart: draw the records of a leaf equally often, with less error")
    block: int = Field(default=BLOCK, ge=100, description="records that one model is fitted to, about")

    def new_codes(self, T: Host, groups: Partition, records: Records) -> Host:
        """(n, columns) codes of new rows."""
        if groups.parts > 1:
            raise ParameterError(
                f"sequential: one group of all rows is allowed, got {groups.parts}", hint='groups = { use = "whole" }'
            )
        if records.classes is None:
            raise ParameterError("sequential: the rows must be seen as classes", hint='basis = { use = "codes" }')
        given = records.given
        columns = [] if given is None else list(zip(given.codes.T, given.classes.ordered, strict=True))
        return synthesise(
            T,
            records.classes.ordered,
            records.draws.child("sequential"),
            given=[Coded(codes, ordered, int(codes.max(initial=-1)) + 1) for codes, ordered in columns],
            model=self.model,
            leaf=self.leaf,
            proper=self.proper,
            even=self.even,
            block=self.block,
        )


class Sequential(_Sequential):
    """All rows are new: column after column is drawn given those before it, the first from its own values."""

    rows: ClassVar[RowEffect] = "new"

    use: Literal["sequential"] = "sequential"

    def apply(self, T: Host, groups: Partition, records: Records) -> Recoded:
        codes = self.new_codes(T, groups, records)
        rows = np.arange(len(T), dtype=np.int64)
        return Recoded([NewColumn(j, codes[:, j]) for j in range(T.shape[1])], rows=rows, added=len(T))


class PartlySynthetic(_Sequential):
    """Rows are kept, and the masked columns are drawn anew: given the columns of the mask's `by`, in chosen rows.

    Rows that are not chosen keep their values: whoever knows that a record is common knows that they are real.
    """

    conditional: ClassVar[bool] = True

    use: Literal["partly-synthetic"] = "partly-synthetic"
    below: int | None = Field(
        default=None,
        ge=2,
        description="only records with fewer equals on the masked columns, themselves included; none: all records",
    )

    def apply(self, T: Host, groups: Partition, records: Records) -> Recoded:
        codes = self.new_codes(T, groups, records)
        chosen = np.ones(len(T), dtype=bool)
        if self.below is not None:
            classes = Partition.from_labels(equal_rows(T))
            chosen = classes.sizes[classes.labels()] < self.below
        codes = np.where(chosen[:, None], codes, T)
        return Recoded(
            [NewColumn(j, codes[:, j]) for j in range(T.shape[1])], facts={"records_synthetic": int(chosen.sum())}
        )
