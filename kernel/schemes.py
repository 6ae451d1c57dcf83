"""Schemes of voting: answers, what a point's label demands to change, and exact closed forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .ballots import NEVER
from .counting import (
    CACHE,
    FAR,
    Counts,
    Flags,
    Gains,
    Stake,
    Votes,
    blocks,
    counts_of,
    least_cost,
    most_gained,
    starts,
)
from .numbers import Rejected, need

Scores: TypeAlias = NDArray[np.floating[Any]]
Thresholds: TypeAlias = NDArray[np.int32]

_ROOM = 2**29  # most gains in memory


def answers_of(counts: Counts) -> Counts:
    """Return the label with the most votes, the smallest on a tie."""
    found: Counts = counts.argmax(axis=1)
    return found


def gaps_of(counts: Counts, answers: Counts) -> Counts:
    """Return the gain that each label must exceed to pass the answer; `FAR` for the answer.

    That is ``n_c - n_c' - [c' < c]``: ties go to the smaller label.
    """
    own = np.arange(len(counts)), answers
    gaps = counts[own][:, None] - counts - (np.arange(counts.shape[1]) < answers[:, None])
    gaps[own] = FAR
    return gaps


def passing_gains(ballots: Votes, answers: Counts, label: Any) -> Gains:
    """Return what a label gains on the answer, in votes, by each member that then votes for it."""
    gains: Gains = 1 + (ballots == answers[:, None]).astype(np.int8) - (ballots == label)
    return gains


@dataclass(frozen=True)
class Rule:
    """How counts of votes make an answer, and what changes it, a label at a time.

    An answer changes exactly if for some label the gains of the members that are reached, which
    vote as is best for it, add up to its need. What a member gains depends on its vote alone.
    """

    answer: Callable[[Counts], Counts]  # of counts, shape (points, labels)
    needs: Callable[[Counts, Counts], Counts]  # of counts and answers, shape (points, labels)
    gains: Callable[[Votes, Counts, Any], Gains]  # of votes, answers and a label of each point
    most: int | None = None  # the greatest gain, if needs out of reach are to be skipped early


PLURALITY = Rule(
    answer=answers_of,
    needs=lambda counts, answers: gaps_of(counts, answers) + 1,
    gains=passing_gains,
    most=2,
)
"""The most votes win: a member that is reached votes for the label that passes the answer."""


def unit_stake(
    gains: Gains, needs: Counts, pairs: Counts, points: Counts, budget: int,
    offsets: tuple[int, ...] = (0,), sizes: tuple[int, ...] = (),
) -> Stake:  # fmt: skip
    """Return the stake of attacks on ``budget`` units (of each family), without hopeless pairs."""
    members = len(gains)
    if len(offsets) == 1:
        gains, offsets = np.roll(gains, -offsets[0], axis=0), (0,)
    sizes, units = sizes or (members,), np.arange(members)
    quotas, family = np.minimum(budget, sizes), np.repeat(np.arange(len(sizes)), sizes)
    cost = np.ones(members, np.int64)
    stake = Stake(gains, needs, pairs, points, quotas, family, cost, units, offsets)
    reached = most_gained(stake.alone(gains), family, quotas) >= needs
    kept = np.logical_and.reduceat(reached, starts(pairs)) if len(pairs) else reached
    return stake if kept.all() else stake.of_pairs(kept)


def join_stakes(stakes: list[Stake], points: Counts) -> Stake:
    """Return stakes of the same choices side by side."""
    before = np.cumsum([0, *(len(each.points) for each in stakes)])
    first = stakes[0]
    return Stake(
        np.concatenate([each.gains for each in stakes], axis=1),
        np.concatenate([each.needs for each in stakes]),
        np.concatenate([each.pairs + at for each, at in zip(stakes, before[:-1], strict=True)]),
        points, first.quotas, first.family, first.cost, first.group, first.offsets,
    )  # fmt: skip


def counted_stake(
    votes: Votes, labels: int, counted: Flags, budget: int,
    offsets: tuple[int, ...] = (0,), sizes: tuple[int, ...] = (), rule: Rule = PLURALITY,
) -> Stake:  # fmt: skip
    """Return what attacks on answers by a rule demand: a pair with one demand for each label."""
    members = votes.shape[1]
    none = np.zeros(0, np.int64)
    found = [unit_stake(np.zeros((members, 0), np.uint8), none, none, none, budget, offsets, sizes)]
    points = [none]
    most = FAR - 1 if rule.most is None else rule.most * len(offsets) * int(found[0].quotas.sum())
    for at in blocks(len(votes), labels):
        counts = counts_of(votes[at], labels)
        answers = rule.answer(counts)
        needs = rule.needs(counts, answers)
        near, rivals = np.nonzero(counted[at, None] & (needs <= most))
        for part in blocks(len(near), members * (len(offsets) + 2)):
            own, to = near[part], rivals[part]
            gains = rule.gains(votes[at][own], answers[own], to[:, None]).T
            need((gains >= 0) & (gains < 2**8), "a member gains less than 0, or too much")
            pairs = np.arange(len(own))
            found.append(
                unit_stake(
                    gains.astype(np.uint8), needs[own, to], pairs, own + at.start, budget,
                    offsets, sizes,
                )
            )  # fmt: skip
            points.append(found[-1].points)
    return join_stakes(found, np.concatenate(points))


def forcing_stake(
    ballot: Votes, labels: int, budget: int, target: int, offsets: tuple[int, ...]
) -> Stake:
    """Return what makes a label a plurality's answer at one point: no other label is before it."""
    counts = counts_of(ballot[None], labels)[0]
    needs = counts - counts[target] + (np.arange(labels) < target)
    others = np.flatnonzero((needs > 0) & (np.arange(labels) != target))
    gains = (1 + (ballot[:, None] == others) - (ballot == target)[:, None]).astype(np.uint8)
    pairs = np.zeros(len(others), np.int64)
    return unit_stake(gains, needs[others], pairs, pairs[:1], budget, offsets)


