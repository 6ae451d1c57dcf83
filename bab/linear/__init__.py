"""Linear conditions on one network, or on a pair of them: the largest value of their least."""

from __future__ import annotations

from leaveout.bab.linear.search import LinearOptions, LinearResult, maximise

__all__ = ["LinearOptions", "LinearResult", "maximise"]
