"""What evidence that merges over pieces is collected from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, Protocol, TypeVar

from gpuanon.arrays.backend import Array
from gpuanon.errors import InputError
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

Side = Literal["original", "release"]
T = TypeVar("T")


class MissingEvidence(InputError):
    """A measure needs something that was not given."""


class EvidenceSource(Protocol):
    """What evidence that merges over pieces is collected from: a `Comparison`, or tables larger than memory."""

    @property
    def schema(self) -> Schema:
        """What the columns of the original are."""

    @property
    def class_sizes(self) -> Array:
        """(classes,) released records of each class that is equal on the quasi-identifiers."""

    @property
    def class_sizes_by_column(self) -> Mapping[str, Array]:
        """For each quasi-identifier (classes,) released records of each of its values."""

    @property
    def population(self) -> float:
        """People that the released records stand for, by the sample weights."""

    @property
    def features(self) -> tuple[str, ...]:
        """The table column of each feature of the encoded pieces."""

    def encoded_pieces(self, side: Side) -> Iterator[Array]:
        """All rows, encoded as `Comparison.encoded`, a piece at a time."""

    def weight_pieces(self, side: Side) -> Iterator[Array] | None:
        """People that each row of the encoded pieces stands for; None unless both tables have a column of weights."""

    def table_pieces(self, side: Side) -> Iterator[Table]:
        """All rows as they are, a piece at a time."""

    def collect(self, evidence: Callable[[EvidenceSource], T]) -> T:
        """`evidence` of this source, collected once however many measures ask for it."""


def sampling_fraction(source: EvidenceSource) -> float | None:
    """Share of the population that the released records are, by the sample weights; None without any."""
    try:
        return min(1.0, int(source.class_sizes.sum()) / source.population)
    except MissingEvidence:
        return None
