"""The encoding holds every true leak, is exact for one member, and knows when it is infeasible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.encoders import Encoding, encode_idp, hyper_network, pair_bounds
from leaveout.encoders.bounds import hyper_bounds
from leaveout.encoders.idp import CONFIRMED, scale_pair
from leaveout.models import Members
from leaveout.solvers import Outcome, Settings, Status, available, find_solver

from support import networks
from support.cases import BruteForce, question
from support.depth import rounds

ENCODINGS = [Encoding(md, tau) for md in (True, False) for tau in (None, 0.05)]
LIMIT = Settings(time_limit=30)


def _encode(instance, label, encoding, members=None, elastic=False, floor=0.0):
    chosen = np.arange(len(instance.family)) if members is None else np.asarray(members)
    hyper = hyper_network(instance.members.take(chosen))
    pair = pair_bounds(instance.network.stack, hyper, instance.bounds, instance.box)
    if not encoding.matching:
        pair = replace(pair, hyper=hyper_bounds(hyper, instance.box))
    return encode_idp(
        scale_pair(instance.network.stack, hyper, pair, instance.box),
        instance.box,
        label,
        encoding=encoding,
        floor=floor - instance.network_error,
        tie=instance.member_error,
        elastic=elastic,
    )


@settings(max_examples=rounds(25), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_encoding_is_ever_below_a_real_leak(seed):
    instance = question(seed)
    best = BruteForce.of(instance, 3000).best
    solver = find_solver("highs")
    for label in range(instance.labels):
        for encoding in ENCODINGS:
            encoded = _encode(instance, label, encoding)
            outcome = solver.solve(encoded.problem, LIMIT)
            if outcome.status is Status.INFEASIBLE:
                assert best[label] == 0
            else:
                assert encoded.upper(outcome) + instance.network_error >= best[label]


@pytest.mark.parametrize("kind", ["residual", "convolution_1d", "matmul_add_softmax"])
@pytest.mark.parametrize("seed", range(3))
def test_residual_and_convolutional_encodings_are_never_below_a_real_leak(kind, seed):
    model = networks.ALL[kind](np.random.default_rng(seed))
    instance = question(seed, model=model, spread=0.05, negative=bool(seed % 2))
    best = BruteForce.of(instance, 5000).best
    for label in range(instance.labels):
        encoded = _encode(instance, label, Encoding())
        outcome = find_solver("highs").solve(encoded.problem, LIMIT)
        found = encoded.upper(outcome) + instance.network_error
        assert outcome.status is Status.INFEASIBLE or found >= best[label]
        assert outcome.status is not Status.INFEASIBLE or best[label] == 0


def test_without_relaxation_one_member_is_bounded_exactly():
    close = 0
    for seed in range(30):
        model = networks.dense(np.random.default_rng(seed), (1, 4, 4, 2))
        instance = question(seed, model=model, spread=0.2)
        for label in range(instance.labels):
            first = instance.family.first(1)
            one = replace(instance, family=first, members=Members(instance.network.graph, first))
            best = BruteForce.of(one, 100_000).best[label]
            encoded = _encode(instance, label, Encoding(True, None), members=[0])
            outcome = find_solver("highs").solve(encoded.problem, LIMIT)
            if outcome.status is Status.INFEASIBLE or best == 0:
                continue
            upper = encoded.upper(outcome) + instance.network_error
            assert best <= upper <= best + 2e-3 * (1 + best)
            close += 1
    assert close >= 10


def test_every_solver_finds_the_same_optimum():
    compared = 0
    for seed in (8, 21, 34):
        instance = question(seed, negative=False, spread=0.1)
        for label in range(instance.labels):
            encoded = _encode(instance, label, Encoding(True, None), members=[0])
            optima = {}
            for name in available():
                outcome = find_solver(name).solve(encoded.problem, LIMIT)
                if outcome.status is Status.INFEASIBLE:
                    optima[name] = -np.inf
                else:
                    assert outcome.status is Status.OPTIMAL, (name, outcome)
                    optima[name] = outcome.solution.objective * encoded.score_factor
            expected = optima["highs"]
            assert all(value == pytest.approx(expected, abs=1e-4) for value in optima.values())
            compared += len(optima) > 1 and np.isfinite(expected)
    assert compared >= 3


def test_a_dual_bound_counts_only_if_the_solver_ended_well():
    instance = question(8, negative=False, spread=0.1)
    encoded = _encode(instance, 1, Encoding())
    for status in Status:
        bound = encoded.upper(Outcome(status, None, 0.5))
        assert np.isfinite(bound) == (status in {Status.OPTIMAL, Status.STOPPED})
        confirmed = encoded.confirms(Outcome(status, None, 0.5))
        assert confirmed == (status in {Status.OPTIMAL, Status.STOPPED})
    assert not encoded.confirms(Outcome(Status.OPTIMAL, None, 1e-8))
    assert not encoded.confirms(Outcome(Status.OPTIMAL, None, np.inf))


def test_looser_tolerances_pad_more():
    instance = question(8, negative=False, spread=0.1)
    outcome = Outcome(Status.OPTIMAL, None, 0.5)
    tight = _encode(instance, 1, Encoding()).upper(outcome)
    loose = _encode(instance, 1, Encoding(tolerance=1e-6)).upper(outcome)
    assert 0.5 < tight < loose


def test_elastic_is_positive_where_there_is_plainly_no_leak():
    solver = find_solver("highs")
    confirmed = infeasible = 0
    for seed in range(20):
        instance = question(seed, spread=1e-3)
        for label in range(instance.labels):
            encoded = _encode(instance, label, Encoding())
            if solver.solve(encoded.problem, LIMIT).status is Status.INFEASIBLE:
                infeasible += 1
                elastic = _encode(instance, label, Encoding(), elastic=True)
                confirmed += solver.solve(elastic.problem, LIMIT).dual_bound > CONFIRMED
    assert infeasible >= 10
    assert confirmed >= 0.9 * infeasible


def test_elastic_is_zero_where_a_leak_exists():
    found = 0
    for seed in range(30):
        instance = question(seed)
        best = BruteForce.of(instance, 3000).best
        for label in range(instance.labels):
            if best[label] > 0.01:
                encoded = _encode(instance, label, Encoding(), elastic=True)
                outcome = find_solver("highs").solve(encoded.problem, LIMIT)
                assert outcome.dual_bound <= CONFIRMED
                found += 1
    assert found >= 5


def test_scaling_is_by_powers_of_two_and_changes_no_function():
    instance = question(3, scale=100.0)
    hyper = hyper_network(instance.members)
    bounds = pair_bounds(instance.network.stack, hyper, instance.bounds, instance.box)
    pair = scale_pair(instance.network.stack, hyper, bounds, instance.box)
    for factors in (*pair.inner, *pair.outer):
        assert (np.log2(factors) == np.round(np.log2(factors))).all()
    assert len(set(pair.inner[-1])) == 1
    for interval in (*pair.bounds.network, *pair.bounds.hyper):
        assert interval.magnitude.max() <= 1
    points = instance.box.sample(np.random.default_rng(0), 100)
    expected = instance.network.stack.scores(points)
    found = pair.network.scores(points / pair.outer[0]) * pair.inner[-1]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


def test_relaxing_similar_neurons_leaves_fewer_binaries():
    instance = question(11, spread=1e-3)
    exact = _encode(instance, 0, Encoding(True, None))
    relaxed = _encode(instance, 0, Encoding(True, 0.5))
    assert relaxed.relaxed > 0
    assert relaxed.problem.integer.sum() == exact.problem.integer.sum() - relaxed.relaxed
    assert exact.relaxed == 0
