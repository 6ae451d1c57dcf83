"""Inputs where a linear model and its members disagree most, by multipliers and refitting."""

from __future__ import annotations

from leaveout.bab.linear.search import Found, Goal, Search, leak_goals

__all__ = ["Found", "Goal", "Search", "leak_goals"]
