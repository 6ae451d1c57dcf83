"""The members' tree, and hulls put together from those of its parts: those of all members read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.bab.instance import FEW, Clusters, Tree, make_clusters, tree_of
from leaveout.bab.native.space import Hulls, make_space
from leaveout.encoders import Box
from leaveout.models import Layer, Members, Stack
from leaveout.models.onnx.file import network_from

from support import networks
from support.cases import family_of
from support.depth import rounds


class Few:
    """Members of which few are read at a time, and how many were."""

    def __init__(self, members: Members, size: int) -> None:
        self.members, self.size, self.read = members, size, 0

    def __len__(self) -> int:
        return len(self.members)

    def chunks(self, indices):
        for part in self.members.chunks(indices, self.size):
            self.read += len(part[0])
            yield part


def crowd(seed: int, count: int, size: int = 7):
    rng = np.random.default_rng(seed)
    network = network_from(networks.dense(rng, (2, 4, 3, 2), 1.0), "random")
    members = Members(network.graph, family_of(rng, network, count, 0.1))
    return network.stack, Few(members, size)


def sets_of(tree: Tree) -> list[list[int]]:
    return [tree.members(at).tolist() for at in range(len(tree))]


@settings(max_examples=rounds(25), deadline=None)
@given(st.integers(1, 300), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0]))
def test_each_member_is_in_one_leaf_and_each_set_is_the_union_of_its_parts(count, seed, spread):
    sketch = spread * np.random.default_rng(seed).normal(size=(count, 5))
    tree, again = tree_of(sketch), tree_of(sketch)
    sets = sets_of(tree)
    assert sets == sets_of(again)
    assert sets[0] == list(range(count))
    leaves = [one for one, parts in zip(sets, tree.parts, strict=True) if parts[0] < 0]
    assert sorted(member for leaf in leaves for member in leaf) == list(range(count))
    assert all(1 <= len(leaf) <= FEW for leaf in leaves)
    for at, (one, two) in enumerate(tree.parts.tolist()):
        if one >= 0:
            assert at < one and at < two
            assert sets[at] == sorted(sets[one] + sets[two])


@pytest.mark.parametrize("count", [3, 40, 200])
def test_a_set_is_found_by_its_members_and_by_nothing_else(count):
    rng = np.random.default_rng(count)
    tree = tree_of(rng.normal(size=(count, 4)))
    for at in range(len(tree)):
        members = tree.members(at)
        assert tree.find(members) == at
        other = members.copy()
        other[-1] += 1
        assert len(members) == 1 or tree.find(other) != at
    assert tree.find(np.zeros(0, np.int64)) is None


def test_sets_that_are_in_no_tree_are_split_too():
    rng = np.random.default_rng(0)
    clusters = Clusters(rng.normal(size=(90, 4)))
    for _ in range(30):
        group = np.sort(rng.choice(90, rng.integers(2, 60), replace=False)).astype(np.int64)
        one, two = clusters.split(group)
        assert len(one) and len(two)
        assert sorted([*one, *two]) == group.tolist()


def test_members_that_were_drawn_far_apart_are_in_different_parts():
    rng = np.random.default_rng(1)
    far = np.arange(60) % 3 == 0
    clusters = Clusters(rng.normal(size=(60, 4)) + 50.0 * far[:, None])
    one, two = clusters.split(np.arange(60, dtype=np.int64))
    assert {tuple(one), tuple(two)} == {tuple(np.flatnonzero(far)), tuple(np.flatnonzero(~far))}


def same(one, two) -> bool:
    names = ("centre", "radius", "shift", "slack")
    equal = all(np.array_equal(getattr(one, name), getattr(two, name)) for name in names)
    return equal and one.exact == two.exact


@settings(max_examples=rounds(20), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 150),
    size=st.sampled_from([1, 7, 64, 1000]),
    most=st.sampled_from([0, 4_000, 2**28]),
    shifted=st.booleans(),
)
def test_hulls_of_the_tree_are_those_of_their_members(seed, count, size, most, shifted):
    first, members = crowd(seed, count, size)
    clusters = make_clusters(first, members)
    origin = np.array([-0.7, 0.0]) if shifted else np.zeros(2)
    members.read = 0
    hulls = Hulls(first, members, origin, clusters.tree, most)
    assert members.read == (count if count > FEW else 0)
    plain = Hulls(first, members, origin)
    groups = [clusters.tree.members(at) for at in range(len(clusters.tree))]
    groups += [np.arange(0, count, 2), *(np.array([i]) for i in range(min(count, 4)))]
    for one, two, group in zip(hulls.of(groups), plain.of(groups), groups, strict=True):
        assert same(one, two)
        assert one.exact == (len(group) == 1)
    # One at a time, as together.
    assert all(same(hulls.of([each])[0], plain.of([each])[0]) for each in groups[:3])
    assert same(hulls.everyone(), plain.of([np.arange(count)])[0])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(17, 80))
def test_a_hull_holds_each_of_its_members(seed, count):
    first, members = crowd(seed, count)
    tree = make_clusters(first, members).tree
    hulls = Hulls(first, members, np.zeros(2), tree)
    for at in range(len(tree)):
        group = tree.members(at)
        hull = hulls.of([group])[0]
        for own in hulls.of([np.array([member]) for member in group]):
            assert (np.abs(own.centre - hull.centre) <= hull.radius).all()
            assert (np.abs(own.shift - hull.shift) <= hull.slack * (1 + 1e-12)).all()


def test_of_members_of_float32_the_ends_take_half_and_what_does_not_fit_is_read_again():
    first, members = crowd(3, 150)
    tree = make_clusters(first, members).tree
    whole = Hulls(first, members, np.zeros(2), tree)
    large = int((tree.sizes > FEW).sum())
    numbers = 2 * 4 + 4 * 3 + 3 * 2
    assert whole.nbytes == large * (2 * 4 * numbers + 2 * 8 * (4 + 3 + 2))
    little = Hulls(first, members, np.zeros(2), tree, whole.nbytes // 4)
    assert 0 < little.nbytes < whole.nbytes // 2
    members.read = 0
    assert same(little.everyone(), whole.everyone())
    assert members.read == 0


class Folded(Few):
    """Members whose weights are no float32 numbers, as those of folded operators are."""

    def chunks(self, indices):
        for part, stack in super().chunks(indices):
            layers = tuple(
                Layer({s: w * (1 + 1e-9) for s, w in layer.weights.items()}, layer.bias)
                for layer in stack.layers
            )
            yield part, Stack(stack.inputs, layers)


def test_what_is_no_float32_is_kept_as_it_is():
    first, members = crowd(8, 90)
    folded = Folded(members.members, 11)
    tree = make_clusters(first, folded).tree
    hulls, plain = Hulls(first, folded, np.zeros(2), tree), Hulls(first, folded, np.zeros(2))
    groups = [tree.members(at) for at in range(len(tree))]
    for one, two in zip(hulls.of(groups), plain.of(groups), strict=True):
        assert same(one, two)


def test_a_space_finds_many_sets_at_once_as_one_at_a_time():
    first, members = crowd(5, 120)
    clusters = make_clusters(first, members)
    box = Box(np.full(2, -0.5), np.ones(2))
    one, two = make_space(first, members, box, clusters), make_space(first, members, box)
    assert np.array_equal(one.root, two.root)
    groups = [clusters.tree.members(at) for at in range(len(clusters.tree))]
    together = one.sets([*groups, groups[0]])
    for at, group in enumerate([*groups, groups[0]]):
        alone = two.sets([group])
        for name in ("centre", "radius", "shift", "slack", "exact"):
            assert np.array_equal(getattr(together, name)[at], getattr(alone, name)[0])
