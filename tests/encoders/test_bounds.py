"""Propagated bounds hold at every point and for every member, and rounding never breaks them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.encoders import hyper_network, network_bounds, pair_bounds
from leaveout.encoders.bounds import confidence_upper, difference, hyper_bounds, relu_difference
from leaveout.encoders.interval import Interval
from leaveout.models import confidence

from support import networks
from support.cases import question
from support.depth import rounds

seeds = st.integers(0, 2**32 - 1)
KINDS = ["residual", "convolution_1d", "convolution_2d", "matmul_add_softmax"]
KINDS += ["bent", "pooled"]


def _inside(values, interval, slack=0.0):
    assert (values >= interval.lower - slack).all()
    assert (values <= interval.upper + slack).all()


def _check(instance, seed):
    network, box = instance.network.stack, instance.box
    members = instance.members.take(range(len(instance.members)))
    points = box.sample(np.random.default_rng(seed), 500)
    own, others = network.activations(points), members.activations(points)
    hyper = hyper_network(members)
    bounds = network_bounds(network, box)
    pair = pair_bounds(network, hyper, bounds, box)
    plain = hyper_bounds(hyper, box)
    last = len(own) - 1
    for k, (z, zs) in enumerate(zip(own, others, strict=True)):
        _inside(z, bounds[k])
        _inside(zs, pair.hyper[k])
        _inside(zs, plain[k])
        # The values themselves are rounded by an ulp or so of the activations.
        slack = 1e-13 * (1 + np.abs(zs).max())
        _inside(zs - z, pair.before[k], slack)
        if k < last:
            _inside(np.maximum(zs, 0) - np.maximum(z, 0), pair.after[k], slack)
        else:
            _inside(zs - z, pair.after[k], slack)
    for label in range(network.labels):
        most = confidence_upper(network, box, bounds, label)
        assert confidence(own[-1], label).max() <= most


@settings(max_examples=rounds(60), deadline=None)
@given(seeds, st.sampled_from([1e-6, 1e-2, 1.0, 1e3]))
def test_bounds_hold_for_dense_networks_of_any_scale(seed, scale):
    _check(question(seed, scale=scale), seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_for_residual_and_convolutional_networks(kind, seed):
    model = networks.ALL[kind](np.random.default_rng(seed))
    _check(question(seed, model=model, negative=bool(seed % 2)), seed)


def test_equal_networks_have_no_difference():
    instance = question(0, spread=0.0)
    hyper = hyper_network(instance.members)
    pair = pair_bounds(instance.network.stack, hyper, instance.bounds, instance.box)
    for interval in (*pair.before, *pair.after):
        assert interval.magnitude.max() <= 1e-12


def test_the_difference_is_far_tighter_than_bounding_the_two_networks_apart():
    instance = question(5, spread=1e-4)
    hyper = hyper_network(instance.members)
    pair = pair_bounds(instance.network.stack, hyper, instance.bounds, instance.box)
    apart = hyper_bounds(hyper, instance.box)[-1].width + instance.bounds[-1].width
    assert (pair.after[-1].width * 20 < apart).all()


@settings(max_examples=rounds(300), deadline=None)
@given(
    *[st.floats(-10, 10, width=32) for _ in range(4)],
)
def test_the_difference_of_two_relus_is_bounded_exactly(a, b, c, d):
    pre = Interval(np.asarray([min(a, b)]), np.asarray([max(a, b)]))
    change = Interval(np.asarray([min(c, d)]), np.asarray([max(c, d)]))
    found = relu_difference(pre, change)
    z, t = np.meshgrid(
        np.linspace(pre.lower[0], pre.upper[0], 41),
        np.linspace(change.lower[0], change.upper[0], 41),
    )
    values = np.maximum(z + t, 0) - np.maximum(z, 0)
    assert found.lower[0] <= values.min() + 1e-13
    assert found.upper[0] >= values.max() - 1e-13
    # Exact: the extremes are attained at corners, which are on the grid.
    assert found.lower[0] >= values.min() - 1e-12
    assert found.upper[0] <= values.max() + 1e-12


@settings(max_examples=rounds(100), deadline=None)
@given(seeds)
def test_interval_products_contain_the_exact_rational_result(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    size = 10.0 ** rng.integers(-8, 9, size=n)
    weights = rng.normal(size=(1, n)) * size
    values = rng.normal(size=n) / size
    found = Interval.point(values).apply(Interval.point(weights))
    exact = sum(Fraction(float(w)) * Fraction(float(v)) for w, v in zip(weights[0], values))
    assert Fraction(float(found.lower[0])) <= exact <= Fraction(float(found.upper[0]))


def test_weight_differences_contain_the_exact_difference():
    rng = np.random.default_rng(0)
    instance = question(1, spread=1e-7)
    delta = difference(hyper_network(instance.members), instance.network.stack)
    layer = int(rng.integers(len(delta)))
    (source,) = delta[layer].weights
    interval = delta[layer].weights[source]
    own = instance.network.stack.layers[layer].weights[source][0]
    members = instance.members.take(range(len(instance.members)))
    for member in members.layers[layer].weights[source]:
        for i, j in np.ndindex(own.shape):
            exact = Fraction(float(member[i, j])) - Fraction(float(own[i, j]))
            low, high = Fraction(float(interval.lower[i, j])), Fraction(float(interval.upper[i, j]))
            assert low <= exact <= high
