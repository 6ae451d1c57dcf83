"""Certificate data of claims about votes that counting alone does not prove."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective import CollectiveBounds
from leaveout.bab.votes.fewest import Fewest
from leaveout.bab.votes.search import TooLongError, shows
from leaveout.kernel.counting import show_no_more_lost, show_sum
from leaveout.kernel.numbers import Rejected
from leaveout.verifier.certify.votes import hints
from leaveout.verifier.values.votes.vote import Radii, Vote, Wide

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

_WORK = 3e9  # of a trial of whether a bound can be shown again

_UNPROVED = "its bound could not be reproved"


@dataclass(eq=False)
class SurvivalProof:
    """How many units answers survive where parts are spread, and attacks."""

    vote: Vote
    target: int | None = None
    missing: int = 0  # points of which that cannot be shown
    _survived: list[tuple[int, int]] = field(default_factory=list)
    _attacks: list[tuple[int, Wide]] = field(default_factory=list)

    def gather(
        self, radii: Radii, points: Wide, survived: int, falling: int,
        known: Callable[[int], Fewest],
    ) -> None:  # fmt: skip
        """Add proofs of which answers survive some edits and which do not."""
        falling = min(falling, self.vote.ballots.parts)
        counted = self.vote.counted.radii
        for point in points.tolist():
            if counted[point] < survived <= radii.lower[point]:
                shown = self._can_show(point, survived)
                self._survived += [(point, survived)] if shown else []
                self.missing += not shown
            if -1 < radii.upper[point] < falling:
                units = known(point).choices
                if len(units) <= min(falling, int(radii.upper[point]) + 1):
                    self._attacks.append((point, units))
                else:
                    self.missing += 1

    def arrays(self) -> Arrays:
        """Return the proofs as arrays; none if there is nothing to prove."""
        found = dict[str, NDArray[Any]]()
        if self._survived:
            found["survived"] = np.array(self._survived, np.int64)
        if self._attacks:
            found["attacks"] = np.array([(at, len(units)) for at, units in self._attacks], np.int64)
            values = np.concatenate([units for _, units in self._attacks])
            found["values"] = values.astype(np.int32)
        return found

    def _can_show(self, point: int, edits: int) -> bool:
        stake = self.vote.counted.stake_at(point, min(edits, self.vote.ballots.parts), self.target)
        pairs = np.arange(len(stake.points))
        try:
            return all(shows(stake.of_pairs(pairs == pair), 0, _WORK) for pair in pairs)
        except (TooLongError, Rejected):
            return False


def collective_arrays(found: CollectiveBounds) -> Arrays:
    """Return the attack, the bound of lost points, and the sum that proves it."""
    arrays: dict[str, NDArray[Any]] = {
        "units": np.array(found.units, np.int64),
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
        stake = vote.stake(counted, edits)
        if found.upper >= stake.count or found.work <= _WORK:
            return ""
        ask = hints(_WORK if found.summed is None else _WORK / max(1, len(found.summed.batches)))
        if found.summed is None:
            show_no_more_lost(stake, found.upper, ask)
        elif show_sum(stake, _sum_of(found), ask) > found.upper:
            return _UNPROVED
    except TooLongError:
        return (
            f"that no attack loses more than {found.upper:,} points comes from {found.proof}, and "
            "takes too long to reprove"
        )
    except Rejected:
        return _UNPROVED
    return ""
