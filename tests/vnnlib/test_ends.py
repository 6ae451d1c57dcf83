"""Strict and not strict at the very end of a range: decided, and decided rightly."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from leaveout.models.onnx.file import network_from
from leaveout.specs.vnnlib import parse_problem, query_of
from leaveout.verifier.points.query import decide

from attacks.ends import Ends
from attacks.kind import generator
from support import networks

NODES = 20_000
"""No more than these are bounded where a boundary alone is left."""


def network_of(*operators, inputs=2, outputs=2, **constants):
    nodes, at = [], "x"
    for i, (kind, *names) in enumerate(operators):
        out = "y" if i + 1 == len(operators) else f"t{i}"
        nodes.append(helper.make_node(kind, [at, *names], [out]))
        at = out
    given = {name: np.asarray(value, np.float32) for name, value in constants.items()}
    return network_from(networks.model(nodes, given, ["n", inputs], ["n", outputs]), "n")


def decided(network, low, high, *asserted):
    inputs, outputs = network.inputs, network.graph.shapes[network.graph.score_tensor][-1]
    names = [f"X_{i}" for i in range(inputs)] + [f"Y_{i}" for i in range(outputs)]
    lines = [f"(declare-const {name} Real)" for name in names]
    lines += [f"(assert (<= {low} X_{i} {high}))" for i in range(inputs)]
    lines += [f"(assert {each})" for each in asserted]
    query = query_of(parse_problem("\n".join(lines)), [network]).query
    found = decide(query, seconds=60)
    assert found.nodes < NODES
    return {"proved": "unsat", "refuted": "sat"}.get(found.verdict, found.verdict)


IDENTITY = [("Identity",)]
RELU = [("MatMul", "W"), ("Relu",)]
SOME = np.array([[1.25, -0.3], [0.7, 2.1]])


@pytest.mark.parametrize(
    ("operators", "low", "asserted", "expected"),
    [
        (IDENTITY, 0, "(or (> Y_0 1) (< Y_0 0))", "unsat"),
        (IDENTITY, 0, "(or (>= Y_0 1) (< Y_0 0))", "sat"),
        (IDENTITY, 0, "(and (<= Y_0 0) (>= Y_1 1))", "sat"),
        (IDENTITY, 0, "(and (> X_0 X_1) (<= Y_0 Y_1))", "unsat"),
        (IDENTITY, 0, "(and (>= X_0 X_1) (<= Y_0 Y_1))", "sat"),
        (IDENTITY, 0, "(== Y_0 0.5)", "sat"),
        (IDENTITY, 0, "(and (< Y_0 0.5) (> Y_0 0.5))", "unsat"),
        (RELU, -1, "(or (< Y_0 0) (< Y_1 0))", "unsat"),
        (RELU, -1, "(and (<= Y_0 0) (<= Y_1 0))", "sat"),
        ([*RELU, ("Neg",)], -1, "(> Y_0 0.0)", "unsat"),
        ([*RELU, ("Neg",)], -1, "(>= Y_0 0.0)", "sat"),
        ([("Abs",)], -1, "(< Y_0 0)", "unsat"),
        ([("Abs",)], -1, "(> Y_0 1)", "unsat"),
        ([("Abs",)], -1, "(and (>= Y_0 1) (>= Y_1 1))", "sat"),
        ([("Clip", "low", "high")], -1, "(or (< Y_0 0.25) (> Y_1 0.75))", "unsat"),
        ([("Clip", "low", "high")], -1, "(and (<= Y_0 0.25) (>= Y_1 0.75))", "sat"),
        ([("MatMul", "W"), ("MatMul", "twice")], 0, "(> Y_1 Y_0)", "unsat"),
        ([("MatMul", "W"), ("MatMul", "twice")], 0, "(>= Y_1 Y_0)", "sat"),
    ],
)
def test_a_comparison_is_strict_to_the_end(operators, low, asserted, expected):
    constants = {"W": SOME, "low": 0.25, "high": 0.75, "twice": [[1, 1], [1, 1]]}
    used = {name for _, *names in operators for name in names}
    network = network_of(*operators, **{name: constants[name] for name in used})
    assert decided(network, low, 1, asserted) == expected


@pytest.mark.parametrize(
    ("low", "high", "asserted", "expected"),
    [
        ("0.1", "0.1", "(<= -1 Y_0 1)", "sat"),
        ("0.1", "0.1", "(< X_0 0.1)", "unsat"),
        ("0.1", "0.1", "(>= X_0 0.1)", "sat"),
        ("0.3", "0.7", "(> Y_0 0.7)", "unsat"),
        ("0.1", "0.3", "(> Y_0 0.3)", "sat"),
        ("(+ 0.5 1e-30)", "(+ 0.5 1e-30)", "(> Y_0 0.5)", "unsat"),
        ("0.5000000000000000000000001", "0.5000000000000000000000001", "(== Y_0 0.5)", "sat"),
    ],
)  # fmt: skip
def test_decimal_bounds_are_float32_numbers(low, high, asserted, expected):
    # 0.1 and 0.3 are read as numbers above them, 0.7 as one below it.
    assert decided(network_of(*IDENTITY), low, high, asserted) == expected


def test_random_queries_at_their_ends_are_decided_rightly():
    kind, answers = Ends(), []
    for number in range(120):
        outcome = kind.check(kind.make(generator(5, "ends", number)))
        assert outcome.wrong is None, f"{number}: {outcome.wrong}"
        answers.append(outcome.answer)
    assert min(answers.count("proved"), answers.count("refuted")) > 30
    assert answers.count("unknown") < 5


def falsified(verdict, case):
    """Decide, and say something else."""

    def changed(query, seconds):
        point = (np.full(len(case["box"]), 77.0, np.float32),)
        return replace(decide(query, seconds=seconds), verdict=verdict, points=point)

    return changed


def test_an_answer_that_is_made_false_is_called_wrong(monkeypatch):
    kind, seen = Ends(), set()
    for number in range(40):
        case = kind.make(generator(5, "ends", number))
        right = kind.check(case).answer
        for verdict in {"proved", "refuted", "unknown"} - {right}:
            monkeypatch.setattr("attacks.ends.decide", falsified(verdict, case))
            if kind.check(case).wrong is not None:
                seen.add((right, verdict))
            monkeypatch.undo()
    assert seen >= {
        ("proved", "refuted"),
        ("proved", "unknown"),
        ("refuted", "proved"),
        ("refuted", "unknown"),
    }
