"""Linear questions over one or two networks and points, against dense samples."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from leaveout.bab import NativeOptions
from leaveout.bab.native.claims import Claims
from leaveout.bab.native.kernels import pair_bounds
from leaveout.bab.native.kernels.node_bounds import settle
from leaveout.bab.native.search import NativeSearch
from leaveout.encoders import Box, Choices
from leaveout.encoders.joint import join
from leaveout.encoders.query import Application, Case, Condition, Form, Query
from leaveout.errors import SpecError
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters

from support import networks
from support.claims import asked, maximise
from support.depth import enough, rounds

OPTIONS = NativeOptions(seconds=0.7)
"""Bounds hold whenever a search ends; where they are to meet, it is given what that takes."""


def other_of(rng, network, spread):
    """Return a network of the same architecture with disturbed weights."""
    moved = {
        name: (value + spread * rng.normal(size=value.shape)).astype(np.float32)
        for name, value in network.parameters.items()
    }
    return network_from(with_parameters(network.model, moved), "other")


def random_query(seed):
    """Make one or two networks at one or two points, and some linear conditions."""
    rng = np.random.default_rng(seed)
    inputs, labels = int(rng.integers(1, 3)), int(rng.integers(2, 4))
    hidden = [int(rng.integers(3, 6)) for _ in range(int(rng.integers(1, 3)))]
    first = network_from(networks.dense(rng, (inputs, *hidden, labels)), "first")
    kind = rng.integers(4)
    lower = np.where(rng.random(inputs) < 0.5, -0.5, 0.0)
    box = Box(lower, lower + 1.0)
    points = (box,)
    if kind == 0:
        applications = (Application(first, 0, "N(x)"),)
    elif kind == 1:
        near = other_of(rng, first, float(rng.choice([1e-3, 0.05, 0.5])))
        applications = (Application(first, 0, "N(x)"), Application(near, 0, "M(x)"))
    elif kind == 2:
        points = (box, box)
        applications = (Application(first, 0, "N(x)"), Application(first, 1, "N(y)"))
    else:
        deep = network_from(networks.dense(rng, (inputs, 3, 3, 4, labels)), "deep")
        applications = (Application(first, 0, "N(x)"), Application(deep, 0, "D(x)"))
    conditions = []
    if kind == 2:
        reach = float(rng.choice([0.02, 0.3]))
        for i in range(inputs):
            apart = ((0, i, -1.0), (1, i, 1.0))
            back = ((0, i, 1.0), (1, i, -1.0))
            conditions += [Condition(Form(apart, (), reach)), Condition(Form(back, (), reach))]
    for _ in range(int(rng.integers(0, 3))):
        conditions.append(Condition(random_form(rng, applications, points), bool(rng.integers(2))))
    goals = [random_form(rng, applications, points) for _ in range(int(rng.integers(1, 3)))]
    return Query(points, applications, ()), tuple(conditions), goals, rng


def random_form(rng, applications, points):
    scores = []
    for a, each in enumerate(applications):
        for label in range(each.network.labels):
            if rng.random() < 0.7:
                scores.append((a, label, float(np.round(rng.normal(), 2)) or 1.0))
    features = []
    for p, box in enumerate(points):
        for i in range(box.dimension):
            if rng.random() < 0.3:
                features.append((p, i, float(np.round(rng.normal(), 2)) or 1.0))
    return Form(tuple(features), tuple(scores), float(np.round(rng.normal(), 1)))


def sampled(query, case, goals, rng, count=20_000):
    """Best least goal among samples that meet the case, in exact arithmetic and in float32."""
    points = [box.sample(rng, count).astype(np.float32) for box in query.points]
    if len(points) == 2:
        # Half of them near the first point, since conditions may ask for that.
        step = rng.uniform(-0.3, 0.3, points[1].shape) * rng.choice([0.05, 1.0], (count, 1))
        close = query.points[1].clip(points[0] + step).astype(np.float32)
        half = rng.random(count) < 0.7
        points[1] = np.where(half[:, None], close, points[1])
    wide = [each.astype(np.float64) for each in points]
    scores = [
        each.network.runner().scores(points[each.point]).astype(np.float64)
        for each in query.applications
    ]

    def value(form):
        total = np.full(count, form.constant)
        for p, i, c in form.features:
            total = total + c * wide[p][:, i]
        for a, j, c in form.scores:
            total = total + c * scores[a][:, j]
        return total

    met = np.ones(count, bool)
    for each in case:
        found = value(each.form)
        met &= found > 0 if each.strict else found >= 0
    least = np.min([value(form) for form in goals], axis=0)
    return float(least[met].max(initial=-np.inf))


@settings(max_examples=rounds(60), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_sample_is_above_the_upper_bound(seed):
    query, case, goals, rng = random_query(seed)
    best = sampled(query, case, goals, rng)
    found = maximise(asked(query, case, goals), OPTIONS)
    assert found.upper >= best
    assert found.lower <= found.upper
    if found.witness is not None:
        points = [each.astype(np.float64) for each in found.witness.points]
        scores = [each.astype(np.float64) for each in found.witness.scores]
        assert all(each.form.least(points, scores) >= 0 for each in case)
        # Rounded down, from what float64 may sum to more.
        exact = min(form.least(points, scores) for form in goals)
        assert found.lower <= exact
        assert found.lower == pytest.approx(float(exact), rel=1e-15)
        assert all(
            box.contains(point[None])[0] for box, point in zip(query.points, points, strict=True)
        )
    assert found.closed or found.reason


@settings(max_examples=rounds(40), deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_proved_impossible_has_no_sample(seed):
    query, case, goals, rng = random_query(seed)
    case = (*case, *(Condition(form) for form in goals))
    found = maximise(asked(query, case), OPTIONS, decide=True)
    if found.closed and found.witness is None:
        assert sampled(query, case, [Form()], rng) == -np.inf
    if found.witness is not None:
        assert found.lower >= 0


def test_bounds_meet_where_there_is_time():
    met = 0
    for seed in range(rounds(24)):
        query, case, goals, _ = random_query(seed)
        found = maximise(
            asked(replace(query, reals=True), case, goals), NativeOptions(nodes=20_000)
        )
        met += found.closed
    assert met >= enough(20)


def test_two_alike_networks_are_a_pair_and_others_lie_side_by_side():
    rng = np.random.default_rng(0)
    first = network_from(networks.dense(rng, (2, 4, 2)), "first")
    near, deep = other_of(rng, first, 0.1), network_from(networks.dense(rng, (2, 3, 3, 2)), "deep")
    box = Box(np.zeros(2), np.ones(2))
    pair = join(Query((box,), (Application(first, 0), Application(near, 0)), ()), [Case()])
    assert pair.is_pair
    whole = join(Query((box,), (Application(first, 0), Application(deep, 0)), ()), [Case()])
    assert not whole.is_pair
    points = rng.random((50, 2))
    joined = whole.first.scores(points)[0]
    np.testing.assert_allclose(joined[:, :2], first.stack.scores(points)[0], atol=1e-12)
    np.testing.assert_allclose(joined[:, 2:], deep.stack.scores(points)[0], atol=1e-12)


def test_points_that_must_be_near_are_read_by_their_difference():
    rng = np.random.default_rng(0)
    network = network_from(networks.dense(rng, (2, 4, 2)), "first")
    box = Box(np.zeros(2), np.ones(2))
    query = Query((box, box), (Application(network, 0), Application(network, 1)), ())
    case = tuple(
        Condition(Form(((0, i, -sign), (1, i, sign)), (), 0.1))
        for i in range(2)
        for sign in (1, -1)
    )
    near = join(query, [Case(case)])
    assert near.box.lower[2:] == pytest.approx([-0.1, -0.1])
    assert near.box.upper[2:] == pytest.approx([0.1, 0.1])
    joint = np.array([0.5, 0.25, 0.05, -0.1])
    assert near.points[1][0] @ joint == pytest.approx([0.55, 0.15])
    np.testing.assert_allclose(
        near.members.take(np.zeros(1, np.int64)).scores(joint[None])[0],
        network.stack.scores(np.array([[0.55, 0.15]]))[0],
    )


def test_listed_values_and_several_points_are_kept():
    rng = np.random.default_rng(5)
    network = network_from(networks.dense(rng, (2, 5, 2)), "first")
    box = Box(np.zeros(2), np.ones(2), (Choices(np.array([1]), np.array([0.0, 0.5, 1.0])),))
    query = Query((box,), (Application(network, 0),), ())
    goal = Form((), ((0, 0, 1.0), (0, 1, -1.0)))
    found = maximise(asked(query, (), [goal]), NativeOptions())
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 2001), [0.0, 0.5, 1.0]), -1).reshape(-1, 2)
    scores = network.runner().scores(grid.astype(np.float32)).astype(np.float64)
    best = float((scores[:, 0] - scores[:, 1]).max())
    assert found.closed
    assert best - 1e-3 * abs(best) - 1e-5 <= found.lower <= found.upper
    assert found.upper >= best
    assert found.witness is not None and found.witness.points[0][1] in (0.0, 0.5, 1.0)


def test_an_interrupt_keeps_what_is_known(monkeypatch):
    query, case, goals, _ = random_query(1)
    question = asked(query, case, goals)
    seen = []

    def stop(*_):
        seen.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr("leaveout.bab.native.explorer.Explorer.step", stop)
    found = maximise(question, NativeOptions(gap=1e-12))
    assert found.interrupted == bool(seen)
    assert found.lower <= found.upper


def test_goals_far_below_zero_are_not_lost():
    rng = np.random.default_rng(0)
    network = network_from(networks.dense(rng, (2, 4, 2)), "first")
    query = Query((Box(np.zeros(2), np.ones(2)),), (Application(network, 0),), ())
    goal = Form((), ((0, 0, 1e33),), -1e36)
    best = sampled(query, (), [goal], rng)
    found = maximise(asked(query, (), [goal]), NativeOptions())
    assert best <= found.upper < 0
    assert found.witness is not None


def test_an_example_holds_without_rounding():
    rng = np.random.default_rng(0)
    network = network_from(networks.dense(rng, (1, 3, 2)), "first")
    factors = np.linspace(0.1, 0.2, 50)
    at = float(np.float32(0.3))
    factor = next(c for c in map(float, factors) if Fraction(c) * Fraction(at) > Fraction(c * at))
    point = np.array([at])
    query = Query((Box(point, point),), (Application(network, 0),), ())
    missed = Form(((0, 0, -factor),), (), factor * at)
    assert missed.value([point], [np.zeros(2)]) >= 0
    found = maximise(asked(query, (Condition(missed),)), OPTIONS, decide=True)
    assert found.witness is None


@pytest.mark.parametrize("number", [np.inf, np.nan, 1e250])
def test_numbers_near_the_end_of_float64_are_refused(number, snapshot):
    network = network_from(networks.dense(np.random.default_rng(0), (2, 4, 2)), "first")
    query = Query((Box(np.zeros(2), np.ones(2)),), (Application(network, 0),), ())
    for form in (
        Form((), ((0, 0, number),)),
        Form(((0, 0, number),), ((0, 0, 1.0),)),
        Form((), ((0, 0, 1.0),), number),
    ):
        with pytest.raises(SpecError) as told:
            asked(query, (Condition(form),))
        assert str(told.value) == snapshot


def test_scores_that_may_overflow_prove_nothing():
    network = network_from(networks.dense(np.random.default_rng(0), (2, 4, 4, 2)), "first")
    query = Query((Box(np.zeros(2), np.full(2, 3e38)),), (Application(network, 0),), ())
    question = asked(query, (), [Form((), ((0, 0, 1.0), (0, 1, -1.0)))])
    found = maximise(question, OPTIONS)
    assert found.upper == np.inf and not found.closed
    prepared = Claims(question).prepare(OPTIONS)
    root = prepared.root(np.zeros(1, np.int64), 0, 0)
    half = replace(root, upper=root.upper / 1e30, value=np.inf)
    assert np.isinf(prepared.bound_rounding(half, 0.0).errors).all()


def test_shares_of_goals_are_one_together():
    compiled = njit(**pair_bounds.OPTIONS)(settle)
    rng = np.random.default_rng(0)
    for _ in range(rounds(200)):
        goal = rng.random(6) < 0.7
        goal[0] = True
        share = np.where(goal, rng.random(6), 3.0)
        share[goal] /= share[goal].sum()
        others = share[~goal].copy()
        compiled(share, goal)
        assert sum(map(Fraction, share[goal])) == 1
        assert (share[goal] >= 0).all() and (share[~goal] == others.astype(np.float32)).all()


def test_the_difference_of_near_points_is_not_rounded_inwards():
    network = network_from(networks.dense(np.random.default_rng(0), (1, 3, 2)), "first")
    rng = np.random.default_rng(1)
    for _ in range(rounds(50)):
        sides = np.sort(rng.normal(size=(2, 2)), axis=1)
        boxes = tuple(Box(side[:1], side[1:]) for side in sides)
        query = Query(boxes, (Application(network, 0), Application(network, 1)), ())
        case = Case((Condition(Form(((0, 0, -1.0), (1, 0, 1.0)), (), 9.0)),))
        near = join(query, [case]).box
        least = Fraction(sides[1, 0]) - Fraction(sides[0, 1])
        most = Fraction(sides[1, 1]) - Fraction(sides[0, 0])
        assert Fraction(near.lower[1]) <= least and most <= Fraction(near.upper[1])


def test_a_counter_example_above_a_bound_takes_the_bound_back(monkeypatch):
    network = network_from(networks.dense(np.random.default_rng(5), (2, 5, 2)), "first")
    query = Query((Box(np.zeros(2), np.ones(2)),), (Application(network, 0),), ())
    goal = Form((), ((0, 0, 1.0), (0, 1, -1.0)))
    monkeypatch.setattr("leaveout.bab.native.explorer.Explorer.value", -1e3)
    monkeypatch.setattr(NativeSearch, "_over", lambda self, coordinator: bool(self.known.witness))
    seek, calls = Claims.first, iter(range(9))
    # Nothing is found before the roots are bounded, from above by far too little.
    monkeypatch.setattr(
        Claims, "first", lambda self, *given: seek(self, *given) if next(calls) else None
    )
    found = maximise(asked(query, (), [goal]), NativeOptions())
    assert found.witness is not None
    assert (found.closed, found.reason, found.contradicted) == (False, "numerical", True)
    assert found.upper >= found.lower
