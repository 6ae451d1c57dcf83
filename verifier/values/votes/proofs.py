"""Certificate data of claims about votes that counting alone does not prove."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective_exact import CollectiveBounds
from leaveout.bab.votes.finite import finite_attack_within
from leaveout.bab.votes.finite_weights import FiniteLog, log_of, open_labels
from leaveout.bab.votes.search import TooLongError, shows
from leaveout.kernel import schemes
from leaveout.kernel.counting import Stake, show_no_more_lost, show_sum
from leaveout.kernel.numbers import Rejected
from leaveout.verifier.certify.votes import hints, kernel_vote
from leaveout.verifier.values.votes.schemes import (
    CountedVote,
    FamilyVote,
    FiniteVote,
    RunOffVote,
    SpreadRunOffVote,
)
from leaveout.verifier.values.votes.vote import Arrays, Radii, ShownPoints, Vote, too_long

Wide = NDArray[np.int64]

_WORK = 3e9
"""Of a trial of whether a bound can be shown again."""

_UNPROVED = "its bound could not be reproved"


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
        stake = kernel_vote("spread_run_off", self.vote.ballots).run_off_stake(
            np.array([point]), min(edits, self.vote.ballots.parts)
        )
        try:
            survives = shows(stake, 0, _WORK)
        except (TooLongError, Rejected):
            survives = False
        self._survived += [(point, edits)] if survives else []
        self.missing += not survives

    def attack(self, point: int, edits: int) -> tuple[int, ...] | None:
        """See `ShownPoints.attack`."""
        return self.vote.units_within(point, edits)


def spread_run_off_proof(
    vote: SpreadRunOffVote, radii: Radii, points: Wide, survived: int, falling: int
) -> SpreadRunOffProof:
    """Return the proof of which answers survive; see `ShownPoints.gather`."""
    found = SpreadRunOffProof(vote=vote)
    known = kernel_vote("spread_run_off", vote.ballots).radii
    found.gather(radii, points, survived, min(falling, vote.ballots.parts), known)
    return found


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
    try:
        stake = _stake_of(vote, counted, edits)
        if found.upper >= stake.count:
            return ""
        ask = hints(_WORK if found.summed is None else _WORK / max(1, len(found.summed.batches)))
        if found.summed is None:
            show_no_more_lost(stake, found.upper, ask)
        elif show_sum(stake, _sum_of(found), ask) > found.upper:
            return _UNPROVED
    except TooLongError:
        return too_long(found)
    except Rejected:
        return _UNPROVED
    return ""


def _stake_of(vote: Vote, counted: NDArray[np.bool_], edits: int) -> Stake:
    """Return what the kernel says that attacks on the answers demand."""
    held, counted = vote.ballots, counted & vote.right
    if isinstance(vote, RunOffVote):
        spread = isinstance(vote, SpreadRunOffVote)
        own = kernel_vote("spread_run_off" if spread else "run_off", held)
        return own.stake(counted, min(edits, held.parts))
    if isinstance(vote, CountedVote):
        at_least = vote.known.at_least
        # More than each member's largest threshold is never of use.
        budget = min(edits, int(at_least.max(axis=(0, 2)).astype(np.int64).sum()))
        return schemes.threshold_stake(held.votes, at_least, held.labels, counted, budget)
    offsets = held.origin.offsets if isinstance(vote, FiniteVote) else ()
    sizes = vote.sizes if isinstance(vote, FamilyVote) else (held.parts,)
    budget = min(edits, max(sizes))
    return schemes.plurality_stake(held.votes, held.labels, counted, budget, offsets or (0,), sizes)


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
