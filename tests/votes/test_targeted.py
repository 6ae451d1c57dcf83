"""What forces one answer is what every vote of every member says it is."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from leaveout.errors import LeaveoutError
from leaveout.kernel.counting import FAR
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import plurality_radii_to
from leaveout.kernel.values import Given
from leaveout.kernel.voting import Vote as CountedVote
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.verifier.run import verify
from leaveout.verifier.values.votes import Vote
from leaveout.verifier.values.votes.targets import toward

from attacks.vote_truth import Truth
from support.counted import vote_of_arrays
from support.depth import rounds
from support.targeted import cases, vote_of
from support.votes import every_count, random_ballots


@pytest.mark.parametrize(
    ("name", "count"),
    [("dpa", 60), ("ss_dpa", 30), ("certified", 60), ("finite_aggregation", 50), ("run_off", 30)],
)
def test_forcing_a_label_takes_the_cheapest_of_all_attacks(name, count):
    forced, never = 0, 0
    for case in cases(5, count, name):
        vote, truth = vote_of(case), Truth(case)
        for target in range(case["labels"]):
            known = toward(vote, target)
            radii = known.radii(np.arange(len(case["votes"])))
            for point, ballot in enumerate(truth.ballots):
                cost = ballot.costs[ballot.answers == target].min(initial=math.inf)
                expected = FAR if math.isinf(cost) else int(cost) - 1
                assert radii.lower[point] == radii.upper[point] == expected
                never += math.isinf(cost)
                attack = known.attack(point)
                if 0 <= expected < FAR:
                    forced += 1
                    assert attack is not None
                    assert attack.edits == expected + 1
                    assert attack.after == target != attack.before
                else:
                    assert attack is None
    assert forced > 100
    assert never > 10 or name != "certified"


def test_forcing_a_label_is_that_of_every_count():
    rng = np.random.default_rng(0)
    for _ in range(rounds(1_500)):
        parts, labels = int(rng.integers(2, 10)), int(rng.integers(2, 6))
        votes, _ = random_ballots(rng, 1, parts, labels)
        before = np.bincount(votes[0], minlength=labels)
        after = every_count(parts, labels)
        changed = np.maximum(after - before, 0).sum(axis=1)
        for target in range(labels):
            cheapest = int(changed[after.argmax(axis=1) == target].min())
            assert plurality_radii_to(votes, labels, target).tolist() == [cheapest - 1]
            attack = toward(vote_of_arrays("dpa", votes, labels), target).attack(0)
            assert attack is None if cheapest == 0 else len(attack.poisoned) == cheapest


def test_more_than_the_answer_must_be_beaten():
    # With three votes label 2 passes a label of four that stands alone, but not two of them.
    for counts, edits in (([4, 0, 0], 3), ([4, 4, 0], 4)):
        votes = np.repeat(np.arange(3), counts)[None].astype(np.int32)
        assert plurality_radii_to(votes, 3, 2).tolist() == [edits - 1]


def test_thresholds_known_only_from_below_are_no_attack():
    votes = np.zeros((1, 3), np.int32)
    thresholds = np.zeros((1, 3, 2), np.int32)
    thresholds[0, :, 1] = [1, 5, 5]
    for exact_to, upper in ((None, 5), (4, FAR), (5, 5)):
        origin = Origin(thresholds_exact_to=exact_to)
        held = Ballots(votes, np.zeros(1, np.int32), 2, thresholds=thresholds, origin=origin)
        vote = Vote("thresholds", held)
        radii = toward(vote, 1).radii(np.arange(1))
        assert (radii.lower[0], radii.upper[0]) == (5, upper)


def test_members_of_families_are_refused_in_a_line(tmp_path, snapshot):
    # One edit reaches a member of each family: that of parts would be far too many edits.
    origin = Origin(families=(2, 2))
    held = Ballots(np.zeros((1, 4), np.int32), np.zeros(1, np.int32), 2, origin=origin)
    write_ballots(held, tmp_path / "b.npz")
    (tmp_path / "a.spec").write_text(
        'let V = ballots("b.npz") '
        "guarantee g: targeted_robustness(hash_bagging(V), to = 1, edits = 1) >= 0"
    )
    with pytest.raises(LeaveoutError) as told:
        verify(tmp_path / "a.spec")
    assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        CountedVote("hash_bagging", held).bounds_to(1, Given({}))
    assert str(told.value) == snapshot


def test_the_share_is_of_points_that_are_answered_otherwise(tmp_path, snapshot):
    rng = np.random.default_rng(3)
    checked = 0
    for _ in range(25):
        parts, labels = int(rng.integers(3, 9)), int(rng.integers(2, 4))
        votes, truth = random_ballots(rng, 12, parts, labels)
        origin = Origin(label_names=tuple("abc"[:labels]), hash_reads_label=False)
        write_ballots(Ballots(votes, truth, labels, origin=origin), tmp_path / "b.npz")
        target, edits, label = (int(rng.integers(n)) for n in (labels, 4, labels))
        counts = np.stack([np.bincount(row, minlength=labels) for row in votes])
        survive = plurality_radii_to(votes, labels, target) + 1
        answers = counts.argmax(axis=1)
        for among, part in ((truth >= 0, ""), (truth == label, f', label = "{"abc"[label]}"')):
            others = among & (answers != target)
            text = f"targeted_robustness(dpa(V), to = {target}, edits = {edits}{part})"
            (tmp_path / "a.spec").write_text(
                f'let V = ballots("b.npz") find s: greatest s such that {text} >= s'
            )
            if not others.any():
                with pytest.raises(LeaveoutError) as told:
                    verify(tmp_path / "a.spec")
                assert str(told.value) == snapshot
                continue
            share = Fraction(
                sum(survive[p] > edits for p in np.flatnonzero(others)), int(others.sum())
            )
            (result,) = verify(tmp_path / "a.spec").results
            assert result.lower == pytest.approx(float(share), abs=1e-12)
            checked += 1
    assert checked > 25
