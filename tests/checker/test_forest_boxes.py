"""Trees of boxes of small forests: bounds that hold are proved, and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from leaveout.bab.forests.box_trees import NotProvedError, margin_of, record_boxes
from leaveout.bab.forests.search import Question, search_forests
from leaveout.kernel.forest_file import before_rounding
from leaveout.kernel.forest_members import Inputs
from leaveout.kernel.forests import Claim, prove
from leaveout.kernel.numbers import Rejected
from leaveout.verifier.certify.forests import rules_of_boxes

from support.depth import enough, rounds
from support.forest_leaks import asked, greatest_leaks
from support.kernel_forests import inputs_of, of_member, pairs_of, tried


def recorded(question, made, label, upper):
    """Return the trees of boxes of all members that the prover records."""
    return record_boxes(made, label, upper, most=10**6)


@pytest.mark.parametrize("kind", ["deleted", "family", "pair"])
def test_what_is_recorded_is_accepted_and_nothing_below_the_truth(kind):
    proved = refused = 0
    for seed in range(rounds(25)):
        question = asked(np.random.default_rng(seed), kind)
        made = Question.of(question.whole, question.others, question.box)
        pairs, columns = pairs_of(question)
        for label in range(len(question.whole.classes)):
            truth = greatest_leaks(question, label)
            best = float(truth.max(initial=-np.inf))
            found = search_forests(
                question.whole, question.others, question.box, label, gap=1e-9, question=made
            )
            claimed = max(found.upper + margin_of(made), -1e-9)
            trees = recorded(question, made, label, claimed)
            for i, forests in enumerate(pairs):
                own = of_member(trees, i)
                tried(forests, question.box, columns[label], claimed, own)
                proved += 1
                if truth[i] > -np.inf:
                    below = np.nextafter(truth[i], -np.inf)
                    with pytest.raises(Rejected):
                        tried(forests, question.box, columns[label], below, own)
                    refused += 1
            if best > -np.inf:
                with pytest.raises(NotProvedError):
                    recorded(question, made, label, np.nextafter(best, -1.0))
    assert proved > enough(60)
    assert refused > enough(20)


def test_a_threshold_is_proved_to_the_last_bit():
    seen = 0
    for seed in range(rounds(20)):
        question = asked(np.random.default_rng(seed), "pair")
        made = Question.of(question.whole, question.others, question.box)
        (forests,), columns = pairs_of(question)
        for label in range(len(question.whole.classes)):
            best = float(greatest_leaks(question, label).max())
            claimed = best if best > -np.inf else -1e-9
            trees = of_member(recorded(question, made, label, claimed), 0)
            tried(forests, question.box, columns[label], claimed, trees)
            seen += best >= 0
    assert seen > enough(5)


def random_trees(rng, box):
    """Return any tree of boxes at all: none of them may prove what is false."""
    feature, value, waiting = [], [], 1
    while waiting:
        waiting -= 1
        if len(feature) < 40 and rng.random() < 0.55:
            at = int(rng.integers(box.dimension))
            feature.append(at)
            low, high = box.lower[at], box.upper[at]
            value.append(float(rng.choice([low, high, (low + high) / 2, rng.uniform(-1, 5)])))
            waiting += 2
        else:
            feature.append(-1)
    return {
        "size": np.array([len(feature)], np.int32),
        "feature": np.array(feature, np.int32),
        "value": np.array(value, np.float64),
    }


def test_no_tree_of_boxes_proves_less_than_the_truth():
    tests = 0
    for seed in range(rounds(60)):
        rng = np.random.default_rng(seed)
        question = asked(rng, ["deleted", "family", "pair"][seed % 3])
        pairs, columns = pairs_of(question)
        for label in range(len(question.whole.classes)):
            truth = greatest_leaks(question, label)
            for i, forests in enumerate(pairs):
                if truth[i] == -np.inf:
                    continue
                for _ in range(4):
                    tests += 1
                    trees, below = random_trees(rng, question.box), np.nextafter(truth[i], -1.0)
                    with pytest.raises(Rejected):
                        tried(forests, question.box, columns[label], below, trees)
    assert tests > enough(200)


def test_thresholds_before_rounding_are_the_greatest():
    rng = np.random.default_rng(0)
    few = [0.0, -0.0, 1e300, -1e300, 5e-324, 1e-45, 1.5 * 2.0**-149, float(np.float32(3e38))]
    drawn = rng.normal(size=400)
    threshold = np.concatenate((drawn, drawn.astype(np.float32), few))
    cut = before_rounding(threshold)
    finite = np.abs(threshold) < 2.0**127
    with np.errstate(over="ignore"):
        at, above = cut.astype(np.float32), np.nextafter(cut, np.inf).astype(np.float32)
    assert (at[finite] <= threshold[finite]).all()
    assert (above[finite] > threshold[finite]).all()


def test_several_members_are_held_against_their_own_trees():
    question = asked(np.random.default_rng(1), "family")
    one = pairs_of(question)[0][0]
    both = replace(one, others=np.concatenate([one.others, one.others]))
    claim = Claim(0, 9.0, [both], inputs_of(question.box), ["one", "two"])
    leaf, none = np.full(2, -1, np.int32), np.zeros(0)
    trees = {"size": np.array([1, 1], np.int32), "feature": leaf, "value": none}
    assert prove(claim, trees, rules_of_boxes) == 2
    for size, expected in (([2], "box trees for 1 of 2"), ([2, 1], "missing or extra")):
        with pytest.raises(Rejected, match=expected):
            prove(claim, trees | {"size": np.array(size, np.int32)}, rules_of_boxes)
    split = {"size": np.array([1, 2], np.int32), "feature": np.array([-1, 0, -1], np.int32)}
    with pytest.raises(Rejected, match="two, its box tree is malformed"):
        prove(claim, split | {"value": np.zeros(1)}, rules_of_boxes)
    with pytest.raises(Rejected, match="a member is missing"):
        prove(replace(claim, parts=[one]), trees, rules_of_boxes)


def test_ends_of_cells_move_to_listed_values():
    inputs = Inputs(np.zeros(2), np.ones(2), ((np.array([1]), np.array([[0.0], [1.0]])),))
    low, high = inputs.at_listed_values(np.array([[0.5, 0.5], [0.5, -1.0]]), np.full((2, 2), 0.75))
    assert low.tolist() == [[0.5, 0.0], [0.5, -np.inf]]
    assert high.tolist() == [[0.75, 0.0], [0.75, 0.0]]
