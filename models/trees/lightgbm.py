"""LightGBM's models, from its text format (versions 3 and 4).

LightGBM compares float64 inputs, ``x <= t``, takes numbers next to zero for zero, and sums in
float64, tree after tree.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.numbers import need
from leaveout.kernel.trees import Ensemble
from leaveout.models.trees.assemble import (
    Sets,
    Tree,
    assemble,
    expect,
    label_names,
    place,
    saturation_tie,
    whole,
)

START = b"tree\n"  # how a file begins

_ZERO = float(np.float32(1e-35))  # LightGBM takes numbers of at most this magnitude for zero
_BELOW_ZERO = float(np.nextafter(-_ZERO, -np.inf))
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_NO_MISSING, _ZERO_MISSING = 0, 1
_TIE = 2.0**-48  # above what a few roundings do to a logistic function near 1/2, or to a softmax
_COPIES = 64  # how many times a tree may grow where zero is missing

_LINKS = {
    **dict.fromkeys(
        ("custom", "regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"
    ),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    **dict.fromkeys(("binary", "cross_entropy", "multiclassova"), "sigmoid"),
    "multiclass": "softmax",
}
_HEADER = {
    "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective",
    "average_output", "feature_names", "monotone_constraints", "feature_infos", "tree_sizes",
}  # fmt: skip
_TREE = {
    "num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type",
    "left_child", "right_child", "leaf_value", "leaf_weight", "leaf_count", "internal_value",
    "internal_weight", "internal_count", "cat_boundaries", "cat_threshold", "is_linear",
    "shrinkage", "leaf_const", "num_features", "leaf_features", "leaf_coeff",
}  # fmt: skip


def read_text(data: bytes) -> Ensemble:
    """Read what ``save_model("model.txt")`` wrote."""
    text = data.decode().replace("\r\n", "\n")
    head, separator, rest = text.partition("\n\n")
    expect(separator != "", "is truncated")
    header = _fields(head.removeprefix("tree\n"), _HEADER)
    features = _whole(header, "max_feature_idx") + 1
    scores = _whole(header, "num_tree_per_iteration")
    version = header.get("version", "")[:20]
    need(version in ("v3", "v4"), f"has version {version!r}, but v3 and v4 are read; load it in "
         "LightGBM 4 and save it again")  # fmt: skip
    objective, settings = _objective(header.get("objective", "custom"))
    sets, trees = Sets(), []
    for number, part in enumerate(_parts(header, rest.lstrip("\n"))):
        with place(f"tree {number}"):
            trees.append(_tree(_fields(part, _TREE), number % max(scores, 1), sets))
    expect(scores > 0 and len(trees) % scores == 0, f"has {len(trees)} trees, {scores} a round")
    nodes = assemble(trees, sets, scores, features)
    several = objective.startswith("multiclass")
    expect(several == (scores > 1) and settings.get("num_class", scores) == scores,
           f"{scores} trees a round do not fit the objective {objective!r}")  # fmt: skip
    names = tuple(header["feature_names"].split(" ")) if header.get("feature_names") else ()
    expect(len(names) in (0, features), f"has {len(names)} feature_names of {features} features")
    slope = settings.get("sigmoid", 1.0)
    expect(0 < slope < np.inf, f"sigmoid is {slope}, not a number above 0")
    classes = scores if several else 2 if objective == "binary" else 0
    ensemble = Ensemble(
        nodes, np.zeros(scores), tuple(map(str, range(classes))), features, names,
        divisor=len(trees) // scores if "average_output" in header else 1, link=_LINKS[objective],
        tie=_TIE / min(slope, 1.0) if classes else 0.0, source=f"LightGBM ({objective})",
    )  # fmt: skip
    if objective == "multiclassova":
        return replace(ensemble, tie=saturation_tie(ensemble, slope))
    return ensemble


def of_lightgbm(model: Any) -> Ensemble:
    """Return a fitted model's trees, up to its best iteration as in its own ``predict``."""
    booster = getattr(model, "booster_", model)
    if booster is not model:
        for name, value in model.get_params().items():
            need(not value or name not in ("pred_early_stop", "start_iteration_predict"),
                 f"the parameter {name} changes predictions; leave it out")  # fmt: skip
    ensemble = read_text(booster.model_to_string().encode())
    if ensemble.labels and booster is not model:
        labels = label_names(model.classes_, len(ensemble.labels))
        return replace(ensemble, labels=labels)
    return ensemble


