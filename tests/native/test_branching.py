"""Ways to split: whichever are kept, nothing is lost, and a certificate holds."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from leaveout.bab import NativeOptions, search_native
from leaveout.bab.native.branching import Brancher
from leaveout.bab.native.leaks import Leaks
from leaveout.bab.native.nodes import Node, Split, untie
from leaveout.bab.native.workers.worker import Worker, load_scores, pack_scores
from leaveout.verifier.certify.check import check

from support.cases import BruteForce, leaky, question
from support.certificates import write


@pytest.fixture
def at_random(monkeypatch):
    """Try any ways at every node, and keep any of them."""
    rng = np.random.default_rng(0)
    kinds = set()

    def choose(self: Brancher, node: Node, target: float) -> list[Split]:
        widths = node.upper - node.lower
        free = [] if node.plain else np.flatnonzero(node.neuron_score > 0).tolist()
        ways = []
        if widths.max() > 1e-3:
            at = int(rng.choice(np.flatnonzero(widths > 1e-3)))
            point = float(node.lower[at] + rng.uniform(0.1, 0.9) * widths[at])
            ways.append(Split("input", at, 0, point))
        ways += [Split("phase", int(j)) for j in rng.permutation(free)[:2]]
        if node.phase.any() and rng.random() < 0.3:
            ways.append(Split("untied"))
        if len(node.members) > 1 and (not ways or rng.random() < 0.5):
            return [Split("members")]
        ways = [ways[i] for i in rng.permutation(len(ways))[: rng.integers(1, 4)]]
        kinds.update(way.kind for way in ways)
        return ways

    monkeypatch.setattr(Brancher, "choose", choose)
    monkeypatch.setattr(Brancher, "best", lambda *_: int(rng.integers(len(_[1]))))
    return kinds


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_bounds_hold_however_nodes_are_split(at_random, start):
    for seed in range(start, start + 10):
        instance = question(seed)
        best = BruteForce.of(instance, 4000).best
        for label in range(instance.labels):
            found = search_native(instance, label, NativeOptions(nodes=1_500))
            assert found.upper >= best[label]
            assert (found.member_upper <= found.upper).all()
            assert not found.contradicted
    assert at_random == {"input", "phase", "untied"}


def test_a_certificate_holds_however_nodes_are_split(at_random, tmp_path):
    for seed in range(12):
        written = write(tmp_path / str(seed), seed, ties=False)
        worst = BruteForce.of(written.instance, 4000).best
        for each in check(written.path):
            assert each.upper >= worst[each.label], seed
    assert "untied" in at_random


def test_an_untied_node_keeps_what_is_true():
    """Of every leak in a node with ties, all bounds of its untied child hold."""
    instance, label = leaky()
    held = Worker(Leaks(instance, label), NativeOptions())
    held.explorer.brancher.choose = _ties_only  # type: ignore[method-assign]
    held.start(0.0)
    held.step(0.0, 0.3)
    nodes = [node for node in held.nodes() if node.phase.any() and len(node.members) == 1]
    assert nodes
    space = held.space
    layout = space.layout
    rng = np.random.default_rng(0)
    for node in nodes[:40]:
        child = untie(node, Split("untied"), 10**6, layout, node.value)
        assert not child.phase.any() and child.plain and child.cap == node.value
        assert np.array_equal(child.state[:4], node.state[:4])
        below, above, low, high = child.state[3], child.state[2], child.state[4], child.state[5]
        changed = (low != node.state[4]) | (high != node.state[5])
        assert np.array_equal(low[changed], -below[changed])
        assert np.array_equal(high[changed], above[changed])
        lowest = np.flatnonzero(node.phase)[0]
        first = layout.starts[np.searchsorted(layout.starts, lowest, side="right")]
        assert not changed[:first].any()
        # Samples of the box that leak are in it whatever was chosen; their differences are true.
        points = rng.uniform(node.lower, node.upper, (200, len(node.lower))) + space.origin
        _differences_hold(instance, int(node.members[0]), points, child, label)


def _ties_only(node: Node, target: float) -> list[Split]:
    free = np.flatnonzero(node.neuron_score > 0)
    if len(node.members) > 1:
        return [Split("members")]
    if len(free) and not node.plain:
        return [Split("phase", int(free[0]))]
    widths = node.upper - node.lower
    at = int(np.argmax(widths))
    return [Split("input", at, 0, float(node.lower[at] + widths[at] / 2))]


def _differences_hold(instance, member, points, child, label) -> None:
    own = instance.network.stack
    other = next(stack for _, stack in instance.members.chunks(np.array([member])))
    first, second = _hidden(own, points), _hidden(other, points)
    scores, others = first[-1], second[-1]
    rival = 1 - label
    leaks = (scores[:, label] > scores[:, rival]) & (others[:, label] < others[:, rival])
    margin = scores[:, label] - scores[:, rival]
    # Those above all cuts so far: what is bounded may be of them alone.
    counts = leaks & (margin > max(child.cut_at, 0.0))
    z = np.concatenate(first[:-1], axis=1)[counts]
    d = np.concatenate(second[:-1], axis=1)[counts] - z
    inside = ((z >= child.state[0] - 1e-9) & (z <= child.state[1] + 1e-9)).all(axis=1)
    true = (d >= -child.state[3] - 1e-9) & (d <= child.state[2] + 1e-9)
    # A leak that the tied node was not there for may be outside: its z says so.
    assert true[inside].all()


def _hidden(stack, points):
    found: list = []
    for layer in stack.layers:
        z = sum(
            (points if source == 0 else np.maximum(found[source - 1], 0)) @ weight[0].T
            for source, weight in layer.weights.items()
        )
        found.append(z + layer.bias[0])
    return found


def test_averages_decide_once_all_ways_are_known():
    brancher = Brancher(8, 0)
    node = _node()
    ways = [Split("input", 0, 0, 0.5), Split("phase", 3)]
    for _ in range(8):
        brancher.best(ways, node, [0.5, 0.1])
    assert brancher.best(ways, node, [0.0, 1.0]) == 0
    fresh = Brancher(8, 0)
    assert fresh.best(ways, node, [0.0, 1.0]) == 1


def test_neurons_are_tried_until_their_gains_are_known():
    brancher, node = Brancher(8, 0), _open_node()
    tries, extra = np.zeros(8), 0
    for kept in range(400):
        splits = brancher._neurons(node, np.ones(8, bool))
        assert len({split.index for split in splits}) == len(splits)
        assert extra <= 0.4 * kept
        extra += len(splits) - 1
        # Neuron 7 gains most, though the gap of its phases is the smallest.
        won = [
            brancher.learn(each, node, [0.5, 0.6] if each.index == 7 else [0.9, 0.95], 0.0)
            for each in splits
        ]
        for each in splits:
            tries[each.index] += 1
        chosen = splits[brancher.best(splits, node, won)]
    assert chosen.index == 7
    assert (tries >= 4).all()
    assert tries[7] > 300


def test_gains_of_one_member_do_not_decide_for_another():
    brancher = Brancher(8, 0)
    node = _open_node()
    for _ in range(400):
        for member, good in ((0, 1), (1, 2)):
            own = replace(node, members=np.array([member]))
            splits = brancher._neurons(own, np.ones(8, bool))
            won = [
                brancher.learn(each, own, [0.5, 0.6] if each.index == good else [0.9, 1.0], 0.0)
                for each in splits
            ]
            assert splits[brancher.best(splits, own, won)].index in {good, splits[0].index}
    for member, good in ((0, 1), (1, 2)):
        assert (
            brancher._neurons(replace(node, members=np.array([member])), np.ones(8, bool))[0].index
            == good
        )


def test_what_all_members_showed_is_restored():
    brancher, node = Brancher(8, 0), _open_node()
    for _ in range(20):
        splits = brancher._neurons(node, np.ones(8, bool))
        won = [brancher.learn(each, node, [0.5, 0.7], 0.0) for each in splits]
        brancher.best(splits, node, won)
    other = Brancher(8, 1)
    load_scores(other, json.loads(json.dumps(pack_scores(brancher))))
    assert pack_scores(other) == pack_scores(brancher)


def _open_node() -> Node:
    instance, label = leaky()
    held = Worker(Leaks(instance, label), NativeOptions())
    node = held.prepared.root(np.array([0]), 0, 0)
    return replace(node, value=1.0, neuron_score=np.arange(8.0, 0.0, -1.0))


def _node() -> Node:
    instance, label = leaky()
    held = Worker(Leaks(instance, label), NativeOptions())
    return replace(held.prepared.root(np.array([0]), 0, 0), value=1.0)
