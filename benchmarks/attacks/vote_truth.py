"""What ballots survive, by trying every vote, or ranking, of every member."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks.kind import Case
from attacks.known_truth import Known
from support.votes import every_vote

__all__ = ["Ballot", "Truth"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@cache
def _least_units(parts: int, offsets: tuple[int, ...], sizes: tuple[int, ...] = ()) -> Ints:
    """Fewest units that reach each set of members, a set a number of ``parts`` bits.

    With families of members, fewest edits: each reaches one member of every family.
    """
    if sizes:
        family = np.repeat(np.arange(len(sizes)), sizes)
        bits = (np.arange(1 << parts)[:, None] >> np.arange(parts)) & 1
        return np.stack([bits[:, family == f].sum(axis=1) for f in range(len(sizes))]).max(axis=0)
    reach = [sum(1 << ((unit + shift) % parts) for shift in offsets) for unit in range(parts)]
    least = np.full(1 << parts, parts + 1)
    for size in range(parts, -1, -1):
        for units in combinations(reach, size):
            covered = 0
            for each in units:
                covered |= each
            least[covered] = size
    for member in range(parts):  # a set is reached by what reaches a larger one
        for each in range(1 << parts):
            larger = each | 1 << member
            least[each] = min(least[each], least[larger])
    return least


@cache
def _pluralities(parts: int, labels: int) -> Ints:
    votes = every_vote(parts, labels)
    counts = np.stack([(votes == label).sum(axis=1) for label in range(labels)], axis=1)
    return np.asarray(counts.argmax(axis=1))


@cache
def _rankings(labels: int) -> list[tuple[int, ...]]:
    return list(permutations(range(labels)))


@cache
def _run_offs(parts: int, labels: int) -> Ints:
    """Who wins for every ranking of every member; the numbers are those of `_rankings`."""
    orders = np.array(_rankings(labels))
    place = np.argsort(orders, axis=1)
    ahead = place[:, :, None] < place[:, None, :]
    every = every_vote(parts, len(orders))
    counts = np.stack([(orders[every, 0] == label).sum(axis=1) for label in range(labels)], axis=1)
    # Of labels with as many votes the smaller one stands.
    a, b = np.sort(np.argsort(-counts, axis=1, kind="stable")[:, :2], axis=1).T
    for_a = ahead[every, a[:, None], b[:, None]].sum(axis=1)
    return np.asarray(np.where(2 * for_a >= parts, a, b))


@dataclass(frozen=True)
class Ballot:
    """All that can become of one test point: an answer, and which members change for it."""

    before: int
    answers: Ints
    changed: Ints
    costs: NDArray[np.float64]

    def radius(self) -> float:
        """Edits that no attack within changes the answer."""
        others = self.costs[self.answers != self.before]
        return float(others.min(initial=math.inf)) - 1.0

    def lost(self, truth: int, parts: int) -> Bools:
        """Whether members can take the true label away, a set of members a number."""
        falls = np.zeros(1 << parts, bool)
        falls[self.changed[self.answers != truth]] = True
        for member in range(parts):
            has = (np.arange(1 << parts) >> member) & 1 == 1
            falls[has] |= falls[np.flatnonzero(has) ^ (1 << member)]
        return falls


class Truth:
    """What holds of ballots, however they are counted.

    Parameters
    ----------
    case : dict
        With "votes", "truth", "labels", "offsets", "scores" or "thresholds", and "vote".
    """

    def __init__(self, case: Case) -> None:
        self.votes = np.array(case["votes"])
        self.truth = np.array(case["truth"])
        self.labels = int(case["labels"])
        self.parts = self.votes.shape[1]
        spread = case["vote"] in {"finite_aggregation", "run_off"}
        self.offsets = (tuple(case["offsets"]) if spread else ()) or (0,)
        self.sizes = tuple(case["families"]) if case["vote"] == "hash_bagging" else ()
        self._case: dict[str, Any] = case

    @cached_property
    def ballots(self) -> list[Ballot]:
        """One a test point."""
        return [self._ballot(point) for point in range(len(self.votes))]

    @cached_property
    def radii(self) -> list[float]:
        """Edits each answer survives; infinite where any number."""
        return [ballot.radius() for ballot in self.ballots]

    @cached_property
    def right(self) -> Bools:
        """Whether the true label is answered."""
        return np.array([b.before for b in self.ballots]) == self.truth

    def among(self, label: int | None) -> Bools:
        """Which points have a true label; all of them for None."""
        return np.ones(len(self.truth), bool) if label is None else self.truth == label

    def accuracy(self, edits: int, label: int | None = None) -> int:
        """How many points are answered right whatever so many edits change at each."""
        right = self.right & self.among(label)
        return sum(bool(r) and radius >= edits for r, radius in zip(right, self.radii, strict=True))

    def forced(self, to: int) -> list[float]:
        """Edits that leave each answer other than a label; -1 where it is that."""
        return [float(b.costs[b.answers == to].min(initial=math.inf)) - 1.0 for b in self.ballots]

    def collective(self, edits: int, label: int | None = None) -> int:
        """How many are answered right under the worst attack of so many edits on all of them."""
        if self._case["vote"] == "certified":
            among = self.among(label)
            rows = ("votes", "truth", "thresholds")
            kept = {name: np.array(self._case[name])[among] for name in rows}
            return Known(self._case | kept).right_under(edits) if among.any() else 0
        among = self.right & self.among(label)
        falls = [
            ballot.lost(int(truth), self.parts)
            for ballot, truth, counts in zip(self.ballots, self.truth, among, strict=True)
            if counts
        ]
        least = _least_units(self.parts, self.offsets, self.sizes)
        sets = np.flatnonzero(least <= edits)
        lost = max((sum(bool(each[s]) for each in falls) for s in sets), default=0)
        return int(among.sum()) - lost

    def median(self, label: int | None = None) -> float:
        """Greatest number of edits that half of all points survive, answered right; or -1."""
        among = self.among(label)
        certified = sorted(
            (r for r, ok in zip(self.radii, self.right & among, strict=True) if ok), reverse=True
        )
        half = (int(among.sum()) + 1) // 2
        return certified[half - 1] if len(certified) >= half else -1.0

    def _ballot(self, point: int) -> Ballot:
        parts, bits = self.parts, 1 << np.arange(self.parts)
        own = self.votes[point]
        least = _least_units(parts, self.offsets, self.sizes).astype(np.float64)
        if self._case["vote"] == "run_off":
            orders = _rankings(self.labels)
            scores = np.array(self._case["scores"])[point]
            ranked = [orders.index(tuple(np.argsort(-row, kind="stable"))) for row in scores]
            every = every_vote(parts, len(orders))
            answers = _run_offs(parts, self.labels)
            before = int(answers[(every == ranked).all(axis=1)][0])
            changed = (every != ranked) @ bits
            return Ballot(before, answers, changed, least[changed])
        every = every_vote(parts, self.labels)
        answers = _pluralities(parts, self.labels)
        before = int(answers[(every == own).all(axis=1)][0])
        changed = (every != own) @ bits
        costs = least[changed]
        if self._case["vote"] == "certified":
            thresholds = np.array(self._case["thresholds"])[point]
            each = thresholds[np.arange(parts), every].astype(np.float64)
            costs = np.where(each < 0, math.inf, each).sum(axis=1)
        return Ballot(before, answers, changed, costs)
