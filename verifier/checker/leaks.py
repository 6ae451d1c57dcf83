"""Claims about leaks as cases: one per rival, N's margins as goals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from leaveout.arrays import Floats
from leaveout.verifier.checker.arithmetic import UNIT, Arithmetic
from leaveout.verifier.checker.envelope import whole_errors
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.layout import Net, SetStore, Start, make_net, start
from leaveout.verifier.checker.margins import MarginProgram, Region, margin_program
from leaveout.verifier.checker.question import Question
from leaveout.verifier.checker.spaces import Asked, CaseRows, Space, stacked_rows
from leaveout.verifier.checker.tree_shape import ROOT, Shape, TreePart

_TOGETHER = 64


@dataclass(frozen=True, eq=False)
class Leaks:
    """A network, a family and a box, prepared for claims about any label."""

    question: Question
    net: Net
    start: Start
    whole: tuple[float, float]

    def others(self, label: int) -> list[int]:
        """Return the rivals of a label."""
        if not 0 <= label < self.net.labels:
            raise RejectedError(f"there is no label {label}")
        return [c for c in range(self.net.labels) if c != label]

    def shape(self, label: int) -> Shape:
        """Return the limits on the contents of a label's tree."""
        others = self.others(label)
        goal = np.arange(len(others) + 1) < len(others)
        return Shape(
            self.net.inputs,
            self.net.hidden,
            len(self.question.members),
            (goal,) * len(others),
            (True,) * len(others),
            tuple(f"leaks to label {rival}" for rival in others),
        )

    def tree(self, part: TreePart, label: int) -> TreePart:
        """Return the arrays of a tree of leaks in the form of a tree of cases."""
        others = self.others(label)
        if part.share.shape[1:] != (self.net.labels + 1,):
            raise RejectedError("the multipliers do not match the network")
        if part.share[:, label].any():
            raise RejectedError(f"a leaf has a share for its own label {label}")
        place = np.full(self.net.labels, -1)
        place[others] = np.arange(len(others))
        known = (part.index >= 0) & (part.index < self.net.labels)
        rival = np.where(known, place[np.where(known, part.index, 0)], -1)
        return replace(
            part,
            index=np.where(part.kind == ROOT, rival, part.index),
            errors=part.errors[:, [*(0 for _ in others), 1]],
            share=part.share[:, [*others, -1]],
        )

    def space(self, label: int) -> Space:
        """Arrange the leaks of a label as cases."""
        others, one = self.others(label), np.eye(self.net.labels)
        error, tie = self.whole
        goals = np.stack([one[label] - one[c] for c in others])
        errors = np.array([*(error for _ in others), tie])
        none, cases = np.zeros(len(others) + 1), []
        for k, rival in enumerate(others):
            behind = (one[rival] - one[label])[None]
            cases.append(
                CaseRows(
                    np.zeros((len(none), self.net.inputs)),
                    np.concatenate([goals, behind]),
                    np.concatenate([np.zeros_like(goals), behind]),
                    none,
                    errors,
                    np.arange(len(none)) < len(others),
                    # N's margin over the rival plus the condition: the difference of the margins.
                    np.array([[len(others), k]]),
                    np.zeros((len(none), self.net.labels)),
                )
            )
        return Space(
            self.net,
            self.start,
            # Each tree numbers its sets separately.
            SetStore(self.question.members, self.question.network.stack, self.net),
            True,
            stacked_rows(cases, self.net, self.start),
            np.arange(len(others)),
            _LeakErrors(self, label, others),
        )


@dataclass(frozen=True, eq=False)
class _LeakErrors:
    leaks: Leaks
    label: int
    others: list[int]

    @cached_property
    def alone(self) -> MarginProgram:
        """N by itself."""
        network = self.leaks.question.network
        own = {name: value[None] for name, value in network.parameters.items()}
        return margin_program(network.graph, own, self.leaks.net.arithmetic)

    def over(self, asked: Asked) -> Floats:
        """Return errors of N's margins, and of the member's; the latter only for single members."""
        net, question = self.leaks.net, self.leaks.question
        low, high = asked.lower + net.origin, asked.upper + net.origin
        pad = 4 * UNIT * (np.abs(asked.upper) + np.abs(net.origin))
        inputs = np.maximum(high + pad, 0.0), np.maximum(pad - low, 0.0)
        state = [asked.state[:, :, net.at(k)] for k in range(net.layers - 1)]
        here = Region(*inputs, [s[:, 0] for s in state], [s[:, 1] for s in state])
        # A member's difference is within the band, whichever pairs are tied.
        there = Region(
            *inputs, [s[:, 0] - s[:, 3] for s in state], [s[:, 1] + s[:, 2] for s in state]
        )
        count = len(asked.case)
        none = np.zeros(count, np.int64)
        own = self.alone.errors(none, here, self.label, [none + c for c in self.others])
        other, rival = np.full(count, math.inf), np.array(self.others)[asked.case]
        single = np.array([len(members) == 1 for members in asked.members])
        for begin in range(0, count, _TOGETHER):
            rows = np.flatnonzero(single[begin : begin + _TOGETHER]) + begin
            if not len(rows):
                continue
            members = np.array([asked.members[i][0] for i in rows], np.int64)
            unique, which = np.unique(members, return_inverse=True)
            taken = question.family.take(unique)
            program = margin_program(question.network.graph, taken, net.arithmetic)
            other[rows] = program.errors(which, there.rows(rows), self.label, [rival[rows]])
        return np.column_stack([*(own for _ in self.others), other])


def prepare_leaks(question: Question, numbers: Arithmetic) -> Leaks:
    """Bound everything that all labels share, once."""
    net = make_net(question.network.stack, question.inputs, numbers)
    store = SetStore(question.members, question.network.stack, net)
    everyone = store.sets([0], [np.arange(len(question.members), dtype=np.int64)])
    begin = start(net, everyone)
    whole = whole_errors(question, net, everyone, begin)
    if not all(math.isfinite(v) for v in whole):
        raise RejectedError("scores may overflow float32 over the box")
    return Leaks(question, net, begin, whole)
