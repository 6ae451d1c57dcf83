"""Thresholds of members against the truth: rows are changed, and everything is trained again."""

from __future__ import annotations

import csv
from itertools import combinations, product

import numpy as np
import pytest

import leaveout.models.votes.survival.logistic as logistic
import leaveout.models.votes.survival.nearest_kernels as nearest_kernels
import leaveout.models.votes.survival.ridge as ridge
import leaveout.models.votes.survival.tree_kernels as tree_kernels
from leaveout.compiling import watch_compiling
from leaveout.errors import TrainingError
from leaveout.kernel.counting import FAR
from leaveout.kernel.schemes import threshold_radii
from leaveout.models.votes import (
    PartRecipe,
    hold_election,
    make_learner,
    partition,
    read_ballots,
    samples_from_arrays,
)
from leaveout.models.votes.survival.learner import Part
from leaveout.models.votes.survival.logistic import Logistic
from leaveout.models.votes.survival.nearest import Nearest
from leaveout.models.votes.survival.ridge import Kernel, Ridge
from leaveout.models.votes.survival.tree import Tree
from leaveout.partition_options import SURVIVORS
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify
from leaveout.verifier.warm_up import KERNELS

from attacks.kind import generator
from attacks.survival import Survival
from support.counted import tally

NEAREST = make_learner("nearest", {"k": 3})
TREE = make_learner("tree", {"depth": 2})
RIDGE = make_learner("ridge")
LOGISTIC = make_learner("logistic")


def outcomes(cases):
    kind = Survival()
    return [kind.check(kind.make(generator(1, "survival", number))) for number in range(cases)]


def part(X, y, tests, labels=2):
    tests = np.array(tests, float)
    X = np.array(X, float).reshape(len(y), tests.shape[1])
    return Part(X, np.array(y, np.int32), tests, labels)


# Members


def test_thresholds_are_what_training_on_every_changed_part_says():
    found = outcomes(60)
    assert [each.wrong for each in found if each.wrong] == []
    assert len({each.label for each in found}) >= 8


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize(
    ("kernels", "name"),
    [
        (nearest_kernels, "neighbour_thresholds"),
        (tree_kernels, "mark_votes"),
        (ridge, "_fewest_relabels"),
        (logistic.Logistic, "thresholds"),
    ],
)
def test_wrong_thresholds_are_seen(monkeypatch, kernels, name, by):
    whole = getattr(kernels, name)

    def thresholds(*given):
        found = whole(*given)
        return np.where(found > 1, found + by, found).astype(np.int32)

    def votes(*given):
        whole(*given[:-2], given[-2] + by, given[-1])

    monkeypatch.setattr(kernels, name, votes if name == "mark_votes" else thresholds)
    assert any(each.wrong for each in outcomes(30))


def test_all_rows_as_near_as_the_kth_vote_and_their_order_has_no_say():
    rows = part([[1], [1], [1], [5]], [0, 1, 1, 0], [[1], [5], [3]])
    assert Nearest(1).scores(rows).tolist() == [[1, 2], [1, 0], [2, 2]]
    assert Nearest(9).scores(rows).tolist() == [[2, 2]] * 3
    assert Nearest(1).scores(part([], [], [[0]])).tolist() == [[0, 0]]
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 4)).round(1), rng.integers(0, 3, 30).astype(np.int32)
    order, tests = rng.permutation(30), rng.random((9, 4)).round(1)
    for learner in (Nearest(4), Tree(2, 1), Logistic(1), Kernel(1, 1), Ridge(1)):
        labels = SURVIVORS[learner.name].most_labels or 3
        given = Part(X, y % labels, tests, labels)
        mixed = Part(X[order], y[order] % labels, tests, labels)
        assert np.array_equal(learner.scores(given), learner.scores(mixed))
        for against in SURVIVORS[learner.name].survives:
            found = learner.thresholds(given, against, 1)
            assert np.array_equal(found, learner.thresholds(mixed, against, 1))


def test_a_row_that_leaves_can_do_more_than_one_that_turns():
    """Two nearest rows of label 0; behind them five of label 1, which one removal lets in."""
    rows = part([[1], [1], *[[2]] * 5], [0, 0, 1, 1, 1, 1, 1], [[0]])
    assert Nearest(2).thresholds(rows, "relabels", None).tolist() == [[0, 1]]
    assert Nearest(2).thresholds(rows, "removals", None).tolist() == [[0, 1]]
    assert Nearest(2).thresholds(rows, "insertions", None).tolist() == [[0, 2]]


