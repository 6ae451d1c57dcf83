"""Bounds of the example's functions hold, and leaveout finds them by name."""

from fractions import Fraction

import leaveout_weights
import numpy as np
import pytest
from leaveout_weights.steepness import largest_slope, steepest_sample

from leaveout.models import Layer, Stack
from leaveout.specs import functions


def random_stack(rng: np.random.Generator, widths: tuple[int, ...], residual: bool) -> Stack:
    """Return a network with random weights, if asked with a connection past a layer."""
    layers = []
    for k, width in enumerate(widths[1:]):
        weights = {k: rng.normal(size=(1, width, widths[k]))}
        if residual and k:
            weights[k - 1] = rng.normal(size=(1, width, widths[k - 1]))
        layers.append(Layer(weights, rng.normal(size=(1, width))))
    return Stack(widths[0], tuple(layers))


def test_leaveout_finds_the_functions_by_name() -> None:
    """The entry points are enough."""
    assert functions()["sparsity"] is leaveout_weights.SPARSITY
    assert functions()["lipschitz"] is leaveout_weights.LIPSCHITZ


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("residual", [False, True])
def test_no_pair_of_points_is_steeper_than_the_upper_bound(seed: int, residual: bool) -> None:
    """Quotients of differences, taken in float64, stay below; the lower bound is one of them."""
    rng = np.random.default_rng(seed)
    stack = random_stack(rng, (3, 5, 4, 2), residual)
    upper = largest_slope(stack)
    lower = steepest_sample(stack, rng, 50, upper)
    x = rng.normal(size=(500, 3))
    y = x + rng.normal(scale=1e-3, size=x.shape)
    change = np.abs(stack.activations(x)[-1] - stack.activations(y)[-1]).reshape(500, -1).max(1)
    steepest = (change / np.abs(x - y).max(1)).max()
    assert 0 < lower <= upper
    assert steepest <= upper * (1 + 1e-9)


def test_a_linear_network_is_known_almost_exactly() -> None:
    """Of one layer the norm is the slope."""
    weights = np.asarray([[[1.0, -2.0], [0.5, 0.25]]])
    stack = Stack(2, (Layer({0: weights}, np.zeros((1, 2))),))
    upper = largest_slope(stack)
    assert upper == pytest.approx(3)
    assert Fraction(upper) >= 3
    assert steepest_sample(stack, np.random.default_rng(0), 5, upper) == pytest.approx(3)
