"""Read a claim over points and networks: its cases, and what is applied to what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from leaveout.encoders import Box
from leaveout.models import Network
from leaveout.specs import (
    And,
    Arithmetic,
    Call,
    Compare,
    Expression,
    Implies,
    ListOf,
    Name,
    Negate,
    Not,
    Or,
)
from leaveout.specs.table.functions import Bound, built_in
from leaveout.specs.typing.arguments import bind
from leaveout.verifier.points.cases import OPPOSITE, Cases, Test, all_of, any_of, compare
from leaveout.verifier.points.pieces import Lin, Pieces, added, greatest, least, plain, scaled
from leaveout.verifier.resolve import Resolver

__all__ = ["ClaimReader"]

_CURE = (
    "a claim about points is made of comparisons of linear expressions in score, confidence, "
    "feature, distance and difference, of labels, and of 'and', 'or', 'not' and '=>'"
)


@dataclass(eq=False)
class ClaimReader:
    """Turns expressions into cases, for given networks of all names.

    Attributes
    ----------
    resolver : Resolver
    points : mapping of str to int
        Position of each point that ``forall`` binds.
    boxes : list of Box
        The set of each.
    networks : mapping of str to Network
        Members that ``forall`` binds, by name.
    unknown : str
        What a find looks for; empty for a guarantee.
    label : int or None
        The label that ``confidence`` without one is about, of ``per label``.
    applications : list of (Network, int, str)
        Network, point and name, as they are met.
    """

    resolver: Resolver
    points: Mapping[str, int]
    boxes: list[Box]
    networks: Mapping[str, Network]
    unknown: str = ""
    label: int | None = None
    applications: list[tuple[Network, int, str]] = field(default_factory=list)

    def cases(self, node: Expression, positive: bool) -> Cases:
        """Return the cases in which a claim is true, or if not ``positive`` is not."""
        match node:
            case Name():
                return self.cases(self._followed(node), positive)
            case Not():
                return self.cases(node.claim, not positive)
            case And() | Or() | Implies():
                left = self.cases(node.left, positive != isinstance(node, Implies))
                right = self.cases(node.right, positive)
                is_and = isinstance(node, And)
                return all_of([left, right]) if is_and == positive else any_of([left, right])
            case Compare():
                return self._compared(node, positive)
            case Call(function="same_except"):
                return self._same(node, positive)
        raise self.resolver.fail(node, "this cannot be decided over points and networks", _CURE)

    def _followed(self, node: Name) -> Expression:
        value = self.resolver.value(node)
        if value is node:
            raise self.resolver.fail(node, "this cannot be decided over points and networks", _CURE)
        return value

    def _compared(self, node: Compare, positive: bool) -> Cases:
        operator = node.operator if positive else OPPOSITE[node.operator]
        if self._is_label(node.left) or self._is_label(node.right):
            equal = self._equal(node.left, node.right)
            other = self._equal(node.left, node.right, unequal=True)
            return equal if operator == "==" else other
        return compare(self.number(node.left), operator, self.number(node.right))

    def _is_label(self, node: Expression) -> bool:
        value = self.resolver.value(node)
        return isinstance(value, Call) and value.function == "label"

    def _equal(self, left: Expression, right: Expression, unequal: bool = False) -> Cases:
        """Return when two labels are equal, or not."""
        sides = [self._labels(left), self._labels(right)]
        self._refuse_beyond(left, *sides)
        self._refuse_beyond(right, sides[1], sides[0])
        pairs = [
            all_of([first, second])
            for a, first in sides[0].items()
            for b, second in sides[1].items()
            if (a == b) != unequal
        ]
        return any_of(pairs)

    def _refuse_beyond(
        self, node: Expression, own: Mapping[int, Cases], other: Mapping[int, Cases]
    ) -> None:
        """Refuse a constant label that the other side never is."""
        if not isinstance(self.resolver.value(node), Call) and not own.keys() <= other.keys():
            raise self.resolver.fail(
                node,
                f"label {min(own)} is out of range",
                f"the network has labels 0 to {len(other) - 1}",
            )

    def _labels(self, node: Expression) -> dict[int, Cases]:
        """Return the cases of each label a side may be; onnxruntime's argmax takes the first."""
        value = self.resolver.value(node)
        if not isinstance(value, Call):
            number = self.resolver.number(value)
            assert number is not None, "the type check lets only whole numbers be labels"
            return {int(number): ((),)}
        application, labels = self._applied(value)
        return {
            c: (tuple(Test(_margin(application, c, j), j < c) for j in range(labels) if j != c),)
            for c in range(labels)
        }

    def _same(self, node: Call, positive: bool) -> Cases:
        given = bind(node, built_in("same_except"))
        first, second = self._point(given["point"]), self._point(given["other"])
        if self.boxes[first].dimension != self.boxes[second].dimension:
            raise self.resolver.fail(node, "these points have different numbers of features")
        left_out = {self._feature(each, first) for each in self._items(given["at"])}
        parts = [
            compare(_feature(first, i), "==" if positive else "!=", _feature(second, i))
            for i in range(self.boxes[first].dimension)
            if i not in left_out
        ]
        return all_of(parts) if positive else any_of(parts)

    def _items(self, node: Expression) -> tuple[Expression, ...]:
        value = self.resolver.value(node)
        return value.items if isinstance(value, ListOf) else (value,)

    def number(self, node: Expression) -> Pieces:
        """Return what a number is made of."""
        if isinstance(node, Name) and node.name == self.unknown:
            return plain(Lin(unknown=Fraction(1)))
        value = self.resolver.value(node)
        constant = self._constant(value)
        if constant is not None:
            return plain(Lin(constant=constant))
        match value:
            case Negate():
                return scaled(self.number(value.operand), _MINUS)
            case Arithmetic():
                return self._arithmetic(value)
            case Call():
                return self._called(value)
        raise self.resolver.fail(node, "this is no number that can be decided about", _CURE)

    def _arithmetic(self, node: Arithmetic) -> Pieces:
        if node.operator in {"+", "-"}:
            sign = Fraction(1 if node.operator == "+" else -1)
            return added(self.number(node.left), scaled(self.number(node.right), sign))
        left, right = self._constant(node.left), self._constant(node.right)
        if node.operator == "*" and left is not None:
            return scaled(self.number(node.right), left)
        if right is not None and (node.operator == "*" or right != 0):
            factor = right if node.operator == "*" else 1 / right
            return scaled(self.number(node.left), factor)
        raise self.resolver.fail(
            node, f"'{node.operator}' of two things that vary is not linear", _CURE
        )

    def _constant(self, node: Expression) -> Fraction | None:
        """Return the float64 number a constant expression is, or None if it is not constant."""
        number = self.resolver.number(node)
        return None if number is None else Fraction(number)

    def _called(self, node: Call) -> Pieces:
        if node.function not in _NUMBERS:
            raise self.resolver.fail(
                node, f"{node.function} cannot be decided over points and networks", _CURE
            )
        given = bind(node, built_in(node.function))
        match node.function:
            case "abs":
                number = self.number(given["number"])
                return greatest(number, scaled(number, _MINUS))
            case "feature":
                point = self._point(given["point"])
                return _feature(point, self._feature(given["at"], point))
            case "distance":
                return self._distance(node, given["point"], given["other"])
            case "difference":
                return self._difference(node, given)
            case "score":
                application, labels = self._applied(node)
                label = self._label(given["label"], labels)
                return plain(_score(application, label))
        return self._confidence(node, given.get("label"))

    def _confidence(self, node: Call, label_at: Expression | None) -> Pieces:
        application, labels = self._applied(node)
        if label_at is not None:
            chosen = [self._label(label_at, labels)]
        else:
            chosen = list(range(labels)) if self.label is None else [self.label]
        each = [
            least(*(plain(_margin(application, c, j)) for j in range(labels) if j != c))
            for c in chosen
        ]
        return greatest(*each)

    def _distance(self, node: Call, first: Expression, second: Expression) -> Pieces:
        left, right = self._coordinates(first), self._coordinates(second)
        if len(left) != len(right):
            raise self.resolver.fail(node, "these points have different numbers of features")
        apart = [added(a, scaled(b, _MINUS)) for a, b in zip(left, right, strict=True)]
        return greatest(*apart, *(scaled(each, _MINUS) for each in apart))

    def _coordinates(self, node: Expression) -> list[Pieces]:
        value = self.resolver.value(node)
        if isinstance(value, ListOf):
            return [self.number(item) for item in value.items]
        point = self._point(node)
        return [_feature(point, i) for i in range(self.boxes[point].dimension)]

    def _difference(self, node: Call, given: Bound) -> Pieces:
        first, labels = self._application(given["network"], given["point"])
        second, others = self._application(given["other"], given["point"])
        if labels != others:
            raise self.resolver.fail(node, f"these networks have {labels} and {others} labels")
        apart = [plain(_score(first, c).plus(_score(second, c), _MINUS)) for c in range(labels)]
        return greatest(*apart, *(scaled(each, _MINUS) for each in apart))

    def _applied(self, node: Call) -> tuple[int, int]:
        """Return the application and the number of labels of ``f(network, point, ...)``."""
        given = bind(node, built_in(node.function))
        return self._application(given["network"], given["point"])

    def _application(self, network_at: Expression, point_at: Expression) -> tuple[int, int]:
        network, point = self._network(network_at), self._point(point_at)
        if network.inputs != self.boxes[point].dimension:
            raise self.resolver.fail(
                point_at,
                f"{network.source} reads {network.inputs} features, this point has "
                f"{self.boxes[point].dimension}",
            )
        for i, (known, at, _) in enumerate(self.applications):
            if known is network and at == point:
                return i, network.labels
        self.applications.append((network, point, f"{network_at}({point_at})"))
        return len(self.applications) - 1, network.labels

    def _network(self, node: Expression) -> Network:
        if isinstance(node, Name) and node.name in self.networks:
            return self.networks[node.name]
        return self.resolver.network(node)

    def _point(self, node: Expression) -> int:
        if isinstance(node, Name) and node.name in self.points:
            return self.points[node.name]
        raise self.resolver.fail(node, "expected a point that 'forall' binds", _CURE)

    def _feature(self, node: Expression, point: int) -> int:
        return self._whole(node, self.boxes[point].dimension, "feature", "the point has features")

    def _label(self, node: Expression, labels: int) -> int:
        return self._whole(node, labels, "label", "the network has labels")

    def _whole(self, node: Expression, count: int, what: str, known: str) -> int:
        number = self.resolver.number(node)
        if number is None or not math.isfinite(number) or number != int(number) or number < 0:
            raise self.resolver.fail(node, f"a {what} is a constant whole number from 0")
        if number >= count:
            raise self.resolver.fail(
                node, f"{what} {int(number)} is out of range", f"{known} 0 to {count - 1}"
            )
        return int(number)


_MINUS = Fraction(-1)

_NUMBERS = {"abs", "confidence", "difference", "distance", "feature", "score"}


def _score(application: int, label: int) -> Lin:
    return Lin({("score", application, label): Fraction(1)})


def _margin(application: int, label: int, rival: int) -> Lin:
    return _score(application, label).plus(_score(application, rival), _MINUS)


def _feature(point: int, feature: int) -> Pieces:
    return plain(Lin({("feature", point, feature): Fraction(1)}))