def test_a_row_is_inserted_where_it_leaves_the_others_in():
    """At the point it would shut out the rows at distance 2, of which most have label 1."""
    rows = part([[1], *[[2]] * 7], [0, 0, 0, 0, 1, 1, 1, 1], [[0]])
    assert Nearest(2).thresholds(rows, "insertions", None).tolist() == [[0, 1]]


def test_ridge_votes_as_least_squares_do_and_a_row_without_a_label_stays():
    rng = np.random.default_rng(3)
    X, tests = rng.random((40, 5)) * 9, rng.random((200, 5)) * 9
    X[0], X[1] = 0, 9
    y = rng.integers(-1, 3, 40).astype(np.int32)
    design, points = (np.column_stack([each / 9, np.ones(len(each))]) for each in (X, tests))
    targets = (y[:, None] == np.arange(3)).astype(float)
    square = design.T @ design + 2 * np.eye(6)
    expected = points @ np.linalg.solve(square, design.T @ targets)
    found = Ridge(2).scores(Part(X, y, tests, 3))
    assert np.array_equal(found.argmax(axis=1), expected.argmax(axis=1))
    # Fewer rows than columns: the same model by the other system.
    few, wide = rng.random((4, 9)), rng.random((50, 9))
    few[0], few[1] = 0, 1
    square = np.column_stack([few, np.ones(4)])
    expected = np.column_stack([wide, np.ones(50)]) @ square.T
    expected = expected @ np.linalg.solve(square @ square.T + np.eye(4), [1, -1, 0, 1])
    found = Ridge(1).scores(Part(few, np.array([1, 0, -1, 1], np.int32), wide, 2))
    assert np.array_equal(found.argmax(axis=1), (expected > 0).astype(int))


def test_worst_relabels_of_a_larger_part_are_carried_out():
    """As many relabels as a threshold says turn the vote, and one fewer of any choice do not."""
    rng = np.random.default_rng(4)
    X, tests = rng.random((150, 6)), rng.random((40, 6))
    y = (X @ rng.normal(size=6) > rng.random(150)).astype(np.int32)
    learner, given = Ridge(1), Part(X, y, tests, 2)
    votes = learner.scores(given).argmax(axis=1)
    found = learner.thresholds(given, "relabels", None)[np.arange(40), 1 - votes]
    (weights,) = learner._weights(given)
    for point, fewest in enumerate(found.tolist()):
        turned = weights[point] * (1 if votes[point] else -1)
        best = (turned < 0).astype(np.int32)
        gain = np.abs(turned) * (y != best)
        for count, vote in ((fewest - 1, votes[point]), (fewest, 1 - votes[point])):
            after = y.copy()
            rows = np.argsort(-gain, kind="stable")[:count]
            after[rows] = best[rows]
            again = learner.scores(Part(X, after, tests, 2)).argmax(axis=1)
            assert again[point] == vote


def test_distances_depend_on_no_other_row():
    rng = np.random.default_rng(2)
    X, tests = rng.random((200, 13)), rng.random((20, 13))
    y = rng.integers(0, 2, 200).astype(np.int32)
    whole = Nearest(1).scores(Part(X, y, tests, 2))
    for point, x in enumerate(tests):
        near = [sum_of_squares(x, row) for row in X]
        tied = y[np.array(near) == min(near)]
        assert whole[point].tolist() == np.bincount(tied, minlength=2).tolist()


def sum_of_squares(a, b):
    total = 0.0
    for x, y in zip(a.tolist(), b.tolist()):
        total += (x - y) * (x - y)
    return total


# Elections


def small(seed, rows=6, labels=2):
    rng = np.random.default_rng(seed)
    X, X_test = rng.integers(0, 4, (rows, 2)).astype(float), rng.integers(0, 4, (6, 2))
    return X, rng.integers(0, labels, rows), X_test.astype(float), np.zeros(6, int)


def elect(data, recipe):
    X, y, X_test, y_test = data
    return hold_election(samples_from_arrays(X, y, X_test, y_test, labels=["0", "1"]), recipe)


def radii(ballots):
    return threshold_radii(ballots.votes, ballots.labels, ballots.thresholds).tolist()


def changed_data(data, against, changes):
    X, y, *tests = data
    for chosen in combinations(range(len(y)), changes):
        if against == "removals":
            kept = np.setdiff1d(np.arange(len(y)), chosen)
            yield X[kept], y[kept], *tests
            continue
        for new in product([0, 1, 7], repeat=changes):  # 7 is none of the labels
            after = y.copy()
            after[list(chosen)] = new
            yield X, after, *tests


