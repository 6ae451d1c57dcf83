"""Whether two forests answer alike: their trees overlaid, or a MILP."""

from __future__ import annotations

from leaveout.bab.forests.same_answers import Answers, Compared, compare_answers
from leaveout.encoders.forests.leaves import Leaves, leaves_within

__all__ = ["Answers", "Compared", "Leaves", "compare_answers", "leaves_within"]
