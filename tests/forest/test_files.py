"""Forest files: what is written is read, and nothing else is."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from leaveout.kernel.numbers import Rejected
from leaveout.models.forest import DareForestClassifier, ForestError, first_difference
from leaveout.models.forest.files import _digest, load_ensemble

from support.kernel_forests import read as read_forest


@pytest.fixture
def saved(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)).round(1), rng.integers(0, 2, 200)
    X[:, 3] = X[:, 3] > 0
    forest = DareForestClassifier(2, random_state=5).fit(X, np.array(["no", "yes"])[y])
    forest.delete([3, 4]).save(tmp_path / "forest.npz")
    return forest, tmp_path / "forest.npz"


def parts(path):
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        names = [n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")]
        return manifest, {n: np.load(io.BytesIO(archive.read(f"{n}.npy"))) for n in names}


def write(path, manifest, arrays, sign=True):
    """Write a file by hand, with a digest that fits."""
    if sign:
        manifest = manifest | {"digest": _digest(arrays)}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(f"{name}.npy", stream.getvalue())


def refused(path):
    with pytest.raises(ForestError) as caught:
        DareForestClassifier.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_is_the_same_forest_and_can_be_changed_alike(saved):
    forest, path = saved
    again = DareForestClassifier.load(path)
    assert first_difference(forest, again) is None
    assert again.delete([0, 7]) == forest.delete([0, 7])
    assert again.add([[0.0] * 4], ["yes"]).tolist() == [200]


def test_it_is_a_plain_npz_without_pickles(saved):
    forest, path = saved
    with np.load(path, allow_pickle=False) as arrays:
        assert np.array_equal(arrays["names"], forest.rows_)
        assert all(arrays[name].dtype != object for name in arrays if name != "manifest.json")


def test_every_damaged_byte_is_found(saved):
    forest, path = saved
    content = path.read_bytes()
    rng = np.random.default_rng(1)
    for place in rng.integers(0, len(content), 60):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            again = DareForestClassifier.load(path)
        except ForestError:
            continue
        # Some bytes of a zip archive say nothing about its content.
        assert again == forest


def test_short_and_foreign_files_are_refused(saved, tmp_path, snapshot):
    _, path = saved
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert refused(path) == snapshot
    path.write_bytes(b"")
    assert refused(path) == snapshot
    np.savez(tmp_path / "other.npz", X=np.zeros(3))
    assert refused(tmp_path / "other.npz") == snapshot
    assert refused(tmp_path / "none.npz") == snapshot


@pytest.mark.parametrize(
    "change",
    [
        {"version": 4},
        {"format": "something"},
        {"sizes": []},
        {"sizes": [[2**62, 2], [-3, 2**62]]},
        {"next_name": 2**62},
        {"more": 1},
        {"small": 3},
        {"next_name": 5},
    ],
)
def test_wrong_manifests_are_refused(saved, change, snapshot):
    _, path = saved
    manifest, arrays = parts(path)
    write(path, manifest | change, arrays)
    assert refused(path) == snapshot


def test_wrong_settings_are_refused(saved, snapshot):
    _, path = saved
    manifest, arrays = parts(path)
    for name, value in (("criterion", "mse"), ("attributes", 9), ("thresholds", 0), ("depth", 0)):
        write(path, manifest | {"settings": manifest["settings"] | {name: value}}, arrays)
        assert refused(path) == snapshot


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("X", (0, 0), np.inf),
        ("X", (0, 0), 1e305),
        ("threshold", 0, np.nan),
        ("threshold", 0, 77.0),
        ("feature", 0, 4),
        ("feature", 0, -1),
        ("right", 0, 10**6),
        ("left", 0, 0),
        ("counts", (0, 0), 3),
        ("rows", 0, 10**6),
        ("names", 5, 0),
        ("y", 0, 2),
        ("classes", 0, "yes"),
        ("cached_node", 0, 1),
        ("cached_attribute", 0, -1),
        ("cached_values", (0, 0), 0.123),
        ("cached_counts", (0, 0), -1),
    ],
)
def test_forests_that_contradict_themselves_are_refused(saved, name, place, value, snapshot):
    _, path = saved
    manifest, arrays = parts(path)
    arrays[name][place] = value
    write(path, manifest, arrays)
    assert refused(path) == snapshot


def test_a_changed_array_does_not_fit_the_digest(saved, snapshot):
    _, path = saved
    manifest, arrays = parts(path)
    arrays["counts"][0, 0] += 1
    write(path, manifest, arrays, sign=False)
    assert refused(path) == snapshot


def test_missing_arrays_and_other_types_are_refused(saved, snapshot):
    _, path = saved
    manifest, arrays = parts(path)
    write(path, manifest, {n: a for n, a in arrays.items() if n != "rows"})
    assert refused(path) == snapshot
    write(path, manifest, arrays | {"X": arrays["X"].astype(np.float32)})
    assert refused(path) == snapshot


def test_a_failed_save_leaves_the_old_file(saved, tmp_path, snapshot):
    forest, path = saved
    before = path.read_bytes()
    mixed = DareForestClassifier(1).fit([[0.0], [1.0]], [0, 1])
    state = mixed.state_
    state._held = state._held._replace(classes=np.array([0, "a"], dtype=object))
    with pytest.raises(ForestError) as told:
        mixed.save(path)
    assert str(told.value) == snapshot
    assert path.read_bytes() == before
    with pytest.raises(ForestError) as told:
        forest.save(tmp_path / "none" / "forest.npz")
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    ("version", "lacks", "both"),
    [(2, (), False), (3, ("group",), False), (3, ("group", "group_column"), False),
     (2, ("group", "group_column"), True)],
)  # fmt: skip
def test_a_file_has_groups_where_its_version_has(tmp_path, version, lacks, both):
    path = tmp_path / "f.npz"
    forest = DareForestClassifier(2, random_state=1)
    forest.fit(np.eye(4), [0, 1, 0, 1], groups=["a", "a", "b", "c"]).save(path)
    manifest, arrays = parts(path)
    assert [name for name, _ in read_forest(path).units] == [f"group {at!r}" for at in "abc"]
    arrays = {name: array for name, array in arrays.items() if name not in lacks}
    write(path, manifest | {"version": version}, arrays)
    if both:
        assert len(read_forest(path).units) == len(load_ensemble(path).unit_names) == 4
        return
    with pytest.raises(Rejected):
        read_forest(path)
    with pytest.raises(ForestError):
        load_ensemble(path)


def test_the_kernel_refuses_arrays_that_their_digest_does_not_fit(saved):
    _, path = saved
    manifest, arrays = parts(path)
    write(path, manifest, arrays, sign=False)
    assert len(read_forest(path).names) == 198
    arrays["X"][0, 0] += 1.0
    write(path, manifest, arrays, sign=False)
    with pytest.raises(Rejected, match="do not match"):
        read_forest(path)
