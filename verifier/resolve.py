"""From the names of a specification to what they stand for: numbers, networks, families, boxes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders import Box
from leaveout.errors import FamilyError, LeaveoutError, ModelError
from leaveout.models import Family, Manifest, Network, load_family, load_network
from leaveout.specs import (
    Arithmetic,
    Call,
    CheckedSpec,
    Expression,
    ListOf,
    Name,
    Negate,
    Node,
    Number,
    Text,
)
from leaveout.specs.arguments import bind
from leaveout.specs.errors import Slip, pointing
from leaveout.specs.functions import built_in

__all__ = ["Resolver"]

_OPERATORS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


class Resolver:
    """Evaluates closed expressions; each file is read once.

    Parameters
    ----------
    spec : CheckedSpec
    folder : Path
        What relative paths are relative to.
    """

    def __init__(self, spec: CheckedSpec, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        self._networks: dict[Path, Network] = {}
        self._families: dict[tuple[Path, str], Family] = {}

    def fail(self, node: Node, wrong: str, cure: str = "") -> LeaveoutError:
        """Return the error that points at ``node`` in the specification."""
        return pointing(self._spec.source, Slip(node.at, wrong, cure))

    def value(self, node: Expression) -> Expression:
        """Follow names to the expression they stand for."""
        while isinstance(node, Name) and node.name in self._spec.lets:
            node = self._spec.lets[node.name].value
        return node

    def number(self, node: Expression) -> float | None:
        """Value of a constant expression, or None if it is not constant."""
        node = self.value(node)
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Negate):
            inner = self.number(node.operand)
            return None if inner is None else -inner
        if isinstance(node, Arithmetic):
            left, right = self.number(node.left), self.number(node.right)
            if left is None or right is None:
                return None
            if node.operator == "/" and right == 0:
                raise self.fail(node, "division by zero")
            result = _OPERATORS[node.operator](left, right)
            if not math.isfinite(result):
                raise self.fail(node, "this is no finite number")
            return result
        return None

    def network(self, node: Expression) -> Network:
        """Load the network an expression stands for."""
        path = self._path(node, "network")
        if path not in self._networks:
            try:
                self._networks[path] = load_network(path)
            except ModelError as error:
                raise self.fail(self.value(node), str(error)) from None
        return self._networks[path]

    def family(self, node: Expression, network: Network) -> Family:
        """Load the family an expression stands for, or the family of one of a network.

        Parameters
        ----------
        node : Expression
            ``family(...)`` or ``network(...)``.
        network : Network
            N, whose architecture the members must have.
        """
        call = self.value(node)
        if self.is_network(node):
            other = self.network(node)
            if other.architecture != network.architecture:
                raise self.fail(
                    call, f"{other.source} has another architecture than {network.source}"
                )
            stacked = {
                k: np.asarray(v, dtype=np.float32)[None] for k, v in other.parameters.items()
            }
            return Family(stacked, np.zeros(1, np.int64), Manifest())
        path = self._path(node, "family")
        key = (path, network.source)
        if key not in self._families:
            try:
                self._families[key] = load_family(path, network)
            except FamilyError as error:
                raise self.fail(call, str(error)) from None
        return self._families[key]

    def is_network(self, node: Expression) -> bool:
        """Whether an expression stands for a single network."""
        call = self.value(node)
        return isinstance(call, Call) and call.function == "network"

    def box(self, node: Expression, dimension: int) -> Box:
        """Return the box an expression stands for, over ``dimension`` features."""
        call = self.value(node)
        if not (isinstance(call, Call) and call.function == "box"):
            raise self.fail(node, "expected a box, as in box(0, 1)")
        given = bind(call, built_in("box"))
        lower = self._side(given["lower"], dimension)
        upper = self._side(given["upper"], dimension)
        try:
            return Box(lower, upper)
        except LeaveoutError as error:
            raise self.fail(call, str(error)) from None

    def _side(self, node: Expression, dimension: int) -> NDArray[np.float64]:
        value = self.value(node)
        items = value.items if isinstance(value, ListOf) else (value,)
        numbers = [self.number(item) for item in items]
        known = [number for number in numbers if number is not None]
        if len(known) != len(numbers):
            raise self.fail(node, "a bound of a box must be a constant number")
        if not isinstance(value, ListOf):
            return np.full(dimension, known[0])
        if len(known) != dimension:
            raise self.fail(
                node,
                f"{len(known)} bounds for {dimension} features",
                f"the network reads {dimension} features; give one number for all, or "
                f"{dimension} of them",
            )
        return np.asarray(known)

    def _path(self, node: Expression, function: str) -> Path:
        call = self.value(node)
        if not (isinstance(call, Call) and call.function == function):
            raise self.fail(node, f"expected {function}(...) here")
        path = self.value(bind(call, built_in(function))["path"])
        if not isinstance(path, Text) or not path.value:
            raise self.fail(call, f'{function} needs a path in quotes, as in {function}("...")')
        return self._folder / path.value
