"""The interface of what a guard serves: a network, a forest or a linear model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import GuardError
from leaveout.models.archive import read_archive
from leaveout.models.train.columns import TableColumns
from leaveout.models.train.encoding import Encoding
from leaveout.models.train.folder import Held
from leaveout.verifier.guard.inputs import Domain, FiniteDomain, LeakFinder, Point, plain_rows
from leaveout.verifier.points.sentences import group_note, group_words


class Identity(NamedTuple):
    """What a memory of noised answers is bound to."""

    model: str  # digests of what must never change under one memory
    family: str  # digests of what must never change under one memory
    inputs: str  # digest of what says which inputs may be noised


class Subject(ABC):
    """An immutable model with its members and what is known of them."""

    folder: Path
    domain: Domain  # the inputs that the promise is about
    leaks: LeakFinder
    labels: int  # how many there are
    names: tuple[str, ...]  # of the labels; empty where none are known
    members: int
    unit_names: tuple[str, ...]  # what the table calls the row, or group, that each member lacks
    identity: Identity
    earlier: str = ""  # digest that earlier versions gave the model; empty where it was the same
    encoding: Encoding | None
    notes: tuple[str, ...]  # sentences for the owner
    group: str = ""  # what a row is, if many rows of the table leave together

    @abstractmethod
    def encode(self, rows: Sequence[Mapping[str, str | float]]) -> NDArray[Any]:
        """Encode rows in a table's own units, shape (rows, inputs)."""

    @abstractmethod
    def read_arrays(self, path: Path) -> NDArray[Any]:
        """Read the inputs of an NPZ, ``X_test`` or ``X``, shape (n, inputs)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int) -> NDArray[Any]:
        """Draw inputs, shape (count, inputs)."""

    @abstractmethod
    def where_outside(self, point: Point) -> str:
        """Return how an input leaves the domain, in data units; empty if inside."""


OnProgress = Callable[[int, int], None]
"""Told how much of the work on all members is done, and how much there is."""

_INPUTS = ("X_test", "X")


class TableSubject(Subject):
    """A model of a table that answers every finite input, since all its members are known."""

    _thresholds: Sequence[NDArray[np.float64]]  # of each feature, of trees

    def __init__(self, folder: Path, inputs: int, columns: TableColumns | None, group: str) -> None:
        # ``columns`` is None where no table is known, ``group`` empty where rows leave alone.
        self.folder = folder
        self.columns = None if columns is None or columns.encoding is None else columns
        self.encoding = None if self.columns is None else self.columns.encoding
        names = () if self.columns is None or self.columns.width is None else self.columns.features
        self.domain = FiniteDomain(names or tuple(map(str, range(inputs))))
        self.group = group_words(group) if group else ""
        self.notes = (group_note(group),) if group else ()

    def _names_of(self, held: Held) -> tuple[str, ...]:
        """Return the names of rows held, or of their groups, in the order of members."""
        if held.groups is not None:
            _, first = np.unique(held.groups.cells, return_index=True)
            return tuple(held.groups.cells[np.sort(first)].tolist())
        ids = {} if self.columns is None else self.columns.ids
        return tuple(ids.get(row, str(row)) for row in held.names.tolist())

    def encode(self, rows: Sequence[Mapping[str, str | float]]) -> NDArray[np.float64]:
        if self.columns is None:
            return plain_rows(rows, self.domain.features, np.float64)
        return self.columns.encode(rows)

    def read_arrays(self, path: Path) -> NDArray[np.float64]:
        arrays = read_archive(path, GuardError, only=_INPUTS)
        name = next((name for name in _INPUTS if name in arrays), None)
        if name is None:
            raise GuardError(f"{path}: has neither an array 'X_test' nor 'X'")
        try:
            points = self.domain.points(arrays[name])
        except GuardError as error:
            raise GuardError(f"{path}: {name!r}: {error}") from None
        finite = np.isfinite(points).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise GuardError(
                f"{path}: {name!r} row {row} contains a value that is not a finite number"
            )
        return points

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw inputs on both sides of the trees' thresholds."""
        points = np.zeros((count, self.domain.dimension))
        for at, thresholds in enumerate(self._thresholds):
            if len(thresholds):
                points[:, at] = rng.choice(thresholds, count)
        return np.where(rng.random(points.shape) < 0.5, points, np.nextafter(points, np.inf))

    def where_outside(self, point: Point) -> str:
        return ""


_MOST_EPSILON = 700.0


@dataclass(frozen=True)
class GuardSettings:
    """Settings of a guard's answers.

    Attributes
    ----------
    epsilon : float
        Of each noised answer, in nats; 0 draws it uniformly.
    outside : {"refuse", "noise"}
        What happens to inputs outside the verified box, of which nothing is proved.
    cap : float or None
        What the epsilons of all noised answers may add up to; None for no limit.
    when_spent : {"refuse", "uniform"}
        What happens then: everything is refused, whether it would be noised or not, so that
        refusing tells nothing; or further noised answers are uniform, which costs nothing.
    remember : int
        Noised answers that may be kept; then everything is refused.
    seed : int or None
        None draws from the operating system. A seed is for experiments: who knows it can take
        the noise away.

    Raises
    ------
    GuardError
        If a value cannot be used.
    """

    epsilon: float
    outside: Literal["refuse", "noise"] = "refuse"
    cap: float | None = None
    when_spent: Literal["refuse", "uniform"] = "refuse"
    remember: int = 1_000_000
    seed: int | None = None

    def __post_init__(self) -> None:
        _refuse_other("epsilon", self.epsilon, Real)
        if self.cap is not None:
            _refuse_other("the cap", self.cap, Real)
        _refuse_other("the number of answers to remember", self.remember, Integral)
        if self.seed is not None:
            _refuse_other("a seed", self.seed, Integral)
        if not 0 <= self.epsilon <= _MOST_EPSILON:
            raise GuardError(f"epsilon must be between 0 and {_MOST_EPSILON:g}, got {self.epsilon}")
        if self.outside not in ("refuse", "noise"):
            raise GuardError(f"outside must be refuse or noise, got {self.outside!r}")
        if self.cap is not None and not 0 <= self.cap < math.inf:
            raise GuardError(f"the cap must be at least 0, got {self.cap}; None for no limit")
        if self.when_spent not in ("refuse", "uniform"):
            raise GuardError(f"when_spent must be refuse or uniform, got {self.when_spent!r}")
        if self.remember < 1:
            raise GuardError(f"at least one answer must be stored, got {self.remember}")
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            raise GuardError(f"the seed must be a 64-bit whole number, got {self.seed}")


def _refuse_other(name: str, value: object, kind: type[Real] | type[Integral]) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        whole = "a whole number" if kind is Integral else "a number"
        raise GuardError(f"{name} must be {whole}, got {value!r}")
