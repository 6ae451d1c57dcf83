"""Decision of statements over points and networks, one question at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from msgspec import structs

from leaveout.bab import Progress, SearchResult
from leaveout.bab.joint_claim import join_claim
from leaveout.bab.native.claims import BELOW, Claims, tune_ascents
from leaveout.bab.native.explorer import Group
from leaveout.bab.native.files.checkpoint import Checkpoint, Checkpoints
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.search import search_question
from leaveout.errors import LeaveoutError
from leaveout.models import Manifest
from leaveout.specs import Guarantee
from leaveout.verifier.points.advice import Case
from leaveout.verifier.points.job import Asked, FormulaJob, Solved, load_formula, why_no_formula
from leaveout.verifier.points.leak_decider import Trace
from leaveout.verifier.points.sentences import (
    box_record,
    groups_record,
    point_words,
    row_id,
    row_name,
)
from leaveout.verifier.records import ExampleRecord, GroupsRecord, TraceRecord
from leaveout.verifier.report import Result
from leaveout.verifier.tasks import Context, Engine, Outline, Statement, Subject
from leaveout.verifier.time_sharing import Clock, in_turn
from leaveout.written import first_few

_NO_IDS: Mapping[str, str] = {}

_SHOWN = 12  # features and scores of a sentence
_SAME = 1e-9  # bounds so close are equal, also where both are about 0


def make_claims(asked: Asked, seed: int, seconds: float | None = None) -> Claims:
    """Return a question of a statement in the engine's form."""
    label = -1 if asked.label is None else asked.label
    return Claims(join_claim(asked.query, asked.cases, seconds=seconds), label, seed)


class Formulas(Engine[FormulaJob]):
    """Claims over points and networks, as questions in linear forms."""

    subject: ClassVar[Subject] = "points"
    claims = "formula"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._checkpoints: dict[Asked, Checkpoint] = {}

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        return why_no_formula(statement, self.context.resolver)

    def load(self, statement: Statement) -> FormulaJob:
        job = load_formula(statement, self.context.resolver)
        self.note(*job.notes)
        return job

    def searches(self, job: FormulaJob) -> int:
        return len(job.labels)

    def kernels(self, job: FormulaJob) -> Sequence[str]:
        return ("points",)

    def explain(self, job: FormulaJob) -> Case:
        manifests = {id(each): each for asked in job.questions for _, each in asked.manifests}
        return Case(job.boxes[0], next(iter(manifests.values())) if len(manifests) == 1 else None)

    def outline(self, job: FormulaJob) -> Outline:
        points = zip(job.points, job.boxes, strict=True)
        cases = sum(len(asked.cases) for asked in job.questions)
        about = {
            "points": ", ".join(f"{name} of {box.dimension:,} features" for name, box in points),
            **{what: ", ".join(sorted(models)) for what, models in self._models_of(job).items()},
            **({"members": f"{job.members:,}"} if job.members else {}),
            "searches": f"{cases:,}, one for each case that would refute it",
        }
        return Outline.of(job.statement, cases, about)

    def _models_of(self, job: FormulaJob) -> dict[str, set[str]]:
        """Return what models are applied, by their kind."""
        networks = {
            f"{each.name} ({sum(layer.width for layer in stack.layers[:-1]):,} {stack.unit})"
            for asked in job.questions
            for each in asked.query.applications
            for stack in (each.network.stack,)
        }
        return {"networks": networks}

    def resume(self, job: FormulaJob, store: Checkpoints) -> list[Checkpoint]:
        options, found = self.context.options, {}
        for number, asked in enumerate(job.questions):
            # Several questions of one statement, each with a search of its own.
            name = job.statement.name + (f" {number}" if len(job.questions) > 1 else "")
            found[asked] = store.of(
                make_claims(asked, options.seed).digests(), asked.label or 0,
                options.native(None), name, str(job.statement),
            )  # fmt: skip
        self._checkpoints |= found
        return list(found.values())

    def _decision(
        self, job: FormulaJob, label: int | None, clock: Clock, solved: list[Solved] | None
    ) -> Decision:
        return Decision(job, label, clock, self.context, self._checkpoints, solved)

    def decide(self, job: FormulaJob, clock: Clock) -> list[Result]:
        return [self._result(job, label, clock) for label in job.labels]

    def _result(self, job: FormulaJob, label: int | None, clock: Clock) -> Result:
        certificate = self.context.certificate
        solved: list[Solved] | None = None if certificate is None else []
        decision = self._decision(job, label, clock, solved)
        result = decision.result()
        if certificate is not None and result.verdict != "refuted":
            name = result.name if label is None else f"{result.name}, label {label}"
            asked = sum(bool(each.cases) for each in decision.questions)
            certificate.points(name, solved or [], asked, decides=decision.decides)
        clock.interrupted = clock.interrupted or decision.clock.interrupted
        return result


