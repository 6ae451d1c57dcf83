"""How far a linear model's members' scores can be from its own, and past a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from leaveout.bab import SearchResult
from leaveout.bab.linear import Found, Goal, Search
from leaveout.deadline import NEVER, Deadline
from leaveout.errors import LeaveoutError
from leaveout.models.linear.family import centre
from leaveout.specs import Binder, Call, Compare, Expression, Find, ForAll, Guarantee, Implies, Name
from leaveout.specs.types import INPUTS, LINEARS
from leaveout.verifier.points.leak_decider import finite
from leaveout.verifier.points.leak_statements import MIRROR, OtherShapeError, names_model
from leaveout.verifier.points.linear_leaks import LinearLeaks, Linears
from leaveout.verifier.points.sentences import box_record, row_name
from leaveout.verifier.reachable import reachable
from leaveout.verifier.records import ExampleRecord, ModelRecord
from leaveout.verifier.report import Result
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.tasks import Context, Engine, Outline, Statement, Subject, kind_of
from leaveout.verifier.time_sharing import Clock

_SHAPES = (
    "it decides\n    forall x in X, M in F: difference(L, M, x) <= d\n"
    "    forall x in X, M in F: score(L, x) >= b => score(M, x) >= t\n"
    "also with <, and with <= or < for both scores; d or b may be the number to find"
)


@dataclass(frozen=True)
class ScoreStatement:
    """``difference(L, M, x) <= bound``, or ``score(L, x) >= bound => score(M, x) >= level``."""

    statement: Guarantee | Find
    model: Expression
    names: tuple[str, str, str]  # of the point, of the model and of the member
    family: Expression
    box: Expression
    output: Expression | None  # None: every output, or the only one
    sign: int  # -1 where scores below a bound are claimed to stay below
    level: float | None  # of the members' scores; None where differences are claimed
    bound: float | None  # None: to be found
    strict: bool  # whether N's scores that equal the bound, or such differences, are not allowed

    @property
    def is_difference(self) -> bool:
        """Whether differences are claimed."""
        return self.level is None


class _Reader:
    """Reads a statement about scores of a linear model and its members."""

    def __init__(self, statement: Statement, resolver: Resolver) -> None:
        self.statement, self.resolver = statement, resolver
        self.binders: dict[str, Binder] = {}

    def refuse(self, node: Expression, wrong: str) -> NoReturn:
        raise OtherShapeError(
            self.resolver.fail(node, f"the search over linear models: {wrong}", _SHAPES)
        )

    def read(self) -> ScoreStatement:
        claim = self.statement.claim
        if not isinstance(claim, ForAll):
            self.refuse(claim, "this claim is not a 'forall'")
        self.binders = {each.name: each for each in claim.binders}
        if isinstance(claim.body, Implies):
            return self.threshold(claim.body)
        return self.difference(claim.body)

    def difference(self, node: Expression) -> ScoreStatement:
        call, operator, other = self.sides(node, "difference")
        if operator not in ("<", "<="):
            self.refuse(node, "a difference is claimed to be at most a number")
        given = self.resolver.bound_arguments(call)
        models = given["network"], given["other"]
        members = [each for each in models if self.is_bound(each)]
        if len(members) != 1:
            self.refuse(call, "a difference compares the model with a member")
        (model,) = (each for each in models if each is not members[0])
        bound = self.bound(other, "least")
        member, strict = members[0], operator == "<"
        return self.statement_of(model, member, given["point"], None, 1, None, bound, strict)

    def threshold(self, node: Implies) -> ScoreStatement:
        first, above, bound = self.sides(node.left, "score")
        second, after, level_at = self.sides(node.right, "score")
        given, theirs = map(self.resolver.bound_arguments, (first, second))
        sign = 1 if above in (">", ">=") else -1
        if (after in (">", ">=")) != (sign > 0):
            self.refuse(node.right, "both scores must be above, or both below, a number")
        if self.is_bound(given["network"]) or not self.is_bound(theirs["network"]):
            self.refuse(node, "the premise is about the model, the conclusion about a member")
        if str(given["point"]) != str(theirs["point"]):
            self.refuse(node, "both scores must be at the same point")
        output, other = given.get("label"), theirs.get("label")
        numbers = [None if each is None else self.resolver.number(each) for each in (output, other)]
        if numbers[0] != numbers[1]:
            self.refuse(node, "both scores must be of the same output")
        level = self.resolver.number(level_at)
        if level is None:
            self.refuse(level_at, "the member's threshold must be a constant number")
        number = self.bound(bound, "least" if sign > 0 else "greatest")
        return self.statement_of(
            given["network"], theirs["network"], given["point"], output, sign, level, number,
            above in (">", "<"),
        )  # fmt: skip

    def sides(self, node: Expression, function: str) -> tuple[Call, str, Expression]:
        """Return the call of a comparison, its operator as seen from there, and the other side."""
        sides: list[tuple[Expression, str, Expression]] = []
        if isinstance(node, Compare) and node.operator in MIRROR:
            sides = [(node.left, node.operator, node.right)]
            sides += [(node.right, MIRROR[node.operator], node.left)]
        for left, operator, right in sides:
            if isinstance(left, Call) and left.function == function:
                return left, operator, right
        return self.refuse(node, f"expected a comparison of {function}(...) with a number")

    def bound(self, node: Expression, direction: str) -> float | None:
        statement = self.statement
        if isinstance(statement, Find):
            if not (isinstance(node, Name) and node.name == statement.variable):
                self.refuse(node, f"expected '{statement.variable}', the number to find")
            if statement.direction != direction or statement.per_label:
                self.refuse(node, f"the number to find is the {direction}, of all labels together")
            return None
        value = self.resolver.number(node)
        if value is None:
            self.refuse(node, "the bound must be a constant number")
        return value

    def is_bound(self, node: Expression) -> bool:
        return isinstance(node, Name) and node.name in self.binders

    def statement_of(
        self,
        model: Expression,
        member: Expression,
        point: Expression,
        output: Expression | None,
        sign: int,
        level: float | None,
        bound: float | None,
        strict: bool,
    ) -> ScoreStatement:
        if not self.is_bound(point):
            self.refuse(point, "expected the point that 'forall' binds")
        assert isinstance(point, Name)
        assert isinstance(member, Name)
        box, family = self.binders[point.name].domain, self.binders[member.name].domain
        if {*self.binders} != {point.name, member.name}:
            self.refuse(self.statement.claim, "'forall' must bind one point and one member")
        if self.resolver.type_of(box) != INPUTS or self.resolver.type_of(family) != LINEARS:
            self.refuse(family, "expected a family of linear models, e.g. leave_one_out(L)")
        return ScoreStatement(
            self.statement, model, (point.name, str(model), member.name), family, box, output, sign,
            level, bound, strict,
        )  # fmt: skip


def read_scores(statement: Statement, resolver: Resolver) -> ScoreStatement | LeaveoutError:
    """Read a statement about scores, or say why it is none."""
    try:
        return _Reader(statement, resolver).read()
    except OtherShapeError as other:
        return other.why


@dataclass(frozen=True, eq=False)
class ScoreJob:
    """A loaded statement about scores."""

    asked: ScoreStatement
    about: Linears
    output: int | None  # None: every output

    @property
    def goals(self) -> tuple[Goal, ...]:
        """What is to be bounded."""
        family, asked = self.about.fitted.family, self.asked
        if self.output is None:
            return tuple(Goal(family.output(k), None) for k in range(family.model.outputs))
        score = family.output(self.output)
        assert asked.level is not None
        return (Goal(score if asked.sign > 0 else -score, asked.sign * asked.level),)

    @property
    def floor(self) -> float | None:
        """The greatest number that does not refute a guarantee."""
        if self.asked.bound is None:
            return None
        bound = self.asked.bound * self.asked.sign
        # Differences of at most d are allowed, but only premises above b, or from b on, count.
        excluded = self.asked.strict if self.asked.is_difference else not self.asked.strict
        return math.nextafter(bound, -math.inf) if excluded else bound

    def replays(self, result: Result) -> bool:
        """Return whether a result's example reaches its lower bound, or refutes its claim."""
        example, (point, _, member) = result.example, self.asked.names
        if example is None or point not in example.points or member not in example.members:
            return False
        x, unit = np.asarray(example.points[point]), example.members[member]
        if x.shape != self.about.box.lower.shape or not 0 <= unit < self.about.members:
            return False
        search = Search(
            self.about.fitted.of(unit), self.about.box, self.goals, self.floor, 0.0, NEVER
        )
        found = search.replay(x, unit)
        if found is None:
            return False
        if self.floor is not None:
            return found > self.floor
        told = result.lower if self.asked.sign > 0 else result.upper
        return told is not None and found >= told * self.asked.sign - 1e-6 * (1.0 + abs(told))

    @property
    def claim_fields(self) -> dict[str, Any]:
        """What a certificate says of the claim."""
        level = self.asked.level
        kind = "difference" if level is None else "threshold"
        signed = 0.0 if level is None else level * self.asked.sign
        return {"kind": kind, "label": self.output, "sign": self.asked.sign, "level": signed}


