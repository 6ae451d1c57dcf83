"""Forest files of either kind, with or without the training rows."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.arrays import Floats
from leaveout.errors import ForestError
from leaveout.models.archive import (
    MANIFEST,
    expect_arrays,
    holds_arrays,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)
from leaveout.models.forest.classifier import DareForestClassifier
from leaveout.models.forest.files import in_preorder, stored_labels
from leaveout.models.forest.scored import ScoredForest, ScoredTree
from leaveout.models.scikit import check_array

_VERSION = 1
_PARTS = tuple(field.name for field in fields(ScoredTree))
_TYPES = {"feature": "<i4", "threshold": "<f8", "left": "<i4", "right": "<i4", "shares": "<f8"}
_NAMES = ("classes", "sizes", *_PARTS, MANIFEST)


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything but the arrays; ``features`` is the number of features."""

    version: int
    kind: str
    features: int
    rounds_inputs: bool


def holds_scored(path: Path) -> bool:
    """Return whether a file holds a forest that only answers."""
    return holds_arrays(path, (*_PARTS, MANIFEST))


def write_scored(forest: ScoredForest, path: Path, *, features: int, kind: str) -> None:
    """Write a file atomically; equal forests give equal bytes."""
    classes = stored_labels(forest.classes, path)
    arrays: dict[str, NDArray[Any]] = {
        "classes": classes,
        "sizes": np.array([len(tree.feature) for tree in forest.trees], np.int64),
    }
    for part in _PARTS:
        arrays[part] = np.concatenate([getattr(tree, part) for tree in forest.trees])
    arrays[MANIFEST] = manifest_array(_Manifest(_VERSION, kind, features, forest.rounds_inputs))
    write_archive(path, arrays, ForestError, compressed=True)


def read_scored(path: Path) -> tuple[ScoredForest, int, str]:
    """Read and fully check a file; return its forest, number of features, and class."""
    arrays = read_archive(path, ForestError)
    expect_arrays(path, arrays, ForestError, _NAMES, ())
    manifest = read_manifest(path, arrays[MANIFEST], _Manifest, ForestError, _VERSION)
    for problem in _problems(arrays, manifest):
        raise ForestError(f"{path}: not a forest: {problem}; write it again")
    ends = np.cumsum(arrays["sizes"])[:-1]
    parts = [np.split(arrays[part], ends) for part in _PARTS]
    trees = tuple(ScoredTree(*each) for each in zip(*parts, strict=True))
    for i, tree in enumerate(trees):
        if not in_preorder(tree):
            raise ForestError(f"{path}: not a forest: tree {i}: its nodes are not in preorder")
    forest = ScoredForest(trees, arrays["classes"], manifest.rounds_inputs)
    return forest, manifest.features, manifest.kind


def _problems(arrays: dict[str, NDArray[Any]], manifest: _Manifest) -> Iterator[str]:
    sizes, classes = arrays["sizes"], arrays["classes"]
    for name, kind in _TYPES.items():
        if arrays[name].dtype != np.dtype(kind) or arrays[name].ndim != 1 + (name == "shares"):
            yield f"the array {name!r} has the wrong type"
    nodes = len(arrays["feature"])
    if sizes.dtype != np.int64 or sizes.ndim != 1 or not len(sizes) or np.any(sizes < 1):
        yield "'sizes' does not count the nodes of each tree"
    elif any(len(arrays[name]) != nodes for name in _PARTS) or int(sizes.sum()) != nodes:
        yield "its arrays differ in length"
    elif classes.ndim != 1 or classes.dtype.kind not in "biufU" or not len(classes):
        yield "the labels are neither numbers nor text"
    elif np.any(classes[1:] <= classes[:-1]) or arrays["shares"].shape[1] != len(classes):
        yield "the labels are not ascending, or do not each have a share"
    elif not 1 <= manifest.features < 2**31:
        yield f"its rows have {manifest.features} features"
    elif np.any(arrays["feature"] < -1) or np.any(arrays["feature"] >= manifest.features):
        yield "a node splits on a feature that does not exist"
    elif not all(np.all(np.isfinite(arrays[name])) for name in ("threshold", "shares")):
        yield "a threshold or a share is not a number"


_READ = (
    "RandomForestClassifier", "ExtraTreesClassifier", "DecisionTreeClassifier",
    "ExtraTreeClassifier",
)  # fmt: skip
_ASKED = 512  # inputs that both programs are asked about when a forest is read


