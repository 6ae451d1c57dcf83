"""The campaign against guards of large families sees members that are closed too early."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from leaveout.verifier.guard import coarse, margins
from leaveout.verifier.guard.coarse import CoarseCopy

from attacks.crowds import Crowds
from attacks.kind import generator, sort_of
from attacks.workers import judged


def wrongs(*numbers):
    """Return the sorts of mistakes of some cases."""
    kind = Crowds()
    found = [judged(kind, kind.make(generator(0, "crowds", number))).wrong for number in numbers]
    return [sort_of(wrong) for wrong in found if wrong is not None]


# Cases in which what is planted below shows; as it is, nothing is wrong with any.
TELLING = (1, 2, 4, 9, 28)


def test_nobody_that_disagrees_is_left_out():
    assert wrongs(*TELLING) == []


def untrue_copies(monkeypatch, change):
    of = CoarseCopy.of

    def changed(*given):
        copy = of(*given)
        return dataclasses.replace(copy, **change(copy))

    monkeypatch.setattr(CoarseCopy, "of", staticmethod(changed))


@pytest.mark.parametrize(("column", "factor"), [(1, 0.2), (2, 0.0)])
def test_copies_that_lack_more_than_they_say_are_seen(monkeypatch, column, factor):
    def change(copy):
        factors = np.ones(3, np.float32)
        factors[column] = factor
        return {"sizes": copy.sizes * factors}

    untrue_copies(monkeypatch, change)
    assert wrongs(*TELLING) != []


def test_changes_that_no_layer_passes_on_are_seen(monkeypatch):
    untrue_copies(monkeypatch, lambda copy: {"spectral": 0.0 * copy.spectral})
    assert wrongs(*TELLING) != []


def test_a_margin_that_is_said_to_change_too_little_is_seen(monkeypatch):
    monkeypatch.setattr(coarse, "_MARGIN", 1.0)
    assert wrongs(*TELLING) != []


def test_members_that_are_said_to_be_nearer_than_they_are_are_seen(monkeypatch):
    summarise = margins.summarise

    def nearer(*given):
        known = summarise(*given)
        half = {name: getattr(known, name) / 2 for name in ("norms", "groups", "blocks")}
        return dataclasses.replace(known, **half)

    monkeypatch.setattr(margins, "summarise", nearer)
    assert wrongs(*TELLING) != []
