"""Counting votes: what attacks gain, and that none of some size loses more than some points.

A test point is *lost* if for some pair of labels every demand of the pair is met: the gains of what
an attack makes of its choices reach the demand's need. A scheme of voting states its demands, once;
all else is counted alike, in whole numbers. Proofs that no attack loses more than some points are
trees whose leaves are closed by prices (weak duality of linear programmes). Trees, prices and all
else that must be found are hints; any of them may be wrong, and then prove less or are rejected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .numbers import Rejected, need
from .values import Arrays, Ask, question

Votes: TypeAlias = NDArray[np.int32]
Counts: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
Gains: TypeAlias = NDArray[np.integer[Any]]

FAR = 2**60
"""A number of changes that means "never"; twice as much still fits."""

WEIGHT = 256
"""A point that counts by its shares alone has this weight; 0: it counts as lost."""

_PART = 2**22
_ONE = WEIGHT * _PART  # one lost point, in the integer units of bounds
_BLOCK = 2**23  # approximate number of values in memory at once

CACHE = 2**17
"""Of values that are soon read again."""

TRY_ALL = -1
"""In place of the number of choices that divide a node: all of its attacks are to be tried."""

FEW, MOST_WORK = 2.0**22, 2.0**36
"""All attacks are tried anyhow with so little work, and never with more than so much."""

_MOST_CHOICES, _ROOM, _NEVER = 16, 2**28, 2**14
"""Most choices of an attack that is tried, most gains at once; no gains reach so much."""

_WORDS = 2**19  # words of attacks that are extended at once


def blocks(points: int, width: int, size: int = _BLOCK) -> Iterator[slice]:
    """Yield points in blocks; each needs ``width`` numbers in memory."""
    step = max(1, size // max(1, width))
    yield from (slice(at, min(points, at + step)) for at in range(0, points, step))


def counts_of(votes: Votes, labels: int) -> Counts:
    """Return how many members vote for each label, shape (points, labels)."""
    found = np.zeros((len(votes), labels), np.int64)
    for at in blocks(len(votes), votes.shape[1], CACHE):
        own = found[at]
        places = votes[at] + labels * np.arange(len(own))[:, None]
        own[:] = np.bincount(places.ravel(), minlength=own.size).reshape(own.shape)
    return found


def starts(sorted_numbers: Counts) -> Counts:
    """Return where each number of an ascending list starts."""
    new = np.concatenate(([True], sorted_numbers[1:] != sorted_numbers[:-1]))
    return np.flatnonzero(new[: len(sorted_numbers)])


@dataclass(frozen=True, eq=False)
class Stake:
    """What an attack can choose, and the demands that it must meet for points to be lost.

    Choices of a group exclude each other; those of a family cost at most its quota together. With
    several offsets choice u reaches the members ``(u + offset) mod members``, and each member that
    is reached gains once; else a choice itself gains.
    """

    gains: Gains  # shape (choices or members, demands): at least 0
    needs: Counts  # shape (demands,): at least 1
    pairs: Counts  # shape (demands,): pair of each demand, ascending from 0
    points: Counts  # shape (pairs,): test point of each pair, ascending
    quotas: Counts  # shape (families,)
    family: Counts  # shape (choices,)
    cost: Counts  # shape (choices,): at least 1
    group: Counts  # shape (choices,): ascending
    offsets: tuple[int, ...] = (0,)

    @property
    def count(self) -> int:
        """How many points can be lost at most."""
        return len(np.unique(self.points))

    @property
    def overlaps(self) -> bool:
        """Whether the one demand is of members that several choices reach."""
        return len(self.offsets) > 1 and len(self.needs) == 1

    def of_pairs(self, kept: Flags) -> Stake:
        """Return the stake of some of the pairs."""
        rows = kept[self.pairs]
        numbers = np.cumsum(kept)[self.pairs[rows]] - 1
        gains, needs = self.gains[:, rows], self.needs[rows]
        return replace(self, gains=gains, needs=needs, pairs=numbers, points=self.points[kept])

    def alone(self, gains: Gains) -> Gains:
        """Return what each choice gains alone, from what members gain."""
        if len(self.offsets) == 1:
            return gains
        total = np.zeros(gains.shape, np.int64)
        for offset in self.offsets:
            total += np.roll(gains, -offset, axis=0)
        return total

    def members_of(self, choice: int) -> Counts:
        """Return the members that a choice reaches."""
        return (choice + np.array(self.offsets)) % len(self.gains)

    def lost_points(self, choices: Counts) -> Counts:
        """Recount: return the points that an attack loses."""
        if len(self.offsets) > 1:
            choices = np.unique([self.members_of(each) for each in choices.tolist()])
        met = self.gains[choices.astype(np.int64)].sum(axis=0, dtype=np.int64) >= self.needs
        lost = np.logical_and.reduceat(met, starts(self.pairs)) if len(met) else met
        return np.unique(self.points[lost])

    def choices_paid(self, spent: Counts) -> Counts:
        """Return the dearest choice of each group that this much, spent on groups, pays."""
        paid = np.flatnonzero(self.cost <= spent[self.group])
        dearest: Counts = paid[np.append(np.diff(self.group[paid]) != 0, True)[: len(paid)]]
        return dearest

    @property
    def arrays(self) -> Arrays:
        """The stake as those who answer questions see it, who cannot change it."""
        found = {"offsets": np.array(self.offsets)}
        for name in ("gains", "needs", "pairs", "points", "quotas", "family", "cost", "group"):
            found[name] = getattr(self, name).view()
            found[name].flags.writeable = False
        return found


@dataclass(frozen=True, eq=False)
class Node:
    """Attacks that make some choices, and otherwise only free ones within what is left."""

    rows: Counts  # open demands
    needs: Counts  # what each of them still needs
    free: Counts  # choices, ascending
    left: Counts  # shape (families,)
    reached: Flags  # shape (members,): with several offsets only
    lost: int = 0  # points lost already, none of whose demands is open
    made: tuple[int, ...] = ()  # the choices

    def keep(self, rows: Flags, lost: int = 0) -> Node:
        """Return the node with only some of its demands."""
        return replace(self, rows=self.rows[rows], needs=self.needs[rows], lost=self.lost + lost)


@dataclass(frozen=True, eq=False)
class Hint:
    """What is to be done at a node; see `Log`."""

    weights: Counts  # shape (open points,): 0 to `WEIGHT`
    rows: Counts  # shape (open pairs,): which of its demands a pair counts by
    forms: Counts  # shape (open pairs,): which shares; see `_shares`
    prices: Counts  # shape (families,)
    kept: Counts | None  # shape (members,): see `_overlaps`
    branch: Counts  # free choices


def root_of(stake: Stake) -> Node:
    """Return all attacks."""
    reached = np.zeros(len(stake.gains) if len(stake.offsets) > 1 else 0, np.bool_)
    rows, free = np.arange(len(stake.needs)), np.arange(len(stake.cost))
    return Node(rows, stake.needs, free, stake.quotas, reached)


def gains_at(stake: Stake, node: Node) -> Gains:
    """Return what each free choice gains for each open demand, beyond what is reached already."""
    if len(stake.offsets) == 1:
        return stake.gains[np.ix_(node.free, node.rows)]
    return stake.alone(np.where(node.reached[:, None], 0, stake.gains[:, node.rows]))[node.free]


def most_gained(gains: Gains, family: Counts, left: Counts) -> Counts:
    """Return the most that choices of cost 1 gain for each demand.

    These are the greatest gains of each family; their sum counts, for every k, those of k or more.
    """
    total = np.zeros(gains.shape[1], np.int64)
    for number, some in enumerate(left.tolist()):
        own = gains if len(left) == 1 else gains[family == number]
        for k in range(1, int(own.max(initial=0)) + 1):
            total += np.minimum(np.count_nonzero(own >= k, axis=0), some)
    return total


def least_cost(prices: Counts, needs: Counts) -> Counts:
    """Return the least cost at which gains reach each need; `FAR` for never.

    ``prices[k, i]`` is what a gain of k + 1 (of at most 2) by member i costs, shape (demands,). The
    cheapest way to each gain is found member by member, as in any knapsack.
    """
    paid = np.full((len(needs), int(needs.max(initial=1)) + 1), FAR)
    paid[:, 0] = 0
    for one, two in zip(*prices, strict=True):
        after = np.minimum(paid[:, 1:], paid[:, :-1] + one[:, None])
        after[:, 0] = np.minimum(after[:, 0], two)
        after[:, 1:] = np.minimum(after[:, 1:], paid[:, :-2] + two[:, None])
        paid[:, 1:] = np.minimum(after, FAR)
    return paid[np.arange(len(needs)), needs]


def settle(stake: Stake, node: Node) -> tuple[Node, Gains, Counts]:
    """Return a node without demands that are met or cannot be, its gains, and demands' least costs.

    A point is lost for all attacks of the node once all demands of a pair are met, and a pair is
    lost for none if one of its demands is out of reach. Least costs are 0 where choices cost 1.
    """
    paid = stake.cost[node.free] <= node.left[stake.family[node.free]]
    node = replace(node, free=node.free[paid])
    met = node.needs <= 0
    first = starts(stake.pairs[node.rows])
    if met.any():
        owner = stake.points[stake.pairs[node.rows]]
        lost = np.unique(owner[first][np.logical_and.reduceat(met, first)])
        node = node.keep(~met & ~np.isin(owner, lost), len(lost))
    gains = gains_at(stake, node)
    if (stake.cost == 1).all():
        least = np.zeros(len(node.rows), np.int64)
        alive = most_gained(gains, stake.family[node.free], node.left) >= node.needs
    else:
        least = least_costs(stake, node, gains)
        alive = least <= node.left.sum()
    if not alive.all():
        alive = np.isin(stake.pairs[node.rows], stake.pairs[node.rows[~alive]], invert=True)
        node, gains, least = node.keep(alive), gains[:, alive], least[alive]
    return node, gains, least


def least_costs(stake: Stake, node: Node, gains: Gains) -> Counts:
    """Return the least cost of each open demand."""
    if not gains.size:
        return np.full(len(node.rows), FAR)
    cost, first = stake.cost[node.free, None], starts(stake.group[node.free])
    prices = [np.minimum.reduceat(np.where(gains >= k, cost, FAR), first) for k in (1, 2)]
    return least_cost(np.array(prices), node.needs)


def _overlaps(stake: Stake, node: Node, kept: Counts) -> tuple[Gains, Counts]:
    """Return gains and the need of the one demand, where some gains of members count only once.

    A member that gains a counts a - y once, whatever reaches it, and y for each choice that does:
    choices gain at most all a - y plus, for each, the y of the members it reaches. In 256ths.
    """
    own = WEIGHT * np.where(node.reached, 0, stake.gains[:, node.rows[0]]).astype(np.int64)
    kept = np.minimum(kept, own)
    need(kept >= 0, "a weight of a member is negative")
    return stake.alone(kept[:, None])[node.free], WEIGHT * node.needs - (own - kept).sum()


def share_table(needs: Counts, forms: Counts, wholes: Counts, choices: int, top: Counts) -> Counts:
    """Return a choice's share by what it gains, shape (gains, pairs); a lost pair's sum to a whole.

    Form 0: gains reach the need, so that gain / need sum to 1. Form k: of at most ``choices``, c
    gain k or more, up to ``top``, and others less; so c top + (choices - c) (k - 1) >= need. More
    than a whole counts as a whole.
    """
    counted = forms >= 1
    lack = -(-(needs - choices * (forms - 1)) // np.maximum(top - forms + 1, 1))
    need(needs >= 1, "a share of a need that is met")
    need(~counted | ((lack >= 1) & (forms <= top)), "a share of a count that is not needed")
    gains = np.arange(int(top.max(initial=0)) + 1)[:, None]
    part = np.where(counted, gains >= forms, gains * (forms == 0))
    table: Counts = -(-part * wholes // np.where(counted, np.maximum(lack, 1), needs))
    return np.minimum(table, wholes)


def _shares(
    gains: Gains, needs: Counts, forms: Counts, wholes: Counts, choices: int, paid: tuple[Any, Any]
) -> Counts:
    """Return shares of choices in pairs, shape (choices, pairs).

    Form -1: what a lost pair costs, by choices that gain, is at least its least cost.
    """
    need(forms >= -1, "a share of no form")
    table = share_table(needs, forms, wholes, choices, gains.max(axis=0))
    shares: Counts = np.take_along_axis(table, gains.astype(np.int64), axis=0)
    if (forms == -1).any():
        cost, least = paid
        need((forms != -1) | (least >= 1), "a share of a cost that is not known")
        part = np.minimum(-(-cost * wholes // np.maximum(least, 1)), wholes)
        shares = np.where((forms == -1) & (gains >= 1), part, shares)
    return shares


def shares_at(stake: Stake, node: Node, gains: Gains, least: Counts, hint: Hint) -> Counts:
    """Return weighted shares of each free choice in the open points, shape (free, points).

    A point with several pairs is lost with one of them, so its share is the largest of theirs.
    """
    pair = stake.pairs[node.rows]
    first = starts(pair)
    owner = stake.points[pair[first]]
    own = starts(owner)
    need((hint.weights >= 0) & (hint.weights <= WEIGHT), "a weight of a point is out of range")
    need(len(owner) * len(node.free) <= 2**32, "a node has too many points")
    wholes = _PART * np.repeat(hint.weights, np.diff(np.append(own, len(owner))))
    size = np.diff(np.append(first, len(pair)))
    need((hint.rows >= 0) & (hint.rows < size), "a pair has no such demand")
    key, needs = first + hint.rows, node.needs
    if hint.kept is not None:
        gains, needs = _overlaps(stake, node, hint.kept)
    paid, choices = (stake.cost[node.free, None], least[key]), int(node.left.sum())
    shares = _shares(gains[:, key], needs[key], hint.forms, wholes, choices, paid)
    found: Counts = np.maximum.reduceat(shares, own, axis=1)
    return found


def heaviest(stake: Stake, node: Node, weights: Counts, prices: Counts) -> tuple[int, Counts]:
    """Return the most that attacks of a node weigh, and what is more if each choice is made.

    With a price for what a family's choices cost, an attack weighs at most what quotas are worth
    plus, for each group, the most that one of its choices weighs above its price.
    """
    highest = 2**61 // int(stake.cost.max(initial=1))
    need((prices >= 0) & (prices <= highest), "a price is out of range")
    beyond = weights - prices[stake.family[node.free]] * stake.cost[node.free]
    group = stake.group[node.free]
    first = starts(group)
    best = np.maximum(np.maximum.reduceat(beyond, first), 0) if len(first) else beyond
    quotas = zip(prices.tolist(), node.left.tolist(), strict=True)
    total = sum(price * some for price, some in quotas) + int(best.sum())
    return total, beyond - np.repeat(best, np.diff(np.append(first, len(group))))


def divide(
    stake: Stake, node: Node, gains: Gains, least: Counts, hint: Hint, upper: int
) -> list[Node]:
    """Return nodes that contain all attacks of a node that may lose more than ``upper`` points.

    Lost points weigh at most their shares, plus what their weights lack of a whole. A choice that
    no attack of too many points makes is no longer free. The others are divided by the first choice
    of the hint's list that they make; those that make none are left out if they are too light.
    """
    weights = shares_at(stake, node, gains, least, hint).sum(axis=1)
    base = node.lost * _ONE + _PART * int((WEIGHT - hint.weights).sum())
    total, more = heaviest(stake, node, weights, hint.prices)
    most = (upper + 1) * _ONE - 1 - base
    if total <= most:
        return []
    fits = more > most - total
    place = np.searchsorted(node.free, hint.branch)
    inside = place < len(node.free)
    need(inside & (node.free[np.where(inside, place, 0)] == hint.branch), "a choice is not free")
    need(len(np.unique(place)) == len(place), "a choice stands twice")
    children, open_ = [], fits.copy()
    for at, choice in zip(place.tolist(), hint.branch.tolist(), strict=True):
        if not fits[at]:
            continue
        open_[at] = False
        left = node.left.copy()
        left[stake.family[choice]] -= stake.cost[choice]
        others = open_ & (stake.group[node.free] != stake.group[choice])
        reached = node.reached.copy()
        if len(reached):
            reached[stake.members_of(choice)] = True
        needs, free = node.needs - gains[at].astype(np.int64), node.free[others]
        made = (*node.made, choice)
        children.append(Node(node.rows, needs, free, left, reached, node.lost, made))
    rest = replace(node, free=node.free[open_])
    if heaviest(stake, rest, weights[open_], hint.prices)[0] > most:
        children.append(rest)
    return children


class Log:
    """Hints of a tree's nodes, one after another: flat arrays, of which each node takes its own."""

    def __init__(self, stake: Stake, answer: Arrays) -> None:
        need(isinstance(answer, Mapping), "a log is not arrays by name")
        for array in answer.values():
            fine = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"
            need(fine, "a log is not lists of whole numbers")
        self._arrays, self._at = answer, dict[str, int]()
        self._overlaps, self._members = stake.overlaps, len(stake.gains)

    def _take(self, name: str, count: int) -> Counts:
        need(name in self._arrays, f"no tree shows it: a log has no {name!r}")
        array = self._arrays[name]
        begin = self._at.get(name, 0)
        need(0 <= count <= len(array) - begin, "a log ends before its tree does")
        self._at[name] = begin + count
        found = array[begin : begin + count]
        need(array.dtype.itemsize < 8 or (found <= 2**62), "a number of a log is too large")
        return found.astype(np.int64)

    def next(self, stake: Stake, node: Node) -> Hint | None:
        """Return the next node's hint; None if all attacks of the node are to be tried."""
        count = int(self._take("counts", 1)[0])
        if count == TRY_ALL:
            return None
        pair = stake.pairs[node.rows]
        pairs, points = len(starts(pair)), len(np.unique(stake.points[pair]))
        weights = self._take("weights", points)
        rows, forms = self._take("rows", pairs), self._take("forms", pairs)
        prices = self._take("prices", len(stake.quotas))
        kept = self._take("kept", self._members) if self._overlaps else None
        branch = self._take("branch", count)
        return Hint(weights, rows, forms, prices, kept, branch)

    def close(self) -> None:
        """Reject a log of more than its tree."""
        for name, array in self._arrays.items():
            need(self._at.get(name, 0) == len(array), "a log goes on after its tree ends")


