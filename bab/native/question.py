"""Questions: how a search bounds the answer above and seeks counter-examples below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.forms import Forms
from leaveout.bab.instance import Clusters, Instance
from leaveout.bab.native.files.proof_trees import Room
from leaveout.bab.native.nodes import Node, root_node
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.space import Space
from leaveout.bab.witness import Witness
from leaveout.deadline import Deadline
from leaveout.encoders import Box, Interval, rounding_error

Members = NDArray[np.int64]

W = TypeVar("W", bound="Finding")

NOTHING = -1e300
"""Lower bound of all goals: coefficients and scores are far smaller."""


class Finding(Protocol):
    """A replayed counter-example."""

    @property
    def value(self) -> float:
        """Its least goal, as computed in float32."""

    @property
    def member(self) -> int:
        """The family member it belongs to."""


@dataclass(frozen=True)
class Settled:
    """Facts about a node without padding for rounding."""

    empty: bool  # whether it has no counter-example
    points: tuple[Floats, ...] = ()  # joint points that are counter-examples, or near one


class Settling(Protocol):
    """Protocol for settling nodes that only padding for rounding keeps open."""

    @property
    def noise(self) -> float:
        """Distance from the target at which a bound may stay forever."""

    def applies(self, node: Node, target: float, *, last: bool) -> bool:
        """Return whether to examine a node: as the last resort, or near the target in good time."""

    def settle(self, node: Node) -> Settled:
        """Examine a node without padding."""


@dataclass(frozen=True, eq=False)
class Hint:
    """A possible counter-example: the centre of an urgent node, and a member."""

    point: Floats  # shape (inputs,)
    member: int
    case: int
    value: float  # value of the node


@dataclass(frozen=True, eq=False)
class Prepared:
    """A question in the form that explorers read."""

    space: Space
    forms: Forms  # as returned by `Forms.over`
    clusters: Clusters | None  # needed for several members
    bound_rounding: Callable[[Node, float], Node]
    regions: tuple[tuple[Floats, Floats], ...] | None = None
    ties: tuple[bool, ...] | None = None  # whether phases may be tied in each case; None for all
    boundary: Settling | None = None  # settles nodes that only padding for rounding keeps open

    @property
    def may_tie(self) -> bool:
        """Whether phases may be tied in any case."""
        return self.ties is None or any(self.ties)

    def root(self, members: Members, case: int, ident: int) -> Node:
        """Return the node of all counter-examples of one case, for some members."""
        region = None if self.regions is None else self.regions[case]
        plain = self.ties is not None and not self.ties[case]
        return root_node(self.space, self.forms, members, case, ident, region, plain=plain)

    def roots(self, members: Members, name: Callable[[], int]) -> list[Node]:
        """Return one root per case."""
        return [self.root(members, case, name()) for case in range(self.forms.cases)]


class Payload(Protocol):
    """A question in the form sent to another process."""

    def open(self) -> Question[Any]:
        """Return the question."""


class Question(Protocol[W]):
    """A question: the largest least goal over the counter-examples of its cases."""

    @property
    def label(self) -> int:
        """The label shown to observers of the search; -1 if none."""

    @property
    def members(self) -> int:
        """The number of members; 1 without a family."""

    @property
    def least(self) -> float:
        """Lower bound known without a counter-example."""

    @property
    def most(self) -> float:
        """Bound proved by propagation alone, for all members."""

    @property
    def rounding(self) -> float:
        """Largest effect of float32 evaluation on any bound."""

    @property
    def room(self) -> Room:
        """Margin for a checker's own rounding of the proof."""

    @property
    def seeks_first(self) -> bool:
        """Whether to attack before bounding: a good witness saves many nodes."""

    @property
    def opens_slowly(self) -> bool:
        """Whether workers open it slowly, so that they start before any attack."""

    def prepare(self, options: NativeOptions) -> Prepared:
        """Return the question in the form that kernels use."""

    def payload(self) -> Payload:
        """Return the question in the form sent to another process."""

    def first(self, options: NativeOptions, deadline: Deadline, enough: float = ...) -> W | None:
        """Seek counter-examples anywhere; stop at one above ``enough``."""

    def follow(self, hints: list[Hint], at_least: float, deadline: Deadline) -> W | None:
        """Seek a better counter-example where the explorers' bounds are highest."""

    def rounding_near(self, found: W) -> float:
        """Return the largest effect of float32 evaluation on a bound near a counter-example."""

    def enough(self, lower: float, gap: float) -> float:
        """Return the largest upper bound that agrees with a lower one up to a relative gap."""

    def witness_point(self, found: W) -> NDArray[np.floating]:
        """Return the point of a counter-example, as stored in a checkpoint."""

    def replay(self, point: NDArray[np.floating], member: int) -> W | None:
        """Replay a saved counter-example; return None if it is not one any more."""

    def digests(self) -> dict[str, str]:
        """Return digests identifying the question, by their names in messages."""


