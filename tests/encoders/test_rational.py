"""Exact arithmetic: programmes against vertices, functions against points, and folding."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from leaveout.encoders import evaluation_of
from leaveout.encoders.rational import (
    NO_BIT,
    Affine,
    Polytope,
    bound_scores,
    exact_layers,
    lowest_bit,
    rows_of,
    scores_at,
)
from leaveout.models.onnx.file import network_from

from support import networks
from support.depth import rounds

SEEDS = st.integers(0, 2**32 - 1)


def line(*numbers):
    return Affine(tuple(map(Fraction, numbers[:-1])), Fraction(numbers[-1]))


def solved(first, second):
    """Where two lines of the plane meet."""
    (a, b), c, (d, e), f = first.slopes, first.constant, second.slopes, second.constant
    det = a * e - b * d
    return None if not det else ((b * f - c * e) / det, (c * d - a * f) / det)


@settings(max_examples=rounds(300), deadline=None)
@given(seed=SEEDS)
def test_a_programme_in_the_plane_ends_at_its_best_vertex(seed):
    rng = np.random.default_rng(seed)
    number = lambda: int(rng.integers(-3, 4))
    limits = [line(number(), number(), number()) for _ in range(int(rng.integers(0, 5)))]
    goal = line(number(), number(), number())
    low, high = [Fraction(-2), Fraction(-1)], [Fraction(2), Fraction(int(rng.integers(-1, 3)))]
    sides = [line(1, 0, -low[0]), line(-1, 0, high[0]), line(0, 1, -low[1]), line(0, -1, high[1])]
    meetings = (solved(*pair) for pair in itertools.combinations([*limits, *sides], 2))
    vertices = [p for p in meetings if p and all(f.at(p) >= 0 for f in [*limits, *sides])]
    polytope = Polytope(low, high)
    added = all(polytope.add(each) for each in limits)
    assert added == bool(vertices)
    if added:
        most, point = polytope.most(goal)
        assert most == max(map(goal.at, vertices))
        assert goal.at(point) == most
        assert all(f.at(point) >= 0 for f in [*limits, *sides])


@settings(max_examples=rounds(60), deadline=None)
@given(seed=SEEDS)
def test_functions_hold_at_every_point_of_the_box_and_phases(seed):
    rng = np.random.default_rng(seed)
    network = network_from(networks.dense(rng, (2, 3, 3, 2)), "n")
    rows = rows_of(network.stack, (True,) * 3)
    low, high = [Fraction(-1), Fraction(0)], [Fraction(1), Fraction(1)]
    inputs = [line(1, 0, 0), line(0, 1, 0)]
    phases = {(0, 0): 1, (1, 2): -1} if rng.random() < 0.5 else {}
    found = bound_scores(rows, inputs, low, high, phases)
    for x in itertools.product((-1, Fraction(-1, 3), 0, Fraction(1, 7), 1), (0, Fraction(2, 5), 1)):
        scores = scores_at(rows, x)
        hidden = network.stack.activations(np.array([x], float))
        signs = {key: np.sign(hidden[key[0]][0, 0, key[1]]) for key in phases}
        if all(signs[key] == side for key, side in phases.items()):
            assert all(each.at(x) >= 0 for each in found.limits)
            for value, below, above in zip(scores, found.lower, found.upper):
                assert below.at(x) <= value <= above.at(x)
        near = network.stack.scores(np.array([x], float))[0, 0]
        assert np.allclose([float(v) for v in scores], near, rtol=1e-12, atol=1e-12)
    if not found.open:
        assert found.lower == found.upper


@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False, width=32))
def test_the_lowest_bit_divides_a_number_and_no_higher_one_does(value):
    bit = int(lowest_bit(np.array([value]))[0])
    if value == 0:
        assert bit == NO_BIT
    else:
        whole = Fraction(value) / Fraction(2) ** bit
        assert whole.denominator == 1
        assert whole.numerator % 2 == 1


def chained(rng, coarse):
    """A matrix, and linear operators after it: all of few bits, or not."""
    few = lambda *shape: rng.choice([-1.0, 0.5, 2.0, 3.0], size=shape).astype(np.float32)
    number = few if coarse else lambda *shape: rng.normal(size=shape).astype(np.float32)
    constants, nodes, at = {}, [], "x"
    for i in range(int(rng.integers(1, 4))):
        kind = str(rng.choice(["MatMul", "Add", "Mul", "Neg", "Relu"]))
        names = [at]
        if kind in {"MatMul", "Add", "Mul"}:
            constants[f"c{i}"] = number(2, 2) if kind == "MatMul" else number(2)
            names.append(f"c{i}")
        nodes.append(helper.make_node(kind, names, [f"t{i}"]))
        at = f"t{i}"
    constants["last"] = number(2, 2)
    nodes.append(helper.make_node("MatMul", [at, "last"], ["y"]))
    return networks.model(nodes, constants, ["n", 2], ["n", 2])


def folded(evaluation, x):
    """Evaluate operator by operator, exactly; yield what goes into each ReLU, and the scores."""
    values = {evaluation.graph.input: x}
    for step in evaluation.steps:
        given_ = values[step.inputs[0]]
        if step.sums is None:
            yield given_
            values[step.output] = [max(v, Fraction(0)) for v in given_]
            continue
        up, down = step.sums.sides
        values[step.output] = [
            Fraction(b) + sum(Fraction(w) * v for w, v in zip(column, given_))
            for column, b in zip((up - down).T.tolist(), step.sums.shift.tolist())
        ]
    yield values[evaluation.graph.output]


@settings(max_examples=rounds(200), deadline=None)
@given(seed=SEEDS, coarse=st.booleans())
def test_layers_that_are_called_exact_are_what_their_operators_come_to(seed, coarse):
    rng = np.random.default_rng(seed)
    network = network_from(chained(rng, coarse), "n")
    parameters = {name: value[None] for name, value in network.parameters.items()}
    evaluation = evaluation_of(network.graph, parameters)
    exact = exact_layers(evaluation)
    assert len(exact) == len(network.stack.layers)
    assert not coarse or all(exact)
    if all(exact):
        rows = rows_of(network.stack, exact)
        for x in ([Fraction(1, 3), Fraction(-2)], [Fraction(0), Fraction(5, 7)]):
            *_, scores = folded(evaluation, x)
            assert scores_at(rows, x) == scores


def test_what_rounds_where_it_is_folded_is_not_called_exact():
    number = np.float32(1 + 2**-20)
    wide = {"a": np.full((1, 1), number), "b": np.full((1, 1), number), "c": np.full(1, 2.0**-30)}
    wide["c"] = wide["c"].astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["s"]),
        helper.make_node("Add", ["s", "c"], ["t"]),
        helper.make_node("MatMul", ["t", "b"], ["y2"]),
        helper.make_node("MatMul", ["y2", "two"], ["y"]),
    ]
    wide["two"] = np.array([[number, 1.0]], np.float32)
    network = network_from(networks.model(nodes, wide, ["n", 1], ["n", 2]), "n")
    parameters = {name: value[None] for name, value in network.parameters.items()}
    assert exact_layers(evaluation_of(network.graph, parameters)) == (False,)


@pytest.mark.parametrize("name", ["residual", "convolution_1d", "convolution_2d", "bent", "pooled"])
def test_networks_of_every_kind_are_told(name):
    network = network_from(networks.ALL[name](np.random.default_rng(0)), name)
    parameters = {key: value[None] for key, value in network.parameters.items()}
    found = exact_layers(evaluation_of(network.graph, parameters))
    assert len(found) == len(network.stack.layers)
