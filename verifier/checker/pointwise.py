"""How far float32 evaluation may move linear forms of the scores of several networks."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Members, Stack
from leaveout.models.graph import Graph
from leaveout.verifier.checker.envelope import member_bounds
from leaveout.verifier.checker.evaluation import largest_program
from leaveout.verifier.checker.inputs import Inputs
from leaveout.verifier.checker.intervals import Start, start
from leaveout.verifier.checker.joint import Spot
from leaveout.verifier.checker.layout import Net, Sets, difference, make_net
from leaveout.verifier.checker.leads import LeadProgram, Region, lead_program
from leaveout.verifier.checker.readers import Reader
from leaveout.verifier.checker.regional import hidden_bounds, whole_bounds
from leaveout.verifier.checker.rounding import UNIT, gamma
from leaveout.verifier.checker.spaces import Asked

__all__ = ["Applied", "FormErrors", "NoErrors", "applied", "whole_form_errors"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


_KEPT = 256
"""Members that are kept at hand."""


class Applied(Protocol):
    """What is applied to a point, on its own."""

    @property
    def point(self) -> int:
        """Which one."""
        ...

    @property
    def inputs(self) -> Inputs:
        """The point's."""
        ...

    def whole(self, forms: Floats) -> Floats:
        """Bound errors of forms, shape (r, labels), over all inputs, shape (r,)."""
        ...

    def over(self, low: Floats, high: Floats, forms: Floats, members: Sequence[Integers]) -> Floats:
        """Bound errors of forms over boxes, shape (n, features), for some members each; (n, r)."""
        ...


@dataclass(frozen=True, eq=False)
class _One:
    """One network at one point.

    Attributes
    ----------
    point : int
    inputs : Inputs
    net : Net
    start : Start
    sets : Sets
        No difference.
    program : LeadProgram
    """

    point: int
    inputs: Inputs
    net: Net
    start: Start
    sets: Sets
    program: LeadProgram

    @staticmethod
    def of(
        graph: Graph,
        stack: Stack,
        parameters: Mapping[str, NDArray[np.floating]],
        point: int,
        inputs: Inputs,
    ) -> _One:
        """Bound it once over all of the point's inputs."""
        net = make_net(stack, inputs)
        sets = difference(stack, stack, net)
        program = lead_program(graph, parameters)
        return _One(point, inputs, net, start(net, sets), sets, program)

    @cached_property
    def whole_bounds(self) -> list[tuple[Floats, Floats]]:
        """Bounds of hidden layers over all inputs, shape (1, width) each."""
        return whole_bounds(self.net, self.sets, self.start)

    def whole(self, forms: Floats) -> Floats:
        """See `Applied.whole`."""
        low, high = self.inputs.lower[None], self.inputs.upper[None]
        return np.asarray(self._errors(low, high, self.whole_bounds, forms)[0])

    def over(self, low: Floats, high: Floats, forms: Floats, members: Sequence[Integers]) -> Floats:
        """See `Applied.over`; it is no member of anything."""
        least = np.maximum(np.nextafter(low - self.net.origin, -math.inf), 0.0)
        most = np.nextafter(high - self.net.origin, math.inf)
        bounds = hidden_bounds(self.net, self.sets, self.start, least, most)
        return self._errors(low, high, bounds, forms)

    def _errors(
        self, low: Floats, high: Floats, bounds: list[tuple[Floats, Floats]], forms: Floats
    ) -> Floats:
        above, below = np.maximum(high, 0.0), np.maximum(-low, 0.0)
        region = Region(above, below, [b[0] for b in bounds], [b[1] for b in bounds])
        return self.program.form_errors(region, forms)


