"""Cases built to make bounds wrong: neurons of very different size, cancellation, overflow."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from leaveout.bab import VARIANTS, Instance, LucidOptions, make_instance, search
from leaveout.encoders import Box
from leaveout.errors import FamilyError, SpecError
from leaveout.models import Family
from leaveout.models.onnx.file import Network, network_from
from leaveout.solvers import available

from support import networks
from support.cases import dividing
from support.children import HANGS

Matrices = list[np.ndarray]
BLIND = LucidOptions(witnesses=False, seconds=20)


def mlp(weights: Matrices, biases: Matrices) -> Network:
    """Gemm and Relu with the given matrices (inputs x outputs)."""
    nodes, constants, last = [], {}, "x"
    for i, (w, b) in enumerate(zip(weights, biases)):
        constants[f"W{i}"] = np.asarray(w, np.float32)
        constants[f"b{i}"] = np.asarray(b, np.float32)
        target = "y" if i == len(weights) - 1 else f"z{i}"
        nodes.append(helper.make_node("Gemm", [last, f"W{i}", f"b{i}"], [target]))
        last = target
        if target != "y":
            nodes.append(helper.make_node("Relu", [target], [f"h{i}"]))
            last = f"h{i}"
    inputs, outputs = np.shape(weights[0])[0], np.shape(weights[-1])[1]
    return network_from(networks.model(nodes, constants, ["n", inputs], ["n", outputs]), "mlp")


def against(network: Network, member: Network, lower: float = 0.0, upper: float = 1.0) -> Instance:
    """Return the question of one network and one member."""
    stacked = {k: np.asarray(v)[None] for k, v in member.parameters.items()}
    width = network.inputs
    box = Box(np.full(width, lower), np.full(width, upper))
    return make_instance(network, Family(stacked, np.zeros(1, np.int64)), box)


def leak_at(instance: Instance, points: np.ndarray, label: int) -> float:
    """Largest float32 confidence of a leak among some points."""
    own = instance.network.runner().scores(points).astype(float)
    taken = {k: v[0] for k, v in instance.family.take([0]).items()}
    other = instance.network.runner(taken).scores(points).astype(float)
    f = own[:, label] - np.delete(own, label, 1).max(axis=1)
    g = other[:, label] - np.delete(other, label, 1).max(axis=1)
    return float(f[(f > 0) & (g <= 0)].max(initial=0.0))


def small_neuron(k: float, h: float, a: float, s: float) -> Instance:
    """N and a member that differ in a bias; a neuron k times smaller than its neighbour."""

    def net(shift: float) -> Network:
        weights = [[[1, k, -k]], [[0.1, 0], [h / k, 0], [-h / k, 0]]]
        return mlp(weights, [[0.2, -k * a, k * a], [0, shift]])

    return against(net(0.0), net(s))


LINE = np.linspace(0, 1, 20_001)[:, None].astype(np.float32)


@pytest.mark.parametrize("solver", ["highs", "gurobi", "pulp", "ortools", "scip"])
@pytest.mark.parametrize("k", [2.7e-7, 3e-8, 1e-10])
def test_a_neuron_much_smaller_than_its_neighbours_hides_no_leak(solver, k):
    if solver not in available():
        pytest.skip(f"{solver} is not installed")
    instance = small_neuron(k, 9.8, 0.73, 0.6 * 9.8)
    best = leak_at(instance, LINE, 0)
    assert best > 1
    for variant in ("LUCID", "naive"):
        options = LucidOptions(
            solver=solver, witnesses=False, seconds=20, variant=VARIANTS[variant]
        )
        assert search(instance, 0, options).upper >= best


@pytest.mark.parametrize("k", [1e-3, 1e-6, 1e-9, 1e-12])
def test_a_narrow_spike_in_a_corner_is_not_cut_off(k):
    def net(h: float) -> Network:
        d, e = 4, 0.2
        first = np.asarray([[0.1] * d, [k] * d, [-k] * d]).T
        second = np.asarray([[0.1, -h / (k * e), 0], [0, 0, 0]]).T
        biases = [[0.2, -k * (d - e), k * (d - e)], [0.3, 0]]
        return mlp([first, second], biases)

    instance = against(net(1e-9), net(0.6))
    best = leak_at(instance, np.ones((1, 4), np.float32), 0)
    assert best > 0.3
    assert search(instance, 0, BLIND).upper >= best


def test_overflowing_members_are_refused_and_never_proved(snapshot):
    def net(shift: float, w: float) -> Network:
        layer = [[1, 0, 0], [0, w, 0], [0, 0, w]]
        weights = [
            [[1, 1, -1]],
            [[1, 0, 0], [0, 1, 1], [0, 1, 1]],
            [[1, 0, 0], [0, 1, -1], [0, -1, 1]],
            *[layer] * 9,
            [[1, 0], [1, 1], [-1, -1]],
        ]
        return mlp(weights, [[0, -0.5, 0.5], *[[0, 0, 0]] * 11, [0, shift]])

    with pytest.raises(SpecError) as told:
        against(net(0, 1), net(0.6, 3e38))
    assert str(told.value) == snapshot


def test_a_member_that_divides_by_zero_is_refused_by_number(snapshot):
    network, family = dividing()
    with pytest.raises(FamilyError) as told:
        make_instance(network, family, Box(np.zeros(2), np.ones(2)))
    assert str(told.value) == snapshot


def test_underflow_is_part_of_the_evaluation_error():
    def net(*k: float) -> Network:
        return mlp([[[k[0]]], [[k[1]]], [[k[2]]], [[k[3], 0]]], [[0], [0], [0], [0, 0.1]])

    instance = against(net(1, 1, 1, 1), net(1e-30, 1e-30, 1e30, 1e30), 0.5, 1.0)
    best = leak_at(instance, LINE[10_000:], 0)
    assert best > 0.8
    assert search(instance, 0, BLIND).upper >= best


def test_a_bound_below_a_replayed_leak_makes_the_solver_unbelievable(monkeypatch):
    from dataclasses import replace

    from leaveout.bab.lucid.algorithm import Bounded

    from support.cases import leaky

    instance, label = leaky()

    def lying(instance, task, label, floor, worker):
        return Bounded(replace(task, upper=0.01, state="exact"), None, 1)

    truth = search(instance, label, LucidOptions(seconds=HANGS))
    monkeypatch.setattr("leaveout.bab.lucid.algorithm.bound_set", lying)
    result = search(instance, label, LucidOptions(seconds=HANGS))
    assert not result.closed
    assert result.reason == "numerical"
    assert result.contradicted
    assert result.upper >= truth.lower
    # Nothing it said of any member is used.
    assert (result.member_upper >= min(instance.most(label), truth.upper)).all()
