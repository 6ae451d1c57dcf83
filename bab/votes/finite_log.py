"""Certificate log of why some number of poisoned buckets is too few for a label.

A stack of nodes, each the attacks with some buckets and others only of those that fit. A row -1
bounds the top node by the next weights, which closes it or leaves out buckets; a row that is a
bucket replaces it by the attacks without that bucket and, on top, those with it. Every new node is
bounded by the published argument first, which needs no row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.finite_weights import UNIT, best_weights
from leaveout.encoders.votes import finite_kernels as kernels

Counts = NDArray[np.int64]

_STEPS = 300
"""Weights tried for each row."""

_AGAIN = 3
"""Weights in a row that leave out buckets, before a bucket divides the attacks."""


@dataclass(frozen=True, eq=False)
class FiniteLog:
    """Rows, and the weights of those that are -1."""

    rows: NDArray[np.int32]  # shape (rows,)
    weights: NDArray[np.uint16]  # shape (number of -1, members): in 256ths


@dataclass(frozen=True, eq=False)
class _Node:
    """Buckets that fit, gains of members not reached yet, what they must exceed, buckets left."""

    fit: NDArray[np.bool_]
    gain: Counts
    gap: int
    left: int

    def narrow(self, weights: Counts, offsets: Counts) -> tuple[_Node | None, Counts]:
        """Return what weights leave open, and their sums over each bucket's members."""
        sums = np.zeros_like(weights)
        for offset in offsets.tolist():
            sums += np.roll(weights, -offset)
        top = np.sort(sums[self.fit])[::-1][: self.left]
        bound = int(UNIT * self.gain.sum() - weights.sum() + top.sum())
        enough = UNIT * (self.gap + 1)
        if bound < enough:
            return None, sums
        if not self.left or len(top) < self.left:
            return self, sums
        fit = self.fit & (bound - top[-1] + np.minimum(sums, top[-1]) >= enough)
        return replace(self, fit=fit), sums

    def branch(self, bucket: int, offsets: Counts) -> tuple[_Node, _Node]:
        """Return the attacks without a bucket, and those with it."""
        without, gain = self.fit.copy(), self.gain.copy()
        without[bucket] = False
        reached = (bucket + offsets) % len(gain)
        gain[reached] = 0
        gap = self.gap - int(self.gain[reached].sum())
        return replace(self, fit=without), _Node(without, gain, gap, self.left - 1)


def open_labels(votes: NDArray[np.int32], labels: int, offsets: Counts, edits: int) -> list[int]:
    """Return the labels that so many buckets may let pass, by the published argument."""
    gap, least = np.zeros(labels, np.int64), np.zeros(labels, np.int64)
    hits = np.zeros((labels, len(votes)), np.int32)
    best = int(kernels.gaps(votes, gap))
    kernels.published_edits(votes, offsets, best, gap, hits, least)
    found: list[int] = np.flatnonzero((least <= edits) & (np.arange(labels) != best)).tolist()
    return found


def log_of(
    votes: NDArray[np.int32], labels: int, offsets: Counts, label: int, edits: int, most: int = 2000
) -> FiniteLog | None:
    """Return a log of why ``edits`` buckets do not let a label pass the prediction."""
    members = len(votes)
    gap = np.zeros(labels, np.int64)
    best = int(kernels.gaps(votes, gap))
    gain = 1 + (votes == best).astype(np.int64) - (votes == label)
    rows: list[int] = []
    written: list[Counts] = []
    stack = [_Node(np.ones(members, np.bool_), gain, int(gap[label]), edits)]
    while stack:
        top = stack.pop()
        node, sums = top.narrow(UNIT * top.gain, offsets)
        for _ in range(_AGAIN):
            if node is None:
                break
            before, weights = int(node.fit.sum()), np.zeros(members, np.int64)
            goal = UNIT * (node.gap + 1) - 1
            best_weights(node.gain, offsets, goal, node.left, node.fit, _STEPS, weights)
            node, sums = node.narrow(weights, offsets)
            if node is not None and int(node.fit.sum()) == before:
                break
            rows.append(-1)
            written.append(weights)
        if node is None:
            continue
        if len(rows) >= most or not node.left or not node.fit.any():
            return None
        bucket = int(np.where(node.fit, sums, -1).argmax())
        rows.append(bucket)
        stack += node.branch(bucket, offsets)
    weights_of = np.array(written, np.uint16).reshape(len(written), members)
    return FiniteLog(np.array(rows, np.int32), weights_of)
