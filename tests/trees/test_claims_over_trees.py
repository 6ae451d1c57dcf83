"""Claims over tree ensembles against enumeration of cells, and their certificates."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.random_trees import every_point, random_ensemble

from leaveout.arrays import Bools, Floats
from leaveout.bab import SearchResult
from leaveout.bab.forests.ensemble_search import Point, Search, Target, Trail
from leaveout.deadline import Deadline
from leaveout.encoders.box import Box, Choices
from leaveout.encoders.query import Case, Condition, Form, Query
from leaveout.errors import SpecError
from leaveout.kernel.boxes import Inputs, Table
from leaveout.kernel.points import Case as KernelCase
from leaveout.kernel.points import Form as KernelForm
from leaveout.kernel.refusal import Rejected
from leaveout.kernel.tree_forms import TreePoints
from leaveout.models.trees.model import TreeModel
from leaveout.verifier.points.job import Asked, TreesAt
from leaveout.verifier.points.tree_claims import TreeQuestion

from support.depth import rounds

_MOST = 100_000


class Drawn:
    """A question about one or two points, with one case."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.features, points = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        categories = (0,) if rng.random() < 0.4 else ()
        kind = {
            "categories": categories, "single": bool(rng.integers(2)),
            "divisor": int(rng.choice([1, 3])), "ordered": bool(rng.integers(4)),
        }  # fmt: skip
        self.scores, trees = int(rng.integers(1, 3)), int(rng.integers(1, 4))
        depth = int(rng.integers(1, 4))
        one = random_ensemble(rng, self.features, trees, depth, self.scores, **kind)
        other = one
        if rng.random() < 0.4:
            other = random_ensemble(rng, self.features, trees, 2, self.scores, **kind)
        models = [TreeModel(Path("one"), one)]
        models.append(models[0] if other is one else TreeModel(Path("other"), other))
        at = [TreesAt(models[0], 0, "T(x)"), TreesAt(models[1], points - 1, "S(y)")]
        self.boxes = [self._box(bool(categories)) for _ in range(points)]
        if points == 2 and rng.random() < 0.7:
            self.boxes[1] = self.boxes[0]
        self.missing = [self._missing(box) for box in self.boxes]
        conditions, goals = self._forms(points)
        self.case = Case(conditions, goals)
        self.asked = Asked(Query(tuple(self.boxes), (), ()), (self.case,), None, trees=tuple(at))

    def _box(self, listed: bool) -> Box:
        rng, choices = self.rng, list[Choices]()
        lower = np.full(self.features, -float(rng.integers(0, 2)))
        if listed:
            lower[0] = -1.0
            rows = rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0], (5, 1))
            columns = np.array([0])
            if self.features > 1 and rng.random() < 0.4:
                rows = np.hstack([rows, rng.choice([0.0, 1.0, 2.0], (5, 1))])
                columns = np.array([0, 1])
            choices.append(Choices(columns, rows))
        return Box(lower, np.full(self.features, 3.0), tuple(choices))

    def _missing(self, box: Box) -> Bools:
        found = self.rng.random(self.features) < 0.3
        for each in (each for box in self.boxes for each in box.choices):
            if len(each.columns) > 1:
                found[each.columns] = False
        return found

    def _forms(self, points: int) -> tuple[tuple[Condition, ...], tuple[Form, ...]]:
        rng, conditions = self.rng, list[Condition]()
        if points == 2:
            for i in range(self.features):
                kind = rng.choice(["same", "below", "near", "free"])
                both = self.missing[0][i] or self.missing[1][i]
                up = Form(((0, i, -1.0), (1, i, 1.0)), (), 0.0)
                down = Form(((0, i, 1.0), (1, i, -1.0)), (), 0.0)
                if kind == "same":
                    self.missing[1][i] = self.missing[0][i]
                    conditions += [Condition(up), Condition(down)]
                elif kind == "below" and not both:
                    conditions.append(Condition(up))
                elif kind == "near" and not both:
                    conditions += [Condition(replace(each, constant=0.5)) for each in (up, down)]
        forms = []
        for _ in range(int(rng.integers(1, 4))):
            places = {(int(rng.integers(2)), int(rng.integers(self.scores))) for _ in range(2)}
            scores = tuple((a, j, float(rng.choice([-1.0, 1.0, 0.5]))) for a, j in sorted(places))
            forms.append(Form((), scores, float(rng.choice([-0.5, 0.0, 0.25]))))
        many = int(rng.integers(0, len(forms) + 1))
        conditions += [Condition(form, bool(rng.integers(2))) for form in forms[many:]]
        if not many and rng.random() < 0.3:
            conditions += [
                Condition(Form((), ((0, 0, 1.0),), 0.0), True),
                Condition(Form((), ((1, 0, -1.0),), 0.0)),
            ]
        return tuple(conditions), tuple(forms[:many])

    def truth(self) -> float | None:
        """Return the greatest least goal of a counter-example; None if there are too many."""
        points = every_point(self.boxes, self.missing, _MOST)
        if points is None or not len(points[0]):
            return None
        scores = [each.model.ensemble.scores(points[each.point]) for each in self.asked.trees]
        met = np.ones(len(points[0]), np.bool_)
        for each in self.case.conditions:
            value = _value(each.form, points, scores)
            met &= value > 0 if each.strict else value >= 0
        if not self.case.goals:
            return math.inf if met.any() else -math.inf
        goals = [_value(form, points, scores)[met] for form in self.case.goals]
        return float(np.min(goals, axis=0).max(initial=-math.inf))

    def search(self, trail: Trail | None = None) -> tuple[TreeQuestion, SearchResult[Point]]:
        """Search it for a short time."""
        keep = bool(self.rng.integers(2))
        question = TreeQuestion.of(self.asked, self.case, self.missing, keep=keep)
        strict = np.array([each.strict for each in question.conditions])
        target = Target(question.sums, strict, question.goals)
        found = Search(
            target, question.replay, gap=1e-6, deadline=Deadline.after(20), trail=trail,
            exact=question.exact,
        ).run()  # fmt: skip
        return question, found

    def claim(self, upper: float) -> TreePoints:
        """Return the claim that the kernel is to prove."""
        goals = self.case.goals or (self.case.conditions[0].form,)
        rest = self.case.conditions if self.case.goals else self.case.conditions[1:]
        strict = not self.case.goals and self.case.conditions[0].strict
        case = KernelCase(
            tuple(_kernel_form(each, strict) for each in goals),
            tuple(_kernel_form(each.form, each.strict) for each in rest), (), (), False, (),
        )  # fmt: skip
        boxes = tuple(
            Inputs(b.lower, b.upper, tuple(Table(c.columns, c.values) for c in b.choices))
            for b in self.boxes
        )
        return TreePoints(
            tuple((each.model.ensemble, each.point) for each in self.asked.trees), boxes,
            tuple(tuple(np.flatnonzero(flags).tolist()) for flags in self.missing), (case,),
            upper, not self.case.goals,
        )  # fmt: skip


