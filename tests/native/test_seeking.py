"""Which hints are followed when: those above the target while there is time, in the end all."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from leaveout.bab.native.question import Hint
from leaveout.bab.native.search import Seeking
from leaveout.deadline import NEVER


class Asked:
    """A question that finds, at each hint, half its value."""

    seeks_first = True

    def __init__(self):
        self.followed = []

    def follow(self, hints, at_least, deadline):
        self.followed.append([hint.value for hint in hints])
        return max(hint.value for hint in hints) / 2


def made():
    kept = []
    known = SimpleNamespace(target=4.0, lower=2.0, settled=False, keep=kept.append)
    asked = Asked()
    return Seeking(asked, SimpleNamespace(seconds=1.0), known, NEVER), asked, kept


HINTS = [Hint(np.zeros(1), 0, 0, value) for value in (1.0, 3.0, 8.0)]


def test_hints_below_the_target_wait_for_the_end():
    seeking, asked, kept = made()
    seeking.follow(HINTS)
    assert asked.followed == [[8.0]]
    seeking.follow_all(HINTS)
    assert asked.followed == [[8.0], [3.0, 8.0]]
    assert kept == [4.0, 4.0]


def test_only_the_end_asks_for_more_time_than_following_may_take():
    seeking, asked, _ = made()
    seeking._spent, seeking.explored = 2.0, 1.0
    seeking.follow(HINTS)
    assert not asked.followed
    seeking.follow_all(HINTS)
    assert asked.followed == [[3.0, 8.0]]
