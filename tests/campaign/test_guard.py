"""The campaign against the guard sees noise that is missing, odd, or forgotten."""

from __future__ import annotations

import pytest

from leaveout.verifier.guard.leaks import LeakTest
from leaveout.verifier.guard.memory import Memory

from attacks.guard import Guards
from attacks.kind import generator, sort_of
from attacks.workers import judged


def wrongs(count):
    """Mistakes in cases that tamper with nothing."""
    kind = Guards()
    made = (kind.make(generator(0, "guard", number)) for number in range(count))
    found = [judged(kind, case | {"searched": False, "tampered": None}).wrong for case in made]
    return [wrong for wrong in found if wrong is not None]


def test_the_guard_noises_where_members_disagree_and_nowhere_else():
    assert wrongs(40) == []


@pytest.mark.parametrize("said", [True, False])
def test_leaks_that_are_none_and_those_overlooked_are_seen(monkeypatch, said):
    monkeypatch.setattr(LeakTest, "leaks", lambda self, x, seen: said)
    assert "leaks" in map(sort_of, wrongs(25))


def test_a_memory_that_forgets_is_seen(monkeypatch):
    monkeypatch.setattr(Memory, "recall", lambda self, inputs: [None for _ in inputs])
    monkeypatch.setattr(
        Memory,
        "answer",
        lambda self, inputs, draw, **_: [draw(at, 0.0) for at in range(len(inputs))],
    )
    assert "account" in map(sort_of, wrongs(25))


def test_another_law_is_seen(monkeypatch):
    monkeypatch.setattr("attacks.guard.draw_noisy_label", lambda label, *rest: label)
    assert {"law"} <= set(map(sort_of, wrongs(10)))