def _fields(text: str, known: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition("=")
        if not line:
            continue
        need(name in known, f"{name[:40]!r} is not understood; train without it")
        expect(name not in found, f"{name!r} stands twice")
        found[name] = value
    return found


def _parts(header: dict[str, str], text: str) -> list[str]:
    """Return the text of each tree; sizes are those that the header tells."""
    found, at = [], 0
    data = text.encode()
    for number, word in enumerate(header.get("tree_sizes", "").split()):
        size = int(word) if word.isascii() and word.isdigit() and len(word) < 12 else 0
        part = data[at : at + size].decode(errors="replace")
        start = f"Tree={number}\n"
        expect(part.startswith(start) and part.endswith("\n\n") and len(data) >= at + size,
               f"tree {number} is not where tree_sizes says")  # fmt: skip
        found.append(part.removeprefix(start))
        at += size
    expect(data[at:].startswith(b"end of trees\n"), "has more trees, or is truncated")
    return found


def _objective(text: str) -> tuple[str, dict[str, float]]:
    name, *words = text.split(" ")
    need(name in _LINKS, f"objective {name[:40]!r} is not supported; train a classifier or a "
         "regression")  # fmt: skip
    found = {}
    for word in filter(None, words):
        key, colon, value = word.partition(":")
        cure = "train without reg_sqrt" if word == "sqrt" else "train without it"
        need(colon == ":" and key in ("num_class", "sigmoid", "alpha"),
             f"{word[:40]!r} of the objective is not supported; {cure}")  # fmt: skip
        with place("objective"):
            found[key] = float(value)
    return name, found


def _tree(found: dict[str, str], score: int, sets: Sets) -> Tree:
    need(found.get("is_linear", "0") == "0", "has linear leaves; train without linear_tree")
    leaves = _whole(found, "num_leaves")
    inner = leaves - 1
    values = _numbers(found, "leaf_value", leaves, np.float64)
    threshold = _numbers(found, "threshold", inner, np.float64)
    kind = _numbers(found, "decision_type", inner, np.int64)
    expect((kind >= 0) & (kind < 12) & ~np.isnan(threshold), "a decision_type or threshold is odd")
    feature = _numbers(found, "split_feature", inner, np.int64)
    # Leaf i is child -i - 1.
    sides = [_numbers(found, name, inner, np.int64) for name in ("left_child", "right_child")]
    left, right = (np.where(side < 0, inner - 1 - side, side) for side in sides)
    inside = [(side >= -leaves) & (side < inner) for side in sides]
    expect([*inside, feature >= 0], "a child or feature does not exist")
    categorical = (kind & _CATEGORICAL) != 0
    default = (kind & _DEFAULT_LEFT) != 0
    missing = kind >> 2
    asks = np.full(inner, -1, np.int64)
    bits = _bit_sets(found) if categorical.any() else []
    for node in np.flatnonzero(categorical):
        at = threshold[node]
        expect(0 <= at < len(bits) and at == int(at), "a set of categories does not exist")
        asks[node] = sets.add(bits[int(at)])
    zero = (missing == _ZERO_MISSING) & ~categorical
    # Where zero is not missing, all that is taken for zero goes where zero goes.
    near = (threshold >= -_ZERO) & (threshold < _ZERO)
    zero_left = np.where(zero, default, threshold >= 0)
    plain = np.where(near, np.where(zero_left, _ZERO, _BELOW_ZERO), threshold)
    conflict = zero & ~near & (default != (threshold >= 0))
    expect(~np.isin(feature, feature[conflict]) | zero, "zero is missing in some nodes only")
    # Negative categories are those below 0 without their fraction.
    plain = np.where(categorical, np.nextafter(-1.0, 0.0), plain)
    goes = np.where(missing == _NO_MISSING, threshold >= 0, default) & ~categorical
    tree = Tree(
        np.append(feature, np.full(leaves, -1)), np.append(plain, np.zeros(leaves)),
        np.append(goes, np.zeros(leaves, bool)), np.append(asks, np.full(leaves, -1)),
        np.append(left, np.zeros(leaves, np.int64)), np.append(right, np.zeros(leaves, np.int64)),
        np.append(np.zeros(inner), values), score,
    )  # fmt: skip
    return _split_at_zero(tree, conflict) if conflict.any() else tree


def _split_at_zero(tree: Tree, conflict: NDArray[np.bool_]) -> Tree:
    """Return a tree that asks whether a value is near zero before it asks of its size.

    Needed where zero is missing and goes to the other side than its size says. A path knows of
    which features it has asked: whether they are below zero (-1), near (0) or above (1).
    """
    apart = set(tree.feature[: len(conflict)][conflict].tolist())
    feature, left, right = tree.feature.tolist(), tree.left.tolist(), tree.right.tolist()
    threshold, default = tree.threshold.tolist(), tree.missing_left.tolist()
    node_of: list[int] = []
    cut: list[float] = []
    sides: tuple[list[int], list[int]] = ([], [])
    start: dict[int, int] = {}
    waiting: list[tuple[int, dict[int, int], int, int]] = [(0, start, -1, 0)]
    while waiting:
        node, signs, parent, side = waiting.pop()
        asked = feature[node]
        if asked in signs:
            sign = signs[asked]
            if sign == 0:
                waiting.append(((left if default[node] else right)[node], signs, parent, side))
                continue
            if threshold[node] >= _BELOW_ZERO if sign < 0 else threshold[node] <= _ZERO:
                waiting.append(((left if sign < 0 else right)[node], signs, parent, side))
                continue
        here = len(node_of)
        need(here <= _COPIES * len(feature) + 1000,
             "zero is missing in too many features; train without zero_as_missing")  # fmt: skip
        if parent >= 0:
            sides[side][parent] = here
        node_of.append(node)
        cut.append(threshold[node])
        for each in sides:
            each.append(0)
        if asked in apart and asked not in signs:
            # Below zero, or else: near zero (where missing values go), or above.
            cut[here] = _BELOW_ZERO
            waiting.append((node, {**signs, asked: -1}, here, 0))
            node_of.append(node)
            cut.append(_ZERO)
            sides[0].append(0)
            sides[1].append(0)
            sides[1][here] = here + 1
            waiting.append((node, {**signs, asked: 0}, here + 1, 0))
            waiting.append((node, {**signs, asked: 1}, here + 1, 1))
        elif asked >= 0:
            waiting += ((left[node], signs, here, 0), (right[node], signs, here, 1))
    at, cuts = np.array(node_of), np.array(cut)
    split = np.isin(tree.feature[at], list(apart))
    missing = np.where(split, cuts == _ZERO, tree.missing_left[at])
    below, above = (np.array(side, np.int64) for side in sides)
    return Tree(
        tree.feature[at], cuts, missing, tree.set[at], below, above, tree.values[at], tree.score
    )


def _bit_sets(found: dict[str, str]) -> list[NDArray[np.int64]]:
    bounds = _numbers(found, "cat_boundaries", _whole(found, "num_cat") + 1, np.int64)
    words = _numbers(found, "cat_threshold", int(bounds[-1]), np.int64)
    steps = np.diff(bounds)
    expect(bounds[0] == 0 and (steps >= 0).all(), "cat_boundaries are damaged")
    expect((words >= 0) & (words < 2**32), "cat_threshold is damaged")
    bits = (words[:, None] >> np.arange(32)) & 1 != 0
    return [np.flatnonzero(bits[a:b]) for a, b in pairwise(bounds)]


def _numbers(found: dict[str, str], name: str, count: int, kind: Any) -> NDArray[Any]:
    words = found.get(name, "").split()
    expect(len(words) == count, f"has {len(words)} numbers in {name}, but needs {count}")
    with place(name):
        parse = float if kind is np.float64 else int
        return np.array([parse(word) for word in words], kind)


def _whole(found: dict[str, str], name: str) -> int:
    return whole(found.get(name, ""), name)
