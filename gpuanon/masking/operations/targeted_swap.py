"""Targeted swapping: records at risk exchange their place with a similar record from elsewhere.

As census offices do it: households that are rare in their area exchange the area with a household that is equal on
chosen columns, so that tables of the whole country over those columns do not change.

References
----------
.. [1] L. Zayatz (2007), Disclosure avoidance practices and research at the U.S. Census Bureau: an update, J. Off.
   Stat. 23(2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Operation, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.operations.pairing import unlike_pairs
from gpuanon.masking.outcomes import NewColumn, Recoded
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.schema import Kind


def targeted_swap(
    codes: Array, groups: Partition, draws: Draws, below: int = 2, rate: float = 0.0
) -> tuple[Array, dict[str, int]]:
    """(n,) for each row the row whose values it receives, and counts: at risk, exchanged, at risk without a partner.

    A record is at risk if fewer than `below` records of its group have its values.  It exchanges all its values with a
    random record of its group that has others.  Random records do so besides, until about `rate` of all have exchanged.

    Guarantee : the values of each group are kept; a record at risk keeps its own only if all records of its group with
        other values have exchanged theirs, or there are none.
    Cost      : a few sorts of n numbers.
    """
    xp = namespace(codes)
    labels = groups.labels()
    kinds = Partition.from_labels(equal_rows(codes, labels))
    size = kinds.sizes[kinds.part_of_sorted()]
    risky = size < below
    own = draws.take(kinds.order)
    # Of a share s of the records that look for a partner, s find one another: 2 s − s² exchange.
    share = float(risky.sum()) / max(1, len(size))
    missing = max(0.0, 1.0 - (1.0 - rate) ** 0.5 - share) / max(1e-12, 1.0 - share)
    chosen = own.child("others").uniform(1)[:, 0] < missing
    partner = unlike_pairs(labels[kinds.order], kinds.part_of_sorted(), risky | chosen, own.child("pairs"))
    moved = partner != xp.arange(len(partner))
    source = xp.empty(len(labels), dtype=np.int64)
    source[kinds.order] = kinds.order[partner]
    facts = {
        "records_at_risk": int(risky.sum()),
        "records_exchanged": int(moved.sum()),
        "at_risk_without_partner": int((risky & ~moved).sum()),
    }
    return source, facts


class TargetedSwap(Operation):
    """Records that are rare in their group exchange their values with others of the group."""

    sees: ClassVar[Sight] = "classes"

    use: Literal["targeted-swap"] = "targeted-swap"
    below: int = Field(default=2, ge=2, description="records with fewer equals, themselves included, are at risk")
    rate: float = Field(default=0.0, ge=0, le=1, description="share of records that exchange, at least, at random")

    def moves_rows(self, kinds: Sequence[Kind | None]) -> bool:
        return True

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        source, facts = targeted_swap(T, groups, records.draws.child("targeted-swap"), self.below, self.rate)
        return Recoded([NewColumn(j, T[source, j]) for j in range(T.shape[1])], facts=facts)
