"""Bounds of what members with thresholds withstand, by kind of change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from leaveout.compiling import cached_njit
from leaveout.encoders.votes.plurality import Attack, Tally
from leaveout.encoders.votes.threat import UNBOUNDED, Cost, Threat
from leaveout.models.ballots import UNREACHABLE, Against
from leaveout.solvers import Problem


@dataclass(frozen=True, eq=False)
class Known:
    """Lower and upper bounds of thresholds, in units of an attack."""

    at_least: NDArray[np.int32]  # shape (points, parts, labels)
    enough: NDArray[np.int32]  # shape (points, parts, labels)
    gap: str = ""  # why the two differ; empty if they do not

    @property
    def is_exact(self) -> bool:
        """Whether the fewest changes for every vote are known exactly."""
        return not self.gap


def reach_of(
    against: Against, threat: Threat, *, hash_reads_label: bool | None, alone: bool
) -> Cost | None:
    """Return how many units one change costs; None if thresholds give no bound for it.

    Thresholds in edits bound all kinds of change. Others bound only their own kind, and relabels
    only if relabelled samples stay in their parts.
    """
    stays = alone or hash_reads_label is False
    if against != "edits":
        if threat.value != against or (threat is Threat.RELABELS and not stays):
            return None
        return Cost(1, f"thresholds of members count {against}")
    if threat is Threat.RELABELS and stays:
        where = "there is no other part" if alone else "the hash does not read the label"
        return Cost(1, f"{where}; thresholds count edits, and it is 2 edits of its part")
    if threat is Threat.MODIFICATIONS and alone:
        return Cost(1, "there is no other part; thresholds count edits, and it is 2 edits of it")
    if threat in (Threat.RELABELS, Threat.MODIFICATIONS):
        return Cost(2, "thresholds of members count edits, and it is a removal and an insertion")
    return Cost(1, "the one that the hash selects")


def known_of(
    thresholds: NDArray[np.int32],  # shape (points, parts, labels)
    against: Against,
    exact_to: int | None,
    threat: Threat,
    cost: Cost,
) -> Known:
    """Return the bounds that thresholds imply for one kind of change."""
    if threat.value != against:
        at_least = thresholds
        if threat in (Threat.RELABELS, Threat.MODIFICATIONS) and cost.parts == 1:
            at_least = np.where(
                thresholds == UNREACHABLE, UNREACHABLE, (thresholds + 1) // 2
            ).astype(np.int32)
        own = np.where(thresholds == 0, np.int32(0), np.int32(UNREACHABLE))
        gap = (
            (
                f"thresholds count {against}, which bound {threat.value} from one side only; "
                f"provide thresholds against {threat.value}"
            )
            if threat.value in ("insertions", "removals", "relabels")
            else f"thresholds count {against}, which bound {threat.value} from one side only"
        )
        return Known(at_least, own, gap)
    if exact_to is None or not (thresholds > exact_to).any():
        return Known(thresholds, thresholds)
    enough = np.where(thresholds > exact_to, np.int32(UNREACHABLE), thresholds)
    return Known(thresholds, enough, f"thresholds are only exact to {exact_to}")


_CHUNK = 2**22
"""Costs of votes processed at once."""

_SMALL = np.iinfo(np.int32).max
"""Smaller budgets are stored in 32 bits."""


@dataclass(frozen=True, eq=False)
class KnownStakes:
    """The test points that an attack could change, and the cost of each vote.

    A *pair* is a point answered right and a rival label; it is lost if the votes that can be
    changed by edits on members gain the rival enough.
    """

    budget: int  # edits available for all members together
    ones: NDArray[Any]  # shape (members, pairs)
    twos: NDArray[Any]  # shape (members, pairs)
    needs: NDArray[np.int32]  # shape (pairs,): gap between c and c', plus one
    least: NDArray[np.int64]  # shape (pairs,)
    points: NDArray[np.int64]  # shape (pairs,): ascending; a test point may have several pairs

    @property
    def members(self) -> int:
        """The number of members."""
        return len(self.ones)

    def only(self, points: NDArray[np.int64]) -> KnownStakes:
        """Return the stakes of some of the test points."""
        pairs = np.flatnonzero(np.isin(self.points, points))
        return replace(
            self,
            ones=np.ascontiguousarray(self.ones[:, pairs]),
            twos=np.ascontiguousarray(self.twos[:, pairs]),
            needs=self.needs[pairs],
            least=self.least[pairs],
            points=self.points[pairs],
        )

    def lost_to(self, spent: NDArray[np.int64]) -> tuple[int, ...]:
        """Return the points lost if these edits are spent on each member."""
        gains = (self.ones <= spent[:, None]).sum(axis=0) + (self.twos <= spent[:, None]).sum(
            axis=0
        )
        return tuple(np.unique(self.points[gains >= self.needs]).tolist())


def known_stakes_of(
    votes: NDArray[np.int32],  # shape (points, parts)
    truth: NDArray[np.int32],  # shape (points,)
    tallied: Tally,
    thresholds: NDArray[np.int32],  # shape (points, parts, labels)
    budget: int,
) -> KnownStakes:
    """Return the points an attack can change, leaving out those beyond its budget."""
    parts, labels = thresholds.shape[1:]
    # More than every member's largest threshold is of no use.
    budget = min(budget, int(thresholds.max(axis=(0, 2)).astype(np.int64).clip(0).sum()))
    kind = np.int32 if budget < _SMALL else np.int64
    far = kind(budget + 1)
    # An edit gains at most 2.
    near = (tallied.predictions == truth)[:, None] & (tallied.gaps < 2 * budget)
    points, targets = np.nonzero(near)
    needs = tallied.gaps[points, targets] + np.int32(1)
    found: list[tuple[NDArray[Any], ...]] = []
    step = max(1, _CHUNK // (parts * labels))
    for start in range(0, len(points), step):
        at = slice(start, start + step)
        rows, rivals = points[at], targets[at]
        costs = np.minimum(np.where(thresholds[rows] == UNREACHABLE, far, thresholds[rows]), far)
        answers = tallied.predictions[rows]
        own, other = votes[rows] == answers[:, None], votes[rows] == rivals[:, None]
        to = np.take_along_axis(costs, rivals[:, None, None], axis=2)[:, :, 0]
        np.put_along_axis(costs, answers[:, None, None], far, axis=2)
        ones = np.where(own, costs.min(axis=2), np.where(other, far, to)).astype(kind)
        twos = np.where(own, to, far).astype(kind)
        least = _least_costs(ones, twos, needs[at], int(far))
        kept_pairs = np.flatnonzero(least <= budget)
        found.append((ones[kept_pairs], twos[kept_pairs], least[kept_pairs], kept_pairs + start))
    if not found:
        none = np.zeros((0, parts), kind)
        found = [(none, none, np.zeros(0, np.int64), np.zeros(0, np.int64))]
    ones, twos, least, pairs = (np.concatenate(each) for each in zip(*found, strict=True))
    return KnownStakes(
        budget,
        np.ascontiguousarray(ones.T),
        np.ascontiguousarray(twos.T),
        needs[pairs],
        least,
        points[pairs],
    )


@cached_njit()
def _least_costs(
    ones: NDArray[Any], twos: NDArray[Any], needs: NDArray[np.int32], far: int
) -> NDArray[np.int64]:
    """Return the least cost of each pair's need, at most ``far``."""
    pairs, parts = ones.shape
    found = np.full(pairs, far, np.int64)
    least = np.zeros(2 * parts + 2, np.int64)
    for pair in range(pairs):
        need = int(needs[pair])
        if need > 2 * parts:
            continue
        least[1 : need + 1] = far
        least[0] = 0
        for member in range(parts):
            one, two = int(ones[pair, member]), int(twos[pair, member])
            if one >= far:
                continue
            for gain in range(need, 0, -1):
                cost = min(least[gain - 1] + one, least[max(gain - 2, 0)] + two)
                least[gain] = min(least[gain], cost)
        found[pair] = min(least[need], far)
    return found


