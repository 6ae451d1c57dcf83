"""What any few rows of a linear model can change: left out, relabelled, or one added."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from msgspec import structs

from leaveout.arrays import Floats, Integers
from leaveout.bab import agree
from leaveout.bab.linear.points import Points
from leaveout.bab.linear.search import confidence, region_of
from leaveout.bab.native.files.manifest_parts import box_part
from leaveout.encoders import Box
from leaveout.errors import LeaveoutError, LinearError
from leaveout.kernel.budget import Budget, Change, budgets_of, largest_fall, scores_of
from leaveout.kernel.design import Region
from leaveout.kernel.family import Family, Score
from leaveout.kernel.linear import fit_radius
from leaveout.kernel.model import LinearModel
from leaveout.kernel.numbers import Rejected
from leaveout.models.linear.family import bound_members
from leaveout.models.linear.fit import coefficients_of
from leaveout.specs import Call, Find, ForAll
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.points.leak_decider import finite, floor_of
from leaveout.verifier.points.leak_statements import LINEARS, IdpStatement, recognise
from leaveout.verifier.points.linear_leaks import LinearLeaks, Linears
from leaveout.verifier.points.linear_scores import ScoreStatement, read_scores
from leaveout.verifier.points.sentences import box_record, join_some, label_phrase, row_name
from leaveout.verifier.records import ExampleRecord, ModelRecord
from leaveout.verifier.report import Result
from leaveout.verifier.tasks import Context, Engine, Outline, Statement, Subject, kind_of
from leaveout.verifier.time_sharing import Clock

_CHANGES = ("leave_out", "relabel", "add_one")
_ROUNDS = 3  # choices of rows that are tried for a witness, each from the input of the one before

_SHOWN = 5


@dataclass(frozen=True, eq=False)
class ChangeJob:
    """A loaded statement about a change of training rows."""

    asked: IdpStatement | ScoreStatement
    about: Linears
    change: Change
    within: Box | None = None  # what an added row may be

    def claim_fields(self, label: int | None) -> dict[str, Any]:
        """Return what a certificate says of the claim about a label."""
        within = None if self.within is None else box_part(self.within)
        return {
            "kind": self.change.kind, "label": label, "sign": 1, "level": 0.0,
            "count": self.change.count, "within": within,
        }  # fmt: skip

    def replays(self, result: Result) -> bool:
        """Return whether a result's example is an input whose answer its rows change."""
        example, about = result.example, self.about
        rows = () if example is None else example.facts.get("rows", ())
        if example is None or not isinstance(rows, tuple) or len(rows) > self.change.count:
            return False
        label, x = example.labels.get("L(x)"), np.array(example.points.get("x", ()))
        names, model = about.fitted.model.unit_names, about.fitted.model
        units = np.searchsorted(names, rows)
        if not np.array_equal(names[np.minimum(units, len(names) - 1)], rows) or label is None:
            return False
        if not about.box.contains(x[None])[0] or label not in self.labels:
            return False
        other = _fit_changed(model, self.change, units)
        value = confidence(model.scores(x[None])[0], label)
        if other is None or not value > 0 or value != result.lower:
            return False
        region = Region.of(model.design, x, x)
        return any(
            score.of(other.model.coefficients) @ model.design(x[None])[0]
            < -_distance(other, score, region)
            for score in scores_of(about.fitted.family, label)
        )

    @property
    def floor(self) -> float | None:
        """The greatest number that does not refute a guarantee; None for a find."""
        if isinstance(self.asked.statement, Find):
            return None
        if isinstance(self.asked, IdpStatement):
            return floor_of(self.asked)
        bound = self.asked.bound
        assert bound is not None
        return math.nextafter(bound, -math.inf) if self.asked.strict else bound

    @property
    def labels(self) -> list[int | None]:
        """The labels that are asked about; None stands for all scores."""
        if isinstance(self.asked, ScoreStatement):
            return [None]
        every = range(self.about.labels)
        return [*every] if self.asked.label is None else [self.asked.label]


@dataclass(frozen=True, eq=False)
class _Witness:
    """Rows whose change alters an answer, and the input."""

    label: int
    units: Integers
    x: Floats
    value: float
    scores: Floats
    theirs: Floats


