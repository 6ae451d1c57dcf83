"""Groups of members that a bound rests on: a tree of clusters with bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.clusters import Clusters
from leaveout.bab.native.explorer import Explorer
from leaveout.bab.native.nodes import Node, batch_of, with_bounds
from leaveout.bab.native.question import Prepared

Floats = NDArray[np.float64]
Members = NDArray[np.int64]

_MOST = 31
"""Groups of a tree."""

_READ = 2**28
"""Parameters of members that may be read to bound groups: a second or so."""


@dataclass(frozen=True, eq=False)
class Group:
    """A set of members with similar networks."""

    parent: int  # position of the group it is a part of, earlier in the list; -1 for all members
    members: Members
    upper: float  # no counter-example of any of them has a higher value, as computed in float32


def grow(
    clusters: Clusters,
    count: int,
    bound: Callable[[list[Members]], list[float]],
    enough: float,
    size: int,
) -> list[Group]:
    """Repeatedly split the group with the highest bound.

    A group whose bound does not exceed the value found is left whole; what is split may hold the
    worst counter-example.
    """
    everyone = np.arange(count, dtype=np.int64)
    groups = [Group(-1, everyone, bound([everyone])[0])]
    leaves, left = [0], _READ - count * size
    while len(groups) + 2 <= _MOST:
        able = [at for at in leaves if len(groups[at].members) > 1 and groups[at].upper > enough]
        if not able:
            break
        chosen = max(able, key=lambda at: (groups[at].upper, len(groups[at].members), -at))
        whole = groups[chosen]
        left -= len(whole.members) * size
        if left < 0:
            break
        parts = list(clusters.split(whole.members))
        uppers = [min(whole.upper, each) for each in bound(parts)]
        # The one that carries the bound comes first.
        order = sorted((0, 1), key=lambda side: (-uppers[side], -len(parts[side])))
        leaves.remove(chosen)
        for side in order:
            leaves.append(len(groups))
            groups.append(Group(chosen, parts[side], uppers[side]))
    return groups


def cap_bounds(groups: list[Group], known: Floats, least: float) -> list[Group]:
    """Lower the bounds of groups to the known bounds of their members and parts."""
    uppers = [max(least, min(each.upper, float(known[each.members].max()))) for each in groups]
    most = [least] * len(groups)
    inner = {each.parent for each in groups}
    for at in reversed(range(len(groups))):
        if at in inner:
            # Its parts, which come later in the list, hold all of its members.
            uppers[at] = min(uppers[at], most[at])
        parent = groups[at].parent
        if parent >= 0:
            most[parent] = max(most[parent], uppers[at])
    return [replace(each, upper=upper) for each, upper in zip(groups, uppers, strict=True)]


def root_bounds(explorer: Explorer, prepared: Prepared, parts: list[Members]) -> list[float]:
    """Bound sets of members over the whole region, leaving the frontier unchanged."""
    cases = range(prepared.forms.cases)
    nodes = [prepared.root(part, case, -1) for part in parts for case in cases]
    values = np.array([node.bound for node in _bound_nodes(explorer, nodes)])
    return [float(each) for each in values.reshape(len(parts), -1).max(axis=1)]


def _bound_nodes(explorer: Explorer, nodes: list[Node]) -> list[Node]:
    """Return the nodes with bounds, without splitting them."""
    batch, groups = batch_of(nodes, 0.0, 0.0)
    sets = explorer.space.sets(groups)
    many = ~sets.exact[batch.which]
    work = replace(explorer.work, steps=0) if many.all() else explorer.work
    found = explorer.kernel.bound(explorer.space.numbers, explorer.forms, sets, batch, work)
    return [with_bounds(node, found, at, 0.0, 0.0) for at, node in enumerate(nodes)]
