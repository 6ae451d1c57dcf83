"""A network in the making, for attacks on the reading of ONNX files."""

from __future__ import annotations

from typing import Any

import numpy as np

from attacks.onnx_cases import tensor

__all__ = ["SCALES", "Attributes", "Draft", "Rng"]

Rng = np.random.Generator
Attributes = dict[str, Any]

SCALES = [1.0] * 8 + [1e-3, 1e3, 1e-12, 1e12, 1e-25, 1e20, 1e-38, 1e-42]


class Draft:
    """A network in the making: one tensor is the last, and has a shape a sample."""

    def __init__(self, rng: Rng, shape: tuple[int, ...], opset: int) -> None:
        self.rng, self.shape, self.opset = rng, shape, opset
        self.last = "x"
        self.nodes: list[dict[str, Any]] = []
        self.constants: dict[str, Any] = {}

    def constant(self, values: Any, kind: str = "float32") -> str:
        """Keep a constant; return its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = tensor(values, kind)
        return name

    def weights(self, *shape: int) -> str:
        """Keep random weights, at times of extreme size, with zeros of both signs among them."""
        rng = self.rng
        values = rng.normal(size=shape) * rng.choice(SCALES)
        if rng.random() < 0.3:
            values = np.where(rng.random(shape) < 0.3, rng.choice([0.0, -0.0, 1.0, -1.0]), values)
        if rng.random() < 0.1:
            values = values * rng.choice([1.0, 1e-8, 1e8, 1e-39], size=shape)
        return self.constant(values.astype(np.float32))

    def node(
        self, op: str, rest: list[str], attributes: Attributes, shape: tuple[int, ...], at: int = 0
    ) -> None:
        """Append a node that reads the last tensor as input ``at`` and constants besides."""
        output = f"t{len(self.nodes)}"
        inputs = [*rest[:at], self.last, *rest[at:]]
        self.nodes.append(
            {"op": op, "inputs": inputs, "outputs": [output], "attributes": attributes}
        )
        self.last, self.shape = output, shape

    def some(self, **choices: list[Any]) -> Attributes:
        """Draw attributes, half of them left out."""
        rng = self.rng
        return {
            name: values[rng.integers(len(values))]
            for name, values in choices.items()
            if rng.random() < 0.5
        }
