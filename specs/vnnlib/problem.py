"""A query as its file states it, before there are networks."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.formula import Formula, Place

__all__ = ["Declared", "Problem", "Tensor"]


@dataclass(frozen=True)
class Tensor:
    """A declared input or output.

    Attributes
    ----------
    name : str
        In version 1.0 the ``X`` or ``Y`` before the underscore.
    type : str
        ``real`` or ``float32``.
    shape : tuple of int
    onnx_name : str
        What the model must call it; empty if that is not said.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    onnx_name: str = ""

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def element(self, index: int) -> str:
        """Return what version 2.0 calls an element of the flattened tensor."""
        places = []
        for size in reversed(self.shape):
            index, place = divmod(index, size)
            places.append(place)
        return f"{self.name}[{','.join(map(str, reversed(places)))}]"


@dataclass(frozen=True)
class Declared:
    """A declared network.

    Attributes
    ----------
    name : str
    input, output : Tensor
    at : Position
    equal_to, isomorphic_to : str
        Name of an earlier network; empty if there is none.
    """

    name: str
    input: Tensor
    output: Tensor
    at: Position
    equal_to: str = ""
    isomorphic_to: str = ""


@dataclass(frozen=True)
class Problem:
    """What a file says.

    Attributes
    ----------
    source : str
        What messages call the file.
    version : str
        ``1.0`` or ``2.0``.
    networks : tuple of Declared
    formula : Formula
        What a counter-example meets.
    """

    source: str
    version: str
    networks: tuple[Declared, ...]
    formula: Formula

    @property
    def reals(self) -> bool:
        """Whether it is about exact arithmetic: nothing is declared as float32."""
        return all(
            tensor.type == "real" for each in self.networks for tensor in (each.input, each.output)
        )

    def name_of(self, spot: Place) -> str:
        """Return what the file calls a variable."""
        network = self.networks[spot.network]
        tensor = network.output if spot.output else network.input
        if self.version == "1.0":
            return f"{tensor.name}_{spot.element}"
        return tensor.element(spot.element)
