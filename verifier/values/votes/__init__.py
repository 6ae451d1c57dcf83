"""Votes of base classifiers, and how much poisoning their answers survive."""

from __future__ import annotations

from leaveout.verifier.values.votes.certified import CountedVote, KnapsackVote
from leaveout.verifier.values.votes.families import FamilyVote
from leaveout.verifier.values.votes.radii import Radii
from leaveout.verifier.values.votes.run_offs import SpreadRunOffVote
from leaveout.verifier.values.votes.schemes import (
    FiniteVote,
    PluralityVote,
    RelabelVote,
    RunOffVote,
)
from leaveout.verifier.values.votes.vote import Vote

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
