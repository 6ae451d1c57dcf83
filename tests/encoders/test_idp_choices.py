"""Over listed values the program is exact: compared with every point, through onnxruntime."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from leaveout.bab import make_instance
from leaveout.encoders import Box, Choices, Encoding, encode_idp, hyper_network, idp, pair_bounds
from leaveout.encoders.idp import scale_pair
from leaveout.models import confidence
from leaveout.solvers import Outcome, Settings, Solution, Status, find_solver

from support import networks
from support.cases import BruteForce, question

LIMIT = Settings(time_limit=60)
CIRCLE = [[np.cos(np.pi / 2 * k / 5), np.sin(np.pi / 2 * k / 5)] for k in range(6)]


def discrete(seed, free=0):
    """Return a question of 4 features: one grid, one circle, one binary; the last may be free."""
    model = networks.dense(np.random.default_rng(seed), (4, 5, 5, 2 + seed % 2))
    base = question(seed, model=model, spread=0.15, negative=True)
    tables = [
        Choices(np.asarray([1]), np.asarray([-0.3, 0.1, 0.45, 1.0])),
        Choices(np.asarray([3, 0]), np.asarray([*CIRCLE, [0, 0]])),
        Choices(np.asarray([2]), np.asarray([0.0, 1.0])),
    ]
    box = Box(np.full(4, -0.5), np.ones(4), tuple(tables[: 3 - free]))
    return make_instance(base.network, base.family, box)


def every_point(box):
    """Enumerate a box all of whose features are discrete."""
    points = []
    for rows in itertools.product(*(each.values for each in box.choices)):
        point = np.zeros(box.dimension)
        for each, row in zip(box.choices, rows):
            point[each.columns] = row
        points.append(point)
    return np.asarray(points)


def best_leak(instance, label, member=None, tie=0.0):
    """Return the confidence of the worst leak among all points, as onnxruntime sees it.

    With ``tie``, points count that lack so little of a leak.
    """
    x = every_point(instance.box).astype(np.float32)
    own = confidence(instance.network.runner().scores(x).astype(np.float64), label)
    members = range(len(instance.family)) if member is None else [member]
    leaks = np.zeros(len(x), bool)
    for each in members:
        taken = {k: v[0] for k, v in instance.family.take([each]).items()}
        other = instance.network.runner(taken).scores(x).astype(np.float64)
        leaks |= confidence(other, label) <= tie
    return float(own[leaks & (own > 0)].max(initial=0.0))


def encoded(instance, label, members, encoding):
    hyper = hyper_network(instance.members.take(np.asarray(members)))
    pair = pair_bounds(instance.network.stack, hyper, instance.bounds, instance.box)
    return encode_idp(
        scale_pair(instance.network.stack, hyper, pair, instance.box),
        instance.box,
        label,
        encoding=encoding,
        floor=-instance.network_error,
        tie=instance.member_error,
    )


def test_one_member_over_a_discrete_set_is_bounded_exactly():
    close = 0
    for seed in range(25):
        instance = discrete(seed)
        for label in range(instance.labels):
            best = best_leak(instance, label, 0)
            problem = encoded(instance, label, [0], Encoding(True, None))
            outcome = find_solver("highs").solve(problem.problem, LIMIT)
            if outcome.status is Status.INFEASIBLE:
                assert best == 0
                continue
            upper = problem.upper(outcome) + instance.network_error
            assert upper >= best
            if best > 0.01:
                # What float32 rounding hides makes a leak of a point that just is none.
                widened = best_leak(instance, label, 0, 2 * instance.member_error + 1e-5)
                assert upper <= widened + 2 * instance.network_error + 1e-4
                point = problem.point(outcome)
                assert instance.box.contains(point[None]).all()
                close += 1
    assert close >= 10


@pytest.mark.parametrize("free", [0, 1])
@pytest.mark.parametrize("encoding", [Encoding(), Encoding(False, None), Encoding(True, 0.05)])
def test_no_encoding_is_below_a_leak_of_a_discrete_or_mixed_set(free, encoding):
    for seed in range(6):
        instance = discrete(seed, free)
        everyone = range(len(instance.family))
        for label in range(instance.labels):
            best = BruteForce.of(instance, 3000).best[label]
            if not free:
                assert best <= best_leak(instance, label)
                best = best_leak(instance, label)
            problem = encoded(instance, label, everyone, encoding)
            outcome = find_solver("highs").solve(problem.problem, LIMIT)
            if outcome.status is Status.INFEASIBLE:
                assert best == 0
            else:
                assert problem.upper(outcome) + instance.network_error >= best


def test_a_discrete_set_is_bounded_more_tightly_than_its_hull():
    sharper = 0
    for seed in range(8):
        instance = discrete(seed)
        hull = make_instance(
            instance.network, instance.family, Box(instance.box.lower, instance.box.upper)
        )
        for label in range(instance.labels):
            uppers = []
            for each in (instance, hull):
                problem = encoded(each, label, [0], Encoding(True, None))
                outcome = find_solver("highs").solve(problem.problem, LIMIT)
                infeasible = outcome.status is Status.INFEASIBLE
                uppers.append(0.0 if infeasible else problem.upper(outcome))
            assert uppers[0] <= uppers[1] + 1e-5
            sharper += uppers[0] < uppers[1] - 0.01
    assert sharper >= 4


def test_a_table_too_large_for_binaries_is_left_as_its_hull(monkeypatch):
    instance = discrete(3)
    exact = encoded(instance, 0, [0], Encoding(True, None))
    monkeypatch.setattr(idp, "MOST_ROWS", 4)
    loose = encoded(instance, 0, [0], Encoding(True, None))
    assert exact.problem.integer.sum() - loose.problem.integer.sum() == len(CIRCLE) + 1
    outcomes = [find_solver("highs").solve(each.problem, LIMIT) for each in (exact, loose)]
    assert loose.upper(outcomes[1]) >= exact.upper(outcomes[0]) - 1e-5
    assert instance.box.contains(loose.point(outcomes[1])[None]).all()


def test_values_far_apart_in_size_are_told_apart_or_left_to_the_margin():
    base = discrete(1)
    table = Choices(np.asarray([0]), np.asarray([0.0, 1e-30, 6e-17, 1e-3, 1.0]))
    instance = make_instance(
        base.network, base.family, Box(np.full(4, -0.5), np.ones(4), (table, *base.box.choices[:1]))
    )
    problem = encoded(instance, 0, [0], Encoding()).problem
    sizes = np.abs(problem.matrix.data)
    assert sizes.min() > 1e-9
    best = BruteForce.of(instance, 3000).best[0]
    outcome = find_solver("highs").solve(problem, LIMIT)
    assert outcome.status is Status.INFEASIBLE or outcome.dual_bound >= 0
    assert (outcome.status is Status.INFEASIBLE) <= (best == 0)


def test_the_point_of_a_solver_is_moved_to_the_nearest_of_the_set():
    instance = discrete(2)
    problem = encoded(instance, 0, [0], Encoding())
    vector = np.full(len(problem.problem.lower), 0.3)
    point = problem.point(Outcome(Status.STOPPED, Solution(vector, 0.0), 1.0))
    assert instance.box.contains(point[None]).all()
    assert problem.point(replace(Outcome(Status.STOPPED, None, 1.0))) is None
