"""Ends of float32 scores: nothing that is computed is beyond them, and some of them are met."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from leaveout.encoders import Applied, Box
from leaveout.encoders.applied import computed_ends
from leaveout.models.onnx.file import network_from

from support import networks
from support.depth import rounds

SEEDS = st.integers(0, 2**32 - 1)


def ends_of(network, box):
    return computed_ends(Applied(network).rounding(box), box)


def points_of(rng, box, count=300):
    """Random points, corners, and points next to them, as float32."""
    low, high = box.lower.astype(np.float32), box.upper.astype(np.float32)
    corners = np.where(rng.random((count, len(low))) < 0.5, low, high)
    inside = (low + rng.random((count, len(low))) * (high - low)).astype(np.float32)
    beside = np.nextafter(corners, inside)
    return np.clip(np.concatenate([corners, inside, beside]), low, high)


@settings(max_examples=rounds(100), deadline=None)
@given(seed=SEEDS, name=st.sampled_from(sorted(networks.ALL)))
def test_nothing_that_is_computed_is_beyond_the_ends(seed, name):
    rng = np.random.default_rng(seed)
    network = network_from(networks.ALL[name](rng), name)
    centre, half = rng.choice([-1, 0, 0.5], network.inputs), rng.choice([0, 2**-3, 1])
    box = Box(centre - half, centre + half)
    found = ends_of(network, box)
    scores = network.runner().scores(points_of(rng, box))
    assert (found.lower <= scores).all()
    assert (scores <= found.upper).all()


@settings(max_examples=rounds(150), deadline=None)
@given(seed=SEEDS, few=st.booleans())
def test_sums_in_any_order_end_there(seed, few):
    rng = np.random.default_rng(seed)
    inputs = int(rng.integers(1, 7))
    weights = rng.choice([1, -1, 2, 0.5, 0], (1, inputs)) if few else rng.normal(size=(1, inputs))
    bias = rng.choice([0, 1, -1]) if few else rng.normal()
    constants = {"W": weights.astype(np.float32), "b": np.array([bias], np.float32)}
    constants["z"] = np.array([[1.0, -1.0]], np.float32)
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["s"], transB=1),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("MatMul", ["r", "z"], ["y"]),
    ]
    network = network_from(networks.model(nodes, constants, ["n", inputs], ["n", 2]), "n")
    box = Box(np.where(rng.random(inputs) < 0.5, 0.0, -1.0), np.ones(inputs))
    found = ends_of(network, box)
    for x in points_of(rng, box, 20):
        terms = np.append(constants["W"][0] * x, constants["b"])
        for _ in range(5):
            total = np.float32(0)
            for term in rng.permutation(terms):
                total = np.float32(total + term)
            value = max(total, np.float32(0))
            assert found.lower[0] <= value <= found.upper[0]
            assert found.lower[1] <= -value <= found.upper[1]
    if few:
        # On a grid nothing is rounded: a corner meets the end.
        corner = np.where(weights[0] > 0, box.upper, box.lower)
        assert found.upper[0] == max(float(weights[0] @ corner + bias), 0.0)


@pytest.mark.parametrize(
    ("nodes", "ends"),
    [
        ([("Identity", [], {})], (-1.0, 3.0)),
        ([("Relu", [], {})], (0.0, 3.0)),
        ([("Relu", [], {}), ("Neg", [], {})], (-3.0, 0.0)),
        ([("Clip", ["low", "high"], {})], (None, 0.7)),
        ([("Clip", ["low", "one"], {})], (0.25, 1.0)),
        ([("Mul", ["odd"], {}), ("Relu", [], {})], (0.0, None)),
        ([("Mul", ["small"], {}), ("Mul", ["large"], {})], (-1.0, 3.0)),
        ([("Mul", ["tiny"], {}), ("Mul", ["huge"], {})], (-1.0, 3.0)),
        ([("Mul", [each], {}) for each in ("tiny", "tiny", "huge", "huge")], (None, None)),
        ([("Mul", ["odd"], {}), ("Mul", ["odd"], {})], (None, None)),
    ],
)
def test_where_nothing_is_rounded_ends_are_met(nodes, ends):
    number = lambda value: np.float32(value)
    constants = {
        "low": number(0.25), "high": number(0.7), "one": number(1.0), "odd": number(0.1),
        "small": number(2.0**-10),
        "large": number(2.0**10), "tiny": number(2.0**-70), "huge": number(2.0**70),
    }  # fmt: skip
    used = {name for _, names, _ in nodes for name in names}
    made, at = [], "x"
    for i, (kind, names, attributes) in enumerate(nodes):
        out = "y" if i + 1 == len(nodes) else f"t{i}"
        made.append(helper.make_node(kind, [at, *names], [out], **attributes))
        at = out
    constants = {name: value for name, value in constants.items() if name in used}
    network = network_from(networks.model(made, constants, ["n", 2], ["n", 2]), "n")
    found = ends_of(network, Box(np.full(2, -1.0), np.full(2, 3.0)))
    exact = [-1.0, 3.0]
    for kind, names, _ in nodes:
        factor = float(constants[names[0]]) if kind == "Mul" else 1.0
        exact = [factor * v for v in exact] if kind != "Clip" else [0.25, 0.7]
    for side, end, value in zip((found.lower, found.upper), ends, exact):
        if end is None:
            assert (side < value if side is found.lower else side > value).all()
        else:
            assert side.tolist() == [float(np.float32(end))] * 2
