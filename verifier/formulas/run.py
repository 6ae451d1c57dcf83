"""Decide a statement over points and networks, question by question."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leaveout.bab import Progress
from leaveout.bab.linear import LinearOptions, LinearResult, maximise
from leaveout.bab.linear.crude import Crude
from leaveout.bab.linear.question import question_of
from leaveout.bab.linear.seek import Seeker
from leaveout.encoders.query import Form
from leaveout.specs import Guarantee
from leaveout.verifier.formulas.job import FormulaJob, Part
from leaveout.verifier.report import ExampleRecord, Result
from leaveout.verifier.words import box_record

__all__ = ["decide_formula"]

StatementProgress = Callable[[str, Progress], None]

_ENGINE = "native"

_SAME = 1e-9
"""Bounds so close are equal, also where both are about 0."""

_TRIED = 16
"""Cases of which samples are replayed, whatever the time: one point that counts is a bound."""


@dataclass(frozen=True)
class _Answer:
    part: Part
    result: LinearResult


def decide_formula(
    job: FormulaJob,
    label: int | None,
    seconds: float | None,
    *,
    seed: int = 0,
    gap: float = 1e-3,
    progress: StatementProgress | None = None,
) -> tuple[Result, bool]:
    """Return a result of one statement, and whether Ctrl-C ended it.

    Parameters
    ----------
    job : FormulaJob
    label : int or None
        One of the job's labels.
    seconds : float or None
    seed : int
    gap : float
        Relative gap at which the bounds of a find count as closed.
    progress : callable, optional
    """
    decision = _Decision(job, label, seconds, seed, gap, progress)
    return decision.result(), decision.interrupted


class _Decision:
    def __init__(
        self,
        job: FormulaJob,
        label: int | None,
        seconds: float | None,
        seed: int,
        gap: float,
        progress: StatementProgress | None,
    ) -> None:
        self.job, self.label = job, label
        self.parts = [part for part in job.parts if part.label == label]
        self.started = time.perf_counter()
        self.deadline = None if seconds is None else self.started + seconds
        self.seed, self.gap, self.progress = seed, gap, progress
        self.lower, self.upper = -math.inf, -math.inf
        self.best: _Answer | None = None
        self.crude: dict[int, float] = {}
        self.open: list[_Answer] = []
        self.interrupted = False

    @property
    def decides(self) -> bool:
        return isinstance(self.job.statement, Guarantee)

    def result(self) -> Result:
        self._look()
        for i, part in enumerate(self.parts):
            self._solve(part, len(self.parts) - i)
            if self.decides and self.best is not None:
                break
        return self._record()

    def _look(self) -> None:
        """Bound every case from both sides before any is searched: the time may end at once."""
        if self.deadline is None:
            return
        try:
            known: Crude | None = None
            for part in self.parts:
                if known is None or known.query is not part.query:
                    known = Crude(part.query)
                self.crude[id(part)] = known.upper(part.case, _goals(part))
            for i, part in enumerate(self.parts if not self.decides else ()):
                if self.best or (i >= _TRIED and time.perf_counter() >= self.deadline):
                    break
                question = question_of(part.query, part.case, _goals(part))
                found = Seeker(question, seed=self.seed).first(self.started)
                if found is not None:
                    answer = LinearResult(found.value, math.inf, found, False, "time", 0, 0.0)
                    self.lower, self.best = found.value, _Answer(part, answer)
        except KeyboardInterrupt:
            self.interrupted = True

    def _left(self, part: Part) -> None:
        """Record what is known of a case that is not searched."""
        upper = self.crude.get(id(part), math.inf)
        self.upper = max(self.upper, upper)
        if upper >= 0.0 if self.decides else upper > self.lower:
            late = LinearResult(-math.inf, upper, None, False, "time", 0, 0.0)
            self.open.append(_Answer(part, late))

    def _solve(self, part: Part, left: int) -> None:
        share = None
        now = time.perf_counter()
        if self.interrupted or (self.deadline is not None and now >= self.deadline):
            self._left(part)
            return
        if self.deadline is not None:
            share = max(0.0, self.deadline - now) / left
        question = question_of(part.query, part.case, _goals(part))
        found = maximise(
            question,
            LinearOptions(share, self.gap, seed=self.seed),
            decide=0.0 if self.decides else None,
            known=None if self.decides else self.lower,
            progress=self._tell,
        )
        self.interrupted = self.interrupted or found.interrupted
        answer = _Answer(part, found)
        if found.found is not None and found.lower > self.lower:
            self.lower, self.best = found.lower, answer
        self.upper = max(self.upper, found.upper)
        if not found.closed:
            self.open.append(answer)

    def _tell(self, lower: float, upper: float, open_nodes: int, seconds: float) -> None:
        if self.progress is None:
            return
        passed = time.perf_counter() - self.started
        left = None
        if self.deadline is not None:
            left = max(0.0, self.deadline - time.perf_counter())
        low, high = max(lower, self.lower), max(upper, self.upper)
        self.progress(
            self.job.statement.name,
            Progress(self.label or 0, low, high, open_nodes, 0, passed, left),
        )

    def _record(self) -> Result:
        job, decides = self.job, self.decides
        lower, upper = self.lower, max(self.upper, self.lower)
        if decides:
            verdict = "refuted" if self.best else "unknown" if self.open else "proved"
        else:
            closed = not self.open or (
                math.isfinite(lower) and upper - lower <= max(_SAME, self.gap * abs(lower))
            )
            verdict = "proved" if closed else "unknown"
        reason = None
        if verdict == "unknown":
            reasons = {str(each.result.reason) for each in self.open}
            kind = "time" if "time" in reasons else "numerical"
            detail = (
                "interrupted"
                if self.interrupted
                else f"{len(self.open):,} of {len(self.parts):,} cases open"
            )
            if not decides and not math.isfinite(lower):
                detail += "; no point that counts was found, so one side has no bound"
            elif not decides and not math.isfinite(upper):
                detail += "; propagation gives no finite bound"
            reason = f"{kind}: {detail}"
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
            example=self._example(),
            seconds=round(time.perf_counter() - self.started, 3),
            engine=_ENGINE,
            solver=None,
            reason=reason,
            box=box_record(job.boxes[0]),
            members=job.members,
        )

    def _example(self) -> ExampleRecord | None:
        if self.best is None or self.best.result.found is None:
            return None
        found, part = self.best.result.found, self.best.part
        points = {
            name: tuple(float(v) for v in point)
            for name, point in zip(self.job.points, found.points, strict=True)
        }
        scores = {
            each.name: tuple(float(v) for v in score)
            for each, score in zip(part.query.applications, found.scores, strict=True)
        }
        labels = {
            each.name: int(np.argmax(score))
            for each, score in zip(part.query.applications, found.scores, strict=True)
        }
        members = {name: index for name, index, _ in part.members}
        removed = {name: row for name, _, row in part.members}
        return ExampleRecord(
            points=points, scores=scores, labels=labels, members=members, removed=removed,
            words=_words(points, scores, labels, removed),
        )  # fmt: skip


def _goals(part: Part) -> tuple[Form, ...]:
    if not part.case and not part.goals:
        # Whatever the point, it is a counter-example.
        return (Form(),)
    return part.goals


def _words(
    points: dict[str, tuple[float, ...]],
    scores: dict[str, tuple[float, ...]],
    labels: dict[str, int],
    removed: dict[str, int],
) -> str:
    at = _digits([*points.values()])
    where = "; ".join(f"{name} = {_row(values, at)}" for name, values in points.items())
    # As many digits as tell the label that wins from the others.
    at = max((_digits([(v,) for v in row]) for row in scores.values()), default=4)
    at = max(at, _digits([*scores.values()]))
    gives = ", ".join(
        f"{name} answers {labels[name]} with scores {_row(values, at)}"
        for name, values in scores.items()
    )
    without = "".join(f" ({name} lacks row {row})" for name, row in removed.items())
    return f"where {where}: {gives}{without}" if gives else f"where {where}"


def _row(values: tuple[float, ...], digits: int) -> str:
    shown = ", ".join(f"{value:.{digits}g}" for value in values[:12])
    return f"({shown}{', ...' if len(values) > 12 else ''})"


def _digits(rows: list[tuple[float, ...]]) -> int:
    """Return how many digits tell rows apart that are not the same."""
    for digits in (4, 6):
        if len({_row(row, digits) for row in rows}) == len(set(rows)):
            return digits
    return 9


def _finite(value: float) -> float | None:
    # Adding 0 turns -0 into 0.
    return value + 0.0 if math.isfinite(value) else None
