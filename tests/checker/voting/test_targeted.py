"""The kernel's bounds of what forces a label are those of every attack, whatever a proof says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leaveout.kernel.counting import FAR
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import plurality_radii_to
from leaveout.kernel.values import Given
from leaveout.kernel.voting import Vote as CountedVote
from leaveout.verifier.certify.votes import answer
from leaveout.verifier.values.votes.targets import toward
from leaveout.verifier.values.votes.vote import kernel_ballots

from attacks.vote_truth import Truth
from support.targeted import cases, held_of, vote_of


def bounds_to(vote, target, proof):
    return vote.bounds_to(target, Given({}, proof, ask=answer))


@pytest.mark.parametrize(
    ("name", "count"),
    [("dpa", 40), ("ss_dpa", 20), ("certified", 30), ("finite_aggregation", 30), ("run_off", 20)],
)
def test_bounds_are_those_of_every_attack(name, count):
    kind = "thresholds" if name == "certified" else name
    for case in cases(6, count, name):
        truth, vote = Truth(case), vote_of(case)
        checked = CountedVote(kind, kernel_ballots(held_of(case)))
        for target in range(case["labels"]):
            known = toward(vote, target)
            points = np.arange(len(case["votes"]))
            known.radii(points)
            for survived in (1, 2):
                proof, missing = known.proof(points, survived, survived)
                lower, upper = bounds_to(checked, target, proof)
                for point, ballot in enumerate(truth.ballots):
                    cost = ballot.costs[ballot.answers == target].min(initial=math.inf)
                    true = FAR if math.isinf(cost) else int(cost) - 1
                    assert lower[point] <= true <= upper[point]
                    if name != "finite_aggregation":
                        assert lower[point] == upper[point] == true
                    elif not missing:
                        assert lower[point] >= survived or upper[point] < survived


def test_no_prices_prove_more_than_is_so():
    rng = np.random.default_rng(4)
    rejected, tried = 0, 0
    for case in cases(7, 40, "certified"):
        held, truth = held_of(case), Truth(case)
        points, labels = len(case["votes"]), case["labels"]
        for turn in range(12):
            target = int(rng.integers(labels))
            proof = {
                "points": rng.integers(0, points, points),
                "prices": rng.integers(-2, 6, (points, 3, labels)) * 2 ** int(rng.integers(15, 24)),
                "votes": rng.integers(0, labels, held.votes.shape).astype(np.int32),
            }
            if turn % 2:
                proof["prices"] = np.abs(proof["prices"])
                proof["prices"][..., target] *= rng.choice([-1, 1], (points, 3))
            if turn == 11:
                proof["prices"] *= 2**40
            tried += 1
            try:
                lower, upper = bounds_to(
                    CountedVote("thresholds", kernel_ballots(held)), target, proof
                )
            except Rejected:
                rejected += 1
                continue
            for point, ballot in enumerate(truth.ballots):
                cost = ballot.costs[ballot.answers == target].min(initial=math.inf)
                assert lower[point] <= (FAR if math.isinf(cost) else int(cost) - 1) <= upper[point]
    assert 50 < rejected < tried - 100


@pytest.mark.parametrize("name", ["points", "prices", "votes"])
def test_arrays_of_another_shape_are_rejected(name):
    (case,) = cases(8, 1, "certified")
    held, known = held_of(case), toward(vote_of(case), 0)
    points = np.arange(len(case["votes"]))
    known.radii(points)
    proof, _ = known.proof(points, 1, 1)
    for wrong in (proof[name][:-1], proof[name].astype(np.float64), proof[name] + 100):
        if name == "prices" and wrong is not proof[name][:-1] and wrong.dtype == np.int64:
            wrong = wrong[..., :-1]
        with pytest.raises(Rejected):
            given = {**proof, name: wrong}
            bounds_to(CountedVote("thresholds", kernel_ballots(held)), 0, given)


def test_a_label_that_is_answered_needs_no_edit():
    votes = np.array([[1, 1, 0], [0, 0, 0]], np.int32)
    assert plurality_radii_to(votes, 2, 1).tolist() == [-1, 1]
