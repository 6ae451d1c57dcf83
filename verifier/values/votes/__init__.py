"""Votes of base classifiers, and how much poisoning each answer survives."""

from __future__ import annotations

from leaveout.verifier.values.votes.radii import Radii
from leaveout.verifier.values.votes.schemes import (
    FiniteVote,
    KnapsackVote,
    PluralityVote,
    RelabelVote,
    RunOffVote,
)
from leaveout.verifier.values.votes.vote import Vote

__all__ = [
    "FiniteVote",
    "KnapsackVote",
    "PluralityVote",
    "Radii",
    "RelabelVote",
    "RunOffVote",
    "Vote",
]
