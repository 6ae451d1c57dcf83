"""Certificate data of claims about votes that counting alone does not prove."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective_exact import CollectiveBounds
from leaveout.bab.votes.finite import finite_attack_within
from leaveout.bab.votes.finite_weights import FiniteLog, log_of, open_labels
from leaveout.verifier.checker.voting.functions import most_summed, run_offs_of
from leaveout.verifier.checker.voting.run_offs import TooManyError, no_more_run_offs_lost
from leaveout.verifier.checker.voting.spread import published_run_offs, run_off_survives
from leaveout.verifier.checker.voting.thresholds import no_more_bought, prices_of
from leaveout.verifier.checker.voting.together import TooLongError, at_stake, no_more_lost
from leaveout.verifier.checker.voting.vote import Vote as CheckedVote
from leaveout.verifier.values.votes.schemes import (
    CountedVote,
    FamilyVote,
    FiniteVote,
    RunOffVote,
    SpreadRunOffVote,
)
from leaveout.verifier.values.votes.vote import Arrays, Radii, ShownPoints, Vote, too_long

Wide = NDArray[np.int64]
_Given: TypeAlias = tuple[
    NDArray[np.int32], NDArray[np.floating], int, NDArray[np.int64], tuple[int, ...]
]

_WORK = 3e9
"""Of a trial of whether a bound can be shown again."""


def run_offs_unproved(
    vote: RunOffVote, counted: NDArray[np.bool_], edits: int, found: CollectiveBounds
) -> str:
    """Return why a joint bound on run-offs has no proof; empty if it has."""
    checked = CheckedVote(
        "spread_run_off" if isinstance(vote, SpreadRunOffVote) else "run_off", vote.ballots
    )
    try:
        truth = np.where(counted, vote.ballots.truth, np.int32(-1))
        stake = run_offs_of(checked, truth, min(edits, vote.ballots.parts))
        if found.upper >= stake.count or no_more_run_offs_lost(stake, found.upper, _WORK):
            return ""
        return "its bound could not be reproved"
    except (TooManyError, TooLongError):
        return too_long(found)


@dataclass(eq=False)
class SpreadRunOffProof(ShownPoints):
    """Proofs that hash values are too few for spread run-offs, and attacks."""

    vote: SpreadRunOffVote = field(kw_only=True)
    _survived: list[tuple[int, int]] = field(default_factory=list)

    def survivals(self) -> Arrays:
        """See `ShownPoints.survivals`."""
        return {"survived": np.array(self._survived, np.int64)} if self._survived else {}

    def survives(self, point: int, edits: int) -> None:
        """See `ShownPoints.survives`."""
        if run_off_survives(*_checker_arguments(self.vote), point, edits):
            self._survived.append((point, edits))
        else:
            self.missing += 1

    def attack(self, point: int, edits: int) -> tuple[int, ...] | None:
        """See `ShownPoints.attack`."""
        return self.vote.units_within(point, edits)


def spread_run_off_proof(
    vote: SpreadRunOffVote, radii: Radii, points: Wide, survived: int, falling: int
) -> SpreadRunOffProof:
    """Return the proof of which answers survive; see `ShownPoints.gather`."""
    found = SpreadRunOffProof(vote=vote)
    known = published_run_offs(*_checker_arguments(vote))
    found.gather(radii, points, survived, min(falling, vote.ballots.parts), known)
    return found


def _checker_arguments(vote: SpreadRunOffVote) -> _Given:
    """Return a vote as arguments of the checker's functions."""
    held = vote.ballots
    assert held.scores is not None
    answers = vote.predictions.astype(np.int64)
    return held.votes, held.scores, held.labels, answers, held.origin.offsets


_SECONDS = 10.0
"""For an attack on one point."""


def collective_arrays(found: CollectiveBounds) -> Arrays:
    """Return the attack, the bound of lost points, and the sum that proves it."""
    arrays: dict[str, NDArray[Any]] = {
        "units": np.array(found.attack.units, np.int64),
        "upper": np.array(found.upper, np.int64),
    }
    return arrays if found.summed is None else {**arrays, **_sum_of(found)}


