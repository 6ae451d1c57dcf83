"""Leaks: what an engine bounds, against what onnxruntime shows."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import cache
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import EngineResult, Instance, LucidOptions, NativeOptions, search, search_native
from leaveout.errors import LeaveoutError

from attacks.inputs import Inputs
from attacks.kind import Answer, Case, Outcome
from attacks.nets import is_smooth
from attacks.questions import instance_of, random_question, runtimes, smaller
from attacks.truth import Runtime, confidences, look
from attacks.warm import WarmPool

__all__ = ["Leaks", "judge", "leaks_of"]

Floats = NDArray[np.float64]

_SECONDS, _REPEATABLE = 0.06, 2.0


class Leaks:
    """Random networks and members over random sets of inputs, one label each."""

    name = "leaks"

    def __init__(self) -> None:
        warm_up()

    def make(self, rng: np.random.Generator) -> Case:
        """Draw a question, and how it is asked."""
        case = random_question(rng)
        ask = random_ask(rng, case["net"]["labels"])
        if is_smooth(case["net"]):
            ask |= {"engines": ["native"], "kernel": "cpu"}
        return {**case, "ask": ask}

    def check(self, case: Case) -> Outcome:
        """Bound the leaks of a label, and look for one above the bound."""
        instance, ask = instance_of(case), case["ask"]
        results = [run(instance, ask, engine) for engine in ask["engines"]]
        wrong = next((w for w in (judge(case, ask, each) for each in results) if w), None)
        if wrong is None and len(results) > 1:
            one, two = results
            if any(a.witness and a.lower > b.upper for a, b in ((one, two), (two, one))):
                wrong = (
                    f"engines disagree: [{one.lower!r}, {one.upper!r}] and "
                    f"[{two.lower!r}, {two.upper!r}]"
                )
        return Outcome(self.label(case), answer_of(results[0], ask), wrong)

    def label(self, case: Case) -> str:
        """Return the class of a case."""
        ask = case["ask"]
        return f"{'+'.join(ask['engines'])} {'decides' if ask['decide'] else 'bounds'}"

    def shrink(self, case: Case) -> Iterator[Case]:
        """Yield smaller questions, and simpler ways to ask."""
        if case["ask"]["seconds"] < _REPEATABLE:
            # Not smaller, but sure to come to the same end on a busy machine.
            yield {**case, "ask": {**case["ask"], "seconds": _REPEATABLE}}
        for engine in case["ask"]["engines"]:
            if len(case["ask"]["engines"]) > 1:
                yield {**case, "ask": {**case["ask"], "engines": [engine]}}
        yield from smaller(case)


@cache
def warm_up() -> None:
    """Bound something, so that no case has to wait for the compiler."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        case = random_question(rng)
        ask = {**random_ask(rng, 2), "engines": ["native"], "label": 0, "seconds": 20.0}
        ask = {**ask, "decide": False, "kernel": "cpu", "proofs": True}
        with contextlib.suppress(LeaveoutError):
            run(instance_of(case), ask, "native")


def random_ask(rng: np.random.Generator, labels: int) -> Case:
    """Draw how leaks are asked for; mostly without an attack, which could hide a wrong bound."""
    engines = [["native"], ["lucid"], ["native", "lucid"]]
    decide = bool(rng.random() < 0.6)
    return {
        "engines": engines[int(rng.choice(3, p=[0.94, 0.03, 0.03]))],
        "label": int(rng.integers(labels)),
        "decide": decide,
        "floor": float(rng.choice([-1e-9, 0.0, 0.01, 0.3, 1.0, 1.5])) if decide else 0.0,
        "attack": bool(rng.random() < 0.15),
        "kernel": "numpy" if rng.random() < 0.03 else "cpu",
        # With proofs kept, nothing is handed to a solver, which takes long.
        "proofs": bool(rng.random() < 0.9),
        "seconds": _SECONDS,
    }


