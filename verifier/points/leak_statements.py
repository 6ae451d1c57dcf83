"""Recognition of iDP statements: what one training point can change."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NoReturn

from leaveout.errors import LeaveoutError
from leaveout.specs import (
    Binder,
    Call,
    CheckedSpec,
    Compare,
    Confident,
    Expression,
    Find,
    ForAll,
    Guarantee,
    Implies,
    Name,
    Number,
)
from leaveout.specs.types import FOREST, LINEAR, TREE_FAMILY, TREES
from leaveout.specs.types import FORESTS as FAMILY_OF_FORESTS
from leaveout.specs.types import LINEARS as FAMILY_OF_LINEARS
from leaveout.verifier.points.sentences import LETTERS
from leaveout.verifier.reachable import reachable
from leaveout.verifier.resolve_names import Resolver


@dataclass(frozen=True)
class Decides:
    """How a leak decider refuses other claims."""

    who: str  # what it is, and that it decides leaks
    model: str  # what it decides them of
    cure: str = ""  # what to do with other claims; may be empty
    pairs: bool = True  # whether it compares two models

    @property
    def shape(self) -> str:
        """The shape of the claims it decides."""
        T, model = LETTERS[self.model], self.model
        pairs = f", and with two {model}s instead of a {model} and a family" if self.pairs else ""
        return (
            f"{self.cure}it decides\n    forall x in X, M in F: confidence({T}, x) > b => "
            f"label(M, x) == label({T}, x)\nalso with >=, with confidence({T}, x, c) and "
            f"label(M, x) == c for one label c, without the premise{pairs}"
        )


LUCID = Decides(
    "the lucid engine decides leaks only",
    "network",
    "drop --engine lucid: other claims need the native engine; ",
)
FORESTS = Decides("the search over forests decides leaks only", "forest")


LINEARS = Decides(
    "the search over linear models decides leaks, differences and thresholds only",
    "linear model",
    pairs=False,
)

_KINDS = {
    "forest": (FOREST, FAMILY_OF_FORESTS), "linear": (LINEAR, FAMILY_OF_LINEARS),
    "trees": (TREES, TREE_FAMILY),
}  # fmt: skip


def names_model(statement: Guarantee | Find, spec: CheckedSpec, kind: str) -> bool:
    """Return whether a statement is about a forest, a linear model or trees."""
    return any(
        isinstance(node, Call) and spec.type_of(node) in _KINDS[kind]
        for node in reachable(statement.claim, spec)
    )


MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""How a comparison reads from its other side."""


@dataclass(frozen=True)
class IdpStatement:
    """``forall x in box, M in family: confidence(N, x) > threshold => the labels agree``."""

    statement: Guarantee | Find
    network: Expression  # what the names stand for; ``family`` may be a single network
    family: Expression  # what the names stand for; ``family`` may be a single network
    box: Expression  # what the names stand for; ``family`` may be a single network
    label: int | None  # the one label the statement is about, or None for every label
    label_at: Expression | None  # where it is written
    threshold: float | None


def recognise(
    statement: Guarantee | Find, resolver: Resolver, decides: Decides = LUCID
) -> IdpStatement | LeaveoutError:
    """Recognise an iDP statement."""
    try:
        return _Reader(statement, resolver, decides).read()
    except OtherShapeError as other:
        return other.why


class OtherShapeError(Exception):
    """Signals that a statement is not of a shape."""

    def __init__(self, why: LeaveoutError) -> None:
        self.why = why


