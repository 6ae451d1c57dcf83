"""The parts of the search: Jacobians, ascents, attacks, clustering, replay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.bab import Replayer
from leaveout.bab.attack.confidences import Nets, jacobians
from leaveout.bab.attack.leak_attack import Pairs, find_leak
from leaveout.bab.attack.slp import ascend
from leaveout.bab.lucid.algorithm import elbow, partition
from leaveout.encoders import Box
from leaveout.models import Family, confidence
from leaveout.models.onnx.file import network_from

from support import networks
from support.cases import BruteForce, leaky, question
from support.depth import rounds


@pytest.mark.parametrize("kind", networks.ALL)
def test_jacobians_are_the_slopes_of_the_scores(kind):
    network = network_from(networks.ALL[kind](np.random.default_rng(0)), kind).stack
    points = np.random.default_rng(1).normal(size=(20, network.inputs))
    scores, slopes = jacobians(network, points)
    np.testing.assert_allclose(scores, network.scores(points)[0], rtol=1e-12, atol=1e-12)
    step = 1e-7
    for i in range(min(network.inputs, 4)):
        moved = points.copy()
        moved[:, i] += step
        numeric = (network.scores(moved)[0] - scores) / step
        np.testing.assert_allclose(slopes[:, :, i], numeric, rtol=1e-4, atol=1e-4)


def test_the_attack_finds_most_of_what_brute_force_finds():
    found = expected = 0.0
    for seed in range(12):
        instance = question(seed, negative=False, spread=0.1)
        best = BruteForce.of(instance, 10_000).best
        for label in range(instance.labels):
            witness = find_leak(instance, label, Replayer(instance))
            expected += best[label]
            found += min(best[label], witness.confidence if witness else 0.0)
    assert found > 0.9 * expected > 0


def test_ascending_never_ends_below_its_start_and_stays_in_the_box():
    instance, label = leaky()
    network, member = instance.network.stack, instance.members.member(0)
    for start in instance.box.sample(np.random.default_rng(0), 20):
        if confidence(member.scores(start[None])[0, 0], label) > 0:
            continue
        before = confidence(network.scores(start[None])[0, 0], label)
        nets = Nets.of(network), Nets.of(member)
        pairs = Pairs.of(instance.box, label, *nets, start[None, None], 0.0)
        end = ascend(pairs, start[None, None]).points[0, 0]
        assert instance.box.contains(end[None]).all()
        assert confidence(network.scores(end[None])[0, 0], label) >= before
        assert confidence(member.scores(end[None])[0, 0], label) <= 0


def test_a_tie_in_the_member_is_a_leak_and_a_tie_in_the_network_is_not():
    model = networks.dense(np.random.default_rng(0), (1, 2, 2))
    network = network_from(model, "n")
    zero = {k: np.zeros((1, *v.shape), np.float32) for k, v in network.parameters.items()}
    from leaveout.bab import make_instance

    box = Box(np.zeros(1), np.ones(1))
    tied = make_instance(network, Family(zero, np.zeros(1, np.int64)), box)
    scores = network.runner().scores(np.asarray([[0.5]]))[0]
    winner = int(scores.argmax())
    witness = Replayer(tied).replay(np.asarray([0.5]), 0, winner)
    assert witness is not None
    assert witness.member_scores.tolist() == [0.0, 0.0]
    assert Replayer(tied).replay(np.asarray([0.5]), 0, 1 - winner) is None


@settings(max_examples=rounds(25), deadline=None)
@given(st.integers(2, 30), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0]))
def test_a_partition_covers_every_member_once_even_if_all_are_equal(count, seed, spread):
    rng = np.random.default_rng(seed)
    members = rng.permutation(100)[:count].astype(np.int64)
    groups = partition(spread * rng.normal(size=(count, 7)), members)
    assert len(groups) >= 2
    assert all(len(group) for group in groups)
    assert sorted(np.concatenate(groups)) == sorted(members)


def test_clusters_that_are_plain_to_see_are_found():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(10, 5)) * 0.01 + 10 * k for k in range(3)])
    groups = partition(rows, np.arange(30))
    assert sorted(sorted(group.tolist()) for group in groups) == [
        list(range(10 * k, 10 * k + 10)) for k in range(3)
    ]


def test_the_elbow_is_the_corner_of_the_curve():
    assert elbow([100, 20, 10, 9, 8]) == 1
    assert elbow([100, 60, 5, 4, 3]) == 2
    assert elbow([0, 0]) == 1
