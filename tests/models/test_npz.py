"""Large family files are mapped where they are stored plainly, and are the same numbers."""

from __future__ import annotations

import contextlib
import mmap
import struct
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.errors import FamilyError
from leaveout.kernel import files
from leaveout.models import Family, load_family_file, save_family_file
from leaveout.models import archive as npz
from leaveout.models import family as family_file

from support.depth import rounds
from support.limited import run_limited

DTYPES = ["<f4", ">f4", "<f8", "<f2"]


@pytest.fixture
def mapping(monkeypatch):
    monkeypatch.setattr(family_file, "_MAPPED_FROM", 0)


def _mapped(array: np.ndarray) -> bool:
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def _arrays(rng: np.random.Generator, dtype: str = "<f4") -> dict[str, np.ndarray]:
    return {
        "a.weight": rng.normal(size=(5, 3, 2)).astype(dtype),
        "ä/b": np.asfortranarray(rng.normal(size=(5, 4, 2)).astype(dtype)),
        "bias": rng.normal(size=5).astype(dtype),
    }


@settings(max_examples=rounds(60), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(DTYPES), st.booleans(), st.sampled_from([0, 9e9]))
def test_arrays_are_what_numpy_reads(tmp_path_factory, seed, dtype, compressed, mapped_from):
    path = tmp_path_factory.mktemp("npz") / "f.npz"
    save = np.savez_compressed if compressed else np.savez
    save(path, removed=np.arange(5), **_arrays(np.random.default_rng(seed), dtype))
    found = npz.read_arrays(path, mapped_from)
    with np.load(path) as archive:
        assert list(found) == archive.files
        for name, array in found.items():
            assert array.dtype == archive[name].dtype
            np.testing.assert_array_equal(array, archive[name])
    plain = mapped_from == 0 and not compressed and np.dtype(dtype) == np.float32
    assert _mapped(found["a.weight"]) is _mapped(found["bias"]) is plain
    assert not _mapped(found["ä/b"])
    assert not _mapped(found["removed"])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_float_makes_a_float32_family(tmp_path, mapping, save, dtype):
    arrays = _arrays(np.random.default_rng(0), dtype)
    save(tmp_path / "f.npz", removed=np.arange(5), **arrays)
    family = load_family_file(tmp_path / "f.npz")
    for name, stack in arrays.items():
        assert family.parameters[name].dtype == np.float32
        np.testing.assert_array_equal(family.parameters[name], stack.astype(np.float32))


def test_a_mapped_family_is_read_only_and_can_be_saved_over_itself(tmp_path, mapping):
    path = tmp_path / "f.npz"
    arrays = _arrays(np.random.default_rng(0))
    save_family_file(path, Family(arrays, np.arange(5)))
    family = load_family_file(path)
    assert _mapped(family.parameters["bias"])
    with pytest.raises(ValueError, match="read-only"):
        family.parameters["bias"][0] = 1
    before = path.read_bytes()
    save_family_file(path, family)
    assert path.read_bytes() == before
    np.testing.assert_array_equal(family.parameters["bias"], arrays["bias"])


def test_a_small_family_may_be_written_over_while_it_is_used(tmp_path):
    path = tmp_path / "f.npz"
    save_family_file(path, Family(_arrays(np.random.default_rng(0)), np.arange(5)))
    family = load_family_file(path)
    path.write_bytes(b"")
    assert np.isfinite(family.parameters["bias"]).all()


@pytest.mark.parametrize("block", [1, 2, 7, 2**22])
def test_the_first_member_that_is_not_finite_is_named(
    tmp_path, mapping, monkeypatch, block, snapshot
):
    monkeypatch.setattr(family_file, "_BLOCK", block)
    arrays = _arrays(np.random.default_rng(0))
    arrays["a.weight"][3, 2, 1] = np.inf
    arrays["a.weight"][4] = np.nan
    np.savez(tmp_path / "f.npz", removed=np.arange(5), **arrays)
    with pytest.raises(FamilyError) as told:
        load_family_file(tmp_path / "f.npz")
    assert str(told.value) == snapshot
    huge = {name: 1e300 * np.ones_like(stack, np.float64) for name, stack in arrays.items()}
    np.savez(tmp_path / "f.npz", removed=np.arange(5), **huge)
    with pytest.raises(FamilyError) as told:
        load_family_file(tmp_path / "f.npz")
    assert str(told.value) == snapshot