class Decision:
    """The decision of one result: a question at a time, as long as it can matter."""

    engine = "native"

    def __init__(
        self,
        job: FormulaJob,
        label: int | None,
        clock: Clock,
        context: Context,
        checkpoints: Mapping[Asked, Checkpoint],
        solved: list[Solved] | None,
    ) -> None:
        self.solved, self.executor = solved, context.executor
        self.job, self.label, self.options = job, label, context.options
        self.questions = [asked for asked in job.questions if asked.label == label]
        self.started = time.perf_counter()
        self.clock = clock.part(len(self.questions))
        self.checkpoints, self.progress = checkpoints, context.progress
        self.lower, self.upper = -math.inf, -math.inf
        self.best: tuple[Asked, Any] | None = None
        self.open: list[SearchResult[Any]] = []
        self.traces: list[TraceRecord] = []
        self.groups: list[GroupsRecord] = []

    @property
    def decides(self) -> bool:
        """Whether the statement is a guarantee."""
        return isinstance(self.job.statement, Guarantee)

    def result(self) -> Result:
        """Return the result."""
        in_turn(
            self.questions,
            self.solve,
            self.pass_over,
            self.clock,
            floor=BELOW if self.decides else -math.inf,
            decide=self.decides,
        )
        return self._record()

    def pass_over(self, asked: Asked) -> SearchResult[Any]:
        """Record a question before whose search Ctrl-C came."""
        return self.take(asked, unsearched_result(math.inf, closed=False))

    def solve(self, asked: Asked, floor: float) -> SearchResult[Any]:
        """Search a question, above what is known of the others."""
        if not asked.cases:
            self.clock.skip(1)
            return self.take(asked, unsearched_result(-math.inf, closed=True))
        share, begun = self.clock.next(), time.perf_counter()
        own = make_claims(asked, self.options.seed, share)
        # The first is looked at even where there is no time: one point that counts is a bound.
        if self.clock.interrupted or (share == 0.0 and asked is not self.questions[0]):
            return self._take_unsearched(asked, own)
        if own.overflows or own.space.overflows:
            why = "over the set, values inside the networks may be too large to be bounded"
            known = unsearched_result(math.inf, closed=False)
            return self.take(asked, replace(known, reason="numerical", detail=why))
        if share:
            share = max(1e-6, share - (time.perf_counter() - begun))
        trace = Trace()

        def report(progress: Progress) -> None:
            low, high = max(progress.lower, self.lower), max(progress.upper, self.upper)
            trace.add(replace(progress, lower=low, upper=high))
            self.tell(progress, low, high)

        kept, records, groups = self.solved is not None, list[Record](), list[Group]()
        options = replace(self.options.native(share), certificate=kept)
        options = tune_ascents(options, decides=self.decides)
        found = search_question(
            own, options, floor=floor, decide=self.decides, progress=report,
            checkpoint=self.checkpoints.get(asked), proofs=records.extend,
            groups=groups.extend if asked.shared and not self.decides else None,
            executor=self.executor,
        )  # fmt: skip
        if self.solved is not None and not found.contradicted:
            self.solved.append(Solved(own, asked.sources, found.upper, records))
        if groups:
            self._group(asked, found, groups)
        if len(self.questions) == 1:
            course = trace.record(found)
            self.traces += [course] if course is not None and not self.decides else []
        return self.take(asked, found)

    def _group(self, asked: Asked, found: SearchResult[Any], groups: list[Group]) -> None:
        """Store the members that the bound rests on."""
        ((_, family),) = asked.shared
        record = groups_record(
            family,
            None if found.witness is None else found.witness.member,
            groups,
            label=asked.label,
            about="least" if self.job.sign > 0 else "greatest",
        )
        self.groups += [record] if record.groups else []

    def take(self, asked: Asked, found: SearchResult[Any]) -> SearchResult[Any]:
        """Record what was found out about a question."""
        if found.witness is not None and found.lower > self.lower:
            self.lower, self.best = found.lower, (asked, found.witness)
        self.upper = max(self.upper, found.upper)
        if not found.closed:
            self.open.append(found)
        return found

    def _take_unsearched(self, asked: Asked, own: Claims) -> SearchResult[Any]:
        """Record what is known of a question that was not searched."""
        upper = own.most
        closed = upper < 0.0 if self.decides else upper <= self.lower
        return self.take(asked, unsearched_result(upper, closed=closed))

    def tell(self, progress: Progress, lower: float, upper: float) -> None:
        """Report progress with the bounds of all questions."""
        if self.progress is None:
            return
        shown = replace(
            progress, label=self.label or 0, lower=lower, upper=upper,
            seconds=time.perf_counter() - self.started, remaining=self.clock.seconds_left,
        )  # fmt: skip
        self.progress(self.job.statement.name, shown)

    def _record(self) -> Result:
        job, decides, gap = self.job, self.decides, self.options.gap
        lower, upper = self.lower, max(self.upper, self.lower)
        if decides:
            verdict = "refuted" if self.best else "unknown" if self.open else "proved"
        else:
            closed = not self.open or (
                math.isfinite(lower) and upper - lower <= max(_SAME, gap * abs(lower))
            )
            verdict = "proved" if closed else "unknown"
        reason = self._reason(lower, upper) if verdict == "unknown" else None
        if job.sign < 0:
            lower, upper = -upper, -lower
        return Result(
            name=job.statement.name,
            kind="guarantee" if decides else "find",
            verdict=verdict,  # type: ignore[arg-type]
            lower=None if decides else _finite(lower),
            upper=None if decides else _finite(upper),
            label=self.label,
            witness=None,
            example=self.example(),
            seconds=round(time.perf_counter() - self.started, 3),
            engine=self.engine,
            solver=None,
            reason=reason,
            box=box_record(job.boxes[0]),
            members=job.members,
            traces=tuple(_with_sign(each, job.sign) for each in self.traces),
            groups=tuple(self.groups),
        )

    def _reason(self, lower: float, upper: float) -> str:
        reasons = [str(each.reason) for each in self.open]
        kind = next((each for each in ("time", "solver") if each in reasons), "numerical")
        first = self.open[reasons.index(kind)] if kind in reasons else self.open[0]
        detail = "interrupted" if self.clock.interrupted else first.detail
        if len(self.questions) > 1:
            detail = (
                f"{len(self.open):,} of {len(self.questions):,} questions remain open; {detail}"
            )
        if not self.decides and not math.isfinite(lower):
            detail += "; no relevant point was found, so one side has no bound"
        elif not self.decides and not math.isfinite(upper):
            detail += "; propagation finds no finite bound"
        return f"{kind}: {detail}"

    def example(self) -> ExampleRecord | None:
        """Return the worst counter-example."""
        if self.best is None:
            return None
        asked, found = self.best
        points = {
            name: tuple(float(v) for v in point)
            for name, point in zip(self.job.points, found.points, strict=True)
        }
        pairs = list(zip(asked.query.applications, found.scores, strict=True))
        scores = {each.name: tuple(float(v) for v in score) for each, score in pairs}
        labels = {each.name: int(np.argmax(score)) for each, score in pairs}
        return example_of(asked, points, scores, labels, found.member)


