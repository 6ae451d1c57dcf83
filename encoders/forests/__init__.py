"""Whether two forests answer alike: their trees over a box, overlaid or as a MILP."""

from __future__ import annotations

from leaveout.encoders.forests.leaves import Leaves, leaves_within
from leaveout.encoders.forests.same import Answers, Compared, compare_answers

__all__ = ["Answers", "Compared", "Leaves", "compare_answers", "leaves_within"]
