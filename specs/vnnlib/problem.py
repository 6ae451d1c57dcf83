"""A query as its file states it, without networks."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from leaveout.specs.text.errors import Position
from leaveout.specs.vnnlib.formula import Formula, Place


@dataclass(frozen=True)
class Tensor:
    """A declared input, output or hidden node."""

    name: str  # in version 1.0: the ``X`` or ``Y`` before the underscore
    type: str  # ``real`` or ``float32``
    shape: tuple[int, ...]
    onnx_name: str = ""  # name in the ONNX model; empty if not stated

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def element(self, index: int) -> str:
        """Return the name in version 2.0 of an element of the flattened tensor."""
        places = []
        for size in reversed(self.shape):
            index, place = divmod(index, size)
            places.append(place)
        if not places:
            return self.name
        return f"{self.name}[{','.join(map(str, reversed(places)))}]"


@dataclass(frozen=True)
class Declared:
    """A declared network."""

    name: str
    input: Tensor
    output: Tensor
    at: Position
    equal_to: str = ""  # name of an earlier network that it equals; empty if none
    isomorphic_to: str = ""  # name of an earlier network; empty if there is none
    hidden: tuple[Tensor, ...] = ()  # hidden nodes

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All its declared tensors, in the order of version 2.0."""
        return self.input, *self.hidden, self.output


@dataclass(frozen=True)
class Problem:
    """The contents of a file."""

    source: str  # name of the file in messages
    version: str  # ``1.0`` or ``2.0``
    networks: tuple[Declared, ...]
    formula: Formula  # conditions of a counter-example

    @property
    def reals(self) -> bool:
        """Whether it is about exact arithmetic, that is, declares no float32."""
        return all(tensor.type == "real" for each in self.networks for tensor in each.tensors)

    @property
    def hidden_nodes(self) -> tuple[tuple[int, Tensor], ...]:
        """Hidden nodes, each with the index of its network.

        Formulas refer to the one at position i as the output of network ``len(networks) + i``.
        """
        return tuple((i, node) for i, each in enumerate(self.networks) for node in each.hidden)

    def name_of(self, spot: Place) -> str:
        """Return the file's name for a variable."""
        if spot.network >= len(self.networks):
            return self.hidden_nodes[spot.network - len(self.networks)][1].element(spot.element)
        network = self.networks[spot.network]
        tensor = network.output if spot.output else network.input
        if self.version == "1.0":
            return f"{tensor.name}_{spot.element}"
        return tensor.element(spot.element)
