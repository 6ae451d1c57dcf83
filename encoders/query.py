"""A neutral query over several networks: the worst counter-example to a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.encoders.box import Box
from leaveout.models import Members, Network

Numbers = NDArray[np.float64] | list[Fraction]

_UNIT64 = Fraction(1, 2**52)
"""Largest relative distance of an exact number from its nearest float64."""


@dataclass(frozen=True)
class Application:
    """A network, or any member of a family, applied to a point."""

    network: Network  # for a family: one network of its architecture
    point: int  # position of its input in `Query.points`
    name: str = ""  # name in messages
    family: int | None = None


@dataclass(frozen=True)
class ExactForm:
    """The exact numbers of a `Form`."""

    features: tuple[tuple[int, int, Fraction], ...]
    scores: tuple[tuple[int, int, Fraction], ...]
    constant: Fraction


@dataclass(frozen=True)
class Form:
    """A linear function of features and scores."""

    features: tuple[tuple[int, int, float], ...] = ()
    scores: tuple[tuple[int, int, float], ...] = ()
    constant: float = 0.0
    rounded: bool = False  # whether each number is the nearest float64 to an exact one
    exact: ExactForm | None = field(default=None, compare=False)

    @property
    def numbers(self) -> ExactForm:
        """The exact numbers that it represents."""
        return self.exact or ExactForm(
            tuple((p, i, Fraction(c)) for p, i, c in self.features),
            tuple((a, j, Fraction(c)) for a, j, c in self.scores),
            Fraction(self.constant),
        )

    def value(self, points: list[Floats], scores: list[Floats]) -> float:
        """Evaluate the form in float64."""
        total = self.constant
        total += sum(c * float(points[p][i]) for p, i, c in self.features)
        return float(total + sum(c * float(scores[a][j]) for a, j, c in self.scores))

    @property
    def absolute(self) -> Form:
        """The form with absolute values of its numbers."""
        return Form(
            tuple((p, i, abs(c)) for p, i, c in self.features),
            tuple((a, j, abs(c)) for a, j, c in self.scores),
            abs(self.constant),
        )

    def least(self, points: Sequence[Numbers], scores: Sequence[Numbers]) -> Fraction:
        """Return the exact value, or the least one that the rounded numbers allow.

        Parameters are those of `value`.
        """
        own = self.numbers
        terms = [own.constant]
        terms += [c * Fraction(points[p][i]) for p, i, c in own.features]
        terms += [c * Fraction(scores[a][j]) for a, j, c in own.scores]
        total = sum(terms, Fraction(0))
        return total - _UNIT64 * sum(map(abs, terms), Fraction(0)) if self.rounded else total


@dataclass(frozen=True)
class Condition:
    """``form >= 0``, or ``form > 0`` if strict."""

    form: Form
    strict: bool = False


@dataclass(frozen=True)
class Case:
    """The conditions of one kind of counter-example."""

    conditions: tuple[Condition, ...] = ()  # all must hold
    goals: tuple[Form, ...] = ()  # how bad a counter-example is, if requested: the least of these


@dataclass(frozen=True)
class Query:
    """Points, networks applied to them, and the cases of a counter-example."""

    points: tuple[Box, ...]  # the set of each point
    applications: tuple[Application, ...]
    cases: tuple[tuple[Condition, ...], ...]
    worst: Form | None = None  # how bad a counter-example is, where requested
    reals: bool = False
    families: tuple[Members, ...] = ()  # claims must hold for every member of each
    alternatives: tuple[tuple[tuple[Condition, ...], ...], ...] = ()
