"""Finite Aggregation: hash values, and logs that prove that too few change nothing.

Poisoned hash values gain a label at most the gains of the members they reach. With weights y from 0
to a member's gain a, some hash values gain at most the sum of all a - y plus, for each of them, the
weights of the members it reaches: the part a - y counts once, the part y for each hash value that
reaches the member. All numbers are whole 256ths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.plurality import (
    Counts,
    Flags,
    Votes,
    answers_of,
    blocks,
    counts_of,
    gaps_of,
)
from leaveout.verifier.checker.voting.run_offs import (
    Scores,
    TooManyError,
    no_more_run_offs_lost,
    run_offs_at_stake,
    run_offs_lost_to,
)
from leaveout.verifier.checker.voting.together import TooLongError

UNIT = 256
"""Weights are multiples of 1 / UNIT."""


def published_edits(votes: Votes, labels: int, offsets: tuple[int, ...]) -> Counts:
    """Return how many hash values never let a label pass the answer, shape (points, labels).

    Uses y = a, as Wang, Levine and Feizi (2022); for the answer itself it is the number of hash
    values.
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
    """Recount and return whether the members of hash values can change an answer."""
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
    """Attacks that poison some hash values, and otherwise only those that fit."""

    fit: Flags  # shape (members,)
    gains: Counts  # shape (members,): of members not reached yet
    gap: int  # the gain to exceed
    left: int  # how many more hash values may be poisoned

    def after(self, weights: Counts, offsets: tuple[int, ...]) -> _Node | None:
        """Return what remains of a node; None if none of its attacks gains enough."""
        sums = sum(np.roll(weights, -offset) for offset in offsets)
        assert isinstance(sums, np.ndarray)
        among = -np.sort(-sums[self.fit])[: self.left]
        bound = UNIT * int(self.gains.sum()) - int(weights.sum()) + int(among.sum())
        enough = UNIT * (self.gap + 1)
        if bound < enough:
            return None
        if len(among) < self.left or not self.left:
            return self
        # An attack with a value that is not among the best has one fewer of these.
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
    """Follow a log that proves that ``edits`` hash values do not let a label pass the answer."""
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
            raise RejectedError(f"a log of hash values has {value}, which is not open there")
    if stack:
        raise RejectedError(
            f"a log of hash values does not rule out that {edits} of them let label {label} win"
        )


_Proof = Mapping[str, NDArray[Any]]


def proved_edits(
    votes: Votes, labels: int, offsets: tuple[int, ...], published: Counts, proof: _Proof
) -> Counts:
    """Return how many hash values never let a label pass the answer, shape (points, labels)."""
    if "logs" not in proof:
        return published
    points, members = votes.shape
    logs = array(proof, "logs", np.int64, 2)
    rows, weights = array(proof, "rows", np.int32, 1), array(proof, "weights", np.uint16, 2)
    if logs.shape[1] != 5 or weights.shape[1] != members:
        raise RejectedError("its logs of hash values do not match the ballots")
    found = published.copy()
    row, weight = 0, 0
    for point, label, edits, many, weighed in logs.tolist():
        if not (0 <= point < points and 0 <= label < labels and 0 <= edits <= members):
            raise RejectedError(
                f"a log is for an invalid test point {point}, label {label} or "
                f"number of edits {edits}"
            )
        if min(many, weighed) < 0 or row + many > len(rows) or weight + weighed > len(weights):
            raise RejectedError(f"the log of test point {point}, label {label} is truncated")
        own, own_weights = rows[row : row + many], weights[weight : weight + weighed]
        row, weight = row + many, weight + weighed
        try:
            follow_log(votes[point], labels, offsets, label, edits, own, own_weights)
        except RejectedError as error:
            raise RejectedError(f"test point {point}: {error}") from None
        found[point, label] = max(found[point, label], edits)
    return found


def shown_falls(
    votes: Votes,  # shape (points, members)
    labels: int,
    offsets: tuple[int, ...],
    proof: _Proof,
    target: int | None = None,
) -> Counts:
    """Return upper bounds of the hash values each answer survives, from attacks: (points,)."""
    wrong = "changes no answer" if target is None else "does not force the answer"
    return survived_at_most(
        votes.shape, proof, lambda x, own: falls_to(votes[x], labels, offsets, own, target), wrong
    )


def survived_at_most(
    shape: tuple[int, ...], proof: _Proof, falls: Callable[[int, list[int]], bool], wrong: str
) -> Counts:
    """Return upper bounds of the hash values each answer survives, shape (points,)."""
    points, members = shape
    # Poisoning everything changes any answer.
    most = np.full(points, members - 1, np.int64)
    if "attacks" not in proof:
        return most
    attacks, values = array(proof, "attacks", np.int64, 2), array(proof, "values", np.int32, 1)
    if attacks.shape[1] != 2:
        raise RejectedError("its attacks are not pairs of numbers")
    start = 0
    for point, count in attacks.tolist():
        own = values[start : start + count].tolist() if count >= 0 else []
        start += max(count, 0)
        if not 0 <= point < points or len(own) != count:
            raise RejectedError(
                f"an attack is on an invalid test point {point}, or does not "
                f"have {count} hash values"
            )
        if not all(0 <= value < members for value in own):
            raise RejectedError(
                f"an attack on test point {point} uses a hash value that does not exist"
            )
        if not falls(point, own):
            raise RejectedError(f"an attack on test point {point} {wrong}")
        most[point] = min(most[point], len(set(own)) - 1)
    return most


def array(proof: _Proof, name: str, dtype: type[np.generic], rank: int) -> NDArray[Any]:
    """Return an array of a proof."""
    found = proof.get(name)
    if found is None or found.dtype != dtype or found.ndim != rank:
        raise RejectedError(
            f"its proof has no array {name!r} that is {np.dtype(dtype)} of rank {rank}"
        )
    return found


_WORK = 3e9
"""Most numbers processed per test point."""


def published_run_offs(
    votes: Votes, scores: Scores, labels: int, answers: Counts, offsets: tuple[int, ...]
) -> Counts:
    """Return how many units each answer survives by the published argument, shape (points,).

    Following Rezaei et al. (2023): an answer changes only if two labels rank before it in the first
    round, or another finalist wins against it. The total gain of the units with the most gain must
    close each of these gaps, and both gaps of the first round together.
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
    """Return how many units each answer survives according to a proof, or else 0."""
    found = np.zeros(len(votes), np.int64)
    if "survived" not in proof:
        return found
    said = array(proof, "survived", np.int64, 2)
    if said.shape[1] != 2:
        raise RejectedError("its list of what answers survive does not consist of pairs of numbers")
    for point, edits in said.tolist():
        if not (0 <= point < len(votes) and 0 <= edits <= votes.shape[1]):
            raise RejectedError(
                f"its proof is for an invalid test point {point} or number of edits {edits}"
            )
        if not run_off_survives(votes, scores, labels, answers, offsets, point, edits):
            raise RejectedError(f"it is not shown that test point {point} survives {edits} edits")
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
    """Return upper bounds of the units each answer survives, from attacks, shape (points,)."""

    def falls(point: int, own: list[int]) -> bool:
        one = slice(point, point + 1)
        hashed = np.array(own, np.int64)[:, None] + np.array(offsets)
        reached = np.unique(hashed % votes.shape[1]).tolist()
        return bool(run_offs_lost_to(votes[one], scores[one], labels, answers[one], reached)[0])

    return survived_at_most(votes.shape, proof, falls, "changes no answer")
