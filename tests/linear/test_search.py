"""Bounds of linear models' leaks, differences and thresholds, next to members trained by scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from leaveout.bab.linear.search import Goal, Search, confidence, dissenters, leak_goals
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders import Box, Choices
from leaveout.errors import LinearError
from leaveout.kernel.family import check_bounds, check_leaks, check_shifts
from leaveout.models.linear.family import bound_members

from support.depth import rounds
from support.linear_models import drawn_box, drawn_model, inputs_of, retrained

SEEDS = st.integers(0, 2**20)


def searched(model, box, goals, label=-1, floor=None, deadline=NEVER):
    """Return a finished search."""
    try:
        family = bound_members(model)
    except LinearError:
        assume(False)
    search = Search(family, box, goals(family), floor, 1e-3, deadline, label)
    search.run()
    return search


def confidences(model, x, label):
    return np.array([confidence(each, label) for each in model.scores(x)])


@settings(max_examples=rounds(60))
@given(
    seed=SEEDS,
    kind=st.sampled_from(["logistic", "softmax", "svm", "ridge"]),
    plain=st.booleans(),
    grouped=st.booleans(),
    labels=st.integers(2, 3),
)
def test_no_leak_exceeds_its_bound(seed, kind, plain, grouped, labels):
    assume(kind != "logistic" or labels == 2)
    model = drawn_model(seed, kind, plain=plain, grouped=grouped, labels=labels)
    box = drawn_box(seed, model.inputs)
    x = inputs_of(box, seed)
    members = [retrained(model, unit) for unit in range(len(model.unit_names))]
    for label in range(len(model.labels)):
        search = searched(model, box, lambda family, label=label: leak_goals(family, label), label)
        found, own = search.result(), confidences(model, x, label)
        for unit, member in enumerate(members):
            leaks = own[(own > 0) & (confidences(member, x, label) <= 0)]
            assert leaks.max(initial=-np.inf) <= found.member_upper[unit] <= found.upper
        rivals = [each for each in range(len(model.labels)) if each != label]
        multipliers = dict(zip(rivals, search.t, strict=True))
        means = None if search.weights is None else dict(zip(rivals, search.weights, strict=True))
        check_leaks(search.family, search.region, label, found.upper, multipliers, means)
        for leak in found.leaks:
            assert box.contains(leak.x[None])[0]
            assert 0 < confidences(model, leak.x[None], label)[0] == leak.value <= found.upper
            assert members[leak.unit].answers(leak.x[None])[0] != label
            assert leak.value <= found.lower


@settings(max_examples=rounds(60))
@given(
    seed=SEEDS,
    kind=st.sampled_from(["regression", "poisson", "gamma", "logistic", "svm"]),
    plain=st.booleans(),
    grouped=st.booleans(),
)
def test_no_score_moves_further_than_its_bound(seed, kind, plain, grouped):
    model = drawn_model(seed, kind, plain=plain, grouped=grouped)
    box = drawn_box(seed, model.inputs)
    x = inputs_of(box, seed)
    search = searched(model, box, lambda family: (Goal(family.output(0), None),))
    found = search.result()
    moved = []
    for unit in range(len(model.unit_names)):
        apart = np.abs(retrained(model, unit).raw_scores(x) - model.raw_scores(x)).max()
        assert apart <= found.member_upper[unit] <= found.upper
        moved.append(apart)
    # Nothing may be known of a member whose own fit nothing is known of.
    if np.isfinite(found.upper):
        check_shifts(search.family, search.region, 0, found.upper)
    assert found.lower <= found.upper
    if found.witness is not None:
        member = retrained(model, found.witness.unit)
        at = found.witness.x[None]
        apart = abs(member.raw_scores(at) - model.raw_scores(at))[0, 0]
        assert found.witness.value <= apart + 1e-9
    if plain and np.isfinite(found.upper):
        # A linear function is largest in a corner, and half of the inputs are corners.
        assert found.closed
        assert found.upper <= max(moved) * 1.01 + 1e-6 or found.upper <= found.lower * 1.01


@settings(max_examples=rounds(60))
@given(seed=SEEDS, sign=st.sampled_from([1, -1]), plain=st.booleans(), share=st.floats(0.1, 0.9))
def test_no_member_crosses_a_threshold_beyond_its_bound(seed, sign, plain, share):
    model = drawn_model(seed, "regression", plain=plain)
    box = drawn_box(seed, model.inputs)
    x = inputs_of(box, seed)
    own = sign * model.raw_scores(x)[:, 0]
    level = float(np.quantile(own, share))

    def goals(family):
        score = family.output(0)
        return (Goal(score if sign > 0 else -score, level),)

    search = searched(model, box, goals)
    found = search.result()
    for unit in range(len(model.unit_names)):
        theirs = sign * retrained(model, unit).raw_scores(x)[:, 0]
        assert own[theirs <= level].max(initial=-np.inf) <= found.member_upper[unit]
    (goal,) = search.goals
    check_bounds(search.family, search.region, goal.score, level, found.upper, search.t[0])
    if found.witness is not None:
        at = found.witness.x[None]
        member = retrained(model, found.witness.unit)
        assert sign * member.raw_scores(at)[0, 0] < level
        assert sign * model.raw_scores(at)[0, 0] == found.lower <= found.upper
    if plain and not box.choices:
        # Of a linear function over a box nothing is lost.
        assert found.closed


@settings(max_examples=rounds(40))
@given(seed=SEEDS, kind=st.sampled_from(["logistic", "svm"]))
def test_two_labels_over_a_box_are_closed(seed, kind):
    model = drawn_model(seed, kind, plain=True)
    box = Box(np.zeros(model.inputs), np.ones(model.inputs))
    for label in range(2):
        search = searched(model, box, lambda family, label=label: leak_goals(family, label), label)
        found = search.result()
        answers = model.answers(inputs_of(box, seed))
        # An answer that is never given cannot leak; at every other the bounds meet.
        given = (answers == label).any() and (answers != label).any()
        assert found.closed or not given or "too little is known" in found.detail
        if found.closed:
            assert found.upper < 0 or found.lower >= 0.998 * found.upper


@settings(max_examples=rounds(30))
@given(seed=SEEDS, floor=st.floats(0.0, 1.0))
def test_a_floor_is_decided_as_the_bounds_say(seed, floor):
    model = drawn_model(seed, plain=True)
    box = Box(np.zeros(model.inputs), np.ones(model.inputs))
    whole = searched(model, box, lambda family: leak_goals(family, 1), 1).result()
    found = searched(model, box, lambda family: leak_goals(family, 1), 1, floor=floor).result()
    assert found.upper >= whole.lower
    if found.closed:
        assert (found.lower > floor) == (whole.upper > floor and whole.lower > floor)


def test_without_time_the_bound_is_the_largest_score():
    model = drawn_model(3, plain=True)
    box = Box(np.zeros(model.inputs), np.ones(model.inputs))
    done = Deadline.after(0.0)
    found = searched(model, box, lambda f: leak_goals(f, 1), 1, deadline=done).result()
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * model.inputs)).reshape(model.inputs, -1).T
    assert not found.closed
    assert found.reason == "time"
    assert found.upper == pytest.approx(model.raw_scores(corners).max(), rel=1e-6)


def test_listed_values_are_taken_together():
    model = drawn_model(12, plain=True, rows=30)
    assert model.inputs > 1
    at = np.arange(model.inputs)
    listed = Choices(at, np.eye(model.inputs), exact=True)
    box = Box(np.zeros(model.inputs), np.ones(model.inputs), (listed,))
    whole = Box(np.zeros(model.inputs), np.ones(model.inputs))
    few, many = (searched(model, b, lambda f: leak_goals(f, 1), 1).result() for b in (box, whole))
    assert few.upper <= many.upper
    if few.witness is not None:
        assert few.witness.x.tolist() in np.eye(model.inputs).tolist()


@settings(max_examples=rounds(30))
@given(seed=SEEDS, kind=st.sampled_from(["logistic", "softmax", "svm"]), grouped=st.booleans())
def test_dissenters_are_the_members_that_answer_otherwise(seed, kind, grouped):
    model = drawn_model(seed, kind, grouped=grouped)
    x = np.random.default_rng(seed).uniform(-0.5, 1.5, (60, model.inputs))
    labels = model.answers(x)
    try:
        _, found = dissenters(bound_members(model), x, labels)
    except LinearError:
        assume(False)
    for unit in range(len(model.unit_names)):
        member = retrained(model, unit)
        for point, label in enumerate(labels.tolist()):
            margin = confidences(member, x[point][None], label)[0]
            if abs(margin) > 1e-6:
                assert (unit in found[point]) == (margin < 0)
