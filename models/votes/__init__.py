"""Votes of base classifiers, each trained on a part of the training set."""

from __future__ import annotations

from leaveout.models.ballots import Assumption, Ballots, Origin, read_ballots, write_ballots
from leaveout.models.votes.election import hold_election
from leaveout.models.votes.learners import make_learner
from leaveout.models.votes.partitioning import (
    PartitionInterruptedError,
    PartitionReport,
    partition,
)
from leaveout.models.votes.recipe import PartRecipe, divide
from leaveout.models.votes.samples import Samples
from leaveout.models.votes.source import read_samples, samples_from_arrays

__all__ = [
    "Assumption",
    "Ballots",
    "Origin",
    "PartRecipe",
    "PartitionInterruptedError",
    "PartitionReport",
    "Samples",
    "divide",
    "hold_election",
    "make_learner",
    "partition",
    "read_ballots",
    "read_samples",
    "samples_from_arrays",
    "write_ballots",
]
