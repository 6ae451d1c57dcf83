"""The witness search: what it finds, and what its witnesses are worth."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.bab import Replayer, make_instance
from leaveout.bab.attack import leak_attack
from leaveout.bab.attack.confidences import Nets, evaluate, margins
from leaveout.bab.attack.leak_attack import Pairs, find_leak, improve, improve_many
from leaveout.bab.attack.slp import ascend
from leaveout.deadline import Deadline
from leaveout.encoders import Box, Choices
from leaveout.models import confidence
from leaveout.models.onnx.file import network_from

from support import networks
from support.cases import BruteForce, family_of, leaky, question

SEEDS = range(30)


def replays(instance, witness):
    """Whether a witness is in the box, and a leak with the very scores it states."""
    x = witness.x[None]
    own = instance.network.runner().scores(x)
    taken = instance.family.take([witness.member])
    other = instance.network.runner({k: v[0] for k, v in taken.items()}).scores(x)
    return (
        bool(instance.box.contains(x.astype(np.float64)).all())
        and np.array_equal(own[0], witness.scores)
        and np.array_equal(other[0], witness.member_scores)
        and float(confidence(own.astype(np.float64), witness.label)[0]) == witness.confidence > 0
        and float(confidence(other.astype(np.float64), witness.label)[0]) <= 0
    )


def discrete(seed, members=3):
    """Make a question with a grid, a pair of columns that go together, and a free column."""
    rng = np.random.default_rng(seed)
    network = network_from(networks.dense(rng, (4, 8, 8, 2)), "random")
    choices = (
        Choices(np.asarray([0]), np.asarray([0.0, 0.3, 0.7, 1.0])),
        Choices(np.asarray([1, 3]), np.asarray([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8], [0.5, 0.1]])),
    )
    box = Box(np.zeros(4), np.ones(4), choices)
    return make_instance(network, family_of(rng, network, members, 0.1), box)


def test_the_attack_finds_nearly_all_that_brute_force_finds():
    """At least 95 % of the best of 20,000 points on 95 % of the questions, and any leak."""
    enough = asked = 0
    for seed in SEEDS:
        instance = question(seed, spread=0.1 if seed % 2 else None)
        best = BruteForce.of(instance).best
        for label in range(instance.labels):
            witness = find_leak(instance, label, Replayer(instance))
            assert witness is None or replays(instance, witness)
            if best[label] > 0:
                assert witness is not None
                asked += 1
                enough += witness.confidence >= 0.95 * best[label]
    assert asked > 15
    assert enough >= 0.95 * asked


@pytest.mark.parametrize("kind", networks.ALL)
def test_the_attack_reads_every_kind_of_network(kind):
    instance = question(3, model=networks.ALL[kind](np.random.default_rng(0)), spread=0.1)
    best = BruteForce.of(instance, 2_000).best
    for label in range(instance.labels):
        witness = find_leak(instance, label, Replayer(instance))
        assert witness is None or replays(instance, witness)
        assert (witness.confidence if witness else 0.0) >= 0.95 * best[label]


def test_discrete_features_keep_to_their_rows_and_the_best_rows_are_found():
    for seed in range(3, 8):
        instance = discrete(seed)
        best = BruteForce.of(unlisted(instance), 40_000).best
        for label in range(instance.labels):
            witness = find_leak(instance, label, Replayer(instance))
            assert witness is None or replays(instance, witness)
            assert (witness.confidence if witness else 0.0) >= 0.95 * best[label]


def unlisted(instance):
    """Return the question with a box that samples rows only, whatever is asked of it."""

    class Rows(Box):
        def contains(self, points):
            return instance.box.contains(points)

        def sample(self, rng, count):
            return instance.box.sample(rng, count)

    box = Rows(instance.box.lower, instance.box.upper)
    return type("Question", (), {**vars(instance), "box": box, "labels": instance.labels})()


def test_a_box_of_rows_alone_is_searched():
    base = discrete(1)
    rows = np.linspace(0, 1, 5)
    choices = tuple(Choices(np.asarray([k]), rows) for k in range(4))
    box = Box(np.zeros(4), np.ones(4), choices)
    instance = make_instance(base.network, base.family, box)
    grid = np.stack(np.meshgrid(*[choices[0].values[:, 0]] * 4), axis=-1).reshape(-1, 4)
    own = instance.network.stack.scores(grid)[0]
    others = instance.members.take([0, 1, 2]).scores(grid)
    for label in range(2):
        leak = (confidence(others, label) <= -1e-5).any(axis=0)
        best = confidence(own, label)[leak].max(initial=0.0)
        witness = find_leak(instance, label, Replayer(instance))
        assert (witness.confidence if witness else 0.0) >= best - 1e-4


def test_the_same_seed_finds_the_same_leak():
    instance, label = leaky()
    first, second = (find_leak(instance, label, Replayer(instance), seed=3) for _ in range(2))
    assert np.array_equal(first.x, second.x)
    assert (first.member, first.confidence) == (second.member, second.confidence)


def test_a_deadline_is_kept():
    rng = np.random.default_rng(0)
    network = network_from(networks.dense(rng, (12, 60, 60, 3), 0.3), "random")
    instance = make_instance(network, family_of(rng, network, 400), Box(np.zeros(12), np.ones(12)))
    for allowed in (-1.0, 0.05, 0.5):
        before = time.process_time()
        find_leak(instance, 0, Replayer(instance), deadline=Deadline.after(allowed))
        # Of all cores; only many rounds more would fail.
        assert time.process_time() - before < os.cpu_count() * (max(allowed, 0.0) + 3.0)


def test_a_tie_is_a_leak_even_where_no_margin_can_be_kept():
    network = network_from(networks.dense(np.random.default_rng(0), (2, 4, 2)), "n")
    family = family_of(np.random.default_rng(1), network, 1)
    for stack in family.parameters.values():
        stack[:] = 0.0
    instance = make_instance(network, family, Box(np.zeros(2), np.ones(2)))
    scores = network.runner().scores(instance.box.sample(np.random.default_rng(0), 2_000))
    for label in range(2):
        best = max(0.0, float((scores[:, label] - scores[:, 1 - label]).max()))
        witness = find_leak(instance, label, Replayer(instance))
        assert (witness.confidence if witness else 0.0) >= 0.95 * best


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_improving_never_ends_below_a_leak_and_gives_up_only_on_what_is_worthless(seed):
    instance, label = leaky()
    replayer = Replayer(instance)
    rng = np.random.default_rng(seed)
    points, members = instance.box.sample(rng, 8), rng.integers(0, 2, 8)
    given_leaks = [
        w.confidence
        for x, m in zip(points, members)
        if (w := replayer.replay(x, int(m), label)) is not None
    ]
    together = improve_many(instance, label, replayer, points, members)
    assert together is None or replays(instance, together)
    if given_leaks:
        assert together.confidence >= max(given_leaks) * (1 - 1e-4)
    alone = improve(instance, label, replayer, points[0], int(members[0]))
    assert alone is None or replays(instance, alone)
    assert improve(instance, label, replayer, points[0], int(members[0]), at_least=1e3) is None
    assert improve_many(instance, label, replayer, points[:0], members[:0]) is None


def test_a_candidate_is_followed_as_it_is_where_smoothing_finds_nothing(monkeypatch):
    instance, label = leaky()
    replayer = Replayer(instance)
    best = find_leak(instance, label, replayer)
    monkeypatch.setattr(leak_attack, "refine", lambda *given, **options: None)
    point = best.x.astype(np.float64)
    found = improve(instance, label, replayer, point, best.member)
    assert replays(instance, found)
    assert found.confidence >= best.confidence * (1 - 1e-4)
    assert improve(instance, label, replayer, point, best.member, at_least=1e3) is None


@pytest.mark.parametrize("kind", networks.ALL)
@pytest.mark.parametrize("width", [None, 0.3])
def test_confidences_have_the_slopes_that_differences_show(kind, width):
    network = network_from(networks.ALL[kind](np.random.default_rng(0)), kind).stack
    nets = Nets.of(network)
    widths = None if width is None else (width,) * len(network.layers)
    points = np.random.default_rng(1).normal(size=(1, 20, network.inputs))
    found = evaluate(nets, points, 0, widths)
    if width is None:
        np.testing.assert_allclose(found.value[0], confidence(network.scores(points[0])[0], 0))
    for i in range(min(network.inputs, 4)):
        moved = points.copy()
        moved[..., i] += 1e-7
        numeric = (evaluate(nets, moved, 0, widths).value - found.value) / 1e-7
        np.testing.assert_allclose(found.slope[..., i], numeric, rtol=1e-3, atol=1e-4)


def test_leads_are_confidences():
    scores = np.random.default_rng(0).normal(size=(3, 5, 4))
    for label in range(4):
        np.testing.assert_array_equal(margins(scores, label), confidence(scores, label))


def test_a_step_in_one_linear_region_is_the_best_of_the_linear_program():
    """Without a hidden layer the networks are linear, and the ascent must end at the optimum."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    for _ in range(20):
        network = network_from(networks.dense(rng, (5, 2)), "linear")
        member = family_of(rng, network, 1, 0.5)
        box = Box(np.zeros(5), np.ones(5))
        other = make_instance(network, member, box).members.member(0)
        slopes = [s.layers[0].weights[0][0] for s in (network.stack, other)]
        offsets = [s.layers[0].bias[0] for s in (network.stack, other)]
        a, w = (s[0] - s[1] for s in slopes)
        b, c = (o[0] - o[1] for o in offsets)
        known = linprog(-a, A_ub=w[None], b_ub=[-c], bounds=[(0, 1)] * 5)
        start = np.full((1, 1, 5), 0.5)
        pairs = Pairs.of(box, 0, Nets.of(network.stack), Nets.of(other), start, 0.0)
        found = ascend(pairs, start)
        if known.status == 2:
            assert found.value[0, 0] == -np.inf
        else:
            assert found.value[0, 0] == pytest.approx(-known.fun + b, abs=1e-5)