class LinearChanges(Engine[ChangeJob]):
    """Leaks and differences after any few rows changed."""

    subject: ClassVar[Subject] = "linear changes"
    claims = "linear"

    def __init__(self, context: Context, leaks: LinearLeaks) -> None:
        super().__init__(context)
        self.leaks = leaks

    def _recognise(self, statement: Statement) -> IdpStatement | ScoreStatement | LeaveoutError:
        resolver = self.context.resolver
        claim = statement.claim
        domains = [each.domain for each in claim.binders] if isinstance(claim, ForAll) else []
        calls = [resolver.value(each) for each in domains]
        if not any(isinstance(each, Call) and each.function in _CHANGES for each in calls):
            return resolver.fail(statement.claim, "this claim is about no change of a few rows")
        asked = recognise(statement, resolver, LINEARS)
        if isinstance(asked, IdpStatement):
            return asked
        scores = read_scores(statement, resolver)
        if isinstance(scores, ScoreStatement) and not scores.is_difference:
            raise resolver.fail(
                statement.claim,
                f"thresholds are decided of leave_one_out only, not of {', '.join(_CHANGES)}",
                "claim labels, or difference(L, M, x) <= d",
            )
        # Of linear models no other engine decides this.
        if not isinstance(scores, ScoreStatement):
            raise asked
        return scores

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        asked = self._recognise(statement)
        return asked if isinstance(asked, LeaveoutError) else None

    def load(self, statement: Statement) -> ChangeJob:
        asked, resolver = self._recognise(statement), self.context.resolver
        assert not isinstance(asked, LeaveoutError)
        model = asked.network if isinstance(asked, IdpStatement) else asked.model
        about = self.leaks.linears(model, asked.family, asked.box)
        call = resolver.value(asked.family)
        assert isinstance(call, Call)
        given, fitted = resolver.bound_arguments(call), about.fitted.model
        if isinstance(asked, IdpStatement):
            self._refuse_labels(asked, about)
        else:
            self.leaks.refuse_loose_scores(model, about)
        if call.function == "add_one":
            reader = InputReader(resolver, fitted.inputs, "linear model")
            family, within = self.leaks.family_of(about, asked.family), reader.read(given["within"])
            change = Change("add_one", 1, region_of(family, within))
            return ChangeJob(asked, about, change, within)
        count = resolver.number(given["rows"]) or 0.0
        if not count.is_integer() or not 1 <= count < len(fitted.unit_names):
            raise resolver.fail(
                given["rows"],
                f"rows must be a whole number from 1 to {len(fitted.unit_names) - 1}",
            )
        if call.function == "leave_out":
            return ChangeJob(asked, about, Change("leave_out", int(count)))
        if fitted.kind not in ("logistic", "ridge") or len(fitted.labels) != 2:
            raise resolver.fail(
                asked.family, "flipped labels are told of two labels, logistic or ridge, only"
            )
        if fitted.groups is not None:
            raise resolver.fail(asked.family, "labels of rows are flipped, not of groups")
        return ChangeJob(asked, about, Change("relabel", int(count)))

    def _refuse_labels(self, asked: IdpStatement, about: Linears) -> None:
        fail = self.context.resolver.fail
        if not about.labels:
            raise fail(
                asked.network, "a regression has no labels", "claim difference(L, M, x) <= d"
            )
        if asked.label is not None and asked.label >= about.labels:
            wrong = f"label {asked.label} is out of range"
            raise fail(asked.label_at or asked.network, wrong, about.known_labels)

    def outline(self, job: ChangeJob) -> Outline:
        return Outline.of(job.asked.statement, 1, {**job.about.outline(), "searches": "1"})

    def models(self, job: ChangeJob) -> list[ModelRecord]:
        # None of its rows alone is asked about.
        record = job.about.model_record(job.asked.statement.name)
        return [structs.replace(record, members=0)]

    def decide(self, job: ChangeJob, clock: Clock) -> list[Result]:
        family = self.leaks.family_of(job.about, job.asked.family)
        try:
            budgets = budgets_of(family, job.change)
        except Rejected as error:
            fitted = job.about.fitted
            raise self.context.resolver.fail(job.asked.family, f"{fitted.file}: {error}") from None
        statement = job.asked.statement
        per_label = isinstance(statement, Find) and statement.per_label
        labels = [[each] for each in job.labels] if per_label else [job.labels]
        clock.next()
        return [self._result(job, family, budgets, own) for own in labels]

    def _result(
        self, job: ChangeJob, family: Family, budgets: tuple[Budget, ...], labels: list[int | None]
    ) -> Result:
        began, region = time.perf_counter(), region_of(family, job.about.box)
        upper, worst, alone = 0.0, labels[0], np.zeros(len(family))
        for label in labels:
            most = 0.0
            for score in scores_of(family, label):
                bound, own = largest_fall(family, budgets, region, score)
                # Another machine may round otherwise.
                most = max(most, bound * (1.0 + 1e-9) + 1e-12)
                if most >= upper:
                    upper, worst, alone = most, label, own
            self._certify(job, label, most)
        witness = None
        if worst is not None and job.change.within is None and math.isfinite(upper):
            witness = self._witness(job, family, worst, alone)
        floor, lower = job.floor, 0.0 if witness is None else witness.value
        if floor is not None and lower > floor:
            verdict, reason = "refuted", None
        elif upper <= floor if floor is not None else agree(lower, upper, self.context.options.gap):
            verdict, reason = "proved", None
        else:
            verdict = "unknown"
            reason = "numerical: the bound adds up the most that each row changes, wherever it does"
            if not math.isfinite(upper):
                reason = "numerical: too many rows, or too near the edge, for a bound of the step"
        scores = isinstance(job.asked, ScoreStatement)
        one = labels[0] if len(labels) == 1 else None
        return Result(
            name=job.asked.statement.name, kind=kind_of(job.asked.statement),
            verdict=verdict,  # type: ignore[arg-type]
            lower=None if floor is not None and scores else finite(lower),
            upper=None if floor is not None and scores else finite(upper),
            label=one, label_name=job.about.label_name(one), witness=None,
            example=None if witness is None else self._example(job, witness),
            seconds=round(time.perf_counter() - began, 3), engine="linear", solver=None,
            reason=reason, box=box_record(job.about.box), members=0,
        )  # fmt: skip

    def _certify(self, job: ChangeJob, label: int | None, upper: float) -> None:
        name, book = job.asked.statement.name, self.leaks.book
        if book is None:
            return
        if math.isfinite(upper):
            book.add_change(name, job.about, job.claim_fields(label), upper)
            book.target.linear(book)
        else:
            book.target.without(name, "no finite bound was proved")

    def _witness(
        self, job: ChangeJob, family: Family, label: int, alone: Floats
    ) -> _Witness | None:
        """Change the rows that lower a margin most, and look for an answer that flips."""
        model, region = family.model, region_of(family, job.about.box)
        points = Points.of(model.design, job.about.box, region)
        best: _Witness | None = None
        for score in scores_of(family, label):
            falls = alone
            for _ in range(_ROUNDS):
                units = np.sort(np.argsort(-falls, kind="stable")[: job.change.count])
                other = _fit_changed(model, job.change, units)
                if other is None:
                    break
                own, theirs = (score.of(each.coefficients) for each in (model, other.model))
                slack = _distance(other, score, region)
                if not math.isfinite(slack):
                    break
                x = None
                for t in (1.0, 0.5, 0.8, 1.2, 2.0):
                    x = points.reach(own, theirs, t, -slack * (1 + 1e-9) - 1e-12)
                    if x is not None and job.about.box.contains(x[None])[0]:
                        value = confidence(model.scores(x[None])[0], label)
                        if value > 0 and (best is None or value > best.value):
                            scores = model.scores(x[None])[0], other.model.scores(x[None])[0]
                            best = _Witness(label, units, x, value, *scores)
                if x is None:
                    break
                falls = _falls(family, job.change, score, x)
        return best

    def _example(self, job: ChangeJob, found: _Witness) -> ExampleRecord:
        names, model = job.about.fitted.names, job.about.fitted.model
        rows = model.unit_names[found.units].tolist()
        told = join_some([row_name(row, names.row_id(row), names.group) for row in rows], _SHOWN)
        how = "without" if job.change.kind == "leave_out" else "with flipped labels of"
        answer = int(np.argmax(found.theirs))
        before, after = (label_phrase(k, names.label_name(k)) for k in (found.label, answer))
        features = () if names.columns is None else names.columns.features
        return ExampleRecord(
            points={"x": tuple(found.x.tolist())},
            scores={"L(x)": tuple(found.scores.tolist()), "M(x)": tuple(found.theirs.tolist())},
            labels={"L(x)": found.label, "M(x)": answer},
            words=f"{how} {told} the answer at x flips from {before} to {after}, confidence "
            f"{found.value:.4g}, where x is {names.point(found.x)}",
            features=features, label_names=names.labels, facts={"rows": tuple(rows)},
        )  # fmt: skip


