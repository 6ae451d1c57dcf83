"""Hash bagging: an edit changes one member of each family; against every choice of members."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from leaveout.bab.votes.search import search
from leaveout.encoders.votes.programme import choices_in, most_lost_problem
from leaveout.errors import BallotError, LeaveoutError
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.schemes import label_radii
from leaveout.kernel.threats import refuse_misfits
from leaveout.kernel.values import Given
from leaveout.kernel.voting import Vote
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.solvers import Status, find_solver
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from support.counted import recounted, stake_of, tally, vote_of_arrays
from support.votes import random_ballots


def answered(ballot, labels):
    return int(np.bincount(ballot, minlength=labels).argmax())


def falls(ballot, labels, sizes, edits):
    """Whether some votes of some members, so many of each family, change the answer."""
    starts = np.cumsum([0, *sizes])
    each = [
        combinations(range(start, start + size), min(edits, size))
        for start, size in zip(starts, sizes, strict=False)
    ]
    for chosen in product(*each):
        members = [member for family in chosen for member in family]
        for cast in product(range(labels), repeat=len(members)):
            changed = ballot.copy()
            changed[members] = cast
            if answered(changed, labels) != answered(ballot, labels):
                return True
    return False


def cases(count):
    rng = np.random.default_rng(4)
    for _ in range(count):
        labels = int(rng.integers(2, 4))
        sizes = tuple(map(int, rng.integers(1, 4, int(rng.integers(1, 4)))))
        if 2 <= sum(sizes) <= 6:
            votes, _ = random_ballots(rng, 3, sum(sizes), labels)
            yield votes, labels, sizes


def test_radii_are_those_of_every_choice_of_members():
    several = 0
    for votes, labels, sizes in cases(60):
        found = label_radii(votes, labels, sizes=sizes).min(axis=1)
        vote = vote_of_arrays("hash_bagging", votes, labels, families=sizes)
        assert np.array_equal(vote.radii().lower, found)
        for point, ballot in enumerate(votes):
            assert not falls(ballot, labels, sizes, found[point])
            assert falls(ballot, labels, sizes, found[point] + 1)
            attack = vote.attack(point)
            assert attack.edits == found[point] + 1
            assert recounted(ballot, labels, attack) == attack.after != attack.before
            family = np.repeat(np.arange(len(sizes)), sizes)
            assert np.bincount(family[list(attack.poisoned)]).max() <= attack.edits
        several += len(sizes) > 1
    assert several > 20


def test_the_milp_of_families_loses_what_the_search_does():
    less = 0
    for votes, labels, sizes in cases(40):
        stake = stake_of(votes, tally(votes, labels).predictions, labels, 1, sizes=sizes)
        if not len(stake.needs):
            continue
        found = search(stake)
        outcome = find_solver("highs").solve(most_lost_problem(stake))
        assert outcome.status is Status.OPTIMAL
        assert round(outcome.dual_bound) == found.lost == found.upper
        assert len(stake.lost_points(choices_in(stake, outcome.solution.point))) == found.lost
        less += found.lost < stake.count
    assert less


def test_one_family_is_a_plain_partition_and_two_are_twice_as_weak():
    votes = np.zeros((1, 12), np.int32)
    # The last family may have fewer members than its hash has values.
    for sizes, radius in (((12,), 6), ((6, 6), 3), ((10, 2), 4)):
        assert label_radii(votes, 2, sizes=sizes).min() == radius


@pytest.mark.parametrize(
    "origin", [Origin(method="hash_bagging"), Origin(families=(3, 3)), Origin(families=(1, 5))]
)
def test_other_votes_refuse_its_ballots_here_and_in_the_checker(tmp_path, origin, snapshot):
    votes, truth = random_ballots(np.random.default_rng(0), 5, 6, 3)
    scores = np.eye(3)[votes]
    ballots = Ballots(votes, truth, 3, scores=scores, origin=origin)
    write_ballots(ballots, tmp_path / "b.npz")
    for vote in ("dpa(V)", "run_off(V)", "finite_aggregation(V)"):
        (tmp_path / "a.spec").write_text(
            f'let V = ballots("b.npz") guarantee g: certified_accuracy({vote}, edits = 1) >= 0'
        )
        with pytest.raises(LeaveoutError) as told:
            verify(tmp_path / "a.spec")
        assert str(told.value) == snapshot
    (tmp_path / "a.spec").write_text(
        'let V = ballots("b.npz") guarantee g: certified_accuracy(ss_dpa(V), relabels = 1) >= 0'
    )
    with pytest.raises(LeaveoutError) as told:
        verify(tmp_path / "a.spec")
    assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        refuse_misfits(ballots, False, False, False, False)
    assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        refuse_misfits(ballots, True, False, False, False)
    assert str(told.value) == snapshot
    refuse_misfits(ballots, False, False, families=True, relabels=False)
    with pytest.raises(Rejected, match="each family"):
        refuse_misfits(ballots, False, False, False, relabels=True)


def test_families_are_of_the_manifest_or_said_and_must_agree(tmp_path, snapshot):
    votes, truth = random_ballots(np.random.default_rng(1), 9, 6, 2)
    write_ballots(Ballots(votes, truth, 2), tmp_path / "b.npz")
    write_ballots(Ballots(votes, truth, 2, origin=Origin(families=(3, 3))), tmp_path / "c.npz")

    def decided(said, claim="certified_accuracy(hash_bagging(V), edits = 1) >= 0"):
        (tmp_path / "a.spec").write_text(f"let V = ballots({said}) guarantee g: {claim}")
        return verify(tmp_path / "a.spec", certificate=tmp_path / "a.cert").results[0]

    with pytest.raises(LeaveoutError) as told:
        decided('"b.npz"')
    assert str(told.value) == snapshot
    with pytest.raises(LeaveoutError) as told:
        decided('"c.npz", families = [2, 4]')
    assert str(told.value) == snapshot
    with pytest.raises(LeaveoutError, match="6 in total"):
        decided('"b.npz", families = [2, 3]')
    assert decided('"b.npz", families = [3, 3]').lower == decided('"c.npz"').lower
    together = decided('"c.npz"', "collective_accuracy(hash_bagging(V), edits = 1) >= 0")
    assert together.upper - together.lower < 1e-9
    assert [each.name for each in check(tmp_path / "a.cert")] == ["g"]


def test_what_forces_one_answer_is_refused_here_and_in_the_checker(tmp_path, snapshot):
    votes, truth = random_ballots(np.random.default_rng(1), 9, 6, 3)
    ballots = Ballots(votes, truth, 3, origin=Origin(families=(3, 3)))
    write_ballots(ballots, tmp_path / "b.npz")
    (tmp_path / "a.spec").write_text(
        'let V = ballots("b.npz") '
        "guarantee g: targeted_robustness(hash_bagging(V), edits = 1, to = 1) >= 0"
    )
    with pytest.raises(LeaveoutError) as told:
        verify(tmp_path / "a.spec")
    assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        Vote("hash_bagging", ballots).bounds_to(1, Given({}))
    assert str(told.value) == snapshot


def test_ballots_have_offsets_or_families_and_every_member_is_in_one(snapshot):
    votes, truth = random_ballots(np.random.default_rng(1), 3, 6, 2)
    for origin in (
        Origin(families=(2, 3)),
        Origin(families=(6, 0)),
        Origin(families=(3, 3), offsets=(0, 1)),
    ):
        with pytest.raises(BallotError) as told:
            Ballots(votes, truth, 2, origin=origin)
        assert str(told.value) == snapshot