def example_of(
    asked: Asked, points: dict[str, tuple[float, ...]], scores: dict[str, tuple[float, ...]],
    labels: dict[str, int], member: int,
) -> ExampleRecord:  # fmt: skip
    """Return what is told of a counter-example of networks; ``member`` is that of a family."""
    known = list(asked.members)
    known += [(name, member, int(family.removed[member])) for name, family in asked.shared]
    removed = {name: row for name, _, row in known}
    manifests = dict(asked.manifests)
    ids = {name: row_id(manifests[name].data, row) for name, row in removed.items()}
    said = Named.of(list(manifests.values()))
    return ExampleRecord(
        points={**points}, scores=scores, labels=labels,
        members={name: index for name, index, _ in known}, removed=removed,
        words=in_words(points, scores, labels, removed, ids, said),
        removed_ids={name: each for name, each in ids.items() if each},
        features=said.features, label_names=said.labels,
    )  # fmt: skip


@dataclass(frozen=True)
class Named:
    """Column and label names; empty if unknown."""

    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    manifest: Manifest | None = None  # of networks trained on one data set

    @staticmethod
    def of(manifests: list[Manifest]) -> Named:
        """Return the names; of several families one could mean another thing in each."""
        manifest = manifests[0] if len({id(each) for each in manifests}) == 1 else None
        if manifest is None or manifest.data is None:
            return Named(manifest=manifest)
        return Named(manifest.data.features, manifest.data.labels, manifest)

    def label(self, label: int, labels: int) -> str:
        """Return the name of a label of a model with ``labels`` labels."""
        name = self.labels[label] if len(self.labels) == labels else ""
        return f"{label} ({name})" if name not in ("", str(label)) else str(label)

    def point(self, values: tuple[float, ...], digits: int) -> str:
        """Return a point in the units of the data, where they are known."""
        if self.manifest is None or len(self.features) != len(values):
            return _row(values, digits)
        return point_words(self.manifest, np.asarray(values, np.float32))


