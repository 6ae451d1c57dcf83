"""Claims over points, searched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from leaveout.bab import NativeOptions, SearchResult
from leaveout.bab.attack.counterexamples import Found
from leaveout.bab.joint_claim import JointClaim, join_claim
from leaveout.bab.native.claims import BELOW, STEPS, Claims
from leaveout.bab.native.search import search_question
from leaveout.encoders.query import Case, Condition, Form, Query


def asked(
    query: Query, case: Sequence[Condition], goals: Sequence[Form] = (), *, apart: bool = False
) -> JointClaim:
    """Return the question of one case."""
    return join_claim(query, [Case(tuple(case), tuple(goals))], apart=apart)


def maximise(
    claim: JointClaim, options: NativeOptions, *, decide: bool = False
) -> SearchResult[Found]:
    """Bound the largest least goal; or decide whether one is at least 0."""
    floor = BELOW if decide else -math.inf
    return search_question(Claims(claim), replace(options, steps=STEPS), floor=floor, decide=decide)
