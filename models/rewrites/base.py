"""What a rewrite is: one ONNX node, said in others."""

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

from leaveout.models.onnx_attributes import Accepted
from leaveout.models.onnx_use import Kind, UnsupportedError, Use, why_not
from leaveout.models.operators import Affine


@dataclass(frozen=True)
class Last:
    """Tensors that a model gives, as far as it was read: the output, and what it is a copy of."""

    same: frozenset[str]  # of the same shape
    number: frozenset[str]  # where it is one number: those too that were re-shaped


class Draft:
    """What a node is written as: nodes in order, and constants of their own.

    A draft is about one node and reads nothing but its inputs, so that onnxruntime's result for
    that node alone can be held against all of the draft (`leaveout.models.operator_check`).

    Parameters
    ----------
    use : Use
        The node.
    last : Last
    taken : set of str
        Names of the file's tensors, and of all drafts; those of this one are added.

    Attributes
    ----------
    nodes : list of onnx.NodeProto
    constants : dict of str to ndarray
    moved : dict of str to (str, Affine)
        Constants whose numbers are those of another one, see `leaveout.models.graph.Graph`.
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
        """Write a node of ONNX and return the name of its output.

        Parameters
        ----------
        operator : str
            ONNX's operator type; it is read, or rewritten, like a node of the file.
        *inputs : str
            Inputs of the node that is rewritten, or names that the draft gave.
        **attributes : Any
        """
        for name in inputs:
            self._own(name)
        output = self._fresh()
        node = helper.make_node(operator, inputs, [output], name=self._name, **attributes)
        self.nodes.append(node)
        return output

    def constant(self, value: Any) -> str:
        """Write a constant, floats as float32, and return its name.

        Raises
        ------
        UnsupportedError
            If it is not finite: so if it was computed of a parameter.
        """
        array = np.asarray(value)
        if np.issubdtype(array.dtype, np.floating):
            with np.errstate(over="ignore"):
                array = array.astype(np.float32)
            if not np.isfinite(array).all():
                raise UnsupportedError("it computes on parameters only, or what is not finite")
        name = self._fresh()
        self.constants[name] = array
        return name

    def move(self, source: str, operator: Affine) -> str:
        """Move the numbers of a float32 constant, which may be a parameter; return the new name.

        Parameters
        ----------
        source : str
        operator : Affine
            Of no rounding; the constant is to it a batch of one sample.
        """
        name = self._fresh()
        self.moved[name] = source, operator
        return name

    def gives(self, result: str) -> str | None:
        """Call the result by the name of the output of the node that is rewritten.

        Returns
        -------
        str or None
            The result where the draft did not make it: the output is the same tensor.
        """
        self._own(result)
        target = self._target
        if result in self.constants:
            self.constants[target] = self.constants.pop(result)
        elif result in self.moved:
            self.moved[target] = self.moved.pop(result)
        made = [i for i, node in enumerate(self.nodes) if result in node.output]
        # What comes after the result is not needed for it.
        del self.nodes[1 + max(made, default=-1) :]
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [target if name == result else name for name in names]
        return None if made or target in {**self.constants, **self.moved} else result

    def _own(self, name: str) -> None:
        if name not in self._known:
            raise ValueError(f"the draft of {self._name!r} reads {name!r}, no input of it")

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
    """The node is left out at the end of a network."""

    scores: str  # the tensor that the network gives instead
    note: str  # what a user should know about it


class Rewrite(ABC):
    """An ONNX operator that is another one, or several, in disguise.

    What onnxruntime computes of the node in float32 must be what the nodes written say, within the
    roundings that are charged for these (`leaveout.models.operators.Affine.roundings`, one for a
    sum of two tensors, none for a ReLU). Of a parameter only the name, the type and the shape may
    matter: its values differ over members, and are not shown.

    Attributes
    ----------
    operator : str
        ONNX's type.
    inputs : tuple of str
        Kind of each input it may have, as of `leaveout.models.onnx_use.Modelled`.
    attributes : mapping of str to Accepted
        Those that it models, and with which values. A node with others is not rewritten: it is
        refused by name, or left to the table of operators that are modelled.
    """

    operator: ClassVar[str]
    inputs: ClassVar[tuple[Kind, ...]] = ("data",)
    attributes: ClassVar[Mapping[str, Accepted]] = MappingProxyType({})

    @abstractmethod
    def visit(self, use: Use, draft: Draft) -> str | Ending | None:
        """Write a node as others.

        Parameters
        ----------
        use : Use
            A node of this operator, with no other inputs and attributes than those declared.
        draft : Draft
            Takes what it is written as.

        Returns
        -------
        str, Ending or None
            The tensor that is the node's output: of the draft, or an input of the node. An
            `Ending` where the network ends before it. None if it is not rewritten.

        Raises
        ------
        UnsupportedError
            If it is neither rewritten nor modelled.
        """


@dataclass(frozen=True)
class Rewritten:
    """A node, said in others."""

    draft: Draft  # gives the node's output, unless there is an ending or another tensor is the same
    same: str | None  # the tensor that the node's output is
    ending: Ending | None
    rest: tuple[Rewrite, ...]


def rewritten(
    use: Use, rewrites: Sequence[Rewrite], last: Last, taken: set[str]
) -> Rewritten | str:
    """Apply the first rewrite that fits a node."""
    reason = ""
    for rewrite in rewrites:
        if rewrite.operator != use.proto.op_type:
            continue
        why = why_not(use, rewrite.inputs, rewrite.attributes)
        if not why and "data" in rewrite.inputs and not use.variables:
            why = "it computes on constants only"
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
