"""Certificate data of run-offs that counting alone does not prove."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective_exact import CollectiveBounds
from leaveout.verifier.checker.voting.run_off_spread import published_run_offs, run_off_survives
from leaveout.verifier.checker.voting.run_offs_at_stake import TooManyError
from leaveout.verifier.checker.voting.run_offs_of import run_offs_of
from leaveout.verifier.checker.voting.run_offs_together import no_more_run_offs_lost
from leaveout.verifier.checker.voting.together import TooLongError
from leaveout.verifier.checker.voting.vote import Vote as CheckedVote
from leaveout.verifier.values.votes.radii import Radii
from leaveout.verifier.values.votes.run_offs import SpreadRunOffVote
from leaveout.verifier.values.votes.schemes import RunOffVote
from leaveout.verifier.values.votes.shown import Arrays, ShownPoints, too_long

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
        return "its bound is not shown again"
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
