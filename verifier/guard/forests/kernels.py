"""Compiled loops: a forest's answer, and whose deletion would change it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.guard.forests.layout import Deletions, Lookup, Nodes, Workspace

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@cached_njit(nogil=True)
def ask(nodes: Nodes, x: Floats, room: Workspace) -> int:
    """Fill in the leaves and share sums of an input; return the label.

    Summed as `predict_proba` does: tree by tree from 0, divided once; the first greatest label
    wins.
    """
    first, feature, threshold, right = nodes.first, nodes.feature, nodes.threshold, nodes.right
    shares, leaf, total = nodes.shares, room.leaf, room.total
    total[:] = 0.0
    for t in range(len(leaf)):
        i = first[t]
        while feature[i] >= 0:
            i = right[i] if x[feature[i]] > threshold[i] else i + 1
        leaf[t] = i
        for c in range(len(total)):
            total[c] += shares[i, c]
    return _first_greatest(total, len(leaf))


@cached_njit(nogil=True)
def _first_greatest(total: Floats, trees: int) -> int:
    best, label = total[0] / trees, 0
    for c in range(1, len(total)):
        mean = total[c] / trees
        if mean > best:
            best, label = mean, c
    return label


@cached_njit(nogil=True)
def _member_label(
    nodes: Nodes, deletions: Deletions, room: Workspace, x: Floats, member: int
) -> int:
    """Return a member's answer, using its own leaves where it differs, in tree order."""
    leaf, other, shares = room.leaf, room.other, nodes.shares
    other[:] = 0.0
    at, end = deletions.start[member], deletions.start[member + 1]
    for t in range(len(leaf)):
        here = leaf[t]
        row = -1
        if at < end and deletions.tree[at] == t:
            if deletions.node[at] <= here < deletions.end[at]:
                row = deletions.root[at]
                while row >= 0 and deletions.feature[row] >= 0:
                    goes_right = x[deletions.feature[row]] > deletions.threshold[row]
                    row = deletions.right[row] if goes_right else deletions.left[row]
                if row >= 0:
                    row = deletions.left[row]
                else:
                    here = nodes.first[t] - 1 - row
                    row = -1
                    while nodes.feature[here] >= 0:
                        goes_right = x[nodes.feature[here]] > nodes.threshold[here]
                        here = nodes.right[here] if goes_right else here + 1
            at += 1
        if row >= 0:
            for c in range(len(other)):
                other[c] += deletions.shares[row, c]
        else:
            for c in range(len(other)):
                other[c] += shares[here, c]
    return _first_greatest(other, len(leaf))


@cached_njit(nogil=True)
def suspects(
    nodes: Nodes, lookup: Lookup, room: Workspace, label: int, padding: float, every: bool
) -> int:
    """Find the members that may answer differently; return their number."""
    total, shares = room.total, nodes.shares
    labels = len(total)
    margin = np.inf
    for c in range(labels):
        if c != label:
            margin = min(margin, total[label] - total[c])
    threshold = -np.inf if every else margin - padding
    met = 0
    for t in range(len(room.leaf)):
        leaf = lookup.busiest[t] if every else room.leaf[t]
        i = nodes.first[t]
        while True:
            for e in range(lookup.start[i], lookup.start[i + 1]):
                if lookup.reach[e] < threshold:
                    break
                member = lookup.member[e]
                if not room.seen[member]:
                    room.seen[member] = True
                    room.touched[met] = member
                    met += 1
                lost = lookup.least[e, label] - shares[leaf, label]
                for c in range(labels):
                    room.gain[member, c] += lookup.most[e, c] - shares[leaf, c] - lost
            if nodes.feature[i] < 0:
                break
            i = i + 1 if leaf < nodes.right[i] else nodes.right[i]
    found = 0
    for k in range(met):
        member = room.touched[k]
        may = False
        for c in range(labels):
            if c != label and room.gain[member, c] >= total[label] - total[c] - padding:
                may = True
            room.gain[member, c] = 0.0
        room.seen[member] = False
        if may:
            room.touched[found] = member
            found += 1
    return found


@cached_njit(nogil=True)
def find_flip(
    nodes: Nodes,
    deletions: Deletions,
    room: Workspace,
    x: Floats,  # shape (features,)
    label: int,
    members: NDArray[np.int32],
    every: bool,
) -> int:
    """Return a member that answers with another label; -1 if none does."""
    found = -1
    for member in members:
        if _member_label(nodes, deletions, room, x, member) != label:
            found = member
            if not every:
                break
    return found


@cached_njit(nogil=True)
def extents(nodes: Nodes, ends: Places, most: Floats, least: Floats) -> None:
    """Fill in where each node's subtree ends, and the shares of its leaves."""
    labels = nodes.shares.shape[1]
    for i in range(len(ends) - 1, -1, -1):
        if nodes.feature[i] < 0:
            ends[i] = i + 1
            for c in range(labels):
                most[i, c] = least[i, c] = nodes.shares[i, c]
        else:
            right = nodes.right[i]
            ends[i] = ends[right]
            for c in range(labels):
                most[i, c] = max(most[i + 1, c], most[right, c])
                least[i, c] = min(least[i + 1, c], least[right, c])


@cached_njit(nogil=True)
def spans(
    nodes: Nodes,
    deletions: Deletions,
    most_below: Floats,  # shape (nodes, labels)
    least_below: Floats,  # shape (nodes, labels)
    most: Floats,  # shape (changes, labels)
    least: Floats,  # shape (changes, labels)
) -> None:
    """Fill in the range of each label's share in the replacements of changed nodes."""
    labels = nodes.shares.shape[1]
    stack = np.empty(64, np.int64)
    for k in range(len(deletions.root)):
        for c in range(labels):
            most[k, c], least[k, c] = -np.inf, np.inf
        stack[0], size = deletions.root[k], 1
        while size:
            size -= 1
            at = stack[size]
            if at < 0:
                i = nodes.first[deletions.tree[k]] - 1 - at
                for c in range(labels):
                    most[k, c] = max(most[k, c], most_below[i, c])
                    least[k, c] = min(least[k, c], least_below[i, c])
            elif deletions.feature[at] < 0:
                row = deletions.left[at]
                for c in range(labels):
                    most[k, c] = max(most[k, c], deletions.shares[row, c])
                    least[k, c] = min(least[k, c], deletions.shares[row, c])
            else:
                if size + 2 > len(stack):
                    larger = np.empty(2 * len(stack), np.int64)
                    larger[:size] = stack[:size]
                    stack = larger
                stack[size], stack[size + 1] = deletions.left[at], deletions.right[at]
                size += 2
