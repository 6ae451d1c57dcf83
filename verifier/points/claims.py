"""The reader of claims over points and networks: cases and applications."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import cast

from leaveout.encoders import Box
from leaveout.models import Network
from leaveout.models.trees.model import TreeModel
from leaveout.names import find_reference
from leaveout.specs import (
    And,
    Arithmetic,
    Call,
    Compare,
    Expression,
    Function,
    Implies,
    Name,
    Negate,
    Not,
    Or,
)
from leaveout.specs.table.signatures import Bound
from leaveout.specs.types import BOOLEAN, LABEL, Type
from leaveout.verifier.resolve_names import Resolver

MOST = 4096
"""Most linear forms that one number may be made of, and cases one claim."""

Place = tuple[str, int, int]
"""``("feature", point, feature)`` or ``("score", application, label)``."""


Varying = tuple[frozenset[tuple[Place, Fraction]], Fraction]
"""Coefficients, and that of the unknown."""

_ZERO, _ONE = Fraction(0), Fraction(1)


class TooManyError(Exception):
    """A number with too many pieces, or a claim with too many cases."""


@dataclass(frozen=True)
class Lin:
    """``sum of terms + unknown * b + constant``, b what a find seeks; exact, unlike float64."""

    terms: Mapping[Place, Fraction] = field(default_factory=dict)  # without zeros
    unknown: Fraction = _ZERO
    constant: Fraction = _ZERO

    @cached_property
    def variable_part(self) -> Varying:
        """Return the variable part: all but the constant."""
        return frozenset(self.terms.items()), self.unknown

    @cached_property
    def opposite(self) -> Varying:
        """Return the negated variable part."""
        return frozenset((place, -c) for place, c in self.terms.items()), -self.unknown

    @cached_property
    def _hash(self) -> int:
        return hash((self.variable_part, self.constant))

    def __hash__(self) -> int:
        return self._hash

    def plus(self, other: Lin, times: Fraction = _ONE) -> Lin:
        """Return ``self + times * other``."""
        terms = dict(self.terms)
        for place, coefficient in other.terms.items():
            total = terms.get(place, _ZERO) + times * coefficient
            if total:
                terms[place] = total
            else:
                terms.pop(place, None)
        unknown = self.unknown + times * other.unknown
        return Lin(terms, unknown, self.constant + times * other.constant)

    def times(self, factor: Fraction) -> Lin:
        """Return ``factor * self``."""
        return Lin().plus(self, factor)

    @property
    def is_constant(self) -> bool:
        """Whether there is no variable part."""
        return not self.terms and not self.unknown


Pieces = tuple[tuple[Lin, ...], ...]  # ``max over rows of min over a row``


def plain(lin: Lin) -> Pieces:
    """Return a linear form as a number."""
    return ((lin,),)


def greatest(*numbers: Pieces) -> Pieces:
    """Return the maximum of some numbers."""
    return _distinct(tuple(row for number in numbers for row in number))


def least(*numbers: Pieces) -> Pieces:
    """Return the minimum of some numbers."""
    rows: Pieces = ((),)
    for number in numbers:
        if len(rows) * len(number) > MOST:
            raise TooManyError(f"more than {MOST:,} linear pieces")
        rows = tuple((*row, *other) for row in rows for other in number)
    return _distinct(rows)


def _distinct(pieces: Pieces) -> Pieces:
    kept = dict.fromkeys(tuple(dict.fromkeys(row)) for row in pieces)
    if sum(len(row) for row in kept) > MOST:
        raise TooManyError(f"more than {MOST:,} linear pieces")
    return tuple(kept)


def add_pieces(first: Pieces, second: Pieces) -> Pieces:
    """Return the sum of two numbers."""
    if len(first) * len(second) > MOST:
        raise TooManyError(f"more than {MOST:,} linear pieces")
    return _distinct(
        tuple(tuple(a.plus(b) for a in row for b in other) for row in first for other in second)
    )


def scale_pieces(number: Pieces, factor: Fraction) -> Pieces:
    """Return a multiple of a number; a negative factor swaps max and min."""
    if factor >= 0:
        return _distinct(tuple(tuple(lin.times(factor) for lin in row) for row in number))
    # -max min = min max: one form of each row, in every way, and the greatest of their leasts.
    turned = [tuple((lin.times(factor),) for lin in row) for row in number]
    return least(*turned)


@dataclass(frozen=True)
class Test:
    """``lin >= 0``, or ``lin > 0`` where strict."""

    lin: Lin
    strict: bool


Case = tuple[Test, ...]
Cases = tuple[Case, ...]
"""No case: never true. A case without tests: always."""

Comparison = tuple[Pieces, str, Pieces]
"""Two numbers and the operator between them."""

_MOST_JOINED = 64 * MOST
"""Most pairs of cases that are looked at where two claims are both to be true."""

NEVER: Cases = ()
ALWAYS: Cases = ((),)


def any_of(parts: Iterable[Cases]) -> Cases:
    """Return the cases in which at least one part is true."""
    found: dict[Case, None] = {}
    for part in parts:
        found.update(dict.fromkeys(part))
        if () in found:
            return ALWAYS
        if len(found) > MOST:
            raise TooManyError(f"more than {MOST:,} cases")
    return tuple(found)


def all_of(parts: Iterable[Cases]) -> Cases:
    """Return the cases in which all parts are true."""
    found: Cases = ALWAYS
    for part in parts:
        if len(found) * len(part) > _MOST_JOINED:
            raise TooManyError(f"more than {MOST:,} cases")
        joined: dict[Case, None] = {}
        for case in found:
            seen = set(case)
            for other in part:
                both = (*case, *(test for test in other if test not in seen))
                if not _contradicts(both):
                    joined[both] = None
            if len(joined) > MOST:
                raise TooManyError(f"more than {MOST:,} cases")
        found = tuple(joined)
    return found


def _contradicts(case: Case) -> bool:
    """Return whether two tests put a form both above and not above a number."""
    known: dict[Varying, list[Test]] = {}
    for test in case:
        if test.lin.is_constant and not _holds(test):
            return True
        for other in known.get(test.lin.opposite, ()):
            total = Lin(constant=test.lin.constant + other.lin.constant)
            if not _holds(Test(total, test.strict or other.strict)):
                return True
        known.setdefault(test.lin.variable_part, []).append(test)
    return False


def _holds(test: Test) -> bool:
    return test.lin.constant > 0 if test.strict else test.lin.constant >= 0


def compare(left: Pieces, operator: str, right: Pieces) -> Cases:
    """Return the cases in which a comparison of two numbers is true."""
    if operator == "==":
        return all_of([compare(left, ">=", right), compare(left, "<=", right)])
    if operator == "!=":
        return any_of([compare(left, ">", right), compare(left, "<", right)])
    if operator in {"<", "<="}:
        left, right = right, left
    strict = operator in {"<", ">"}
    difference = add_pieces(left, scale_pieces(right, Fraction(-1)))
    parts: list[Cases] = []
    for row in difference:
        tests = [Test(lin, strict) for lin in row]
        if any(test.lin.is_constant and not _holds(test) for test in tests):
            continue
        parts.append((tuple(test for test in tests if not test.lin.is_constant),))
    return any_of(parts)


OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""What is true where a comparison is not."""


