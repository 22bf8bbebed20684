"""k-anonymity and uniqueness: the classes of released records that are equal on the quasi-identifiers.

References
----------
.. [1] P. Samarati and L. Sweeney (1998), Protecting privacy when disclosing information, SRI-CSL-98-04.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.assessing.evidence import EvidenceSource
from gpuanon.assessing.figures import By, Distribution, Measured
from gpuanon.assessing.measure import FROM_1, NULL_IS_A_VALUE, QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows


def k_anonymity(codes: Array) -> Measured:
    """Records in the smallest class; `codes` (n, d) are equal where released values are equal."""
    return smallest_of(sizes_of(codes))


def uniqueness(codes: Array) -> Measured:
    """Share of records that are alone in their class."""
    return alone_of(sizes_of(codes))


def smallest_of(sizes: Array) -> Measured:
    """`k_anonymity` from the sizes of the classes."""
    sizes = to_host(sizes)
    smallest = int(sizes.min())
    details = {"classes": len(sizes), "in_smallest": int(sizes[sizes == smallest].sum())}
    return Measured(smallest, details, parts=(Distribution.over("sizes of classes", sizes),))


def alone_of(sizes: Array, by_column: Mapping[str, Array] | None = None) -> Measured:
    """`uniqueness` from the sizes of the classes, and of the values of each column by itself."""
    alone = int((sizes == 1).sum())
    parts = () if not by_column else (By("column", {name: _alone(found) for name, found in by_column.items()}),)
    return Measured(_alone(sizes), {"records": alone}, parts=parts)


def _alone(sizes: Array) -> float:
    """Share of records that are alone."""
    return int((sizes == 1).sum()) / int(sizes.sum())


def sizes_of(codes: Array) -> Array:
    """(classes,) records of each class of equal codes."""
    if len(codes) == 0:
        raise ParameterError("release: at least one record is needed")
    return namespace(codes).bincount(equal_rows(codes))


def _k_anonymity(source: EvidenceSource) -> Measured:
    return smallest_of(source.class_sizes)


def _uniqueness(source: EvidenceSource) -> Measured:
    return alone_of(source.class_sizes, source.class_sizes_by_column)


K_ANONYMITY = Measure(
    name="k_anonymity", label="smallest group of look-alikes",
    sentence="Everybody in the release looks the same as at least this many records, oneself included, to somebody who"
    " knows the quasi-identifiers.",
    summary="records in the smallest class that is equal on the quasi-identifiers",
    family="risk", better="higher", range=FROM_1, usual="1: somebody is unique; 3, 5, 10 or 11 are common minimums",
    unit="class", applies=QUASI, function=k_anonymity, compute=_k_anonymity, arrays="classes",
    weights=RISK_OF_RECORDS, nulls=NULL_IS_A_VALUE, scaling="merged", source="Samarati and Sweeney 1998",
)  # fmt: skip
UNIQUENESS = Measure(
    name="uniqueness", label="records without a look-alike",
    sentence="This share of the released records is the only one with its values of the quasi-identifiers.",
    summary="share of records alone in their class, and by column in their value",
    family="risk", range=SHARE, usual="0 wherever k is 2 or more",
    unit="record", applies=QUASI, function=uniqueness, compute=_uniqueness, arrays="classes",
    weights=RISK_OF_RECORDS, nulls=NULL_IS_A_VALUE, scaling="merged", source="Samarati and Sweeney 1998",
)  # fmt: skip
