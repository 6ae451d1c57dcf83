"""Claims over points and tree ensembles: no case has a counter-example above the bound.

A tree of boxes covers the inputs: each question is one that a tree of a model asks. In each box a
non-negative combination of the forms that a counter-example meets is bounded, tree by tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .boxes import Inputs
from .numbers import UNIT, Floats, Rejected, need
from .points import Case, Form
from .trees import Bools, Ensemble, Longs

Array = NDArray[Any]

_STEEPEST = 1e6
_MOST_CELLS = 2**22
_PASSES = 4
_SLACK = 1e-12
_KNOWN = -2  # in place of forms that are ordered: scores as they are added, without any rounding


Asked = tuple[float, float, bool, Bools | None]
"""What a question sends left: numbers up to the first, not those from the second on; whether a
missing value; of a feature that is asked for categories which of its listed values."""


@dataclass(frozen=True, eq=False)
class State:
    """What is left of each feature of all points: a range or listed values, a missing value."""

    low: Floats  # shape (features,)
    high: Floats  # shape (features,): below ``low`` where no number is left
    missing: Bools  # shape (features,)
    kinds: Bools  # shape (features, values): of features that are asked for categories

    def part(self, at: int, asked: Asked, side: int) -> State:
        """Return what goes left (0) or right (1) at a question about a feature."""
        most, least, missing_left, chosen = asked
        low, high = self.low.copy(), self.high.copy()
        missing, kinds = self.missing.copy(), self.kinds.copy()
        missing[at] &= missing_left == (side == 0)
        if chosen is not None:
            kinds[at, : len(chosen)] &= chosen if side == 0 else ~chosen
        elif side == 0:
            high[at] = min(high[at], most)
        else:
            low[at] = max(low[at], least)
        return State(low, high, missing, kinds)


@dataclass(frozen=True, eq=False)
class Cells:
    """Regions in which a tree is at one leaf, or two trees are at one each, tree by tree."""

    low: Floats  # shape (cells, features)
    high: Floats
    missing: Bools
    kinds: Bools  # shape (cells, features, values)
    tree: Longs  # shape (cells,)
    group: Longs  # shape (cells,): the applications that are at a leaf each
    leaves: Longs  # shape (cells, 2): their rows; -1 where there is no second
    weights: Floats  # shape (cells, forms)

    def meet(self, some: Longs, state: State, changed: Longs, asked: Bools) -> Longs:
        """Return those of some cells that a state meets, where only some features changed."""
        at = np.ix_(some, changed)
        numbers = np.maximum(self.low[at], state.low[changed]) <= np.minimum(
            self.high[at], state.high[changed]
        )
        kinds = (self.kinds[at] & state.kinds[changed]).any(axis=2)
        there = np.where(asked[changed], kinds, numbers)
        there |= self.missing[at] & state.missing[changed]
        return np.asarray(some[there.all(axis=1)])


@dataclass(frozen=True, eq=False)
class TreePoints:
    """A claim over points and tree ensembles."""

    applications: tuple[tuple[Ensemble, int], ...]  # an ensemble, and the point it reads
    boxes: tuple[Inputs, ...]
    missing: tuple[tuple[int, ...], ...]  # features of each point that may be missing
    cases: tuple[Case, ...]
    upper: float
    decides: bool  # whether there is no counter-example at all

    def check(
        self,
        proof: Mapping[str, Array],
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> int:
        """Prove it; count the leaves of the trees of boxes."""
        self._hold()
        size, asked, factor, order, pairs = _arrays(proof, len(self.cases))
        need(not self.decides or self.upper < 0, "to rule out points, the bound must be below 0")
        node = leaf = 0
        for number, (case, many) in enumerate(zip(self.cases, size, strict=True)):
            own = asked[node : node + many]
            leaves = int((own[:, 0] < 0).sum())
            walk = _Walk.of(self, case, pairs)
            try:
                walk.run(own, factor[leaf : leaf + leaves], order[leaf : leaf + leaves])
            except Rejected as error:
                raise Rejected(f"case {number}: {error}") from None
            node, leaf = node + many, leaf + leaves
            report(node, len(asked))
        return leaf

    def _hold(self) -> None:
        need(len(self.boxes) == len(self.missing) > 0, "it has no points")
        need(len(self.cases) > 0, "it has no cases")
        need(len(self.applications) > 0, "it has no models")
        for ensemble, point in self.applications:
            need(0 <= point < len(self.boxes), "a point that does not exist")
            need(len(self.boxes[point].lower) == ensemble.features, "a box of the wrong size")
            ensemble.nodes.check(ensemble.features)
        for box, listed in zip(self.boxes, self.missing, strict=True):
            need(all(0 <= at < len(box.lower) for at in listed), "a feature that does not exist")
        features = [len(box.lower) for box in self.boxes]
        scores = [len(ensemble.base) for ensemble, _ in self.applications]
        for i, case in enumerate(self.cases):
            need(len(case.goals) > 0, "a case without a goal")
            for form in (*case.goals, *case.conditions):
                form.check(f"case {i}", features, scores)


def _arrays(proof: Mapping[str, Array], cases: int) -> tuple[list[int], Array, Array, Array, Array]:
    kinds = {"size": (np.int64, 1), "asked": (np.int32, 2), "factor": (np.float64, 2),
             "order": (np.int32, 2), "pairs": (np.int32, 2)}  # fmt: skip
    need(set(proof) == set(kinds), "its proof does not consist of the arrays of boxes")
    for name, (kind, rank) in kinds.items():
        fits = proof[name].dtype == kind and proof[name].ndim == rank
        need(fits, f"its boxes: {name!r} has the wrong type or rank")
    size, asked, factor = proof["size"], proof["asked"], proof["factor"]
    order, pairs = proof["order"], proof["pairs"]
    leaves = int((asked[:, 0] < 0).sum())
    need(len(size) == cases and (size > 0).all(), "it has not one tree of boxes a case")
    need(int(size.sum()) == len(asked) and asked.shape[1] == 2, "its boxes are malformed")
    need(len(factor) == len(order) == leaves, "its boxes are malformed")
    need(order.shape[1:] == pairs.shape[1:] == (2,), "its boxes are malformed")
    return size.tolist(), asked, factor, order, pairs


@dataclass(frozen=True, eq=False)
class _Walk:
    """The boxes of one case."""

    claim: TreePoints
    forms: tuple[Form, ...]
    goals: int  # 0 where every form is a condition
    starts: list[int]  # where each point's features begin
    values: Mapping[int, Floats]  # listed ones of each feature that has any, ascending
    asked: Bools  # shape (features,): whether they are asked for categories
    kinds: int  # most values of those
    groups: list[tuple[int, int]]  # applications whose trees are joined; -1 for none
    relations: tuple[tuple[int, int], ...]  # features, the first at most the second
    slopes: Floats  # shape (forms, features)
    factors: tuple[Floats, ...]  # of each application, shape (forms, scores)

    @classmethod
    def of(cls, claim: TreePoints, case: Case, pairs: Array) -> _Walk:
        forms = (*case.goals, *case.conditions)
        starts = np.cumsum([0, *(len(box.lower) for box in claim.boxes)]).tolist()
        features = starts[-1]
        values = {
            starts[p] + at: _values_of(box, at)
            for p, box in enumerate(claim.boxes)
            for table in box.tables
            for at in table.columns.tolist()
        }
        kinds = set[int]()
        for ensemble, point in claim.applications:
            for at in ensemble.categories.tolist():
                values[starts[point] + at] = _values_of(claim.boxes[point], at)
                kinds.add(starts[point] + at)
        asked = np.isin(np.arange(features), [*kinds])
        most = max((len(values[at]) for at in kinds), default=0)
        slopes = np.zeros((len(forms), features))
        factors = tuple(np.zeros((len(forms), len(e.base))) for e, _ in claim.applications)
        for k, form in enumerate(forms):
            for p, i, c in form.features:
                slopes[k, starts[p] + i] += c
                fine = i not in claim.missing[p] or _is_relation(form)
                need(fine, "a missing value is compared")
            for a, j, c in form.scores:
                factors[a][k, j] += c
        goals = 0 if claim.decides else len(case.goals)
        related = tuple(
            (_place(form, starts, -1), _place(form, starts, 1))
            for form in forms[goals:]
            if _is_relation(form)
        )
        return cls(
            claim, forms, goals, starts, values, asked, most,
            _groups(claim, pairs), related, slopes, factors,
        )  # fmt: skip

    @cached_property
    def constant(self) -> Floats:
        """What is added to each form, what models begin with included."""
        own = np.array([form.constant for form in self.forms])
        for factor, (e, _) in zip(self.factors, self.claim.applications, strict=True):
            own = own + factor @ e.base / e.divisor
        return own

    @cached_property
    def size(self) -> Floats:
        """The sum of magnitudes of what is added to each form."""
        size = np.abs([form.constant for form in self.forms])
        for factor, (e, _) in zip(self.factors, self.claim.applications, strict=True):
            size = size + np.abs(factor) @ e.most
        ends = [np.maximum(np.abs(box.lower), np.abs(box.upper)) for box in self.claim.boxes]
        return np.asarray(size + np.abs(self.slopes) @ np.concatenate(ends))

    @cached_property
    def padding(self) -> Floats:
        """How far each form as computed can exceed the sum of weights."""
        trees = sum(e.trees for e, _ in self.claim.applications)
        padding = (trees + 64) * 4 * UNIT * self.size
        for factor, (e, _) in zip(self.factors, self.claim.applications, strict=True):
            padding = padding + np.abs(factor) @ (e.rounding() + e.tie)
        return padding

    def start(self) -> State:
        """Return all inputs."""
        claim, most = self.claim, self.kinds
        low = np.concatenate([box.lower for box in claim.boxes])
        high = np.concatenate([box.upper for box in claim.boxes])
        missing, kinds = np.zeros(len(low), np.bool_), np.zeros((len(low), most), np.bool_)
        for begin, listed in zip(self.starts, claim.missing, strict=False):
            missing[[begin + at for at in listed]] = True
        for at in np.flatnonzero(self.asked).tolist():
            kinds[at, : len(self.values[at])] = True
        return State(low, high, missing, kinds)

    def narrow(self, state: State) -> State | None:
        """Return what listed rows and conditions on features leave; None if that is nothing."""
        left = State(state.low.copy(), state.high.copy(), state.missing.copy(), state.kinds.copy())
        for _ in range(_PASSES):
            before = left.low.copy(), left.high.copy()
            if not self._list(left):
                return None
            for k, form in enumerate(self.forms):
                if k >= self.goals and form.features and not (form.scores or _is_relation(form)):
                    self._tighten(k, left.low, left.high)
            self._relate(left.low, left.high, left.missing, left.kinds)
            if (before[0] == left.low).all() and (before[1] == left.high).all():
                break
        return left if self._is_open(left) else None

    def _list(self, left: State) -> bool:
        """Narrow features to the listed rows that are left; return whether there are any."""
        low, high, kinds = left.low, left.high, left.kinds
        for begin, box in zip(self.starts, self.claim.boxes, strict=False):
            for table in box.tables:
                at = begin + table.columns
                if left.missing[at].any():
                    continue
                rows = table.values[((table.values >= low[at]) & (table.values <= high[at])).all(1)]
                for k, feature in enumerate(at.tolist()):
                    if self.asked[feature] and len(rows):
                        rows = rows[kinds[feature, self._which(feature, rows[:, k])]]
                if not len(rows):
                    return False
                low[at] = np.maximum(low[at], rows.min(0))
                high[at] = np.minimum(high[at], rows.max(0))
                for k, feature in enumerate(at.tolist()):
                    if self.asked[feature]:
                        there = np.zeros(kinds.shape[1], np.bool_)
                        there[self._which(feature, rows[:, k])] = True
                        kinds[feature] &= there
        return True

    def _relate(self, low: Floats, high: Floats, missing: Bools, kinds: Bools) -> None:
        """Narrow features the first of which is at most the second, or is missing as that is."""
        for less, more in self.relations:
            missing[less] = missing[more] = missing[less] & missing[more]
            high[less], low[more] = min(high[less], high[more]), max(low[more], low[less])
            equal = (more, less) in self.relations and self.asked[less] and self.asked[more]
            if equal and np.array_equal(self.values[less], self.values[more]):
                kinds[less] = kinds[more] = kinds[less] & kinds[more]

    def _tighten(self, k: int, low: Floats, high: Floats) -> None:
        """Narrow the features of a condition on features alone."""
        at = np.flatnonzero(self.slopes[k])
        slope = self.slopes[k, at]
        with np.errstate(invalid="ignore"):
            most = np.where(slope > 0, slope * high[at], slope * low[at])
        size = float(np.abs(most).sum()) + abs(float(self.constant[k]))
        total = float(self.constant[k]) + float(most.sum()) + (len(at) + 8) * 4 * UNIT * size
        ends = (most - total) / slope
        ends -= np.sign(slope) * (_SLACK * np.abs(ends) + 16 * UNIT * size / np.abs(slope))
        low[at] = np.where(slope > 0, np.maximum(low[at], ends), low[at])
        high[at] = np.where(slope < 0, np.minimum(high[at], ends), high[at])

    @cached_property
    def cells(self) -> Cells:
        """The cells of all trees, of those joined in pairs, within all inputs."""
        rows: list[tuple[State, int, int, list[int]]] = []
        start, tree = self.narrow(self.start()), 0
        for group, (one, other) in enumerate(self.groups):
            if start is None:
                break
            sides = [one] if other < 0 else [one, other]
            for t in range(self.claim.applications[one][0].trees):
                roots = tuple((a, int(self.claim.applications[a][0].nodes.roots[t])) for a in sides)
                rows += [(state, tree, group, at) for state, at in self._descend(start, roots)]
                need(len(rows) <= _MOST_CELLS, "too many pairs of leaves")
                tree += 1
        states = [state for state, *_ in rows]
        of, leaves = np.array([group for _, _, group, _ in rows]), np.full((len(rows), 2), -1)
        for n, (*_, own) in enumerate(rows):
            leaves[n, : len(own)] = own
        weights = np.zeros((len(rows), len(self.forms)))
        for group, pair in enumerate(self.groups):
            at = np.flatnonzero(of == group)
            for k, a in enumerate(pair):
                if a >= 0:
                    e = self.claim.applications[a][0]
                    weights[at] += e.nodes.values[leaves[at, k]] @ self.factors[a].T / e.divisor
        low, high, missing, kinds = (
            np.array([getattr(each, name) for each in states])
            for name in ("low", "high", "missing", "kinds")
        )
        tree_of = np.array([tree for _, tree, *_ in rows])
        return Cells(low, high, missing, kinds, tree_of, of, leaves, weights)

    def _descend(
        self, start: State, roots: tuple[tuple[int, int], ...]
    ) -> Iterator[tuple[State, list[int]]]:
        """Yield the leaves that an input reaches at once, with what reaches them."""
        waiting = [(start, roots)]
        while waiting:
            state, at = waiting.pop()
            for k, (a, node) in enumerate(at):
                if self.claim.applications[a][0].nodes.feature[node] >= 0:
                    feature, asked = self.question(a, node)
                    nodes = self.claim.applications[a][0].nodes
                    for side, child in ((1, nodes.right[node]), (0, nodes.left[node])):
                        part = state.part(feature, asked, side)
                        self._relate(part.low, part.high, part.missing, part.kinds)
                        if self._is_open(part):
                            waiting.append((part, (*at[:k], (a, int(child)), *at[k + 1 :])))
                    break
            else:
                nodes_of = [self.claim.applications[a][0].nodes for a, _ in at]
                yield state, [int(n.left[node]) for n, (_, node) in zip(nodes_of, at, strict=True)]

    def _is_open(self, state: State) -> bool:
        numbers = np.where(self.asked, state.kinds.any(axis=1), state.low <= state.high)
        return bool((numbers | state.missing).all())

    def _which(self, feature: int, values: Floats) -> Longs:
        """Return the positions of values of a feature that is asked for categories."""
        return np.searchsorted(self.values[feature], values)

    def question(self, application: int, node: int) -> tuple[int, Asked]:
        """Return the feature that a node asks of, and what it asks."""
        ensemble, point = self.claim.applications[application]
        nodes = ensemble.nodes
        feature = self.starts[point] + int(nodes.feature[node])
        missing_left, most = bool(nodes.missing_left[node]), float(nodes.threshold[node])
        least, known = math.nextafter(most, math.inf), self.values.get(feature)
        if known is None:
            return feature, (most, least, missing_left, None)
        if self.asked[feature]:
            return feature, (most, least, missing_left, ensemble.goes_left(node, known))
        # No input lies between listed values.
        ends = np.concatenate(([-np.inf], known, [np.inf]))
        at = int(np.searchsorted(known, most, side="right"))
        return feature, (float(ends[at]), float(ends[at + 1]), missing_left, None)

    def run(self, asked: Array, factor: Array, order: Array) -> None:
        """Check that the boxes cover all inputs, and each by its leaf's rule."""
        need(factor.shape[1] >= len(self.forms), "factors of all forms")
        sizes = [len(e.nodes.feature) for e, _ in self.claim.applications]
        start = self.narrow(self.start())
        every = np.arange(len(self.cells.tree))
        waiting = [(start, every)]
        leaf = 0
        for number, (a, node) in enumerate(asked.tolist()):
            need(len(waiting) > 0, "its boxes are malformed")
            state, some = waiting.pop()
            if a < 0:
                if state is not None:
                    self._leaf(number, state, some, factor[leaf], order[leaf])
                leaf += 1
                continue
            inner = a < len(sizes) and 0 <= node < sizes[a]
            need(inner and self.claim.applications[a][0].nodes.feature[node] >= 0, "a question")
            if state is None:
                waiting += [(None, some), (None, some)]
                continue
            feature, what = self.question(a, node)
            for side in (1, 0):
                part = self.narrow(state.part(feature, what, side))
                waiting.append((part, some if part is None else self._meet(state, part, some)))
        need(not waiting, "its boxes are malformed")

    def _meet(self, before: State, state: State, some: Longs) -> Longs:
        moved = (before.low != state.low) | (before.high != state.high)
        moved |= (before.missing != state.missing) | (before.kinds != state.kinds).any(axis=1)
        return self.cells.meet(some, state, np.flatnonzero(moved), self.asked)

    def _leaf(self, number: int, state: State, some: Longs, factor: Floats, order: Array) -> None:
        """Check that a box holds no counter-example above the bound."""
        if (order >= 0).all():
            if self._is_ordered(some, *order.tolist()):
                return
            raise Rejected(f"box {number}: a score is not ordered as claimed")
        if (order == _KNOWN).all():
            if self._is_known(some):
                return
            raise Rejected(f"box {number}: scores as they are added do not rule it out")
        y = factor[: len(self.forms)]
        need((y >= 0) & (y <= _STEEPEST), "a factor")
        whole = float(y[: self.goals].sum())
        need(whole in (0.0, 1.0), "factors of goals that are neither none nor a mean")
        tree = self.cells.tree[some]
        first = np.flatnonzero(np.diff(tree, prepend=-1))
        need(
            np.array_equal(tree[first], np.unique(self.cells.tree)), "a tree that no input reaches"
        )
        peaks = np.maximum.reduceat(self.cells.weights[some] @ y, first)
        slopes = y @ self.slopes
        ends = np.where(slopes > 0, state.high, state.low)
        used = np.flatnonzero(slopes)
        need(not state.missing[used].any(), "a missing value is compared")
        linear = float((slopes[used] * ends[used]).sum())
        bound = float(y @ self.constant) + float(peaks.sum()) + linear + float(y @ self.padding)
        bound += (len(y) + len(first) + 64) * 4 * UNIT * float(y @ self.size)
        if not (bound < 0 if whole == 0.0 else bound <= self.claim.upper):
            raise Rejected(f"box {number}: a counter-example above the bound is not ruled out")

    def _is_known(self, some: Longs) -> bool:
        """Return whether scores as computed rule a box out: sums in one order are monotone."""
        ends = [self._score_ends(a, some) for a in range(len(self.claim.applications))]
        for k, form in enumerate(self.forms):
            used = [self.claim.applications[a][0] for a, *_ in form.scores]
            if form.features or not all(
                e.is_exact and (k < self.goals or e.tie == 0.0) for e in used
            ):
                continue
            most = Fraction(form.constant)
            for a, j, c in form.scores:
                most += Fraction(c) * Fraction(float(ends[a][int(c > 0)][j]))
            if (
                most <= self.claim.upper
                if k < self.goals
                else most < 0 or (most == 0 and form.strict)
            ):
                return True
        return False

    def _score_ends(self, application: int, some: Longs) -> tuple[Floats, Floats]:
        """Return the least and the greatest scores of a model in a box."""
        ensemble = self.claim.applications[application][0]
        ((group, k),) = (
            (g, pair.index(application))
            for g, pair in enumerate(self.groups)
            if application in pair
        )
        own = some[self.cells.group[some] == group]
        first = np.flatnonzero(np.diff(self.cells.tree[own], prepend=-1))
        need(len(first) == ensemble.trees, "a tree that no input reaches")
        values = ensemble.nodes.values[self.cells.leaves[own, k]]
        low, high = (
            ensemble.add(extreme.reduceat(values, first)) for extreme in (np.minimum, np.maximum)
        )
        need(np.isfinite(low) & np.isfinite(high), "sums that overflow")
        return low, high

    def _is_ordered(self, some: Longs, first: int, second: int) -> bool:
        """Return whether two forms whose sum is a difference of scores cannot both hold.

        The sum is ``c (s(x) - t(y))`` of two scores that are summed alike, and is claimed to be
        above 0. A goal alone is then at most 0, whatever the bound.
        """
        need(max(first, second) < len(self.forms), "a form that does not exist")
        chosen = {first, second}
        if min(chosen) < self.goals:
            need(first == second and self.claim.upper >= 0.0, "a goal is no condition")
        elif not any(self.forms[k].strict for k in chosen):
            return False
        total: dict[tuple[int, int], float] = {}
        constant = 0.0
        for k in chosen:
            form = self.forms[k]
            need(not form.features, "a form with features")
            constant += form.constant
            for a, j, c in form.scores:
                need((a, j) not in total, "a score is used twice")
                total[a, j] = c
        if constant != 0.0 or len(total) != 2:
            return False
        ((a, i), c), ((b, j), d) = sorted(total.items())
        first_of, second_of = (self.claim.applications[each][0] for each in (a, b))
        alike = i == j and c == -d and first_of.adds_as(second_of, i)
        if not alike or (a, b) not in self.groups:
            return False
        own = some[self.cells.group[some] == self.groups.index((a, b))]
        one, other = (
            each.nodes.values[self.cells.leaves[own, k], i]
            for k, each in enumerate((first_of, second_of))
        )
        return bool((one <= other).all() if c > 0 else (one >= other).all())


