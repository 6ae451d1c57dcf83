"""Rewrites: one ONNX node expressed by others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from leaveout.models.onnx.operators import Affine
from leaveout.models.onnx.use import Accepted, Kind, UnsupportedError, Use, why_not


@dataclass(frozen=True)
class Last:
    """Tensors equal to the model's output, among those read so far."""

    same: frozenset[str]  # of the same shape
    number: frozenset[str]  # reshaped ones, too, if the output is a single number


class Draft:
    """The nodes and constants that replace a node, in order.

    It reads only the node's inputs, so that `models.onnx.operator_check` can compare it with
    onnxruntime's result for the node.
    """

    def __init__(self, use: Use, last: Last, taken: set[str]) -> None:
        self.last = last
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.moved: dict[str, tuple[str, Affine]] = {}
        self._target, self._taken = use.proto.output[0], taken
        self._name = use.proto.name or self._target
        self._known = set(use.proto.input)
        self._count = 0

    def __call__(self, operator: str, /, *inputs: str, **attributes: Any) -> str:
        """Add an ONNX node and return the name of its output."""
        for name in inputs:
            self._own(name)
        output = self._fresh()
        node = helper.make_node(operator, inputs, [output], name=self._name, **attributes)
        self.nodes.append(node)
        return output

    def constant(self, value: Any) -> str:
        """Add a constant, floats as float32, and return its name."""
        array = np.asarray(value)
        if np.issubdtype(array.dtype, np.floating):
            with np.errstate(over="ignore"):
                array = array.astype(np.float32)
            if not np.isfinite(array).all():
                raise UnsupportedError(
                    "it computes only on parameters, or its result is not finite"
                )
        name = self._fresh()
        self.constants[name] = array
        return name

    def whole(self, numbers: Any) -> str:
        """Add whole numbers, as shapes and axes are, and return the constant's name."""
        return self.constant(np.asarray(numbers, np.int64))

    def move(self, source: str, operator: Affine) -> str:
        """Rearrange the numbers of a float32 constant or parameter; return the new name."""
        name = self._fresh()
        self.moved[name] = source, operator
        return name

    def gives(self, result: str) -> str | None:
        """Rename the result to the output of the rewritten node."""
        self._own(result)
        target = self._target
        if result in self.constants:
            self.constants[target] = self.constants.pop(result)
        elif result in self.moved:
            self.moved[target] = self.moved.pop(result)
        made = [i for i, node in enumerate(self.nodes) if result in node.output]
        # Nodes after the result are not needed.
        del self.nodes[1 + max(made, default=-1) :]
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [target if name == result else name for name in names]
        return None if made or target in {**self.constants, **self.moved} else result

    def _own(self, name: str) -> None:
        if name not in self._known:
            raise ValueError(
                f"the draft of {self._name!r} reads {name!r}, which is not one of its inputs"
            )

    def _fresh(self) -> str:
        name = f"{self._target}//{self._count}"
        while name in self._taken:
            name += "/"
        self._count += 1
        self._known.add(name)
        self._taken.add(name)
        return name


@dataclass(frozen=True)
class Ending:
    """Marker for a node that is omitted at the end of a network."""

    scores: str  # the tensor that becomes the network's output
    note: str  # for the user


class Rewrite(ABC):
    """An ONNX operator that can be expressed by one or more others.

    onnxruntime's float32 result must equal the draft's within the roundings counted for it
    (`leaveout.models.onnx.operators.Affine.roundings`). Parameter values must not matter.
    """

    operator: ClassVar[str]
    inputs: ClassVar[tuple[Kind, ...]] = ("data",)
    attributes: ClassVar[Mapping[str, Accepted]] = MappingProxyType({})

    @abstractmethod
    def visit(self, use: Use, draft: Draft) -> str | Ending | None:
        """Express a node by others; return the result's name."""


@dataclass(frozen=True)
class Rewritten:
    """A node expressed by others."""

    draft: Draft  # computes the node's output, unless there is an ending or ``same``
    same: str | None  # the tensor that equals the node's output
    ending: Ending | None
    rest: tuple[Rewrite, ...]


def rewrite_node(
    use: Use, rewrites: Sequence[Rewrite], last: Last, taken: set[str]
) -> Rewritten | str:
    """Apply the first rewrite that fits a node."""
    reason = ""
    for rewrite in rewrites:
        if rewrite.operator != use.proto.op_type:
            continue
        why = why_not(use, rewrite.inputs, rewrite.attributes)
        if not why and "data" in rewrite.inputs and not use.variables:
            why = "it computes only on constants"
        if not why:
            draft = Draft(use, last, taken)
            found = rewrite.visit(use, draft)
            if found is not None:
                rest = tuple(each for each in rewrites if each is not rewrite)
                if isinstance(found, Ending):
                    return Rewritten(draft, None, found, rest)
                return Rewritten(draft, draft.gives(found), None, rest)
        reason = reason or why
    return reason or "not supported in this form"
