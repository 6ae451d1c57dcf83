"""The interface of a question to attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.slp import Pass, Problem, Step
from leaveout.deadline import Deadline
from leaveout.encoders import Box

Floats = NDArray[np.floating[Any]]
Lanes = NDArray[np.int64]


class CounterExample(Protocol):
    """A replayed counter-example."""

    @property
    def value(self) -> float:
        """Its least goal, as computed in float32."""


W_co = TypeVar("W_co", bound=CounterExample, covariant=True)


@dataclass(frozen=True, eq=False)
class View:
    """Points to start from."""

    points: Floats  # shape (n, d)
    score: Callable[[Lanes, Deadline], Floats]
    schedules: tuple[tuple[Pass, ...], ...]  # how to ascend from the most promising ones


class Exact(Protocol):
    """Float64 problems of some lanes, for the final ascents."""

    @property
    def levels(self) -> int:
        """The number of slack levels to back off to, smallest first."""

    def problem(self) -> Problem:
        """Return the problem of all lanes, one point each, with the smallest slack."""

    def whole(self, row: int, point: Floats) -> Problem | None:
        """Return one lane with all goals and limits; None if `problem` has them all."""

    def safer(self, row: int, point: Floats, level: int) -> tuple[Problem, Step]:
        """Return one lane with a larger slack, and how to ascend."""


class Field(Protocol[W_co]):
    """A question laid out for attacks.

    A *lane* is what is ascended beside N: a member, or a member and a case.
    """

    @property
    def box(self) -> Box: ...
    @property
    def lanes(self) -> int: ...
    @property
    def parameters(self) -> int:
        """The number of parameters read to evaluate a lane at a point."""

    @property
    def lower(self) -> Floats:
        """The lower corner of the box, shape (d,), in the type used for ascents."""

    @property
    def upper(self) -> Floats: ...
    @property
    def sizes(self) -> tuple[float, ...]:
        """Typical pre-activations of each layer."""

    @property
    def least(self) -> float:
        """The value up to which counter-examples are worthless."""

    def views(self, sample: Floats, seen: int, most: int) -> list[View]:
        """Return the points to start from."""

    def score(self, points: Floats, lanes: Lanes, until: Deadline) -> Floats:
        """Return how promising points are for lanes, shape (m, n)."""

    def nets(self, lanes: Lanes) -> Any:
        """Return what the problems of some lanes share."""

    def problem(self, nets: Any, points: Floats) -> Problem:
        """Return the ascent problem at points (m, p, d), discrete features fixed."""

    def relaxed_problem(self, nets: Any) -> Problem:
        """Return the ascent problem with discrete features relaxed."""

    def nearest(self, points: Floats) -> Floats:
        """Return the nearest points of the box, shape (..., d)."""

    def exact(self, lanes: Lanes, points: Floats) -> Exact:
        """Return the problems in float64, at one point per lane, shape (m, d)."""

    def replay(self, point: Floats, lane: int) -> W_co | None:
        """Round a point to float32; return it if it is a counter-example."""
