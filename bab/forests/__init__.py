"""Inputs where forests disagree, by branch and bound over boxes of cells."""

from __future__ import annotations

from leaveout.bab.forests.question import Question
from leaveout.bab.forests.search import search_forests
from leaveout.bab.forests.witness import ForestWitness

__all__ = ["ForestWitness", "Question", "search_forests"]
