"""One attack on all run-offs of a vote: those at stake, and those lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.voting.run_off import run_off_falls
from leaveout.verifier.checker.voting.run_offs_at_stake import (
    RunOffsAtStake,
    run_offs_at_stake,
    run_offs_lost_to,
)
from leaveout.verifier.checker.voting.vote import Vote


def run_offs_of(vote: Vote, truth: NDArray[np.integer[Any]], budget: int) -> RunOffsAtStake:
    """Return the right answers that ``budget`` units could change, with requirements."""
    held = vote.ballots
    assert held.scores is not None
    if vote.kind == "run_off":
        edits = np.full(held.points, budget, np.int64)
        near = run_off_falls(held.votes, held.scores, held.labels, edits)
    else:
        near = vote.bounds({})[0] < budget
    points = np.flatnonzero((vote.answers == truth) & near)
    return run_offs_at_stake(
        held.votes, held.scores, held.labels, vote.answers, points, budget, vote.offsets
    )


def run_offs_counted(vote: Vote, truth: NDArray[np.integer[Any]], members: Sequence[int]) -> int:
    """Return how many right answers change if some members vote and prefer as an attacker likes."""
    held = vote.ballots
    assert held.scores is not None
    lost = run_offs_lost_to(held.votes, held.scores, held.labels, vote.answers, members)
    return int(np.count_nonzero(lost & (vote.answers == truth)))
