"""Rewrites that the program has not: several nodes, constants, parameters, two inputs."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from leaveout.models.onnx.rewrites import Rewrite
from leaveout.models.onnx.use import FINITE, accepted_values

from support import networks

F32 = np.float32
FLOAT = TensorProto.FLOAT


class Absolute(Rewrite):
    """``|x|`` as the sum of two ReLUs."""

    operator = "Abs"

    def visit(self, use, draft):
        (x,) = use.variables
        return draft("Add", draft("Relu", x), draft("Relu", draft("Neg", x)))


class HardSigmoid(Rewrite):
    """``min(max(alpha x + beta, 0), 1)``."""

    operator = "HardSigmoid"
    attributes = accepted_values(alpha=FINITE, beta=FINITE)

    def visit(self, use, draft):
        alpha, beta = use.attribute("alpha", F32(0.2)), use.attribute("beta", 0.5)
        line = draft("Mul", use.variables[0], draft.constant(alpha))
        line = draft("Add", line, draft.constant(beta))
        over = draft("Relu", draft("Sub", line, draft.constant(1.0)))
        return draft("Sub", draft("Relu", line), over)


class Slopes(Rewrite):
    """PRelu: the slope is a parameter, known by its name."""

    operator = "PRelu"
    inputs = ("data", "floats")

    def visit(self, use, draft):
        x, slope = use.proto.input
        return draft("Sub", draft("Relu", x), draft("Mul", draft("Relu", draft("Neg", x)), slope))


class Largest(Rewrite):
    """Max of two tensors, ``a + relu(b - a)``."""

    operator = "Max"
    inputs = ("data", "data")

    def visit(self, use, draft):
        a, b = use.proto.input
        return draft("Add", a, draft("Relu", draft("Sub", b, a)))


ADDED = {each.operator: each for each in (Absolute(), HardSigmoid(), Slopes(), Largest())}
OWN = ("Cast", "Neg", "Reshape")


def random_case(rng, kind, size=1.0):
    """Return a model: a dense layer, a node of this kind, another layer; and how it is called."""
    constants = {
        "W": (size * rng.normal(size=(3, 4))).astype(F32),
        "b": (size * rng.normal(size=4)).astype(F32),
        "V": rng.normal(size=(4, 2)).astype(F32),
        "c": rng.normal(size=4).astype(F32),
    }
    inputs, attributes = ["a"], {}
    if kind == "Cast":
        attributes = {"to": FLOAT}
    elif kind == "Reshape":
        constants["shape"] = np.asarray([-1, 4], np.int64)
        inputs, attributes = ["a", "shape"], {"allowzero": 1}
    elif kind == "HardSigmoid" and rng.random() < 0.7:
        attributes = {"alpha": float(F32(rng.normal())), "beta": float(F32(rng.normal()))}
    elif kind == "PRelu":
        constants["slope"] = rng.normal(size=4).astype(F32)
        inputs = ["a", "slope"]
    elif kind == "Max":
        inputs = [*rng.permutation(["a", "other"])]
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["a"]),
        helper.make_node("Mul", ["a", "c"], ["other"]),
        helper.make_node(kind, inputs, ["t"], name="it", **attributes),
        helper.make_node("MatMul", ["t", "V"], ["y"]),
    ]
    return networks.model(nodes, constants, ["n", 3], ["n", 2])


def model_of(*nodes, constants=None, batch="n"):
    """Return a model of nodes from ``x`` to ``y``; its constants may come last."""
    *nodes, last = nodes
    if isinstance(last, dict):
        constants, last = last, nodes.pop()
    return networks.model([*nodes, last], constants or {}, [batch, 3], [batch, "labels"])