def _kernel_form(form: Form, strict: bool) -> KernelForm:
    return KernelForm(form.features, form.scores, form.constant, strict)


def _value(form: Form, points: tuple[Floats, ...], scores: list[Floats]) -> Floats:
    """Return a form's values; two missing features are equal, one is no number."""
    total = np.full(len(points[0]), form.constant)
    if form.features:
        parts = [c * points[p][:, i] for p, i, c in form.features]
        absent = [np.isnan(part) for part in parts]
        total = total + np.where(np.all(absent, axis=0), 0.0, np.sum(parts, axis=0))
    for a, j, c in form.scores:
        total = total + c * scores[a][:, j]
    return np.where(np.isnan(total), -math.inf, total)


@settings(max_examples=rounds(300), deadline=None)
@given(st.integers(0, 2**32 - 1))
@example(10001617)  # equal features of points, each listed with another one
def test_searches_agree_with_every_point(seed: int) -> None:
    drawn = Drawn(seed)
    truth = drawn.truth()
    if truth is None:
        return
    trail = Trail()
    try:
        question, found = drawn.search(trail)
    except SpecError:
        # Features that may be missing and are equal, of sets that differ.
        return
    if drawn.case.goals:
        # Scores that a library may add in another order are between the bounds with their errors.
        assert found.lower <= truth + 1e-9
        assert truth <= found.upper + 1e-9
        if question.sums.whole and not question.rounds and math.isfinite(truth):
            # What is true is rounded here when forms are evaluated.
            assert found.lower - 1e-12 <= truth <= found.upper + 1e-12
            assert found.closed
        upper = found.upper + 1e-9 * (1 + abs(found.upper))
    else:
        assert found.witness is None or truth == math.inf
        assert not found.closed or (found.witness is not None) == (truth == math.inf)
        upper = -1.0
    if math.isfinite(upper) and (drawn.case.goals or (found.closed and found.witness is None)):
        forms = len(drawn.case.goals) + len(drawn.case.conditions)
        assert drawn.claim(upper).check(question.proof(trail, forms)) > 0


@settings(max_examples=rounds(200), deadline=None)
@given(st.integers(0, 2**32 - 1), st.data())
def test_the_kernel_accepts_no_false_claim(seed: int, data: st.DataObject) -> None:
    """Proofs of true claims, changed and claimed for more than is true."""
    drawn = Drawn(seed)
    truth = drawn.truth()
    if truth is None or truth == -math.inf:
        return
    trail = Trail()
    try:
        question, _ = drawn.search(trail)
    except SpecError:
        return
    forms = len(drawn.case.goals) + len(drawn.case.conditions)
    proof = question.proof(trail, forms)
    false = -1.0
    if drawn.case.goals:
        false = truth - data.draw(st.sampled_from([1e-3, 0.1, 1.0]))
    for _ in range(4):
        name = data.draw(st.sampled_from(sorted(proof)))
        array = proof[name].copy()
        rng = np.random.default_rng(data.draw(st.integers(0, 999)))
        how = data.draw(
            st.sampled_from(["shuffle", "drop", "repeat", "change", "zero", "known", "keep"])
        )
        if how == "shuffle" and len(array):
            array = rng.permutation(array)
        elif how == "drop":
            array = array[:-1]
        elif how == "repeat" and len(array):
            array = np.concatenate((array, array[-1:]))
        elif how == "change" and array.size:
            flat = array.reshape(-1)
            flat[rng.integers(array.size)] += rng.choice([-1, 1, 2])
        elif how == "zero":
            array = np.zeros_like(array)
        elif how == "known":
            name, array = "order", np.full_like(proof["order"], -2)
        with pytest.raises(Rejected):
            drawn.claim(false).check({**proof, name: array})
