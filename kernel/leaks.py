"""Leaks: where N is confident of a label and a member answers otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .boxes import Inputs
from .cover import Asked, Space, Walk, at_everywhere, read_tree
from .float32 import Program, Region, Rounding
from .joint import TOGETHER, Members
from .networks import HIGH, LOW, Flags, Integers, Layer, Net, P, Q, positive
from .numbers import UNIT, Floats, need
from .rows import CaseRows, Rows
from .values import Ask, question


@dataclass(frozen=True, eq=False)
class Folded:
    """Members as layers, a few at a time."""

    members: Members

    def __len__(self) -> int:
        return len(self.members)

    def chunks(self, members: Integers, /) -> Iterator[tuple[Integers, Sequence[Layer]]]:
        """See `leaveout.kernel.networks.Networks`."""
        for begin in range(0, len(members), TOGETHER):
            chosen = members[begin : begin + TOGETHER]
            yield chosen, self.members.take(chosen).layers()


def region(net: Net, lower: Floats, upper: Floats, state: Floats, *, member: bool) -> Region:
    """Return what is known of N, or of any member: its z is at most p above N's, q below."""
    pad = 4 * UNIT * (np.abs(upper) + np.abs(net.origin))
    most, least = upper + net.origin + pad, lower + net.origin - pad
    low, high = state[:, LOW], state[:, HIGH]
    if member:
        low, high = low - state[:, Q], high + state[:, P]
        pad_z = 4 * UNIT * (np.abs(low) + np.abs(high))
        low, high = low - pad_z, high + pad_z
    parts = [[each[:, at] for at in net.at[:-1]] for each in (low, high)]
    return Region(positive(most), positive(-least), *parts)


@dataclass(frozen=True, eq=False)
class Leaks:
    """A network, members and a box, prepared for claims about any label."""

    program: Program
    members: Members
    net: Net
    everywhere: Floats  # shape (1, 6, hidden): what holds over the whole box

    @staticmethod
    def of(program: Program, members: Members, box: Inputs, ask: Ask) -> Leaks:
        """Bound what all labels share."""
        program.check()
        net = Net(program.layers(), Folded(members), box, np.minimum(box.lower, 0.0))
        need(net.labels > 1, "a network with a single score has no label")
        return Leaks(program, members, net, at_everywhere(net, ask))

    def check(
        self,
        label: int,
        upper: float,
        ask: Ask,
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> int:
        """Prove that no leak of a label has a confidence above ``upper``; count the leaves."""
        net = self.net
        need(0 <= label < net.labels, f"there is no label {label}")
        others = [c for c in range(net.labels) if c != label]
        rows = [len(others) + 1] * len(others)
        ties = np.full(len(others), not net.is_bent.any())
        tree = read_tree(question(ask, "tree", {}), net, rows, ties, len(self.members))
        Walk(self._space(label, others, ties), tree, upper, ask).run(
            lambda done: report(done, len(tree.parent))
        )
        return sum(not len(each) for each in tree.children)

    def _space(self, label: int, others: list[int], ties: Flags) -> Space:
        """Arrange the leaks to each rival as a case.

        N's margins over all rivals are the goals: their least is the confidence. The member's
        rival is not behind its label. The sum of N's margin over that rival with this condition is
        the difference of margins alone.
        """
        one, net = np.eye(net_labels := self.net.labels), self.net
        errors = _Errors(self, label, others)
        error, tie = errors.whole()
        need(np.isfinite([error, tie]), "scores may overflow float32 over the box")
        goals = np.stack([one[label] - one[c] for c in others])
        none = np.zeros(len(others) + 1)
        cases = []
        for k, rival in enumerate(others):
            behind = (one[rival] - one[label])[None]
            own = CaseRows(
                np.zeros((len(none), net.inputs)), np.concatenate([goals, behind]),
                np.concatenate([np.zeros_like(goals), behind]), none,
                np.array([*(error for _ in others), tie]), np.arange(len(none)) < len(others),
                np.array([[len(others), k]]), np.zeros((len(none), net_labels)),
            )  # fmt: skip
            cases.append(own)
        return Space(net, True, ties, Rows(cases, net), np.arange(len(others)), errors)


@dataclass(frozen=True, eq=False)
class _Errors:
    leaks: Leaks
    label: int
    others: list[int]

    def whole(self) -> tuple[float, float]:
        """Bound the error of N's confidence, and of any member's margin, over the box."""
        net, state = self.leaks.net, self.leaks.everywhere
        box = net.lower[None], net.upper[None]
        own = self._of(
            self.leaks.program, np.zeros(1, np.int64), region(net, *box, state, member=False)
        )
        most = 0.0
        for begin in range(0, len(self.leaks.members), TOGETHER):
            chosen = np.arange(begin, min(begin + TOGETHER, len(self.leaks.members)))
            here = region(net, *box, state, member=True)
            same = here.take(np.zeros(len(chosen), np.int64))
            program = self.leaks.members.take(chosen)
            most = max(most, float(self._of(program, np.arange(len(chosen)), same).max()))
        return float(own.max()), most

    def _of(self, program: Program, which: Integers, here: Region) -> Floats:
        one = np.eye(self.leaks.net.labels)
        forms = np.stack([one[self.label] - one[c] for c in self.others])
        return Rounding(program, which, here).of_forms(
            np.broadcast_to(forms, (len(which), *forms.shape)), subtract=True
        )

    def over(self, asked: Asked) -> Floats:
        """Return errors of N's confidence, and of a member's margin where there is one member."""
        net, n = self.leaks.net, len(asked.case)
        here = region(net, asked.lower, asked.upper, asked.state, member=False)
        there = region(net, asked.lower, asked.upper, asked.state, member=True)
        own = self._of(self.leaks.program, np.zeros(n, np.int64), here).max(1)
        tie = np.full(n, np.inf)
        single = np.flatnonzero([len(each) == 1 for each in asked.members])
        for begin in range(0, len(single), TOGETHER):
            nodes = single[begin : begin + TOGETHER]
            chosen, which = np.unique([asked.members[i][0] for i in nodes], return_inverse=True)
            program = self.leaks.members.take(chosen)
            found = self._of(program, which, there.take(nodes))
            tie[nodes] = found[np.arange(len(nodes)), asked.case[nodes]]
        return np.column_stack([*(own for _ in self.others), tie])
