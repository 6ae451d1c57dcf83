"""Claims over points and tree ensembles."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Bools, Floats
from leaveout.bab import Progress, SearchResult
from leaveout.bab.forests.ensemble_search import (
    EMPTY,
    EXACT,
    ORDERED,
    Point,
    Search,
    Target,
    Trail,
)
from leaveout.deadline import Deadline
from leaveout.encoders.forests.ensembles import Applied, FeatureError, Pairing, Sums, encode
from leaveout.encoders.query import Case, Condition, Form
from leaveout.errors import LeaveoutError
from leaveout.models.train.encoding import exact_text
from leaveout.models.trees.model import TreeModel
from leaveout.specs import Expression, ForAll
from leaveout.verifier.points.decide import Decision, Formulas, Named, in_words, unsearched_result
from leaveout.verifier.points.job import Asked, FormulaJob, ProvedTrees, Solved
from leaveout.verifier.points.leak_statements import names_model
from leaveout.verifier.points.sentences import SHOWN, join_some
from leaveout.verifier.records import ExampleRecord
from leaveout.verifier.report import Result
from leaveout.verifier.tasks import Kind, Statement, Subject
from leaveout.verifier.time_sharing import Clock

_NOTHING = -1e290  # the bound of a certificate where no point is a counter-example
_KNOWN = -2  # in place of forms that are ordered: the scores in a box are known
_FOR_ALL = 0.03  # share of the time for a bound that holds for all members


@dataclass(frozen=True, eq=False)
class TreeQuestion:
    """One case of a question, as the search takes it."""

    asked: Asked
    conditions: tuple[Condition, ...]  # goals, then conditions, then sums of two conditions
    made_of: tuple[tuple[int, ...], ...]  # of each: the forms of the case that are added
    goals: int
    sums: Sums

    @classmethod
    def of(
        cls, asked: Asked, case: Case, missing: Sequence[Bools], *, keep: bool = False
    ) -> TreeQuestion:
        """Return a case over cells; with ``keep`` pairs of trees that weigh nothing stay."""
        conditions = (*(Condition(goal) for goal in case.goals), *case.conditions)
        # A claim that its text alone refutes: any point will do.
        conditions = conditions or (Condition(Form()),)
        made_of: list[tuple[int, ...]] = [(k,) for k in range(len(conditions))]
        for pair, implied in _sums_of_two(asked, conditions[len(case.goals) :]):
            made_of.append(tuple(len(case.goals) + k for k in pair))
            conditions = (*conditions, implied)
        below = _orders(case.conditions)
        equal = [(*less, *more) for less, more in below if (more, less) in below and less < more]
        applied = [Applied(each.model.ensemble, each.point) for each in asked.trees]
        forms = [each.form for each in conditions]
        sums = encode(
            applied, asked.query.points, forms, equal,
            [(*less, *more) for less, more in below], missing, Pairing(keep=keep),
        )  # fmt: skip
        _refuse_compared(conditions, sums, missing)
        # What holds by one variable for two features need not be bounded.
        vacuous = ~sums.slopes.any(axis=1) & ~sums.weights.any(axis=0) & (sums.constant == 0)
        vacuous &= [not each.form.scores and not each.strict for each in conditions]
        vacuous[: len(case.goals)] = False
        if vacuous.all():
            vacuous[0] = False
        kept = np.flatnonzero(~vacuous)
        sums = replace(
            sums, weights=sums.weights[:, kept], slopes=sums.slopes[kept],
            constant=sums.constant[kept], padding=sums.padding[kept], ordered=sums.ordered[kept],
        )  # fmt: skip
        own = tuple(conditions[k] for k in kept), tuple(made_of[k] for k in kept)
        return cls(asked, *own, len(case.goals), sums)

    @property
    def target(self) -> Target:
        """What a search is asked."""
        strict = np.array([each.strict for each in self.conditions])
        return Target(self.sums, strict, self.goals)

    def proof(self, trail: Trail, forms: int) -> dict[str, NDArray[Any]]:
        """Return the arrays that prove what a search found, with factors of so many forms."""
        asked, columns = trail.preorder()
        factor, order = np.zeros((len(columns), forms)), np.full((len(columns), 2), -1, np.int32)
        for leaf, column in enumerate(columns):
            if column == EXACT:
                order[leaf] = _KNOWN
            elif column <= ORDERED:
                (at,) = np.flatnonzero(trail.rows[ORDERED - column]).tolist()
                own = self.made_of[at]
                order[leaf] = own[0], own[-1]
            elif column != EMPTY:
                for at in np.flatnonzero(trail.rows[column]).tolist():
                    factor[leaf, list(self.made_of[at])] += trail.rows[column][at]
        return {
            "size": np.array([len(asked)], np.int64), "asked": asked, "factor": factor,
            "order": order, "pairs": np.array(self.sums.pairs, np.int32).reshape(-1, 2),
        }  # fmt: skip

    def replay(self, points: Sequence[Floats]) -> Point | None:
        """Return the counter-example at some points, as the models compute it."""
        goal = self._least_goal(points)
        if goal is None or goal == -math.inf:
            return None
        return Point(tuple(points), _round_towards(goal, -math.inf))

    @property
    def rounds(self) -> bool:
        """Whether a point does not tell what the models compute in its box of leaves."""
        return bool(self.sums.slopes.any()) or any(
            each.form.rounded or self._slack(each, tie=k >= self.goals)
            for k, each in enumerate(self.conditions)
        )

    def exact(self, points: Sequence[Floats]) -> float:
        """Return what the least goal is at most in the box of leaves of some points."""
        goal = self._least_goal(points)
        if goal is None or self.rounds or not self.sums.whole:
            return math.inf
        return _round_towards(goal, math.inf)

    def _least_goal(self, points: Sequence[Floats]) -> Fraction | float | None:
        """Return the least goal at points; None outside their sets, -inf if a condition fails."""
        boxes = self.asked.query.points
        for x, box, own in zip(points, boxes, self.sums.variable, strict=True):
            absent = np.isnan(x)
            if absent.any() and not (self.sums.missing[own][absent] >= 0).all():
                return None
            filled = np.where(absent, box.lower, x)
            for choices in box.choices:
                if absent[choices.columns].any():
                    filled[choices.columns] = choices.values[0]
            if not box.contains(filled[None])[0]:
                return None
        scores = [
            each.model.ensemble.scores(points[each.point][None])[0] for each in self.asked.trees
        ]
        values, numbers = list[Fraction](), _numbers(points)
        for k, each in enumerate(self.conditions):
            value = each.form.least(numbers, scores)
            if len({math.isnan(points[p][i]) for p, i, _ in each.form.features}) > 1:
                return None
            if k >= self.goals and not self._holds(each, value):
                return -math.inf
            values.append(value - self._slack(each, tie=False))
        return min(values[: self.goals], default=math.inf)

    def _holds(self, condition: Condition, value: Fraction) -> bool:
        """Return whether a condition is met, also where a link rounds."""
        if value < 0 or (value == 0 and condition.strict):
            return False
        return value > self._slack(condition, tie=True) or (
            value == 0 and not self._slack(condition, tie=False)
        )

    def _slack(self, condition: Condition, *, tie: bool) -> Fraction:
        """Return how far the models' own number may be from ours: order of sums, and links."""
        total = Fraction(0)
        for a, j, c in condition.form.scores:
            ensemble = self.asked.trees[a].model.ensemble
            own = 0.0 if ensemble.ordered else float(ensemble.rounding()[j])
            total += Fraction(abs(c)) * (Fraction(own) + (Fraction(ensemble.tie) if tie else 0))
        return total