def unsearched_result(upper: float, *, closed: bool) -> SearchResult[Any]:
    """Return what is known of a question without a search."""
    return SearchResult(
        label=-1,
        lower=-math.inf,
        upper=upper,
        witness=None,
        closed=closed,
        reason=None if closed else "time",
        detail="no time was left for the search",
        member_upper=np.array([upper]),
        solved=0,
        seconds=0.0,
    )


def _with_sign(trace: TraceRecord, sign: float) -> TraceRecord:
    """Return bounds over time; if ``sign`` < 0, the negative was searched: negate and swap them."""
    if sign > 0:
        return trace
    lower = tuple(-value for value in trace.upper)
    return structs.replace(trace, lower=lower, upper=tuple(-value for value in trace.lower))


def in_words(
    points: dict[str, tuple[float, ...]],
    scores: dict[str, tuple[float, ...]],
    labels: dict[str, int],
    removed: dict[str, int],
    ids: Mapping[str, str] = _NO_IDS,
    named: Named = Named(),
) -> str:
    """Return a counter-example in a sentence."""
    at = _digits([*points.values()])
    where = "; ".join(f"{name} = {named.point(values, at)}" for name, values in points.items())
    # As many digits as tell the label that wins from the others.
    at = max((_digits([(v,) for v in row]) for row in scores.values()), default=4)
    at = max(at, _digits([*scores.values()]))
    gives = ", ".join(
        f"{name} answers {named.label(labels[name], len(values))} with scores {_row(values, at)}"
        if name in labels
        else f"{name} returns {_row(values, at)}"
        for name, values in scores.items()
    )
    without = "".join(
        f" ({name} lacks {row_name(row, ids.get(name, ''))})" for name, row in removed.items()
    )
    return f"where {where}: {gives}{without}" if gives else f"where {where}"


def _row(values: tuple[float, ...], digits: int) -> str:
    words = ("missing" if math.isnan(value) else f"{value:.{digits}g}" for value in values)
    return f"({first_few(words, _SHOWN)})"


def _digits(rows: list[tuple[float, ...]]) -> int:
    """Return how many digits distinguish different rows."""
    for digits in (4, 6):
        if len({_row(row, digits) for row in rows}) == len(set(rows)):
            return digits
    return 9


def _finite(value: float) -> float | None:
    # Adding 0 turns -0 into 0.
    return value + 0.0 if math.isfinite(value) else None
