"""Conversion of cached statistics between tree records and plain lists."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.compiling import kernel
from leaveout.models.forest.layout import SMALL, Tree, attribute_of
from leaveout.models.forest.table import Table


class Cached(NamedTuple):
    """Cached statistics of a tree in preorder, node by node."""

    node: NDArray[np.int32]  # shape (cached,)
    attribute: NDArray[np.int32]  # shape (cached,)
    values: NDArray[Any]  # shape (cached, 2): two adjacent values of the attribute
    counts: NDArray[np.int32]  # shape (cached, 3 labels)


@kernel
def unroll(table: Table, tree: Tree, random_depth: int, out: Cached) -> int:
    """List every cached statistic of a tree, or only count them if lists are empty."""
    node_of, attribute_of, values, counts = out
    counting = len(node_of) == 0
    labels = tree.counts.shape[1]
    found = 0
    depth = np.zeros(tree.used[0], np.int32)
    for node in range(tree.used[0]):
        here = tree.nodes[node]
        if here.feature < 0:
            continue
        depth[here.left] = depth[node] + 1
        depth[here.right] = depth[node] + 1
        n = 0
        for c in range(labels):
            n += tree.counts[node, c]
        if n <= SMALL:
            continue
        record = here.record
        at_random = depth[node] < random_depth
        at, attributes = record + 1, 1
        if not at_random:
            attributes = tree.arena[record]
        for _ in range(attributes):
            attribute, many = here.feature, 1
            if not at_random:
                attribute, many = tree.arena[at], tree.arena[at + 1]
                at += 2
            kind = table.kind[attribute]
            for _ in range(many):
                if not counting:
                    node_of[found], attribute_of[found] = node, attribute
                    if kind >= 0:
                        values[found, 0] = table.lows[attribute]
                        values[found, 1] = table.highs[attribute]
                    else:
                        first = record if at_random else at
                        start = table.level_start[-1 - kind]
                        values[found, 0] = table.levels[start + tree.arena[first]]
                        values[found, 1] = table.levels[start + tree.arena[first + 1]]
                    for c in range(labels):
                        low, one, two = np.int32(0), np.int32(0), np.int32(0)
                        if not at_random and kind >= 0:
                            low = tree.arena[at + c]
                            one, two = low, tree.counts[node, c] - low
                        elif not at_random:
                            low = tree.arena[at + 2 + c]
                            one = tree.arena[at + 2 + labels + c]
                            two = tree.arena[at + 2 + 2 * labels + c]
                        counts[found, c] = low
                        counts[found, labels + c] = one
                        counts[found, 2 * labels + c] = two
                found += 1
                if not at_random:
                    at += labels if kind >= 0 else 2 + 3 * labels
    return found


@kernel
def reroll(
    table: Table, tree: Tree, random_depth: int, depth: NDArray[np.int32], listed: Cached
) -> int:
    """Write a tree's records from coded lists; return the number of words."""
    node_of, attribute_of, codes, counts = listed
    counting = len(tree.arena) == 0
    labels = tree.counts.shape[1]
    at, i = 0, 0
    while i < len(node_of):
        node = node_of[i]
        record = at
        if depth[node] < random_depth:
            if table.kind[attribute_of[i]] < 0:
                if not counting:
                    tree.nodes[node].record = record
                    tree.arena[at], tree.arena[at + 1] = codes[i, 0], codes[i, 1]
                at += 2
            i += 1
            continue
        at += 1
        attributes = 0
        while i < len(node_of) and node_of[i] == node:
            attribute, head, many = attribute_of[i], at, 0
            kind = table.kind[attribute]
            at += 2
            while i < len(node_of) and node_of[i] == node and attribute_of[i] == attribute:
                if kind >= 0:
                    if not counting:
                        for c in range(labels):
                            tree.arena[at + c] = counts[i, c]
                    at += labels
                else:
                    if not counting:
                        tree.arena[at], tree.arena[at + 1] = codes[i, 0], codes[i, 1]
                        for c in range(3 * labels):
                            tree.arena[at + 2 + c] = counts[i, c]
                    at += 2 + 3 * labels
                many += 1
                i += 1
            if not counting:
                tree.arena[head], tree.arena[head + 1] = attribute, many
            attributes += 1
        if not counting:
            tree.arena[record] = attributes
            tree.nodes[node].record = record
    return at


@kernel
def recode(table: Table, tree: Tree, random_depth: int, new: NDArray[np.int32]) -> None:
    """Replace the codes in the records of a tree in preorder by those in ``new``."""
    labels = tree.counts.shape[1]
    depth = np.zeros(tree.used[0], np.int32)
    for node in range(tree.used[0]):
        here = tree.nodes[node]
        if attribute_of(here.feature) < 0:
            continue
        depth[here.left] = depth[node] + 1
        depth[here.right] = depth[node] + 1
        if here.record < 0:
            continue
        at = np.int64(here.record)
        if depth[node] < random_depth:
            start = table.level_start[-1 - table.kind[here.feature]]
            tree.arena[at] = new[start + tree.arena[at]]
            tree.arena[at + 1] = new[start + tree.arena[at + 1]]
            continue
        attributes = tree.arena[at]
        at += 1
        for _ in range(attributes):
            kind, many = table.kind[tree.arena[at]], tree.arena[at + 1]
            at += 2
            if kind >= 0:
                at += labels
                continue
            start = table.level_start[-1 - kind]
            for _ in range(many):
                tree.arena[at] = new[start + tree.arena[at]]
                tree.arena[at + 1] = new[start + tree.arena[at + 1]]
                at += 2 + 3 * labels