def _fit_changed(model: LinearModel, change: Change, units: Integers) -> Family | None:
    """Return the model after a change of some units, with what is known of its own minimum."""
    chosen = np.isin(model.units, units)
    weights, y = model.weights, model.y
    if change.kind == "leave_out":
        weights = np.where(chosen, 0.0, weights)
    else:
        y = np.where(chosen, 1.0 - y, y)
    other = replace(model, weights=weights, y=y)
    try:
        found = coefficients_of(other.problems, model.coefficients)
        return bound_members(replace(other, coefficients=found))
    except LinearError:
        return None


def _distance(family: Family, score: Score, region: Region) -> float:
    """Bound how far the minimum's score may be from the model's own, anywhere in a region."""
    total = 0.0
    for part, _, folded in family.folds(score):
        total += fit_radius(part.problem, part.at) * region.reach(folded)
    return total + 3.0 * family.served_error(score, region.sizes, region.roundings)


def _falls(family: Family, change: Change, score: Score, x: Floats) -> Floats:
    """Return about how much each unit alone lowers a score at an input."""
    rows, found = family.model.design(x[None])[0], np.zeros(len(family))
    budgets = budgets_of(family, change)
    for (part, _, folded), budget in zip(family.folds(score), budgets, strict=False):
        v = (part.at.R @ (folded.T @ rows)).reshape(part.at.theta.shape)
        for first, last, design in part.problem.blocks(family.model.design.width):
            shares = (budget.b[first:last] * (design @ v.T)).sum(axis=1)
            unit = np.searchsorted(part.problem.starts, np.arange(first, last), side="right") - 1
            np.add.at(found, unit, -shares)
    return found
