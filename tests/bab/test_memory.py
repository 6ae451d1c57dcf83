"""A family needs little memory, however large it is in normal form."""

from __future__ import annotations

import sys
from unittest import mock

import numpy as np
import onnx
import pytest

from leaveout.bab import make_instance
from leaveout.bab.lucid import algorithm
from leaveout.bab.lucid.algorithm import features, partition
from leaveout.encoders import Box
from leaveout.errors import FamilyError
from leaveout.models import Family, Members, family_load, lower, save_family_file
from leaveout.models.onnx.file import network_from
from leaveout.models.train.architecture import count_parameters, layers_of
from leaveout.models.train.export import network_model, unflatten
from leaveout.models.train.recipe import Recipe

from support import networks
from support.cases import family_of, question
from support.limited import run_limited

ROOM = 160 * 10**6

IMPORTS = """
import numpy as np
import sklearn.cluster
from leaveout.bab import make_instance
from leaveout.bab.lucid.algorithm import features
from leaveout.encoders import Box
from leaveout.models import family_load, load_family, load_network
# Smaller portions than usual, so that a family need not be huge to be too large.
family_load._CHUNK, family_load._KEPT = 2**24, 2**25
network = load_network(sys.argv[2] + "/full.onnx")
"""
SCRIPT = """
family = load_family(sys.argv[2] + "/family.npz", network)
instance = make_instance(network, family, Box(np.zeros(network.inputs), np.ones(network.inputs)))
everyone = np.arange(len(family))
assert len(features(instance.members, everyone)) == len(family)
print(8 * instance.members.size * len(family))
print(repr(float(instance.members.take(everyone[-50:]).flat().sum())))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are Linux's")
def test_a_family_far_larger_in_normal_form_than_memory_is_prepared(tmp_path):
    rng = np.random.default_rng(0)
    layers = layers_of(Recipe(cnn=True), 40, 2)
    flat = 0.2 * rng.standard_normal(count_parameters(layers), dtype=np.float32)
    network = network_from(network_model(layers, unflatten(layers, flat)), "full.onnx")
    onnx.save(network.model, tmp_path / "full.onnx")
    family = family_of(rng, network, 2400, 1e-3)
    save_family_file(tmp_path / "family.npz", family)
    size, total = run_limited(IMPORTS, SCRIPT, ROOM, str(tmp_path)).split()
    assert int(size) > 1.5 * ROOM
    last = lower(network.graph, family.take(range(2350, 2400)))
    assert float(total) == last.flat().sum()


def test_streaming_makes_the_same_instance():
    whole = question(3, model=networks.convolution_1d(np.random.default_rng(0)))
    with mock.patch.object(family_load, "_KEPT", 0), mock.patch.object(family_load, "_CHUNK", 1):
        streamed = make_instance(whole.network, whole.family, whole.box)
    assert (streamed.network_error, streamed.member_error) == (
        whole.network_error,
        whole.member_error,
    )
    for label in range(whole.labels):
        assert streamed.most(label) == whole.most(label)


@pytest.mark.parametrize("chunk", [1, 2**26])
def test_the_first_member_that_divides_by_zero_is_named_in_any_chunk(chunk, snapshot):
    network = network_from(networks.matmul_add_softmax(np.random.default_rng(0)), "full.onnx")
    family = family_of(np.random.default_rng(1), network, 6)
    parameters = {name: stack.copy() for name, stack in family.parameters.items()}
    parameters["deviation"][[3, 5], 1] = 0
    broken = Family(parameters, family.removed + 10)
    with (
        mock.patch.object(family_load, "_KEPT", 0),
        mock.patch.object(family_load, "_CHUNK", chunk),
        pytest.raises(FamilyError) as told,
    ):
        make_instance(network, broken, Box(np.zeros(3), np.ones(3)))
    assert str(told.value) == snapshot


def test_members_of_a_large_set_are_told_apart_by_random_sums_of_their_parameters():
    rng = np.random.default_rng(0)
    network = network_from(networks.dense(rng, (4, 20, 20, 2)), "full.onnx")
    parameters = {}
    for name, value in network.parameters.items():
        centres = rng.normal(size=(3, *value.shape))
        stack = np.stack([value + centres[k % 3] + 1e-3 * k for k in range(30)])
        parameters[name] = stack.astype(np.float32)
    family = Family(parameters, np.arange(30))
    networks_ = Members(network.graph, family)
    chosen = np.arange(30)[::-1].copy()
    exact = features(networks_, chosen)
    np.testing.assert_array_equal(exact, networks_.take(chosen).flat())
    with (
        mock.patch.object(algorithm, "_LARGEST_SAMPLE", 0),
        mock.patch.object(family_load, "_KEPT", 0),
        mock.patch.object(family_load, "_CHUNK", 8 * networks_.size * 7),
    ):
        rows, again = features(networks_, chosen), features(networks_, chosen[:5])
    assert rows.shape == (30, 128)
    np.testing.assert_allclose(rows[:5], again, rtol=1e-12, atol=1e-12)
    groups = partition(rows, chosen)
    assert sorted(sorted(group.tolist()) for group in groups) == [
        list(range(k, 30, 3)) for k in range(3)
    ]