@dataclass(frozen=True, eq=False)
class SklearnForest:
    """A scikit-learn random forest: it answers, but cannot delete rows.

    Made by `from_sklearn`. It predicts what the estimator with ``n_jobs=1`` does, bit for bit.

    Attributes
    ----------
    scored : ScoredForest
        Its trees, in the order in which predictions are added.
    n_features_in_ : int
    kind : str
        The class of the estimator.
    """

    scored: ScoredForest
    n_features_in_: int
    kind: str

    # What is equal by its arrays is not hashed by them.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SklearnForest):
            return NotImplemented
        return self is other or self.difference(other) is None

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in ascending order."""
        return self.scored.classes

    @property
    def n_estimators(self) -> int:
        """The number of trees."""
        return len(self.scored.trees)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the mean over trees of the label shares in each row's leaf.

        Raises
        ------
        ForestError
            If a value is missing, infinite in float32 or no number, or there are not as many a row
            as the forest reads.
        """
        return self.scored.probabilities(self._check(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label with the greatest mean share; ties go to the smallest."""
        labels: NDArray[Any] = self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return labels

    def difference(self, other: object) -> str | None:
        """Return a sentence on the first difference of two forests, or None."""
        if not isinstance(other, SklearnForest):
            return f"one is read from scikit-learn, the other is a {type(other).__name__}"
        sizes = self.n_features_in_, other.n_features_in_
        if sizes[0] != sizes[1]:
            return f"one reads {sizes[0]} features, the other {sizes[1]}"
        labels = self.classes_.tolist(), other.classes_.tolist()
        if labels[0] != labels[1]:
            return f"the labels are {labels[0]} in one and {labels[1]} in the other"
        trees = self.scored.trees, other.scored.trees
        if len(trees[0]) != len(trees[1]):
            return f"one has {len(trees[0])} trees, the other {len(trees[1])}"
        for i, (a, b) in enumerate(zip(*trees, strict=True)):
            found = _node_apart(a, b)
            if found is not None:
                return f"tree {i}, node {found}, counted from 0 in preorder, differs"
        return None

    def save(self, path: str | Path) -> None:
        """Write the forest to one file, atomically, for ``forest("...")`` to read.

        Raises
        ------
        ForestError
            If it cannot be written, or the labels are neither numbers nor text.
        """
        write_scored(self.scored, Path(path), features=self.n_features_in_, kind=self.kind)

    @classmethod
    def load(cls, path: str | Path) -> SklearnForest:
        """Read a forest from a file.

        Raises
        ------
        ForestError
            If the file cannot be read, is damaged, of another version, or holds no such forest.
        """
        return cls(*read_scored(Path(path)))

    def _check(self, X: ArrayLike) -> Floats:
        """Return inputs as scikit-learn compares them: rounded once, to float32."""
        with np.errstate(over="ignore"):
            values = check_array(X, dtype=np.float32, ensure_all_finite=False)
        if values.shape[1] != self.n_features_in_:
            raise ForestError(
                f"X has {values.shape[1]} features, but the forest reads {self.n_features_in_}"
            )
        if not np.isfinite(values).all():
            row, feature = np.argwhere(~np.isfinite(values))[0].tolist()
            what = "missing" if np.isnan(values[row, feature]) else "too large for float32"
            raise ForestError(
                f"X[{row}, {feature}] is {what}; a forest read from scikit-learn only accepts "
                "numbers: fill the gaps first, and train on the filled data"
            )
        return np.asarray(values, np.float64)


def from_sklearn(estimator: Any) -> SklearnForest:
    """Return a fitted forest, or single tree, of scikit-learn as plain trees.

    What it answers is compared with what the estimator answers at values around its thresholds.

    Parameters
    ----------
    estimator : object
        A fitted ``RandomForestClassifier``, ``ExtraTreesClassifier``, ``DecisionTreeClassifier`` or
        ``ExtraTreeClassifier`` on one label a row. How it was trained does not matter: weights,
        bootstrap samples, pruning and monotonic constraints are in its trees.

    Raises
    ------
    ForestError
        If it is of another class, is not fitted, has several outputs, or does not answer as its
        trees say.

    Notes
    -----
    As scikit-learn computes it: a value is rounded to float32 and goes left if it is at most the
    threshold, a float64; a leaf's shares are those that the tree keeps (``tree_.value``); they are
    added in float64 from 0 on, tree after tree, and the sum is divided once. Where training data
    had missing values, a threshold may be infinite: everything that is not missing goes left.
    """
    kind = type(estimator).__name__
    _refuse(estimator, kind)
    trees = [estimator] if hasattr(estimator, "tree_") else list(estimator.estimators_)
    scored = ScoredForest(
        tuple(_plain(each.tree_) for each in trees), np.asarray(estimator.classes_),
        rounds_inputs=True,
    )  # fmt: skip
    forest = SklearnForest(scored, int(estimator.n_features_in_), kind)
    _compare(estimator, forest)
    return forest


def _refuse(estimator: Any, kind: str) -> None:
    """Refuse anything but a classification forest."""
    home = type(estimator).__module__.startswith("sklearn.")
    if kind.endswith("Regressor") and home:
        raise ForestError(
            f"{kind} predicts numbers: only forests that predict labels are "
            "supported, so use a classifier"
        )
    if kind not in _READ or not home:
        raise ForestError(
            f"{kind} is not supported: use {', '.join(_READ[:-1])} or {_READ[-1]} of scikit-learn"
        )
    if not (hasattr(estimator, "tree_") or hasattr(estimator, "estimators_")):
        raise ForestError(f"{kind} is not fitted: call fit first")
    if estimator.n_outputs_ > 1:
        raise ForestError(
            f"{kind} was fitted on {estimator.n_outputs_} labels per row: fit one forest per label"
        )


def _plain(tree: Any) -> ScoredTree:
    """Return a scikit-learn tree with its nodes in preorder."""
    left, right = tree.children_left.tolist(), tree.children_right.tolist()
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if left[node] >= 0:
            waiting += (right[node], left[node])
    places = np.full(tree.node_count, -1, np.int32)
    places[order] = np.arange(len(order))
    inner = tree.children_left[order] >= 0
    # Every number is below it, as below infinity.
    threshold = np.minimum(tree.threshold[order], np.finfo(np.float64).max)
    return ScoredTree(
        feature=np.where(inner, tree.feature[order], -1).astype(np.int32),
        threshold=np.where(inner, threshold, 0.0),
        left=np.where(inner, places[tree.children_left[order]], -1).astype(np.int32),
        right=np.where(inner, places[tree.children_right[order]], -1).astype(np.int32),
        shares=np.ascontiguousarray(tree.value[order, 0, :], np.float64),
    )


def _compare(estimator: Any, forest: SklearnForest) -> None:
    """Compare both forests' answers next to thresholds; refuse any difference."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(_ASKED, forest.n_features_in_)).astype(np.float32)
    for feature in range(X.shape[1]):
        cuts = np.concatenate([t.threshold[t.feature == feature] for t in forest.scored.trees])
        near = cuts[np.abs(cuts) < 2.0**127].astype(np.float32)
        if len(near):
            above, below = (np.nextafter(near, np.float32(end)) for end in (np.inf, -np.inf))
            X[:, feature] = rng.choice(np.concatenate((near, above, below)), _ASKED)
    alone = copy.copy(estimator)
    if hasattr(alone, "n_jobs"):
        # With several threads the order of adding is left to chance.
        alone.n_jobs, alone.verbose = 1, 0
    if hasattr(alone, "feature_names_in_"):
        # What is asked is no DataFrame.
        del alone.feature_names_in_
    if not np.array_equal(alone.predict_proba(X), forest.predict_proba(X)):
        raise ForestError(
            f"{forest.kind} does not answer as its trees do: this version of scikit-learn "
            "computes its shares in an unknown way"
        )


def _node_apart(a: ScoredTree, b: ScoredTree) -> int | None:
    """Return the first node where two trees differ, ignoring shares of inner nodes."""
    both = min(len(a.feature), len(b.feature))
    apart = a.feature[:both] != b.feature[:both]
    for one, other in ((a.threshold, b.threshold), (a.left, b.left), (a.right, b.right)):
        apart |= one[:both] != other[:both]
    apart |= (a.feature[:both] < 0) & (a.shares[:both] != b.shares[:both]).any(axis=1)
    if apart.any():
        return int(apart.argmax())
    return None if len(a.feature) == len(b.feature) else both


Forest = DareForestClassifier | SklearnForest
"""Both answer; the first alone knows its rows, and forgets them."""


def read_forest(path: Path | str) -> Forest:
    """Read a forest file of either kind.

    Raises
    ------
    ForestError
        If it cannot be read, is damaged or of another version.
    """
    if holds_scored(Path(path)):
        return SklearnForest.load(path)
    return DareForestClassifier.load(path)


def scored_with_rows(forest: Forest) -> tuple[ScoredForest, NDArray[np.float64]]:
    """Return a forest's scored form and its known rows, shape (rows, features)."""
    if isinstance(forest, SklearnForest):
        return forest.scored, np.empty((0, forest.n_features_in_))
    ensemble = forest.ensemble()
    return ScoredForest.of(ensemble), ensemble.X


def exact_forest(forest: object) -> DareForestClassifier:
    """Return the forest itself if rows can be deleted from it; raise otherwise.

    Raises
    ------
    ForestError
        If it was read from scikit-learn.
    """
    if isinstance(forest, SklearnForest):
        raise ForestError(
            f"the forest was read from scikit-learn's {forest.kind}, which stores no rows, so "
            "none can be deleted and the effect of each is unknown; train a "
            "DareForestClassifier on the same rows"
        )
    if not isinstance(forest, DareForestClassifier):
        raise ForestError(f"a {type(forest).__name__} is not a DareForestClassifier")
    return forest
