"""How many cases a test tries: a third as a rule, all with ``LEAVEOUT_DEPTH=1``, as in CI."""

from __future__ import annotations

import math
import os

_DEPTH = float(os.environ.get("LEAVEOUT_DEPTH", "0.33"))


def rounds(count: int) -> int:
    """Return how many of so many random cases are drawn; at least ten."""
    return max(min(count, 10), math.ceil(count * _DEPTH))


IS_DEEP = _DEPTH >= 1
"""Whether every case is tried, as before a change is taken."""
STRIDE = max(1, round(1 / _DEPTH))
"""Of places that follow one another, such as lines, each how-manieth is tried."""


def enough(count: int) -> int:
    """Return how many finds are enough where so many are among all random cases."""
    return int(count * _DEPTH)
