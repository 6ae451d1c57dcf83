"""Members with thresholds: what thresholds imply about a threat, and costs of attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.models.ballots import Ballots
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.plurality import (
    Counts,
    Flags,
    Votes,
    answers_of,
    blocks,
    counts_of,
    gaps_of,
)
from leaveout.verifier.checker.voting.together import TooLongError

_NEVER = -1
"""In a ballots file, the threshold of a vote that no changes can cause."""


def change_of(ballots: Ballots, threat: str) -> tuple[int, str]:
    """Return the most changes counted by thresholds that one change amounts to, and why."""
    own, origin = ballots.origin.thresholds_against or "edits", ballots.origin
    within = ballots.parts == 1 or origin.hash_reads_label is False
    if own == "edits":
        if threat == "modifications" and ballots.parts > 1:
            return 2, "thresholds count edits, and it is a removal and an insertion, anywhere"
        if threat == "relabels" and not within:
            return 2, "thresholds count edits, and it is a removal and an insertion"
        if threat in ("modifications", "relabels"):
            return 1, "thresholds count edits, and it is two edits of its part"
        return 1, "thresholds count edits, and it is one edit"
    if threat != own:
        raise RejectedError(f"{ballots.source}: thresholds that count {own} do not cover {threat}")
    if own == "relabels" and not within:
        raise RejectedError(
            f"{ballots.source}: thresholds count relabels that stay in their part, but the hash "
            "may read labels"
        )
    return 1, f"thresholds count {own}"


def withstood(ballots: Ballots, threat: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return which changes are too few for each vote of members, and which suffice.

    Each is an array like the thresholds: fewer changes than the first never suffice, as many as the
    second do, unless it is -1.
    """
    thresholds, origin = ballots.thresholds, ballots.origin
    if thresholds is None:
        raise RejectedError(f"{ballots.source} has no thresholds")
    parts, _ = change_of(ballots, threat)
    if threat == (origin.thresholds_against or "edits"):
        most = origin.thresholds_exact_to
        if most is None:
            return thresholds, thresholds
        return thresholds, np.where(thresholds <= most, thresholds, np.int32(_NEVER))
    # It is never known that fewer edits of another kind would suffice.
    enough = np.where(thresholds == 0, 0, _NEVER).astype(np.int32)
    if threat in ("modifications", "relabels") and parts == 1:
        halves = np.where(thresholds < 0, thresholds, thresholds - thresholds // 2)
        return halves.astype(np.int32), enough
    return thresholds, enough


def lost_to_changes(
    votes: Votes,  # shape (points, members)
    truth: NDArray[np.int32],  # shape (points,)
    thresholds: NDArray[np.int32],  # shape (points, members, labels)
    labels: int,
    units: Sequence[int],
) -> Flags:
    """Recount and return the correct answers changed by changes of these members.

    For each label, members vote for it if possible; others that vote for the answer change to any
    other possible label.
    """
    spent = np.bincount(np.array(units, np.int64), minlength=votes.shape[1])
    lost = np.zeros(len(votes), np.bool_)
    for at in blocks(len(votes), votes.shape[1] * labels):
        chosen = answers_of(counts_of(votes[at], labels))
        can = (thresholds[at] >= 0) & (thresholds[at] <= spent[:, None])
        named = np.arange(labels) == chosen[:, None]
        leaves = (can & ~named[:, None]).any(axis=2)
        own = votes[at] == chosen[:, None]
        right = chosen == truth[at]
        for label in range(labels):
            turned = can[:, :, label]
            held = own & ~turned & ~leaves
            for_label = turned.sum(axis=1)
            passes = for_label + (label < chosen) > held.sum(axis=1)
            lost[at] |= right & (chosen != label) & passes
    return lost


@dataclass(frozen=True, eq=False)
class Prices:
    """Pairs of a correctly answered test point and a label, with the cost of gains."""

    budget: int
    one: Counts  # shape (members, pairs)
    two: Counts  # shape (members, pairs)
    needs: Counts  # shape (pairs,)
    points: Counts  # shape (pairs,): ascending


def prices_of(
    votes: Votes,
    truth: NDArray[np.int32],
    thresholds: NDArray[np.int32],
    labels: int,
    budget: int,
) -> Prices:
    """Return the pairs that this many changes might decide, by gaps alone."""
    members = votes.shape[1]
    never = budget + 1
    one, two = [np.zeros((0, members), np.int64)], [np.zeros((0, members), np.int64)]
    needs, points = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for at in blocks(len(votes), members * labels * 4):
        costs = np.where(thresholds[at] < 0, never, np.minimum(thresholds[at], never))
        chosen = answers_of(counts_of(votes[at], labels))
        gaps = gaps_of(counts_of(votes[at], labels), chosen)
        for label in range(labels):
            # A change gains at most 2.
            near = (chosen == truth[at]) & (chosen != label) & (gaps[:, label] < 2 * budget)
            rows = np.flatnonzero(near)
            gained = _gains(votes[at][rows], chosen[rows], label, labels)
            prices = costs[rows].astype(np.int64)
            one.append(np.where(gained >= 1, prices, never).min(axis=2))
            two.append(np.where(gained >= 2, prices, never).min(axis=2))
            needs.append(gaps[rows, label] + 1)
            points.append(rows + at.start)
    order = np.argsort(np.concatenate(points), kind="stable")
    return Prices(
        budget,
        np.ascontiguousarray(np.concatenate(one)[order].T),
        np.ascontiguousarray(np.concatenate(two)[order].T),
        np.concatenate(needs)[order],
        np.concatenate(points)[order],
    )


def _gains(votes: Votes, chosen: Counts, label: int, labels: int) -> NDArray[Any]:
    """Return each vote's gain for a label on the answer, by member, (rows, members, labels)."""
    names = np.arange(labels)
    worth = (names == label).astype(np.int64) - (names == chosen[:, None])
    held = (votes == label).astype(np.int64) - (votes == chosen[:, None])
    gained: NDArray[Any] = worth[:, None, :] - held[:, :, None]
    return gained


WORK = 2e10
"""Most numbers processed: about a minute."""

_WHOLE = 2**20
"""A whole point, in the integer units of shares."""

_PRICE = 2**8
"""Highest price of a point, at which only its shares count."""

_MOST = 2**26
"""Most numbers stored per node."""

_FIRST, _TURNS = 60, 8
"""Price updates at the root and at other nodes."""


def no_more_bought(prices: Prices, upper: int, work: float = WORK) -> bool:
    """Return whether no attack loses more than ``upper`` points; False if too slow to tell."""
    root = _Node(prices.one, prices.two, prices.needs, prices.points, 0)
    points = int(prices.points.max(initial=-1)) + 1
    search = _Search(upper, work, np.full(points, _PRICE))
    todo = [_Branch(root, -1, 0, prices.budget)]
    while todo:
        branch = todo.pop()
        turns = _TURNS if branch.member >= 0 else _FIRST
        node, left = branch.node, branch.left
        if branch.member >= 0:
            node = _with(node, branch.member, branch.spent)
        node = _drop_lost(node)
        if node.lost > upper:
            return False
        node, member = search.prune(node, left, turns)
        if member is None:
            continue
        levels = np.union1d(node.one[member], node.two[member])
        todo += [
            _Branch(node, member, spent, left - spent)
            for spent in (0, *levels[levels <= left].tolist())
        ]
    return True


@dataclass(frozen=True, eq=False)
class _Node:
    """Attacks with fixed spending on some of the members."""

    one: Counts  # shape (members, pairs): undecided members
    two: Counts  # shape (members, pairs): undecided members
    needs: Counts  # shape (pairs,): remaining needs of pairs
    points: Counts  # shape (pairs,)
    lost: int  # points already lost, which are no longer among the pairs


@dataclass(frozen=True, eq=False)
class _Branch:
    """A node's attacks with a given spending on a member, and ``left`` more changes; -1 for all."""

    node: _Node
    member: int
    spent: int
    left: int


@dataclass(eq=False)
class _Search:
    upper: int
    work: float
    asked: Counts

    def prune(self, node: _Node, left: int, turns: int) -> tuple[_Node, int | None]:
        """Return a node without unreachable pairs, and the member to branch on.

        None if no attack of the node loses too many points.
        """
        if node.lost + len(np.unique(node.points)) <= self.upper:
            return node, None
        members, pairs = node.one.shape
        if members * (left + 1) > _MOST or members * pairs > _MOST:
            raise TooLongError
        self._spend(float(members) * float(np.minimum(node.needs, 2 * members).sum()))
        reach = _least_paid(node.one, node.two, node.needs, left)
        alive = reach <= left
        node = _Node(
            node.one[:, alive], node.two[:, alive], node.needs[alive], node.points[alive], node.lost
        )
        names, owner = np.unique(node.points, return_inverse=True)
        if node.lost + len(names) <= self.upper:
            return node, None
        pairs = len(owner)
        self._spend(float(turns) * members * (pairs * min(left, 8) + left * min(left, 8)))
        asked = self.asked[names]
        member = _member_to_tell(
            np.ascontiguousarray(node.one), np.ascontiguousarray(node.two), node.needs,
            owner.astype(np.int64), reach[alive], left, self.upper - node.lost, asked, turns,
        )  # fmt: skip
        self.asked[names] = asked
        return node, None if member < 0 else int(member)

    def _spend(self, numbers: float) -> None:
        self.work -= numbers
        if self.work < 0:
            raise TooLongError


def _with(node: _Node, member: int, spent: int) -> _Node:
    """Return a node's attacks with a given spending on a member."""
    gained = (node.one[member] <= spent).astype(np.int64) + (node.two[member] <= spent)
    others = np.arange(len(node.one)) != member
    return _Node(
        node.one[others], node.two[others], node.needs - gained, node.points, node.lost
    )  # fmt: skip


def _drop_lost(node: _Node) -> _Node:
    """Return a node without the points already lost."""
    lost = np.unique(node.points[node.needs <= 0])
    if not len(lost):
        return node
    kept_pairs = ~np.isin(node.points, lost)
    return _Node(
        node.one[:, kept_pairs],
        node.two[:, kept_pairs],
        node.needs[kept_pairs],
        node.points[kept_pairs],
        node.lost + len(lost),
    )


@cached_njit()
def _least_paid(one: Counts, two: Counts, needs: Counts, left: int) -> Counts:
    """Return the fewest changes that decide each pair alone; ``left + 1`` if out of reach."""
    members, pairs = one.shape
    found = np.full(pairs, left + 1)
    for pair in range(pairs):
        need = needs[pair]
        if need > 2 * members:
            continue
        paid = np.full(need + 1, left + 1)
        paid[0] = 0
        for member in range(members):
            if one[member, pair] > left:
                continue
            for gain in range(need, 0, -1):
                cost = paid[gain - 1] + one[member, pair]
                if two[member, pair] <= left:
                    cost = min(cost, paid[max(0, gain - 2)] + two[member, pair])
                paid[gain] = min(paid[gain], cost)
        found[pair] = min(paid[need], left + 1)
    return found


@cached_njit()
def _up(number: int, by: int) -> int:
    return -(-number // by)


@cached_njit()
def _pair_shares(
    one: Counts, two: Counts, pair: int, need: int, least: int, left: int, shares: Counts
) -> None:
    """Write members' shares in a pair for a gain of 1 and of 2, shape (members, 2).

    In a decided pair the gains reach the need, and the cost is at least the least possible: shares
    of either kind sum to at least a whole. The kind that adds less per change is used.
    """
    by_gain, by_cost = 0.0, 0.0
    for member in range(len(one)):
        if one[member, pair] <= left:
            by_gain += 1.0 / (need * one[member, pair])
            by_cost += 1.0 / least
        if two[member, pair] <= left:
            dear = (
                two[member, pair] - one[member, pair]
                if two[member, pair] > one[member, pair]
                else 1
            )
            by_gain += 1.0 / (need * dear)
            by_cost += (two[member, pair] > one[member, pair]) / least
    for member in range(len(one)):
        shares[member] = 0
        for level in range(2):
            price = two[member, pair] if level else one[member, pair]
            if price <= left:
                part = price if by_cost < by_gain else level + 1
                whole = least if by_cost < by_gain else need
                shares[member, level] = min(_WHOLE, _up(part * _WHOLE, whole))


@cached_njit()
def _member_to_tell(
    one: Counts,
    two: Counts,
    needs: Counts,
    owner: Counts,
    least: Counts,
    left: int,
    most: int,
    asked: Counts,
    turns: int,
) -> int:
    """Return -1 if prices prove that at most ``most`` points are lost; else a member to branch on.

    Each point counts by its shares at its price, from 0 to the highest, plus the rest of its price;
    the best use of the remaining budget is a knapsack over members. A point with several pairs has
    the largest of their shares. Prices are moved to lower the sum.
    """
    members, pairs = one.shape
    points = owner[-1] + 1
    shares = np.zeros((pairs, members, 2), np.int64)
    for pair in range(pairs):
        _pair_shares(one, two, pair, needs[pair], least[pair], left, shares[pair])
    limit = (most + 1) * _PRICE * _WHOLE
    weights = np.zeros((members, left + 1), np.int64)
    top = np.zeros(left + 1, np.int64)
    held = np.zeros((members + 1, left + 1), np.int64)
    use = np.zeros(members, np.int64)
    taken = np.zeros(points, np.int64)
    step = 0.3
    for _turn in range(turns):
        weights[:] = 0
        total = 0
        for point in range(points):
            total += (_PRICE - asked[point]) * _WHOLE
        first = 0
        while first < pairs:
            last = first
            while last < pairs and owner[last] == owner[first]:
                last += 1
            price = asked[owner[first]]
            for member in range(members):
                if last == first + 1:
                    at, above = one[member, first], two[member, first]
                    if at <= left:
                        weights[member, at] += price * shares[first, member, 0]
                    if at < above <= left:
                        more = shares[first, member, 1] - shares[first, member, 0]
                        weights[member, above] += price * more
                    elif above <= left:
                        more = shares[first, member, 1] - shares[first, member, 0]
                        weights[member, at] += price * max(0, more)
                    continue
                top[:] = 0
                for pair in range(first, last):
                    for level in range(2):
                        at = two[member, pair] if level else one[member, pair]
                        if at <= left:
                            top[at] = max(top[at], shares[pair, member, level])
                best = 0
                for spent in range(left + 1):
                    if top[spent] > best:
                        weights[member, spent] += price * (top[spent] - best)
                        best = top[spent]
            first = last
        for member in range(members):
            for spent in range(1, left + 1):
                weights[member, spent] += weights[member, spent - 1]
        held[0] = 0
        for member in range(members):
            held[member + 1] = held[member]
            for spent in range(1, left + 1):
                more = weights[member, spent]
                if more == weights[member, spent - 1]:
                    continue
                for over in range(spent, left + 1):
                    held[member + 1, over] = max(
                        held[member + 1, over], held[member, over - spent] + more
                    )
        total += held[members, left]
        if total < limit:
            return -1
        over = left
        for member in range(members - 1, -1, -1):
            use[member] = 0
            while (
                held[member + 1, over]
                != held[member, over - use[member]] + weights[member, use[member]]
            ):
                use[member] += 1
            over -= use[member]
        taken[:] = 0
        first = 0
        while first < pairs:
            last = first
            while last < pairs and owner[last] == owner[first]:
                last += 1
            for member in range(members):
                best = 0
                for pair in range(first, last):
                    if use[member] >= two[member, pair]:
                        best = max(best, shares[pair, member, 1])
                    if use[member] >= one[member, pair]:
                        best = max(best, shares[pair, member, 0])
                taken[owner[first]] += best
            first = last
        for point in range(points):
            moved = asked[point] + int(_PRICE * step * (1.0 - taken[point] / _WHOLE))
            asked[point] = min(_PRICE, max(0, moved))
        step *= 0.9
    heaviest, found = -1, 0
    for member in range(members):
        if weights[member, use[member]] > heaviest:
            heaviest, found = weights[member, use[member]], member
    return found