def _numbers(points: Sequence[Floats]) -> list[list[Fraction]]:
    # A missing value is compared with nothing.
    return [[Fraction(0) if math.isnan(v) else Fraction(v) for v in x] for x in points]


def _round_towards(value: Fraction | float, towards: float) -> float:
    nearest = float(value)
    beyond = nearest > value if towards < 0 else nearest < value
    return math.nextafter(nearest, towards) if beyond else nearest


Place = tuple[int, int]


def _orders(conditions: Sequence[Condition]) -> set[tuple[Place, Place]]:
    """Return pairs of features the first of which conditions make at most the second."""
    below = set()
    for each in conditions:
        features = {(p, i): c for p, i, c in each.form.features}
        if each.form.scores or each.form.constant or sorted(features.values()) != [-1.0, 1.0]:
            continue
        (more,) = (at for at, c in features.items() if c > 0)
        (less,) = (at for at, c in features.items() if c < 0)
        below.add((less, more))
    return below


def _sums_of_two(
    asked: Asked, conditions: Sequence[Condition]
) -> Iterator[tuple[tuple[int, int], Condition]]:
    """Yield sums of two conditions that are the difference of two scores summed alike.

    Where ``s(x) > b`` and ``s(y) <= b``, so is ``s(x) - s(y) > 0``, which trees can exclude without
    any rounding.
    """
    single = [
        (k, each)
        for k, each in enumerate(conditions)
        if len(each.form.scores) == 1 and not each.form.features and not each.form.rounded
    ]
    for i, (first, one) in enumerate(single):
        for second, other in single[:i]:
            (a, j, c), (b, k, d) = one.form.scores[0], other.form.scores[0]
            if a == b or j != k or c != -d or one.form.constant + other.form.constant != 0.0:
                continue
            if asked.trees[a].model.ensemble.adds_as(asked.trees[b].model.ensemble, j):
                form = Form((), (*one.form.scores, *other.form.scores), 0.0)
                yield (second, first), Condition(form, one.strict or other.strict)