def survived_units(
    gains: Gains, needs: Counts, offsets: tuple[int, ...], sizes: tuple[int, ...],
    alike: Counts | None = None,
) -> Counts:  # fmt: skip
    """Return the most units (of each family) whose gains together fall short of each need.

    The greatest gains of r units are, for each k, those of k or more; what units share is counted
    twice, for the attacker.
    ``gains`` has shape (demands, members), or a column for each kind of member, of which there are
    so many that are alike: with one offset and one family, only that counts.
    """
    sums = gains
    if len(offsets) > 1:
        sums = np.sum([np.roll(gains, -each, axis=1).astype(np.int16) for each in offsets], axis=0)
    kinds = range(1, int(sums.max(initial=0)) + 1)
    if alike is None:
        families = np.split(sums, np.cumsum(sizes)[:-1], axis=1)
        counts = [np.count_nonzero(own >= k, axis=1) for own in families for k in kinds]
    else:
        counts = [np.where(sums >= k, alike, 0).sum(axis=1) for k in kinds]
    low, high = np.full(len(gains), -1), np.full(len(gains), max(sizes))
    while (low < high).any():
        middle = low + (high - low + 1) // 2
        gained = np.zeros(len(gains), np.int64)
        for count in counts:
            gained += np.minimum(count, middle)
        low = np.where(gained < needs, middle, low)
        high = np.where(gained < needs, high, middle - 1)
    return low


