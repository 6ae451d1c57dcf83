"""Best-first exploration of a frontier: split, bound, and drop by the target."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.forms import Forms
from leaveout.bab.instance import FEW, Clusters
from leaveout.bab.native.branching import Brancher
from leaveout.bab.native.files.records import Proof, Record
from leaveout.bab.native.kernels.interface import CLOSED, EMPTY, OPEN, Kernel, Work
from leaveout.bab.native.nodes import (
    MOST_REFRESHED,
    Node,
    Split,
    batch_of,
    share_bounds,
    untie,
    with_bounds,
)
from leaveout.bab.native.question import Hint, Prepared, Settling
from leaveout.bab.native.space import Space
from leaveout.deadline import Deadline

RoundingBound = Callable[[Node, float], Node]

_BATCH, _WORK = 32, 2**27
"""Nodes split at once: fewer where bounding them may take longer than this many products."""

_WIDEST = 512  # nodes bounded at once while sets of members are split
_PATIENCE = 4096  # nodes bounded near the target, or as many as before that, until it is given up
_HINTED = 4  # nodes that cannot be split further to keep as hints: the value is likely to be there


@dataclass(frozen=True)
class Stand:
    """State of an explorer."""

    value: float  # largest value of an open node; minus infinity if there is none
    open_nodes: int
    bounded: int
    worth_going_on: bool  # whether a remaining node could lower the value


@dataclass(frozen=True, slots=True, eq=False)
class _Bounded:
    """A bounded node, and whether it can be split further."""

    node: Node
    is_open: bool


class Explorer:
    """Owner of a frontier; its value and the targets met bound all the nodes that it received."""

    def __init__(
        self,
        space: Space,
        clusters: Clusters | None,
        kernel: Kernel,
        forms: Forms,
        *,
        steps: int = 60,
        reach: float = 1.0,
        seed: int = 0,
        first: int = 0,
        stride: int = 1,
        bound_rounding: RoundingBound | None = None,
        boundary: Settling | None = None,
    ) -> None:
        self.space, self.clusters, self.kernel = space, clusters, kernel
        self.forms, self.work, self._reach = forms, Work(steps), reach
        self.brancher = Brancher(
            space.layout.hidden,
            seed,
            virtual=bool(forms.has_differences.any()),
            kinds=space.layout.kinds if space.layout.kinds.any() else None,
        )
        if boundary is not None:
            self.brancher.noise = boundary.noise
        self.records: list[Record] | None = None
        self.bounded = self._near_since = 0
        self.unresolved = -math.inf
        self.unresolved_nodes: list[Node] = []
        self.met: list[Hint] = []
        self.closed = np.full(space.count, -math.inf)
        self.bound_rounding, self.boundary = bound_rounding, boundary
        layout = space.layout
        each = layout.weights * min(1 + layout.hidden, MOST_REFRESHED)
        self._batch = max(1, min(_BATCH, _WORK // each))
        self._names = itertools.count(first, stride)
        self._order = itertools.count()
        self._heap: list[tuple[float, int, Node]] = []

    def name(self) -> int:
        """Return a node number that is not in use."""
        return next(self._names)

    def rename(self, first: int, stride: int) -> None:
        """Give new nodes numbers from ``first`` on."""
        self._names = itertools.count(first, stride)

    def add(self, nodes: Iterable[Node]) -> None:
        """Add bounded nodes."""
        for node in nodes:
            heapq.heappush(self._heap, (-node.value, next(self._order), node))

    def give(self, count: int) -> list[Node]:
        """Remove and return every second of the most urgent nodes."""
        kept: list[Node] = []
        given: list[Node] = []
        while self._heap and len(given) < count:
            node = heapq.heappop(self._heap)[2]
            (given if len(kept) > len(given) else kept).append(node)
        self.add(kept)
        return given

    def nodes(self) -> list[Node]:
        """Return all open nodes, the most urgent first."""
        return [node for _, _, node in sorted(self._heap, key=lambda entry: entry[:2])]

    def urgent(self, count: int) -> list[Node]:
        """Return the most urgent single-member nodes, but few per member."""
        chosen: list[Node] = []
        for _, _, node in heapq.nsmallest(8 * count, self._heap, key=lambda entry: entry[:2]):
            own = sum(int(node.members[0]) == int(each.members[0]) for each in chosen)
            if len(node.members) == 1 and own < max(2, count // 2):
                chosen.append(node)
            if len(chosen) == count:
                break
        return chosen

    @property
    def value(self) -> float:
        """Largest value of an open or an unresolved node."""
        return max(self.unresolved, -self._heap[0][0] if self._heap else -math.inf)

    def stand(self, target: float) -> Stand:
        """Return the state of the explorer."""
        value = self.value
        return Stand(value, len(self._heap), self.bounded, value > max(target, self.unresolved))

    def start(self, roots: list[Node], target: float) -> None:
        """Bound unbounded nodes, and add those above the target."""
        first = self._bound(roots[:1], target, target)
        rest = [share_bounds(root, roots[0], first[0].node) for root in roots[1:]]
        for each in [*first, *self._bound(rest, target, target)]:
            self._take(each)

    def step(self, target: float, seconds: float) -> Stand:
        """Split the most urgent nodes for some seconds, or until none exceeds the target."""
        deadline = Deadline.after(seconds)
        while not deadline.over:
            threshold = max(target, self.unresolved)
            if self.value <= threshold or self._is_stalled(threshold):
                self._drop()
                break
            self._round(threshold)
        return self.stand(target)

    def _is_stalled(self, target: float) -> bool:
        """Return whether all open nodes have been near the target for too long.

        The claim may hold with equality, which padded bounds never prove.
        """
        if self.boundary is None or not self.boundary.noise or not self._heap:
            return False
        first = self._heap[0][2]
        hidden = float(first.errors.max(initial=0.0)) + self.boundary.noise
        if first.value - target > hidden:
            self._near_since = self.bounded
            return False
        if self.bounded - self._near_since <= max(_PATIENCE, self._near_since):
            return False
        self.unresolved = max(self.unresolved, self.value)
        self._hint(first)
        return True

    def _drop(self) -> None:
        for _, _, node in self._heap:
            self._settle(node)
        self._heap = []

    def _round(self, target: float) -> None:
        tried: list[tuple[Node, list[tuple[Split, list[Node]]]]] = []
        size = self._batch
        stop_at = self.value + self._reach * (target - self.value)
        while self._heap and len(tried) < size:
            node = heapq.heappop(self._heap)[2]
            if node.value <= target:
                self._settle(node)
                continue
            if self.bound_rounding is not None:
                node = self.bound_rounding(node, target)
            splits = self.brancher.choose(node, target)
            if self._is_settled(node, target, last=not splits):
                continue
            if not splits:
                # Every phase is settled and every input narrow: the value is that of a leak, except
                # for float32 rounding.
                self.unresolved = max(self.unresolved, node.value)
                self._hint(node)
                self._settle(node)
                continue
            if splits[0].kind == "members":
                size = _WIDEST
            tried.append((node, [(split, self._children(node, split)) for split in splits]))
        if not tried:
            return
        every = [child for _, ways in tried for _, own in ways for child in own]
        found = iter(self._bound(every, target, max(target, stop_at)))
        for node, ways in tried:
            bounded = [list(itertools.islice(found, len(own))) for _, own in ways]
            splits = [split for split, _ in ways]
            won = [
                self.brancher.learn(split, node, [each.node.value for each in own], target)
                for split, own in zip(splits, bounded, strict=True)
            ]
            for each in bounded[self.brancher.best(splits, node, won)]:
                self._take(each)

    def _is_settled(self, node: Node, target: float, *, last: bool) -> bool:
        """Examine a node without padding if that may help; return whether it is empty."""
        if self.boundary is None or not self.boundary.applies(node, target, last=last):
            return False
        found = self.boundary.settle(node)
        if found.empty:
            self._settle(replace(node, value=-math.inf))
        # Not as nodes, whose regions are shifted: every bit may matter.
        met = [Hint(each, int(node.members[0]), node.case, node.value) for each in found.points]
        self.met = [*met, *self.met][:_HINTED]
        return found.empty

    def _hint(self, node: Node) -> None:
        """Keep a node as a hint for attacks if its value is among the highest."""
        self.unresolved_nodes = heapq.nlargest(
            _HINTED, [*self.unresolved_nodes, node], lambda each: each.value
        )

    def _children(self, node: Node, split: Split) -> list[Node]:
        if split.kind == "members":
            few = len(node.members) <= FEW
            groups = np.split(node.members, len(node.members)) if few else self._split_members(node)
            return [
                replace(
                    node, ident=self.name(), parent=node.ident, split=replace(split, side=side),
                    members=group,
                )
                for side, group in enumerate(groups)
            ]  # fmt: skip
        if split.kind == "untied":
            # A certificate needs bounds proved for the child itself, not the parent's.
            cap = math.inf if self.records is not None else node.value
            return [untie(node, split, self.name(), self.space.layout, cap)]
        pair = []
        for side in (0, 1):
            child = replace(
                node, ident=self.name(), parent=node.ident, split=replace(split, side=side)
            )
            if split.kind == "input":
                edge = child.upper.copy() if side == 0 else child.lower.copy()
                edge[split.index] = split.point
                child = replace(child, upper=edge) if side == 0 else replace(child, lower=edge)
            elif split.kind == "range":
                state = child.state.copy()
                state[side, split.index] = split.point
                child = replace(child, state=state)
            else:
                phase = child.phase.copy()
                phase[split.index] = 1 if side == 0 else -1
                child = replace(child, phase=phase)
            pair.append(child)
        return pair

    def _split_members(self, node: Node) -> list[NDArray[np.int64]]:
        assert self.clusters is not None, "sets of members need clusters"
        return list(self.clusters.split(node.members))

    def _bound(self, nodes: list[Node], target: float, stop_at: float) -> list[_Bounded]:
        """Bound nodes in the given order, without adding them to the frontier."""
        result: dict[int, _Bounded] = {}
        given = [node.ident for node in nodes]
        nodes, gone = self._snap_regions(nodes)
        for node in gone:
            empty = replace(node, value=-math.inf)
            self._note(empty, target, EMPTY, None)
            result[node.ident] = _Bounded(empty, False)
        if nodes:
            batch, groups = batch_of(nodes, target, stop_at)
            sets = self.space.sets(groups)
            many = ~sets.exact[batch.which]
            work = replace(self.work, steps=0) if many.all() else self.work
            found = self.kernel.bound(self.space.numbers, self.forms, sets, batch, work)
            self.bounded += len(nodes)
            spread = self._spread(nodes, many, found.value, target)
            for i, node in enumerate(nodes):
                status = int(found.status[i])
                done = with_bounds(node, found, i, float(spread[i]), target)
                if self.records is not None:
                    proves = status in {OPEN, CLOSED}
                    self._note(done, target, status, Proof.of(found, i) if proves else None)
                is_open = status == OPEN and done.value > target
                if is_open and self.records is None:
                    # The proof of such a bound shows that the children are empty.
                    is_open = bool(self._snap_regions([done])[0])
                result[node.ident] = _Bounded(done, is_open)
        return [result[ident] for ident in given]

    def _take(self, each: _Bounded) -> None:
        if each.is_open:
            self.add([each.node])
        else:
            self._settle(each.node)

    def _spread(
        self, nodes: list[Node], many: NDArray[np.bool_], values: Floats, target: float
    ) -> Floats:
        """Return how much lower values would be if every member were at the centre."""
        result = np.zeros(len(nodes))
        chosen = [node for node, several in zip(nodes, many, strict=True) if several]
        if not chosen:
            return result
        batch, groups = batch_of(chosen, target, target)
        own = self.space.sets(groups)
        bare = own._replace(
            radius=np.zeros_like(own.radius),
            slack=np.zeros_like(own.slack),
            exact=np.ones_like(own.exact),
        )
        found = self.kernel.bound(
            self.space.numbers, self.forms, bare, batch, replace(self.work, steps=0)
        )
        bounded = np.maximum(found.value, batch.cut)
        known = np.isfinite(bounded)
        result[np.flatnonzero(many)[known]] = values[many][known] - bounded[known]
        return result

    def _snap_regions(self, nodes: list[Node]) -> tuple[list[Node], list[Node]]:
        """Shrink regions to listed values; return the remaining nodes and the empty ones."""
        listed = self.space.listed_values
        if not listed.tables or not nodes:
            return nodes, []
        lower, upper, empty = listed.shrink(
            np.stack([node.lower for node in nodes]), np.stack([node.upper for node in nodes])
        )
        kept = [
            replace(node, lower=lower[i], upper=upper[i])
            for i, node in enumerate(nodes)
            if not empty[i]
        ]
        return kept, [node for i, node in enumerate(nodes) if empty[i]]

    def _settle(self, node: Node) -> None:
        """Settle a node: no leak of its members in it exceeds its bound."""
        self.closed[node.members] = np.maximum(self.closed[node.members], node.bound)

    def _note(self, node: Node, target: float, status: int, proof: Proof | None) -> None:
        if self.records is not None:
            self.records.append(Record.of(node, target, status, proof))


Members = NDArray[np.int64]

_MOST = 31  # most groups of a tree
_READ = 2**28  # most parameters of members read to bound groups: about a second


@dataclass(frozen=True, eq=False)
class Group:
    """A set of members with similar networks."""

    parent: int  # position in the list of the group it is part of; -1 for all members
    members: Members
    upper: float  # no counter-example of its members has a higher value, as computed in float32


def grow(
    clusters: Clusters,
    count: int,
    bound: Callable[[list[Members]], list[float]],
    enough: float,
    size: int,
) -> list[Group]:
    """Repeatedly split the group with the highest bound.

    A group whose bound does not exceed the found value stays whole; split groups may contain the
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
        # The group that determines the bound comes first.
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
            # Its parts, later in the list, together contain all of its members.
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
    """Return the nodes with bounds, unsplit."""
    batch, groups = batch_of(nodes, 0.0, 0.0)
    sets = explorer.space.sets(groups)
    many = ~sets.exact[batch.which]
    work = replace(explorer.work, steps=0) if many.all() else explorer.work
    found = explorer.kernel.bound(explorer.space.numbers, explorer.forms, sets, batch, work)
    return [with_bounds(node, found, at, 0.0, 0.0) for at, node in enumerate(nodes)]