def _refuse_compared(conditions: Sequence[Condition], sums: Sums, missing: Sequence[Bools]) -> None:
    """Refuse features that may be missing in comparisons, unless they are one variable."""
    for each in conditions:
        places = [(p, i) for p, i, _ in each.form.features]
        absent = [(p, i) for p, i in places if missing[p][i]]
        # Equal features that are both missing do not differ.
        is_one = len({int(sums.variable[p][i]) for p, i in places}) == 1
        if absent and not (is_one and sum(c for *_, c in each.form.features) == 0.0):
            point, feature = absent[0]
            raise FeatureError(
                point, feature, "may be missing, so it cannot be compared",
                "leave it out of missing(...), or out of the comparison; where points agree in it, "
                "give them one set",
            )  # fmt: skip


def missing_of(job: FormulaJob) -> list[Bools]:
    """Return which features of each point may be missing."""
    found = [np.zeros(box.dimension, np.bool_) for box in job.boxes]
    for flags, listed in zip(found, job.missing, strict=True):
        flags[list(listed)] = True
    return found


class TreeClaims(Formulas):
    """Claims over points and tree ensembles, as questions in linear forms of their scores."""

    subject: ClassVar[Subject] = "points"

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        if not names_model(statement, self.context.checked, "trees"):
            return self.context.resolver.fail(statement.claim, "this statement names no trees")
        why = super().accepts(statement)
        if why is not None:
            # No other engine knows trees.
            raise why
        return None

    def kind(self, job: FormulaJob) -> Kind:
        return "formula over trees"

    def kernels(self, job: FormulaJob) -> Sequence[str]:
        return ("tree_claims",)

    def _models_of(self, job: FormulaJob) -> dict[str, set[str]]:
        trees = {
            f"{each.name} ({ensemble.trees:,} trees, {len(ensemble.nodes.values):,} leaves)"
            for asked in job.questions
            for each in asked.trees
            for ensemble in (each.model.ensemble,)
        }
        return {"trees": trees}

    def resume(self, job: FormulaJob, store: object) -> list[object]:  # type: ignore[override]
        """See `Engine.resume`; these searches keep no checkpoints."""
        return []

    def _decision(
        self, job: FormulaJob, label: int | None, clock: Clock, solved: list[Solved] | None
    ) -> Decision:
        return _TreeDecision(job, label, clock, self.context, {}, solved)

    def _result(self, job: FormulaJob, label: int | None, clock: Clock) -> Result:
        certificate, decision = self.context.certificate, self._decision(job, label, clock, None)
        assert isinstance(decision, _TreeDecision)
        decision.certifies = certificate is not None
        try:
            result = decision.result()
        except FeatureError as error:
            name = job.points[error.point]
            wrong = f"feature {error.feature} of '{name}' {error.wrong}"
            raise self.context.resolver.fail(_domain_of(job, name), wrong, error.cure) from None
        clock.interrupted = clock.interrupted or decision.clock.interrupted
        if certificate is not None and result.verdict != "refuted":
            name = result.name if label is None else f"{result.name}, label {label}"
            if decision.unproved or not decision.proved:
                why = (
                    "; ".join(dict.fromkeys(decision.unproved)) or "no case of it is left to search"
                )
                certificate.without(name, why)
            else:
                certificate.trees(
                    [replace(each, name=_name_of(name, each)) for each in decision.proved]
                )
        return result


def _domain_of(job: FormulaJob, point: str) -> Expression:
    """Return the set of a point, as the specification has it."""
    claim: Expression = job.statement.claim
    while isinstance(claim, ForAll):
        for binder in claim.binders:
            if binder.name == point:
                return binder.domain
        claim = claim.body
    return claim


def _name_of(name: str, proved: ProvedTrees) -> str:
    own = " and ".join(str(index) for _, index, _ in proved.asked.members)
    return f"{name}, member {own}" if own else name