def affordable_losses(
    votes: NDArray[np.int32],
    truth: NDArray[np.int32],
    thresholds: NDArray[np.int32],
    spent: NDArray[np.int64],  # shape (parts,)
) -> tuple[int, ...]:
    """Recount and return the points lost for given edits on each member.

    For each label, members vote for it where affordable; members that vote for the true label and
    cannot change to it change to any affordable one.
    """
    labels = thresholds.shape[2]
    names = np.arange(labels)
    lost = []
    for point, (ballot, costs) in enumerate(zip(votes, thresholds, strict=True)):
        right = int(truth[point])
        if int(np.bincount(ballot, minlength=labels).argmax()) != right:
            continue
        can = (costs != UNREACHABLE) & (costs <= spent[:, None])
        elsewhere = np.where(can & (names != right), names, -1).max(axis=1)
        for label in names[names != right]:
            away = np.where((ballot == right) & (elsewhere >= 0), elsewhere, ballot)
            cast = np.where(can[:, label], label, away)
            if int(np.bincount(cast, minlength=labels).argmax()) != right:
                lost.append(point)
                break
    return tuple(lost)


@dataclass(frozen=True, eq=False)
class KnownLevels:
    """Useful spending levels of each member, with one binary variable each."""

    member: NDArray[np.int64]  # shape (levels,): ascending
    cost: NDArray[np.int64]  # shape (levels,): ascending within a member

    def place(self, members: NDArray[np.int64], costs: NDArray[Any]) -> NDArray[np.int64]:
        """Return the levels of some members at given costs."""
        factor = int(self.cost.max(initial=0)) + 1
        found: NDArray[np.int64] = np.searchsorted(
            self.member * factor + self.cost, members * factor + costs
        )
        return found

    def total_costs(self, members: int, bought: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the total spent on each member, shape (members,)."""
        total = np.zeros(members, np.int64)
        np.maximum.at(total, self.member[bought], self.cost[bought])
        return total


def known_levels(stakes: KnownStakes) -> KnownLevels:
    """Return the levels of all members."""
    members, costs = [], []
    for member in range(stakes.members):
        own = np.union1d(stakes.ones[member], stakes.twos[member]).astype(np.int64)
        own = own[own <= stakes.budget]
        members.append(np.full(len(own), member, np.int64))
        costs.append(own)
    return KnownLevels(np.concatenate(members), np.concatenate(costs))


def known_problem(stakes: KnownStakes, levels: KnownLevels, at_least: int = 0) -> Problem:
    """Return the problem whose optimum is the number of points one attack can lose.

    Variables in order: total, bought levels x (each implies all below it), lost pairs y, lost
    points z. Two redundant integer rows a pair tighten the relaxation.
    """
    pairs, count = len(stakes.needs), len(levels.cost)
    owners, owner = np.unique(stakes.points, return_inverse=True)
    first, total_columns = 1 + count, 1 + count + pairs + len(owners)
    rows = _Rows(total_columns)
    # Levels are bought in order, within the budget.
    again = np.flatnonzero(np.diff(levels.member, prepend=-1) == 0)
    numbers = np.arange(len(again))
    rows.add(
        len(again),
        (np.concatenate([numbers, numbers]), np.concatenate([again, again + 1]),
         np.concatenate([np.ones(len(again)), -np.ones(len(again))])),
    )  # fmt: skip
    price = levels.cost.copy()
    price[again] -= levels.cost[again - 1]
    zeros = np.zeros(count, np.int64)
    rows.add(1, (zeros, 1 + np.arange(count), -price), lower=-stakes.budget)
    # Gains of a pair, their cost, and the members that gain it 2.
    one_member, one_pair = np.nonzero(stakes.ones <= stakes.budget)
    two_member, two_pair = np.nonzero(stakes.twos <= stakes.budget)
    ones = stakes.ones[one_member, one_pair].astype(np.int64)
    twos = stakes.twos[two_member, two_pair].astype(np.int64)
    one_at, two_at = 1 + levels.place(one_member, ones), 1 + levels.place(two_member, twos)
    more = twos - stakes.ones[two_member, two_pair]
    lost = np.arange(pairs)
    gains = np.concatenate([one_pair, two_pair]), np.concatenate([one_at, two_at])
    for values, needed in (
        (np.ones(len(gains[0])), stakes.needs),
        (np.concatenate([ones, more]), stakes.least),
    ):
        rows.add(
            pairs,
            (*gains, values),
            (lost, first + lost, -needed.astype(np.int64)),
        )
    short = stakes.needs - _most_members(stakes)
    some = np.flatnonzero(short > 0)
    if len(some):
        number = np.full(pairs, -1)
        number[some] = np.arange(len(some))
        told = number[two_pair] >= 0
        rows.add(
            len(some),
            (number[two_pair[told]], two_at[told], np.ones(int(told.sum()))),
            (np.arange(len(some)), first + some, -short[some]),
        )
    rows.add(
        len(owners),
        (owner, first + lost, np.ones(pairs)),
        (np.arange(len(owners)), first + pairs + np.arange(len(owners)), -np.ones(len(owners))),
    )
    points = first + pairs + np.arange(len(owners))
    rows.add(
        1,
        (np.zeros(len(owners), np.int64), points, np.ones(len(owners))),
        (np.zeros(1, np.int64), np.zeros(1, np.int64), -np.ones(1)),
    )
    matrix, row_lower = rows.matrix()
    objective, lower = np.zeros(total_columns), np.zeros(total_columns)
    upper = np.ones(total_columns)
    objective[0], lower[0], upper[0] = 1.0, at_least, len(owners)
    integer = np.zeros(total_columns, dtype=bool)
    integer[1 : first + pairs] = True
    row_upper = np.full(len(row_lower), np.inf)
    return Problem(objective, matrix, row_lower, row_upper, lower, upper, integer, maximise=True)


def _most_members(stakes: KnownStakes) -> NDArray[np.int64]:
    """Return how many members can gain for a pair within the budget, shape (pairs,)."""
    paid = np.cumsum(np.sort(stakes.ones, axis=0).astype(np.int64), axis=0)
    most: NDArray[np.int64] = (paid <= stakes.budget).sum(axis=0)
    return most


class _Rows:
    """Rows of a problem, collected in blocks, each with a lower bound."""

    def __init__(self, columns: int) -> None:
        self._columns, self._count = columns, 0
        self._parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
        self._lower: list[NDArray[np.float64]] = []

    def add(
        self,
        count: int,
        *parts: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
        lower: float = 0.0,
    ) -> None:
        """Add rows with entries given by block row, column and value."""
        self._parts += [(row + self._count, column, value) for row, column, value in parts]
        self._lower.append(np.full(count, lower))
        self._count += count

    def matrix(self) -> tuple[csr_array, NDArray[np.float64]]:
        """Return the rows and their lower bounds."""
        row, column, value = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        shape = self._count, self._columns
        matrix = coo_array((value.astype(float), (row, column)), shape=shape)
        return csr_array(matrix), np.concatenate(self._lower)


def knapsack_radius(
    votes: NDArray[np.int32], thresholds: NDArray[np.int32], tallied: Tally, point: int
) -> int:
    """Return how many edits a prediction survives, given the members' thresholds.

    Per label, a knapsack finds the least cost of votes whose gains exceed the gap. Exact for exact
    thresholds; for lower bounds of thresholds the result is a lower bound.
    """
    cost = min(
        int(_least_cost(*_choices(votes[point], thresholds[point], tallied, point, target))[-1, -1])
        for target in _targets(tallied, point)
    )
    return UNBOUNDED if cost >= _FAR else cost - 1


def knapsack_attack(
    votes: NDArray[np.int32], thresholds: NDArray[np.int32], tallied: Tally, point: int
) -> Attack | None:
    """Return a cheapest attack on one point, or None."""
    best: tuple[int, int] | None = None
    for target in _targets(tallied, point):
        given = _choices(votes[point], thresholds[point], tallied, point, target)
        cost = int(_least_cost(*given)[-1, -1])
        if cost < _FAR and (best is None or cost < best[0]):
            best = cost, target
    if best is None:
        return None
    cost, target = best
    ones, twos, need = _choices(votes[point], thresholds[point], tallied, point, target)
    prediction = int(tallied.predictions[point])
    members, cast = [], []
    for member, gain in enumerate(_cheapest_gains(ones, twos, need)):
        if not gain:
            continue
        members.append(member)
        free = votes[point, member] == prediction and gain == 1
        cast.append(_other(thresholds[point, member], prediction, target) if free else target)
    # Moving votes away from the prediction may make a third label win.
    after = np.array(votes[point])
    after[members] = cast
    return Attack(
        point=point,
        edits=cost,
        poisoned=tuple(members),
        members=tuple(members),
        votes=tuple(cast),
        before=prediction,
        after=int(np.bincount(after, minlength=tallied.counts.shape[1]).argmax()),
    )


_FAR = np.int64(UNBOUNDED)
"""A cost that stands for "never", above any sum of real costs."""


def _targets(tallied: Tally, point: int) -> list[int]:
    labels = tallied.counts.shape[1]
    return [label for label in range(labels) if label != tallied.predictions[point]]


def _choices(
    ballot: NDArray[np.int32],
    thresholds: NDArray[np.int32],
    tallied: Tally,
    point: int,
    target: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return each member's cost to gain 1 and to gain 2, and the gain needed."""
    prediction = int(tallied.predictions[point])
    costs = np.where(thresholds == UNREACHABLE, _FAR, thresholds.astype(np.int64))
    own, other = ballot == prediction, ballot == target
    ones = np.where(other, _FAR, costs[:, target])
    away = np.delete(costs, prediction, axis=1).min(axis=1)
    ones = np.where(own, np.minimum(ones, away), ones)
    twos = np.where(own, costs[:, target], _FAR)
    return ones, twos, int(tallied.gaps[point, target]) + 1


def _other(thresholds: NDArray[np.int32], prediction: int, target: int) -> int:
    """Return the cheapest vote for a member, other than the prediction."""
    costs = np.where(thresholds == UNREACHABLE, _FAR, thresholds.astype(np.int64))
    costs[prediction] = _FAR + 1
    cheapest = int(costs.argmin())
    return target if costs[target] <= costs[cheapest] else cheapest


@cached_njit()
def _least_cost(ones: NDArray[np.int64], twos: NDArray[np.int64], need: int) -> NDArray[np.int64]:
    """Return the least costs of gains 0 to ``need`` from the first members."""
    least = np.full((len(ones) + 1, need + 1), _FAR)
    least[:, 0] = 0
    for member in range(len(ones)):
        before = least[member]
        for gain in range(1, need + 1):
            cost = min(
                before[gain],
                before[gain - 1] + ones[member],
                before[max(gain - 2, 0)] + twos[member],
            )
            least[member + 1, gain] = min(cost, _FAR)
    return least


def _cheapest_gains(ones: NDArray[np.int64], twos: NDArray[np.int64], need: int) -> list[int]:
    """Return each member's gain in a cheapest selection."""
    table = _least_cost(ones, twos, need)
    gains, left = [], need
    for member in reversed(range(len(ones))):
        cost, before = table[member + 1][left], table[member]
        if cost == before[left]:
            gain = 0
        elif left and cost == before[left - 1] + ones[member]:
            gain = 1
        else:
            gain = 2
        gains.append(gain)
        left = max(left - gain, 0)
    return gains[::-1]
