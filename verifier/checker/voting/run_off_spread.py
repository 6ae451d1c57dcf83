"""Run-offs of members with spread samples: survival, and attacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.run_off import Scores
from leaveout.verifier.checker.voting.run_offs_at_stake import (
    TooManyError,
    run_offs_at_stake,
    run_offs_lost_to,
)
from leaveout.verifier.checker.voting.run_offs_together import no_more_run_offs_lost
from leaveout.verifier.checker.voting.spread_proof import array, survived_at_most
from leaveout.verifier.checker.voting.tallies import Counts, Votes, answers_of, blocks, counts_of
from leaveout.verifier.checker.voting.together import TooLongError

_Proof = Mapping[str, NDArray[Any]]

_WORK = 3e9
"""Numbers looked at for one test point, at most."""


def published_run_offs(
    votes: Votes, scores: Scores, labels: int, answers: Counts, offsets: tuple[int, ...]
) -> Counts:
    """Return how many units each answer survives by the published argument, shape (points,).

    As Rezaei et al. (2023) count: an answer changes only once two labels stand before it in the
    first round, or one of the others stands with it and wins. What the units that gain most gain
    together must close each of these gaps, and the two gaps of the first round together.
    """
    points, members = votes.shape
    found = np.full(points, members - 1, np.int64)
    for at in blocks(points, 8 * members + labels):
        found[at] = _published_radii(votes[at], scores[at], labels, answers[at], offsets)
    return found


def _published_radii(
    votes: Votes, scores: Scores, labels: int, answers: Counts, offsets: tuple[int, ...]
) -> Counts:
    """Return the published number of units that each answer survives."""
    points, members = votes.shape
    rows = np.arange(points)
    counts = counts_of(votes, labels)
    first = answers_of(counts)
    others = counts.copy()
    others[rows, first] = -1
    rival = np.where(first == answers, answers_of(others), first)
    is_answer = (votes == answers[:, None]).astype(np.int64)
    is_rival = (votes == rival[:, None]).astype(np.int64)

    def survived_units(gains: NDArray[np.int64], needs: Counts) -> Counts:
        """Return the most units whose summed gains fall short of the needs."""
        sums = np.zeros_like(gains)
        for offset in offsets:
            sums += np.roll(gains, -offset, axis=1)
        most = np.cumsum(-np.sort(-sums, axis=1), axis=1)
        return np.where(needs <= 0, -1, (most < needs[:, None]).sum(axis=1))

    found = np.full(points, members - 1, np.int64)
    alone, behind = np.empty((labels, points), np.int64), np.empty((labels, points), np.int64)
    best = np.take_along_axis(scores, answers[:, None, None], axis=2)[:, :, 0]
    for a in range(labels):
        is_a = (votes == a).astype(np.int64)
        behind[a] = counts[rows, answers] - counts[:, a] + (answers < a)
        alone[a] = survived_units(1 + is_answer - is_a, behind[a])
        ahead = (scores[:, :, a] > best) | ((scores[:, :, a] == best) & (a < answers)[:, None])
        wanted = (members + (a > answers) + 1) // 2 - ahead.sum(axis=1)
        wins = survived_units(1 - ahead.astype(np.int64), wanted)
        enters = survived_units(
            1 + is_rival - is_a, counts[rows, rival] - counts[:, a] + (rival < a)
        )
        enters[rival == a] = -1
        found = np.where(answers == a, found, np.minimum(found, np.maximum(wins, enters)))
    for a in range(labels):
        for b in range(a + 1, labels):
            either = (votes == a) | (votes == b)
            both = survived_units(1 + 2 * is_answer - either, behind[a] + behind[b])
            both = np.maximum(both, np.maximum(alone[a], alone[b]))
            apart = (answers != a) & (answers != b)
            found = np.where(apart, np.minimum(found, both), found)
    return np.maximum(found, 0)


def run_off_survives(
    votes: Votes,
    scores: Scores,
    labels: int,
    answers: Counts,
    offsets: tuple[int, ...],
    point: int,
    edits: int,
) -> bool:
    """Return whether ``edits`` units provably change no answer; False if too slow."""
    try:
        stake = run_offs_at_stake(
            votes, scores, labels, answers, np.array([point]), min(edits, votes.shape[1]), offsets
        )
        return no_more_run_offs_lost(stake, 0, _WORK)
    except (TooManyError, TooLongError):
        return False


def survived_run_offs(
    votes: Votes,  # shape (points, members)
    scores: Scores,  # shape (points, members, labels)
    labels: int,
    answers: Counts,  # shape (points,)
    offsets: tuple[int, ...],
    proof: _Proof,
) -> Counts:
    """Return how many units each answer survives, by what a proof says, or else 0."""
    found = np.zeros(len(votes), np.int64)
    if "survived" not in proof:
        return found
    said = array(proof, "survived", np.int64, 2)
    if said.shape[1] != 2:
        raise RejectedError("what its answers survive are no pairs of numbers")
    for point, edits in said.tolist():
        if not (0 <= point < len(votes) and 0 <= edits <= votes.shape[1]):
            raise RejectedError(f"its proof is of test point {point} and {edits} edits")
        if not run_off_survives(votes, scores, labels, answers, offsets, point, edits):
            raise RejectedError(f"that test point {point} survives {edits} edits is not shown")
        found[point] = max(found[point], edits)
    return found


def shown_run_off_falls(
    votes: Votes,
    scores: Scores,
    labels: int,
    answers: Counts,
    offsets: tuple[int, ...],
    proof: _Proof,
) -> Counts:
    """Return how many units each answer survives at most, by attacks, shape (points,)."""

    def falls(point: int, own: list[int]) -> bool:
        one = slice(point, point + 1)
        hashed = np.array(own, np.int64)[:, None] + np.array(offsets)
        reached = np.unique(hashed % votes.shape[1]).tolist()
        return bool(run_offs_lost_to(votes[one], scores[one], labels, answers[one], reached)[0])

    return survived_at_most(votes.shape, proof, falls, "changes no answer")
