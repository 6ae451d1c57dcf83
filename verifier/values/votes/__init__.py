"""Votes of base classifiers, and how much poisoning their answers survive."""

from __future__ import annotations

from leaveout.verifier.values.votes.schemes import (
    CountedVote,
    FamilyVote,
    FiniteVote,
    KnapsackVote,
    PluralityVote,
    RelabelVote,
    RunOffVote,
    SpreadRunOffVote,
)
from leaveout.verifier.values.votes.vote import Radii, Vote

__all__ = [
    "CountedVote",
    "FamilyVote",
    "FiniteVote",
    "KnapsackVote",
    "PluralityVote",
    "Radii",
    "RelabelVote",
    "RunOffVote",
    "SpreadRunOffVote",
    "Vote",
]