def _is_relation(form: Form) -> bool:
    """Return whether a form says that one feature is at most another."""
    factors = sorted(c for *_, c in form.features)
    plain = not form.scores and form.constant == 0.0 and len(factors) == 2
    return plain and factors[0] == -factors[1] != 0.0


def _place(form: Form, starts: Sequence[int], sign: int) -> int:
    """Return the feature of a relation with this sign."""
    ((p, i, _),) = (term for term in form.features if term[2] * sign > 0)
    return starts[p] + i


def _values_of(box: Inputs, feature: int) -> Floats:
    """Return the values that a feature takes, ascending."""
    for table in box.tables:
        for k in np.flatnonzero(table.columns == feature).tolist():
            return np.unique(table.values[:, k])
    need(box.lower[feature] == box.upper[feature], "a category whose values are not listed")
    return box.lower[feature : feature + 1]


def _groups(claim: TreePoints, pairs: Array) -> list[tuple[int, int]]:
    """Return the applications, some of them in pairs whose trees are joined."""
    left = list(range(len(claim.applications)))
    found: list[tuple[int, int]] = []
    for a, b in pairs.tolist():
        need(a in left and b in left and a < b, "applications that cannot be joined")
        trees = [claim.applications[k][0].trees for k in (a, b)]
        need(trees[0] == trees[1], "applications with different numbers of trees")
        left = [k for k in left if k not in (a, b)]
        found.append((a, b))
    return found + [(a, -1) for a in left]
