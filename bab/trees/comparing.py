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

from leaveout.arrays import Floats, Integers
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
_KEPT = 4096
_BOXES = 64
_POINTS = 64
_POOL = 2048
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
            found = found[:, column : column + 1]
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
        return Side(
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
        finished = self._measure_pairs(walk=bool((gap > explained).mean() < _OTHER))
        low, high = self._ends({})
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

    def _measure_pairs(self, *, walk: bool) -> bool:
        """Find the ends of each pair's difference; return whether all were finished."""
        one, other = self.sides
        finished = True
        for at, (tree, there) in enumerate(self._pairs):
            first, second = one.leaves(tree), other.leaves(there)
            if are_same_questions(one, tree, other, there):
                mine, others = one.values[first], other.values[second]
                if (np.abs(mine - others) <= _tolerance(mine, others)).all():
                    gap = mine - others
                    self._low[at], self._high[at] = gap.min(axis=0), gap.max(axis=0)
                    continue
            try:
                if not walk:
                    raise OutOfTimeError
                ends = self._walk(tree, there, {}, keep=True)
            except OutOfTimeError:
                finished = False
                mine, others = one.values[first], other.values[second]
                ends = (
                    mine.min(axis=0) - others.max(axis=0),
                    mine.max(axis=0) - others.min(axis=0),
                )
            self._low[at], self._high[at] = ends
        return finished

    def _walk(self, tree: int, there: int, box: Box, *, keep: bool) -> tuple[Floats, Floats]:
        one, other = self.sides
        low = np.full(len(self._base), np.inf)
        high = -low
        gaps: dict[tuple[int, int], tuple[Floats, bool]] = {}
        for row, last, inside in find_pairs(
            one, tree, other, there, self._domain, self._is_late, box
        ):
            known = gaps.get((row, last))
            if known is None:
                mine, others = one.values[row], other.values[last]
                gap = mine - others
                known = gap, bool((np.abs(gap) > _tolerance(mine, others)).any())
                gaps[row, last] = known
                low, high = np.minimum(low, gap), np.maximum(high, gap)
            if keep and known[1]:
                self._keep(_Candidate(float(np.abs(known[0]).max()), (tree, there), inside))
        return low, high

    def _keep(self, candidate: _Candidate) -> None:
        self._candidates.append(candidate)
        if len(self._candidates) > 2 * _KEPT:
            self._candidates = heapq.nlargest(_KEPT, self._candidates, key=lambda each: each.size)

    def _ends(self, box: Box, again: Sequence[int] = ()) -> tuple[Floats, Floats]:
        """Return bounds of the difference in a box; the pairs ``again`` are measured in it."""
        low, high = self._low.copy(), self._high.copy()
        for at in again:
            low[at], high[at] = self._walk(*self._pairs[at], box, keep=False)
        least, most = low.sum(axis=0) + self._base, high.sum(axis=0) + self._base
        for which, trees in enumerate(self._left):
            side = self.sides[which]
            for rows in reachable(side, trees, self._domain, box):
                values = side.values[rows] if not which else -side.values[rows]
                least, most = least + values.min(axis=0), most + values.max(axis=0)
        pad = _PAD * self._size * (1 + len(self._pairs))
        return least - pad, most + pad

    @staticmethod
    def _widest(low: Floats, high: Floats) -> float:
        return float(np.maximum(-low, high).max())

    # Points where the two differ.

    def _find_point(
        self, tolerance: float | None, pool: Floats
    ) -> tuple[Floats | None, tuple[int, int] | None]:
        """Return an input where the sums differ by more than rounding of leaves explains."""
        chosen = heapq.nlargest(_BOXES, self._candidates, key=lambda each: each.size)
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
        return self._has_labels and single and one.center != other.center

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
        active = sorted({each.pair for each in self._candidates})
        at_pair = {pair: at for at, pair in enumerate(self._pairs)}
        again = [at_pair[pair] for pair in active]
        goal, order = tolerance - self.rounding, count()
        start = self._widest(*self._ends({}, again))
        waiting: list[tuple[float, int, Box]] = [(-start, next(order), {})]
        best, point = 0.0, None
        try:
            while waiting and -waiting[0][0] > max(goal, best) and best <= tolerance:
                bound, _, box = waiting[0]
                middle = self._domain.fill(
                    self._domain.snap(np.zeros((1, len(self._domain.low))))[0], box
                )
                found = self._reach(middle)
                if found > best:
                    best, point = found, middle
                halves = [
                    (-min(-bound, self._widest(*self._ends(half, again))), next(order), half)
                    for half in self._halve(box)
                ]
                heapq.heappop(waiting)
                if not halves:
                    # One cell of both: the bound is reached.
                    return max(-bound, *(-each[0] for each in waiting), best), point
                for each in halves:
                    heapq.heappush(waiting, each)
        except OutOfTimeError:
            pass
        return max([best, *(-each[0] for each in waiting[:1])]), point

    def _halve(self, box: Box) -> list[Box]:
        """Return two boxes instead of one, split where the most different leaves are left."""
        cuts = self._cuts(box)
        if cuts is None:
            return []
        feature, inside = cuts
        part = box.get(feature) or self._domain.part(feature)
        rest: list[Part] = [inside]
        if part.categories or inside.categories:
            rest.append(
                Part(
                    1.0,
                    0.0,
                    part.missing and not inside.missing,
                    part.categories & ~inside.categories,
                )
            )
        else:
            every = np.array([feature])
            below = self._domain.down(np.nextafter(np.array([inside.low]), -np.inf), every)
            above = self._domain.up(np.array([inside.high]), every)
            rest.append(Part(part.low, float(below[0]), part.missing and not inside.missing))
            rest.append(Part(float(above[0]), part.high, False))
        return [box | {feature: each} for each in rest if not each.is_empty]

    def _cuts(self, box: Box) -> tuple[int, Part] | None:
        """Return the feature, and the part of it, that the most different pair in a box needs."""
        for candidate in sorted(self._candidates, key=lambda each: -each.size):
            for feature, wanted in candidate.box.items():
                part = box.get(feature) or self._domain.part(feature)
                both = Part(
                    max(part.low, wanted.low),
                    min(part.high, wanted.high),
                    part.missing and wanted.missing,
                    part.categories & wanted.categories,
                )
                if both.is_empty:
                    break
                if both != part:
                    return feature, both
        for which, trees in enumerate(self._left):
            asked = self.sides[which].questions
            for tree in trees:
                at, inside = self.sides[which].root(tree), box
                while asked.feature[at] >= 0:
                    feature = asked.feature[at]
                    part = inside.get(feature) or self._domain.part(feature)
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


__all__ = ["Comparison", "Difference", "Integers", "View", "path_apart", "view_of"]
