"""Explore a frontier of nodes, best first: split, bound, drop what the target allows to drop."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forms import Forms
from leaveout.bab.native.anchors import Anchors
from leaveout.bab.native.branching import Brancher
from leaveout.bab.native.clusters import Clusters
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.kernels.interface import CLOSED, EMPTY, OPEN, Kernel, Work
from leaveout.bab.native.milp_handoff import Handoff
from leaveout.bab.native.nodes import Node, Split, batch_of, with_bounds
from leaveout.bab.native.space import Space
from leaveout.deadline import Deadline

__all__ = ["Explorer", "Stand"]

Floats = NDArray[np.float64]

RoundingBound = Callable[[Node, float], Node]

_BATCH = 32
_WIDEST = 512
"""Nodes bounded at once, while sets of members are taken apart."""

_FEW = 16
"""Sets of at most this many members are taken apart at once."""

_STOP_AT = 0.97
"""Children are bounded until they are this far below the largest value of all."""


@dataclass(frozen=True)
class Stand:
    """Where an explorer stands.

    Attributes
    ----------
    value : float
        Largest value of an open node; minus infinity where none is.
    open_nodes, bounded : int
    worth_going_on : bool
        Whether a node is left that could lower the value.
    """

    value: float
    open_nodes: int
    bounded: int
    worth_going_on: bool


class Explorer:
    """Owns a frontier; nothing of what it was given is above its value or the targets it met.

    Values are those of float32 evaluation throughout.

    Parameters
    ----------
    space : Space
    clusters : Clusters or None
        Needed where there are several members.
    kernel : Kernel
    forms : Forms
        As `Forms.over` gives them.
    steps : int
        Of the dual ascent.
    seed : int
    first : int
        First number to name nodes by.
    stride : int
        From one number to the next, so that several explorers never use the same.
    bound_rounding : callable, optional
        Bounds evaluation errors of a node anew, given the target, where that may help.
    """

    def __init__(
        self,
        space: Space,
        clusters: Clusters | None,
        kernel: Kernel,
        forms: Forms,
        *,
        steps: int = 60,
        seed: int = 0,
        first: int = 0,
        stride: int = 1,
        bound_rounding: RoundingBound | None = None,
    ) -> None:
        self.space, self.clusters, self.kernel = space, clusters, kernel
        self.forms, self.work = forms, Work(steps)
        self.brancher = Brancher(space.layout.hidden, seed)
        self.records: list[Record] | None = None
        self.handoff: Handoff | None = None
        self.bounded = 0
        self.unresolved = -math.inf
        self.anchors = Anchors()
        self.closed = np.full(space.count, -math.inf)
        self.bound_rounding = bound_rounding
        self._names = itertools.count(first, stride)
        self._order = itertools.count()
        self._heap: list[tuple[float, int, Node]] = []
        self._rest = -math.inf

    def name(self) -> int:
        """Return a number no other node has."""
        return next(self._names)

    def rename(self, first: int, stride: int) -> None:
        """Name nodes from another number on."""
        self._names = itertools.count(first, stride)

    def add(self, nodes: Iterable[Node]) -> None:
        """Take bounded nodes over."""
        for node in nodes:
            heapq.heappush(self._heap, (-node.value, next(self._order), node))

    def give(self, count: int) -> list[Node]:
        """Hand over some of the most urgent nodes, every other one."""
        kept: list[Node] = []
        given: list[Node] = []
        while self._heap and len(given) < count:
            node = heapq.heappop(self._heap)[2]
            if self.anchors.gone(node):
                continue
            (given if len(kept) > len(given) else kept).append(node)
        self.add(kept)
        return given

    def nodes(self) -> list[Node]:
        """All open nodes, the most urgent first."""
        self._clean()
        return [node for _, _, node in sorted(self._heap, key=lambda entry: entry[:2])]

    def _clean(self) -> None:
        """Forget nodes whose anchor took their region back."""
        self._heap = [entry for entry in self._heap if not self.anchors.gone(entry[2])]
        heapq.heapify(self._heap)

    def urgent(self, count: int) -> list[Node]:
        """Return the most urgent nodes of one member each, few from any one member."""
        chosen: list[Node] = []
        for _, _, node in heapq.nsmallest(8 * count, self._heap, key=lambda entry: entry[:2]):
            own = sum(int(node.members[0]) == int(each.members[0]) for each in chosen)
            if len(node.members) == 1 and own < max(2, count // 2):
                chosen.append(node)
            if len(chosen) == count:
                break
        return chosen

    @property
    def is_at_single_members(self) -> bool:
        """Whether the most urgent node is one member's."""
        return bool(self._heap) and len(self._heap[0][2].members) == 1

    def apart(self, count: int) -> tuple[list[Node], tuple[Explorer, Explorer]]:
        """Return the most urgent nodes, and two explorers of them that split in different ways.

        The first splits as this one does. Names are drawn from the same source.
        """
        self._clean()
        chosen = [entry[2] for entry in heapq.nsmallest(count, self._heap, key=lambda e: e[:2])]
        past = {node.ident for node in chosen}
        rest = max(
            (node.value for _, _, node in self._heap if node.ident not in past), default=-math.inf
        )
        sides = []
        for brancher in (self.brancher.copy(), self.brancher.other()):
            side = Explorer(
                self.space, self.clusters, self.kernel, self.forms,
                steps=self.work.steps, bound_rounding=self.bound_rounding,
            )  # fmt: skip
            side._names, side.brancher, side.handoff = self._names, brancher, self.handoff
            side.records = None if self.records is None else []
            side._rest = rest
            side.anchors.hold(self.anchors.held(chosen))
            side.add(chosen)
            sides.append(side)
        return chosen, (sides[0], sides[1])

    def adopt(self, nodes: list[Node], side: Explorer) -> None:
        """Put what an explorer has left of some nodes in their place, and split as it does."""
        past = {node.ident for node in nodes}
        self._heap = [entry for entry in self._heap if entry[2].ident not in past]
        heapq.heapify(self._heap)
        left = side.nodes()
        self.anchors.hold(side.anchors.held(left))
        self.anchors.forget(side.anchors)
        self.add(left)
        self.closed = np.maximum(self.closed, side.closed)
        self.unresolved = max(self.unresolved, side.unresolved)
        self.brancher = side.brancher
        if self.records is not None and side.records is not None:
            self.records += side.records

    @property
    def value(self) -> float:
        """Largest value of an open node, or of one that cannot be split any further."""
        while self._heap and self.anchors.gone(self._heap[0][2]):
            heapq.heappop(self._heap)
        return max(self.unresolved, -self._heap[0][0] if self._heap else -math.inf)

    def stand(self, target: float) -> Stand:
        """Where it stands."""
        value = self.value
        return Stand(value, len(self._heap), self.bounded, value > max(target, self.unresolved))

    def start(self, roots: list[Node], target: float) -> None:
        """Bound nodes that are not, and take over those above the target."""
        self._bound(roots, target, max(target, 0.0))

    def step(self, target: float, seconds: float) -> Stand:
        """Split the most urgent nodes for some seconds, or until none is above the target."""
        deadline = Deadline.after(seconds)
        while not deadline.over:
            threshold = max(target, self.unresolved)
            if self.value <= threshold:
                self._drop()
                break
            self._round(threshold)
        return self.stand(target)

    def _drop(self) -> None:
        self._clean()
        for _, _, node in self._heap:
            self._settle(node)
        self._heap = []

    def _round(self, target: float) -> None:
        parents: list[Node] = []
        splits: list[Split] = []
        children: list[list[Node]] = []
        top = -self._heap[0][0]
        # Not the value of the node at hand: others of its anchor, with higher ones, may be among
        # the parents already.
        proved = max(top, self._rest) if self.records is None else math.inf
        size = _BATCH
        while self._heap and len(parents) < size:
            node = heapq.heappop(self._heap)[2]
            if self.anchors.gone(node):
                continue
            if node.value <= target:
                self._settle(node)
                continue
            if self.bound_rounding is not None:
                node = self.bound_rounding(node, target)
            if self.handoff is not None and self.handoff.wants(node):
                node = self.handoff.bounded(node, target)
                if node.value <= target:
                    self._settle(node)
                    continue
            split = self.brancher.choose(node, target)
            if split is None and self.anchors.holds(node):
                # Tied phases end above the true value; inputs alone do not.
                self.add([self.anchors.take_back(node, proved)])
                continue
            if split is None:
                # Every phase is settled and every input narrow: the value is a leak's own, but
                # for what float32 rounding hides.
                self.unresolved = max(self.unresolved, node.value)
                self._settle(node)
                continue
            if split.kind == "members":
                size = _WIDEST
            if split.kind == "phase":
                node = self.anchors.tied(node)
            parents.append(node)
            splits.append(split)
            children.append(self._children(node, split))
        if not parents:
            return
        stop_at = max(target, top - (1.0 - _STOP_AT) * abs(top))
        values = iter(self._bound([child for each in children for child in each], target, stop_at))
        for node, split, own in zip(parents, splits, children, strict=True):
            self.brancher.learn(split, node, list(itertools.islice(values, len(own))), target)

    def _children(self, node: Node, split: Split) -> list[Node]:
        if split.kind == "members":
            few = len(node.members) <= _FEW
            groups = np.split(node.members, len(node.members)) if few else self._clustered(node)
            return [
                replace(
                    node, ident=self.name(), parent=node.ident, split=replace(split, side=side),
                    members=group,
                )
                for side, group in enumerate(groups)
            ]  # fmt: skip
        pair = []
        for side in (0, 1):
            child = replace(
                node, ident=self.name(), parent=node.ident, split=replace(split, side=side)
            )
            if split.kind == "input":
                edge = child.upper.copy() if side == 0 else child.lower.copy()
                edge[split.index] = split.point
                child = replace(child, upper=edge) if side == 0 else replace(child, lower=edge)
            else:
                phase = child.phase.copy()
                phase[split.index] = 1 if side == 0 else -1
                child = replace(child, phase=phase)
            pair.append(child)
        return pair

    def _clustered(self, node: Node) -> list[NDArray[np.int64]]:
        assert self.clusters is not None, "sets of members need clusters"
        return list(self.clusters.split(node.members))

    def _bound(self, nodes: list[Node], target: float, stop_at: float) -> list[float]:
        """Bound nodes, keep those above the target; returns the values, in the order given."""
        given = [node.ident for node in nodes]
        nodes, gone = self._snapped(nodes)
        values: dict[int, float] = {}
        for node in gone:
            values[node.ident] = -math.inf
            empty = replace(node, value=-math.inf)
            self._note(empty, target, EMPTY)
            self._settle(empty)
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
                values[node.ident] = done.value
                self._note(done, target, status)
                if status == OPEN and done.value > target and self._snapped([done])[0]:
                    self.add([done])
                else:
                    self._settle(done)
        return [values[ident] for ident in given]

    def _spread(
        self, nodes: list[Node], many: NDArray[np.bool_], values: Floats, target: float
    ) -> Floats:
        """How much lower the values of sets would be if all their members were the centre."""
        result = np.zeros(len(nodes))
        chosen = [node for node, several in zip(nodes, many, strict=True) if several]
        if not chosen:
            return result
        batch, groups = batch_of(chosen, target, target)
        own = self.space.sets(groups)
        bare = replace(
            own,
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

    def _snapped(self, nodes: list[Node]) -> tuple[list[Node], list[Node]]:
        """Shrink regions to what listed inputs can take; returns (the rest, the empty ones)."""
        listed = self.space.listed
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
        """Be done with a node: no leak of its members in it is above its bound."""
        self.closed[node.members] = np.maximum(self.closed[node.members], node.bound)

    def _note(self, node: Node, target: float, status: int) -> None:
        if self.records is not None:
            self.records.append(Record.of(node, target, status, status in {OPEN, CLOSED}))
