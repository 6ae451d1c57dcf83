"""Leaks between forests: bounds, verdicts and witnesses against every cell of small ones."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.bab.forests.search import Question, search_forests
from leaveout.encoders import Box, Choices
from leaveout.encoders.forests.cells import cut_box
from leaveout.errors import ForestError
from leaveout.kernel.forest_file import before_rounding
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.scored import (
    ScoredForest,
    ScoredTree,
    round_to_float32,
)

from support.depth import rounds
from support.forest_families import family_by_deleting
from support.forest_leaks import asked, greatest_leaks, wrong_of


@pytest.mark.parametrize("kind", ["deleted", "family", "pair"])
def test_bounds_and_verdicts_are_those_of_every_cell(kind):
    seen = []
    for seed in range(rounds(20)):
        question = asked(np.random.default_rng(seed), kind)
        for label in range(len(question.whole.classes)):
            assert wrong_of(question, label, threads=1 + seed % 2) is None, (seed, label)
            seen.append(greatest_leaks(question, label).max(initial=-np.inf))
    assert sum(value > 0 for value in seen) >= 5
    assert sum(value == -np.inf for value in seen) >= 5


def test_a_tie_is_a_leak_of_confidence_zero():
    def leaf(*shares):
        none = np.full(1, -1, np.int32)
        return ScoredTree(none, np.zeros(1), none, none, np.array([shares]))

    tied = ScoredForest((leaf(1.0, 0.0), leaf(0.0, 1.0)), np.arange(2), False)
    other = ScoredForest((leaf(0.4, 0.6),), np.arange(2), False)
    box = Box(np.zeros(1), np.ones(1))
    found = search_forests(tied, other, box, 0)
    assert (found.lower, found.upper, found.closed) == (0.0, 0.0, True)
    assert found.witness is not None
    assert search_forests(tied, other, box, 0, decide=True).witness is None
    assert search_forests(tied, other, box, 0, floor=-1e-9, decide=True).witness is not None
    # The first of labels that tie is answered.
    assert search_forests(tied, tied, box, 0).upper == -np.inf
    assert search_forests(other, tied, box, 1).lower == pytest.approx(0.2)


def test_labels_that_only_one_forest_knows():
    rng = np.random.default_rng(0)
    X = rng.random((40, 2))
    y = rng.integers(0, 3, 40)
    whole = DareForestClassifier(3, max_depth=4, random_state=0).fit(X, y)
    fewer = DareForestClassifier(3, max_depth=4, random_state=0).fit(X[y > 0], y[y > 0])
    forests = [ScoredForest.of(each.ensemble()) for each in (whole, fewer)]
    box = Box(np.zeros(2), np.ones(2))
    cells = rng.random((4000, 2))
    for one, two in (forests, forests[::-1]):
        for label in range(len(one.classes)):
            found = search_forests(one, two, box, label, tries=cells)
            assert found.closed
            scores = one.probabilities(cells)
            others = two.classes[two.probabilities(cells).argmax(axis=1)]
            leaks = (scores.argmax(axis=1) == label) & (others != one.classes[label])
            rest = np.delete(scores, label, axis=1).max(axis=1)
            seen = (scores[:, label] - rest)[leaks].max(initial=-np.inf)
            assert seen <= found.upper
            assert found.lower >= min(seen, found.upper * 0.999)


def test_numbers_and_texts_are_no_common_labels():
    X = np.arange(6.0)[:, None]
    one, two = (
        ScoredForest.of(DareForestClassifier(1, random_state=0).fit(X, y).ensemble())
        for y in ([0, 1] * 3, ["a", "b"] * 3)
    )
    with pytest.raises(ForestError, match="numbers"):
        search_forests(one, two, Box(np.zeros(1), np.ones(1)), 0)


@pytest.fixture(scope="module")
def hard():
    """A family and a box that are not closed at once."""
    rng = np.random.default_rng(5)
    X, y = rng.random((60, 6)), rng.integers(0, 2, 60)
    forest = DareForestClassifier(20, max_depth=6, random_state=0).fit(X, y)
    return family_by_deleting(forest), Box(np.zeros(6), np.ones(6)), X


def test_out_of_time_bounds_hold(hard):
    family, box, X = hard
    whole = search_forests(family.whole, family, box, 1, gap=0.3, tries=X)
    for seconds in (0.0, 0.05):
        found = search_forests(family.whole, family, box, 1, seconds=seconds)
        assert found.upper >= whole.lower
        assert found.lower <= whole.upper
        assert found.closed or found.reason == "time"
        assert (found.member_upper <= found.upper).all()
        if found.witness is not None:
            assert found.member_upper[found.witness.member] >= found.lower


@pytest.mark.parametrize("moment", [0, 1, 4])
def test_ctrl_c_leaves_bounds_that_hold(hard, monkeypatch, moment):
    monkeypatch.setattr("leaveout.bab.forests.search._TELL", 0.0)
    family, box, X = hard
    told = []

    def tell(progress):
        told.append(progress)
        if len(told) > moment:
            raise KeyboardInterrupt

    found = search_forests(family.whole, family, box, 0, gap=0.0, progress=tell)
    assert found.interrupted
    assert len(told) == moment + 1
    whole = search_forests(family.whole, family, box, 0, tries=X)
    assert whole.closed
    assert found.lower <= whole.upper
    assert whole.lower <= found.upper <= told[0].upper <= 1.0 + 1e-9


def test_a_known_leak_is_where_the_search_begins(hard):
    family, box, X = hard
    found = search_forests(family.whole, family, box, 0, gap=0.5, tries=X)
    again = search_forests(family.whole, family, box, 0, seconds=0.0, known=found.witness)
    assert again.lower == found.lower
    false = search_forests(family.whole, family, box, 1, seconds=0.0, known=found.witness)
    assert false.witness is None


def test_one_question_serves_every_label():
    question = asked(np.random.default_rng(3), "deleted")
    made = Question.of(question.whole, question.others, question.box)
    for label in range(len(question.whole.classes)):
        given = question.whole, question.others, question.box, label
        one, two = search_forests(*given, question=made), search_forests(*given)
        assert (one.lower, one.upper) == (two.lower, two.upper)


def test_thresholds_of_rounded_inputs():
    rng = np.random.default_rng(0)
    most = float(np.finfo(np.float32).max)
    few = np.array([0.0, -0.0, 1e300, -1e300, most, -most, 5e-324, 1e-45, 1.5 * 2.0**-149, np.inf])
    drawn = rng.normal(size=500)
    threshold = np.concatenate((drawn, drawn.astype(np.float32), few))
    cut = before_rounding(threshold)
    for steps in range(-3, 4):
        x = cut.copy()
        for _ in range(abs(steps)):
            with np.errstate(over="ignore"):
                x = np.nextafter(x, np.copysign(np.inf, steps))
        x = np.clip(x, -most, most)
        assert np.array_equal(round_to_float32(x) <= threshold, x <= cut)


def test_every_code_stands_for_a_value_of_the_set(snapshot):
    groups = (Choices(np.array([0, 2]), np.eye(2)), Choices(np.array([1]), np.array([0, 0.5, 3])))
    box = Box(np.array([0.0, 0, 0, -1]), np.array([1.0, 3, 1, 1]), groups)
    feature = np.array([0, 1, 1, 1, 2, 3, 3, -1], np.int32)
    threshold = np.array([0.5, 0.2, 0.4, 0.5, 0.0, 0.0, 7.0, 0.0])
    cells, cut = cut_box(box, feature, threshold)
    assert cells.most.tolist() == [1, 2, 1, 1]
    assert cut.tolist() == [0, 0, 0, 1, 0, 0, 1, 0]
    for codes in ([0, 0, 1, 0], [1, 1, 0, 1], [1, 2, 0, 1]):
        x = cells.input(np.array(codes, np.int32))
        assert box.contains(x[None])[0]
        assert cells.codes(x[None])[0].tolist() == codes
    with pytest.raises(ValueError) as told:
        cells.input(np.array([1, 0, 1, 0], np.int32))
    assert str(told.value) == snapshot