def label_radii(
    votes: Votes, labels: int, offsets: tuple[int, ...] = (0,), sizes: tuple[int, ...] = (),
    rule: Rule = PLURALITY,
) -> Counts:  # fmt: skip
    """Return how many units never let a label change the answer, shape (points, labels).

    For one offset (a unit a member of each family) it is exact; else it is what Wang, Levine and
    Feizi (2022) publish of Finite Aggregation. For the answer itself it is the number of units.
    """
    sizes = sizes or (votes.shape[1],)
    found = np.full((len(votes), labels), max(sizes), np.int64)
    names = np.arange(labels, dtype=np.int32)
    alone = len(offsets) == len(sizes) == 1  # only how many members vote for each label matters
    for at in blocks(len(votes), 5 * labels if alone else labels + 5 * votes.shape[1]):
        counts = counts_of(votes[at], labels)
        answers = rule.answer(counts)
        needs = rule.needs(counts, answers)
        cast = np.broadcast_to(names, counts.shape) if alone else votes[at]
        for label in range(labels):
            rows = np.flatnonzero(answers != label)
            gains = rule.gains(cast[rows], answers[rows], label)
            found[at.start + rows, label] = survived_units(
                gains, needs[rows, label], offsets, sizes, counts[rows] if alone else None
            )
    return found


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
            most = (own + taken)[:, None] - (names < target)
            wins = np.maximum(counts - most, 0)[:, names != target].sum(axis=1) <= taken
            edits = np.where((edits < 0) & wins, taken, edits)
        found[at] = edits - 1
    return found


def _gain_costs(votes: Votes, thresholds: Thresholds, answers: Counts, label: Counts) -> Counts:
    """Return what gains of at least 1 and 2 cost, shape (2, members, points); `FAR` for never."""
    names = np.arange(thresholds.shape[2])
    worth = (names == label[:, None]).astype(np.int8) - (names == answers[:, None])
    held = (votes == label[:, None]).astype(np.int8) - (votes == answers[:, None])
    gains = worth[:, None] - held[..., None]
    costs = np.where(thresholds == NEVER, FAR, thresholds.astype(np.int64))
    return np.array([np.where(gains >= k, costs, FAR).min(axis=2).T for k in (1, 2)])


def threshold_radii(votes: Votes, labels: int, thresholds: Thresholds) -> Counts:
    """Return how many changes each answer survives if members survive some; `FAR` for any number.

    Member i votes u after ``thresholds[i, u]`` changes. A label passes the answer once the members'
    gains exceed its gap, for which the cheapest way is known.
    """
    cheapest = np.full(len(votes), FAR)
    for at in blocks(len(votes), votes.shape[1] * max(labels, 4)):
        counts = counts_of(votes[at], labels)
        answers = answers_of(counts)
        gaps = gaps_of(counts, answers)
        for label in range(labels):
            rows = np.flatnonzero(answers != label)
            own = votes[at][rows], thresholds[at][rows], answers[rows], np.full(len(rows), label)
            cost = least_cost(_gain_costs(*own), gaps[rows, label] + 1)
            cheapest[at.start + rows] = np.minimum(cheapest[at.start + rows], cost)
    return np.where(cheapest >= FAR, FAR, cheapest - 1)


def threshold_stake(
    votes: Votes, thresholds: Thresholds, labels: int, counted: Flags, budget: int
) -> Stake:
    """Return what attacks on members with thresholds demand.

    A choice is how much is spent on a member; only costs of gains matter.
    """
    members, none = votes.shape[1], np.zeros(0, np.int64)
    costs, needs, points = [np.zeros((2, members, 0), np.int64)], [none], [none]
    for at in blocks(len(votes), members * labels * 4):
        counts = counts_of(votes[at], labels)
        answers = answers_of(counts)
        gaps = gaps_of(counts, answers)
        near, rivals = np.nonzero(counted[at, None] & (gaps < 2 * budget))
        for part in blocks(len(near), members * labels * 4):
            own, to = near[part], rivals[part]
            cost = _gain_costs(votes[at][own], thresholds[at][own], answers[own], to)
            alive = least_cost(cost, gaps[own, to] + 1) <= budget
            costs.append(cost[:, :, alive])
            needs.append(gaps[own, to][alive] + 1)
            points.append(own[alive] + at.start)
    (one, two), gains, levels = np.concatenate(costs, axis=2), [], []
    for member in range(members):
        some = np.unique([one[member], two[member]])
        levels.append(some[some <= budget])
        spent = levels[-1][:, None]
        gains.append((one[member] <= spent).astype(np.uint8) + (two[member] <= spent))
    cost, total = np.concatenate(levels), np.concatenate(needs)
    group = np.repeat(np.arange(members), [len(each) for each in levels])
    return Stake(
        np.concatenate(gains), total, np.arange(len(total)), np.concatenate(points),
        np.array([budget]), np.zeros(len(cost), np.int64), cost, group,
    )  # fmt: skip


