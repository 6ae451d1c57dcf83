"""Members with thresholds: what these imply for a threat, and attack costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.models.votes import Ballots
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.tallies import (
    Counts,
    Flags,
    Votes,
    answers_of,
    blocks,
    counts_of,
    gaps_of,
)

_NEVER = -1
"""In a ballots file, the threshold of a vote that no changes bring about."""


def change_of(ballots: Ballots, threat: str) -> tuple[int, str]:
    """Return how many changes that thresholds count one change is at most, and why."""
    own, origin = ballots.origin.thresholds_against or "edits", ballots.origin
    within = ballots.parts == 1 or origin.hash_reads_label is False
    if own == "edits":
        if threat == "modifications" and ballots.parts > 1:
            return 2, "thresholds count edits, and it is a removal and an insertion anywhere"
        if threat == "relabels" and not within:
            return 2, "thresholds count edits, and it is a removal and an insertion"
        if threat in ("modifications", "relabels"):
            return 1, "thresholds count edits, and it is two of its part"
        return 1, "thresholds count edits, and it is one"
    if threat != own:
        raise RejectedError(
            f"{ballots.source}: thresholds that count {own} say nothing of {threat}"
        )
    if own == "relabels" and not within:
        raise RejectedError(
            f"{ballots.source}: thresholds count relabels that stay in their part, and the hash "
            "may read labels"
        )
    return 1, f"thresholds count {own}"


def withstood(ballots: Ballots, threat: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return which changes are too few for each vote of members, and which are known to do.

    Each is an array like the thresholds: fewer than the first never suffice, as many as the second
    do, if it is not -1.
    """
    thresholds, origin = ballots.thresholds, ballots.origin
    if thresholds is None:
        raise RejectedError(f"{ballots.source} has no thresholds of members")
    parts, _ = change_of(ballots, threat)
    if threat == (origin.thresholds_against or "edits"):
        most = origin.thresholds_exact_to
        if most is None:
            return thresholds, thresholds
        return thresholds, np.where(thresholds <= most, thresholds, np.int32(_NEVER))
    # That fewer edits of another kind would do is never known.
    enough = np.where(thresholds == 0, 0, _NEVER).astype(np.int32)
    if threat in ("modifications", "relabels") and parts == 1:
        halves = np.where(thresholds < 0, thresholds, thresholds - thresholds // 2)
        return halves.astype(np.int32), enough
    return thresholds, enough


def lost_to_changes(
    votes: Votes,  # shape (points, members)
    truth: NDArray[np.int32],  # shape (points,)
    thresholds: NDArray[np.int32],  # shape (points, members, labels)
    labels: int,
    units: Sequence[int],
) -> Flags:
    """Recount and return the right answers that changes of these members turn.

    For each label, members vote for it if they can be made to; others that vote for the answer vote
    for any further label they can.
    """
    spent = np.bincount(np.array(units, np.int64), minlength=votes.shape[1])
    lost = np.zeros(len(votes), np.bool_)
    for at in blocks(len(votes), votes.shape[1] * labels):
        chosen = answers_of(counts_of(votes[at], labels))
        can = (thresholds[at] >= 0) & (thresholds[at] <= spent[:, None])
        named = np.arange(labels) == chosen[:, None]
        leaves = (can & ~named[:, None]).any(axis=2)
        own = votes[at] == chosen[:, None]
        right = chosen == truth[at]
        for label in range(labels):
            turned = can[:, :, label]
            held = own & ~turned & ~leaves
            for_label = turned.sum(axis=1)
            passes = for_label + (label < chosen) > held.sum(axis=1)
            lost[at] |= right & (chosen != label) & passes
    return lost


@dataclass(frozen=True, eq=False)
class Prices:
    """Pairs of a test point that is answered right and a label, and what gains of it cost."""

    budget: int
    one: Counts  # shape (members, pairs)
    two: Counts  # shape (members, pairs)
    needs: Counts  # shape (pairs,)
    points: Counts  # shape (pairs,): ascending


def prices_of(
    votes: Votes,
    truth: NDArray[np.int32],
    thresholds: NDArray[np.int32],
    labels: int,
    budget: int,
) -> Prices:
    """Return the pairs that this many changes might decide, by gaps alone."""
    members = votes.shape[1]
    never = budget + 1
    one, two = [np.zeros((0, members), np.int64)], [np.zeros((0, members), np.int64)]
    needs, points = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for at in blocks(len(votes), members * labels * 4):
        costs = np.where(thresholds[at] < 0, never, np.minimum(thresholds[at], never))
        chosen = answers_of(counts_of(votes[at], labels))
        gaps = gaps_of(counts_of(votes[at], labels), chosen)
        for label in range(labels):
            # A change gains at most 2.
            near = (chosen == truth[at]) & (chosen != label) & (gaps[:, label] < 2 * budget)
            rows = np.flatnonzero(near)
            gained = _gains(votes[at][rows], chosen[rows], label, labels)
            prices = costs[rows].astype(np.int64)
            one.append(np.where(gained >= 1, prices, never).min(axis=2))
            two.append(np.where(gained >= 2, prices, never).min(axis=2))
            needs.append(gaps[rows, label] + 1)
            points.append(rows + at.start)
    order = np.argsort(np.concatenate(points), kind="stable")
    return Prices(
        budget,
        np.ascontiguousarray(np.concatenate(one)[order].T),
        np.ascontiguousarray(np.concatenate(two)[order].T),
        np.concatenate(needs)[order],
        np.concatenate(points)[order],
    )


def _gains(votes: Votes, chosen: Counts, label: int, labels: int) -> NDArray[Any]:
    """Return what each vote of each member gains a label on the answer, (rows, members, labels)."""
    names = np.arange(labels)
    worth = (names == label).astype(np.int64) - (names == chosen[:, None])
    held = (votes == label).astype(np.int64) - (votes == chosen[:, None])
    gained: NDArray[Any] = worth[:, None, :] - held[:, :, None]
    return gained