@dataclass(frozen=True, eq=False)
class _AnyOf:
    """Any member of a family at one point.

    Attributes
    ----------
    reader : Reader
    family : Members
    example : _One
        The network whose architecture they have.
    """

    reader: Reader
    family: Members
    example: _One
    _known: OrderedDict[int, _One] = field(default_factory=OrderedDict)

    @property
    def point(self) -> int:
        """Which one."""
        return self.example.point

    @property
    def inputs(self) -> Inputs:
        """The point's."""
        return self.example.inputs

    @cached_property
    def _whole(self) -> float:
        """Bound the error of any two scores of a member together, and so of any one."""
        example, inputs = self.example, self.inputs
        own = [(low[0], high[0]) for low, high in example.whole_bounds]
        bounds = member_bounds(self.reader.stack, self.family, inputs, example.net, own)
        largest = np.maximum(np.abs(inputs.lower), np.abs(inputs.upper))[None]
        program = largest_program(self.reader.graph, self.family.family.parameters)
        high = [each[None] for _, each in bounds]
        return float(program.errors(np.zeros(1, np.int64), largest, high)[0])

    def whole(self, forms: Floats) -> Floats:
        """See `Applied.whole`."""
        sizes = np.abs(forms)
        two = np.count_nonzero(sizes, axis=1) <= 2
        often = np.where(two, sizes.max(axis=1), sizes.sum(axis=1))
        return np.asarray(self._whole * often * (1.0 + gamma(forms.shape[1] + 8)))

    def over(self, low: Floats, high: Floats, forms: Floats, members: Sequence[Integers]) -> Floats:
        """See `Applied.over`; of single members only."""
        found = np.full((len(low), len(forms)), math.inf)
        chosen = np.array([int(each[0]) if len(each) == 1 else -1 for each in members])
        for member in np.unique(chosen[chosen >= 0]):
            rows = np.flatnonzero(chosen == member)
            one = self._member(int(member))
            found[rows] = one.over(low[rows], high[rows], forms, [])
        return found

    def _member(self, index: int) -> _One:
        if index not in self._known:
            parameters = self.family.family.take([index])
            given = self.reader.graph, self.family.member(index), parameters
            self._known[index] = _One.of(*given, self.point, self.inputs)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return self._known[index]


def applied(reader: Reader, point: int, inputs: Inputs) -> Applied:
    """Bound what is applied to a point once over all of the point's inputs."""
    one = _One.of(reader.graph, reader.stack, reader.parameters, point, inputs)
    return one if reader.members is None else _AnyOf(reader, reader.members, one)


def whole_form_errors(applied: Sequence[Applied], forms: Sequence[Floats]) -> Floats:
    """Bound evaluation errors of rows over everything, shape (r,).

    Parameters
    ----------
    applied : sequence of Applied
    forms : sequence of ndarray of float64, shape (r, labels)
        Of each, the coefficients of its scores in every row.
    """
    total = np.zeros(len(forms[0]))
    for each, own in zip(applied, forms, strict=True):
        some = own.any(axis=1)
        if some.any():
            total[some] += each.whole(own[some])
    return total


class NoErrors:
    """Of claims about exact arithmetic.

    Parameters
    ----------
    rows : int
        Most of a case.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def over(self, asked: Asked) -> Floats:
        """Return zeros."""
        return np.zeros((len(asked.case), self._rows))


@dataclass(frozen=True, eq=False)
class FormErrors:
    """Bounds evaluation errors over regions of the joint input.

    Attributes
    ----------
    applied : tuple of Applied
    origin : ndarray of float64, shape (joint,)
    spots : tuple of Spot
    forms : tuple of tuple of ndarray of float64, shape (r, labels)
        Of each case, of each application: the coefficients of its scores in every row.
    rows : int
        Most of a case.
    """

    applied: tuple[Applied, ...]
    origin: Floats
    spots: tuple[Spot, ...]
    forms: tuple[tuple[Floats, ...], ...]
    rows: int

    def over(self, asked: Asked) -> Floats:
        """Return the errors of each node's rows; 0 beyond those of its case."""
        pad = 4 * UNIT * (np.abs(asked.upper) + np.abs(self.origin))
        low, high = asked.lower + self.origin - pad, asked.upper + self.origin + pad
        found = np.zeros((len(asked.case), self.rows))
        for case in np.unique(asked.case):
            nodes = np.flatnonzero(asked.case == case)
            for each, forms in zip(self.applied, self.forms[int(case)], strict=True):
                some = np.flatnonzero(forms.any(axis=1))
                if len(some):
                    ends = self._box(each, low[nodes], high[nodes])
                    members = [asked.members[i] for i in nodes]
                    found[np.ix_(nodes, some)] += each.over(*ends, forms[some], members)
        return found

    def _box(self, applied: Applied, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return where the point of an application is, shape (n, features)."""
        spot, whole = self.spots[applied.point], applied.inputs
        least, most = low[:, spot.own], high[:, spot.own]
        if spot.base is not None:
            room = 4 * UNIT * (np.abs(low) + np.abs(high))
            pad = room[:, spot.own] + room[:, spot.base]
            least, most = least + low[:, spot.base] - pad, most + high[:, spot.base] + pad
        return np.clip(least, whole.lower, whole.upper), np.clip(most, whole.lower, whole.upper)
