"""What an attack finds out about the people in a table, beyond what it finds out about people who are not.

A release of any use tells something about everybody.  So an attack is made twice: on original records, and on control
records of the same population that were not in the table [1].  With a and c the shares of the two that succeed,

    risk = (a − c) / (1 − c)

is the part of what the release leaves to be found out that membership in the table adds: 0 where the attack does no
better on the people in the table, 1 where it always succeeds on them.

References
----------
.. [1] M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi (2023), A unified framework for quantifying privacy risk in
   synthetic data, PoPETs 2023(2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuanon.assessing.figures import ConfidenceInterval
from gpuanon.assessing.sampling_errors import share_interval

LEVEL = 0.95


@dataclass(frozen=True)
class Attack:
    """Shares of attacks that succeed.

    success, control : on original and on control records
    naive            : on original records, by an attacker who does not look where the release would tell
    targets, controls : how many attacks the shares are made of
    ceiling          : `success` of an attack that always succeeds
    """

    success: float
    control: float
    naive: float
    targets: int
    controls: int
    ceiling: float = 1.0

    @property
    def risk(self) -> float | None:
        """(success − control) / (ceiling − control), at least 0; None when the control leaves nothing to be found."""
        margin = self.ceiling - self.control
        return None if margin <= 0 else min(1.0, max(0.0, (self.success - self.control) / margin))

    def interval(self, of: int = 1) -> ConfidenceInterval | None:
        """Of the risk, from Wilson's intervals of both shares; simultaneous for the largest `of` so many attacks.

        The two errors are independent: each end is √(sum of squares) of what the two shares add to it.
        """
        margin = self.ceiling - self.control
        if margin <= 0:
            return None
        each = 1 - (1 - LEVEL) / of
        success, control = (
            share_interval(self.success, self.targets, each),
            share_interval(self.control, self.controls, each),
        )
        slope = max(self.ceiling - self.success, 0.0) / margin**2
        down = math.hypot((self.success - success.low) / margin, slope * (control.high - self.control))
        up = math.hypot((success.high - self.success) / margin, slope * (self.control - control.low))
        raw = (self.success - self.control) / margin
        return ConfidenceInterval(min(1.0, max(0.0, raw - down)), min(1.0, max(0.0, raw + up)), LEVEL)
