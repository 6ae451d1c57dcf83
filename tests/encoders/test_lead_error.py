"""The rounding charged to a lead covers every order of summation, and is not far above."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.encoders import (
    Box,
    Interval,
    confidence_error,
    evaluation_of,
    network_bounds,
    rounding_error,
)
from leaveout.models import lower
from leaveout.models.onnx_file import network_from
from leaveout.verifier.checker.leads import Region, lead_program

from support import networks


def _alone(network):
    return {name: value[None] for name, value in network.parameters.items()}


def _error(network, box, label, rivals):
    alone = _alone(network)
    bounds = network_bounds(lower(network.graph, alone), box)
    error = rounding_error(evaluation_of(network.graph, alone), bounds, box)
    return error.of_margins(label, rivals), bounds


def _region(rng, inputs):
    """Return a box of random size: somewhere, at the origin, or a point; also negative."""
    centre = rng.uniform(-2, 2, inputs) * (rng.random(inputs) < 0.8)
    half = rng.choice([0.0, 1e-4, 0.05, 1.0], inputs)
    # Points of the box are float32 numbers.
    ends = np.float32(centre - half), np.float32(centre + half)
    return Box(ends[0].astype(np.float64), ends[1].astype(np.float64))


def _in_any_order(rng, network, points):
    """Scores of a dense network in float32, every sum in another random order."""
    values = points
    for layer, last in zip(
        range(len(network.stack.layers)), [False] * (len(network.stack.layers) - 1) + [True]
    ):
        weight = network.parameters[f"layers.{layer}.weight"]
        bias = network.parameters[f"layers.{layer}.bias"]
        columns = []
        for row, constant in zip(weight, bias, strict=True):
            terms = np.concatenate(
                [values * row, np.full((len(values), 1), constant, np.float32)], axis=1
            )
            order = rng.permutation(terms.shape[1])
            total = np.zeros(len(values), np.float32)
            for i in order:
                total = total + terms[:, i]
            columns.append(total)
        values = np.stack(columns, axis=1)
        if not last:
            values = np.maximum(values, np.float32(0))
    assert values.dtype == np.float32
    return values.astype(np.float64)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_order_of_summation_exceeds_it(seed):
    rng = np.random.default_rng(seed)
    widths = (int(rng.integers(1, 4)), *rng.integers(3, 40, int(rng.integers(1, 4))), 3)
    scale = float(rng.choice([1e-6, 0.3, 1.0, 1e3]))
    network = network_from(networks.dense(rng, tuple(int(w) for w in widths), scale), "random")
    box = _region(rng, network.inputs)
    points = box.sample(rng, 200).astype(np.float32)
    points = np.clip(points, box.lower.astype(np.float32), box.upper.astype(np.float32))
    exact = network.stack.scores(points.astype(np.float64))[0]
    for computed in (
        _in_any_order(rng, network, points),
        network.runner().scores(points).astype(np.float64),
    ):
        for label in range(3):
            rivals = [c for c in range(3) if c != label]
            for rival in rivals:
                error, _ = _error(network, box, label, [rival])
                off = (computed[:, label] - computed[:, rival]) - (
                    exact[:, label] - exact[:, rival]
                )
                assert np.abs(off).max() <= error
            both, _ = _error(network, box, label, rivals)
            assert both >= error * (1 - 1e-12)


@pytest.mark.parametrize("kind", networks.ALL)
@pytest.mark.parametrize("seed", range(4))
def test_onnxruntime_stays_within_it(kind, seed):
    rng = np.random.default_rng(seed)
    network = network_from(networks.ALL[kind](rng), "random")
    for half in (0.01, 0.5):
        centre = rng.uniform(-0.5, 1, network.inputs)
        box = Box(centre - half, centre + half)
        points = box.sample(rng, 500)
        points = points.astype(np.float32)[box.contains(points.astype(np.float32))]
        exact = network.stack.scores(points.astype(np.float64))[0]
        computed = network.runner().scores(points).astype(np.float64)
        for label in range(network.labels):
            for rival in range(network.labels):
                if rival == label:
                    continue
                error, _ = _error(network, box, label, [rival])
                lead = computed[:, label] - computed[:, rival] - exact[:, label] + exact[:, rival]
                assert np.abs(lead).max(initial=0) <= error


@pytest.mark.parametrize("kind", networks.ALL)
@pytest.mark.parametrize("seed", range(3))
def test_the_checker_finds_the_same_in_its_own_way(kind, seed):
    rng = np.random.default_rng(seed)
    network = network_from(networks.ALL[kind](rng), "random")
    for half in (1e-3, 0.1, 1.0):
        centre = rng.uniform(-0.5, 1, network.inputs)
        box = Box(centre - half, centre + half)
        rivals = list(range(1, network.labels))
        error, bounds = _error(network, box, 0, rivals)
        region = Region(
            np.maximum(box.upper, 0)[None],
            np.maximum(-box.lower, 0)[None],
            [each.lower[None] for each in bounds],
            [each.upper[None] for each in bounds],
        )
        program = lead_program(network.graph, _alone(network))
        zero = np.zeros(1, np.int64)
        found = program.errors(zero, region, 0, [zero + rival for rival in rivals])[0]
        assert found <= error * (1 + 1e-9)
        assert found >= 0.9 * error


def test_it_is_far_below_what_holds_for_any_network_and_phase():
    rng = np.random.default_rng(1)
    network = network_from(networks.dense(rng, (8, 50, 50, 2), 0.3), "random")
    for half, less in ((0.5, 0.9), (0.001, 0.6)):
        box = Box(np.full(8, 0.5 - half), np.full(8, 0.5 + half))
        error, bounds = _error(network, box, 0, [1])
        assert error < less * confidence_error(network.graph, _alone(network), bounds, box)


def test_sums_that_may_overflow_have_no_bound():
    network = network_from(networks.dense(np.random.default_rng(0), (2, 4, 4, 2), 1e15), "random")
    box = Box(np.zeros(2), np.full(2, 1e20))
    assert _error(network, box, 0, [1])[0] == np.inf


def test_a_wrong_phase_would_be_noticed():
    """A neuron just below 0 exactly, whose computed value may be just above, passes its error."""
    network = network_from(networks.dense(np.random.default_rng(3), (2, 3, 2)), "random")
    box = Box(np.full(2, 0.3), np.full(2, 0.3))
    alone = _alone(network)
    evaluation = evaluation_of(network.graph, alone)
    clearly = [Interval(np.full(3, -5.0), np.full(3, -4.0))]
    barely = [Interval(np.full(3, -5.0), np.full(3, -1e-9))]
    unknown, known = (rounding_error(evaluation, each, box) for each in (barely, clearly))
    assert unknown.of_margins(0, [1]) > known.of_margins(0, [1])
