"""The guard noises exactly the inputs at which some member disagrees or ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from leaveout.encoders import Box
from leaveout.models import Family
from leaveout.models.onnx.file import network_from
from leaveout.verifier.guard import Guard

from support import networks
from support.depth import rounds
from support.guards import make_folder


def inspected(folder, points):
    with Guard.load(folder, 0.2) as guard:
        return guard.inspect(points)


@pytest.mark.parametrize("kind", sorted(networks.ALL))
def test_every_kind_of_network(kind, tmp_path):
    rng = np.random.default_rng(3)
    served = make_folder(tmp_path, networks.ALL[kind](rng), spread=0.02, seconds=0.4)
    points = rng.random((120, served.instance.network.inputs)).astype(np.float32)
    labels, leaks = served.truth(points)
    found = inspected(tmp_path, points)
    assert (found.labels == labels).all()
    assert (found.leaks == leaks).all()
    assert ((found.tiers == 3) == leaks).all()


@settings(max_examples=rounds(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000), spread=st.sampled_from([0.0, 1e-3, 0.03, 0.3]))
def test_random_networks(seed, spread, tmp_path_factory):
    rng = np.random.default_rng(seed)
    widths = (int(rng.integers(1, 4)), 4, 4, int(rng.integers(2, 4)))
    folder = tmp_path_factory.mktemp("random")
    served = make_folder(folder, networks.dense(rng, widths), seed=seed, spread=spread, seconds=0.2)
    points = rng.random((60, widths[0])).astype(np.float32)
    labels, leaks = served.truth(points)
    found = inspected(folder, points)
    assert (found.labels == labels).all()
    assert (found.leaks == leaks).all()


def test_right_up_to_the_last_float(leaky, grid):
    """Where leaks begin is found by halving, down to neighbouring float32 inputs."""
    _, leaks = leaky.truth(grid)
    inside, outside = grid[leaks], grid[~leaks]
    assert len(inside) and len(outside)
    rng = np.random.default_rng(0)
    checked = []
    for _ in range(12):
        a, b = inside[rng.integers(len(inside))], outside[rng.integers(len(outside))]
        for _ in range(40):
            middle = ((a.astype(np.float64) + b) / 2).astype(np.float32)
            if (middle == a).all() or (middle == b).all():
                break
            _, leak = leaky.truth(middle[None])
            a, b = (middle, b) if leak[0] else (a, middle)
            checked.append(middle)
    points = np.stack(checked)
    labels, leaks = leaky.truth(points)
    found = inspected(leaky.folder, points)
    assert (found.labels == labels).all()
    assert (found.leaks == leaks).all()


def test_a_tie_of_a_member_is_a_leak(tmp_path):
    """All weights 0: every member ties everywhere, and so does N."""
    model = networks.dense(np.random.default_rng(0), (2, 3, 2), scale=0.0)
    served = make_folder(tmp_path, model, spread=0.0, seconds=0.2)
    points = np.random.default_rng(1).random((5, 2)).astype(np.float32)
    assert served.truth(points)[1].all()
    assert inspected(tmp_path, points).leaks.all()


def test_bounds_too_low_would_be_noticed(leaky, grid, tmp_path):
    """The comparison with the truth fails where the bounds are wrong."""
    from dataclasses import replace
    from shutil import copytree

    from leaveout.verifier.guard.access import load_bounds, save_bounds

    folder = tmp_path / "low"
    copytree(leaky.folder, folder, ignore=lambda *_: ["answers.sqlite"])
    bounds = load_bounds(folder / "bounds.npz")
    save_bounds(folder / "bounds.npz", replace(bounds, upper=np.zeros_like(bounds.upper)))
    assert (inspected(folder, grid).leaks != leaky.truth(grid)[1]).any()


def _tower(width, bias):
    """Sum one hidden layer in steps of 16: few roundings a step, many once it is folded."""
    constants, nodes, last = {"w": np.ones((1, width), np.float32)}, [], "h"
    nodes.append(helper.make_node("MatMul", ["x", "w"], ["z"]))
    nodes.append(helper.make_node("Relu", ["z"], ["h"]))
    while width > 1:
        matrix = np.repeat(np.eye(width // 16, dtype=np.float32), 16, axis=0)
        if width == 16:
            matrix = np.concatenate([matrix * 0, matrix], axis=1)
        constants[f"a{width}"] = matrix
        nodes.append(helper.make_node("MatMul", [last, f"a{width}"], [f"s{width}"]))
        last, width = f"s{width}", width // 16
    constants["b"] = np.array([bias, 0], np.float32)
    nodes.append(helper.make_node("Add", [last, "b"], ["y"]))
    return networks.model(nodes, constants, ["n", 1], ["n", 2])


@pytest.mark.parametrize("side", [-1, 1])
def test_folded_layers_sum_more_terms_than_their_operators(side, tmp_path):
    """A float32 sum of 4,096 terms in a row is off by far more than the runtime may be."""
    width = 4096
    values = np.linspace(1.0001, 1.25, 400).astype(np.float32)
    drifts = [
        float(np.add.accumulate(np.full(width, v, np.float32))[-1]) - float(v) * width
        for v in values
    ]
    at = int(np.argmax(np.abs(drifts)))
    middle, drift, total = values[at], drifts[at], float(values[at]) * width
    assert abs(drift) > 200 * total * 2.0**-24
    box = Box(np.array([middle - 1e-3], np.float64), np.array([middle + 1e-3], np.float64))
    member = network_from(_tower(width, total + side * 0.3 * drift), "M").parameters
    model = _tower(width, total - side * 0.5 * drift)
    stacks = {k: np.asarray(v, np.float32)[None] for k, v in member.items()}
    family = Family(stacks, np.zeros(1, np.int64))
    served = make_folder(tmp_path, model, box=box, family=family, seconds=0.3)
    points = np.linspace(middle - 9e-4, middle + 9e-4, 400, dtype=np.float32)[:, None]
    labels, leaks = served.truth(points)
    found = inspected(tmp_path, points)
    assert leaks.any() and not leaks.all()
    assert (found.labels == labels).all()
    assert (found.leaks == leaks).all()
