"""Inputs where forests disagree, by branch and bound over boxes of cells."""

from __future__ import annotations

from leaveout.bab.forests.search import Question, search_forests

__all__ = ["Question", "search_forests"]
