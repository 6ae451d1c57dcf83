"""Run-off elections: the winner, and whether poisoned parts can change it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.tallies import (
    Counts,
    Flags,
    Votes,
    answers_of,
    blocks,
    counts_of,
)

Scores = NDArray[np.floating]


def refuse_scores(votes: Votes, scores: Scores, source: str) -> None:
    """Refuse scores that are not all finite, or that a vote contradicts; raises RejectedError.

    What is counted here rests on it: no order holds with NaN, and a member that voted t prefers t.
    """
    labels = np.arange(scores.shape[2])
    for point, (row, given) in enumerate(zip(scores, votes, strict=True)):
        own = np.take_along_axis(row, given[:, None].astype(np.int64), axis=1)
        # False of NaN, too: a vote scores more than smaller labels, and no less than larger ones.
        agreed = np.where(labels < given[:, None], row < own, row <= own)
        if not (agreed & (np.abs(row) < np.inf)).all():
            raise RejectedError(
                f"{source}: the scores of test point {point} are not all finite, or not highest "
                "for what the member votes"
            )


def run_off_answers(votes: Votes, scores: Scores, labels: int) -> Counts:
    """Return who wins at each test point, shape (points,).

    The two labels with the most votes stand; each member prefers the one it scores higher; every
    tie goes to the smaller label.
    """
    found = np.zeros(len(votes), np.int64)
    for at in blocks(len(votes), votes.shape[1] + labels):
        counts = counts_of(votes[at], labels)
        rows = np.arange(len(counts))
        first = answers_of(counts)
        counts[rows, first] = -1
        second = answers_of(counts)
        one, other = (
            np.take_along_axis(scores[at], each[:, None, None], axis=2)[:, :, 0]
            for each in (first, second)
        )
        before = (first < second)[:, None]
        support = ((one > other) | ((one == other) & before)).sum(axis=1)
        wins = 2 * support + before[:, 0] > votes.shape[1]
        found[at] = np.where(wins, first, second)
    return found


def run_off_radii(votes: Votes, scores: Scores, labels: int, target: int | None = None) -> Counts:
    """Return how many poisoned parts each answer survives, shape (points,).

    With a target how many leave it another one than that; -1 where it is that already.
    """
    low = np.zeros(len(votes), np.int64)
    high = np.full(len(votes), votes.shape[1], np.int64)
    # Poisoning all members lets any label win, and what some do, more can do.
    while (low + 1 < high).any():
        rows = np.flatnonzero(low + 1 < high)
        middle = (low[rows] + high[rows]) // 2
        falls = run_off_falls(votes[rows], scores[rows], labels, middle, target)
        high[rows[falls]] = middle[falls]
        low[rows[~falls]] = middle[~falls]
    if target is None:
        return low
    return np.where(run_off_answers(votes, scores, labels) == target, -1, low)


def run_off_falls(
    votes: Votes, scores: Scores, labels: int, edits: Counts, target: int | None = None
) -> Flags:
    """Return which answers some so many poisoned parts can change, shape (points,).

    Fix who is to win, t, and who stands with t, s. A poisoned member may as well vote t, or s and
    prefer s, as any other vote only helps a third label. Say t gains A votes and s gains B, of
    which A + B are taken from third labels u: that takes max(A, 0) + max(B, 0) parts, since votes
    that move both from t to s and from s to t are wasted. Each u must lose what it leads t and s
    by. In the run-off t gains A less the recast members of third labels that preferred t; those
    that preferred s go first. For each B the largest A that fits is best: one member more of any
    third label that is made to vote t loses t nothing. So it is enough to try every B.
    """
    chosen = run_off_answers(votes, scores, labels)
    counts = np.zeros((len(votes), labels), np.int64)
    for at in blocks(len(votes), labels):
        counts[at] = counts_of(votes[at], labels)
    falls = np.zeros(len(votes), np.bool_)
    for t in range(labels) if target is None else (target,):
        for s in range(labels):
            rows = np.flatnonzero(~falls & (chosen != t)) if s != t else np.zeros(0, np.int64)
            rows = rows[_may(counts[rows], t, s, edits[rows])]
            width = max(votes.shape[1], (2 * votes.shape[1] + 1) * labels)
            for at in blocks(len(rows), width):
                own = rows[at]
                falls[own] = _can_win(
                    votes[own], scores[own, :, t], scores[own, :, s], counts[own], (t, s),
                    edits[own],
                )  # fmt: skip
    return falls


def _may(counts: Counts, t: int, s: int, edits: Counts) -> Flags:
    """Return whether t and s could pass every other label, as edits close gaps by 2."""
    near = np.ones(len(counts), np.bool_)
    for u in range(counts.shape[1]):
        if u not in (t, s):
            near &= counts[:, u] - counts[:, t] + (u < t) <= 2 * edits
            near &= counts[:, u] - counts[:, s] + (u < s) <= 2 * edits
    return near


def _can_win(
    votes: Votes, for_t: Scores, for_s: Scores, counts: Counts, pair: tuple[int, int], edits: Counts
) -> Flags:
    """Return where t wins a run-off against s after so many edits, shape (points,)."""
    t, s = pair
    labels, parts = counts.shape[1], votes.shape[1]
    ahead = (for_t > for_s) | ((for_t == for_s) & (t < s))
    third = [u for u in range(labels) if u not in pair]
    # Of each third label: its votes, those of them that prefer s, and its leads.
    held = counts[:, third][:, None]
    marked = np.where(ahead, labels, votes).astype(np.int32)
    cheap = counts_of(marked, labels + 1)[:, third][:, None]
    names = np.array(third, np.int64)
    over_t = (held[:, 0] - counts[:, [t]] + (names < t))[:, None]
    over_s = (held[:, 0] - counts[:, [s]] + (names < s))[:, None]
    most = int(edits.max())
    gain_s = np.arange(-min(most, int(counts[:, s].max())), most + 1)[None]
    rest, budget = held.sum(axis=2), edits[:, None]
    gain_t = np.minimum(budget - np.maximum(gain_s, 0), rest - gain_s)
    fits = (gain_s <= budget) & (-gain_s <= counts[:, [s]]) & (-gain_t <= counts[:, [t]])
    fits &= gain_t + gain_s >= 0
    must = np.maximum(np.maximum(over_t - gain_t[..., None], over_s - gain_s[..., None]), 0)
    fits &= (must <= held).all(axis=2) & (must.sum(axis=2) <= gain_t + gain_s)
    dear = np.maximum(must - cheap, 0).sum(axis=2)
    dear += np.maximum(gain_t + gain_s - np.maximum(must, cheap).sum(axis=2), 0)
    support = ahead.sum(axis=1)[:, None] + gain_t - dear
    wins = 2 * support + (t < s) > parts
    changed: Flags = (fits & wins).any(axis=1)
    return changed