class _Reader:
    def __init__(self, statement: Guarantee | Find, resolver: Resolver, decides: Decides) -> None:
        self.statement, self.resolver, self.decides = statement, resolver, decides
        self.domains: dict[str, Expression] = {}

    def refuse(self, node: Expression, wrong: str) -> NoReturn:
        # Only where that engine is asked for is this shown: others take what is no leak.
        decides = self.decides
        why = self.resolver.fail(node, f"{decides.who}: {wrong}", decides.shape)
        raise OtherShapeError(why)

    def read(self) -> IdpStatement:
        claim = self.statement.claim
        if not isinstance(claim, ForAll):
            self.refuse(claim, "this claim is not a 'forall'")
        self.domains = {binder.name: binder.domain for binder in claim.binders}
        body = claim.body
        premise = body.left if isinstance(body, Implies) else None
        conclusion = body.right if isinstance(body, Implies) else body
        owner, label, label_at, threshold = self.premise(premise)
        left, right, constant = self.conclusion(conclusion)
        network, member, box = self.roles(conclusion, owner, left, right)
        if label is not None and threshold is not None and threshold < 0:
            # Such points need not be answered with that label in the first place.
            self.refuse(
                label_at or conclusion, "a negative confidence of one label cannot be decided"
            )
        if constant is not None and constant != label:
            self.refuse(conclusion, "this claim is not about which labels can change")
        if label_at is not None and isinstance(self.statement, Find) and self.statement.per_label:
            self.refuse(label_at, "'per label' already asks for every label")
        return IdpStatement(self.statement, network, member, box, label, label_at, threshold)

    def premise(
        self, node: Expression | None
    ) -> tuple[Expression | None, int | None, Expression | None, float | None]:
        """Return network, label, the label's node, and the exclusive threshold."""
        if node is None:
            if isinstance(self.statement, Find):
                self.refuse(self.statement.claim, "there is no confidence to bound")
            return None, None, None, -math.inf
        if not isinstance(node, Compare) or node.operator not in MIRROR:
            self.refuse(node, "the premise must compare a confidence")
        left, right = node.left, node.right
        operator: str = node.operator
        if not (isinstance(left, Call) and left.function == "confidence"):
            left, operator, right = right, MIRROR[operator], left
        if not (isinstance(left, Call) and left.function == "confidence"):
            self.refuse(node, "the premise must compare a confidence")
        if operator not in {">", ">="}:
            self.refuse(node, "the premise must ask for a confidence above a bound")
        given = self.resolver.bound_arguments(left)
        label_at = given.get("label")
        label = None
        if label_at is not None:
            label = self.label(label_at, self.resolver.number(label_at))
        self.point(given["point"])
        threshold = self.threshold(right)
        if threshold is not None and operator == ">=":
            threshold = math.nextafter(threshold, -math.inf)
        return given["network"], label, label_at, threshold

    def label(self, node: Expression, number: float | None) -> int:
        if number is None or number != int(number) or number < 0:
            self.refuse(node, "a label must be a whole number, 0 or more")
        return int(number)

    def threshold(self, node: Expression) -> float | None:
        statement = self.statement
        if isinstance(statement, Find):
            if isinstance(node, Name) and node.name == statement.variable:
                if statement.direction == "greatest":
                    self.refuse(node, "there is no greatest bound: every larger one also holds")
                return None
            self.refuse(node, f"expected '{statement.variable}', the number to find")
        value = self.resolver.number(node)
        if value is None:
            self.refuse(node, "the bound must be a constant number")
        return value

    def conclusion(self, node: Expression) -> tuple[Expression, Expression | None, int | None]:
        """Return two networks that must agree, or one and a constant label."""
        if not (isinstance(node, Compare) and node.operator == "=="):
            self.refuse(node, "the conclusion must be that two labels are equal")
        sides = []
        constant = None
        for side in (node.left, node.right):
            if isinstance(side, Call) and side.function == "label":
                given = self.resolver.bound_arguments(side)
                self.point(given["point"])
                sides.append(given["network"])
            else:
                number = self.resolver.number(side)
                if number is None:
                    self.refuse(side, f"expected the label of a {self.decides.model}")
                constant = self.label(side, number)
        if not sides:
            self.refuse(node, f"the conclusion must be about the label of a {self.decides.model}")
        return sides[0], sides[1] if len(sides) == 2 else None, constant

    def point(self, node: Expression) -> None:
        if not (isinstance(node, Name) and node.name in self.domains):
            self.refuse(node, "expected the point that 'forall' binds")

    def roles(
        self,
        node: Expression,
        owner: Expression | None,
        left: Expression,
        right: Expression | None,
    ) -> tuple[Expression, Expression, Expression]:
        """Return the network N, its members and the set of inputs."""
        boxes = [d for d in self.domains.values() if self.resolver.is_inputs(d)]
        if len(boxes) != 1:
            self.refuse(self.statement.claim, "'forall' must bind one point of a set of inputs")
        others = [side for side in (left, right) if side is not None]
        if owner is None:
            bound = [side for side in others if self.bound(side)]
            owner = next((side for side in reversed(others) if side not in bound), None)
        if owner is None or self.bound(owner):
            self.refuse(
                owner or node,
                f"the confidence must be that of a fixed {self.decides.model}, not a member",
            )
        members = [
            side
            for side in others
            if self.bound(side) or self.resolver.value(side) != self.resolver.value(owner)
        ]
        if len(members) != 1:
            self.refuse(
                node,
                f"the conclusion must compare the {self.decides.model} with a member or another "
                f"{self.decides.model}",
            )
        member = members[0]
        if isinstance(member, Name) and member.name in self.domains:
            return owner, self.domains[member.name], boxes[0]
        return owner, member, boxes[0]

    def bound(self, node: Expression) -> bool:
        return isinstance(node, Name) and node.name in self.domains


def share_of(statement: Guarantee | Find) -> Number | None:
    """Return the share of rows a statement leaves out; None if it is about all."""
    claim = statement.claim.claim if isinstance(statement.claim, Confident) else statement.claim
    shares = [each.but for each in claim.binders if each.but] if isinstance(claim, ForAll) else []
    return shares[0] if shares else None


def without_share(statement: Guarantee | Find) -> Guarantee | Find:
    """Return the same statement about all members, without a confidence."""
    confident = statement.claim
    assert isinstance(confident, Confident)
    claim = confident.claim
    assert isinstance(claim, ForAll)
    binders = tuple(Binder(each.name, each.domain, at=each.at) for each in claim.binders)
    return replace(statement, claim=replace(claim, binders=binders))
