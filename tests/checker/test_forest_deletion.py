"""The checker's own forests are those that are trained, and its verdict on deletions is right."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from leaveout.errors import RejectedError
from leaveout.kernel.deletion import Forest, caches_sound, first_apart, hold_against, read_changes
from leaveout.kernel.forest_growth import train, without
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.values import Given
from leaveout.models.forest import DareForestClassifier
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify
from leaveout.verifier.values.subjects.forest import changes_between

from support.certificates import Content
from support.depth import rounds
from support.forest_scripts import random_data, random_forest, some_rows
from support.kernel_forests import read as read_forest

NAMES = np.array(["ja", "nein", "vielleicht", "nie"])


def drawn(rng, sizes=(2, 3, 8, 40, 130, 300)):
    X, y = random_data(rng, sizes)
    labels = NAMES[y] if rng.random() < 0.3 else y
    return random_forest(rng, X.shape[1], lazy=False).fit(X, labels)


@pytest.fixture
def read(tmp_path):
    def read(forest):
        forest.save(tmp_path / "forest.npz")
        return read_forest(tmp_path / "forest.npz")

    return read


def test_every_array_of_a_forest_is_that_of_the_checkers_own(read):
    for seed in range(rounds(120)):
        held = read(drawn(np.random.default_rng(seed)))
        assert first_apart(held, train(held)) is None, seed


def test_forests_without_rows_are_those_that_deletions_give(read):
    for seed in range(rounds(120)):
        rng = np.random.default_rng(seed)
        forest = drawn(rng)
        if len(forest.rows_) < 2:
            continue
        rows = some_rows(rng, forest)
        held, left = read(forest), forest.unlearn(rows)
        anew = train(without(held, rows.tolist()))
        hold_against(held, read_changes(changes_between(forest.ensemble(), left.ensemble())), anew)
        assert first_apart(read(left), anew) is None, seed


SPEC = """
let T = forest("forest.npz")
guarantee exact: forall z in points("rows.csv"): unlearn(T, z) == retrain(T, z)
guarantee kept: caches_sound(T)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deletion")
    X, y = load_breast_cancer(return_X_y=True)
    DareForestClassifier(5, k=5, d_rmax=1, max_depth=8, random_state=0).fit(X, y).save(
        folder / "forest.npz"
    )
    (folder / "rows.csv").write_text("row\n512\n3 4 5 6 7 8 9 10\n0\n")
    (folder / "s.spec").write_text(SPEC)
    verify(folder / "s.spec", certificate=folder / "s.cert")
    return folder


def test_a_certificate_of_deletions_is_accepted(folder, snapshot):
    exact, kept = check(folder / "s.cert")
    assert (exact.name, kept.name) == ("exact", "kept")
    assert exact.subject.told == snapshot


def altered(folder, alter):
    """Alter the arrays of one record, and check."""
    content = Content.of(folder / "s.cert")
    records = [name for name in content.arrays if name.endswith(".feature")]
    prefix = max(records, key=lambda name: len(content.arrays[name])).removesuffix(".feature")
    parts = {
        name.removeprefix(f"{prefix}."): value.copy()
        for name, value in content.arrays.items()
        if name.startswith(f"{prefix}.")
    }
    for name in parts:
        del content.arrays[f"{prefix}.{name}"]
    content.arrays.update({f"{prefix}.{name}": value for name, value in alter(parts).items()})
    content.save(folder / "forged.cert")
    return check(folder / "forged.cert")


def _at(name, place, change):
    def alter(parts):
        parts[name][place] = change(parts[name][place])
        return parts

    return alter


def _cut(*names):
    return lambda parts: {name: v[:-1] if name in names else v for name, v in parts.items()}


