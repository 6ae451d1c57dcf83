"""Queries of VNN-LIB: random texts of both versions, about float32 scores or exact ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.models.onnx.file import check_against_onnxruntime, network_from
from leaveout.specs.vnnlib import parse_problem, query_of
from leaveout.verifier.points.query import Decision, decide

from attacks.inputs import Inputs, random_box
from attacks.kind import Answer, Case, Outcome
from attacks.leaks import warm_up
from attacks.listed import planted_question
from attacks.nets import model_of
from attacks.questions import network_and_members, smaller
from attacks.truth import Runtime, look

__all__ = ["VnnLib"]

Floats = NDArray[np.float64]
Node = list[Any]

_SECONDS, _REPEATABLE = 0.1, 3.0


class VnnLib:
    """Random queries about one network, or two that read points of their own."""

    name = "vnnlib"

    def __init__(self) -> None:
        warm_up()

    def make(self, rng: np.random.Generator) -> Case:
        """Draw a network, bounds and formulas."""
        if rng.random() < 0.15:
            case = planted_question(rng)
            case["net"] = {**case["net"], "floats": case["members"][0]}
            case["box"] = {**case["box"], "tables": []}
        else:
            case = {**network_and_members(rng), "planted": [], "seed": int(rng.integers(2**31))}
            case["box"] = random_box(rng, math.prod(case["net"]["shape"]), listed=0.0)
        last = case["net"]["nodes"][-1]
        if last[0] in {"Softmax", "LogSoftmax"} and rng.random() < 0.9:
            # A query is about what comes out, so most have nothing after the scores.
            last[0], last[3] = "Identity", {}
        modern = bool(rng.random() < 0.4)
        nets = 2 if modern and rng.random() < 0.4 else 1
        width, labels = math.prod(case["net"]["shape"]), case["net"]["labels"]
        formulas = [
            _formula(rng, width, labels, nets, int(rng.integers(0, 3)))
            for _ in range(int(rng.integers(1, 3)))
        ]
        return {
            **case, "modern": modern, "float32": bool(rng.random() < 0.8), "nets": nets,
            "formulas": formulas, "seconds": _SECONDS,
        }  # fmt: skip

    def check(self, case: Case) -> Outcome:
        """Decide the query, and look for a counter-example."""
        model = model_of(case["net"])
        networks = [network_from(model, "f")]
        check_against_onnxruntime(networks[0])
        if case["nets"] == 2:
            other = model_of(case["net"], case["members"][-1])
            networks.append(network_from(other, "g"))
        problem = parse_problem(_text(case))
        reading = query_of(problem, networks, reals=not case["float32"])
        found = decide(reading.query, seconds=case["seconds"])
        answer: Answer = found.verdict
        version = "2.0" if case["modern"] else "1.0"
        label = f"version {version}, {'float32' if case['float32'] else 'reals'}"
        return Outcome(label, answer, _wrong(case, found))

    def shrink(self, case: Case) -> Iterator[Case]:
        """Yield fewer formulas, parts of them, and smaller questions."""
        if case["seconds"] < _REPEATABLE:
            yield {**case, "seconds": _REPEATABLE}
        formulas = case["formulas"]
        for i, each in enumerate(formulas):
            if len(formulas) > 1:
                yield {**case, "formulas": formulas[:i] + formulas[i + 1 :]}
            if each[0] in {"and", "or"}:
                for part in each[1:]:
                    yield {**case, "formulas": [*formulas[:i], part, *formulas[i + 1 :]]}
        yield from smaller(case)


def _formula(rng: np.random.Generator, width: int, labels: int, nets: int, depth: int) -> Node:
    if depth and rng.random() < 0.7:
        count = int(rng.integers(1, 4))
        parts = [_formula(rng, width, labels, nets, depth - 1) for _ in range(count)]
        return [str(rng.choice(["and", "or"])), *parts]
    operator = str(rng.choice(["<=", ">=", "<", ">"], p=[0.45, 0.45, 0.05, 0.05]))
    if rng.random() < 0.02:
        operator = "=="
    terms = []
    for _ in range(int(rng.integers(1, 4))):
        which, net = ("Y", labels) if rng.random() < 0.8 else ("X", width)
        factor = float(rng.choice([1.0, -1.0, 0.5, 0.3, 2.0]))
        terms.append([factor, which, int(rng.integers(nets)), int(rng.integers(net))])
    constant = float(rng.choice([0.0, 0.1, 1.0, round(rng.normal(), 3)]))
    return [operator, terms, constant]


def _decimal(value: float) -> str:
    """Write a number to its last digit, without an exponent and with a point."""
    # Of those that were drawn as decimals what was drawn, of others every digit.
    text = format(Decimal(repr(value)) if value == round(value, 6) else Decimal(value), "f")
    return text if "." in text else f"{text}.0"


def _text(case: Case) -> str:
    modern, nets = case["modern"], case["nets"]
    width, labels = math.prod(case["net"]["shape"]), case["net"]["labels"]
    lines = []
    if modern:
        lines.append("(vnnlib-version <2.0>)")
        kind = "float32" if case["float32"] else "real"
        for i in range(nets):
            lines.append(
                f"(declare-network n{i} (declare-input X{i} {kind} [{width}]) "
                f"(declare-output Y{i} {kind} [{labels}]))"
            )
    else:
        names = [f"X_{i}" for i in range(width)] + [f"Y_{i}" for i in range(labels)]
        lines += [f"(declare-const {name} Real)" for name in names]
    for net in range(nets):
        for i, (low, high) in enumerate(
            zip(case["box"]["lower"], case["box"]["upper"], strict=True)
        ):
            name = _name(case, "X", net, i)
            lines.append(f"(assert (>= {name} {_decimal(low)}))")
            lines.append(f"(assert (<= {name} {_decimal(high)}))")
    lines += [f"(assert {_written(case, each)})" for each in case["formulas"]]
    return "\n".join(lines) + "\n"


def _name(case: Case, which: str, net: int, at: int) -> str:
    return f"{which}{net}[{at}]" if case["modern"] else f"{which}_{at}"


def _written(case: Case, node: Node) -> str:
    if node[0] in {"and", "or"}:
        return f"({node[0]} {' '.join(_written(case, part) for part in node[1:])})"
    operator, terms, constant = node
    if operator == "==" and not case["modern"]:
        operator = "="
    each = [f"(* {_decimal(f)} {_name(case, w, n, i)})" for f, w, n, i in terms]
    left = f"(+ {' '.join(each)})" if len(each) > 1 else each[0]
    return f"({operator} {left} {_decimal(constant)})"


def _gap(node: Node, points: Any, scores: Any) -> Any:
    """By how much a formula holds; in the arithmetic of what is given, shapes (nets, p, ...)."""
    if node[0] in {"and", "or"}:
        parts = [_gap(part, points, scores) for part in node[1:]]
        return np.stack(parts).min(axis=0) if node[0] == "and" else np.stack(parts).max(axis=0)
    operator, terms, constant = node
    exact = points.dtype == object
    total = sum(
        (Fraction(f"{f!r}") if exact else f) * (scores if w == "Y" else points)[n, :, i]
        for f, w, n, i in terms
    )
    read = _as_read(terms, constant)
    total = total - (read if exact else float(read))
    if operator == "==":
        return -abs(total)
    return total if operator[0] == ">" else -total


def _as_read(terms: list[Any], constant: float) -> Fraction:
    """Return a number as a runtime reads it: beside an input alone the nearest float32."""
    sums: dict[tuple[str, int, int], Fraction] = {}
    for factor, which, net, place in terms:
        spot = (which, net, place)
        sums[spot] = sums.get(spot, Fraction(0)) + Fraction(repr(factor))
    left = {spot: factor for spot, factor in sums.items() if factor}
    alone = len(left) == 1 and all(w == "X" and abs(f) == 1 for (w, _, _), f in left.items())
    return Fraction(float(np.float32(constant))) if alone else Fraction(repr(constant))


def _holds(node: Node, points: Any, scores: Any) -> bool:
    """Whether a formula holds at one point, exactly."""
    if node[0] in {"and", "or"}:
        parts = (_holds(part, points, scores) for part in node[1:])
        return all(parts) if node[0] == "and" else any(parts)
    gap = _gap(node, points, scores)[0]
    return bool(gap > 0 if node[0] in {"<", ">"} else gap >= 0)


def _exact(value: Floats) -> Any:
    found = np.empty(value.shape, object)
    for i, v in np.ndenumerate(value):
        found[i] = Fraction(float(v))
    return found


def _wrong(case: Case, decision: Decision) -> str | None:
    # Beside an input a number is the float32 number nearest to it.
    box = case["box"]
    ends = {end: np.float32(box[end]).astype(float) for end in ("lower", "upper")}
    inputs, nets = Inputs.of({**box, **ends}), case["nets"]
    width = len(inputs.lower)
    models = [model_of(case["net"])]
    if nets == 2:
        models.append(model_of(case["net"], case["members"][-1]))
    runtimes = [Runtime(model) for model in models]
    whole = ["and", *case["formulas"]]

    def split(points: Floats) -> Floats:
        return points.reshape(len(points), nets, width).transpose(1, 0, 2)

    def scores(points: Floats, how: int) -> Floats:
        each = zip(runtimes, split(points), strict=True)
        return np.stack([net.scores(own)[how] for net, own in each])

    if decision.verdict == "refuted":
        return _false_example(case, decision, inputs, runtimes)
    if decision.verdict != "proved":
        return None
    # What is true of exact scores may be false of rounded ones by a last bit.
    room = 0.0 if case["float32"] else 1e-3
    both = replace(
        inputs, lower=np.tile(inputs.lower, nets), upper=np.tile(inputs.upper, nets), tables=()
    )
    rng = np.random.default_rng(case["seed"])
    planted = [list(point) * nets for point in case["planted"]]
    for how in (0, 1):

        def values(points: Floats, how: int = how) -> Floats:
            return np.asarray(_gap(whole, split(points), scores(points, how)), float)

        points, found = look(both, planted, rng, values)
        if not len(points):
            continue
        for at in np.argsort(-found[0])[:3]:
            point = points[at : at + 1]
            own = scores(point, how)
            if not case["float32"]:
                if found[0][at] > room * (1 + np.abs(own).max()):
                    return f"sat, but unsat is said: {point[0].tolist()}, evaluation {how}"
            elif found[0][at] > -1e-6 and _holds(whole, _exact(split(point)), _exact(own)):
                return f"sat, but unsat is said: {point[0].tolist()}, evaluation {how}"
    return None


def _false_example(
    case: Case, decision: Decision, inputs: Inputs, runtimes: list[Runtime]
) -> str | None:
    if decision.points is None or decision.scores is None:
        return "sat without an example"
    points = np.stack([np.asarray(p, float) for p in decision.points])
    if not inputs.contains(points).all():
        return f"the example is not in the set: {points.tolist()}"
    if not case["float32"] or len(points) != case["nets"]:
        return None
    own = np.stack([net.scores(p[None])[0] for net, p in zip(runtimes, points, strict=True)])
    whole = ["and", *case["formulas"]]
    if not _holds(whole, _exact(points[:, None]), _exact(own)):
        return f"the example is none: {points.tolist()} with scores {own.tolist()}"
    return None
