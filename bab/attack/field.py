"""What seeking counter-examples needs of a question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.slp import Problem, Step
from leaveout.bab.attack.smoothing import Pass
from leaveout.deadline import Deadline
from leaveout.encoders import Box

Floats = NDArray[np.floating[Any]]
Lanes = NDArray[np.int64]


class Sought(Protocol):
    """A replayed counter-example."""

    @property
    def value(self) -> float:
        """Its least goal, as computed in float32."""
        ...


W_co = TypeVar("W_co", bound=Sought, covariant=True)


@dataclass(frozen=True, eq=False)
class View:
    """Points to start from."""

    points: Floats  # shape (n, d)
    score: Callable[[Lanes, Deadline], Floats]
    schedules: tuple[tuple[Pass, ...], ...]  # how to ascend from the most promising ones


class Exact(Protocol):
    """Float64 problems of some lanes, for the last ascents."""

    @property
    def levels(self) -> int:
        """How many slacks there are to back off to, the first the smallest."""
        ...

    def problem(self) -> Problem:
        """All lanes together, a point each, with the smallest slack."""
        ...

    def whole(self, row: int, point: Floats) -> Problem | None:
        """One lane with all its goals and limits; None where the above has them all."""
        ...

    def safer(self, row: int, point: Floats, level: int) -> tuple[Problem, Step]:
        """One lane with a larger slack, and how to ascend."""
        ...


class Field(Protocol[W_co]):
    """A question, laid out for seeking.

    A *lane* is what is ascended beside N: a member, or one and a case.
    """

    @property
    def box(self) -> Box: ...  # noqa: D102
    @property
    def lanes(self) -> int: ...  # noqa: D102
    @property
    def parameters(self) -> int:
        """Numbers that are read to evaluate a lane at a point."""
        ...

    @property
    def lower(self) -> Floats:
        """Of the box, shape (d,), in the type that is ascended in."""
        ...

    @property
    def upper(self) -> Floats: ...  # noqa: D102
    @property
    def sizes(self) -> tuple[float, ...]:
        """Typical pre-activations of each layer."""
        ...

    @property
    def least(self) -> float:
        """Counter-examples of no higher value are worth nothing."""
        ...

    def views(self, sample: Floats, seen: int, most: int) -> list[View]:
        """Return where to start from."""
        ...

    def score(self, points: Floats, lanes: Lanes, until: Deadline) -> Floats:
        """Return how promising points are for lanes, shape (m, n)."""
        ...

    def nets(self, lanes: Lanes) -> Any:
        """Return what problems of some lanes share."""
        ...

    def problem(self, nets: Any, points: Floats) -> Problem:
        """Return what is ascended from points, shape (m, p, d): discrete features stay fixed."""
        ...

    def relaxed(self, nets: Any) -> Problem:
        """Return what is ascended where discrete features may take any value."""
        ...

    def nearest(self, points: Floats) -> Floats:
        """Move to the nearest points of the box, shape (..., d)."""
        ...

    def exact(self, lanes: Lanes, points: Floats) -> Exact:
        """Return the same in float64, from a point each, shape (m, d)."""
        ...

    def replay(self, point: Floats, lane: int) -> W_co | None:
        """Round a point to float32 and return it if it is a counter-example."""
        ...
