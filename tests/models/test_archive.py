"""Archives with a manifest: the bytes numpy writes, whole or not at all; one line where refused."""

from __future__ import annotations

import io

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.errors import AuditError, BallotError
from leaveout.files import PARTIALS
from leaveout.models.archive import (
    archive_names,
    expect_arrays,
    holds_archive,
    holds_arrays,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)

from support.depth import rounds


class Manifest(msgspec.Struct):
    """What the array ``manifest`` says."""

    version: int
    words: tuple[str, ...] = ()


KINDS = st.sampled_from(["<f4", ">f8", "<i8", "|b1", "<U3"])


def _array(kind: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    numbers = np.random.default_rng(seed).integers(0, 2, shape)
    return np.asfortranarray(numbers).astype(kind)


ARRAYS = st.dictionaries(
    st.text("abc/ä", min_size=1, max_size=4),
    st.builds(
        _array,
        KINDS,
        st.lists(st.integers(0, 3), max_size=3).map(tuple),
        st.integers(0, 99),
    ),
    max_size=4,
)


@settings(deadline=None, max_examples=rounds(60))
@given(ARRAYS, st.booleans())
def test_what_is_written_is_what_numpy_writes(tmp_path_factory, arrays, compressed):
    path = tmp_path_factory.mktemp("archive") / "a.npz"
    write_archive(path, arrays, BallotError, compressed=compressed)
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    assert path.read_bytes() == stream.getvalue()
    found = read_archive(path, BallotError)
    assert list(found) == list(arrays) == list(archive_names(path, BallotError))
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


@pytest.mark.parametrize("name", ["file", "allow_pickle"])
def test_an_array_may_have_any_name(tmp_path, name):
    write_archive(tmp_path / "a.npz", {name: np.arange(3)}, BallotError)
    assert read_archive(tmp_path / "a.npz", BallotError)[name].tolist() == [0, 1, 2]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, snapshot):
    path = tmp_path / "a.npz"
    write_archive(path, {"a": np.arange(3)}, BallotError)
    before = path.read_bytes()
    with pytest.raises(ValueError) as told:
        write_archive(path, {"a": np.arange(4), "b": np.array([{}])}, BallotError)
    assert str(told.value) == snapshot
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(PARTIALS))
    with pytest.raises(BallotError) as told:
        write_archive(tmp_path / "no" / "a.npz", {}, BallotError)
    assert str(told.value) == snapshot


def test_a_manifest_comes_back(tmp_path):
    raw = manifest_array(Manifest(3, ("ä", "b")))
    assert read_manifest(tmp_path, raw, Manifest, BallotError, 3) == Manifest(3, ("ä", "b"))
    assert read_manifest(tmp_path, raw, Manifest, BallotError) == Manifest(3, ("ä", "b"))


@pytest.mark.parametrize(
    "raw",
    [
        np.zeros(2),
        np.frombuffer(b"{", np.uint8),
        np.frombuffer(b"\xff", np.uint8),
        np.frombuffer(b"[" * 100_000, np.uint8),
        manifest_array({"version": 3, "words": 5}),
        manifest_array({"version": 4, "words": 5}),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(tmp_path, raw, snapshot):
    with pytest.raises(BallotError) as raised:
        read_manifest(tmp_path / "a.npz", raw, Manifest, BallotError, 3)
    assert str(raised.value) == snapshot
    assert str(raised.value).startswith(f"{tmp_path}/a.npz: ")


@pytest.mark.parametrize(
    "there",
    [
        ["a"],
        [],
        ["a", "b", "mane"],
    ],
)
def test_arrays_that_are_missing_or_unknown_are_named(tmp_path, there, snapshot):
    with pytest.raises(AuditError) as raised:
        expect_arrays(tmp_path, there, AuditError, ["a", "b"], ["made"])
    assert str(raised.value) == snapshot


def test_arrays_that_are_expected_are_taken(tmp_path):
    expect_arrays(tmp_path, ["b", "a", "made"], AuditError, ["a", "b"], ["made"])
    expect_arrays(tmp_path, ["b", "a", "anything"], AuditError, ["a", "b"])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.npz", b"PK", True),
        ("a.csv", b"PK..", True),
        ("a.csv", b"x,y", False),
        ("a.csv", b"", False),
        ("a.npz", b"x,y", "is not an NPZ file; write it with numpy.savez"),
        ("a.NPZ", b"", "is empty"),
        ("a.npz", None, "a.npz: no such file"),
    ],
)
def test_the_first_bytes_tell_an_archive(tmp_path, name, content, said, snapshot):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    if isinstance(said, bool):
        assert holds_archive(path, BallotError) is said
    else:
        with pytest.raises(BallotError) as told:
            holds_archive(path, BallotError)
        assert str(told.value) == snapshot


def test_what_an_archive_holds_is_asked_of_any_file(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, {"a": np.arange(3), "b/c": np.arange(2)}, BallotError)
    assert holds_arrays(path, ["a"])
    assert holds_arrays(path, ["b/c", "a"])
    assert not holds_arrays(path, ["a", "b"])
    (tmp_path / "b.npz").write_bytes(path.read_bytes()[:-9])
    for name in (tmp_path / "b.npz", tmp_path, tmp_path / "none"):
        assert not holds_arrays(name, ["a"])
