"""Bounds of the float32 error of linear forms of several networks' scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Members, Stack
from leaveout.models.graph import Graph
from leaveout.verifier.checker.arithmetic import Arithmetic
from leaveout.verifier.checker.envelope import member_bounds
from leaveout.verifier.checker.evaluation import largest_program
from leaveout.verifier.checker.inputs import Inputs
from leaveout.verifier.checker.intervals import Start, start
from leaveout.verifier.checker.joint import Joint
from leaveout.verifier.checker.layout import Net, Sets, difference, make_net
from leaveout.verifier.checker.margins import MarginProgram, Region, margin_program
from leaveout.verifier.checker.readers import Reader
from leaveout.verifier.checker.regional import whole_bounds
from leaveout.verifier.checker.rounding import UNIT, gamma
from leaveout.verifier.checker.spaces import Asked

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


_TOGETHER = 64
"""Nodes of single members that are looked at together."""


class Applied(Protocol):
    """A network, or members, applied to a point."""

    @property
    def point(self) -> int:
        """The index of the point."""
        ...

    @property
    def inputs(self) -> Inputs:
        """The set of inputs of the point."""
        ...

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        ...

    def whole(self, forms: Floats) -> Floats:
        """Bound errors of forms, shape (r, labels), over all inputs, shape (r,)."""
        ...

    def over(self, region: Region, forms: Floats, members: Sequence[Integers]) -> Floats:
        """Bound errors of forms in n nodes, for some members each; shape (n, r)."""
        ...


@dataclass(frozen=True, eq=False)
class _One:
    """One network at one point."""

    point: int
    inputs: Inputs
    net: Net
    start: Start
    sets: Sets  # no difference
    program: MarginProgram

    @staticmethod
    def of(
        graph: Graph,
        stack: Stack,
        parameters: Mapping[str, NDArray[np.floating]],
        point: int,
        inputs: Inputs,
        numbers: Arithmetic,
    ) -> _One:
        """Bound it once over all of the point's inputs."""
        net = make_net(stack, inputs, numbers)
        sets = difference(stack, stack, net)
        program = margin_program(graph, parameters, numbers)
        return _One(point, inputs, net, start(net, sets), sets, program)

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        starts = self.net.starts
        return tuple(starts[k + 1] - starts[k] for k in range(self.net.layers - 1))

    @cached_property
    def whole_bounds(self) -> list[tuple[Floats, Floats]]:
        """Bounds of hidden layers over all inputs, shape (1, width) each."""
        return whole_bounds(self.net, self.sets, self.start)

    def whole(self, forms: Floats) -> Floats:
        """See `Applied.whole`."""
        above = np.maximum(self.inputs.upper, 0.0)[None]
        below = np.maximum(-self.inputs.lower, 0.0)[None]
        low, high = zip(*self.whole_bounds, strict=True) if self.whole_bounds else ((), ())
        return np.asarray(self.over(Region(above, below, low, high), forms, [])[0])

    def over(self, region: Region, forms: Floats, members: Sequence[Integers]) -> Floats:
        """See `Applied.over`; it has no members."""
        return self.program.form_errors(np.zeros(len(region.above), np.int64), region, forms)


@dataclass(frozen=True, eq=False)
class _AnyOf:
    """Any member of a family at one point."""

    reader: Reader
    family: Members
    example: _One  # the network whose architecture they have

    @property
    def point(self) -> int:
        """The index of the point."""
        return self.example.point

    @property
    def inputs(self) -> Inputs:
        """The set of inputs of the point."""
        return self.example.inputs

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        return self.example.widths

    @cached_property
    def _whole(self) -> Floats:
        """Bound the error of each score of any member."""
        example, inputs = self.example, self.inputs
        own = [(low[0], high[0]) for low, high in example.whole_bounds]
        bounds = member_bounds(self.reader.stack, self.family, inputs, example.net, own)
        largest = np.maximum(np.abs(inputs.lower), np.abs(inputs.upper))[None]
        program = largest_program(
            self.reader.graph, self.family.family.parameters, example.net.arithmetic
        )
        high = [each[None] for _, each in bounds]
        return np.asarray(program.score_errors(np.zeros(1, np.int64), largest, high)[0])

    def whole(self, forms: Floats) -> Floats:
        """See `Applied.whole`: members have no slopes in common."""
        numbers = self.example.net.arithmetic
        # A label of which nothing is known matters where it is asked about.
        unknown = np.isinf(self._whole)
        terms = numbers.number(np.abs(forms)) * np.where(unknown, 0.0, self._whole)
        found = numbers.up(terms.sum(axis=1) * (1.0 + gamma(forms.shape[1] + 8)))
        return np.where((forms[:, unknown] != 0.0).any(axis=1), math.inf, found)

    def over(self, region: Region, forms: Floats, members: Sequence[Integers]) -> Floats:
        """See `Applied.over`; of single members only."""
        found = np.full((len(members), len(forms)), math.inf)
        single = np.flatnonzero([len(each) == 1 for each in members])
        for begin in range(0, len(single), _TOGETHER):
            rows = single[begin : begin + _TOGETHER]
            unique, which = np.unique([int(members[i][0]) for i in rows], return_inverse=True)
            program = margin_program(
                self.reader.graph, self.family.family.take(unique), self.example.net.arithmetic
            )
            found[rows] = program.form_errors(which, region.rows(rows), forms)
        return found


