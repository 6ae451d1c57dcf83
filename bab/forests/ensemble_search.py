"""Branch and bound over boxes for forms of tree ensembles' scores.

In a box, a form is at most its linear terms at their ends plus, for each tree, the greatest weight
of a leaf that the box meets. A box is split by a question that some tree asks.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Bools, Floats
from leaveout.bab.result import Progress, ProgressCallback, SearchResult, agree
from leaveout.deadline import Deadline
from leaveout.encoders.forests.cells import Codes, Longs
from leaveout.encoders.forests.ensembles import Sums, Words
from leaveout.encoders.forests.tree_walks import refine, weigh_splits

_MULTIPLES = (0.5, 1.0, 2.0)  # multiples of a condition that are added to another form
_MOST_COLUMNS = 24
_CANDIDATES = 4  # questions that are tried at a box before one splits it
_LOOKED_AT = 32
_DIVE = 8  # a leaf of the search is sought from every so many boxes
_SAMPLE = 64  # inputs drawn before the search
EMPTY, EXACT, ORDERED = -2, -3, -4
"""Why a box is closed: it is empty; the scores in it are known; a score is ordered (-4 minus the
combination)."""
_PASSES = 4  # most passes over the conditions on features at a box
_SLACK = 1e-12
_TELL = 0.5
_WHOLE = 20_000  # most waiting boxes that keep what trees do in them


@dataclass(frozen=True, eq=False)
class Target:
    """What is sought: a point that meets all conditions, and is bad by the least of the goals."""

    sums: Sums
    strict: Bools  # shape (forms,): whether a condition is ``> 0``
    goals: int  # the first so many forms; 0 where any point that meets all conditions is sought

    @property
    def columns(self) -> Floats:
        """Non-negative combinations of forms that are bounded, shape (columns, forms).

        Of the goals, if any, the factors sum to 0 or to 1.
        """
        count = len(self.strict)
        rows = list(np.eye(count))
        scored = np.flatnonzero(self.sums.weights.any(axis=0))
        for i, j in itertools.combinations(scored.tolist(), 2):
            many = _MULTIPLES if j >= self.goals else (1.0,)
            for factor in many:
                row = np.zeros(count)
                row[i], row[j] = 1.0, factor
                if i < self.goals and j < self.goals:
                    row /= 2.0
                rows.append(row)
        return np.array(rows[: max(count, _MOST_COLUMNS)])


@dataclass(frozen=True, eq=False)
class Point:
    """A counter-example, as the models compute it."""

    points: tuple[Floats, ...]
    value: float  # the least goal, or infinity without goals


Replay = Callable[[Sequence[Floats]], Point | None]
"""Evaluates points as the models do; None where they are no counter-example."""

Exact = Callable[[Sequence[Floats]], float]
"""What the least goal is at most where all trees are at the leaves of points; else infinite."""


@dataclass(eq=False)
class Trail:
    """The boxes of a search, each with its parent, for a certificate."""

    parent: list[int] = field(default_factory=list)
    node: list[tuple[int, int]] = field(default_factory=list)  # question; (-1, -1) for a leaf
    column: list[int] = field(default_factory=list)  # combination that bounds a leaf
    side: list[int] = field(default_factory=list)
    rows: list[Floats] = field(default_factory=list)  # combinations of forms

    def preorder(self) -> tuple[NDArray[np.int32], list[int]]:
        """Return the questions in preorder, shape (boxes, 2), and the column of each leaf."""
        children: dict[int, list[int]] = {}
        for number, parent in enumerate(self.parent):
            children.setdefault(parent, []).append(number)
        waiting, asked, columns = [0], list[tuple[int, int]](), list[int]()
        while waiting:
            number = waiting.pop()
            asked.append(self.node[number])
            if number in children:
                left, right = sorted(children[number], key=lambda each: self.side[each])
                waiting += [right, left]
            else:
                columns.append(self.column[number])
        return np.array(asked, np.int32), columns

    def add(self, parent: int, side: int) -> int:
        """Add a box."""
        self.parent.append(parent)
        self.side.append(side)
        self.node.append((-1, -1))
        self.column.append(-1)
        return len(self.parent) - 1


@dataclass(frozen=True, eq=False)
class _Box:
    number: int
    box: Codes  # shape (2, variables)
    bits: Words
    at: Longs  # shape (trees,): the top question that is open, or a leaf
    top: Floats  # shape (trees, columns)
    bounds: Floats  # shape (columns,)
    value: float


@dataclass(frozen=True, eq=False)
class _Rules:
    """The terms of conditions on features alone."""

    row: Longs  # shape (terms,)
    variable: Longs  # shape (terms,)
    slope: Floats  # shape (terms,)
    constant: Floats  # shape (rows,), with what is rounded


def _rules(sums: Sums) -> _Rules | None:
    which = np.flatnonzero(~sums.weights.any(axis=0) & sums.slopes.any(axis=1))
    row, variable = np.nonzero(sums.slopes[which])
    if not len(which):
        return None
    constant = sums.constant[which] + sums.padding[which]
    return _Rules(row, variable, sums.slopes[which][row, variable], constant)


def _groups_of(sums: Sums) -> list[tuple[Longs, Codes]]:
    """Return features that jointly take listed rows of codes."""
    groups, found = sums.cells.groups, []
    for g in range(len(groups.values)):
        columns = groups.columns[groups.column_start[g] : groups.column_start[g + 1]]
        rows = groups.rows[groups.row_start[g] : groups.row_start[g + 1]]
        if len(columns) > 1:
            assert (sums.missing[columns] < 0).all(), "a listed row without a value"
            found.append((columns.astype(np.int64), rows.reshape(-1, len(columns))))
    return found


class Search:
    """The search for a target."""

    def __init__(
        self, target: Target, replay: Replay, *, floor: float = -math.inf, gap: float = 1e-3,
        deadline: Deadline, progress: ProgressCallback | None = None, trail: Trail | None = None,
        exact: Exact | None = None,
    ) -> None:  # fmt: skip
        self.target, self.replay, self.deadline, self.gap = target, replay, deadline, gap
        self.exact = exact
        self.floor, self.progress, self.trail = floor, progress, trail
        sums, combined = target.sums, target.columns
        self.sums, self.columns = sums, combined
        self.weights = np.ascontiguousarray(sums.weights @ combined.T)
        self.slopes = combined @ sums.slopes
        self.constant = combined @ sums.constant + combined @ sums.padding
        self.is_goal = combined[:, : target.goals].any(axis=1)
        alone = (combined != 0).sum(axis=1) == 1
        counts = sums.ordered & (target.strict | (np.arange(len(target.strict)) < target.goals))
        self.ordered = alone & ((combined != 0) & counts).any(axis=1)
        self.rows: list[Floats] = list(combined)
        if trail is not None:
            trail.rows = self.rows
        self.rules = _rules(sums)
        self.is_set = sums.first[:, 0] > sums.first[:, 1]
        self.groups = _groups_of(sums)
        trees = sums.trees
        owner = np.repeat(np.arange(len(trees.roots) - 1), np.diff(trees.roots))
        self.uses = np.zeros((len(trees.roots) - 1, len(sums.first)), np.bool_)
        inner = trees.feature >= 0
        self.uses[owner[inner], trees.feature[inner]] = True
        self.best: Point | None = None
        self.solved, self.tick, self.told = 0, 0, -math.inf
        self.heap: list[tuple[float, int, _Box]] = []
        self.left_open = -math.inf  # the greatest bound of settled boxes that stay open
        self.is_complete = False

    @property
    def cutoff(self) -> float:
        """The bound at or below which a box is of no interest."""
        if not self.target.goals:
            return -math.inf
        if self.best is None:
            return self.floor
        value = self.best.value
        more = max(1e-12, self.gap * abs(value) / (1.0 + self.gap)) if self.gap else 0.0
        return max(self.floor, value + more)

    def run(self) -> SearchResult[Point]:
        """Search until the bounds meet, time is up, or Ctrl-C."""
        start, interrupted = time.perf_counter(), False
        try:
            self._sample()
            self._search(start)
        except KeyboardInterrupt:
            interrupted = True
        return self._result(time.perf_counter() - start, interrupted)

    @property
    def _is_answered(self) -> bool:
        return self.best is not None and not self.target.goals

    def _search(self, start: float) -> None:
        root = self._root()
        if root is not None:
            self._push(root)
        while self.heap and not self._is_answered:
            if self.deadline.over:
                return
            if -self.heap[0][0] <= self.cutoff:
                break
            box = self._whole(heapq.heappop(self.heap)[2])
            try:
                self._expand(box, dive=self.tick % _DIVE == 0)
            except KeyboardInterrupt:
                self._push(box)
                raise
            self.tick += 1
            if self.progress is not None and time.perf_counter() - self.told > _TELL:
                self.told = time.perf_counter()
                self.progress(Progress(
                    0, self._lower(), self._upper(), len(self.heap), self.solved,
                    self.told - start, self.deadline.limit,
                ))  # fmt: skip
        self.is_complete = True

    def _expand(self, box: _Box, dive: bool) -> None:
        """Split a box; with a dive, follow the better child to a leaf of the search."""
        while True:
            children = self._split(box)
            if children is None:
                self._settle(box)
                return
            children.sort(key=lambda each: -each.value)
            if not dive or not children or self._is_answered or self.deadline.over:
                for child in children:
                    self._push(child)
                return
            for child in children[1:]:
                self._push(child)
            box = children[0]
            if box.value <= self.cutoff:
                self._push(box)
                return

    def _push(self, box: _Box) -> None:
        self.tick += 1
        if len(self.heap) > _WHOLE:
            # What trees do in it is found again when its turn comes.
            box = replace(box, at=box.at[:0], top=box.top[:0])
        heapq.heappush(self.heap, (-box.value, -box.number, box))

    def _whole(self, box: _Box) -> _Box:
        """Return a box with what trees do in it."""
        trees, count = self.sums.trees, len(self.uses)
        if len(box.at) == count:
            return box
        at, top = trees.roots[:-1].copy(), np.zeros((count, len(self.columns)))
        everything = np.ones(count, np.bool_)
        refine(*trees.arrays, trees.deep, self.weights, box.box, box.bits, everything, at, top)
        return replace(box, at=at, top=top)

    def _root(self) -> _Box | None:
        sums = self.sums
        number = self.trail.add(-1, 0) if self.trail is not None else 0
        box, bits = np.ascontiguousarray(sums.first.T), sums.special.copy()
        top = np.zeros((len(self.uses), len(self.columns)))
        whole = _Box(number, box, bits, sums.trees.roots[:-1], top, top.sum(axis=0), math.inf)
        return self._bound(whole, box, bits, -1, number)

    def _bound(
        self, parent: _Box, box: Codes, bits: Words, variable: int, number: int
    ) -> _Box | None:
        """Return a box with its bounds; None if it holds nothing of interest."""
        self.solved += 1
        before, sets = box.copy(), bits.copy()
        if not self._narrow(box, bits):
            self._close(number, EMPTY)
            return None
        changed = (before != box).any(axis=0) | (sets != bits).any(axis=1)
        if variable >= 0:
            changed[variable] = True
        which = (
            self.uses[:, changed].any(axis=1) if variable >= 0 else np.ones(len(self.uses), bool)
        )
        at, top = parent.at.copy(), parent.top.copy()
        trees = self.sums.trees
        refine(*trees.arrays, trees.deep, self.weights, box, bits, which, at, top)
        bounds = self.constant + top.sum(axis=0)
        if self.slopes.any():
            low, high = self._ends(box)
            bounds += np.maximum(self.slopes, 0) @ high + np.minimum(self.slopes, 0) @ low
        return self._judge(_Box(number, box, bits, at, top, bounds, 0.0))

    def _judge(self, box: _Box) -> _Box | None:
        """Return a box with its value; None if it can be closed."""
        bounds, goal = box.bounds, self.is_goal
        flat = self.ordered & (box.top <= 0).all(axis=0) & (bounds >= 0)
        dead = ((bounds < 0) | flat) & ~goal
        if dead.any():
            at = int(np.flatnonzero(dead)[0])
            self._close(box.number, ORDERED - at if flat[at] else at)
            return None
        bounds = np.where(flat, 0.0, bounds)
        at = self._critical(bounds)
        self._close(box.number, ORDERED - at if flat[at] else at)
        value = float(bounds[at])
        return replace(box, bounds=bounds, value=value)

    def _close(self, number: int, column: int) -> None:
        if self.trail is not None:
            self.trail.column[number] = column

    def _ends(self, box: Codes) -> tuple[Floats, Floats]:
        """Return the least and greatest ordered value of each variable; of sets the whole hull."""
        sums = self.sums
        start, ordered = sums.cells.start[:-1], box[0] <= box[1]
        # Crossed codes may lie beyond the last one.
        least, greatest = np.clip(start + box, 0, len(sums.cells.values) - 1)
        low = np.where(ordered, sums.low[least], sums.cells.box.lower)
        return low, np.where(ordered, sums.cells.values[greatest], sums.cells.box.upper)

    def _narrow(self, box: Codes, bits: Words) -> bool:
        """Narrow a box to listed rows and conditions on features; return whether any is left."""
        for columns, rows in self.groups:
            rows = self._rows_inside(columns, rows, box, bits)
            if not len(rows):
                return False
            for v, own in zip(columns.tolist(), rows.T, strict=True):
                if self.is_set[v]:
                    there = np.isin(np.arange(64 * bits.shape[1]), own)
                    bits[v] &= np.packbits(there, bitorder="little").view(np.uint64)
                else:
                    box[0, v], box[1, v] = own.min(), own.max()
        if ((box[0] > box[1]) & ~bits.any(axis=1)).any():
            return False
        return self._obey(box) if self.rules is not None else True

    def _rows_inside(self, columns: Longs, rows: Codes, box: Codes, bits: Words) -> Codes:
        """Return the listed rows in a box."""
        inside = np.ones(len(rows), np.bool_)
        for v, own in zip(columns.tolist(), rows.T, strict=True):
            if self.is_set[v]:
                inside &= (bits[v][own // 64] >> (own % 64).astype(np.uint64)) & np.uint64(1) > 0
            else:
                inside &= (own >= box[0, v]) & (own <= box[1, v])
        return rows[inside]

    def _obey(self, box: Codes) -> bool:
        """Narrow a box to what conditions on features alone allow."""
        assert self.rules is not None
        sums, rules = self.sums, self.rules
        for _ in range(_PASSES):
            low, high = self._ends(box)
            most = np.where(rules.slope > 0, rules.slope * high[rules.variable],
                            rules.slope * low[rules.variable])  # fmt: skip
            total = rules.constant + np.bincount(rules.row, most, len(rules.constant))
            if (total < 0).any():
                return False
            # slope * x >= -(what the other terms add at most)
            ends = (most - total[rules.row]) / rules.slope
            ends -= np.sign(rules.slope) * _SLACK * (1.0 + np.abs(ends))
            least, greatest = low.copy(), high.copy()
            up = rules.slope > 0
            np.maximum.at(least, rules.variable[up], ends[up])
            np.minimum.at(greatest, rules.variable[~up], ends[~up])
            moved = np.flatnonzero(((least > low) | (greatest < high)) & (box[0] <= box[1]))
            before = box.copy()
            for v in moved.tolist():
                at = slice(int(sums.cells.start[v]), int(sums.cells.start[v + 1]))
                first = int(np.searchsorted(sums.cells.values[at], least[v]))
                last = int(np.searchsorted(sums.low[at], greatest[v], side="right")) - 1
                box[0, v], box[1, v] = max(box[0, v], first), min(box[1, v], last)
                if box[0, v] > box[1, v]:
                    return False
            if (before == box).all():
                return True
        return True

    def _split(self, box: _Box) -> list[_Box] | None:
        """Return the two parts of a box that are of interest; None if no question is open."""
        trees = self.sums.trees
        unsettled = np.flatnonzero(trees.feature[box.at] >= 0)
        if not len(unsettled):
            return None
        column = self._critical(box.bounds)
        gains = np.empty(len(unsettled))
        weigh_splits(*trees.arrays, trees.deep, self.weights, box.box, box.bits, box.at, unsettled,
                     column, gains)  # fmt: skip
        order = np.argsort(-gains, kind="stable")[:_LOOKED_AT]
        nodes = box.at[unsettled[order]]
        keys = np.stack((trees.feature[nodes], trees.cut[nodes], trees.mask[nodes]), 1)
        _, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        total = np.bincount(place.ravel(), gains[order])
        tried = first[np.argsort(-total, kind="stable")[:_CANDIDATES]]
        best: tuple[float, int, list[_Box | None]] | None = None
        mark = None if self.trail is None else len(self.trail.parent)
        for node in nodes[tried].tolist():
            halves = self._halves(box, node)
            drops = [box.value - (each.value if each is not None else -math.inf) for each in halves]
            drops = [min(each, 1e6 + abs(box.value)) for each in drops]
            merit = max(drops[0], 1e-9) * max(drops[1], 1e-9)
            if best is None or merit > best[0]:
                best = merit, node, halves
            if None in halves:
                break
        assert best is not None
        _, node, halves = best
        if self.trail is not None:
            halves = self._keep(box, node, mark)
        return [each for each in halves if each is not None]

    def _keep(self, box: _Box, node: int, mark: int | None) -> list[_Box | None]:
        """Keep the chosen halves alone in the trail."""
        assert self.trail is not None
        for rows in (self.trail.parent, self.trail.side, self.trail.node, self.trail.column):
            del rows[mark:]
        a, n = self.sums.trees.source[node].tolist()
        self.trail.node[box.number] = a, n
        return self._halves(box, node)

    def _critical(self, bounds: Floats) -> int:
        """Return the column that bounds a box, and by which it is to be split."""
        which = np.flatnonzero(self.is_goal) if self.is_goal.any() else np.arange(len(bounds))
        return int(which[bounds[which].argmin()])

    def _halves(self, box: _Box, node: int) -> list[_Box | None]:
        trees = self.sums.trees
        v, cut, bits = int(trees.feature[node]), trees.cut[node], trees.masks[trees.mask[node]]
        found = []
        for side in range(2):
            part, special = box.box.copy(), box.bits.copy()
            if side == 0:
                part[1, v] = min(part[1, v], cut)
                special[v] &= bits
            else:
                part[0, v] = max(part[0, v], cut + 1)
                special[v] &= ~bits
            if part[0, v] > part[1, v]:
                part[0, v], part[1, v] = 1, 0
            number = self.trail.add(box.number, side) if self.trail is not None else self.solved
            found.append(self._bound(box, part, special, v, number))
        return found

    def _settle(self, box: _Box) -> None:
        """Look at a box in which every tree is at a leaf."""
        ordered, special = self._representative(box)
        values = None
        if self.slopes.any():
            values, factors = self._solve(box)
            bound = float(factors @ self._exact_part(box)) + self._greatest(factors, box.box)
            if bound < 0 and not factors[: self.target.goals].any():
                self.rows.append(factors)
                self._close(box.number, len(self.rows) - 1)
                return
        points = self.sums.points(ordered, special, values)
        self._try(points)
        value = box.value
        if self.exact is not None and (known := self.exact(points)) < value:
            value = known
            self._close(box.number, EXACT)
        if not self._is_answered:
            self.left_open = max(self.left_open, value)

    def _exact_part(self, box: _Box) -> Floats:
        """Return what is constant in a settled box of each form, shape (forms,)."""
        count = len(self.target.strict)
        return np.asarray(self.constant[:count] + box.top[:, :count].sum(axis=0))

    def _greatest(self, factors: Floats, box: Codes) -> float:
        """Return the greatest value of linear terms in a box, padded for rounding."""
        low, high = self._ends(box)
        slopes = factors @ self.sums.slopes
        size = float((factors @ np.abs(self.sums.slopes)) @ np.maximum(np.abs(low), np.abs(high)))
        found = float(np.maximum(slopes, 0) @ high + np.minimum(slopes, 0) @ low)
        return found + 1e-13 * size

    def _solve(self, box: _Box) -> tuple[Floats, Floats]:
        """Return values that meet all forms best in a settled box, and factors that bound them."""
        from scipy.optimize import linprog

        sums, count = self.sums, len(self.target.strict)
        low, high = self._ends(box.box)
        fixed = self._exact_part(box) - sums.padding
        slack = np.ones(count)
        if self.target.goals:
            fixed[: self.target.goals] -= max(self.cutoff, -1e300)
        rows = np.column_stack((-sums.slopes, slack))
        found = linprog(
            np.append(np.zeros(len(low)), -1.0), A_ub=rows, b_ub=fixed,
            bounds=[*zip(low, high, strict=True), (None, 1.0)], method="highs",
        )  # fmt: skip
        if found.x is None:
            return (low + high) / 2, np.zeros(count)
        return np.clip(found.x[:-1], low, high), np.maximum(-found.ineqlin.marginals, 0.0)

    def _representative(self, box: _Box) -> tuple[Codes, Codes]:
        """Return an ordered code of each variable, and a special one where there is no ordered."""
        ordered = box.box[0].copy()
        special = np.full(len(ordered), -1, np.int32)
        for v in np.flatnonzero(box.box[0] > box.box[1]).tolist():
            for word, bits in enumerate(box.bits[v].tolist()):
                if bits:
                    special[v] = 64 * word + (bits & -bits).bit_length() - 1
                    break
        middle = np.where(special < 0, (box.box[0] + box.box[1]) // 2, 0).astype(np.int32)
        for columns, rows in self.groups:
            row = self._rows_inside(columns, rows, box.box, box.bits)[0]
            sets = self.is_set[columns]
            middle[columns], special[columns[sets]] = row, row[sets]
        return middle, special

    def _sample(self) -> None:
        """Try inputs drawn by code."""
        sums, rng = self.sums, np.random.default_rng(0)
        for x in sums.cells.sample(rng, _SAMPLE):
            if self._is_answered or self.deadline.over:
                return
            self._try([x[own] for own in sums.variable])

    def _try(self, points: Sequence[Floats]) -> None:
        found = self.replay(points)
        if found is not None and (self.best is None or found.value > self.best.value):
            self.best = found

    def _lower(self) -> float:
        return -math.inf if self.best is None else self.best.value

    def _upper(self) -> float:
        waiting = -self.heap[0][0] if self.heap else -math.inf
        return max(waiting, self.left_open, self._lower())

    def _result(self, seconds: float, interrupted: bool) -> SearchResult[Point]:
        lower, upper = self._lower(), self._upper()
        if not self.is_complete:
            upper = math.inf if not self.heap else upper
        if not self.target.goals:
            empty = self.is_complete and not self.heap and self.left_open == -math.inf
            closed = self.best is not None or empty
            upper = -math.inf if closed and self.best is None else math.inf
        else:
            closed = self.is_complete and (upper <= self.cutoff or agree(lower, upper, self.gap))
        is_late = self.deadline.over or interrupted
        return SearchResult(
            -1, lower, upper, self.best, closed, None if closed else "time" if is_late else
            "numerical", "" if closed else ("it did not run long enough" if is_late else
            "what is left is within rounding"), np.array([upper]), self.solved, seconds,
            interrupted,
        )  # fmt: skip