_LARGEST = 2**62
PRICE = 2**20
"""Prices of votes are multiples of 1 / PRICE."""


def forcing_cost(thresholds: Counts, target: int, prices: Counts) -> int:
    """Return the cost that prices prove for making a label win; one more than `FAR` for never.

    With T votes for the label, any other label c has at most T - [c < label] votes. So for prices
    y, non-negative for other labels, any winning votes cost at least ``sum_i min_v (b_iv + y_v) -
    sum_c y_c (T - [c < label]) - y_label T``; the bound is the least over T of the greatest over
    the given prices.
    """
    parts, labels = thresholds.shape
    never = 1 + sum(int(each) for each in thresholds.max(axis=1))
    others = [label for label in range(labels) if label != target]
    largest = max(abs(int(each)) for each in (prices.min(initial=0), prices.max(initial=0)))
    if (never * PRICE + labels * largest) * (parts + 1) >= _LARGEST:
        return 1
    need(prices[:, others] >= 0, "a price of a vote is negative")
    costs = PRICE * np.where(thresholds == NEVER, never, thresholds)
    sums = [int((costs + each).min(axis=1).sum()) for each in prices]
    least = FAR + 1
    for votes in range(parts + 1):
        room = [votes - (label < target) for label in others]
        if min(room) < 0 or votes + sum(room) < parts:
            continue
        proved = 1
        for total, each in zip(sums, prices.tolist(), strict=True):
            paid = sum(each[c] * space for c, space in zip(others, room, strict=True))
            proved = max(proved, -(-(total - votes * each[target] - paid) // PRICE))
        least = min(least, proved if proved < never else FAR + 1)
    return least


def refuse_scores(votes: Votes, scores: Scores, source: str) -> None:
    """Refuse scores that are not all finite, or that a vote contradicts.

    The counts depend on this: NaN has no order, and a member that voted t must prefer t.
    """
    labels = np.arange(scores.shape[2])
    for point, (row, given) in enumerate(zip(scores, votes, strict=True)):
        own = np.take_along_axis(row, given[:, None].astype(np.int64), axis=1)
        agreed = np.where(labels < given[:, None], row < own, row <= own)
        if not (agreed & (np.abs(row) < np.inf)).all():
            raise Rejected(
                f"{source}: the scores of test point {point} are not all finite, or are not "
                "highest for the member's vote"
            )


def _prefer(scores: Scores, rows: Any, one: Any, other: Any) -> Flags:
    """Return which members prefer a label (on a tie the smaller), shape (points, members)."""
    first, second = scores[rows, :, one], scores[rows, :, other]
    before = np.reshape(one < other, (-1, 1))
    flags: Flags = np.where(before, first >= second, first > second)
    return flags


def support_of(scores: Scores, answers: Counts) -> Counts:
    """Return how many members prefer each label to the answer, shape (points, labels)."""
    points, members, labels = scores.shape
    found = np.zeros((points, labels), np.int64)
    for at in blocks(points, members * labels, CACHE):
        own = scores[np.arange(points)[at], :, answers[at]]
        below = np.nextafter(own, -np.inf)  # of scores that are equal the smaller label counts
        for label in range(labels):
            least = np.where((label < answers[at])[:, None], below, own)
            found[at, label] = (scores[at, :, label] > least).sum(axis=1)
    return found


def run_off_answers(votes: Votes, scores: Scores, labels: int) -> Counts:
    """Return the winner at each test point.

    The two labels with the most votes are the finalists; each member prefers the one it scores
    higher; all ties go to the smaller label.
    """
    counts, rows = counts_of(votes, labels), np.arange(len(votes))
    first = answers_of(counts)
    counts[rows, first] = -1
    second = answers_of(counts)
    support = np.zeros(len(votes), np.int64)
    for at in blocks(len(votes), votes.shape[1], CACHE):
        support[at] = _prefer(scores, rows[at], first[at], second[at]).sum(axis=1)
    return np.where(2 * support + (first < second) > votes.shape[1], first, second)


def run_off_radii(votes: Votes, scores: Scores, labels: int, target: int | None = None) -> Counts:
    """Return how many poisoned parts each answer survives.

    With a target, return how many never make it the answer; -1 where it is the answer already. More
    members can do what some can, and all of them make any label win.
    """
    counts, answers = counts_of(votes, labels), run_off_answers(votes, scores, labels)
    support = support_of(scores, answers)
    low, near = np.zeros(len(votes), np.int64), target is None
    high = np.full(len(votes), votes.shape[1], np.int64)
    if near:  # what is published is seldom less
        low = published_run_offs(votes, scores, labels, answers, support=support)
    while (low + 1 < high).any():
        middle = np.where(low + 1 < high, low + 1 if near else (low + high) // 2, -1)
        near = False
        falls = run_off_falls(votes, scores, counts, answers, support, middle, target)
        high = np.where(falls, middle, high)
        low = np.where(falls, low, np.maximum(low, middle))
    return low if target is None else np.where(answers == target, -1, low)


def run_off_falls(
    votes: Votes, scores: Scores, counts: Counts, answers: Counts, support: Counts, edits: Counts,
    target: int | None = None,
) -> Flags:  # fmt: skip
    """Return which answers this many poisoned parts can change; -1: none is sought.

    Fix the new winner t and the other finalist s. A poisoned member may as well vote t, or vote s
    and prefer s, since any other vote only helps a third label. Let t gain A votes and s gain B, of
    which A + B are taken from third labels u: that takes max(A, 0) + max(B, 0) parts, since moving
    votes both from t to s and from s to t is wasteful. Each u must lose its lead over t and s. In
    the run-off t gains A minus the recast members of third labels that preferred t; those that
    preferred s are recast first. For each B the largest possible A is best: making one more member
    of any third label vote t costs t nothing. So trying every B suffices.
    """
    members, labels = votes.shape[1], counts.shape[1]
    falls, names = np.zeros(len(votes), np.bool_), np.arange(labels)
    for t in range(labels) if target is None else (target,):
        for s in [other for other in range(labels) if other != t]:
            rows = np.flatnonzero(~falls & (edits >= 0) & (answers != t))
            enough = 2 * (support[rows, t] + edits[rows]) + (t < s) > members
            rows = rows[enough | (answers[rows] != s)]
            third, most = np.flatnonzero((names != t) & (names != s)), edits[rows, None]
            over_t, over_s = (
                counts[np.ix_(rows, third)] - counts[rows, None, own] + (third < own)
                for own in (t, s)
            )  # an edit closes one of these gaps by 2 at most, and both by 3
            near = (over_t <= 2 * most) & (over_s <= 2 * most) & (over_t + over_s <= 3 * most)
            rows = rows[near.all(axis=1)]
            for at in blocks(len(rows), members, CACHE):
                own = rows[at]
                ahead = _prefer(scores, own, t, s)
                falls[own] = _can_win(votes[own], ahead, counts[own], (t, s), edits[own])
    return falls


def _can_win(
    votes: Votes, ahead: Flags, counts: Counts, pair: tuple[int, int], edits: Counts
) -> Flags:
    """Return whether t can win a run-off against s after this many edits, shape (points,).

    What each condition lacks is convex in B: A and A + B are least numbers of linear ones, and what
    third labels lose greatest ones of -A and -B. So halving finds the B that lacks least.
    """
    t, s = pair
    labels, parts = counts.shape[1], votes.shape[1]
    third = np.array([u for u in range(labels) if u not in pair], np.int64)
    # For each third label: its votes, how many of these prefer s, and its leads.
    held = counts[:, third]
    cheap = counts_of(np.where(ahead, labels, votes).astype(np.int32), labels + 1)[:, third]
    over_t = held - counts[:, [t]] + (third < t)
    over_s = held - counts[:, [s]] + (third < s)
    support, rest, easy = ahead.sum(axis=1), held.sum(axis=1), cheap.sum(axis=1)

    def lacks(gain_s: Counts) -> Counts:
        gain_t = np.minimum(edits - np.maximum(gain_s, 0), rest - gain_s)
        gained = gain_t + gain_s
        must = np.maximum(np.maximum(over_t - gain_t[:, None], over_s - gain_s[:, None]), 0)
        dear = np.maximum(np.maximum(must - cheap, 0).sum(axis=1), gained - easy)
        found: Counts = must.sum(axis=1) - gained
        for each in (
            -gain_t - counts[:, t],
            (must - held).max(axis=1, initial=-parts),
            parts + 1 - (t < s) - 2 * (support + gain_t - dear),
        ):
            found = np.maximum(found, each)
        return found

    low, high = -np.minimum(edits, counts[:, s]), edits
    while (low < high).any():
        middle = (low + high) // 2
        left = (low == high) | (lacks(middle) <= lacks(middle + 1))
        low, high = np.where(left, low, middle + 1), np.where(left, middle, high)
    return lacks(low) <= 0


def run_off_stake(
    votes: Votes, scores: Scores, labels: int, answers: Counts, points: Counts, budget: int,
    offsets: tuple[int, ...] = (0,), target: int | None = None,
) -> Stake:  # fmt: skip
    """Return what attacks on the answers of run-offs demand at some points, for a new winner.

    Let f members be reached, a of which vote t and the others s; no other vote helps t more. Then t
    and s are finalists, and t wins, if a is at least what t lacks against each third label, and in
    the run-off, and at most f minus what s lacks against each third label; and if it is from 0 to
    f. So each lower bound, and 0, must be at most f, and at most f minus each lack of s: a demand
    each. A lack decreases with reached members that voted for the third label, or preferred s, and
    increases with those that voted t or s, or preferred t; a member gains 0 to 3.
    """
    members, none = votes.shape[1], np.zeros(0, np.int64)
    found = [unit_stake(np.zeros((members, 0), np.uint8), none, none, none, budget, offsets)]
    owners, total = list[int](), 0
    winners = range(labels) if target is None else (target,)
    for point in points.tolist() if budget else ():
        counts = counts_of(votes[[point]], labels)[0]
        for t in [each for each in winners if each != answers[point]]:
            for s in [label for label in range(labels) if label != t]:
                gaps = np.delete(2 * counts - counts[t] - counts[s], [t, s])
                if gaps.max(initial=0) > 3 * budget * len(offsets):  # both close by 3 at most
                    continue
                ahead = _prefer(scores, [point], t, s)[0]
                gains, needs = _run_off_demands(votes[point], ahead, counts, t, s)
                need(len(needs), "a label that is not the answer wins")
                pairs = np.zeros(len(needs), np.int64)
                own = unit_stake(gains, needs, pairs, pairs[:1], budget, offsets)
                if len(own.needs):
                    found.append(own)
                    owners.append(point)
                    total += own.gains.size
                    need(total <= _ROOM, "run-offs can be lost in too many ways to check")
    return join_stakes(found, np.array(owners, np.int64))


def _run_off_demands(
    ballot: Votes, ahead: Flags, counts: Counts, t: int, s: int
) -> tuple[Gains, Counts]:
    """Return gains, shape (members, demands), and positive needs, for t to win against s."""
    members = len(ballot)
    third = np.array([u for u in range(len(counts)) if u not in (t, s)], np.int64)
    voted = (ballot[:, None] == third).astype(np.int64)
    # The lacks, and how a reached member reduces each; 0 is always one of them.
    run_off = -(-(members + (t > s)) // 2) - int(ahead.sum())
    from_below = np.concatenate([[0, run_off], counts[third] - counts[t] + (third < t)])
    from_above = np.concatenate([[0], counts[third] - counts[s] + (third < s)])
    takes_below = np.column_stack([0 * ballot, -1 * ahead, voted - (ballot == t)[:, None]])
    takes_above = np.column_stack([0 * ballot, voted - (ballot == s)[:, None]])
    needs = (from_below[:, None] + from_above).ravel()
    gains = 1 + (takes_below[:, :, None] + takes_above[:, None, :]).reshape(members, -1)
    return gains[:, needs > 0].astype(np.uint8), needs[needs > 0]


def published_run_offs(
    votes: Votes, scores: Scores, labels: int, answers: Counts, offsets: tuple[int, ...] = (0,),
    support: Counts | None = None,
) -> Counts:  # fmt: skip
    """Return how many units each answer survives by the published argument (Rezaei et al. 2023).

    An answer changes only if two labels rank before it in the first round, or another finalist wins
    against it. The units with the most gain must together close each of these gaps, and both gaps
    of the first round together.
    """
    found = np.full(len(votes), votes.shape[1] - 1, np.int64)
    support = support_of(scores, answers) if support is None else support
    width = 8 * labels if len(offsets) == 1 else 8 * votes.shape[1] + labels
    for at in blocks(len(votes), width):
        found[at] = _published_radii(votes[at], scores[at], answers[at], support[at], offsets)
    return found


def _published_radii(
    votes: Votes, scores: Scores, answers: Counts, support: Counts, offsets: tuple[int, ...]
) -> Counts:
    (points, members), labels = votes.shape, support.shape[1]
    counts, rows = counts_of(votes, labels), np.arange(points)
    first, others = answers_of(counts), counts.copy()
    others[rows, first] = -1
    rival = np.where(first == answers, answers_of(others), first)
    alike = counts if len(offsets) == 1 else None
    names = np.arange(labels, dtype=np.int32)
    cast = votes if alike is None else np.broadcast_to(names, counts.shape)

    def ahead(one: Any, other: Any) -> Counts:
        """Return the votes that one label is short of another."""
        short: Counts = counts[rows, other] - counts[rows, one] + (other < one)
        return short

    def survived_by(gains: Gains, needs: Counts) -> Counts:
        return survived_units(gains, needs, offsets, (members,), alike)

    def second_round(label: int) -> Counts:
        """Return how many units never let a label win the second round against the answer."""
        lacks = (members + (label > answers) + 1) // 2 - support[:, label]
        if alike is None:
            gains = 1 - _prefer(scores, rows, label, answers).astype(np.int8)
            return survived_by(gains, lacks)
        kinds = np.column_stack([members - support[:, label], support[:, label]])
        gains = np.broadcast_to(np.array([1, 0]), kinds.shape)
        return survived_units(gains, lacks, offsets, (members,), kinds)

    alone = [survived_by(passing_gains(cast, answers, a), ahead(a, answers)) for a in range(labels)]
    found = np.full(points, members - 1, np.int64)
    for a in range(labels):
        enters = survived_by(passing_gains(cast, rival, a), ahead(a, rival))
        final = np.maximum(second_round(a), np.where(rival == a, -1, enters))
        found = np.where(answers == a, found, np.minimum(found, final))
        for b in range(a + 1, labels):
            gains = 1 + 2 * (cast == answers[:, None]).astype(np.int8) - (cast == a) - (cast == b)
            both = survived_by(gains, ahead(a, answers) + ahead(b, answers))
            both = np.maximum(both, np.maximum(alone[a], alone[b]))
            apart = (answers != a) & (answers != b)
            found = np.where(apart, np.minimum(found, both), found)
    return np.maximum(found, 0)
