"""An original and its release, side by side, as the measures see them.

Tables become arrays here, once, with the encoding of the original; the measures themselves are functions of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpuanon.assessing.risk.prediction import Prediction, predict, standardised
from gpuanon.assessing.utility.cells import binned
from gpuanon.errors import InputError
from gpuanon.tables.codes import level_codes
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from gpuanon.tables.values import floats

Floats = np.ndarray[Any, Any]


class MissingEvidence(InputError):
    """A measure needs something that was not given."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Original and release, with what is known beside them.

    link      : for each released row the row of its original, −1 for an added row; None when it is not known
    reference : a second, non-overlapping sample of the same population, or None
    """

    original: Table
    release: Table
    schema: Schema
    known_link: Floats | None = None
    known_reference: Table | None = None

    def __post_init__(self) -> None:
        """Refuse tables that cannot be compared."""
        missing = [name for name in self.original.names if name not in {*self.schema.identifiers, *self.release.names}]
        if missing:
            raise InputError(f"the release has no column {', '.join(map(repr, missing))}")
        if self.known_link is not None and len(self.known_link) != self.release.n_rows:
            raise InputError(
                f"link: {self.release.n_rows} rows are needed, one a released row, got {len(self.known_link)}"
            )
        if (
            self.known_link is not None
            and len(self.known_link)
            and not -1 <= self.known_link.min() <= self.known_link.max() < self.original.n_rows
        ):
            raise InputError("link: a row number lies outside of the original table")

    @property
    def link(self) -> Floats:
        """The link, for measures that cannot do without."""
        if self.known_link is None:
            raise MissingEvidence("needs the private link between release and original (--link)")
        return self.known_link

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Every column that is compared: those of role quasi and sensitive, or all that can be when there are none."""
        named = {*self.schema.quasi, *self.schema.sensitive}
        others = {name for name in self.original.names if self.schema[name].role == "other" and self.schema[name].kind}
        return tuple(name for name in self.original.names if name in (named or others))

    @cached_property
    def _quasi_encoding(self) -> Encoding:
        if not self.schema.quasi:
            raise MissingEvidence("needs columns of role quasi")
        return Encoding.fit(self.original, self.schema, self.schema.quasi, nulls="indicator")

    @cached_property
    def quasi(self) -> tuple[Floats, Floats]:
        """The quasi-identifiers of original and release, encoded and standardised alike."""
        return self._quasi_encoding.encode(self.original), self._quasi_encoding.encode(self.release)

    @cached_property
    def reference(self) -> Floats:
        """The quasi-identifiers of the reference sample."""
        if self.known_reference is None:
            raise MissingEvidence("needs a reference sample of the same population (--reference)")
        return self._quasi_encoding.encode(self.known_reference)

    @cached_property
    def quasi_codes(self) -> tuple[Floats, Floats]:
        """Equal codes for equal values: the quasi-identifiers of original and release."""
        if not self.schema.quasi:
            raise MissingEvidence("needs columns of role quasi")
        before, after = level_codes([self.original, self.release], self.schema.quasi)
        return before, after

    @cached_property
    def codes(self) -> tuple[Floats, Floats]:
        """Equal codes for equal values, all compared columns."""
        before, after = level_codes([self.original, self.release], self.columns)
        return before, after

    @cached_property
    def sensitive_codes(self) -> Floats:
        """Equal codes for equal values: the sensitive columns of the release."""
        if not self.schema.sensitive:
            raise MissingEvidence("needs columns of role sensitive")
        return level_codes([self.release], self.schema.sensitive)[0]

    @cached_property
    def sensitive_ordered(self) -> list[bool]:
        """For each sensitive column whether its values have an order."""
        return [self.schema[name].kind != "categorical" for name in self.schema.sensitive]

    @cached_property
    def release_weights(self) -> Floats:
        """People that each released record stands for."""
        if self.schema.weight is None:
            raise MissingEvidence("needs a column of role weight")
        return floats(self.release.arrow(self.schema.weight))

    @cached_property
    def categorical(self) -> list[bool]:
        """For each compared column whether its values are categories."""
        return [self.schema[name].kind == "categorical" for name in self.columns]

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """Every compared column: numbers as they are (NaN for null), codes of categories and ordered levels."""
        before, after = (np.array(codes, dtype=np.float64) for codes in self.codes)
        for at, name in enumerate(self.columns):
            if self.schema[name].kind in ("numeric", "date"):
                before[:, at], after[:, at] = (floats(table.arrow(name)) for table in (self.original, self.release))
        return before, after

    @cached_property
    def binned(self) -> tuple[Floats, Floats]:
        """Every compared column as codes of at most a few levels: numbers in ten quantile bins of the original."""
        before, after = (codes.copy() for codes in self.codes)
        numeric = [at for at, name in enumerate(self.columns) if self.schema[name].kind in ("numeric", "date")]
        before[:, numeric], after[:, numeric] = binned(self.values[0][:, numeric], self.values[1][:, numeric])
        return before, after

    @cached_property
    def encoded(self) -> tuple[Floats, Floats]:
        """Every compared column, encoded and standardised alike."""
        encoding = Encoding.fit(self.original, self.schema, self.columns, nulls="indicator", categories="indicator")
        return encoding.encode(self.original), encoding.encode(self.release)

    @cached_property
    def prediction(self) -> Prediction:
        """How well the release predicts each original record: shared by three measures."""
        return predict(*standardised(*self.quasi))
