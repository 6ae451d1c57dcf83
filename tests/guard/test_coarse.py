"""Coarse copies of members close none that disagrees, and most that agree clearly."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from leaveout.verifier.guard import leaks as agreement
from leaveout.verifier.guard.access import ProvedBounds
from leaveout.verifier.guard.coarse import CoarseCopy
from leaveout.verifier.guard.leaks import Crowd, LeakTest
from leaveout.verifier.guard.packing import Layout

from support import networks
from support.guards import Served
from support.members import FACTORS, margins_at, question, unbounded


def copied(instance, seed=0):
    crowd = Crowd(instance)
    order = np.random.default_rng(seed).permutation(len(crowd))
    return crowd, CoarseCopy.of(crowd.packed_members, order)


def expect_sound(instance, points):
    """Return the share of members that are left open though they agree clearly."""
    crowd, copy = copied(instance)
    everyone = np.arange(len(crowd))
    labels, margins = margins_at(instance, points)
    needless = clear = 0
    for at, (x, label) in enumerate(zip(points, labels.tolist(), strict=True)):
        for error in (crowd.error, 0.0, float(np.median(margins[:, at]))):
            left = copy.at(x, label, instance.labels, error).open(everyone)
            assert (np.diff(left) > 0).all()
            apart = np.flatnonzero(~(margins[:, at] > error + crowd.error))
            assert np.isin(np.flatnonzero(~(margins[:, at] > error)), left).all()
            clear += len(margins) - len(apart)
            needless += len(np.setdiff1d(left, apart))
    return needless / max(clear, 1)


@pytest.mark.parametrize("kind", [*sorted(networks.ALL), "smooth"])
def test_nobody_that_disagrees_is_closed(kind):
    instance = question(
        getattr(networks, kind)(np.random.default_rng(3)), 4, 90, (0.0, 1e-3, 0.02, 0.1)
    )
    points = np.random.default_rng(1).random((40, instance.network.inputs)).astype(np.float32)
    assert expect_sound(instance, points) < 0.5


@pytest.mark.parametrize("seed", range(8))
def test_random_widths_and_sizes_of_weights(seed):
    rng = np.random.default_rng(seed)
    widths = (int(rng.integers(1, 6)), *rng.integers(2, 12, 2).tolist(), int(rng.integers(2, 5)))
    instance = question(
        networks.dense(rng, widths, float(rng.choice([1e-6, 0.1, 1, 30]))), seed, 120
    )
    points = rng.random((60, widths[0])).astype(np.float32)
    points[rng.random(points.shape) < 0.2] = 0.0
    expect_sound(instance, points)


def test_members_at_some_distance_are_decided_by_their_copies():
    instance = question(
        networks.dense(np.random.default_rng(5), (6, 20, 20, 2), 0.4), 0, 300, (0.03,)
    )
    points = np.random.default_rng(1).random((100, 6)).astype(np.float32)
    assert expect_sound(instance, points) < 0.1


@pytest.mark.parametrize("scale", [1e-30, 1e-38, 1e-44, 1e6])
def test_weights_at_the_ends_of_float32(scale):
    model = networks.dense(np.random.default_rng(2), (3, 5, 5, 2), scale)
    with np.errstate(over="ignore"):
        instance = question(model, 1, 40, FACTORS[:5])
    expect_sound(instance, np.random.default_rng(0).random((20, 3)).astype(np.float32))


@pytest.mark.parametrize("number", [1e300, -1e300, np.inf, np.nan, 1e-310])
def test_members_that_float32_does_not_hold(number):
    """Of a member that cannot be copied nothing is told; of the others as much as before."""
    instance = question(networks.dense(np.random.default_rng(2), (3, 5, 5, 2)), 1, 30, (1e-3,))
    packed = Crowd(instance).packed_members
    weights = packed.weights.astype(np.float64)
    weights[7, 3] = number
    odd = dataclasses.replace(packed, weights=weights, biases=packed.biases.astype(np.float64))
    copy, plain = (CoarseCopy.of(each, np.arange(30)) for each in (odd, packed))
    closed = 0
    for x in np.random.default_rng(0).random((20, 3)).astype(np.float32):
        label = int(instance.network.stack.scores(x[None].astype(np.float64))[0].argmax())
        left, before = (each.at(x, label, 2, 0.0).open(np.arange(30)) for each in (copy, plain))
        if abs(number) > 1 or np.isnan(number):
            assert 7 in left
        assert (np.setdiff1d(left, 7) == np.setdiff1d(before, 7)).all()
        closed += 30 - len(before)
    assert closed


@pytest.mark.parametrize("kind", ["dense", "residual", "convolution_2d"])
def test_what_is_said_of_copies_bounds_how_far_members_are(kind):
    crowd, copy = copied(
        question(getattr(networks, kind)(np.random.default_rng(1)), 7, 60, (0.0, 1e-3, 0.02))
    )
    layout, own = Layout.of(crowd.packed_members), crowd.packed_members.own
    assert (copy.order[copy.places] == np.arange(60)).all()
    apart = crowd.packed_members.apart(copy.order)
    steps = copy.numbers.astype(np.float64)
    for layer in range(len(layout.blocks)):
        scale, off, moved = copy.sizes[:, layer].astype(np.float64).T
        for columns in layout.columns(layer):
            steps[:, columns] *= scale[:, None]
        for rows, bound in ((apart - steps, off), (steps, moved)):
            true = np.linalg.norm(layout.matrix(rows, layer), 2, axis=(1, 2))
            assert (bound >= true).all()
        rest = np.abs(apart - steps)[:, next(layout.columns(layer))].max(axis=1)
        assert (rest <= 0.5000001 * scale).all()
    assert len(copy.spectral) == sum(map(len, layout.blocks))
    assert len(own) == copy.numbers.shape[1]


def test_members_close_to_the_error_on_either_side():
    """A member's last bias puts its margin where it is wanted, a millionth beside the error."""
    instance = question(networks.dense(np.random.default_rng(4), (4, 9, 9, 2)), 2, 64, (0.01,))
    crowd = Crowd(instance)
    x = np.random.default_rng(0).random(4).astype(np.float32)
    labels, margins = margins_at(instance, x[None])
    label, rng = int(labels[0]), np.random.default_rng(1)
    biases = crowd.packed_members.biases.astype(np.float64)
    wanted = crowd.error + rng.choice([-1e-6, 0.0, 1e-6], 64)
    biases[:, biases.shape[1] - 2 + label] += wanted - margins[:, 0]
    weights = crowd.packed_members.weights.astype(np.float64)
    packed = dataclasses.replace(crowd.packed_members, weights=weights, biases=biases)
    left = CoarseCopy.of(packed, np.arange(64)).at(x, label, 2, crowd.error).open(np.arange(64))
    assert np.isin(np.flatnonzero(wanted <= crowd.error), left).all()


@pytest.mark.parametrize(
    ("kind", "far"), [("dense", 0.3), ("residual", 0.03), ("convolution_2d", 0.03)]
)
def test_exactly_the_leaks_are_found_by_way_of_copies(kind, far, tmp_path, monkeypatch):
    monkeypatch.setattr(agreement, "_ALONE", 4)
    instance = question(
        getattr(networks, kind)(np.random.default_rng(3)), 1, 50, (0.0, far / 10, far)
    )
    bounds = ProvedBounds.of(instance, [None] * instance.labels)
    bounds = dataclasses.replace(bounds, upper=unbounded(instance))
    test = LeakTest(instance, bounds, local=True)
    points = np.random.default_rng(2).random((150, instance.network.inputs)).astype(np.float32)
    labels, leaks = Served(tmp_path, instance).truth(points)
    assert leaks.any() and not leaks.all()
    # Whom suspicion finds is asked no further.
    monkeypatch.setattr(Crowd, "suspect", lambda *given: None)
    for found in (test.find_all(points), [test.find(x) for x in points]):
        assert [each.label for each in found] == labels.tolist()
        assert [each.leak for each in found] == leaks.tolist()
