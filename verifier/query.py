"""Decide a neutral query, such as one read from VNN-LIB."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.linear import LinearOptions, maximise
from leaveout.bab.linear.crude import Crude
from leaveout.bab.linear.question import question_of
from leaveout.encoders.query import Form, Query
from leaveout.verifier.report import Verdict

__all__ = ["Decision", "decide"]

QueryProgress = Callable[[float, float, int, float], None]
"""Called with lower, upper, open nodes and seconds of the case at hand."""


@dataclass(frozen=True, eq=False)
class Decision:
    """What is known of a query.

    Attributes
    ----------
    verdict : {"proved", "refuted", "unknown"}
        "refuted" if there is a counter-example; where the worst one is asked for, "proved" if the
        bounds agree.
    reason : str or None
        Of "unknown".
    points : tuple of ndarray of float32, optional
        The counter-example, or the worst one found.
    scores : tuple of ndarray of float32, optional
        Of each application there, as onnxruntime gives them.
    lower, upper : float
        Of the query's worst form; infinite where nothing is known, or no such thing is asked.
    seconds : float
    interrupted : bool
    """

    verdict: Verdict
    reason: str | None
    points: tuple[NDArray[np.float32], ...] | None
    scores: tuple[NDArray[np.float32], ...] | None
    lower: float
    upper: float
    seconds: float
    interrupted: bool = False


def decide(
    query: Query,
    *,
    seconds: float | None = None,
    seed: int = 0,
    gap: float = 1e-3,
    progress: QueryProgress | None = None,
) -> Decision:
    """Seek a counter-example, or prove that there is none; or bound the worst one.

    Parameters
    ----------
    query : Query
    seconds : float, optional
        The answer then is what is known by that time.
    seed : int
    gap : float
        Relative gap at which bounds of the worst one count as closed.
    progress : callable, optional

    Raises
    ------
    SpecError
        If a number of a form is too large to reckon with.
    """
    started = time.perf_counter()
    goals = () if query.worst is None else (query.worst,)
    lower = upper = -math.inf
    best, reasons, interrupted = None, [], False
    crude: Crude | None = None
    for i, case in enumerate(query.cases):
        # Of a case without conditions every point is a counter-example.
        own = goals or (() if case else (Form(),))
        left = math.inf if seconds is None else seconds - (time.perf_counter() - started)
        if interrupted or left <= 0:
            # Even to look at a case once takes a while, and there may be thousands.
            crude = crude or Crude(query)
            bound = crude.upper(case, own)
            upper = max(upper, bound)
            if goals or bound >= 0:
                reasons.append("time")
            continue
        share = None if seconds is None else left / (len(query.cases) - i)
        found = maximise(
            question_of(query, case, own),
            LinearOptions(share, gap, seed=seed),
            decide=None if goals else 0.0,
            known=lower if goals else None,
            progress=progress,
        )
        interrupted = interrupted or found.interrupted
        upper = max(upper, found.upper)
        if found.found is not None and found.lower > lower:
            lower, best = found.lower, found.found
        if not found.closed:
            reasons.append(str(found.reason))
        if best is not None and not goals:
            break
    verdict: Verdict = "unknown" if reasons else "proved"
    if best is not None and not goals:
        verdict = "refuted"
    reason = None
    if verdict == "unknown":
        reason = "time" if "time" in reasons else "numerical"
    return Decision(
        verdict,
        reason,
        None if best is None else best.points,
        None if best is None else best.scores,
        lower if goals else -math.inf,
        upper if goals else math.inf,
        time.perf_counter() - started,
        interrupted,
    )