FORGERIES = {
    **{
        f"threshold up {i}": _at("threshold", i, lambda v: np.nextafter(v, np.inf))
        for i in range(8)
    },
    **{
        f"threshold down {i}": _at("threshold", -i - 1, lambda v: np.nextafter(v, -9e9))
        for i in range(8)
    },
    **{f"feature {i}": _at("feature", i, lambda v: (v + 1) % 30) for i in range(8)},
    **{f"leaf {i}": _at("feature", i, lambda v: -1 if v >= 0 else 3) for i in range(8)},
    **{f"digest {i}": _at("digest", i, lambda v: v ^ 1) for i in range(8)},
    **{f"node {i}": _at("node", i, lambda v: v + 1) for i in range(3)},
    **{f"size {i}": _at("size", i, lambda v: v + 1) for i in range(3)},
    **{f"tree {i}": _at("tree", i, lambda v: v - 1) for i in range(3)},
    "no tree": _at("tree", -1, lambda v: 99),
    "far node": _at("node", -1, lambda v: 10**6),
    "negative": _at("node", 0, lambda v: -1),
    "missing child": _cut("feature", "threshold"),
    "short threshold": _cut("threshold"),
    "missing change": _cut("tree", "node", "size"),
    "no digest": lambda parts: {n: v for n, v in parts.items() if n != "digest"},
    "nothing": lambda parts: {},
    "short digest": _cut("digest"),
    "other type": lambda parts: parts | {"feature": parts["feature"].astype(np.int64)},
    "all trees": lambda parts: parts | {"tree": parts["tree"] * 0},
    "backwards": lambda parts: parts | {k: parts[k][::-1].copy() for k in ("tree", "node", "size")},
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_record_is_rejected(folder, name):
    with pytest.raises(RejectedError):
        altered(folder, FORGERIES[name])


def test_a_record_that_is_as_it_was_is_accepted(folder):
    assert len(altered(folder, lambda parts: parts)) == 2


def test_another_forest_or_table_is_rejected(folder, tmp_path):
    content = Content.of(folder / "s.cert")
    for name in ("forest.npz", "rows.csv"):
        for each in ("forest.npz", "rows.csv"):
            (tmp_path / each).write_bytes((folder / each).read_bytes())
        if name == "rows.csv":
            (tmp_path / name).write_text("row\n512\n3 4\n0\n")
        else:
            X, y = load_breast_cancer(return_X_y=True)
            DareForestClassifier(5, max_depth=8, random_state=1).fit(X, y).save(tmp_path / name)
        content.save(tmp_path / "s.cert")
        with pytest.raises(RejectedError, match="SHA-256"):
            check(tmp_path / "s.cert")
        for part in content.manifest["values"]["files"]:
            part["sha256"] = _digest(tmp_path / part["path"])
        content.save(tmp_path / "s.cert")
        with pytest.raises(RejectedError):
            check(tmp_path / "s.cert")
        content = Content.of(folder / "s.cert")


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _swapped(held, part, place, change):
    """Return a forest with one number of one array of its first tree changed."""
    array = getattr(held.trees[0], part).copy()
    array[place] = change(array[place])
    return replace(held, trees=(replace(held.trees[0], **{part: array}), *held.trees[1:]))


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("feature", lambda v: v + 1),
        ("threshold", lambda v: np.nextafter(v, np.inf)),
        ("left", lambda v: v + 1),
        ("right", lambda v: v - 1),
        ("counts", lambda v: v + 1),
        ("rows", lambda v: v + 1),
        ("cached_node", lambda v: v + 1),
        ("cached_attribute", lambda v: v + 1),
        ("cached_values", lambda v: np.nextafter(v, np.inf)),
        ("cached_counts", lambda v: v + 1),
    ],
)
def test_a_wrong_number_in_a_forest_file_is_told(folder, part, change):
    held = read_forest(folder / "forest.npz")
    wrong = _swapped(held, part, 0, change)
    found = first_apart(wrong, train(wrong))
    assert found is not None
    assert "tree 0" in found
    caches_sound(Given({"forest": Forest(held)}))
    with pytest.raises(Rejected, match="tree 0"):
        caches_sound(Given({"forest": Forest(wrong)}))
    assert wrong.digest != held.digest


def test_damaged_files_are_refused(folder, tmp_path):
    content = (folder / "forest.npz").read_bytes()
    for cut in (0, 10, len(content) // 2):
        (tmp_path / "forest.npz").write_bytes(content[:cut])
        with pytest.raises(Rejected):
            read_forest(tmp_path / "forest.npz")
