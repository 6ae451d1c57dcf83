"""Finite Aggregation: hash values, and logs of why too few change nothing.

Poisoned hash values gain a label at most what the members they reach do. With weights y from 0 to
a member's gain a, some hash values gain at most the sum of all a - y and of the weights of the
members that each of them reaches: the part a - y is paid for once, the part y by each that reaches
it. All is counted in whole 256ths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

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

UNIT = 256
"""Weights are whole multiples of one over this."""


def published_edits(votes: Votes, labels: int, offsets: tuple[int, ...]) -> Counts:
    """Return how many hash values pass no label before the answer, shape (points, labels).

    With y = a, as Wang, Levine and Feizi (2022) count; `labels` of the answer itself are as many as
    there are hash values.
    """
    points, members = votes.shape
    found = np.full((points, labels), members, np.int64)
    for at in blocks(points, max(labels, 3 * members)):
        counts = counts_of(votes[at], labels)
        chosen = answers_of(counts)
        gaps = gaps_of(counts, chosen)
        for label in range(labels):
            gains = 1 + (votes[at] == chosen[:, None]).astype(np.int64) - (votes[at] == label)
            sums = sum(np.roll(gains, -offset, axis=1) for offset in offsets)
            most = np.cumsum(-np.sort(-sums, axis=1), axis=1)
            few = (most <= gaps[:, [label]]).sum(axis=1)
            found[at, label] = np.where(chosen == label, members, few)
    return found


def falls_to(
    ballot: Votes,  # shape (members,)
    labels: int,
    offsets: tuple[int, ...],
    values: Sequence[int],
    target: int | None = None,
) -> bool:
    """Recount and return whether hash values' members can change an answer."""
    members = len(ballot)
    reached = np.unique([(value + offset) % members for value in values for offset in offsets])
    answer = int(np.bincount(ballot, minlength=labels).argmax())
    rest = np.bincount(np.delete(ballot, reached.astype(np.int64)), minlength=labels)
    for label in range(labels) if target is None else (target,):
        counts = rest.copy()
        counts[label] += len(reached)
        if counts.argmax() != answer if target is None else counts.argmax() == target:
            return True
    return False


@dataclass(frozen=True, eq=False)
class _Node:
    """Attacks that poison some hash values, and others only of those that fit."""

    fit: Flags  # shape (members,)
    gains: Counts  # shape (members,): of members that are not reached yet
    gap: int  # what they must gain more than
    left: int  # how many hash values may still be poisoned

    def after(self, weights: Counts, offsets: tuple[int, ...]) -> _Node | None:
        """Return what is left of a node; None if no attack of it gains enough."""
        sums = sum(np.roll(weights, -offset) for offset in offsets)
        assert isinstance(sums, np.ndarray)
        among = -np.sort(-sums[self.fit])[: self.left]
        bound = UNIT * int(self.gains.sum()) - int(weights.sum()) + int(among.sum())
        enough = UNIT * (self.gap + 1)
        if bound < enough:
            return None
        if len(among) < self.left or not self.left:
            return self
        # An attack with a value that is not among the best has one of these less.
        with_each = bound - among[-1] + np.minimum(sums, among[-1])
        return replace(self, fit=self.fit & (with_each >= enough))

    def branch(self, value: int, offsets: tuple[int, ...]) -> Iterator[_Node]:
        """Yield the attacks without a hash value, and those with it."""
        fit = self.fit.copy()
        fit[value] = False
        yield replace(self, fit=fit)
        reached = (value + np.array(offsets)) % len(fit)
        gains = self.gains.copy()
        gains[reached] = 0
        gap = self.gap - int(self.gains[reached].sum())
        yield _Node(fit, gains, gap, self.left - 1)


def follow_log(
    ballot: Votes,  # shape (members,)
    labels: int,
    offsets: tuple[int, ...],
    label: int,
    edits: int,
    rows: NDArray[np.int32],
    weights: NDArray[np.uint16],  # shape (number of -1, members)
) -> None:
    """Follow a log of why ``edits`` hash values do not let a label pass the answer."""
    members = len(ballot)
    counts = np.bincount(ballot, minlength=labels)
    answer = int(counts.argmax())
    gap = int(counts[answer] - counts[label]) - (label < answer)
    gains = 1 + (ballot == answer).astype(np.int64) - (ballot == label)
    stack: list[_Node] = []

    def put(node: _Node) -> None:
        kept = node.after(UNIT * node.gains, offsets)
        if kept is not None:
            stack.append(kept)

    put(_Node(np.ones(members, np.bool_), gains, gap, edits))
    used = 0
    for value in rows.tolist():
        if not stack:
            return
        node = stack.pop()
        if value == -1:
            if used == len(weights):
                raise RejectedError("a log of hash values has too few weights")
            own = np.minimum(weights[used].astype(np.int64), UNIT * node.gains)
            used += 1
            kept = node.after(own, offsets)
            if kept is not None:
                stack.append(kept)
        elif 0 <= value < members and node.fit[value] and node.left:
            for part in node.branch(value, offsets):
                put(part)
        else:
            raise RejectedError(f"a log of hash values goes on with {value}, which is none left")
    if stack:
        raise RejectedError(
            f"a log of hash values leaves it open whether {edits} of them let label {label} win"
        )