class LinearScores(Engine[ScoreJob]):
    """Differences and thresholds of linear models' scores."""

    subject: ClassVar[Subject] = "linear scores"
    claims = "linear"

    def __init__(self, context: Context, leaks: LinearLeaks) -> None:
        super().__init__(context)
        self.leaks = leaks

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        read = read_scores(statement, self.context.resolver)
        if isinstance(read, ScoreStatement):
            return None
        checked, claim = self.context.checked, statement.claim
        calls = (each for each in reachable(claim, checked) if isinstance(each, Call))
        if names_model(statement, checked, "linear") and any(
            each.function in ("score", "difference") for each in calls
        ):
            # No other engine knows these of linear models.
            raise read
        return read

    def load(self, statement: Statement) -> ScoreJob:
        asked = read_scores(statement, self.context.resolver)
        if not isinstance(asked, ScoreStatement):
            raise asked
        self.leaks.refuse_other_families(asked.family)
        about = self.leaks.linears(asked.model, asked.family, asked.box)
        self.leaks.refuse_loose_scores(asked.model, about)
        self.leaks.family_of(about, asked.family)
        if asked.is_difference:
            return ScoreJob(asked, about, None)
        outputs, resolver = about.fitted.model.outputs, self.context.resolver
        if asked.output is None:
            if outputs > 1:
                raise resolver.fail(
                    asked.model, f"this model has {outputs} scores", "name one: score(L, x, 0)"
                )
            return ScoreJob(asked, about, 0)
        told = resolver.number(asked.output)
        number = int(told) if told is not None and told.is_integer() else -1
        if outputs == 1 and about.fitted.model.labels and number == 0:
            raise resolver.fail(asked.output, "label 0 of this model always scores 0", "use 1")
        place = number - 1 if outputs == 1 and about.fitted.model.labels else number
        if not 0 <= place < outputs:
            raise resolver.fail(asked.output, "there is no such score of this model")
        return ScoreJob(asked, about, place)

    def outline(self, job: ScoreJob) -> Outline:
        about = {**job.about.outline(), "searches": "1, over all members"}
        return Outline.of(job.asked.statement, 1, about)

    def models(self, job: ScoreJob) -> list[ModelRecord]:
        return [job.about.model_record(job.asked.statement.name)]

    def decide(self, job: ScoreJob, clock: Clock) -> list[Result]:
        asked, fitted, seconds = job.asked, job.about.fitted, clock.next()
        name = asked.statement.name
        search = Search(
            fitted.family, job.about.box, job.goals, job.floor, self.context.options.gap,
            Deadline.after(0.0 if clock.interrupted else seconds),
        )  # fmt: skip
        search.run()
        fitted.take(search.family)
        found = search.result()
        clock.interrupted = clock.interrupted or found.interrupted
        result = self._result(job, found)
        book = self.leaks.book
        if book is not None and result.verdict != "refuted":
            proved = asked.bound is not None and result.verdict == "proved"
            upper = job.floor if proved else found.upper
            assert upper is not None
            if math.isfinite(upper):
                book.add(name, job.about, job.claim_fields, search, upper)
                book.target.linear(book)
            else:
                book.target.without(name, "no finite bound was proved; raise the time limit")
        return [result]

    def _result(self, job: ScoreJob, found: SearchResult[Found]) -> Result:
        asked, floor = job.asked, job.floor
        lower, upper = found.lower, found.upper
        refuted = floor is not None and lower > floor
        verdict = "refuted" if refuted else "proved" if found.closed else "unknown"
        if asked.sign < 0:
            lower, upper = -upper, -lower
        decides = asked.bound is not None
        reason = f"{found.reason}: {found.detail}" if verdict == "unknown" else None
        return Result(
            name=asked.statement.name,
            kind=kind_of(asked.statement),
            verdict=verdict,  # type: ignore[arg-type]
            lower=None if decides else finite(lower),
            upper=None if decides else finite(upper),
            label=None,
            witness=None,
            example=None if found.witness is None else self._example(job, found.witness),
            seconds=round(found.seconds, 3),
            engine="linear",
            solver=None,
            reason=reason,
            box=box_record(job.about.box),
            members=job.about.members,
        )

    @staticmethod
    def _example(job: ScoreJob, found: Found) -> ExampleRecord:
        fitted, (x, N, M) = job.about.fitted, job.asked.names
        model, names = fitted.model, fitted.names
        other = replace(model, coefficients=centre(fitted.family, found.unit))
        scores, theirs = (each.raw_scores(found.x[None])[0] for each in (model, other))
        row = int(model.unit_names[found.unit])
        own = names.row_id(row)
        told = ", ".join(
            f"{name}({x}) = {_score_words(each)}" for name, each in ((N, scores), (M, theirs))
        )
        features = () if names.columns is None else names.columns.features
        return ExampleRecord(
            points={x: tuple(found.x.tolist())},
            scores={f"{N}({x})": tuple(scores.tolist()), f"{M}({x})": tuple(theirs.tolist())},
            labels={},
            members={M: found.unit},
            removed={M: row},
            words=f"without {row_name(row, own, names.group)}, {told}, where {x} is "
            f"{names.point(found.x)}",
            removed_ids={M: own} if own else {},
            features=features,
            label_names=names.labels,
        )


def _score_words(scores: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    told = [f"{each:.6g}" for each in scores[:12].tolist()]
    return told[0] if len(told) == 1 else f"({', '.join(told)})"
