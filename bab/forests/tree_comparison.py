"""Whether two ensembles of trees are one function, and else an input where they differ.

Trees of both are paired and encoded as trees of pairs of leaves, over the numbers that inputs can
be: two thresholds with no such number between them ask the same. The difference of two sums is at
most the sum, pair by pair, of the greatest difference of leaves that one input reaches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from leaveout.arrays import Bools, Floats
from leaveout.bab.forests.ensemble_search import Point, Search, Target
from leaveout.deadline import Deadline
from leaveout.encoders.box import Box, Choices
from leaveout.encoders.forests.ensembles import Applied, Pairing, Sums, encode
from leaveout.encoders.query import Form
from leaveout.errors import TreesError
from leaveout.kernel.trees import Ensemble, Nodes, first_leaves, greatest

LARGEST = float(np.finfo(np.float32).max)
"""The greatest number that is an input."""
_MOST_CATEGORIES = 2**16
_MOST_WHOLE = 2**24
_NEAR = 2.0**-21
"""Leaves further apart than this share of their size differ by more than rounding to float32."""
_BASE_NEAR = 2.0**-20
_PAD = 2.0**-48
"""Far above the float64 rounding of the sums here, as a share of the magnitudes summed."""
_MOST_NODES = 2**23
"""Nodes of pairs of trees, all together, where there is room for more than the least."""
_ROOM = 8
_BOXES = 24
_POINTS = 32
_POOL = 512
_AT_ONCE = 2**22


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs: a box, whose features may be missing."""

    low: Floats  # shape (features,): the ends are inputs; crossed if a value is always missing
    high: Floats  # shape (features,)
    missing: Bools  # shape (features,): which may be missing
    single: bool  # whether inputs are what float32 holds; else float64
    categories: dict[int, Floats]  # values of features asked by category; the last: all above

    @staticmethod
    def of(
        ensembles: Sequence[Ensemble], low: Floats, high: Floats, missing: Bools, *, single: bool
    ) -> Inputs:
        """Return the inputs between some ends."""
        counts = np.zeros(len(low), np.int64)
        for nodes in (each.nodes for each in ensembles):
            np.maximum.at(counts, nodes.feature[nodes.set >= 0], nodes.sets.shape[1])
        for nodes in (each.nodes for each in ensembles):
            asks = (nodes.feature >= 0) & (np.abs(nodes.threshold) < _MOST_WHOLE)
            asks &= counts[nodes.feature] > 0
            above = np.floor(nodes.threshold[asks]).astype(np.int64) + 2
            np.maximum.at(counts, nodes.feature[asks], above)
        if counts.max(initial=0) > _MOST_CATEGORIES:
            raise TreesError(
                f"a feature has {counts.max():,} categories or more; number them 0, 1, ... and "
                "train again"
            )
        grid = Inputs(low, high, missing, single, {})
        low, high = grid.up(np.maximum(low, -LARGEST)), grid.down(np.minimum(high, LARGEST))
        found = {}
        for at in np.flatnonzero(counts).tolist():
            found[at] = np.arange(
                max(np.ceil(low[at]), 0.0), np.floor(min(high[at], counts[at])) + 1.0
            )
            low[at], high[at] = (found[at][0], found[at][-1]) if len(found[at]) else (1.0, 0.0)
        wrong = np.flatnonzero((low > high) & ~missing)
        if len(wrong):
            raise TreesError(f"no input has a feature {wrong[0]} in its range; widen it")
        known = {at: values for at, values in found.items() if len(values)}
        return Inputs(low, high, missing, single, known)

    @property
    def always_missing(self) -> Bools:
        """Which features have no value in any input."""
        return np.asarray(self.low > self.high)

    @cached_property
    def box(self) -> Box:
        """The values of features; 0 of those that are always missing."""
        choices = [
            Choices(np.array([at]), values[:, None], exact=True)
            for at, values in self.categories.items()
        ]
        low, high = (np.where(self.always_missing, 0.0, each) for each in (self.low, self.high))
        return Box(low, high, tuple(choices))

    def down(self, values: Floats) -> Floats:
        """Return the greatest numbers that are inputs and at most some values."""
        if not self.single:
            return values
        with np.errstate(over="ignore", under="ignore"):
            near = values.astype(np.float32)
            below = np.nextafter(near, np.float32(-np.inf))
        return np.where(near.astype(np.float64) > values, below, near).astype(np.float64)

    def up(self, values: Floats) -> Floats:
        """Return the least numbers that are inputs and at least some values."""
        return -self.down(-values)

    def snap(self, points: Floats) -> Floats:
        """Return inputs near some points, in the cells of points of the box."""
        absent = np.isnan(points)
        found = self.up(self.box.nearest(np.where(absent, 0.0, points)))
        return np.where((absent & self.missing) | self.always_missing, np.nan, found)

    def ask(self, ensemble: Ensemble) -> Nodes:
        """Return nodes that ask the same of each input, with thresholds that are inputs."""
        nodes = ensemble.nodes
        threshold = np.where(nodes.set < 0, self.down(nodes.threshold), nodes.threshold)
        at = (nodes.feature >= 0) & self.always_missing[nodes.feature]
        threshold[at] = np.where(nodes.missing_left[at], np.inf, -np.inf)
        return replace(nodes, threshold=threshold, set=np.where(at, -1, nodes.set))


