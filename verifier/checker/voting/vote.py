"""A vote as the checker counts it: its answers, and which survive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.models.ballots import Ballots
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.plurality import (
    FAR,
    Counts,
    Flags,
    Votes,
    answers,
    blocks,
    counts_of,
    family_radii,
    plurality_radii,
    threshold_radii,
)
from leaveout.verifier.checker.voting.run_offs import run_off_answers, run_off_falls, run_off_radii
from leaveout.verifier.checker.voting.spread import (
    array,
    proved_edits,
    published_edits,
    published_run_offs,
    shown_falls,
    shown_run_off_falls,
    survived_run_offs,
)
from leaveout.verifier.checker.voting.thresholds import withstood

_NEVER = -1
_UNIT = 2**20
"""Prices are multiples of 1 / 2**20."""

_LARGEST = 2**62


def plurality_radii_to(votes: Votes, labels: int, target: int) -> Counts:
    """Return how many poisoned parts never make a label the answer; -1 where it is already.

    The poisoned members change their votes to the label. So with r of them it has r more votes, and
    wins if the r members can be chosen so that no other label keeps as many (or more, where a tie
    goes to it): members are added one at a time until that is so.
    """
    found = np.zeros(len(votes), np.int64)
    names = np.arange(labels)
    for at in blocks(len(votes), labels):
        counts = counts_of(votes[at], labels)
        own = counts[:, target].copy()
        counts[:, target] = 0
        edits = np.full(len(counts), -1)
        for taken in range(votes.shape[1] + 1):
            # Ties go to the smaller label.
            most = (own + taken)[:, None] - (names < target)
            wins = np.maximum(counts - most, 0)[:, names != target].sum(axis=1) <= taken
            edits = np.where((edits < 0) & wins, taken, edits)
        found[at] = edits - 1
    return found


def threshold_bounds_to(
    votes: Votes,  # shape (points, parts)
    too_little: NDArray[np.int32],  # shape (points, parts, labels)
    enough: NDArray[np.int32],  # shape (points, parts, labels)
    labels: int,
    target: int,
    proof: Mapping[str, NDArray[Any]],
) -> tuple[Counts, Counts]:
    """Return bounds of how many edits never make a label the answer.

    With T votes for the label, any other label c has at most T - [c < label] votes. So for prices
    y, non-negative for other labels, any winning votes cost at least ``sum_i min_v (b_iv + y_v) -
    sum_c y_c (T - [c < label]) - y_label T``; the bound is the least over T of the greatest over
    the given prices. Votes that make the label win give an upper bound of the cost. If thresholds
    are not exact, fewer than b edits never cause a vote, and other numbers suffice.
    """
    points, parts = votes.shape
    low, high = np.zeros(points, np.int64), np.full(points, FAR)
    if "prices" in proof:
        places, prices = array(proof, "points", np.int64, 1), array(proof, "prices", np.int64, 3)
        cast = array(proof, "votes", np.int32, 2)
        own = len(places)
        if prices.shape[::2] != (own, labels) or cast.shape != (own, parts):
            raise RejectedError("its prices and votes do not match the ballots")
        if ((places < 0) | (places >= points)).any() or ((cast < 0) | (cast >= labels)).any():
            raise RejectedError("its votes are for labels or test points that do not exist")
        for at, point in enumerate(places.tolist()):
            costs = too_little[point].astype(np.int64)
            low[point] = max(low[point], _least(costs, target, prices[at]) - 1)
            paid = enough[point].astype(np.int64)[np.arange(parts), cast[at]]
            wins = np.bincount(cast[at], minlength=labels).argmax() == target
            if wins and (paid != _NEVER).all():
                high[point] = min(high[point], int(paid.sum()) - 1)
    answered = counts_of(votes, labels).argmax(axis=1) == target
    return np.where(answered, -1, low), np.where(answered, -1, high)


def _least(thresholds: Counts, target: int, prices: Counts) -> int:
    """Return the cost that prices prove, at least 1; one more than `FAR` for never."""
    parts, labels = thresholds.shape
    never = 1 + sum(int(each) for each in thresholds.max(axis=1))
    others = [label for label in range(labels) if label != target]
    largest = max(abs(int(each)) for each in (prices.min(initial=0), prices.max(initial=0)))
    if (never * _UNIT + labels * largest) * (parts + 1) >= _LARGEST:
        return 1
    if (prices[:, others] < 0).any():
        raise RejectedError("a price of a vote is negative")
    costs = _UNIT * np.where(thresholds == _NEVER, never, thresholds)
    least = FAR + 1
    for votes in range(parts + 1):
        room = [votes - (label < target) for label in others]
        if min(room) < 0 or votes + sum(room) < parts:
            continue
        proved = 1
        for each in prices:
            total = int((costs + each).min(axis=1).sum()) - votes * int(each[target])
            total -= sum(int(each[c]) * space for c, space in zip(others, room, strict=True))
            proved = max(proved, -(-total // _UNIT))
        least = min(least, proved if proved < never else FAR + 1)
    return least


Kind = Literal[
    "dpa",
    "thresholds",
    "ss_dpa",
    "finite_aggregation",
    "hash_bagging",
    "run_off",
    "spread_run_off",
]
Proof: TypeAlias = Mapping[str, NDArray[Any]]


_NOT_FORCED: Mapping[Kind, str] = {
    "hash_bagging": "hash bagging",
    "spread_run_off": "run-offs of spread parts",
}


@dataclass(frozen=True, eq=False)
class Vote:
    """A way of turning members' votes into an answer."""

    kind: Kind
    ballots: Ballots  # their origin includes declarations about their hash
    threat: str = "edits"  # for members with thresholds: the kind of change counted

    @property
    def offsets(self) -> tuple[int, ...]:
        """Unit u of an attack reaches the members ``(u + offset) mod members``."""
        return self.ballots.origin.offsets or (0,)

    @property
    def is_run_off(self) -> bool:
        """Whether it has two rounds."""
        return self.kind in ("run_off", "spread_run_off")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of each family, concatenated: an edit reaches one of these members."""
        families = self.ballots.origin.families
        return families if self.kind == "hash_bagging" else (self.ballots.parts,)

    @cached_property
    def answers(self) -> Counts:
        """The answers, shape (points,)."""
        held = self.ballots
        if self.is_run_off:
            assert held.scores is not None
            return run_off_answers(held.votes, held.scores, held.labels)
        return answers(held.votes, held.labels)

    @cached_property
    def right(self) -> Flags:
        """Whether each answer is correct."""
        right: Flags = self.answers == self.ballots.truth
        return right

    @cached_property
    def radii(self) -> Counts | None:
        """The edits that each answer survives, shape (points,); None if there is no formula."""
        held = self.ballots
        if self.kind in ("finite_aggregation", "spread_run_off"):
            return None
        if self.kind == "run_off":
            assert held.scores is not None
            return run_off_radii(held.votes, held.scores, held.labels)
        if self.kind == "thresholds":
            return threshold_radii(held.votes, self.withstood[0], held.labels)
        if self.kind == "hash_bagging":
            return family_radii(held.votes, held.labels, self.sizes)
        return plurality_radii(held.votes, held.labels)

    @cached_property
    def withstood(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The changes that each vote of a member with thresholds withstands, and that suffice."""
        return withstood(self.ballots, self.threat)

    @cached_property
    def _published_radii(self) -> Counts:
        """The published number of units that each answer survives."""
        held = self.ballots
        if self.kind == "spread_run_off":
            assert held.scores is not None
            return published_run_offs(
                held.votes, held.scores, held.labels, self.answers, self.offsets
            )
        return published_edits(held.votes, held.labels, self.offsets)

    def bounds(self, proof: Proof, need: int | None = None) -> tuple[Counts, Counts]:
        """Return bounds of how many edits each answer survives, shape (points,)."""
        held = self.ballots
        if self.kind == "finite_aggregation":
            proved = proved_edits(
                held.votes, held.labels, self.offsets, self._published_radii, proof
            )
            most = shown_falls(held.votes, held.labels, self.offsets, proof)
            return proved.min(axis=1), most
        if self.kind == "spread_run_off":
            assert held.scores is not None
            given = held.votes, held.scores, held.labels, self.answers, self.offsets, proof
            return np.maximum(
                self._published_radii, survived_run_offs(*given)
            ), shown_run_off_falls(*given)
        if self.kind == "run_off" and need is not None and "radii" not in self.__dict__:
            assert held.scores is not None
            edits = np.full(held.points, min(need, held.parts), np.int64)
            falls = run_off_falls(held.votes, held.scores, held.labels, edits)
            return np.where(falls, 0, edits), np.where(falls, edits - 1, held.parts - 1)
        assert self.radii is not None
        if self.kind == "thresholds" and self.withstood[0] is not self.withstood[1]:
            return self.radii, threshold_radii(held.votes, self.withstood[1], held.labels)
        return self.radii, self.radii

    def bounds_to(self, target: int, proof: Proof) -> tuple[Counts, Counts]:
        """Return bounds of how many edits never make a label the answer.

        -1 where it is the answer already.
        """
        held = self.ballots
        if self.kind in _NOT_FORCED:
            raise RejectedError(
                f"how many changes force one answer cannot be checked for {_NOT_FORCED[self.kind]}"
            )
        if self.kind == "finite_aggregation":
            # To become the answer, the label must at least pass the present answer.
            proved = proved_edits(
                held.votes, held.labels, self.offsets, self._published_radii, proof
            )
            most = shown_falls(held.votes, held.labels, self.offsets, proof, target)
            answered = self.answers == target
            return np.where(answered, -1, proved[:, target]), np.where(answered, -1, most)
        if self.kind == "thresholds":
            return threshold_bounds_to(held.votes, *self.withstood, held.labels, target, proof)
        if target not in self._radii_to:
            if self.kind == "run_off":
                assert held.scores is not None
                radii = run_off_radii(held.votes, held.scores, held.labels, target)
            else:
                radii = plurality_radii_to(held.votes, held.labels, target)
            self._radii_to[target] = radii
        return self._radii_to[target], self._radii_to[target]

    @cached_property
    def _radii_to(self) -> dict[int, Counts]:
        """The edits that never make a label the answer, by label, computed on demand."""
        return {}