def test_a_truncated_or_damaged_file_is_refused_wherever_it_ends(tmp_path, mapping, snapshot):
    path = tmp_path / "f.npz"
    arrays = _arrays(np.random.default_rng(0))
    np.savez(path, removed=np.arange(5), **arrays)
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(FamilyError) as told:
            load_family_file(path)
        assert str(told.value) == snapshot
    at = whole.index(arrays["a.weight"].tobytes())
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(FamilyError) as told:
        load_family_file(path)
    assert str(told.value) == snapshot


def test_a_file_whose_size_changes_while_it_is_read_is_refused(
    tmp_path, mapping, monkeypatch, snapshot
):
    path = tmp_path / "f.npz"
    np.savez(path, removed=np.arange(5), **_arrays(np.random.default_rng(0)))
    whole = path.read_bytes()

    def shorter(file):
        return mmap.mmap(file.fileno(), len(whole) // 3, access=mmap.ACCESS_READ)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_map", shorter)
        with pytest.raises(FamilyError) as told:
            load_family_file(path)
        assert str(told.value) == snapshot

    def growing(file):
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        path.write_bytes(whole + b"more")
        return content

    with monkeypatch.context() as patch:
        patch.setattr(files, "_map", growing)
        with pytest.raises(FamilyError) as told:
            load_family_file(path)
        assert str(told.value) == snapshot


def test_a_file_that_cannot_be_mapped_is_read(tmp_path, mapping, monkeypatch):
    monkeypatch.setattr(files, "_map", lambda file: None)
    arrays = _arrays(np.random.default_rng(0))
    np.savez(tmp_path / "f.npz", removed=np.arange(5), **arrays)
    family = load_family_file(tmp_path / "f.npz")
    np.testing.assert_array_equal(family.parameters["bias"], arrays["bias"])


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are Linux's")
def test_a_family_that_does_not_fit_memory_is_loaded(tmp_path):
    path = tmp_path / "f.npz"
    weights = np.random.default_rng(0).standard_normal((500, 64, 1000), dtype=np.float32)
    save_family_file(path, Family({"weight": weights}, np.arange(500)))
    imports = "from leaveout.models import load_family_file"
    script = """
family = load_family_file(sys.argv[2])
print(repr(float(family.take([3, 499])["weight"].sum(dtype="f8"))))
"""
    printed = run_limited(imports, script, weights.nbytes // 4, str(path))
    assert float(printed) == weights[[3, 499]].sum(dtype=np.float64)


HEADERS = ["(10000000000000, 10)", "(-1, 10)", "(3", "(3,), 3: 4", "(2,)" + " " * 20_000]


@pytest.mark.parametrize("shape", HEADERS)
@pytest.mark.parametrize("mapped_from", [None, 0])
def test_whatever_is_damaged_is_a_value_error(tmp_path, shape, mapped_from):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}"
    header += "}\n" if shape != "(3" else "\n"
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
        archive.writestr("a.npy", start + header.encode() + bytes(100_000))
    with pytest.raises(ValueError, match=r"shape|header|parse|shorter|negative|literal|EOF|<"):
        npz.read_arrays(path, mapped_from)


@pytest.mark.parametrize("flipped", range(0, 400, 7))
def test_a_flipped_byte_is_one_of_two_errors_or_harms_nothing(tmp_path, flipped):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.arange(5), b=np.arange(3.0))
    content = bytearray(path.read_bytes())
    content[flipped % len(content)] ^= 0xA5
    path.write_bytes(content)
    with contextlib.suppress(OSError, ValueError):
        assert all(array.ndim == 1 for array in npz.read_arrays(path).values())
