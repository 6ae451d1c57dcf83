"""The campaign against certificates of votes: enumeration is right, and sees what is not."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import leaveout.bab.votes.collective as collective
from leaveout.kernel import schemes
from leaveout.verifier.values.votes import Vote

from attacks.batches import Batches
from attacks.kind import generator, sort_of
from attacks.vote_truth import Truth
from attacks.votes import Votes
from support.depth import rounds


def outcomes(count, **wanted):
    kind = Votes()
    made = (kind.make(generator(0, "votes", number)) for number in range(count))
    cases = [case for case in made if all(case[name] == value for name, value in wanted.items())]
    return [kind.check(case) for case in cases]


def test_random_ballots_hold_what_enumeration_says():
    found = outcomes(120)
    assert [each.wrong for each in found if each.wrong is not None] == []
    assert {each.answer for each in found} == {"proved", "refuted", "unknown", "refused"}


def test_enumeration_counts_edits_as_defined():
    case = {"votes": [[1, 1, 1, 1], [0, 0, 0, 0]], "truth": [1, 0], "labels": 2}
    truth = Truth(case | {"vote": "dpa", "offsets": []})
    assert truth.radii == [1, 2]  # ties go to the smaller label
    assert [truth.accuracy(edits) for edits in range(4)] == [2, 2, 1, 0]
    assert [truth.collective(edits) for edits in range(4)] == [2, 2, 1, 0]
    assert truth.median() == 2
    spread = Truth(case | {"vote": "finite_aggregation", "offsets": [0, 1]})
    assert spread.radii == [0, 1]
    ranked = case | {"vote": "run_off", "scores": np.eye(2)[np.array(case["votes"])].tolist()}
    assert Truth(ranked | {"offsets": []}).radii == [1, 2]
    families = Truth(case | {"vote": "hash_bagging", "families": [2, 2]})
    assert families.radii == [0, 1]  # an edit changes a member of each family
    assert [families.collective(edits) for edits in range(3)] == [2, 1, 0]


@pytest.mark.parametrize(
    ("vote", "name"), [("dpa", "label_radii"), ("certified", "threshold_radii")]
)
def test_a_radius_too_large_is_seen(monkeypatch, vote, name):
    whole = getattr(schemes, name)
    monkeypatch.setattr(schemes, name, lambda *given: whole(*given) + 1)
    monkeypatch.setattr(Vote, "attack", lambda *given: None)
    sorts = {sort_of(each.wrong) for each in outcomes(250, vote=vote) if each.wrong}
    assert sorts & {"verdict", "bounds", "find"}


def test_a_collective_attack_that_is_overlooked_is_seen(monkeypatch):
    from dataclasses import replace

    whole = collective.worst_attack

    def lazy(*given):
        found = whole(*given)
        return replace(found, units=(), lost=(), upper=0, reason="")

    monkeypatch.setattr("leaveout.verifier.values.subjects.votes.worst_attack", lazy)
    assert any(each.wrong for each in outcomes(250, vote="dpa"))


def test_batches_and_shares_bound_what_every_attack_loses():
    kind, found = Batches(), []
    for number in range(rounds(60)):
        found.append(kind.check(kind.make(generator(0, "batches", number))))
    assert [each.wrong for each in found if each.wrong is not None] == []
    assert len({each.label for each in found}) == 3


@pytest.mark.parametrize(
    ("module", "function", "sort"),
    [
        ("leaveout.bab.votes.search", "shares_at", "sum"),
        ("leaveout.kernel.counting", "shares_at", "kernel"),
    ],
)
def test_shares_that_are_too_small_are_seen(monkeypatch, module, function, sort):
    whole = getattr(importlib.import_module(module), function)
    monkeypatch.setattr(f"{module}.{function}", lambda *given, **said: whole(*given, **said) // 4)
    kind = Batches()
    made = (kind.check(kind.make(generator(0, "batches", number))) for number in range(60))
    assert any(each.wrong and each.wrong.startswith(sort) for each in made)
