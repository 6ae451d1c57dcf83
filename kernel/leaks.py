"""Leaks: where N is confident of a label and a member answers otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .boxes import Inputs
from .cover import Asked, Space, Walk, at_everywhere, read_tree
from .float32 import Program, Region
from .members import Folded, Members, errors_of, errors_of_any, errors_of_single, span
from .networks import Flags, Net, positive
from .numbers import UNIT, Floats, need
from .rows import CaseRows, Rows
from .values import Ask, question


def region(net: Net, lower: Floats, upper: Floats, state: Floats, *, member: bool) -> Region:
    """Return what is known of N, or of any member."""
    pad = 4 * UNIT * (np.abs(upper) + np.abs(net.origin))
    most, least = upper + net.origin + pad, lower + net.origin - pad
    low, high = span(state, member=member)
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
        one, net = np.eye(self.net.labels), self.net
        goals = one[label] - one[others]
        box, state = (net.lower[None], net.upper[None]), self.everywhere
        here, there = (region(net, *box, state, member=member) for member in (False, True))
        error = errors_of(self.program, np.zeros(1, np.int64), here, goals, subtract=True).max()
        tie = errors_of_any(self.members, there, goals, subtract=True).max()
        need(np.isfinite([error, tie]), "scores may overflow float32 over the box")
        none = np.zeros(len(others) + 1)
        cases = []
        for k, rival in enumerate(others):
            behind = (one[rival] - one[label])[None]
            own = CaseRows(
                np.zeros((len(none), net.inputs)), np.concatenate([goals, behind]),
                np.concatenate([np.zeros_like(goals), behind]), none,
                np.array([*(error for _ in others), tie]), np.arange(len(none)) < len(others),
                np.array([[len(others), k]]), np.zeros((len(none), net.labels)),
            )  # fmt: skip
            cases.append(own)

        def errors(asked: Asked) -> Floats:
            """Bound errors of N's confidence, and of a member's margin where there is just one."""
            n, own = len(asked.case), (asked.lower, asked.upper, asked.state)
            here, there = (region(net, *own, member=member) for member in (False, True))
            which = np.zeros(n, np.int64)
            most = errors_of(self.program, which, here, goals, subtract=True).max(1)
            theirs = errors_of_single(self.members, asked.members, there, goals, subtract=True)
            return np.column_stack([*(most for _ in others), theirs[np.arange(n), asked.case]])

        return Space(net, True, ties, Rows(cases, net), np.arange(len(others)), errors)
