"""Forest files: what is written is read, and nothing else is."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from leaveout.models.forest import DareForestClassifier, ForestError, first_difference
from leaveout.models.forest.files import _digest


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


def refused(path, said):
    with pytest.raises(ForestError, match=said) as caught:
        DareForestClassifier.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


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


def test_short_and_foreign_files_are_refused(saved, tmp_path):
    _, path = saved
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    refused(path, "damaged, or not a forest file")
    path.write_bytes(b"")
    refused(path, "damaged, or not a forest file")
    np.savez(tmp_path / "other.npz", X=np.zeros(3))
    refused(tmp_path / "other.npz", "it has no manifest.json")
    refused(tmp_path / "none.npz", "cannot be read: No such file")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 3}, "version 3 of the format; this program reads versions 1 and 2"),
        ({"format": "something"}, "its manifest says otherwise"),
        ({"sizes": []}, "does not divide the arrays"),
        ({"sizes": [[2**62, 2], [-3, 2**62]]}, "does not divide the arrays"),
        ({"next_name": 2**62}, "next row's name is too large"),
        ({"more": 1}, "unknown field"),
        ({"small": 3}, "cache from 3 rows on"),
        ({"next_name": 5}, "do not ascend below the next one"),
    ],
)
def test_wrong_manifests_are_refused(saved, change, said):
    _, path = saved
    manifest, arrays = parts(path)
    write(path, manifest | change, arrays)
    refused(path, said)


def test_wrong_settings_are_refused(saved):
    _, path = saved
    manifest, arrays = parts(path)
    for name, value in (("criterion", "mse"), ("attributes", 9), ("thresholds", 0), ("depth", 0)):
        write(path, manifest | {"settings": manifest["settings"] | {name: value}}, arrays)
        refused(path, f"the setting {name} is")


@pytest.mark.parametrize(
    ("name", "place", "value", "said"),
    [
        ("X", (0, 0), np.inf, "a value is too large"),
        ("X", (0, 0), 1e305, "a value is too large"),
        ("threshold", 0, np.nan, "a threshold is not a number"),
        ("threshold", 0, 77.0, "a leaf lists rows that do not fall into it"),
        ("feature", 0, 4, "splits on an attribute there is not"),
        ("feature", 0, -1, "not in preorder"),
        ("right", 0, 10**6, "not in preorder"),
        ("left", 0, 0, "not in preorder"),
        ("counts", (0, 0), 3, "does not count the rows"),
        ("rows", 0, 10**6, "do not list every row it holds once"),
        ("names", 5, 0, "do not ascend"),
        ("y", 0, 2, "labels are not numbered"),
        ("classes", 0, "yes", "labels are not distinct"),
        ("cached_node", 0, 1, "cache statistics are not those"),
        ("cached_attribute", 0, -1, "an attribute there is not"),
        ("cached_values", (0, 0), 0.123, "values that no two rows have"),
        ("cached_counts", (0, 0), -1, "fewer rows than none"),
    ],
)
def test_forests_that_contradict_themselves_are_refused(saved, name, place, value, said):
    _, path = saved
    manifest, arrays = parts(path)
    arrays[name][place] = value
    write(path, manifest, arrays)
    refused(path, said)


def test_a_changed_array_does_not_fit_the_digest(saved):
    _, path = saved
    manifest, arrays = parts(path)
    arrays["counts"][0, 0] += 1
    write(path, manifest, arrays, sign=False)
    refused(path, "the arrays are not those the manifest was written for")


def test_missing_arrays_and_other_types_are_refused(saved):
    _, path = saved
    manifest, arrays = parts(path)
    write(path, manifest, {n: a for n, a in arrays.items() if n != "rows"})
    refused(path, "the array 'rows' is missing")
    write(path, manifest, arrays | {"X": arrays["X"].astype(np.float32)})
    refused(path, "the array 'X' has another type")


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
