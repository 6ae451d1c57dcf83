"""Whether two ensembles of trees are one function, and else an input where they differ.

The difference of two sums is at most the sum, tree by tree, of the greatest difference of leaves
that one input reaches in both (`find_pairs`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.trees.domain import Domain, Part, Questions
from leaveout.bab.trees.pairs import (
    Box,
    OutOfTimeError,
    Side,
    are_same_questions,
    find_pairs,
    match_trees,
    reachable,
)
from leaveout.kernel.trees import Ensemble

_NEAR = 2.0**-21
"""Leaves further apart than this share of their size differ by more than rounding to float32."""
_BASE_NEAR = 2.0**-20
_PAD = 2.0**-48
"""Far above the float64 rounding of the sums here, as a share of the magnitudes summed."""
_KEPT = 8
"""How many differences of a pair of trees are kept."""
_BOXES = 64
_POINTS = 32
_POOL = 1024
_OTHER = 0.9
_AT_ONCE = 2**22


@dataclass(frozen=True)
class View:
    """How the scores of two ensembles become comparable.

    Each has its scores multiplied by ``scale``; ``column`` -1 means all scores, 0 or more one of
    them, and -2 the second less the first.
    """

    column: tuple[int, int] = (-1, -1)
    scale: tuple[float, float] = (1.0, 1.0)

    def of(self, which: int, values: Floats) -> Floats:
        """Return values or scores of one of the two, shape (rows, scores)."""
        column = self.column[which]
        if column >= 0:
            values = values[:, column : column + 1]
        elif column == -2:
            values = values[:, 1:2] - values[:, :1]
        return values * self.scale[which]

    def rounding(self, which: int, ensemble: Ensemble) -> Floats:
        """Return how far the scores can be from their exact values."""
        found = ensemble.rounding()[None]
        column = self.column[which]
        if column >= 0:
            # Both scores sum to a number, up to this.
            found = found[:, column : column + 1] + _NEAR
        elif column == -2:
            found = found.sum(axis=1, keepdims=True)
        return np.asarray(found[0] * self.scale[which])


@dataclass(frozen=True, eq=False)
class Difference:
    """What was found of two ensembles over a domain.

    Attributes
    ----------
    same : bool
        Whether it is proved that each input reaches leaves in both that are equal up to rounding.
    bound : float
        The scores are proved to differ by no more, rounding included.
    exact : float
        The same without the rounding of sums.
    point : ndarray of float64, shape (features,), or None
        An input where the leaves that are reached differ by more than rounding explains, or
        answers differ.
    pair : tuple of int, or None
        The trees, one of each ensemble, whose leaves differ most at the point; None if it is the
        base, or trees that only one has.
    finished : bool
        Whether everything was looked at before the time was over.
    """

    same: bool
    bound: float
    exact: float
    point: Floats | None
    pair: tuple[int, int] | None
    finished: bool


@dataclass(frozen=True)
class _Candidate:
    size: float
    pair: tuple[int, int]
    box: Box


class Comparison:
    """Compares two ensembles over a domain."""

    def __init__(
        self,
        ensembles: tuple[Ensemble, Ensemble],
        view: View,
        domain: Domain,
        is_late: Callable[[], bool],
        rows: Floats | None = None,
    ) -> None:
        self._ensembles, self._view, self._domain = ensembles, view, domain
        self._is_late, self._rows = is_late, rows
        self.sides = self._side(0), self._side(1)
        one, other = self.sides
        self._rng = np.random.default_rng(0)
        self._pairs, left, others = match_trees(one, other)
        # A tree of one leaf is a part of the base.
        bases = [one.base.copy(), other.base.copy()]
        self._left: list[list[int]] = [[], []]
        for which, trees in enumerate((left, others)):
            side = self.sides[which]
            for tree in trees:
                rows_of = side.leaves(tree)
                if rows_of.stop - rows_of.start == 1:
                    bases[which] += side.values[rows_of.start]
                else:
                    self._left[which].append(tree)
        self._base = bases[0] - bases[1]
        self._size = self._magnitude()
        self._low = np.zeros((len(self._pairs), len(self._base)))
        self._high = self._low.copy()
        self._candidates: list[_Candidate] = []
        self._dropped = False

    def _side(self, which: int) -> Side:
        ensemble = self._ensembles[which]
        return Side.of(
            ensemble.nodes,
            Questions.of(ensemble.nodes, self._domain),
            self._view.of(which, ensemble.nodes.values) / ensemble.divisor,
            self._view.of(which, ensemble.base[None])[0] / ensemble.divisor,
        )

    def run(self, tolerance: float | None = None) -> Difference:
        """Compare; with a tolerance the bound is lowered to it if time allows."""
        pool = self._pool()
        gap, explained = self.gaps(pool)
        # Two models of which each input shows that they differ need no walk to tell.
        walk, coarse = bool((gap > explained).mean() < _OTHER), tolerance is None
        finished = self._measure_pairs(walk=walk, coarse=coarse)
        base_is_near = bool((np.abs(self._base) <= _BASE_NEAR * self._size).all())
        same = finished and not self._candidates and not any(self._left) and base_is_near
        point, pair = None, None
        if same and self._answers_apart():
            same = False
            answers = [each.answers(pool) for each in self._ensembles]
            apart = np.flatnonzero(answers[0] != answers[1])
            point = pool[apart[0]] if len(apart) else None
        elif not same:
            point, pair = self._find_point(tolerance, pool)
            if point is None and coarse and walk and finished:
                # What differs may have equal leaves.
                finished = self._measure_pairs(walk=True, coarse=False)
                same = finished and not self._candidates and not any(self._left) and base_is_near
                if not same:
                    point, pair = self._find_point(tolerance, pool)
        low, high, _ = self._ends({})
        exact = self._widest(low, high)
        if tolerance is not None and exact + self.rounding > tolerance:
            found = self._reach(point) if point is not None else 0.0
            if finished and found <= tolerance:
                exact, best = self._search(tolerance)
                if best is not None and self._reach(best) > found:
                    point = best
        return Difference(same, exact + self.rounding, exact, point, pair, finished)

    @property
    def rounding(self) -> float:
        """How far the rounding of both sums can move their difference."""
        parts = [self._view.rounding(which, each) for which, each in enumerate(self._ensembles)]
        return float((parts[0] + parts[1]).max())

    @property
    def ties(self) -> float:
        """How close labels can be for the libraries to answer either, whatever the scores."""
        ties = [
            each.tie * scale for each, scale in zip(self._ensembles, self._view.scale, strict=True)
        ]
        single = all(len(each.base) == 1 for each in self._ensembles)
        centers = [each.center for each in self._ensembles]
        return sum(ties) + (abs(centers[0] - centers[1]) if single else 0.0)

    def gaps(self, X: Floats) -> tuple[Floats, Floats]:
        """Return how far exact sums are apart at inputs, and what rounding of leaves explains."""
        trees = max(len(side.nodes.roots) for side in self.sides)
        step = max(1, _AT_ONCE // (trees * len(self._base)))
        parts = [self._gaps(X[first : first + step]) for first in range(0, len(X), step)]
        gap, both = (np.concatenate(each) for each in zip(*parts, strict=True))
        return gap, _NEAR * both + _BASE_NEAR * float(np.max(self._size))

    def _gaps(self, X: Floats) -> tuple[Floats, Floats]:
        sums, sizes = [], []
        for side in self.sides:
            picked = side.values[side.nodes.leaves(X)]
            sums.append(picked.sum(axis=1) + side.base)
            sizes.append(np.abs(picked).sum(axis=1) + np.abs(side.base))
        return np.abs(sums[0] - sums[1]).max(axis=1), np.maximum(*sizes).max(axis=1)

    def _reach(self, point: Floats) -> float:
        return float(self.gaps(point[None])[0][0])

    def _magnitude(self) -> Floats:
        found = np.zeros(len(self._base))
        for side in self.sides:
            found = np.maximum(found, np.abs(side.base))
            most = np.abs(side.values)
            first = [side.leaves(tree).start for tree in range(len(side.nodes.roots) - 1)]
            found = found + np.maximum.reduceat(most, first).sum(axis=0)
        return found

    def _measure_pairs(self, *, walk: bool, coarse: bool) -> bool:
        """Find the ends of each pair's difference; return whether all were finished."""
        one, other = self.sides
        finished = True
        self._candidates = []
        for at, (tree, there) in enumerate(self._pairs):
            if are_same_questions(one, tree, other, there):
                mine, others = one.values[one.leaves(tree)], other.values[other.leaves(there)]
                gap = mine - others
                if (np.abs(gap) <= _tolerance(mine, others)).all():
                    self._low[at], self._high[at] = gap.min(axis=0), gap.max(axis=0)
                    continue
            try:
                if not walk or self._is_late():
                    raise OutOfTimeError
                self._low[at], self._high[at], found = self._walk(tree, there, {}, coarse=coarse)
                self._candidates += found
            except OutOfTimeError:
                finished = False
                root, last = one.root(tree), other.root(there)
                self._low[at] = one.low[root] - other.high[last]
                self._high[at] = one.high[root] - other.low[last]
        self._candidates.sort(key=lambda each: -each.size)
        return finished

    def _walk(
        self, tree: int, there: int, box: Box, *, coarse: bool = False
    ) -> tuple[Floats, Floats, list[_Candidate]]:
        """Return the ends of a pair's difference in a box, and what differs most."""
        one, other = self.sides
        found = list(
            find_pairs(one, tree, other, there, self._domain, self._is_late, box, coarse=coarse)
        )
        at, to = (np.array([each[which] for each in found]) for which in (0, 1))
        low, high = one.low[at] - other.high[to], one.high[at] - other.low[to]
        size = np.maximum(np.abs(low), np.abs(high))
        sizes = (np.maximum(np.abs(side.low[ends]), np.abs(side.high[ends]))
                 for side, ends in zip(self.sides, (at, to), strict=True))  # fmt: skip
        differs = np.flatnonzero((size > _tolerance(*sizes)).any(axis=1))
        most = size.max(axis=1)
        chosen = differs[np.argsort(-most[differs], kind="stable")[:_KEPT]]
        candidates = [
            _Candidate(float(most[each]), (tree, there), found[each][2]) for each in chosen
        ]
        return low.min(axis=0), high.max(axis=0), candidates

    def _ends(self, box: Box, again: Sequence[int] = ()) -> tuple[Floats, Floats, list[_Candidate]]:
        """Return bounds of the difference in a box, for which the pairs ``again`` are walked."""
        low, high = self._low.copy(), self._high.copy()
        inside: list[_Candidate] = []
        for at in again:
            low[at], high[at], found = self._walk(*self._pairs[at], box)
            inside += found
        least, most = low.sum(axis=0) + self._base, high.sum(axis=0) + self._base
        for which, trees in enumerate(self._left):
            side = self.sides[which]
            for rows in reachable(side, trees, self._domain, box):
                values = side.values[rows] if not which else -side.values[rows]
                least, most = least + values.min(axis=0), most + values.max(axis=0)
        pad = _PAD * self._size * (1 + len(self._pairs))
        return least - pad, most + pad, sorted(inside, key=lambda each: -each.size)

    @staticmethod
    def _widest(low: Floats, high: Floats) -> float:
        return float(np.maximum(-low, high).max())

    # Points where the two differ.

    def _find_point(
        self, tolerance: float | None, pool: Floats
    ) -> tuple[Floats | None, tuple[int, int] | None]:
        """Return an input where the sums differ by more than rounding of leaves explains."""
        chosen = self._candidates[:_BOXES]
        if len(self._candidates) > _BOXES:
            drawn = self._rng.choice(len(self._candidates), _BOXES, replace=False)
            chosen += [self._candidates[at] for at in drawn]
        margin = self._margins(pool)
        near = pool[np.argsort(margin, kind="stable")[: _POINTS // 2]]
        starts = np.concatenate((pool[: _POINTS // 2], near))
        points = [starts]
        points += [
            np.array([self._domain.fill(each, candidate.box) for each in starts])
            for candidate in chosen
        ]
        X = np.concatenate(points)
        gap, explained = self.gaps(X)
        differs = gap > explained
        if not differs.any():
            return None, None
        X, gap = X[differs], gap[differs]
        best = int(gap.argmax())
        if tolerance is None:
            answers = [each.answers(X) for each in self._ensembles]
            other = np.flatnonzero(answers[0] != answers[1]) if self._has_labels else ()
            best = int(other[gap[other].argmax()]) if len(other) else best
        return X[best], self._pair_at(X[best])

    def _answers_apart(self) -> bool:
        """Return whether equal scores can have answers that differ."""
        one, other = self._ensembles
        single = len(one.base) == len(other.base) == 1
        is_far = abs(one.center - other.center) > self.rounding
        return self._has_labels and single and is_far

    @property
    def _has_labels(self) -> bool:
        return all(each.labels for each in self._ensembles)

    def _pair_at(self, point: Floats) -> tuple[int, int] | None:
        """Return the pair of trees whose leaves differ most at a point."""
        mine, others = (
            side.values[side.nodes.leaves(point[None])[0]].astype(np.float64) for side in self.sides
        )
        best, found = 0.0, None
        for tree, there in self._pairs:
            gap = float(
                (np.abs(mine[tree] - others[there]) - _tolerance(mine[tree], others[there])).max()
            )
            if gap > best:
                best, found = gap, (tree, there)
        return found

    def _pool(self) -> Floats:
        """Return inputs: rows that are known, and random ones near thresholds of both."""
        features = len(self._domain.low)
        drawn = np.zeros((_POOL, features))
        for feature in range(features):
            values = [np.zeros(1)]
            for side in self.sides:
                at = side.nodes.feature == feature
                values += [
                    np.asarray(each)[at] for each in (side.questions.last, side.questions.next)
                ]
            found = np.concatenate(values)
            found = found[np.isfinite(found)]
            if self._domain.categories[feature]:
                found = np.arange(self._domain.categories[feature] + 1.0)
            drawn[:, feature] = self._rng.choice(found, _POOL)
        absent = self._rng.random(drawn.shape) < 0.05
        drawn[absent & self._domain.missing] = np.nan
        drawn = self._domain.snap(drawn)
        if self._rows is None:
            return drawn
        known = self._rows[self._rng.permutation(len(self._rows))[: _POOL // 2]]
        return np.concatenate((self._domain.snap(known), drawn))

    def _margins(self, X: Floats) -> Floats:
        ensemble = self._ensembles[0]
        scores = ensemble.scores(X)
        if not ensemble.labels:
            return np.zeros(len(X))
        if scores.shape[1] == 1:
            return np.abs(scores[:, 0] - ensemble.center)
        ordered = np.sort(scores, axis=1)
        return np.asarray(ordered[:, -1] - ordered[:, -2])

    # Branch and bound over boxes, for a tolerance that the sum over trees does not reach.

    def _search(self, tolerance: float) -> tuple[float, Floats | None]:
        """Return a bound of the exact difference, and the input where the greatest was found."""
        active = {each.pair for each in self._candidates}
        again = [at for at, pair in enumerate(self._pairs) if pair in active]
        goal, order = tolerance - self.rounding, count()
        best, point = 0.0, None
        centre = self._domain.snap(np.zeros((1, len(self._domain.low))))[0]
        waiting: list[tuple[float, int, Box, list[_Candidate]]] = []

        def add(box: Box, most: float) -> None:
            low, high, inside = self._ends(box, again)
            heapq.heappush(waiting, (-min(most, self._widest(low, high)), next(order), box, inside))

        try:
            add({}, np.inf)
            while waiting and -waiting[0][0] > max(goal, best) and best <= tolerance:
                if self._is_late():
                    break
                bound, _, box, inside = waiting[0]
                middle = self._domain.fill(centre, box | (inside[0].box if inside else {}))
                found = self._reach(middle)
                if found > best:
                    best, point = found, middle
                halves = self._halve(box, inside)
                if not halves:
                    break
                for half in halves:
                    add(half, -bound)
                waiting.remove((bound, _, box, inside))
                heapq.heapify(waiting)
        except OutOfTimeError:
            pass
        ends = [-each[0] for each in waiting] or [best]
        return max(best, *ends), point

    def _halve(self, box: Box, inside: list[_Candidate]) -> list[Box]:
        """Return boxes instead of one, split where the most different leaves are reached."""
        cut = self._cut(box, inside)
        if cut is None:
            return []
        feature, kept = cut
        part = box.get(feature) or self._domain.part(feature)
        gap = part.missing and not kept.missing
        parts = [kept]
        if part.categories or kept.categories:
            parts.append(Part(1.0, 0.0, gap, part.categories & ~kept.categories))
        elif kept.low > kept.high:
            parts.append(Part(part.low, part.high, False))
        else:
            every = np.array([feature])
            below = self._domain.down(np.nextafter(np.array([kept.low]), -np.inf), every)
            above = self._domain.up(np.array([kept.high]), every)
            parts.append(Part(part.low, float(below[0]), gap))
            parts.append(Part(float(above[0]), part.high, False))
        return [box | {feature: each} for each in parts if not each.is_empty]

    def _cut(self, box: Box, inside: list[_Candidate]) -> tuple[int, Part] | None:
        """Return a feature, and the part of it that keeps inputs with the greatest difference."""
        for candidate in inside:
            for feature, wanted in candidate.box.items():
                if wanted != (box.get(feature) or self._domain.part(feature)):
                    return feature, wanted
        for which, trees in enumerate(self._left):
            asked = self.sides[which].questions
            for tree in trees:
                at = self.sides[which].root(tree)
                while asked.feature[at] >= 0:
                    feature = asked.feature[at]
                    part = box.get(feature) or self._domain.part(feature)
                    left, right = asked.split(at, part)
                    if not left.is_empty and not right.is_empty:
                        return feature, left
                    at = asked.no[at] if left.is_empty else asked.yes[at]
        return None


def _tolerance(mine: Floats, others: Floats) -> Floats:
    """Return how far leaves can be apart by rounding to float32."""
    return np.asarray(_NEAR * np.maximum(np.abs(mine), np.abs(others)) + 2.0**-140)


def view_of(one: Ensemble, other: Ensemble) -> View | None:
    """Return how the scores of two ensembles compare; None if they do not."""
    sizes = len(one.base), len(other.base)
    links = one.link, other.link
    if sizes[0] == sizes[1]:
        if sizes[0] == 1 and set(links) == {"sigmoid", "softmax"}:
            # Of one score s a softmax is of -s and s.
            return View(scale=tuple(2.0 if each == "softmax" else 1.0 for each in links))  # type: ignore[arg-type]
        return View()
    if sorted(sizes) != [1, 2]:
        return None
    two = sizes.index(2)
    scales = [
        2.0 if link == "softmax" and size == 1 else 1.0
        for link, size in zip(links, sizes, strict=True)
    ]
    if links[two] == "softmax":
        columns = [-2 if size == 2 else -1 for size in sizes]
    elif _sums_to((one, other)[two], 2.0 * (one, other)[1 - two].center):
        columns = [1 if size == 2 else -1 for size in sizes]
    else:
        return None
    return View((columns[0], columns[1]), (scales[0], scales[1]))


def _sums_to(ensemble: Ensemble, total: float) -> bool:
    """Return whether both scores of every input sum to a number, so that one tells the other."""
    nodes = ensemble.nodes
    sums = nodes.values.sum(axis=1)
    first = np.concatenate(([0], np.cumsum(nodes.feature < 0)))[nodes.roots[:-1]]
    low, high = np.minimum.reduceat(sums, first).sum(), np.maximum.reduceat(sums, first).sum()
    base = float(ensemble.base.sum())
    ends = np.array([low + base, high + base]) / ensemble.divisor
    return bool((np.abs(ends - total) <= _NEAR * max(1.0, abs(total))).all())


def path_apart(
    sides: tuple[Side, Side], pair: tuple[int, int], point: Floats
) -> tuple[int, int] | None:
    """Return the first nodes of two trees at which an input goes different ways; None if none."""
    at, to = sides[0].root(pair[0]), sides[1].root(pair[1])
    one, other = sides[0].nodes, sides[1].nodes
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