_CURE = (
    "a claim about points combines comparisons of labels and of linear expressions in score, "
    "confidence, feature, distance and difference with 'and', 'or', 'not' and '=>'"
)


@dataclass(eq=False)
class ClaimReader:
    """Converts expressions into cases, for given networks by name."""

    resolver: Resolver
    points: Mapping[str, int]  # position of each point that ``forall`` binds
    boxes: list[Box]  # the set of each
    networks: Mapping[str, Network | TreeModel]  # members that ``forall`` binds, by name
    unknown: str = ""  # what a find looks for; empty for a guarantee
    label: int | None = None  # the label that ``confidence`` without one is about, of ``per label``
    is_trees: bool = False  # whether the claim is about tree ensembles instead
    applications: list[tuple[Network | TreeModel, int, str]] = field(default_factory=list)

    def cases(self, node: Expression, positive: bool) -> Cases:
        """Return the cases in which a claim is true, or false unless ``positive``."""
        match node:
            case Name():
                return self.cases(self._resolve_value(node), positive)
            case Not():
                return self.cases(node.claim, not positive)
            case And() | Or() | Implies():
                left = self.cases(node.left, positive != isinstance(node, Implies))
                right = self.cases(node.right, positive)
                is_and = isinstance(node, And)
                return all_of([left, right]) if is_and == positive else any_of([left, right])
            case Compare():
                return self._comparison_cases(node, positive)
            case Call() if _forms_of(self.resolver.function(node)) is not None:
                compared = cast("list[Comparison]", self._read(node))
                parts = [_compare(*each, positive) for each in compared]
                return all_of(parts) if positive else any_of(parts)
        raise self.resolver.fail(node, "this cannot be decided for points and networks", _CURE)

    def _resolve_value(self, node: Name) -> Expression:
        """Return the value of a name; raise if it has none."""
        value = self.resolver.value(node)
        if value is node:
            raise self.resolver.fail(node, "this cannot be decided for points and networks", _CURE)
        return value

    def _comparison_cases(self, node: Compare, positive: bool) -> Cases:
        if self._is_label(node.left) or self._is_label(node.right):
            return self._equal(node.left, node.right, (node.operator == "==") != positive)
        return _compare(self.number(node.left), node.operator, self.number(node.right), positive)

    def _is_label(self, node: Expression) -> bool:
        value = self.resolver.value(node)
        return isinstance(value, Call) and self.resolver.function(value).result == LABEL

    def _read(self, node: Call) -> object:
        forms = _forms_of(self.resolver.function(node))
        if forms is None:
            wrong = f"{node.function} cannot be decided for points and networks"
            raise self.resolver.fail(node, wrong, _CURE)
        given = self.resolver.bound_arguments(node)
        with self.resolver.answering_for(node):
            found = cast("Reading", find_reference(forms))(self, node, given)
        if not _is_read(self.resolver.function(node).result, found):
            wrong = f"plug-in function '{node.function}' returned an unusable answer: {found!r:.60}"
            raise self.resolver.fail(node, wrong)
        return found

    def _equal(self, left: Expression, right: Expression, unequal: bool) -> Cases:
        """Return the cases in which two labels are equal, or unequal."""
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
        """Raise if a constant label never occurs on the other side."""
        if not isinstance(self.resolver.value(node), Call) and not own.keys() <= other.keys():
            raise self.resolver.fail(
                node,
                f"label {min(own)} is out of range",
                f"{self._labels_known} 0 to {len(other) - 1}",
            )

    def _labels(self, node: Expression) -> dict[int, Cases]:
        """Return the cases of each label that a side may have."""
        value = self.resolver.value(node)
        if not isinstance(value, Call):
            number = self.resolver.number(value)
            assert number is not None, "the type check lets only whole numbers be labels"
            return {int(number): ((),)}
        return cast("dict[int, Cases]", self._read(value))

    def number(self, node: Expression) -> Pieces:
        """Return a number as pieces."""
        if isinstance(node, Name) and node.name == self.unknown:
            return plain(Lin(unknown=Fraction(1)))
        value = self.resolver.value(node)
        constant = self._constant(value)
        if constant is not None:
            return plain(Lin(constant=constant))
        match value:
            case Negate():
                return scale_pieces(self.number(value.operand), _MINUS)
            case Arithmetic():
                return self._arithmetic(value)
            case Call():
                return cast("Pieces", self._read(value))
        raise self.resolver.fail(node, "this number cannot be decided", _CURE)

    def _arithmetic(self, node: Arithmetic) -> Pieces:
        if node.operator in {"+", "-"}:
            sign = Fraction(1 if node.operator == "+" else -1)
            return add_pieces(self.number(node.left), scale_pieces(self.number(node.right), sign))
        left, right = self._constant(node.left), self._constant(node.right)
        if node.operator == "*" and left is not None:
            return scale_pieces(self.number(node.right), left)
        if right is not None and (node.operator == "*" or right != 0):
            factor = right if node.operator == "*" else 1 / right
            return scale_pieces(self.number(node.left), factor)
        raise self.resolver.fail(
            node, f"'{node.operator}' of two varying quantities is not linear", _CURE
        )

    def _constant(self, node: Expression) -> Fraction | None:
        """Return the value of a constant expression; None if not constant."""
        number = self.resolver.number(node)
        return None if number is None else Fraction(number)

    def application_of(self, network_at: Expression, point_at: Expression) -> tuple[int, int]:
        """Return an application of a network, and its label count."""
        network, point = self._network(network_at), self.point_of(point_at)
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

    def score_of(self, application: int, label: int) -> Lin:
        """Return the score that a model gives a label."""
        model, place = self.applications[application][0], label
        if isinstance(model, TreeModel):
            found = model.score(label)
            if isinstance(found, float):
                return Lin(constant=Fraction(found))
            place = found
        return Lin({("score", application, place): _ONE})

    def _network(self, node: Expression) -> Network | TreeModel:
        if isinstance(node, Name) and node.name in self.networks:
            return self.networks[node.name]
        if self.is_trees:
            return self.resolver.trees(node)
        return self.resolver.first_alike(node)

    def point_of(self, node: Expression) -> int:
        """Return the position of a point bound by ``forall``."""
        if isinstance(node, Name) and node.name in self.points:
            return self.points[node.name]
        raise self.resolver.fail(node, "expected a point that 'forall' binds", _CURE)

    def feature_of(self, node: Expression, point: int) -> int:
        """Return a feature of a point."""
        return self._whole(node, self.boxes[point].dimension, "feature", "the point has features")

    def label_of(self, node: Expression, labels: int) -> int:
        """Return a label below ``labels``."""
        return self._whole(node, labels, "label", self._labels_known)

    @property
    def _labels_known(self) -> str:
        return f"the {'trees have' if self.is_trees else 'network has'} labels"

    def _whole(self, node: Expression, count: int, what: str, known: str) -> int:
        number = self.resolver.number(node)
        if number is None or not math.isfinite(number) or number != int(number) or number < 0:
            raise self.resolver.fail(node, f"a {what} must be a constant whole number, 0 or more")
        if number >= count:
            raise self.resolver.fail(
                node, f"{what} {int(number)} is out of range", f"{known} 0 to {count - 1}"
            )
        return int(number)


