"""Matrices kept as their entries compute what arrays compute."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.models import matrices
from leaveout.models.graph import Join
from leaveout.models.lowering import stacked_constants
from leaveout.models.matrices import (
    Sparse,
    add,
    compose,
    dense,
    identity,
    same_places,
    scale,
    settle,
    without_zeros,
)
from leaveout.models.onnx.file import network_from
from leaveout.models.onnx.operators import Affine

from support import networks
from support.depth import rounds

cheap = settings(max_examples=rounds(60), deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def random_sparse(rng, m, rows, columns):
    """Taps that may read an input twice, or nothing."""
    places = rng.integers(-1, columns, (rows, int(rng.integers(1, 4))))
    factors = rng.integers(-3, 4, (m, int(rng.choice([1, rows])), places.shape[1])).astype(float)
    found = Sparse.of_taps(places, factors, columns)
    expected = np.zeros((m, rows, columns))
    for row, reads in enumerate(places):
        for k, place in enumerate(reads):
            if place >= 0:
                expected[:, row, place] += factors[:, row if factors.shape[1] > 1 else 0, k]
    np.testing.assert_array_equal(found.dense(), expected)
    return found


@cheap
@given(seed=seeds)
def test_sums_and_products_are_those_of_arrays(seed):
    rng = np.random.default_rng(seed)
    m, (a, b, c) = int(rng.integers(1, 4)), rng.integers(1, 6, 3)
    first, second = random_sparse(rng, m, b, c), random_sparse(rng, int(rng.choice([1, m])), a, b)
    other = random_sparse(rng, m, b, c)
    every = [first, first.dense()], [second, second.dense()]
    for one in every[0]:
        for two in every[1]:
            np.testing.assert_array_equal(dense(compose(two, one)), dense(two) @ dense(one))
        for sign in (1, -1):
            expected = dense(one) + sign * dense(other)
            np.testing.assert_array_equal(dense(add(one, other, sign)), expected)
        np.testing.assert_array_equal(dense(scale(one, -2.0)), -2.0 * dense(one))
    np.testing.assert_array_equal(dense(compose(first, identity(c))), first.dense())
    np.testing.assert_array_equal(first.transpose().dense(), first.dense().transpose(0, 2, 1))
    points = rng.integers(-3, 4, (int(rng.choice([1, m])), 3, b)).astype(float)
    np.testing.assert_array_equal(points @ first, points @ first.dense())
    np.testing.assert_array_equal(first[0].toarray(), first.dense()[0])
    np.testing.assert_array_equal(first[[0]].dense(), first.dense()[[0]])


def test_a_loop_over_entries_is_refused_since_it_would_not_end():
    for loop in (list, np.asarray, np.abs):
        with pytest.raises(TypeError):
            loop(identity(3))


def test_places_do_not_depend_on_numbers():
    places = np.array([[0, 1], [1, 2]])
    one = Sparse.of_taps(places, np.array([[[1.0, 1.0]]]), 3)
    other = Sparse.of_taps(places, np.array([[[0.0, -1.0]]]), 3)
    for found in (add(one, scale(one, -1.0), 1), compose(other, identity(3))):
        np.testing.assert_array_equal(found.columns, one.columns)
        np.testing.assert_array_equal(found.starts, one.starts)


@pytest.mark.parametrize(
    "build",
    [
        networks.matmul_add_softmax,
        networks.residual,
        networks.convolution_1d,
        networks.convolution_2d,
        networks.disguised,
        networks.bent,
        networks.pooled,
    ],
)
def test_the_matrix_of_an_operator_is_what_it_applies(build):
    network = network_from(build(np.random.default_rng(0)), "net.onnx")
    graph = network.graph
    constants = stacked_constants(graph, {k: v[None] for k, v in network.parameters.items()})
    shapes = {graph.input: graph.input_shape}
    rng, seen = np.random.default_rng(1), 0
    for node in graph.needed_nodes():
        shape = shapes[node.inputs[0]]
        shapes[node.output] = shape
        if isinstance(node.operator, Affine):
            shapes[node.output] = node.operator.shape_after(shape, graph.shapes)
            points = rng.normal(size=(1, 4, *shape))
            expected = node.operator.apply(points, constants, False).reshape(1, 4, -1)
            matrix = node.operator.matrix(shape, constants)
            found = points.reshape(1, 4, -1) @ matrix.transpose(0, 2, 1)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
            assert matrices.numbers(matrix).shape[1] <= max(
                node.operator.entries(shape, graph.shapes), math.prod(shapes[node.output])
            )
            seen += 1
        else:
            assert not isinstance(node.operator, Join) or len(node.inputs) == 2
    assert seen


def test_small_or_full_matrices_are_arrays():
    assert isinstance(settle(identity(8), 3), np.ndarray)
    large = settle(identity(1000), 3)
    assert isinstance(large, Sparse) and large.shape == (3, 1000, 1000)
    assert isinstance(settle(large.dense()[:1], 2), np.ndarray)


def test_places_are_compared():
    one = Sparse.of_taps(np.array([[0], [1]]), np.ones((1, 1, 1)), 3)
    two = Sparse.of_taps(np.array([[0], [2]]), np.ones((1, 1, 1)), 3)
    assert same_places(one, scale(one, 2.0)) and same_places(one.dense(), two.dense())
    assert not same_places(one, two) and not same_places(one, one.dense())


def test_layers_that_only_pick_are_kept_as_entries():
    picks = np.zeros((1, 2000, 1000))
    picks[0, np.arange(1000), np.arange(1000)] = 1.0
    found = without_zeros(picks)
    assert isinstance(found, Sparse) and found.size == 1000
    np.testing.assert_array_equal(found.dense(), picks)
    assert isinstance(without_zeros(picks + 1.0), np.ndarray)


def test_products_in_blocks_are_products_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(20):
        second = Sparse.of_taps(rng.integers(-1, 7, (9, 3)), rng.normal(size=(2, 9, 3)), 7)
        first = Sparse.of_taps(rng.integers(-1, 5, (7, 2)), rng.normal(size=(1, 7, 2)), 5)
        monkeypatch.setattr(matrices, "_TERMS", 2**22)
        whole = matrices.compose(second, first)
        monkeypatch.setattr(matrices, "_TERMS", int(rng.integers(1, 9)))
        parts = matrices.compose(second, first)
        assert np.array_equal(whole.starts, parts.starts)
        assert np.array_equal(whole.columns, parts.columns)
        assert np.array_equal(whole.values, parts.values)
        assert np.allclose(whole.dense(), second.dense() @ first.dense())


def test_the_transposed_matrix_has_its_entries_in_order():
    rng = np.random.default_rng(1)
    for _ in range(20):
        matrix = Sparse.of_taps(rng.integers(-1, 7, (9, 3)), rng.normal(size=(2, 9, 3)), 7)
        turned = matrix.transpose(0, 2, 1)
        assert np.array_equal(turned.dense(), matrix.dense().transpose(0, 2, 1))
        for start, stop in zip(turned.starts[:-1], turned.starts[1:], strict=True):
            assert np.all(np.diff(turned.columns[start:stop]) > 0)
