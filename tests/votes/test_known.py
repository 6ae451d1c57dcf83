"""Members with thresholds: what these count, one part, and one attack on all points."""

from __future__ import annotations

import numpy as np
import pytest

import leaveout.bab.votes.collective as collective
from leaveout.bab.votes.collective import worst_attack
from leaveout.bab.votes.search import search
from leaveout.deadline import Deadline
from leaveout.encoders.votes.programme import choices_in, most_lost_problem
from leaveout.errors import LeaveoutError
from leaveout.kernel.schemes import threshold_stake
from leaveout.models.votes import Ballots, Origin, write_ballots
from leaveout.solvers import Status, find_solver
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from attacks.known_truth import Known
from support.counted import tally
from support.votes import random_ballots

CERTIFIED = "dpa(V, members = certified)"


def cases(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        parts, labels = int(rng.integers(1, 5)), int(rng.integers(2, 4))
        votes, truth = random_ballots(rng, int(rng.integers(1, 7)), parts, labels)
        thresholds = rng.integers(1, 5, (*votes.shape, labels)).astype(np.int32)
        thresholds[rng.random(thresholds.shape) < rng.choice([0, 0.3])] = -1
        np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
        yield votes, truth, labels, thresholds, int(rng.integers(0, 7))


def stake_of(votes, truth, labels, thresholds, budget):
    right = tally(votes, labels).predictions == truth
    return threshold_stake(votes, thresholds, labels, right, budget)


def most_lost(votes, truth, labels, thresholds, budget):
    case = {"votes": votes, "truth": truth, "labels": labels, "thresholds": thresholds}
    known = Known(case | {"hash_reads_label": None})
    return sum(known.right) - known.right_under(budget)


def test_search_and_milp_equal_enumeration():
    solver, less = find_solver("highs"), 0
    for number, (votes, truth, labels, thresholds, budget) in enumerate(cases(0, 160)):
        worst = most_lost(votes, truth, labels, thresholds, budget)
        stake = stake_of(votes, truth, labels, thresholds, budget)
        found = search(stake)
        assert found.lost == found.upper == worst
        choices = np.array(found.choices, np.int64)
        assert stake.cost[choices].sum() <= budget
        assert len(stake.lost_points(choices)) == worst
        less += worst < stake.count
        if number % 4 == 0 and len(stake.needs):
            outcome = solver.solve(most_lost_problem(stake))
            assert outcome.status is Status.OPTIMAL
            assert outcome.solution.objective == pytest.approx(worst, abs=1e-6)
            assert len(stake.lost_points(choices_in(stake, outcome.solution.point))) == worst
    assert less > 5


def test_a_milp_takes_over_from_the_search(monkeypatch):
    monkeypatch.setattr(collective, "_SEARCH_SECONDS", 0.0)
    for votes, truth, labels, thresholds, budget in cases(1, 12):
        stake = stake_of(votes, truth, labels, thresholds, budget)
        found = worst_attack(stake, find_solver("highs"))
        assert found.lower == found.upper == most_lost(votes, truth, labels, thresholds, budget)


def test_out_of_time_the_bound_is_sound():
    rng = np.random.default_rng(3)
    votes, truth = random_ballots(rng, 60, 12, 3)
    thresholds = rng.integers(1, 4, (60, 12, 3)).astype(np.int32)
    np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
    stake = stake_of(votes, truth, 3, thresholds, 5)
    exact = search(stake)
    assert exact.lost == exact.upper
    found = worst_attack(stake, find_solver("highs"), Deadline.after(0.0))
    assert found.lower <= exact.lost <= found.upper


def test_half_of_the_points_are_the_same_question_about_these():
    for votes, truth, labels, thresholds, budget in cases(4, 30):
        some = np.arange(0, len(votes), 2)
        stake = stake_of(votes, truth, labels, thresholds, budget)
        found = search(stake.of_pairs(np.isin(stake.points, some)))
        assert found.lost == most_lost(votes[some], truth[some], labels, thresholds[some], budget)


def written(folder, thresholds, votes=None, **origin):
    thresholds = np.array(thresholds, np.int32)
    votes = np.zeros(thresholds.shape[:2], np.int32) if votes is None else votes
    truth = np.zeros(len(votes), np.int32)
    ballots = Ballots(votes, truth, thresholds.shape[2], thresholds=thresholds,
                      origin=Origin(**origin))  # fmt: skip
    write_ballots(ballots, folder / "b.npz")


def decided(folder, claim):
    (folder / "a.spec").write_text(f'let V = ballots("b.npz") guarantee g: {claim}')
    (result,) = verify(folder / "a.spec").results
    return result


@pytest.mark.parametrize("against", [None, "edits", "insertions", "removals", "relabels"])
def test_thresholds_certify_what_they_count(tmp_path, against, snapshot):
    written(tmp_path, [[[0, 3]]] * 2, thresholds_against=against, hash_reads_label=False)
    own = against or "edits"
    for threat in ("edits", "insertions", "removals", "modifications", "relabels"):
        accuracy = f"certified_accuracy({CERTIFIED}, {threat} = {{}}) >= 1"
        together = f"collective_accuracy({CERTIFIED}, {threat} = {{}}) >= 1"
        radius = f"median_radius({CERTIFIED}, against = {threat}) >= {{}}"
        if threat != own and own != "edits":
            for claim in (accuracy, together, radius):
                with pytest.raises(LeaveoutError) as caught:
                    decided(tmp_path, claim.format(1))
                line = str(caught.value).splitlines()[0]
                assert line == snapshot
                assert f"{own}" in line
                assert f"{own}" in line
            continue
        # Of one part both edits of a relabel, or of a modification, are of that part.
        most = 2 if threat in ("insertions", "removals", own) else 1
        beyond = "refuted" if threat == own else "unknown"
        for claim in (accuracy, together, radius):
            assert decided(tmp_path, claim.format(most)).verdict == "proved"
            assert decided(tmp_path, claim.format(most + 1)).verdict == beyond


def test_thresholds_against_relabels_need_a_hash_without_labels(tmp_path, snapshot):
    for reads in (None, True):
        written(tmp_path, [[[0, 3]] * 3], thresholds_against="relabels", hash_reads_label=reads)
        with pytest.raises(LeaveoutError) as told:
            decided(tmp_path, f"certified_accuracy({CERTIFIED}, relabels = 1) >= 1")
        assert str(told.value) == snapshot
    written(tmp_path, [[[0, 3]] * 3], thresholds_against="relabels")
    said = 'dpa(ballots("b.npz", hash = label_independent), members = certified)'
    assert decided(tmp_path, f"certified_accuracy({said}, relabels = 5) >= 1").verdict == "proved"
    assert decided(tmp_path, f"certified_accuracy({said}, relabels = 6) >= 1").verdict == "refuted"


def test_beyond_what_is_exact_nothing_is_refuted(tmp_path, snapshot):
    # To change needs 2 members; the third of them needs at least 3, maybe more.
    written(tmp_path, [[[0, 2], [0, 3], [0, 3]]], thresholds_exact_to=2)
    for function in ("certified_accuracy", "collective_accuracy"):
        claim = f"{function}({CERTIFIED}, edits = {{}}) >= 1"
        assert decided(tmp_path, claim.format(4)).verdict == "proved"
        found = decided(tmp_path, claim.format(5))
        assert (found.verdict, found.upper) == ("unknown", 1)
        assert found.reason == snapshot
    written(tmp_path, [[[0, 2], [0, 2], [0, 3]]], thresholds_exact_to=2)
    assert decided(tmp_path, claim.format(3)).verdict == "proved"
    assert decided(tmp_path, claim.format(4)).verdict == "refuted"


def test_one_part_is_for_certified_members_alone(tmp_path, snapshot):
    written(tmp_path, [[[0, 3]], [[0, 1]]], hash_reads_label=False, offsets=(0,))
    claim = f"forall p in test_points(V): radius({CERTIFIED}, p) >= {{}}"
    assert decided(tmp_path, claim.format(0)).verdict == "proved"
    assert decided(tmp_path, claim.format(1)).verdict == "refuted"
    for other in ("dpa(V), edits", "ss_dpa(V), relabels", "finite_aggregation(V), edits"):
        with pytest.raises(LeaveoutError) as told:
            decided(tmp_path, f"certified_accuracy({other} = 1) >= 1")
        assert str(told.value) == snapshot
    with pytest.raises(LeaveoutError) as told:
        Ballots(np.zeros((1, 1), np.int32), np.zeros(1, np.int32), 2)
    assert str(told.value) == snapshot


def test_an_attack_on_all_points_says_how_often_each_part_is_changed(tmp_path, snapshot):
    written(tmp_path, [[[0, 2], [0, 3]], [[0, 4], [0, 3]]])
    found = decided(tmp_path, f"collective_accuracy({CERTIFIED}, edits = 6) >= 1")
    assert found.verdict == "refuted"
    units, lost = found.example.facts["poisoned"], found.example.facts["lost"]
    assert sorted(units) == [0, 0, 0, 1, 1, 1] or len(units) <= 6
    assert len(lost) >= 1
    assert "times)" in found.example.words
    assert found.example.words == snapshot
    report = verify(tmp_path / "a.spec")
    assert report.notes == snapshot


@pytest.mark.parametrize("exact_to", [None, 2])
def test_points_of_one_label_are_attacked_by_themselves(tmp_path, exact_to):
    rng = np.random.default_rng(5)
    for _ in range(4):
        votes, truth = random_ballots(rng, 6, 3, 2)
        thresholds = rng.integers(1, 4, (6, 3, 2)).astype(np.int32)
        np.put_along_axis(thresholds, votes[:, :, None], 0, axis=2)
        truth[0] = 1
        origin = Origin(thresholds_exact_to=exact_to)
        ballots = Ballots(votes, truth, 2, thresholds=thresholds, origin=origin)
        write_ballots(ballots, tmp_path / "b.npz")
        own = truth == 1
        case = {"votes": votes[own], "truth": truth[own], "labels": 2, "exact_to": exact_to,
                "thresholds": thresholds[own], "hash_reads_label": None}  # fmt: skip
        low, high = (Known(case, from_above=each).right_under(4) for each in (False, True))
        (tmp_path / "a.spec").write_text(
            f'let V = ballots("b.npz") guarantee g: '
            f"collective_accuracy({CERTIFIED}, edits = 4, label = 1) >= {float(low / own.sum())!r}"
        )
        (found,) = verify(tmp_path / "a.spec", certificate=tmp_path / "a.cert").results
        assert found.verdict == "proved"
        assert found.upper == pytest.approx(high / own.sum())
        assert check(tmp_path / "a.cert")


@pytest.mark.parametrize("changes", ["1e18", "5e18", "1e19", "1e30"])
def test_what_survives_any_number_survives_this_many(tmp_path, changes):
    votes = np.array([[0, 0], [1, 0]], np.int32)
    written(tmp_path, [[[0, -1], [0, -1]], [[-1, 0], [0, 3]]], votes)
    for threat in ("edits", "insertions", "modifications", "relabels"):
        count = f"{threat} = {changes}"
        for claim in (
            f"certified_accuracy({CERTIFIED}, {count}) >= 0.5",
            f"collective_accuracy({CERTIFIED}, {count}) >= 0.5",
            f"targeted_robustness({CERTIFIED}, to = 1, {count}) >= 0.5",
            f"median_radius({CERTIFIED}, against = {threat}) >= 1e17",
        ):
            assert decided(tmp_path, claim).verdict == "proved"


def test_the_radius_of_what_no_changes_change_is_certified(tmp_path):
    written(tmp_path, [[[0, -1], [0, -1]]])
    spec, certificate = tmp_path / "a.spec", tmp_path / "a.cert"
    asked = f"greatest r such that median_radius({CERTIFIED}, against = modifications) >= r"
    spec.write_text(f'let V = ballots("b.npz")\nfind most: {asked}\n')
    (result,) = verify(spec, certificate=certificate).results
    assert result.lower > 1e17 and result.upper is None
    assert [each.name for each in check(certificate)] == ["most"]
