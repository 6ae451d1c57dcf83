"""Closing of one point of Finite Aggregation: cheap bounds, then programmes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.finite_search import attack
from leaveout.bab.votes.finite_solving import least_whole
from leaveout.bab.votes.finite_weights import weighted_bound
from leaveout.deadline import Deadline
from leaveout.encoders.votes import finite_kernels as kernels
from leaveout.encoders.votes.finite_programme import finite_problem
from leaveout.solvers import CanSolve

Ints = NDArray[np.int32]
Counts = NDArray[np.int64]

_WEIGHTS = 300
"""Weights tried for each number of buckets that is to be proved too few."""

_MORE_WEIGHTS = 600
"""The same before a programme, which is dearer."""

_EXCHANGES = 200
"""Exchanges tried for each number of buckets that an attack is to make do with."""


@dataclass(eq=False)
class Bracket:
    """Bounds on one point, which only ever tighten."""

    votes: Ints  # shape (members,)
    offsets: Counts  # shape (d,)
    best: int  # the prediction
    gap: Counts  # shape (labels,): what the gain of each label must exceed
    edits: Counts  # shape (labels,)
    cheapest: int  # buckets that change the prediction: of the smallest attack found, or as given
    buckets: Ints  # the smallest attack found, ascending
    turned: Ints  # shape (members,): what all members vote under this attack

    @property
    def lower(self) -> int:
        """Buckets that the prediction survives, at least."""
        return int(self.edits.min()) - 1

    @property
    def upper(self) -> int:
        """Buckets that the prediction survives, at most."""
        return self.cheapest - 1

    def is_settled(self, need: int | None) -> bool:
        """Return whether the radius, or its comparison with ``need``, is known."""
        if need is not None and (self.lower >= need or self.upper < need):
            return True
        return self.lower >= self.upper

    def open_labels(self) -> list[int]:
        """Return the labels towards which a smaller attack may exist, the most promising first."""
        order = np.argsort(self.edits, kind="stable")
        return [int(label) for label in order if self.edits[label] < self.cheapest]

    def gain(self, label: int) -> Counts:
        """Return what choosing each member's vote gains a label on the prediction: 0, 1 or 2."""
        gain: Counts = 1 + (self.votes == self.best).astype(np.int64) - (self.votes == label)
        return gain

    def try_attack(self, buckets: NDArray[np.integer], target: int) -> None:
        """Carry an attack out, count again, and keep it if it works and is the smallest yet."""
        turned = self.votes.copy()
        turned[(buckets[:, None] + self.offsets) % len(turned)] = target
        counts = np.bincount(turned, minlength=len(self.gap))
        if len(buckets) < len(self.buckets) and counts.argmax() != self.best:
            self.buckets, self.turned = buckets.astype(np.int32), turned
            self.cheapest = min(self.cheapest, len(buckets))


def bracket_radius(
    votes: Ints, labels: int, offsets: Counts, known: tuple[int, int], need: int | None
) -> Bracket:
    """Bound how many poisoned buckets a prediction survives, without a solver."""
    members = len(votes)
    gap, edits = np.zeros(labels, np.int64), np.zeros(labels, np.int64)
    best = int(kernels.gaps(votes, gap))
    hits = np.zeros((labels, members), np.int32)
    kernels.published_edits(votes, offsets, best, gap, hits, edits)
    edits = np.maximum(edits, known[0] + 1)
    # Poisoning everything lets any label win.
    everything, other = np.arange(members, dtype=np.int32), np.full_like(votes, int(best == 0))
    found = Bracket(votes, offsets, best, gap, edits, known[1] + 1, everything, other)
    for label in found.open_labels():
        if found.is_settled(need):
            break
        if edits[label] < found.cheapest:
            gain, least = found.gain(label), int(edits[label])
            buckets = attack(gain, offsets, int(gap[label]), least, found.cheapest - 1, _EXCHANGES)
            if len(buckets):
                found.try_attack(buckets, label)
    for label in found.open_labels():
        if found.is_settled(need):
            break
        most = found.cheapest if need is None else min(found.cheapest, need + 1)
        gain, least = found.gain(label), int(edits[label])
        edits[label], _ = weighted_bound(gain, offsets, int(gap[label]), least, most, _WEIGHTS)
    return found


def solve(found: Bracket, need: int | None, solver: CanSolve, seconds: float | None) -> None:
    """Narrow a bracket by one programme for each label that may still pass the prediction.

    What one label's programme finds cuts off the others'.
    """
    deadline = Deadline.after(seconds)
    labels = found.open_labels()
    for order, label in enumerate(labels):
        most = found.cheapest - 1 if need is None else min(found.cheapest - 1, need)
        gain, gap = found.gain(label), int(found.gap[label])
        known, left = int(found.edits[label]), deadline.limit
        if found.is_settled(need) or known > most or (left is not None and left <= 0):
            continue
        known, fit = weighted_bound(gain, found.offsets, gap, known, most + 1, _MORE_WEIGHTS)
        found.edits[label] = known
        if known > most:
            continue
        problem = finite_problem(
            found.votes,
            len(found.gap),
            found.offsets,
            label,
            least=known,
            most=most,
            fit=fit if known == most else None,
        )
        least, point = least_whole(
            problem, solver, None if left is None else left / (len(labels) - order)
        )
        if point is not None:
            found.try_attack(np.flatnonzero(point[: len(found.votes)] > 0.5), label)
        found.edits[label] = max(known, int(min(max(least, known), most + 1)))