def run(instance: Instance, ask: Case, engine: str) -> EngineResult:
    """Ask an engine."""
    given = {"floor": ask["floor"], "decide": ask["decide"]}
    with contextlib.ExitStack() as stack:
        if not ask["attack"]:
            for module in ("leaveout.bab.native.leaks", "leaveout.bab.lucid.algorithm"):
                stack.enter_context(mock.patch(f"{module}.find_leak", lambda *a, **k: None))
        if engine == "lucid":
            stack.enter_context(mock.patch("leaveout.bab.lucid.algorithm.SolverPool", WarmPool))
            lucid = LucidOptions(seconds=5 * ask["seconds"])
            return search(instance, ask["label"], lucid, **given)
        native = NativeOptions(
            seconds=ask["seconds"], kernel=ask["kernel"], certificate=ask["proofs"]
        )
        return search_native(instance, ask["label"], native, **given)


def answer_of(result: EngineResult, ask: Case) -> Answer:
    """Say what a result is an answer of."""
    if ask["decide"] and result.lower > ask["floor"]:
        return "refuted"
    return "proved" if result.closed else "unknown"


def judge(case: Case, ask: Case, result: EngineResult) -> str | None:
    """Return what is wrong with a result, if anything."""
    lower, upper = result.lower, result.upper
    known = np.array([lower, upper, *result.member_upper])
    if not np.isfinite(known).all():
        return f"a bound is no number: {known.tolist()}"
    if result.witness is not None and lower > upper:
        return f"bounds cross: {lower!r} > {upper!r}"
    if result.contradicted:
        return "a replayed leak contradicts the engine: it says so itself"
    inputs = Inputs.of(case["box"])
    network, members = runtimes(case)
    wrong = _false_witness(result, inputs, network, members, ask["label"])
    if wrong is not None:
        return wrong
    points, leaks = leaks_of(case, inputs, network, members, ask["label"])
    if not len(points):
        return None
    for member, own in enumerate(leaks):
        at = int(own.argmax())
        most = min(upper, float(result.member_upper[member]))
        if own[at] > most:
            return (
                f"a leak above the bound: member {member} leaks at {points[at].tolist()} with "
                f"confidence {float(own[at])!r}, the bound is {most!r}"
            )
    return None


def _false_witness(
    result: EngineResult, inputs: Inputs, network: Runtime, members: list[Runtime], label: int
) -> str | None:
    witness = result.witness
    if witness is None:
        return None if result.lower <= 0 else f"a lower bound without a witness: {result.lower!r}"
    x = witness.x.astype(float)[None]
    if not inputs.contains(x)[0]:
        return f"the witness is not in the set: {x[0].tolist()}"
    own = confidences(network.scores(x)[0], label)[0]
    other = confidences(members[witness.member].scores(x)[0], label)[0]
    if own != result.lower or not own > 0 or other > 0:
        return f"the witness does not replay: {own:.9g} and {other:.9g}, said {result.lower:.9g}"
    return None


def leaks_of(
    case: Case, inputs: Inputs, network: Runtime, members: list[Runtime], label: int
) -> tuple[Floats, Floats]:
    """Look for leaks of a label.

    Returns
    -------
    points : ndarray of float64, shape (p, d)
    leaks : ndarray of float64, shape (members, p)
        Confidence of N where the member leaks, by either way of evaluation; minus infinity where
        it does not.
    """

    def values(points: Floats) -> Floats:
        own = confidences(network.scores(points), label)
        rows = []
        for member in members:
            other = confidences(member.scores(points), label)
            for how in (0, 1):
                # Where there is no leak, uphill is where the member's margin shrinks.
                lost = (other[how] <= 0) & (own[how] > 0)
                rows.append(np.where(lost, own[how], -1e30 - np.maximum(other[how], 0.0)))
        return np.stack(rows)

    rng = np.random.default_rng(case["seed"])
    points, found = look(inputs, case["planted"], rng, values)
    if not len(points):
        return points, np.zeros((len(members), 0))
    pairs = found.reshape(len(members), 2, -1).max(axis=1)
    return points, np.where(pairs > -1e30, pairs, -math.inf)
