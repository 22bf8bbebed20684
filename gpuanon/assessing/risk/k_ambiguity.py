"""k-ambiguity: among how many different records of sensitive values is a person who is found in the release?

k records that are equal on the quasi-identifiers protect nobody when they are equal on the sensitive columns as well:
to find the class is then to find the record.  So a class counts as many records as can be told apart there [1].
Unlike ℓ-diversity, which counts the values of each sensitive column by itself, it counts their combinations.

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 2.1.1, on S. A. Vinterbo (2004),
   Privacy: a machine learning view, IEEE TKDE 16(8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.assessing.figures import Beside, Distribution, Figure, Measured
from gpuanon.assessing.measure import FROM_1, NULL_IS_A_VALUE, QUASI_SENSITIVE, RISK_OF_RECORDS, Measure
from gpuanon.assessing.sampling_errors import share_interval
from gpuanon.errors import ParameterError
from gpuanon.numerics.closeness import distinct_values
from gpuanon.numerics.equal_rows import equal_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def k_ambiguity(quasi: Array, sensitive: Array) -> Measured:
    """Fewest different combinations of sensitive values in a class of records equal on the quasi-identifiers.

    quasi, sensitive : (m, q) and (m, s) codes of the released records, equal where values are equal

    Beside it the records of the smallest class, which it cannot exceed, and the share of records whose class has one
    combination only: all sensitive values of these are disclosed.  A count of the whole release, so the interval is
    that of the share.
    """
    if len(quasi) == 0 or len(quasi) != len(sensitive):
        raise ParameterError("quasi, sensitive: the same number of records, at least one, is needed")
    classes = equal_rows(quasi)
    different = distinct_values(classes, equal_rows(sensitive))
    of_records = to_host(different[classes])
    disclosed = float((of_records == 1).mean())
    low = share_interval(disclosed, len(classes))
    details: dict[str, Figure] = {
        "classes": len(different),
        "disclosed_share": disclosed,
        "disclosed_share_low": low.low,
        "disclosed_share_high": low.high,
    }
    smallest = int(namespace(classes).bincount(classes).min())
    return Measured(
        int(different.min()),
        details,
        parts=(Distribution.over("released records", of_records),),
        beside=(Beside("smallest_class", "records in the smallest class", smallest),),
    )


def _k_ambiguity(c: Comparison) -> Measured:
    return k_ambiguity(c.classes, c.sensitive_codes)


K_AMBIGUITY = Measure(
    name="k_ambiguity", label="fewest combinations of sensitive values",
    sentence="A person's group of look-alikes holds at least this many different combinations of sensitive values.",
    summary="fewest different combinations of sensitive values in a class",
    family="risk", better="higher", range=FROM_1,
    usual="1: some group has one combination, which is then known",
    unit="class", applies=QUASI_SENSITIVE, function=k_ambiguity,
    compute=_k_ambiguity, arrays="classes", weights=RISK_OF_RECORDS, nulls=NULL_IS_A_VALUE, scaling="whole",
    source="Vinterbo 2004; Lasko 2007",
)  # fmt: skip
