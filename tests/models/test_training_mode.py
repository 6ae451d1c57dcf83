"""Dropout and batch normalisation are read as they are once training is over, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from leaveout.errors import FamilyError, ModelError
from leaveout.models import Family, load_family, save_family_file
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters

from support.one_operator import F32, normal, one


def test_dropout_in_training_mode_is_refused(load, snapshot):
    """With a tiny ratio it scales by little more than 1, which a comparison may not see."""
    for training in (True, False):
        constants = {"ratio": F32(4e-5), "training": np.asarray(training)}
        model = one("Dropout", constants)
        if training:
            with pytest.raises(ModelError) as told:
                load(model)
            assert str(told.value) == snapshot
        else:
            np.testing.assert_array_equal(load(model).stack.layers[0].weights[0][0], np.eye(3))


def test_dropout_is_in_training_mode_too_where_that_is_computed(load, snapshot):
    for training in (True, False):
        model = one("Dropout", {"ratio": F32(0.5), "t": np.asarray(not training)})
        model.graph.node.insert(0, helper.make_node("Not", ["t"], ["training"]))
        model.graph.node[1].input[2] = "training"
        if training:
            with pytest.raises(ModelError) as told:
                load(model)
            assert str(told.value) == snapshot
        else:
            np.testing.assert_array_equal(load(model).stack.layers[0].weights[0][0], np.eye(3))


@pytest.mark.parametrize("variance", [-1.0013e-5, -9.999e-6, -1e-12, -1.0])
@pytest.mark.parametrize("attributes", [{}, {"epsilon": 1e-5}, {"epsilon": 2.0}])
def test_negative_variances_are_refused(load, variance, attributes, snapshot):
    with pytest.raises(ModelError) as told:
        load(normal(variance, **attributes))
    assert str(told.value) == snapshot


@pytest.mark.parametrize("variance", [0.0, 1e-42, 1e-9, 1e-5, 1.0])
@pytest.mark.parametrize("attributes", [{}, {"epsilon": 1e-5}, {"epsilon": 1e-3}])
def test_epsilon_is_a_float32_also_where_it_is_left_out(load, variance, attributes):
    network = load(normal(variance, **attributes))
    epsilon = float(F32(attributes.get("epsilon", 1e-5)))
    factor = 1 / np.sqrt(float(F32(variance)) + epsilon)
    np.testing.assert_allclose(np.diag(network.stack.layers[0].weights[0][0]), factor, rtol=1e-15)
    points = np.eye(3, dtype=F32)
    computed = network.runner().scores(points).astype(np.float64)
    np.testing.assert_allclose(computed, np.eye(3) * factor, rtol=3 * 2.0**-24)


@pytest.mark.parametrize("variance", [0.0, 1e-42, 1e-31])
def test_a_deviation_that_float32_cannot_invert_is_refused(load, variance):
    with pytest.raises(ModelError, match=r"below 2\^-100"):
        load(normal(variance, epsilon=0.0))
    load(normal(1e-30, epsilon=0.0))


def test_a_member_with_a_negative_variance_or_a_division_by_zero_is_refused_by_its_row(
    tmp_path, snapshot
):
    for name, value, why in (("v", -1e-6, "a variance is negative"), ("d", 0.0, "divides by zero")):
        model = normal(1.0)
        model.graph.node[0].output[0] = "z"
        model.graph.node.append(helper.make_node("Div", ["z", "d"], ["y"]))
        model.graph.initializer.append(numpy_helper.from_array(np.ones(3, F32), "d"))
        network = network_from(model, "N")
        stacked = {k: np.stack([v, v, v]) for k, v in network.parameters.items()}
        save_family_file(tmp_path / "good.npz", Family(stacked, np.asarray([4, 5, 9])))
        assert len(load_family(tmp_path / "good.npz", network)) == 3
        stacked[name][2, 1] = value
        save_family_file(tmp_path / "bad.npz", Family(stacked, np.asarray([4, 5, 9])))
        with pytest.raises(FamilyError) as told:
            load_family(tmp_path / "bad.npz", network)
        assert str(told.value) == snapshot
        assert f"{why}" in str(told.value)


def _with_dropout(training):
    constants = {"ratio": F32(1e-3), "training": np.asarray(training)}
    return one("Dropout", constants)


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (normal(1.0), normal(1.0, epsilon=1e-4)),
        (normal(1.0, epsilon=1e-4), normal(1.0)),
        (_with_dropout(False), _with_dropout(True)),
        (
            one("Gemm", {"W": np.ones((3, 3), F32)}, transB=0),
            one("Gemm", {"W": np.ones((3, 3), F32)}, transB=1),
        ),
    ],
)
def test_a_folder_member_with_other_attributes_is_refused(tmp_path, own, other, snapshot):
    network = network_from(own, "N")
    (tmp_path / "m_1.onnx").write_bytes(own.SerializeToString())
    assert len(load_family(tmp_path, network)) == 1
    (tmp_path / "m_2.onnx").write_bytes(other.SerializeToString())
    with pytest.raises(FamilyError) as told:
        load_family(tmp_path, network)
    assert str(told.value) == snapshot


def test_a_scalar_parameter_stays_a_scalar(load):
    model = one("Dropout", {"ratio": F32(0.5)})
    changed = with_parameters(model, {"ratio": F32(0.25)})
    assert list(changed.graph.initializer[0].dims) == []
    assert load(changed).runner().scores(np.ones((1, 3))).tolist() == [[1, 1, 1]]


def test_a_transposed_constant_that_is_no_float32_is_read(load):
    model = one("Dropout", {"ratio": F32(0.5), "t": np.asarray(False)})
    model.graph.node.insert(0, helper.make_node("Transpose", ["t"], ["training"]))
    model.graph.node[1].input[2] = "training"
    np.testing.assert_array_equal(load(model).stack.layers[0].weights[0][0], np.eye(3))


def test_a_member_whose_dropout_no_runtime_takes_is_refused(tmp_path, snapshot):
    network = network_from(one("Dropout", {"ratio": F32(0.5)}), "N")
    for ratio in (-0.1, 1.0):
        stacked = {"ratio": F32([0.5, ratio])}
        save_family_file(tmp_path / "f.npz", Family(stacked, np.asarray([4, 5])))
        with pytest.raises(FamilyError) as told:
            load_family(tmp_path / "f.npz", network)
        assert str(told.value) == snapshot
