"""Bounds of margins at an input never leave out a member that disagrees, and decide what is far."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from leaveout.bab import make_instance
from leaveout.encoders import Box
from leaveout.encoders.applied import Applied
from leaveout.errors import GuardError
from leaveout.kernel.smooth import FUNCTIONS, KIND
from leaveout.models import Family
from leaveout.models.onnx.file import network_from
from leaveout.verifier.guard.access import ProvedBounds
from leaveout.verifier.guard.inputs import LeakFinder
from leaveout.verifier.guard.leaks import Crowd, LeakTest
from leaveout.verifier.guard.margins import MarginBounds, summarise
from leaveout.verifier.guard.packing import CURVATURE, STEEPEST, Layout

from support import networks
from support.depth import rounds
from support.guards import Served
from support.members import FACTORS, margins_at, question, unbounded


def expect_sound(instance, points):
    """Return the share of members that are left open though they agree clearly."""
    crowd = Crowd(instance)
    bounds = MarginBounds(crowd.packed_members, instance.box, unbounded(instance), crowd.error)
    labels, margins = margins_at(instance, points)
    some = bounds.open_inputs(points, labels, np.zeros(len(points)))
    needless = clear = 0
    for at, (x, label) in enumerate(zip(points, labels.tolist(), strict=True)):
        left = bounds.open(x, label, 0.0)
        assert len(np.unique(left)) == len(left)
        apart = np.flatnonzero(~(margins[:, at] > crowd.error))
        assert np.isin(apart, left).all()
        assert some[at] or not len(left)
        clear += len(margins) - len(apart)
        needless += len(left) - len(apart)
    return needless / max(clear, 1)


@pytest.mark.parametrize("kind", [*sorted(networks.ALL), "smooth"])
def test_no_dissenter_is_left_out(kind):
    model = getattr(networks, kind)(np.random.default_rng(3))
    near, far = question(model, 4, 90, FACTORS[:4]), question(model, 4, 90, (0.0, 0.02, 0.1))
    points = np.random.default_rng(1).random((40, near.network.inputs)).astype(np.float32)
    assert expect_sound(near, points) < 0.9
    expect_sound(far, points)


@pytest.mark.parametrize("seed", range(6))
def test_random_widths_and_sizes_of_weights(seed):
    rng = np.random.default_rng(seed)
    widths = (int(rng.integers(1, 6)), *rng.integers(2, 12, 2).tolist(), int(rng.integers(2, 5)))
    scale = float(rng.choice([1e-6, 0.1, 1.0, 30.0]))
    instance = question(networks.dense(rng, widths, scale), seed, 120)
    points = np.random.default_rng(seed).random((60, widths[0])).astype(np.float32)
    expect_sound(instance, points)


def test_members_near_n_are_decided_without_being_evaluated():
    model = networks.dense(np.random.default_rng(5), (6, 20, 20, 2), 0.4)
    instance = question(model, 0, 300, factors=(1e-4, 1e-3))
    points = np.random.default_rng(1).random((200, 6)).astype(np.float32)
    assert expect_sound(instance, points) < 0.02


def test_ties_everywhere_leave_everybody_open():
    model = networks.dense(np.random.default_rng(0), (2, 3, 2), 0.0)
    instance = question(model, 0, 40, factors=(0.0,))
    crowd = Crowd(instance)
    bounds = MarginBounds(crowd.packed_members, instance.box, unbounded(instance), crowd.error)
    assert len(bounds.open(np.array([0.3, 0.2], np.float32), 0, 0.0)) == 40


def test_an_input_near_a_tie_reads_no_family_anew(monkeypatch):
    model = networks.dense(np.random.default_rng(0), (2, 3, 2), 0.0)
    crowd = Crowd(question(model, 0, 40, factors=(0.0,)))
    monkeypatch.setattr(Applied, "evaluation", None)
    (found,) = crowd.dissenters(np.array([[0.3, 0.2]], np.float32), np.zeros(1, np.int64))
    assert len(found) == 40


def test_proved_bounds_close_members():
    instance = question(networks.dense(np.random.default_rng(2)), 2, 70, factors=(0.3,))
    crowd = Crowd(instance)
    upper = unbounded(instance)
    upper[:, 10:] = 0.5
    bounds = MarginBounds(crowd.packed_members, instance.box, upper, crowd.error)
    x = np.full(3, 0.4, np.float32)
    assert len(bounds.open(x, 0, 0.5, everyone=True)) == 70
    assert set(bounds.open(x, 0, 0.6).tolist()) <= set(range(10))
    everywhere = MarginBounds(crowd.packed_members, instance.box, unbounded(instance), crowd.error)
    assert set(everywhere.open(x, 0, 0.6).tolist()) > set(range(10))
    assert set(bounds.open(x, 0, 0.5)) == set(everywhere.open(x, 0, 0.5))


def test_what_describes_a_difference_bounds_its_product_with_slopes():
    instance = question(networks.residual(np.random.default_rng(1)), 7, 200)
    packed = Crowd(instance).packed_members
    rng = np.random.default_rng(0)
    numbers = len(packed.own_weights) + len(packed.own_biases)
    slopes = rng.normal(size=(30, numbers)).astype(np.float32)
    layout = Layout.of(packed)
    known = summarise(packed, slopes, np.ones(len(layout.blocks)))
    own = np.concatenate([packed.own_weights, packed.own_biases])
    apart = np.concatenate([packed.weights, packed.biases], axis=1)[known.order] - own
    for layer in range(len(layout.blocks)):
        true = np.linalg.norm(layout.matrix(apart, layer), 2, axis=(1, 2))
        assert (known.norms[:, layer] >= true).all()
        assert (known.norms[:, layer] <= 2 * true + 1e-12).all()
        for columns in layout.columns(layer):
            apart[:, columns] *= known.scales[layer]
    for _ in range(rounds(20)):
        slope = rng.normal(size=numbers).astype(np.float32)
        along = (known.basis @ slope.astype(np.float64)).astype(np.float32)
        rest = (slope - along.astype(np.float64) @ known.basis)[None]
        size = max(np.linalg.norm(along), np.linalg.norm(slope))
        off = np.append(layout.norms(rest)[0], size) * (1 + 1e-5)
        error = np.abs(apart @ slope - known.coordinates @ along)
        bound = known.rests @ off
        assert (error <= bound).all()
        assert np.median(bound / np.abs(apart @ slope).clip(1e-9)) < 100


class Single(LeakFinder):
    """Asks about inputs one by one, through what `LeakFinder` makes of that."""

    def __init__(self, test):
        self.label, self.glance, self.leaks = test.label, test.glance, test.leaks
        self.ask_all = test.ask_all


Single.__abstractmethods__ = frozenset()


@pytest.mark.parametrize(
    ("kind", "useless", "far"),
    [
        ("dense", True, 0.3),
        ("residual", False, 0.03),
        ("convolution_2d", True, 0.03),
        ("smooth", True, 0.5),
    ],
)
def test_exactly_the_leaks_are_found_singly_and_together(kind, useless, far, tmp_path):
    model = getattr(networks, kind)(np.random.default_rng(3))
    instance = question(model, 1, 50, (0.0, far / 10, far))
    bounds = ProvedBounds.of(instance, [None] * instance.labels)
    if useless:
        bounds = ProvedBounds(bounds.network, bounds.family, bounds.box, unbounded(instance))
    test = LeakTest(instance, bounds, local=True)
    points = np.random.default_rng(2).random((150, instance.network.inputs)).astype(np.float32)
    labels, leaks = Served(tmp_path, instance).truth(points)
    assert leaks.any() and not leaks.all()
    for way in (test, Single(test), LeakTest(instance, bounds)):
        findings = way.find_all(points)
        assert [each.label for each in findings] == labels.tolist()
        assert [each.leak for each in findings] == leaks.tolist()
    assert test.find(points[0]) == findings[0]


@pytest.mark.parametrize("name", sorted(set(KIND) - {"Relu", "Square", "InverseRoot"}))
def test_slopes_and_second_derivatives_of_smooth_activations_are_bounded(name):
    instance = question(networks.smooth(np.random.default_rng(0)), 0, 2)
    _, _, data = Crowd(instance).packed_members.curves
    own = FUNCTIONS[KIND[name]]
    z = np.linspace(-9, 9, 100_001)
    slopes = np.array([own.slope(each) for each in z])
    bends = np.abs(np.diff(slopes)) / np.diff(z)
    assert np.abs(slopes).max() <= data[KIND[name], STEEPEST] <= np.abs(slopes).max() + 1e-3
    assert bends.max() <= data[KIND[name], CURVATURE] <= bends.max() + 0.1


def test_members_that_multiply_data_are_refused():
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["h"]),
        helper.make_node("Softmax", ["h"], ["p"]),
        helper.make_node("MatMul", ["p", "V"], ["y"]),
    ]
    model = networks.model(nodes, {"V": np.eye(2, dtype=np.float32)}, ["n", 2], ["n", 2])
    with pytest.raises(GuardError, match="as attention and layer normalisation do"):
        Crowd(question(model, 0, 2))


@pytest.mark.filterwarnings("error")
def test_smooth_members_are_laid_out_without_a_warning():
    assert Crowd(question(networks.smooth(np.random.default_rng(0)), 0, 2)).packed_members


def test_a_product_beyond_float32_closes_nobody():
    """A weight grows by 1e24 and the next one makes up for it: only their slopes are huge."""

    def weights(first, second):
        model = networks.dense(np.random.default_rng(0), (1, 1, 2), 0.0)
        network = network_from(model, "N")
        found = {name: value.astype(np.float32) for name, value in network.parameters.items()}
        found["layers.0.weight"][:] = first
        found["layers.1.weight"][0] = second
        for each in model.graph.initializer:
            each.CopyFrom(numpy_helper.from_array(found[each.name], each.name))
        return network_from(model, "N"), found

    network, _ = weights(1e-5, 1e20)
    (_, near), (_, far) = weights(1e16, 1e-15), weights(1e19, -1e-15)
    members, apart = 1000, 500
    assert apart not in np.linspace(0, members - 1, 256).astype(int)
    stacks = {name: np.repeat(value[None], members, axis=0) for name, value in near.items()}
    for name, stack in stacks.items():
        stack[apart] = far[name]
    box = Box(np.array([0.5]), np.array([1.0]))
    instance = make_instance(network, Family(stacks, np.arange(members)), box)
    test = LeakTest(instance, ProvedBounds.of(instance, [None, None]), local=True)
    points = np.linspace(0.5, 1, 9, dtype=np.float32)[:, None]
    scores = instance.others.runner(apart).scores(points)
    assert (scores[:, 0] < scores[:, 1]).all()
    assert all(each.label == 0 and each.leak for each in test.find_all(points))
    assert all(test.find(x).leak for x in points)


@pytest.mark.parametrize("scale", [1e-30, 1e-38, 1e-44])
def test_slopes_too_small_for_float64_tell_nothing(scale):
    model = networks.dense(np.random.default_rng(2), (3, *[4] * 9, 2), scale)
    instance = question(model, 1, 40)
    points = np.random.default_rng(0).random((20, 3)).astype(np.float32)
    expect_sound(instance, points)
    test = LeakTest(instance, ProvedBounds.of(instance, [None, None]), local=True)
    other = LeakTest(instance, ProvedBounds.of(instance, [None, None]))
    assert test.find_all(points) == other.find_all(points)


def test_all_cores_find_the_one_that_disagrees():
    instance = question(networks.dense(np.random.default_rng(3)), 1, 1500, factors=(0.0,))
    points = np.random.default_rng(2).random((200, 3)).astype(np.float32)
    labels, margins = margins_at(instance, points)
    at = int(margins[0].argmax())
    x, label = points[at], int(labels[at])
    stacks = dict(instance.family.parameters)
    last = list(stacks)[-1]
    stacks[last] = stacks[last].copy()
    stacks[last][1111, label] -= 2 * margins[0, at] + 1
    apart = make_instance(instance.network, Family(stacks, np.arange(1500)), instance.box)
    everyone = np.arange(1500)
    assert Crowd(instance).dissenter(x, label, everyone) is None
    crowd = Crowd(apart)
    assert crowd.suspect(x, label) is None
    assert crowd.dissenter(x, label, everyone) == 1111
    assert crowd.suspect(x, label) == 1111
    assert crowd.dissenter(x, label, np.delete(everyone, 1111)) is None
    bounds = MarginBounds(crowd.packed_members, apart.box, unbounded(apart), crowd.error)
    assert bounds.open(x, label, 0.0).tolist() == [1111]
    assert bounds.open(x, label, 0.0, everyone=True)[0] == 1111


def test_the_most_work_evaluates_everybody_though_some_disagree():
    instance = question(networks.dense(np.random.default_rng(3)), 1, 700, factors=(0.3,))
    crowd, x = Crowd(instance), np.full(3, 0.5, np.float32)
    found, asked = crowd._ask_in_parallel(x, 0, np.arange(700), np.inf)
    assert found == -1
    assert sorted(asked.tolist()) == list(range(700))