def _sum_of(found: CollectiveBounds) -> Arrays:
    """Return a sum over batches and shares in the checker's form."""
    summed = found.summed
    assert summed is not None
    batches = np.full(len(found.points), -1, np.int64)
    for number, batch in enumerate(summed.batches):
        batches[np.searchsorted(found.points, batch.points)] = number
    return {
        "batches": batches,
        "uppers": np.array([batch.upper for batch in summed.batches], np.int64),
        "taken": summed.taken,
        "counted": summed.counted,
    }


def collective_unproved(
    vote: Vote, counted: NDArray[np.bool_], edits: int, found: CollectiveBounds
) -> str:
    """Return why a bound of one joint attack has no proof; empty if it has."""
    if isinstance(vote, RunOffVote):
        return run_offs_unproved(vote, counted, edits, found)
    if isinstance(vote, CountedVote):
        return _known_unproved(vote, counted, edits, found)
    held = vote.ballots
    offsets = held.origin.offsets if isinstance(vote, FiniteVote) else ()
    sizes = vote.sizes if isinstance(vote, FamilyVote) else ()
    budget = min(edits, max(sizes, default=held.parts))
    truth = np.where(counted, held.truth, np.int32(-1))
    stake = at_stake(held.votes, truth, held.labels, budget, offsets or (0,), sizes)
    if found.is_searched or found.upper >= stake.count:
        return ""
    try:
        if found.summed is not None:
            again = most_summed(stake, _sum_of(found), _WORK) <= found.upper
        else:
            again = no_more_lost(stake, found.upper, _WORK)
        return "" if again else "its bound could not be reproved"
    except TooLongError:
        return too_long(found)


def _known_unproved(
    vote: CountedVote, counted: NDArray[np.bool_], edits: int, found: CollectiveBounds
) -> str:
    if found.upper >= len(found.points):
        return ""
    held, at_least = vote.ballots, vote.known.at_least
    # More than each member's largest threshold is never of use.
    budget = min(edits, int(at_least.max(axis=(0, 2)).astype(np.int64).sum()))
    truth, numbers = np.where(counted, held.truth, np.int32(-1)), np.arange(held.points)
    batches = [(found.points, found.upper)]
    if found.summed is not None:
        batches = [(batch.points, batch.upper) for batch in found.summed.batches]
    try:
        for points, upper in batches:
            own = np.where(np.isin(numbers, points), truth, np.int32(-1))
            prices = prices_of(held.votes, own, at_least, held.labels, budget)
            if not no_more_bought(prices, upper, _WORK / len(batches)):
                return "its bound could not be reproved"
    except TooLongError:
        return too_long(found)
    return ""


@dataclass(eq=False)
class SpreadProof(ShownPoints):
    """Proofs that hash values are too few for Finite Aggregation, and attacks."""

    vote: FiniteVote = field(kw_only=True)
    _logs: list[tuple[int, int, int, FiniteLog]] = field(default_factory=list)

    def survivals(self) -> Arrays:
        """See `ShownPoints.survivals`."""
        if not self._logs:
            return {}
        logs = [(p, c, e, len(log.rows), len(log.weights)) for p, c, e, log in self._logs]
        return {
            "logs": np.array(logs, np.int64),
            "rows": np.concatenate([log.rows for *_, log in self._logs]),
            "weights": np.concatenate([log.weights for *_, log in self._logs]),
        }

    def survives(self, point: int, edits: int) -> None:
        """See `ShownPoints.survives`."""
        held = self.vote.ballots
        ballot, offsets, found = held.votes[point], self._offsets, []
        for label in open_labels(ballot, held.labels, offsets, edits):
            log = log_of(ballot, held.labels, offsets, label, edits)
            if log is None:
                self.missing += 1
                return
            found.append((point, label, edits, log))
        self._logs += found

    def attack(self, point: int, edits: int) -> NDArray[np.int32] | None:
        """See `ShownPoints.attack`."""
        held = self.vote.ballots
        return finite_attack_within(
            held.votes[point], held.labels, self._offsets, edits, seconds=_SECONDS
        )

    @property
    def _offsets(self) -> Wide:
        return np.array(self.vote.ballots.origin.offsets, np.int64)


def spread_proof(
    vote: FiniteVote, radii: Radii, points: Wide, survived: int, falling: int
) -> SpreadProof:
    """Return the proof of which answers survive; see `ShownPoints.gather`."""
    found = SpreadProof(vote=vote)
    found.gather(radii, points, survived, min(falling, vote.ballots.parts))
    return found
