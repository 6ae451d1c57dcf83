"""How many random cases a test draws: a third as a rule, all at night (``LEAVEOUT_DEPTH=1``)."""

from __future__ import annotations

import math
import os

_DEPTH = float(os.environ.get("LEAVEOUT_DEPTH", "0.33"))


def rounds(count: int) -> int:
    """Return how many of so many random cases are drawn; at least ten."""
    return max(min(count, 10), math.ceil(count * _DEPTH))