_ROOM = 1.0 + 1e-3
"""Factor by which errors are increased: a checker's regions and roundings differ slightly."""

_SHARE = 1e-6
"""... and at least this share of the error over the whole box, for the checker's float64 ..."""

_UNDERFLOW = 1e-30  # ... and this constant: the two count underflow in different places

SMALL_REGION = 0.02  # widest input of a region that float32 evaluation may keep open

_MATTERS = 8.0
"""Errors are recomputed if they exceed one part in this many of a node's open part ..."""

_NARROWER = 0.7  # ... and the region has shrunk by this factor since the last time


class LeakRounding:
    """Evaluation error bounds of leaks over a node's region, where useful.

    They are smaller than over the box: activations are smaller, and most phases are known
    (`leaveout.encoders.RoundingError`).
    """

    def __init__(self, instance: Instance, label: int, space: Space) -> None:
        self._instance, self._label, self._space = instance, label, space

    def __call__(self, node: Node, target: float) -> Node:
        """Return the node with the errors of its region, where these may help."""
        width = float((node.upper - node.lower).mean())
        # All goals have the same error; the condition is the last form.
        known = float(node.errors[0]) + float(node.errors[-1])
        if (
            len(node.members) > 1
            or width > _NARROWER * node.rounding_width
            or node.value - target > _MATTERS * known
        ):
            return node
        space, label = self._space, self._label
        low, high = node.lower + space.origin, node.upper + space.origin
        room = 1e-9 * (np.abs(low) + np.abs(high))
        box = Box(low - room, high + room)
        lower, upper, above, below = node.state[0], node.state[1], node.state[2], node.state[3]
        starts = space.layout.starts
        own, other = [], []
        for k in range(space.layout.layers - 1):
            at = slice(starts[k], starts[k + 1])
            own.append(Interval(lower[at], upper[at]))
            # The member's difference is within the band, whatever phases are tied.
            other.append(Interval(lower[at] - below[at], upper[at] + above[at]))
        rivals = [c for c in range(self._instance.labels) if c != label]
        instance = self._instance
        found = rounding_error(instance.own.evaluation(), own, box)
        errors = np.full_like(node.errors, found.of_margins(label, rivals))
        found = rounding_error(instance.others.evaluation(int(node.members[0])), other, box)
        errors[-1] = found.of_margins(label, [rivals[node.case]])
        whole = np.full_like(errors, instance.network_error)
        whole[-1] = instance.member_error
        errors = with_room(errors, node.errors, whole)
        return replace(node, errors=errors, rounding_width=width)


def with_room(errors: Floats, before: Floats, whole: Floats) -> Floats:
    """Return errors with the checker's margin, where they improve on the earlier ones."""
    return np.minimum(before, np.maximum(_ROOM * errors, _SHARE * whole) + _UNDERFLOW)


def rounding_near(instance: Instance, witness: Witness) -> float:
    """Return the largest effect of float32 evaluation on a bound near a witness."""
    near = witness.x.astype(np.float64)
    box = Box(
        np.maximum(near - SMALL_REGION / 2, instance.box.lower),
        np.minimum(near + SMALL_REGION / 2, instance.box.upper),
    )
    label, rivals = witness.label, [c for c in range(instance.labels) if c != witness.label]
    second = max(rivals, key=lambda c: float(witness.member_scores[c]))
    return instance.own.rounding(box).of_margins(label, rivals) + instance.others.rounding(
        box, witness.member
    ).of_margins(label, [second])