@pytest.mark.parametrize(
    ("learner", "against"),
    [
        *product((LOGISTIC, NEAREST, TREE), ("removals", "relabels")),
        (RIDGE, "relabels"),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_radii_are_those_of_training_everything_again(learner, against, seed):
    data = small(seed)
    recipe = PartRecipe(parts=2, learner=learner, survive=against)
    ballots = elect(data, recipe).ballots
    plain = PartRecipe(parts=2, learner=learner)
    survived, before = radii(ballots), tally(ballots.votes, 2).predictions
    for changes in (1, 2):
        answers = []
        for other in changed_data(data, against, changes):
            try:
                votes = elect(other, plain).ballots.votes
            except TrainingError:
                continue  # no row is left
            answers.append(tally(votes, 2).predictions != before)
        fallen = np.any(answers, axis=0)
        for point, radius in enumerate(survived):
            assert not fallen[point] or radius < changes
            # Thresholds to two changes are exact (one of logistic members), so an attack that they
            # allow is carried out.
            assert fallen[point] or radius >= changes or learner is LOGISTIC


def test_thresholds_are_the_members_own():
    data = small(5, rows=12)
    election = elect(data, PartRecipe(parts=3, learner=NEAREST, survive="edits"))
    X, y, X_test, _ = data
    for index in range(3):
        own = election.partition.base == index
        expected = NEAREST.surviving.thresholds(part(X[own], y[own], X_test), "edits", None)
        assert np.array_equal(election.ballots.thresholds[:, index], expected)
    origin = election.ballots.origin
    assert (origin.thresholds_against, origin.thresholds_exact_to) == ("edits", None)


def test_what_is_compiled_beforehand_is_all_that_is_used():
    KERNELS["survival"]()
    with watch_compiling() as found:
        for learner in (NEAREST, TREE):
            for against in learner.survivor.survives:
                elect(small(2), PartRecipe(parts=2, learner=learner, survive=against))
    assert found.functions == 0


# The command's work


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(1)
    paths = []
    for name, rows in (("train", 60), ("test", 25)):
        path = tmp_path / f"{name}.csv"
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["size", "colour", "answer"])
            for _ in range(rows):
                size = int(rng.integers(0, 100))
                colour = ["red", "blue", "?"][rng.integers(3)]
                writer.writerow([size, colour, "yes" if size > 40 else "no"])
        paths.append(path)
    return paths


def run(table, out, **given):
    train, test = table
    recipe = {"parts": 4, "learner": NEAREST, "survive": "removals"}
    recipe |= {name: given.pop(name) for name in list(given) if name != "encoding"}
    return partition(
        train, out, label="answer", test=test, recipe=PartRecipe(**recipe), workers=1, **given
    )


def test_a_table_needs_an_encoding_of_its_own(table, tmp_path, snapshot):
    with pytest.raises(TrainingError) as told:
        run(table, tmp_path / "a")
    assert str(told.value) == snapshot
    run(table, tmp_path / "a", encoding=table[1])
    ballots = read_ballots(tmp_path / "a" / "ballots.npz")
    assert ballots.thresholds is not None
    trusted = [each.text for each in ballots.origin.assumptions if not each.checked]
    assert trusted == snapshot


def test_with_an_encoding_a_removed_row_moves_no_other(table, tmp_path):
    """The row with the largest number is removed; members of other parts and ranges stay."""
    train, test = table
    run(table, tmp_path / "a", encoding=test)
    lines = train.read_text().splitlines()
    far = max(range(1, len(lines)), key=lambda at: int(lines[at].split(",")[0]))
    parts = (tmp_path / "a" / "parts.csv").read_text().splitlines()
    hit = int(parts[far].split(",")[1])
    train.write_text("\n".join([*lines[:far], *lines[far + 1 :]]) + "\n")
    run(table, tmp_path / "b", encoding=test)
    before, after = (read_ballots(tmp_path / name / "ballots.npz") for name in "ab")
    others = [index for index in range(4) if index != hit]
    assert np.array_equal(before.thresholds[:, others], after.thresholds[:, others])
    moved = before.votes[:, hit] != after.votes[:, hit]
    now = after.votes[:, hit]
    reached = before.thresholds[np.arange(len(now)), hit, now]
    assert (reached[moved] == 1).all()


def test_a_table_that_lacks_a_column_is_refused(table, tmp_path, snapshot):
    other = tmp_path / "other.csv"
    other.write_text("size,answer\n1,yes\n")
    with pytest.raises(TrainingError) as told:
        run(table, tmp_path / "a", encoding=other)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("given", [{}, {"learner": TREE, "exact_to": 1}])
def test_its_specification_is_proved_and_checked_again(table, tmp_path, given, snapshot):
    out = tmp_path / "a"
    report = run(table, out, encoding=table[1], **given)
    assert report.notes == snapshot
    text = (out / "poisoning.spec").read_text()
    assert "certified_accuracy(dpa(V, members = certified), removals = 1) >= 0.5" in text
    origin = read_ballots(out / "ballots.npz").origin
    expected = ("removals", given.get("exact_to"))
    assert (origin.thresholds_against, origin.thresholds_exact_to) == expected
    half, radius = verify(out / "poisoning.spec", certificate=tmp_path / "c").results
    assert half.verdict == "proved"
    # What a search did not reach leaves the greatest number open above.
    assert radius.verdict == ("unknown" if given else "proved") and radius.lower >= 1
    assert check(tmp_path / "c") is not None


@pytest.mark.parametrize(
    "given",
    [
        {"learner": make_learner("GaussianNB")},
        {"learner": TREE, "survive": "edits"},
        {"learner": TREE, "survive": "insertions"},
        {"learner": RIDGE, "survive": "removals"},
        {"survive": "changes"},
        {"method": "ss_dpa"},
        {"method": "finite_aggregation", "spread": 2},
        {"survive": None, "method": "boosted", "spread": 2},
        {"scale": True},
        {"exact_to": 2},
        {"learner": TREE, "exact_to": 0},
        {"survive": None, "exact_to": 1},
        {"survive": "relabels", "hash_reads_label": True},
    ],
)
def test_what_cannot_be_is_refused_with_the_cure(given, snapshot):
    with pytest.raises(TrainingError) as caught:
        PartRecipe(**({"parts": 4, "learner": NEAREST, "survive": "removals"} | given))
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


def test_one_part_will_do_where_its_member_survives_some(snapshot):
    data = small(4, rows=6)
    ballots = elect(data, PartRecipe(parts=1, learner=NEAREST, survive="removals")).ballots
    assert ballots.votes.shape == (6, 1)
    with pytest.raises(TrainingError) as told:
        PartRecipe(parts=1, learner=NEAREST)
    assert str(told.value) == snapshot


def test_settings_are_whole_numbers_in_range():
    for name, settings, said in [
        ("nearest", {"k": 0}, "expected a whole number from 1 to 1,000,000"),
        ("tree", {"depth": 2.5}, "expected a whole number from 1 to 8"),
        ("tree", {"leafs": 1}, "did you mean 'leaf'?"),
    ]:
        with pytest.raises(TrainingError) as caught:
            make_learner(name, settings)
        assert said in str(caught.value)
    assert str(make_learner("tree")) == "tree(depth=2, leaf=1)"


def test_a_search_without_end_is_refused_beforehand(snapshot):
    rng = np.random.default_rng(0)
    data = rng.random((400, 2)), rng.integers(0, 2, 400), rng.random((3, 2)), np.zeros(3, int)
    recipe = PartRecipe(parts=2, learner=TREE, survive="removals", exact_to=4)
    with pytest.raises(TrainingError) as told:
        elect(data, recipe)
    assert str(told.value) == snapshot


def test_ridge_needs_two_labels_to_survive_and_no_encoding(table, tmp_path, snapshot):
    out = tmp_path / "a"
    report = run(table, out, learner=RIDGE, survive="relabels")
    assert report.notes == snapshot
    origin = read_ballots(out / "ballots.npz").origin
    assert (origin.thresholds_against, origin.thresholds_exact_to) == ("relabels", None)
    assert [each.text for each in origin.assumptions if "label" in each.text] == snapshot
    half, radius = verify(out / "poisoning.spec", certificate=tmp_path / "c").results
    assert half.verdict == radius.verdict == "proved" and radius.lower == radius.upper >= 1
    assert check(tmp_path / "c") is not None
    X, y, *tests = small(1)
    recipe = PartRecipe(parts=2, learner=RIDGE, survive="relabels")
    with pytest.raises(TrainingError) as told:
        hold_election(samples_from_arrays(X, np.arange(6) % 3, *tests), recipe)
    assert str(told.value) == snapshot
    # A row whose label is none of the labels stays where it is.
    y[0] = 7
    election = elect((X, y, *tests), recipe)
    assert sum(election.ballots.origin.sizes) == 6 and (election.partition.base >= 0).all()


def test_rows_with_a_label_of_none_are_no_ground_for_relabels(snapshot):
    X, y, *tests = small(1)
    y[0] = 7
    with pytest.raises(TrainingError) as told:
        elect((X, y, *tests), PartRecipe(parts=2, learner=NEAREST, survive="relabels"))
    assert str(told.value) == snapshot
    ballots = elect((X, y, *tests), PartRecipe(parts=2, learner=NEAREST, survive="edits")).ballots
    assert ballots.thresholds is not None and FAR not in radii(ballots)
