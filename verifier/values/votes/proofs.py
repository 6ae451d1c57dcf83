"""What a certificate has of a claim about votes, where counting alone does not prove it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective_exact import CollectiveBounds
from leaveout.bab.votes.finite import finite_attack_within
from leaveout.bab.votes.finite_log import FiniteLog, log_of, open_labels
from leaveout.verifier.checker.voting.at_stake import at_stake
from leaveout.verifier.checker.voting.together import TooLongError, no_more_lost
from leaveout.verifier.values.votes.radii import Radii
from leaveout.verifier.values.votes.schemes import FiniteVote
from leaveout.verifier.values.votes.vote import Vote

__all__ = ["SpreadProof", "collective_arrays", "collective_unproved", "spread_proof"]

Wide = NDArray[np.int64]
Arrays: TypeAlias = Mapping[str, NDArray[Any]]

_SECONDS = 10.0
"""For an attack on one point."""

_WORK = 3e9
"""Of a trial of whether a bound that no search proved can be shown again."""


def collective_arrays(found: CollectiveBounds) -> Arrays:
    """Return the attack, and how many points none loses more than."""
    return {
        "units": np.array(found.attack.units, np.int64),
        "upper": np.array(found.upper, np.int64),
    }


def collective_unproved(vote: Vote, budget: int, found: CollectiveBounds) -> str:
    """Return why a bound of one attack on all points cannot be shown again; empty if it can."""
    held = vote.ballots
    offsets = held.origin.offsets if isinstance(vote, FiniteVote) else ()
    stake = at_stake(held.votes, held.truth, held.labels, budget, offsets or (0,))
    if found.is_searched or found.upper >= stake.count:
        return ""
    try:
        return "" if no_more_lost(stake, found.upper, _WORK) else "its bound is not shown again"
    except TooLongError:
        return (
            f"that no attack loses more than {found.upper:,} points is {found.proof}, and takes "
            "too long to be shown again"
        )


@dataclass(eq=False)
class SpreadProof:
    """Logs of hash values that are too few, and attacks that are enough.

    Attributes
    ----------
    missing : int
        Points of which no log was found.
    """

    missing: int = 0
    _logs: list[tuple[int, int, int, FiniteLog]] = field(default_factory=list)
    _attacks: list[tuple[int, NDArray[np.int32]]] = field(default_factory=list)

    def arrays(self) -> Arrays:
        """Return them as arrays; none where there is nothing to show."""
        found: dict[str, NDArray[Any]] = {}
        if self._logs:
            logs = [(p, c, e, len(log.rows), len(log.weights)) for p, c, e, log in self._logs]
            found["logs"] = np.array(logs, np.int64)
            found["rows"] = np.concatenate([log.rows for *_, log in self._logs])
            found["weights"] = np.concatenate([log.weights for *_, log in self._logs])
        if self._attacks:
            attacks = [(point, len(buckets)) for point, buckets in self._attacks]
            found["attacks"] = np.array(attacks, np.int64)
            found["values"] = np.concatenate([buckets for _, buckets in self._attacks])
        return found

    def survives(self, vote: FiniteVote, point: int, edits: int) -> None:
        """Add why so many edits do not change an answer."""
        held, offsets = vote.ballots, np.array(vote.ballots.origin.offsets, np.int64)
        ballot, found = held.votes[point], []
        for label in open_labels(ballot, held.labels, offsets, edits):
            log = log_of(ballot, held.labels, offsets, label, edits)
            if log is None:
                self.missing += 1
                return
            found.append((point, label, edits, log))
        self._logs += found

    def falls(self, vote: FiniteVote, point: int, edits: int) -> None:
        """Add an attack of so many edits that changes an answer."""
        held = vote.ballots
        buckets = finite_attack_within(
            held.votes[point], held.labels, np.array(held.origin.offsets), edits, seconds=_SECONDS
        )
        if buckets is None:
            self.missing += 1
        else:
            self._attacks.append((point, buckets))


def spread_proof(
    vote: FiniteVote, radii: Radii, points: Wide, survived: int, falling: int
) -> SpreadProof:
    """Return what shows which answers survive some edits, and which do not.

    Parameters
    ----------
    vote : FiniteVote
    radii : Radii
        What is known of its points.
    points : ndarray of int64
        Those that count.
    survived : int
        That the answers whose radius is at least this survive so many edits is to be shown,
    falling : int
        and that those whose radius is below this change with so many.
    """
    held, found = vote.ballots, SpreadProof()
    for point in points.tolist():
        if survived > 0 and radii.lower[point] >= survived:
            found.survives(vote, point, survived)
        if radii.upper[point] < min(falling, held.parts):
            found.falls(vote, point, falling)
    return found