def is_closed(stake: Stake, node: Node, gains: Gains, upper: int, few: float) -> bool:
    """Return whether too few points are open, or all attacks are so few that they are tried.

    Rejects an attack that is shown.
    """
    stated = f"an attack loses more than {upper} points"
    need(node.lost <= upper, stated)
    if node.lost + len(np.unique(stake.points[stake.pairs[node.rows]])) <= upper:
        return True
    if work_to_try(stake, node) > few:
        return False
    need(node.lost + worst_tried(stake, node, gains, upper - node.lost)[0] <= upper, stated)
    return True


def _slots(stake: Stake, node: Node) -> tuple[tuple[Counts, Counts, Counts], tuple[int, int, int]]:
    """Return each open demand's pair of its point, its place there and point, and their numbers."""
    pair = stake.pairs[node.rows]
    first = starts(pair)
    own = starts(stake.points[pair[first]])
    of_pair = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(pair))))
    of_point = np.repeat(np.arange(len(own)), np.diff(np.append(own, len(first))))
    place = (np.arange(len(first)) - own[of_point])[of_pair], np.arange(len(pair)) - first[of_pair]
    pairs, demands = (1 + int(each.max(initial=0)) for each in place)
    return (*place, of_point[of_pair]), (pairs, demands, -(-max(1, len(own)) // 64) * 64)


def work_to_try(stake: Stake, node: Node) -> float:
    """Return about how many words of 64 points are counted if all attacks of a node are tried."""
    left = int(node.left.sum())
    size = math.prod(_slots(stake, node)[1])
    if left > _MOST_CHOICES or (len(stake.offsets) > 1 and left > 1):
        return math.inf
    if size * len(node.free) > _ROOM:
        return math.inf
    attacks = 1.0
    for number, quota in enumerate(node.left.tolist()):
        own = node.free[stake.family[node.free] == number]
        ways = np.eye(1, quota + 1)[0]
        for cost in np.split(stake.cost[own], starts(stake.group[own])[1:]):
            before = ways.copy()
            for paid in cost[cost <= quota].tolist():
                ways[paid:] += before[: quota + 1 - paid]
        attacks *= float(ways.sum())
    return attacks * (1 + size / 64)


def _words(flags: Flags) -> NDArray[np.uint64]:
    """Return flags of points as bits of words."""
    return np.packbits(flags, axis=-1).view(np.uint64)


def worst_tried(stake: Stake, node: Node, gains: Gains, known: int) -> tuple[int, Counts]:
    """Try all attacks of a node; return the most open points, at least ``known``, and choices.

    Attacks grow choice by choice, in order, while more points than that may still be lost to them.
    For each attack and m it is known which demands lack at most m, in words of 64 points. One more
    choice leaves those lacking at most m that for some k lack at most m + k, and gain k or more.
    """
    place, shape = _slots(stake, node)
    lacks, gained = np.full(shape, _NEVER), np.zeros((len(node.free), *shape), np.int16)
    lacks[place[0], :, place[2]] = 0
    lacks[place], gained[:, place[0], place[1], place[2]] = node.needs, gains
    cost, family, group = (each[node.free] for each in (stake.cost, stake.family, stake.group))
    later = np.searchsorted(group, group, side="right")
    top, best = int(gained.max(initial=0)), np.zeros(0, np.int64)
    enough = [_words(gained >= k) for k in range(1, top + 1)]
    within = np.stack([_words(lacks <= m) for m in range(top * int(node.left.sum()) + 1)])
    todo = [(within[None], np.zeros((1, 0), np.int64), node.left[None])]
    while todo:
        within, made, left = todo.pop()
        open_ = _points_lost(within[:, -1]) > known
        within, made, left = within[open_], made[open_], left[open_]
        last = made[:, -1] if made.shape[1] else np.full(len(made), -1)
        grown, size = list[tuple[NDArray[np.uint64], Counts, Counts]](), 0
        for own in np.unique(last).tolist():
            at, begin = np.flatnonzero(last == own), int(later[own]) if own >= 0 else 0
            paid = cost[begin:] <= left[at][:, family[begin:]]
            met = within[at, 0][:, None]
            for k, gaining in enumerate(enough, 1):
                met = met | (within[at, k][:, None] & gaining[begin:])
            count = np.where(paid, _points_lost(met), 0)
            if count.size and count.max() > known:
                row, added = divmod(int(count.argmax()), count.shape[1])
                known, best = int(count.max()), np.append(made[at[row]], begin + added)
            for choice in range(begin, len(cost)):
                rows = at[paid[:, choice - begin]]
                rest = left[rows] - cost[choice] * (np.arange(left.shape[1]) == family[choice])
                after = int(later[choice])
                more = (cost[after:] <= rest[:, family[after:]]).any(axis=1)
                rows, rest = rows[more], rest[more]
                if len(rows):
                    some = within[rows]
                    less = some[:, : some.shape[1] - top].copy()
                    for k, gaining in enumerate(enough, 1):
                        less |= some[:, k : k + less.shape[1]] & gaining[choice]
                    steps = np.column_stack([made[rows], np.full(len(rows), choice)])
                    grown.append((less, steps, rest))
                    size += less.size
                if size > _WORDS:
                    todo.append(_join_blocks(grown))
                    grown, size = [], 0
        if grown:
            todo.append(_join_blocks(grown))
    return known, node.free[best]


def _join_blocks(blocks: list[tuple[Any, Any, Any]]) -> tuple[Any, Any, Any]:
    one, two, three = (np.concatenate(each) for each in zip(*blocks, strict=True))
    return one, two, three


def _points_lost(met: NDArray[np.uint64]) -> Counts:
    """Count points of which all demands of a pair are met, by words (..., pairs, demands, word)."""
    pairs = np.bitwise_and.reduce(met, axis=-2) if met.shape[-2] > 1 else met[..., 0, :]
    count: Counts = np.bitwise_count(np.bitwise_or.reduce(pairs, axis=-2)).sum(-1, dtype=np.int64)
    return count


def show_no_more_lost(stake: Stake, upper: int, ask: Ask) -> None:
    """Show that no attack loses more than ``upper`` points, by the tree of a log."""
    if stake.count <= upper:
        return
    log = Log(stake, question(ask, "tree", {**stake.arrays, "upper": np.array(upper)}))
    todo = [root_of(stake)]
    while todo:
        node, gains, least = settle(stake, todo.pop())
        if is_closed(stake, node, gains, upper, FEW):
            continue
        hint = log.next(stake, node)
        if hint is None:
            need(is_closed(stake, node, gains, upper, MOST_WORK), "a node has too many attacks")
        else:
            todo += divide(stake, node, gains, least, hint, upper)[::-1]
    log.close()


def show_sum(stake: Stake, proof: Arrays, ask: Ask) -> int:
    """Return the most points that are lost, as a weighted sum over batches and shares.

    A lost point counts by its shares (weight y), by its batch (weight m), and by what these lack of
    a whole; a batch counts m times the most of its points that one attack loses.
    """
    named = [proof[name] for name in ("batches", "uppers", "taken", "counted")]
    need([each.dtype.kind in "iu" for each in named], "its sum is not of whole numbers")
    batches, uppers, taken, counted = (each.astype(np.int64) for each in named)
    points = np.unique(stake.points)
    shapes = batches.shape == counted.shape == points.shape and taken.shape == uppers.shape
    need(shapes and uppers.ndim == 1, f"its sum does not cover the {len(points)} points at stake")
    need((batches >= -1) & (batches < len(uppers)), "its sum has points in batches that are not")
    for each in (uppers, taken, counted):
        need((each >= 0) & (each < 2**16), "its sum has numbers out of range")
    for number in np.flatnonzero(taken).tolist():
        inside = stake.of_pairs(np.isin(stake.points, points[batches == number]))
        try:
            show_no_more_lost(inside, int(uppers[number]), ask)
        except Rejected as error:
            stated = f"its sum states that a batch loses at most {uppers[number]} points"
            raise Rejected(f"{stated}, which is not shown: {error}") from None
    lacks = np.maximum(WEIGHT - counted - np.append(taken, 0)[batches], 0)
    total = _PART * (int(lacks.sum()) + int(taken @ uppers))
    node, gains, least = settle(stake, root_of(stake))
    counted = counted[np.isin(points, stake.points[stake.pairs[node.rows]])]
    if counted.any():
        log = Log(stake, question(ask, "sum", {**stake.arrays, "weights": counted}))
        hint = log.next(stake, node)
        log.close()
        need(hint is not None and np.array_equal(hint.weights, counted), "a sum of other weights")
        assert hint is not None
        weights = shares_at(stake, node, gains, least, hint).sum(axis=1)
        total += heaviest(stake, node, weights, hint.prices)[0]
    return total // _ONE
