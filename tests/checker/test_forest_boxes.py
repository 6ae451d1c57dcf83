"""Trees of boxes of small forests: bounds that hold are proved, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.bab.forests import Question, search_forests
from leaveout.bab.forests.box_trees import NotProvedError, margin_of, record_boxes
from leaveout.encoders import Box, Choices
from leaveout.models.forest.scored import before_rounding as models_before_rounding
from leaveout.verifier.checker import RejectedError
from leaveout.verifier.checker.ensembles.boxes import Boxes, Trees, listed_of, prove, read_boxes
from leaveout.verifier.checker.ensembles.files import Answering
from leaveout.verifier.checker.ensembles.members import Members
from leaveout.verifier.checker.ensembles.pairs import before_rounding, every_label, pair_of
from leaveout.verifier.checker.inputs import Inputs, Table

from support.forest_leaks import asked, greatest_leaks


def inputs_of(box):
    tables = tuple(Table(each.columns, each.values) for each in box.choices)
    return Inputs(box.lower, box.upper, tables)


def answering(forest, features):
    parts = [
        np.concatenate([getattr(tree, name) for tree in forest.trees])
        for name in ("feature", "left", "right", "threshold", "shares")
    ]
    roots = np.concatenate(([0], np.cumsum([len(tree.feature) for tree in forest.trees])))
    return Answering(None, forest.classes, features, forest.rounds_inputs, *parts, roots)


def boxes_of(question):
    """Return all members in one pool, as the checker reads a pair, and the labels' columns."""
    inputs = inputs_of(question.box)
    features = question.box.dimension
    one = answering(question.whole, features)
    listed, pairs, columns = listed_of(inputs), [], []
    for member in question.members:
        other = answering(member, features)
        pairs.append(Boxes(pair_of(one, other, listed), inputs, str))
        every = every_label(one, other)
        columns = [every.index(label) for label in one.labels]
    return pairs, columns


def recorded(question, made, label, upper):
    """Return the trees of boxes of each member that the prover records."""
    found = record_boxes(made, label, upper, most=10**6)
    return read_boxes(
        {"size": found.size, "feature": found.feature, "value": found.value}, made.members
    )


def of_member(trees, i):
    ends = np.cumsum(trees.size)
    part = slice(int(ends[i]) - int(trees.size[i]), int(ends[i]))
    return Trees(trees.size[i : i + 1], trees.feature[part], trees.value[part])


@pytest.mark.parametrize("kind", ["deleted", "family", "pair"])
def test_what_is_recorded_is_accepted_and_nothing_below_the_truth(kind):
    proved = refused = 0
    for seed in range(25):
        question = asked(np.random.default_rng(seed), kind)
        made = Question.of(question.whole, question.others, question.box)
        pairs, columns = boxes_of(question)
        for label in range(len(question.whole.classes)):
            truth = greatest_leaks(question, label)
            best = float(truth.max(initial=-np.inf))
            found = search_forests(
                question.whole, question.others, question.box, label, gap=1e-9, question=made
            )
            claimed = max(found.upper + margin_of(made), -1e-9)
            trees = recorded(question, made, label, claimed)
            for i, boxes in enumerate(pairs):
                own = of_member(trees, i)
                prove(boxes, columns[label], claimed, own)
                proved += 1
                if truth[i] > -np.inf:
                    below = np.nextafter(truth[i], -np.inf)
                    with pytest.raises(RejectedError):
                        prove(boxes, columns[label], below, own)
                    refused += 1
            if best > -np.inf:
                with pytest.raises(NotProvedError):
                    recorded(question, made, label, np.nextafter(best, -1.0))
    assert proved > 60
    assert refused > 20


def test_a_threshold_is_proved_to_the_last_bit():
    seen = 0
    for seed in range(20):
        question = asked(np.random.default_rng(seed), "pair")
        made = Question.of(question.whole, question.others, question.box)
        pairs, columns = boxes_of(question)
        for label in range(len(question.whole.classes)):
            best = float(greatest_leaks(question, label).max())
            claimed = best if best > -np.inf else -1e-9
            prove(pairs[0], columns[label], claimed, recorded(question, made, label, claimed))
            seen += best >= 0
    assert seen > 5


def random_trees(rng, box, count):
    """Return any trees at all: none of them may prove what is false."""
    size, feature, value = [], [], []
    for _ in range(count):
        nodes = 0
        waiting = 1
        while waiting:
            waiting -= 1
            nodes += 1
            if nodes < 40 and rng.random() < 0.55:
                at = int(rng.integers(box.dimension))
                feature.append(at)
                low, high = box.lower[at], box.upper[at]
                value.append(float(rng.choice([low, high, (low + high) / 2, rng.uniform(-1, 5)])))
                waiting += 2
            else:
                feature.append(-1)
                value.append(0.0)
        size.append(nodes)
    return Trees(np.array(size, np.int32), np.array(feature, np.int32), np.array(value))


def test_no_tree_of_boxes_proves_less_than_the_truth():
    tried = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        question = asked(rng, ["deleted", "family", "pair"][seed % 3])
        pairs, columns = boxes_of(question)
        for label in range(len(question.whole.classes)):
            truth = greatest_leaks(question, label)
            for i, boxes in enumerate(pairs):
                if truth[i] == -np.inf:
                    continue
                for _ in range(4):
                    tried += 1
                    trees = random_trees(rng, question.box, 1)
                    with pytest.raises(RejectedError):
                        prove(boxes, columns[label], np.nextafter(truth[i], -1.0), trees)
    assert tried > 200


def test_thresholds_before_rounding_are_the_greatest():
    rng = np.random.default_rng(0)
    few = [0.0, -0.0, 1e300, -1e300, 5e-324, 1e-45, 1.5 * 2.0**-149, float(np.float32(3e38))]
    drawn = rng.normal(size=400)
    threshold = np.concatenate((drawn, drawn.astype(np.float32), few))
    cut = before_rounding(threshold)
    assert (cut == models_before_rounding(threshold)).all()
    finite = np.abs(threshold) < 2.0**127
    with np.errstate(over="ignore"):
        at, above = cut.astype(np.float32), np.nextafter(cut, np.inf).astype(np.float32)
    assert (at[finite] <= threshold[finite]).all()
    assert (above[finite] > threshold[finite]).all()


def test_several_members_are_held_against_their_own_trees():
    question = asked(np.random.default_rng(1), "family")
    pairs, _ = boxes_of(question)
    one = pairs[0].members
    both = Members(one.pool, one.whole, np.concatenate([one.others, one.others]), one.trees)
    boxes = Boxes(both, pairs[0].inputs, str)
    leaf = np.full(1, -1, np.int32)
    assert prove(boxes, 0, 9.0, Trees(np.array([1, 1], np.int32), np.tile(leaf, 2), np.zeros(2)))
    with pytest.raises(RejectedError, match="malformed"):
        prove(boxes, 0, 9.0, Trees(np.array([2], np.int32), np.tile(leaf, 2), np.zeros(2)))


def test_listed_values_narrow_what_is_asked():
    box = Box(np.zeros(3), np.ones(3), (Choices(np.array([0, 1]), np.eye(2)),))
    listed = listed_of(inputs_of(box))
    assert listed.start.tolist() == [0, 2, 4, 4]
    assert listed.values.tolist() == [0.0, 1.0, 0.0, 1.0]