@dataclass(frozen=True, eq=False)
class View:
    """How the scores of two ensembles become comparable: each times a matrix of its own."""

    factors: tuple[Floats, Floats]  # shape (own scores, scores) each
    plain: bool  # whether scores are compared as they are
    slack: float = 0.0  # how far comparable scores can be from what they stand for

    def of(self, which: int, values: Floats) -> Floats:
        """Return values or scores of one of the two, shape (rows, scores)."""
        return np.asarray(values @ self.factors[which])


class Difference(NamedTuple):
    """What was found of two ensembles over some inputs."""

    same: bool  # whether it is proved that each input reaches leaves equal up to rounding
    bound: float  # the scores are proved to differ by no more, rounding included
    point: Floats | None  # where leaves differ by more than rounding explains, or answers differ


class _BeyondError(Exception):
    """An input was found where scores differ by more than is asked about."""


class Comparison:
    """Compares two ensembles over inputs."""

    def __init__(
        self,
        ensembles: tuple[Ensemble, Ensemble],
        view: View,
        inputs: Inputs,
        deadline: Deadline,
        rows: Floats | None = None,
    ) -> None:
        self._ensembles, self._view, self._inputs = ensembles, view, inputs
        self._deadline, self._rows = deadline, rows
        self._rng = np.random.default_rng(0)
        self.sides = self._side(0), self._side(1)
        self._pairs, self._alone = list[tuple[int, int]](), np.zeros(len(self.sides[0].base))
        for pair in _match(self.sides, inputs):
            which, nodes = int(pair[0] < 0), self.sides[pair[0] < 0].nodes
            root = nodes.roots[pair[which]]
            if min(pair) < 0 and nodes.feature[root] < 0:
                # A leaf alone is a part of the base.
                self._alone += (1 - 2 * which) * nodes.values[nodes.left[root]]
            else:
                self._pairs.append(pair)
        self._magnitude = np.maximum(*(np.abs(side.base) for side in self.sides))
        for side in self.sides:
            nodes = side.nodes
            most = greatest(nodes.roots, nodes.feature, np.abs(nodes.values))
            self._magnitude = self._magnitude + most.sum(axis=0)
        self._rounding = np.full(len(self._alone), view.slack)
        for each, factors in zip(ensembles, view.factors, strict=True):
            self._rounding += each.rounding() @ np.abs(factors)
        self._is_exact = view.slack == 0.0 and all(each.ordered for each in ensembles)
        self.rounding = float(self._rounding.max())
        """How far the rounding of both sums can move their difference."""

    def _side(self, which: int) -> Ensemble:
        """Return an ensemble with comparable scores, and questions over the inputs."""
        given, nodes = self._ensembles[which], self._inputs.ask(self._ensembles[which])
        values, base = (
            self._view.of(which, each) / given.divisor for each in (nodes.values, given.base[None])
        )
        own = replace(nodes, values=values)
        return replace(given, nodes=own, base=base[0], divisor=1, single=False, tie=0.0)

    def run(self, tolerance: float | None = None) -> Difference:
        """Compare; with a tolerance the bound is lowered to it if time allows."""
        pool, sums, point = self._pool(), self._encode(), None
        bounds, base = self._bounds(sums), np.abs(sums.constant[: len(self._magnitude)])
        same = bool(np.isfinite(bounds).all() and (base <= _BASE_NEAR * self._magnitude).all())
        same = same and not self._leaf_gaps(sums).any()
        if same and self._answers_apart():
            same = False
            answers = [each.answers(pool) for each in self._ensembles]
            apart = np.flatnonzero(answers[0] != answers[1])
            point = pool[apart[0]] if len(apart) else None
        elif not same:
            point = self._find_point(tolerance, pool, sums)
        if tolerance is not None and (point is None or self.apart(point) <= tolerance):
            try:
                self._search(sums, bounds, tolerance)
            except _BeyondError as found:
                point = found.args[0]
        return Difference(same, float(bounds.max()), point)

    def _encode(self) -> Sums:
        """Return both differences of each score, with trees of pairs of leaves, and each sum."""
        forms = [
            Form((), ((0, score, one), (1, score, other)))
            for one, other in ((1.0, -1.0), (-1.0, 1.0), (1.0, 1.0))
            for score in range(len(self._magnitude))
        ]
        nodes = sum(len(side.nodes.feature) for side in self.sides)
        absent = self._inputs.missing & ~self._inputs.always_missing
        room = max(_ROOM, _MOST_NODES // (nodes * len(self._magnitude)))
        sums = encode(
            [Applied(side, 0) for side in self.sides], [self._inputs.box], forms, (), (), [absent],
            Pairing(room, self._pairs),
        )  # fmt: skip
        pad = self._rounding + _PAD * self._magnitude * (1 + len(self._pairs))
        alone = np.concatenate((self._alone, -self._alone, 0.0 * pad))
        return replace(sums, constant=sums.constant + alone, padding=np.tile(pad, 3))

    def _leaf_gaps(self, sums: Sums) -> Floats:
        """Return how far pairs of leaves are apart; 0 if rounding explains it."""
        one, other, both = np.split(sums.weights, 3, axis=1)
        gap = np.maximum(one, other)
        # The greater of two magnitudes is half of what sum and difference have together.
        explained = _NEAR * (gap + np.abs(both)) / 2.0 + 2.0**-140
        return np.asarray(np.where(gap > explained, gap, 0.0).max(axis=1))

    def _bounds(self, sums: Sums) -> Floats:
        """Return what differences are at most, shape (forms,); infinite if sums may overflow."""
        most = greatest(sums.trees.roots, sums.trees.feature, sums.weights).sum(axis=0)
        most += sums.constant + sums.padding
        return np.where(np.isfinite(np.tile(self._magnitude, 3)), most, np.inf)[
            : 2 * len(self._magnitude)
        ]

    @property
    def ties(self) -> float:
        """How close labels can be for the libraries to answer either, whatever the scores."""
        one, other = self._ensembles
        ties = (
            each.tie * float(np.abs(factors).max())
            for each, factors in zip(self._ensembles, self._view.factors, strict=True)
        )
        single = len(one.base) == len(other.base) == 1
        return sum(ties) + (abs(one.center - other.center) if single else 0.0)

    def _scores(self, x: Floats) -> list[Floats]:
        """Return the comparable scores of both at an input."""
        return [
            self._view.of(which, each.scores(x[None]))[0]
            for which, each in enumerate(self._ensembles)
        ]

    def apart(self, x: Floats) -> float:
        """Return how far the scores are apart at an input."""
        one, other = self._scores(x)
        return float(np.abs(one - other).max())

    def gaps(self, X: Floats) -> tuple[Floats, Floats]:
        """Return how far exact sums are apart at inputs, and what rounding of leaves explains."""
        trees = max(side.trees for side in self.sides)
        step = max(1, _AT_ONCE // (trees * len(self._magnitude)))
        gap, both = np.zeros(len(X)), np.zeros(len(X))
        for at in (slice(first, first + step) for first in range(0, len(X), step)):
            sums, sizes = [], []
            for side in self.sides:
                picked = side.nodes.values[side.nodes.leaves(X[at])]
                sums.append(picked.sum(axis=1) + side.base)
                sizes.append(np.abs(picked).sum(axis=1) + np.abs(side.base))
            gap[at] = np.abs(sums[0] - sums[1]).max(axis=1)
            both[at] = np.maximum(*sizes).max(axis=1)
        return gap, _NEAR * both + _BASE_NEAR * float(self._magnitude.max())

    def _find_point(self, tolerance: float | None, pool: Floats, sums: Sums) -> Floats | None:
        """Return an input where the sums differ by more than rounding of leaves explains."""
        near = pool[np.argsort(margins(self._ensembles[0], pool), kind="stable")]
        starts = np.concatenate((pool[: _POINTS // 2], near[: _POINTS // 2]))
        gap = self._leaf_gaps(sums)
        order = np.flatnonzero(gap)[np.argsort(-gap[gap > 0], kind="stable")]
        rest = self._rng.permutation(order[_BOXES:])[:_BOXES]
        nodes = np.flatnonzero(sums.trees.feature < 0)[np.concatenate((order[:_BOXES], rest))]
        X = np.concatenate((pool, *(_fill(self._inputs, sums, at, starts) for at in nodes)))
        gap, explained = self.gaps(X)
        X, gap = X[gap > explained], gap[gap > explained]
        if not len(X):
            return None
        best = int(gap.argmax())
        if tolerance is None and self._has_labels:
            answers = [each.answers(X) for each in self._ensembles]
            best = int(np.lexsort((gap, answers[0] != answers[1]))[-1])
        return np.asarray(X[best])

    def _answers_apart(self) -> bool:
        """Return whether equal scores can have answers that differ."""
        one, other = self._ensembles
        single = len(one.base) == len(other.base) == 1
        return self._has_labels and single and abs(one.center - other.center) > self.rounding

    @property
    def _has_labels(self) -> bool:
        return all(each.labels for each in self._ensembles)

    def pair_at(self, point: Floats) -> tuple[int, int] | None:
        """Return the trees whose leaves differ most at an input; None if it is something else."""
        mine, others = (side.nodes.values[side.nodes.leaves(point[None])[0]] for side in self.sides)
        pairs = np.array([pair for pair in self._pairs if min(pair) >= 0], int).reshape(-1, 2)
        one, other = mine[pairs[:, 0]], others[pairs[:, 1]]
        size = np.maximum(np.abs(one), np.abs(other))
        beyond = (np.abs(one - other) - _NEAR * size - 2.0**-140).max(axis=1)
        if not (beyond > 0).any():
            return None
        tree, there = pairs[beyond.argmax()].tolist()
        return tree, there

    def _pool(self) -> Floats:
        """Return inputs: rows that are known, and random ones at the thresholds of both."""
        ends = np.concatenate([side.nodes.threshold for side in self.sides])
        feature = np.concatenate([side.nodes.feature for side in self.sides])
        drawn = np.zeros((_POOL, len(self._inputs.low)))
        for at in range(drawn.shape[1]):
            known = ends[(feature == at) & np.isfinite(ends)]
            known = self._inputs.categories.get(
                at, np.concatenate((known, np.nextafter(known, np.inf), [0.0]))
            )
            drawn[:, at] = self._rng.choice(known, _POOL)
        drawn[self._rng.random(drawn.shape) < 0.05] = np.nan
        if self._rows is not None:
            known = self._rows[self._rng.permutation(len(self._rows))[: _POOL // 2]]
            drawn = np.concatenate((known, drawn))
        return self._inputs.snap(drawn)

    def _search(self, sums: Sums, bounds: Floats, tolerance: float) -> None:
        """Lower bounds that are above a tolerance; raise an input with a greater difference."""

        def scores(form: int, x: Floats) -> tuple[float, float]:
            sign, score = divmod(form, len(self._magnitude))
            one, other = (float(each[score]) for each in self._scores(x))
            return (other, one) if sign else (one, other)

        def replay(form: int, points: Sequence[Floats]) -> Point:
            more, less = scores(form, x := self._inputs.snap(points[0]))
            if more - less > tolerance:
                raise _BeyondError(x)
            return Point((x,), more - less)

        def exact(form: int, points: Sequence[Floats]) -> float:
            more, less = scores(form, self._inputs.snap(points[0]))
            if not (self._is_exact and sums.whole and math.isfinite(more - less)):
                return math.inf
            is_less = Fraction(more - less) < Fraction(more) - Fraction(less)
            return math.nextafter(more - less, math.inf) if is_less else more - less

        over = np.flatnonzero((bounds > tolerance) & np.isfinite(bounds))
        for number, form in enumerate(over.tolist()):
            own = replace(
                sums, weights=sums.weights[:, [form]], slopes=sums.slopes[[form]],
                constant=sums.constant[[form]], padding=sums.padding[[form]],
                ordered=sums.ordered[[form]],
            )  # fmt: skip
            found = Search(
                Target(own, np.zeros(1, bool), 1), partial(replay, form), floor=tolerance,
                gap=0.0, exact=partial(exact, form),
                deadline=Deadline.after(self._deadline.share(len(over) - number)),
            ).run()  # fmt: skip
            if found.interrupted:
                raise KeyboardInterrupt
            bounds[form] = min(bounds[form], found.upper)


def _match(sides: Sequence[Ensemble], inputs: Inputs) -> list[tuple[int, int]]:
    """Return pairs of trees, -1 for none: the most alike first, of those in one place."""
    keys = [_keys(side, inputs) for side in sides]
    rest = [[*range(side.trees)] for side in sides]
    pairs: list[tuple[int, int]] = []
    for size, by_place in product((3, 2, 1, 0), (True, False)):
        if size == 0 and len(rest[0]) != len(rest[1]):
            break
        waiting: dict[Any, list[int]] = {}
        for there in reversed(rest[1]):
            waiting.setdefault((keys[1][there][:size], by_place and there), []).append(there)
        found = [waiting.get((keys[0][tree][:size], by_place and tree)) for tree in rest[0]]
        pairs += [(tree, own.pop()) for tree, own in zip(rest[0], found, strict=True) if own]
        for which in (0, 1):
            gone = {pair[which] for pair in pairs}
            rest[which] = [tree for tree in rest[which] if tree not in gone]
    return sorted([*pairs, *((tree, -1) for tree in rest[0]), *((-1, tree) for tree in rest[1])])


def _keys(side: Ensemble, inputs: Inputs) -> list[tuple[bytes, bytes, bytes]]:
    """Return each tree's features, what it asks of them, and its leaves to three digits."""
    nodes, leaves = side.nodes, first_leaves(side.nodes.roots, side.nodes.feature)
    with np.errstate(over="ignore"):
        digits = nodes.values.astype(np.float32).view(np.int32) >> 13
    left = nodes.missing_left & inputs.missing[nodes.feature]
    found = []
    for tree in range(side.trees):
        own = slice(*nodes.roots[tree : tree + 2].tolist())
        asked = [nodes.threshold[own].tobytes(), left[own].tobytes()]
        for node in own.start + np.flatnonzero(nodes.set[own] >= 0):
            asked.append(side.goes_left(node, inputs.categories[nodes.feature[node]]).tobytes())
        values = digits[leaves[tree] : leaves[tree + 1]].tobytes()
        found.append((nodes.feature[own].tobytes(), b"".join(asked), values))
    return found


def _fill(inputs: Inputs, sums: Sums, leaf: int, points: Floats) -> Floats:
    """Return the inputs that reach a leaf and are closest to some points, feature by feature."""
    trees, cells, found = sums.trees, sums.cells, points.copy()
    low, high, special = *sums.first.T.copy(), sums.special.copy()
    node, asked = int(trees.roots[np.searchsorted(trees.roots, leaf, side="right") - 1]), set()
    while node != leaf:
        v, cut, mask = int(trees.feature[node]), trees.cut[node], trees.masks[trees.mask[node]]
        asked.add(v)
        if leaf < trees.right[node]:
            high[v], node = min(high[v], cut), int(trees.left[node])
            special[v] &= mask
        else:
            low[v], node = max(low[v], cut + 1), int(trees.right[node])
            special[v] &= ~mask
    for v in asked:
        own, values = slice(int(cells.start[v]), int(cells.start[v + 1])), found[:, v]
        codes = np.flatnonzero(np.unpackbits(special[v].view(np.uint8), bitorder="little"))
        known = cells.values[own][codes[codes != sums.missing[v]]]
        if len(known):
            found[:, v] = np.where(np.isin(values, known), values, known[0])
        elif low[v] <= high[v]:
            least = inputs.up(sums.low[own][low[v]])
            found[:, v] = np.clip(np.nan_to_num(values), least, cells.values[own][high[v]])
        else:
            found[:, v] = np.nan
    return found


def margins(ensemble: Ensemble, X: Floats) -> Floats:
    """Return how far each input's answer is from another; 0 for a regression."""
    scores = ensemble.scores(X)
    if not ensemble.labels:
        return np.zeros(len(X))
    if scores.shape[1] == 1:
        return np.abs(scores[:, 0] - ensemble.center)
    ordered = np.sort(scores, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


def view_of(one: Ensemble, other: Ensemble) -> View | None:
    """Return how the scores of two ensembles compare; None if they do not."""
    sizes, links = (len(one.base), len(other.base)), (one.link, other.link)
    mixed = sizes[0] != sizes[1] or (sizes[0] == 1 and set(links) == {"sigmoid", "softmax"})
    # Of one score s a softmax is of -s and s.
    first, second = (
        np.eye(size) * (2.0 if mixed and size == 1 and link == "softmax" else 1.0)
        for size, link in zip(sizes, links, strict=True)
    )
    if sizes[0] == sizes[1]:
        return View((first, second), not mixed)
    if sorted(sizes) != [1, 2]:
        return None
    two = sizes.index(2)
    total = 2.0 * (one, other)[1 - two].center
    if links[two] == "softmax":
        column, slack = np.array([[-1.0], [1.0]]), 0.0
    elif _sums_to((one, other)[two], total):
        column, slack = np.array([[0.0], [1.0]]), _NEAR * max(1.0, abs(total))
    else:
        return None
    return View((first, column) if two else (column, second), plain=False, slack=slack)


def _sums_to(ensemble: Ensemble, total: float) -> bool:
    """Return whether both scores of every input sum to a number, so that one tells the other."""
    nodes, base = ensemble.nodes, float(ensemble.base.sum())
    ends = np.array([
        base + sign * greatest(nodes.roots, nodes.feature, sign * nodes.values.sum(axis=1)).sum()
        for sign in (-1.0, 1.0)
    ]) / ensemble.divisor  # fmt: skip
    return bool((np.abs(ends - total) <= _NEAR * max(1.0, abs(total))).all())


def path_apart(
    sides: tuple[Ensemble, Ensemble], pair: tuple[int, int], point: Floats
) -> tuple[int, int] | None:
    """Return the first nodes of two trees at which an input goes different ways; None if none."""
    one, other = sides[0].nodes, sides[1].nodes
    at, to = int(one.roots[pair[0]]), int(other.roots[pair[1]])
    while one.feature[at] >= 0 and other.feature[to] >= 0:
        value = np.array([point[one.feature[at]]])
        goes = bool(one.goes_left(np.array([at]), value)[0])
        there = bool(other.goes_left(np.array([to]), np.array([point[other.feature[to]]]))[0])
        if goes != there or one.feature[at] != other.feature[to]:
            return at, to
        at, to = (
            int((one.left if goes else one.right)[at]),
            int((other.left if there else other.right)[to]),
        )
    return None if one.feature[at] == other.feature[to] else (at, to)