_MINUS = Fraction(-1)

Reading = Callable[[ClaimReader, Call, Bound], object]
"""Reads a call: of a number its pieces, of a label the cases of each that it may be, of a claim the
comparisons that are all true where it is."""


def _forms_of(function: Function) -> object:
    """Return how calls of a function are read, or a text naming it; None if they are not."""
    from leaveout.verifier.points.functions import FORMS

    return FORMS.get(function.name) if function.forms is None else function.forms


def _is_read(kind: Type, found: object) -> bool:
    """Return whether a function read a call as the type of its result."""
    if kind == BOOLEAN:
        return isinstance(found, list) and all(
            isinstance(each, tuple) and len(each) == 3 and _is_number(each[0], each[2])
            for each in found
        )
    if kind == LABEL:
        return isinstance(found, dict) and all(isinstance(case, tuple) for case in found.values())
    return _is_number(found)


def _is_number(*pieces: object) -> bool:
    return all(
        isinstance(piece, tuple)
        and all(
            isinstance(one, tuple) and all(isinstance(lin, Lin) for lin in one) for one in piece
        )
        for piece in pieces
    )


def _compare(left: Pieces, operator: str, right: Pieces, positive: bool) -> Cases:
    return compare(left, operator if positive else OPPOSITE[operator], right)