def read_application(reader: Reader, point: int, inputs: Inputs, numbers: Arithmetic) -> Applied:
    """Bound what is applied to a point once over all of the point's inputs."""
    one = _One.of(reader.graph, reader.stack, reader.parameters, point, inputs, numbers)
    return one if reader.members is None else _AnyOf(reader, reader.members, one)


def whole_form_errors(
    applied: Sequence[Applied], forms: Sequence[Floats], numbers: Arithmetic
) -> Floats:
    """Bound evaluation errors of rows over everything, shape (r,)."""
    total = np.zeros(len(forms[0]))
    for each, own in zip(applied, forms, strict=True):
        some = own.any(axis=1)
        if some.any():
            total[some] = _sum(total[some], each.whole(own[some]), numbers)
    return total


def _sum(one: Floats, two: Floats, numbers: Arithmetic) -> Floats:
    """Add errors, which may be infinite."""
    known = np.isfinite(one) & np.isfinite(two)
    total = numbers.number(np.where(known, one, 0.0)) + np.where(known, two, 0.0)
    return np.where(known, numbers.up(total), math.inf)


@dataclass(frozen=True, eq=False)
class FormErrors:
    """Bounds evaluation errors over regions of the joint input."""

    applied: tuple[Applied, ...]
    origin: Floats  # shape (joint,)
    joint: Joint
    starts: tuple[int, ...]  # where the neurons of each layer of the joint network start among all
    forms: tuple[tuple[Floats, ...], ...]  # shape (r, labels)
    rows: int  # most of a case
    share: float  # what of the errors is charged: a power of two
    arithmetic: Arithmetic

    def over(self, asked: Asked) -> Floats:
        """Return the errors of each node's rows; 0 beyond those of its case."""
        pad = 4 * UNIT * (np.abs(asked.upper) + np.abs(self.origin))
        low, high = asked.lower + self.origin - pad, asked.upper + self.origin + pad
        found = np.zeros((len(asked.case), self.rows))
        for case in np.unique(asked.case):
            nodes = np.flatnonzero(asked.case == case)
            members = [asked.members[i] for i in nodes]
            for a, forms in enumerate(self.forms[int(case)]):
                some = np.flatnonzero(forms.any(axis=1))
                if len(some):
                    least, most = self._box(self.applied[a], low[nodes], high[nodes])
                    known = self._hidden_bounds(a, asked.state[nodes])
                    region = Region(np.maximum(most, 0.0), np.maximum(-least, 0.0), *known)
                    errors = self.applied[a].over(region, forms[some], members)
                    at = np.ix_(nodes, some)
                    found[at] = _sum(found[at], self.share * errors, self.arithmetic)
        return found

    def _hidden_bounds(self, application: int, state: Floats) -> tuple[list[Floats], list[Floats]]:
        """Return bounds of an application's hidden layers, from the joint network's."""
        place, low, high = self.joint.places[application], state[:, 0], state[:, 1]
        if place.second:
            # Differences lie in the band, whatever pairs are tied.
            low, high = low - state[:, 3], high + state[:, 2]
        at = []
        for layer, before, width in zip(
            self.starts, place.hidden, self.applied[application].widths, strict=False
        ):
            at.append(slice(layer + before, layer + before + width))
        return [low[:, each] for each in at], [high[:, each] for each in at]

    def _box(self, applied: Applied, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return where the point of an application is, shape (n, features)."""
        spot, whole = self.joint.spots[applied.point], applied.inputs
        least, most = low[:, spot.own], high[:, spot.own]
        if spot.base is not None:
            room = 4 * UNIT * (np.abs(low) + np.abs(high))
            pad = room[:, spot.own] + room[:, spot.base]
            least, most = least + low[:, spot.base] - pad, most + high[:, spot.base] + pad
        return np.clip(least, whole.lower, whole.upper), np.clip(most, whole.lower, whole.upper)
