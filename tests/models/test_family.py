"""Families are read whole or refused by name."""

from __future__ import annotations

import struct
import zipfile

import numpy as np
import onnx
import pytest

from leaveout.errors import FamilyError
from leaveout.models import (
    DataFacts,
    Family,
    Manifest,
    load_family,
    load_family_file,
    save_family_file,
)
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters

from support import networks
from support.cases import family_of, shaken


@pytest.fixture
def network():
    return network_from(networks.dense(np.random.default_rng(0)), "full.onnx")


@pytest.fixture
def family(network):
    return family_of(np.random.default_rng(1), network, 4)


def test_a_family_file_comes_back_as_it_was_and_twice_the_same_bytes(tmp_path, family):
    facts = DataFacts(sha256="ab", rows=4, minimum=(0.0,), maximum=(1.0,), labels=("no", "yes"))
    full = Family(family.parameters, family.removed, Manifest(data=facts, seed=7))
    save_family_file(tmp_path / "a.npz", full)
    save_family_file(tmp_path / "b.npz", full)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    back = load_family_file(tmp_path / "a.npz")
    assert back.manifest == full.manifest
    assert list(back.parameters) == list(full.parameters)
    np.testing.assert_array_equal(back.removed, full.removed)
    for name, stack in full.parameters.items():
        np.testing.assert_array_equal(back.parameters[name], stack)


def test_a_folder_of_onnx_files_is_the_same_family(tmp_path, network, family):
    for member in range(4):
        taken = {name: stack[member] for name, stack in family.parameters.items()}
        onnx.save(with_parameters(network.model, taken), tmp_path / f"member_{member + 10}.onnx")
    back = load_family(tmp_path, network)
    assert back.removed.tolist() == [10, 11, 12, 13]
    for name, stack in family.parameters.items():
        np.testing.assert_array_equal(back.parameters[name], stack)


def test_a_folder_member_of_another_shape_is_refused_by_file_name(tmp_path, network, snapshot):
    onnx.save(network.model, tmp_path / "m_0.onnx")
    wider = networks.dense(np.random.default_rng(0), (3, 5, 4, 2))
    onnx.save(wider, tmp_path / "m_1.onnx")
    with pytest.raises(FamilyError) as told:
        load_family(tmp_path, network)
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "names",
    [
        ["a_5.onnx", "b_5.onnx"],
        ["a_5.onnx", "full.onnx"],
        ["a_²9.onnx", "m_99999999999999999999.onnx"],
    ],
)
def test_a_folder_whose_names_do_not_tell_the_rows_is_refused(tmp_path, network, names, snapshot):
    for name in names:
        onnx.save(network.model, tmp_path / name)
    with pytest.raises(FamilyError) as told:
        load_family(tmp_path, network)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("names", [["full.onnx"], []], ids=["trained", "no network"])
def test_a_folder_around_a_family_file_names_the_file(tmp_path, network, family, names, snapshot):
    for name in names:
        onnx.save(network.model, tmp_path / name)
    save_family_file(tmp_path / "family.npz", family)
    with pytest.raises(FamilyError) as told:
        load_family(tmp_path, network)
    assert str(told.value) == snapshot


def test_an_empty_folder_and_an_empty_file_are_refused(tmp_path, network, family, snapshot):
    with pytest.raises(FamilyError) as told:
        load_family(tmp_path, network)
    assert str(told.value) == snapshot
    path = tmp_path / "f.npz"
    empty = {name: stack[:0] for name, stack in family.parameters.items()}
    np.savez(path, removed=np.zeros(0, np.int64), **empty)
    with pytest.raises(FamilyError) as told:
        load_family(path, network)
    assert str(told.value) == snapshot


def _refused(tmp_path, network, **arrays):
    path = tmp_path / "f.npz"
    np.savez(path, **arrays)
    with pytest.raises(FamilyError) as caught:
        load_family(path, network)
    assert "f.npz" in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_does_not_match_the_network_is_refused_by_name(tmp_path, network, snapshot):
    good = shaken(np.random.default_rng(0), network, 2, 0.1)
    removed = np.arange(2)
    assert _refused(tmp_path, network, **good) == snapshot
    missing = {k: v for k, v in good.items() if k != "layers.1.bias"}
    assert _refused(tmp_path, network, removed=removed, **missing) == snapshot
    assert (
        _refused(tmp_path, network, removed=removed, **good, extra=good["layers.1.bias"])
        == snapshot
    )
    wide = {**good, "layers.0.weight": np.zeros((2, 5, 3), np.float32)}
    assert _refused(tmp_path, network, removed=removed, **wide) == snapshot
    short = {**good, "layers.0.bias": good["layers.0.bias"][:1]}
    assert _refused(tmp_path, network, removed=removed, **short) == snapshot
    nan = {**good, "layers.0.bias": good["layers.0.bias"] * np.nan}
    assert _refused(tmp_path, network, removed=removed, **nan) == snapshot
    whole = {**good, "layers.0.bias": np.zeros((2, 4), np.int64)}
    assert _refused(tmp_path, network, removed=removed, **whole) == snapshot
    assert _refused(tmp_path, network, removed=np.zeros((2, 2)), **good) == snapshot
    other = np.frombuffer(b'{"architecture": "0123"}', np.uint8)
    assert _refused(tmp_path, network, removed=removed, manifest=other, **good) == snapshot
    assert (
        _refused(tmp_path, network, removed=removed, manifest=np.frombuffer(b"{", np.uint8), **good)
        == snapshot
    )


def test_files_that_are_no_archives_are_refused(tmp_path, network, snapshot):
    path = tmp_path / "f.npz"
    for content in (b"", b"PK nonsense", b"\x93NUMPY\x01\x00"):
        path.write_bytes(content)
        with pytest.raises(FamilyError) as told:
            load_family(path, network)
        assert str(told.value) == snapshot
    with pytest.raises(FamilyError) as told:
        load_family(tmp_path / "none.npz", network)
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "shape", ["(10000000000000, 10)", "(-1, 10)", "(3", "(3,), 3: 4", "(2,)" + " " * 20_000]
)
def test_headers_that_claim_what_is_not_there_are_refused(tmp_path, network, shape, snapshot):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}"
    header += "}\n" if shape != "(3" else "\n"
    path = tmp_path / "f.npz"
    with zipfile.ZipFile(path, "w") as archive:
        start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
        archive.writestr("removed.npy", start + header.encode() + bytes(100_000))
    with pytest.raises(FamilyError) as told:
        load_family(path, network)
    assert str(told.value) == snapshot


def test_pickled_arrays_are_never_loaded(tmp_path, network, snapshot):
    path = tmp_path / "f.npz"
    np.savez(path, removed=np.asarray([{}], dtype=object))
    with pytest.raises(FamilyError) as told:
        load_family(path, network)
    assert str(told.value) == snapshot


def test_a_parameter_may_not_take_a_name_of_the_format(tmp_path, family, snapshot):
    clash = Family({"removed": np.zeros((4, 1), np.float32)}, family.removed)
    with pytest.raises(FamilyError) as told:
        save_family_file(tmp_path / "f.npz", clash)
    assert str(told.value) == snapshot
    assert not list(tmp_path.iterdir())
