"""Votes of base classifiers, and how much poisoning their answers survive."""

from __future__ import annotations

from leaveout.verifier.values.votes.vote import Radii, Vote

__all__ = ["Radii", "Vote"]
