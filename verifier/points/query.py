"""Decide a neutral query, such as one read from VNN-LIB."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import NativeOptions, ProgressCallback
from leaveout.bab.joint_claim import join_claim
from leaveout.bab.native.claims import BELOW, Claims, paced
from leaveout.bab.native.files.proved_points import Source
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.search import search_question
from leaveout.encoders.query import Case, Query
from leaveout.verifier.points.solved import Solved
from leaveout.verifier.report import Verdict

__all__ = ["Decision", "decide"]

QueryProgress = Callable[[float, float, int, float], None]
"""Called with lower, upper, open nodes and seconds."""


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
    nodes : int
        How many were bounded.
    """

    verdict: Verdict
    reason: str | None
    points: tuple[NDArray[np.float32], ...] | None
    scores: tuple[NDArray[np.float32], ...] | None
    lower: float
    upper: float
    seconds: float
    interrupted: bool = False
    nodes: int = 0


def decide(
    query: Query,
    *,
    seconds: float | None = None,
    seed: int = 0,
    gap: float = 1e-3,
    progress: QueryProgress | None = None,
    solved: list[Solved] | None = None,
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
    solved : list of Solved, optional
        Takes what a certificate needs of the search.

    Raises
    ------
    SpecError
        If a number of a form is too large to reckon with.
    """
    started = time.perf_counter()
    worst = () if query.worst is None else (query.worst,)
    cases = [Case(each, worst) for each in query.cases]
    if not cases:
        return Decision("proved", None, None, None, -math.inf, -math.inf, 0.0)
    claims, records = Claims(join_claim(query, cases), seed=seed), list[Record]()
    options = NativeOptions(seconds, gap, seed=seed, certificate=solved is not None)
    found = search_question(
        claims,
        paced(options, decides=not worst),
        floor=-math.inf if worst else BELOW,
        decide=not worst,
        progress=None if progress is None else _told(progress),
        proofs=records.extend,
    )
    if solved is not None:
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


def _told(progress: QueryProgress) -> ProgressCallback:
    return lambda each: progress(each.lower, each.upper, each.open_sets, each.seconds)
