"""Archives of trees: what was written is read, and nothing else."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

from leaveout.errors import TreesError
from leaveout.kernel.trees import Nodes
from leaveout.models.archive import MANIFEST, manifest_array, read_archive, write_archive
from leaveout.models.trees.files import write_trees
from leaveout.models.trees.reading import of_model, read_trees

from support.damage import refusal_of
from support.depth import rounds


@pytest.fixture(scope="module")
def ensemble():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[:, 1] = rng.integers(0, 9, 80)
    model = HistGradientBoostingClassifier(max_iter=3, categorical_features=[1], min_samples_leaf=3)
    return of_model(model.fit(X, rng.integers(0, 3, 80)))


def test_what_is_written_is_read(tmp_path, ensemble):
    path = tmp_path / "model.npz"
    write_trees(ensemble, path)
    first = path.read_bytes()
    found = read_trees(path)
    for field in fields(Nodes):
        assert np.array_equal(getattr(found.nodes, field.name), getattr(ensemble.nodes, field.name))
    for field in fields(ensemble):
        if field.name not in ("nodes", "base"):
            assert getattr(found, field.name) == getattr(ensemble, field.name)
    assert np.array_equal(found.base, ensemble.base)
    write_trees(found, path)
    assert path.read_bytes() == first


def test_numbers_that_are_next_to_zero_stay(tmp_path):
    X = np.arange(6.0)[:, None]
    model = GradientBoostingClassifier(n_estimators=2).fit(X, X[:, 0] > 2)
    found = of_model(model)
    assert found.center < 0
    write_trees(found, tmp_path / "model.npz")
    assert read_trees(tmp_path / "model.npz").center == found.center


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feature": "more"}, "differ in length"),
        ({"feature": 9}, "a feature that does not exist"),
        ({"threshold": np.nan}, "not a number"),
        ({"right": 0}, "a child"),
        ({"left": 0}, "not in preorder"),
        ({"values": np.inf}, "not finite"),
        ({"set": 999}, "a set that does not exist"),
        ({"base": "more"}, "'base' is not"),
        ({"base": np.nan}, "'base' is not"),
        ({"threshold": "float32"}, "'threshold' has the wrong type"),
        ({"sets": None}, "no array 'sets'"),
        ({"news": "new"}, "unknown array 'news'"),
    ],
)
def test_arrays_that_are_no_trees_are_refused(tmp_path, ensemble, change, message):
    path = tmp_path / "model.npz"
    write_trees(ensemble, path)
    arrays = read_archive(path, TreesError)
    for name, value in change.items():
        if value is None:
            del arrays[name]
        elif value == "new":
            arrays[name] = np.zeros(3)
        elif value == "more":
            arrays[name] = np.append(arrays[name], arrays[name][:1])
        elif value == "float32":
            arrays[name] = arrays[name].astype(np.float32)
        else:
            arrays[name] = arrays[name].copy()
            arrays[name].flat[0] = value
    write_archive(path, arrays, TreesError)
    with pytest.raises(TreesError, match=message):
        read_trees(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ("a", "a", "b")}, "two labels"),
        ({"labels": ("a", "b")}, "2 labels of 3 scores"),
        ({"names": ("a",)}, "has 1 names"),
        ({"divisor": 0}, "'divisor'"),
        ({"tie": -1.0}, "'tie'"),
        ({"link": "odd"}, "the link 'odd'"),
        ({"features": 1}, "a feature that does not exist"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, ensemble, change, message):
    path = tmp_path / "model.npz"
    write_trees(replace(ensemble, **change), path)
    with pytest.raises(TreesError, match=message):
        read_trees(path)


def test_another_manifest_is_refused(tmp_path, ensemble):
    path = tmp_path / "model.npz"
    write_trees(ensemble, path)
    arrays = read_archive(path, TreesError)
    arrays[MANIFEST] = manifest_array({"version": 2})
    write_archive(path, arrays, TreesError)
    with pytest.raises(TreesError, match="version 2"):
        read_trees(path)


def test_damaged_archives_are_refused(tmp_path, ensemble):
    path = tmp_path / "model.npz"
    write_trees(ensemble, path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(rounds(60)):
        at = int(rng.integers(0, len(data)))
        assert refusal_of(path, data[:at])
        refusal_of(path, data[:at] + bytes([rng.integers(0, 256)]) + data[at + 1 :])