class _TreeDecision(Decision):
    engine = "trees"
    certifies = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.proved: list[ProvedTrees] = []
        self.unproved: list[str] = []
        self.of_all: dict[tuple[Case, ...], float] = {}

    def pass_over(self, asked: Asked) -> SearchResult[Point]:
        """Record what is known of a question without its own search."""
        self.unproved.append("not every member was searched; raise the time limit")
        upper = self._bound_of_all(asked)
        closed = not self.decides and upper <= self.lower
        return self.take(asked, unsearched_result(upper, closed=closed))

    @cached_property
    def _in_all(self) -> set[int]:
        """Return the applications that all questions have at the same place."""
        at_places = zip(*(asked.trees for asked in self.questions), strict=False)
        return {
            place
            for place, trees in enumerate(at_places)
            if len({(id(each.model), each.point) for each in trees}) == 1
        }

    def _bound_of_all(self, asked: Asked) -> float:
        """Return a bound of a question from what all share: without a member's conditions."""

        def is_shared(form: Form) -> bool:
            return self._in_all.issuperset(a for a, *_ in form.scores)

        goals = [goal for case in asked.cases for goal in case.goals]
        if len(self.questions) == 1 or not goals or not all(map(is_shared, goals)):
            return math.inf
        relaxed = (
            Case(tuple(each for each in case.conditions if is_shared(each.form)), case.goals)
            for case in asked.cases
        )
        cases = tuple(dict.fromkeys(relaxed))
        if cases not in self.of_all:
            own = replace(asked, trees=asked.trees[: 1 + max(self._in_all, default=0)])
            left = 0.0 if self.clock.interrupted else self.clock.seconds_left or 0.0
            deadline, found = Deadline.after(_FOR_ALL * left), list[SearchResult[Point]]()
            for number, case in enumerate(cases):
                question = TreeQuestion.of(own, case, missing_of(self.job))
                share = deadline.share(len(cases) - number)
                found.append(
                    Search(
                        question.target, question.replay,
                        gap=self.options.gap, deadline=Deadline.after(share),
                    ).run()
                )  # fmt: skip
            self.clock.interrupted |= any(each.interrupted for each in found)
            self.of_all[cases] = max(each.upper for each in found)
        return self.of_all[cases]

    def solve(self, asked: Asked, floor: float) -> SearchResult[Point]:
        if not asked.cases:
            self.clock.skip(1)
            return self.take(asked, unsearched_result(-math.inf, closed=True))
        share = self.clock.next()
        if self.clock.interrupted or (share == 0.0 and asked is not self.questions[0]):
            return self.pass_over(asked)
        missing = missing_of(self.job)
        deadline, begun = Deadline.after(share), time.perf_counter()
        best: SearchResult[Point] | None = None
        proofs: list[tuple[TreeQuestion, Trail]] = []
        for number, case in enumerate(asked.cases):
            left = len(asked.cases) - number
            own = Deadline.after(deadline.share(left))
            known = -math.inf if best is None else best.lower
            for keep in (False, True):
                question = TreeQuestion.of(asked, case, missing, keep=keep)
                trail = Trail() if self.certifies else None
                found = Search(
                    question.target, question.replay,
                    floor=max(known, floor) if question.goals else -math.inf,
                    gap=self.options.gap, deadline=own, progress=self._report,
                    trail=trail, exact=question.exact,
                ).run()  # fmt: skip
                if found.reason != "numerical" or question.sums.whole or question.rounds:
                    break
            best = found if best is None else _worse(best, found)
            if trail is not None:
                proofs.append((question, trail))
            if found.interrupted:
                self.clock.interrupted = True
                if left > 1:
                    best = replace(best, upper=math.inf, closed=best.witness is not None
                                   and not question.goals)  # fmt: skip
                break
            if self.decides and found.witness is not None:
                break
        assert best is not None
        if self.certifies:
            # A certificate holds each member's own bound.
            self._prove(asked, best, proofs)
        elif not best.closed:
            upper = min(best.upper, self._bound_of_all(asked))
            best = replace(best, upper=max(upper, best.lower))
        return self.take(asked, replace(best, seconds=time.perf_counter() - begun))

    def _prove(
        self, asked: Asked, found: SearchResult[Point],
        proofs: Sequence[tuple[TreeQuestion, Trail]],
    ) -> None:  # fmt: skip
        """Keep a certificate's claim, or why there is none."""
        upper = -1.0 if self.decides else found.upper
        if not self.decides and math.isfinite(upper):
            upper += 1e-9 * (1.0 + abs(upper))
        whole = len(proofs) == len(asked.cases) and not self.clock.interrupted
        if not whole or upper == math.inf or (self.decides and not found.closed):
            self.unproved.append("it was not searched completely; raise the time limit")
            return
        forms = max(len(case.goals) + len(case.conditions) for case in asked.cases)
        parts = [question.proof(trail, forms) for question, trail in proofs]
        proof = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        # Trees of two models that are joined in one case may be so in all: bounds only fall.
        pairs = np.unique(proof["pairs"], axis=0)
        if len(np.unique(pairs)) < pairs.size:
            self.unproved.append("its cases compare one model with several others")
            return
        proof["pairs"] = pairs
        self.proved.append(
            ProvedTrees("", max(upper, _NOTHING), self.decides, asked, self.job.missing, proof)
        )

    def _report(self, progress: Progress) -> None:
        low, high = max(progress.lower, self.lower), max(progress.upper, self.upper)
        self.tell(progress, low, high)

    def example(self) -> ExampleRecord | None:
        if self.best is None:
            return None
        asked, found = self.best
        return example_at(asked, dict(zip(self.job.points, found.points, strict=True)))


