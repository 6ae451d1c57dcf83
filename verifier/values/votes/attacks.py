"""Attacks on one answer: what members vote then, counted again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from leaveout.kernel.ballots import NEVER
from leaveout.kernel.counting import Counts, Votes, counts_of
from leaveout.kernel.schemes import run_off_answers
from leaveout.kernel.voting import Vote as Counted


@dataclass(frozen=True)
class Attack:
    """Votes that change the answer at one test point."""

    point: int
    edits: int  # cost in edits of the training set
    poisoned: tuple[int, ...]  # a unit as often as it is edited
    members: tuple[int, ...]  # members whose votes change
    votes: tuple[int, ...]  # their new votes
    before: int  # the answer before
    after: int  # the answer after


def attack_with(
    counted: Counted, point: int, poisoned: Counts, target: int | None = None,
    votes: Votes | None = None,
) -> Attack | None:  # fmt: skip
    """Return what poisoned units change, by a recount (of ``votes`` if given); None if nothing."""
    before, ballot = int(counted.answers[point]), counted.ballots.votes[point]
    family = np.repeat(np.arange(len(counted.sizes)), counted.sizes)
    edits = int(np.bincount(family[poisoned]).max(initial=0))
    tried = _votes_after(counted, point, poisoned, target) if votes is None else [votes[None]]
    for cast in tried:
        answers = _answers(counted, point, poisoned, cast)
        for row in np.flatnonzero(answers == target if target is not None else answers != before):
            # In a run-off, a member may vote as before but rank the others otherwise.
            run_off = counted.scheme.run_off
            new = (
                _reached_members(counted, poisoned)
                if run_off
                else np.flatnonzero(cast[row] != ballot)
            )
            return Attack(
                point, edits, tuple(poisoned.tolist()), tuple(new.tolist()),
                tuple(cast[row][new].tolist()), before, int(answers[row]),
            )  # fmt: skip
    return None


def _reached_members(counted: Counted, poisoned: Counts) -> Counts:
    offsets = np.array(counted.offsets, np.int64)
    return np.unique((poisoned[:, None] + offsets) % counted.ballots.parts)


def _votes_after(
    counted: Counted, point: int, poisoned: Counts, target: int | None
) -> Iterator[Votes]:
    """Yield votes that may change the answer, a row each: no others help a label more."""
    held, reached, before = (
        counted.ballots,
        _reached_members(counted, poisoned),
        counted.answers[point],
    )
    ballot, labels = held.votes[point], np.arange(held.labels)
    winners = [t for t in labels.tolist() if t != before and target in (None, t)]
    if counted.scheme.run_off:
        for winner in winners:
            for other in labels[labels != winner].tolist():
                cast = np.repeat(ballot[None], len(reached) + 1, axis=0)
                more = np.tri(len(reached) + 1, len(reached), -1)[::-1]
                cast[:, reached] = np.where(more, winner, other)
                yield cast
        return
    if counted.scheme.priced:
        spent, enough = np.bincount(poisoned, minlength=held.parts), counted.withstood[1][point]
        can = (enough != NEVER) & (enough <= spent[:, None])
        away = np.where(can & (labels != before), labels, -1).max(axis=1)
        moved = np.where((ballot == before) & (away >= 0), away, ballot)
        yield np.array([np.where(can[:, new], new, moved) for new in winners], np.int32)
        return
    cast = np.repeat(ballot[None], len(winners), axis=0)
    cast[:, reached] = np.array(winners)[:, None]
    yield cast


def _answers(counted: Counted, point: int, poisoned: Counts, cast: Votes) -> Counts:
    """Return the answers for votes; members of a run-off that are reached score 1 for theirs."""
    held = counted.ballots
    if not counted.scheme.run_off:
        return counted.scheme.rule.answer(counts_of(cast, held.labels))
    assert held.scores is not None
    reached = _reached_members(counted, poisoned)
    scores = np.repeat(held.scores[[point]], len(cast), axis=0)
    scores[:, reached] = np.eye(held.labels, dtype=scores.dtype)[cast[:, reached]]
    return run_off_answers(cast, scores, held.labels)
