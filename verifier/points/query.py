"""Decision of neutral queries, such as those read from VNN-LIB."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import NativeOptions
from leaveout.bab.joint_claim import join_claim
from leaveout.bab.native.claims import BELOW, Claims, tune_ascents
from leaveout.bab.native.files.certificate import Source
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.search import search_question
from leaveout.deadline import Deadline
from leaveout.encoders import Box
from leaveout.encoders.query import Case, Condition, Query
from leaveout.specs.vnnlib.rounding import above, below
from leaveout.verifier.report import Verdict

if TYPE_CHECKING:
    from leaveout.verifier.points.job import Solved

_SHARE, _FIRST = 0.25, 20.0
"""Share of the time, and most seconds, that a query without its alternatives may take."""

QueryProgress = Callable[[float, float, int, float], None]
"""Called with lower, upper, open nodes and seconds."""


@dataclass(frozen=True, eq=False)
class Decision:
    """What is known of a query."""

    verdict: Verdict
    reason: str | None  # of "unknown"
    points: tuple[NDArray[np.float32], ...] | None  # the counter-example, or the worst one found
    scores: tuple[NDArray[np.float32], ...] | None
    lower: float
    upper: float
    seconds: float
    interrupted: bool = False
    nodes: int = 0  # how many were bounded


def decide(
    query: Query,
    *,
    seconds: float | None = None,
    seed: int = 0,
    gap: float = 1e-3,
    progress: QueryProgress | None = None,
    solved: list[Solved] | None = None,
    ready: Callable[[], None] | None = None,
) -> Decision:
    """Find a counter-example, prove that there is none, or bound the worst one.

    Parameters
    ----------
    query : Query
    seconds : float, optional
        The answer then is what is known by that time.
    seed : int
    gap : float
        Relative gap at which bounds of the worst one count as closed.
    progress : callable, optional
    solved : list of Solved, optional
        Takes what a certificate needs of the search.
    ready : callable, optional
        Called before a search, unless propagation alone decides; its time does not count.

    Raises
    ------
    SpecError
        If a number of a form is too large to reckon with.
    """
    if query.alternatives:
        return _one_by_one(query, seconds, seed, progress, solved, ready)
    started = time.perf_counter()
    worst = () if query.worst is None else (query.worst,)
    cases = [Case(each, worst) for each in query.cases]
    if not cases:
        return Decision("proved", None, None, None, -math.inf, -math.inf, 0.0)
    claims, records = Claims(join_claim(query, cases, seconds=seconds), seed=seed), list[Record]()
    left = max(1e-6, seconds - time.perf_counter() + started) if seconds else seconds
    if ready is not None and claims.most >= BELOW:
        ready()
    options = NativeOptions(left, gap, seed=seed, certificate=solved is not None)
    found = search_question(
        claims,
        tune_ascents(options, decides=not worst),
        floor=-math.inf if worst else BELOW,
        decide=not worst,
        progress=None
        if progress is None
        else lambda each: progress(each.lower, each.upper, each.open_sets, each.seconds),
        proofs=records.extend,
    )
    if solved is not None:
        from leaveout.verifier.points.job import Solved

        sources = tuple(Source(Path(each.network.source)) for each in query.applications)
        solved.append(Solved(claims, sources, found.upper, records))
    witness = found.witness
    verdict: Verdict = "proved" if found.closed else "unknown"
    if witness is not None and not worst:
        verdict = "refuted"
    return Decision(
        verdict,
        None if verdict != "unknown" else found.reason,
        None if witness is None else witness.points,
        None if witness is None else witness.scores,
        found.lower if worst else -math.inf,
        found.upper if worst else math.inf,
        time.perf_counter() - started,
        found.interrupted,
        found.solved,
    )


def _one_by_one(
    query: Query,
    seconds: float | None,
    seed: int,
    progress: QueryProgress | None,
    solved: list[Solved] | None,
    ready: Callable[[], None] | None,
) -> Decision:
    """Decide a query without its alternatives, which then holds with them; split one if needed."""
    deadline, started = Deadline.after(seconds), time.perf_counter()
    waiting = [(replace(query, alternatives=()), query.alternatives)]
    open_: Decision | None = None
    nodes = 0
    while waiting:
        part, left = waiting.pop()
        limit = None if seconds is None else deadline.seconds_left * (_SHARE if left else 1.0)
        limit = min(_FIRST, limit or _FIRST) if left else limit
        own: list[Solved] | None = None if solved is None else []
        found = decide(part, seconds=limit, seed=seed, progress=progress, solved=own, ready=ready)
        nodes += found.nodes
        found = replace(found, seconds=time.perf_counter() - started, nodes=nodes)
        if found.verdict == "proved":
            if solved is not None:
                solved += own or []
            continue
        unmet = [each for each in left if not _is_met(each, found.points)]
        if (found.verdict == "refuted" and not unmet) or found.interrupted:
            return found
        if not left or deadline.over:
            # Another part may have a counter-example.
            open_ = found
            continue
        split = unmet[0] if unmet else left[0]
        others = tuple(each for each in left if each is not split)
        parts = (_with(part, case) for case in reversed(split))
        waiting += [(each, others) for each in parts if each is not None]
    if open_ is not None:
        return replace(open_, verdict="unknown", reason=open_.reason or "time", points=None)
    return Decision(
        "proved", None, None, None, -math.inf, -math.inf, time.perf_counter() - started, nodes=nodes
    )


def _is_met(cases: Sequence[Sequence[Condition]], points: Sequence[Any] | None) -> bool:
    """Return whether a point meets a case, as far as features alone decide."""
    if points is None:
        return False
    wide = [np.asarray(each, np.float64) for each in points]
    return any(
        all(
            not each.form.scores
            and (each.form.least(wide, []) > 0 if each.strict else each.form.least(wide, []) >= 0)
            for each in case
        )
        for case in cases
    )


def _with(query: Query, case: Sequence[Condition]) -> Query | None:
    """Return a query with a case's conditions added; None if no point meets them."""
    ends = [[box.lower.copy(), box.upper.copy()] for box in query.points]
    for condition in case:
        own = condition.form.numbers
        if own.scores or len(own.features) != 1:
            continue
        ((point, feature, factor),) = own.features
        bound = -own.constant / factor
        lower, upper = ends[point]
        if factor > 0:
            lower[feature] = max(lower[feature], below(bound))
        else:
            upper[feature] = min(upper[feature], above(bound))
    if any((lower > upper).any() for lower, upper in ends):
        return None
    boxes = tuple(
        Box(lower, upper, box.choices)
        for (lower, upper), box in zip(ends, query.points, strict=True)
    )
    cases = tuple((*each, *case) for each in query.cases)
    return replace(query, points=boxes, cases=cases)
