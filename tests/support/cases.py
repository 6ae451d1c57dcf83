"""Random small questions, and what brute force says about them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from leaveout.bab import Instance, make_instance
from leaveout.encoders import Box
from leaveout.models import Family, Network, confidence
from leaveout.models.onnx.file import network_from

from support import networks

Floats = np.ndarray


def shaken(
    rng: np.random.Generator, network: Network, members: int, spread: float
) -> dict[str, Floats]:
    """Stack ``members`` copies of a network's parameters, each disturbed a little."""
    return {
        name: np.stack(
            [value + spread * rng.normal(size=value.shape) for _ in range(members)]
        ).astype(np.float32)
        for name, value in network.parameters.items()
    }


def dividing() -> tuple[Network, Family]:
    """Return a network that divides, and two members of which the second divides by zero."""
    nodes = [
        onnx.helper.make_node("Div", ["x", "d"], ["z"]),
        onnx.helper.make_node("MatMul", ["z", "W"], ["y"]),
    ]
    constants = {"d": np.ones(2, np.float32), "W": np.eye(2, dtype=np.float32)}
    network = network_from(networks.model(nodes, constants, ["n", 2], ["n", 2]), "div.onnx")
    stacked = {name: np.stack([value, value]) for name, value in network.parameters.items()}
    stacked["d"][1] = 0
    return network, Family(stacked, np.asarray([4, 7]))


def family_of(
    rng: np.random.Generator, network: Network, members: int, spread: float = 0.1
) -> Family:
    """Return a family of disturbed copies."""
    return Family(shaken(rng, network, members, spread), np.arange(members, dtype=np.int64))


def question(
    seed: int,
    *,
    model: onnx.ModelProto | None = None,
    spread: float | None = None,
    scale: float = 1.0,
    negative: bool | None = None,
) -> Instance:
    """Make a random question: 1-3 inputs, 2-3 labels, 1-3 members unless a model is given."""
    rng = np.random.default_rng(seed)
    if model is None:
        widths = (int(rng.integers(1, 4)), 4, 4, int(rng.integers(2, 4)))
        model = networks.dense(rng, widths, scale)
    network = network_from(model, "random")
    amount = spread if spread is not None else scale * float(rng.choice([1e-3, 0.03, 0.2]))
    family = family_of(rng, network, int(rng.integers(1, 4)), amount)
    below = rng.random() < 0.5 if negative is None else negative
    lower = np.full(network.inputs, -0.5 if below else 0.0)
    return make_instance(network, family, Box(lower, np.ones(network.inputs)))


@dataclass(frozen=True, eq=False)
class BruteForce:
    """Every leak among many float32 points, as onnxruntime sees it.

    ``best`` has one number a label, ``member`` one a label and member.
    """

    best: tuple[float, ...]
    member: tuple[tuple[float, ...], ...]

    @staticmethod
    def of(instance: Instance, points: int = 20_000, seed: int = 1) -> BruteForce:
        """Evaluate N and every member on a grid (one input) or random points."""
        rng = np.random.default_rng(seed)
        box = instance.box
        if box.dimension == 1:
            x = np.linspace(box.lower, box.upper, points)
        else:
            corners = np.where(
                rng.random((points // 10, box.dimension)) < 0.5, box.lower, box.upper
            )
            x = np.concatenate([box.sample(rng, points), corners])
        x = x.astype(np.float32)
        x = x[box.contains(x.astype(np.float64))]
        own = instance.network.runner().scores(x).astype(np.float64)
        others = []
        for member in range(len(instance.family)):
            taken = {k: v[0] for k, v in instance.family.take([member]).items()}
            others.append(instance.network.runner(taken).scores(x).astype(np.float64))
        each = []
        for label in range(instance.labels):
            f = confidence(own, label)
            leaks = [(f > 0) & (confidence(other, label) <= 0) for other in others]
            each.append(tuple(float(f[leak].max(initial=0.0)) for leak in leaks))
        return BruteForce(tuple(max(found) for found in each), tuple(each))


def leaky() -> tuple[Instance, int]:
    """Return a question with a leak of confidence about 0.8 (two labels, two members)."""
    return question(8, negative=False, spread=0.1), 1


def slow_question(
    seed: int = 3,
    members: int = 12,
    widths: tuple[int, ...] = (3, 12, 12, 2),
    spread: float = 0.05,
) -> Instance:
    """Return a question that takes some rounds."""
    rng = np.random.default_rng(seed)
    network = network_from(networks.dense(rng, widths, 0.8), "random")
    family = family_of(rng, network, members, spread)
    return make_instance(network, family, Box(np.zeros(network.inputs), np.ones(network.inputs)))