@dataclass(frozen=True)
class _Features(Named):
    """Features of points by name: those that differ first, then those asked most often."""

    order: tuple[int, ...] = ()  # empty: all, without names

    @classmethod
    def find(cls, asked: Asked, points: Mapping[str, tuple[float, ...]]) -> _Features:
        wholes = [each.model.whole for each in asked.trees]
        labels = wholes[0].labels if len({each.labels for each in wholes}) == 1 else ()
        ensembles = [each.model.ensemble for each in asked.trees]
        count, names = wholes[0].features, wholes[0].names
        sizes = {count, *(each.features for each in ensembles), *map(len, points.values())}
        if len(sizes) > 1 or not (names or count > SHOWN):
            return cls(labels=labels)
        times = np.zeros(count, np.int64)
        for each in ensembles:
            times += np.bincount(each.nodes.feature[each.nodes.feature >= 0], minlength=count)
        columns = zip(*points.values(), strict=True)
        same = np.array([len({*map(str, each)}) == 1 for each in columns])
        order = np.lexsort((-times, same))
        decides = (times[order] > 0) | ~same[order]
        names = names or tuple(f"feature {at}" for at in range(count))
        return cls(names, labels, order=tuple(order[decides].tolist()))

    def point(self, values: tuple[float, ...], digits: int) -> str:
        texts = ["missing" if math.isnan(each) else exact_text(each) for each in values]
        named = [f"{self.features[at]} = {texts[at]}" for at in self.order]
        return f"({join_some(named or texts, SHOWN)})"


def example_at(asked: Asked, at: Mapping[str, Floats]) -> ExampleRecord:
    """Return what is told of a counter-example at points, by name: scores, labels, words."""
    points = {name: tuple(point.tolist()) for name, point in at.items()}
    scores, labels = dict[str, tuple[float, ...]](), dict[str, int]()
    for each in asked.trees:
        model, x = each.model, [*at.values()][each.point][None]
        scores[each.name] = _by_label(model, model.ensemble.scores(x)[0])
        if model.is_classifier:
            labels[each.name] = int(model.ensemble.answers(x)[0])
    removed = {name: row for name, _, row in asked.members}
    named = _Features.find(asked, points)
    return ExampleRecord(
        points={
            name: tuple(None if math.isnan(v) else v for v in point)
            for name, point in points.items()
        },
        scores=scores, labels=labels, removed=removed,
        features=asked.trees[0].model.whole.names, label_names=named.labels,
        words=in_words(points, scores, labels, removed, dict(asked.lacking), named),
        removed_ids={name: each for name, each in asked.lacking if each},
        members={name: index for name, index, _ in asked.members},
    )  # fmt: skip


def _by_label(model: TreeModel, scores: Floats) -> tuple[float, ...]:
    """Return a score for each label, as claims name them."""
    places = [model.score(label) for label in range(model.labels)]
    return tuple(each if isinstance(each, float) else float(scores[each]) for each in places)


def _worse(one: SearchResult[Point], other: SearchResult[Point]) -> SearchResult[Point]:
    """Return what two cases say together."""
    best = one if one.lower >= other.lower and one.witness is not None else other
    if best.witness is None:
        best = one if one.witness is not None else other
    open_ = one if not one.closed else other
    return replace(
        open_, lower=max(one.lower, other.lower), upper=max(one.upper, other.upper),
        witness=best.witness, closed=one.closed and other.closed,
        solved=one.solved + other.solved, interrupted=one.interrupted or other.interrupted,
    )  # fmt: skip
