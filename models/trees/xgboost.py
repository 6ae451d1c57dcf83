"""XGBoost's models, from JSON or UBJSON (versions 1.6 to 3).

XGBoost compares inputs rounded to float32, ``x < t``, and sums in float32, tree after tree. With
dart, `inplace_predict` (and so `XGBClassifier.predict`) sums otherwise than `Booster.predict`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sized
from typing import Any

import msgspec
import numpy as np

from leaveout.arrays import Floats
from leaveout.errors import TreesError
from leaveout.kernel.forest_file import before_rounding
from leaveout.kernel.numbers import need
from leaveout.kernel.trees import Ensemble, Nodes
from leaveout.models.trees.assemble import (
    Sets,
    Tree,
    assemble,
    before,
    expect,
    float32_of,
    place,
    whole,
)

_TIE = 2.0**-20
"""Above what a few roundings to float32 do to a logistic function near 1/2, or to a softmax."""
_CATEGORIES = 2**24
_DEEPEST = 64  # how deep values of a UBJSON file may be nested; XGBoost nests ten

_IDENTITY = {
    "reg:squarederror", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror",
    "reg:quantileerror", "reg:expectileerror", "binary:hinge",
}  # fmt: skip
_LINKS = {
    **dict.fromkeys(_IDENTITY, "identity"),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "sigmoid"),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), "exp"),
}
_CURES = {
    "binary:logitraw": "its labels depend on who asks; train with binary:logistic",
    "rank:": "a score that only ranks has no labels; train a classifier or a regression",
    "survival:": "survival times are not supported; train a regression",
}

_OBJECTIVE = {
    "name", "reg_loss_param", "softmax_multiclass_param", "poisson_regression_param",
    "tweedie_regression_param", "pseudo_huber_param", "quantile_loss_param",
    "expectile_loss_param", "lambdarank_param", "lambda_rank_param", "aft_loss_param",
}  # fmt: skip
"""The objective; its parameters matter in training alone."""

_Flags = list[bool | int]


class _Param(msgspec.Struct, forbid_unknown_fields=True):
    """The size of a tree."""

    num_nodes: str
    num_feature: str = "0"
    num_deleted: str = "0"
    size_leaf_vector: str = "0"


class _Tree(msgspec.Struct, forbid_unknown_fields=True):
    """A tree, node by node; a leaf's value stands among the conditions."""

    left_children: list[int]
    right_children: list[int]
    split_indices: list[int]
    split_conditions: list[float]
    default_left: _Flags
    tree_param: _Param
    split_type: list[int] | None = None
    categories: list[int] = []
    categories_nodes: list[int] = []
    categories_segments: list[int] = []
    categories_sizes: list[int] = []
    # What training knew, and no prediction reads.
    base_weights: Any = None
    id: Any = None
    loss_changes: Any = None
    parents: Any = None
    sum_hessian: Any = None


class _Trees(msgspec.Struct, forbid_unknown_fields=True):
    trees: list[_Tree]
    tree_info: list[int]
    gbtree_model_param: dict[str, str]
    iteration_indptr: list[int] | None = None
    # Names of categories, for data frames; inputs here are numbers.
    cats: Any = None


class _Booster(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    model: _Trees | None = None
    gbtree: _Booster | None = None
    weight_drop: list[float] | None = None


class _Parameters(msgspec.Struct, forbid_unknown_fields=True):
    base_score: str
    num_class: str
    num_feature: str
    num_target: str = "1"
    # Whether training was to estimate base_score.
    boost_from_average: str = "0"


class _Learner(msgspec.Struct, forbid_unknown_fields=True):
    gradient_booster: dict[str, Any]
    learner_model_param: _Parameters
    objective: dict[str, Any]
    attributes: dict[str, str] = {}
    feature_names: list[str] = []
    feature_types: list[str] = []


class _Model(msgspec.Struct, forbid_unknown_fields=True):
    learner: _Learner
    version: tuple[int, int, int]
    # Settings of training, which a pickled model carries along.
    config: Any = msgspec.field(default=None, name="Config")


def read_json(data: bytes) -> Ensemble:
    """Read what ``save_model("model.json")`` wrote."""
    return _read(msgspec.json.decode(data, type=dict[str, Any]), all_rounds=False)


def read_ubj(data: bytes, *, rounds: int | None = None, all_rounds: bool = False) -> Ensemble:
    """Read what ``save_model("model.ubj")`` wrote; of a number of rounds, if that is given."""
    return _read(_Ubj(data).read(), rounds, all_rounds=all_rounds)


def of_xgboost(model: Any) -> Ensemble:
    """Return a fitted model's trees: those that its own ``predict`` uses."""
    if not hasattr(model, "get_booster"):
        return read_ubj(bytes(model.save_raw("ubj")), all_rounds=True)
    missing = getattr(model, "missing", math.nan)
    need(missing is None or math.isnan(missing), f"the parameter missing is {missing}; put NaN for "
         "missing values, and train again")  # fmt: skip
    booster = model.get_booster()
    best = booster.attributes().get("best_iteration")
    rounds = None if best is None else whole(best, "best_iteration") + 1
    return read_ubj(bytes(booster.save_raw("ubj")), rounds=rounds, all_rounds=True)


def _read(found: Any, rounds: int | None = None, *, all_rounds: bool) -> Ensemble:
    model = msgspec.convert(found, _Model)
    version = ".".join(map(str, model.version))
    need((1, 6) <= model.version[:2] < (4, 0), f"XGBoost {version} wrote it, but versions 1.6 to 3 "
         "are read; load it in one of those and save it again")  # fmt: skip
    learner = model.learner
    param, objective = learner.learner_model_param, str(learner.objective.get("name"))
    unknown = sorted({*learner.objective} - _OBJECTIVE)
    need(not unknown, f"the objective has {unknown[:1]}, which is not understood")
    if objective not in _LINKS:
        cures = [cure for name, cure in _CURES.items() if objective.startswith(name)]
        cure = cures[0] if cures else f"train with one of {', '.join(sorted(_LINKS))}"
        raise TreesError(f"objective {objective!r} is not supported; {cure}")
    booster, drops = _booster(learner.gradient_booster)
    weights = [1.0] * len(booster.trees) if drops is None else drops
    features = whole(param.num_feature, "num_feature")
    classes, targets = whole(param.num_class, "num_class"), whole(param.num_target, "num_target")
    softmax, binary = objective.startswith("multi:"), objective.startswith("binary:")
    need(softmax != (classes < 2) and not (softmax and targets > 1) and targets > 0,
         f"num_class {classes} and num_target {targets} do not fit {objective}")  # fmt: skip
    need(not binary or targets == 1, f"num_target is {targets}: train one model for each label")
    scores = max(classes, targets)
    count = _count(booster, learner.attributes, rounds, all_rounds=all_rounds)
    sets, trees = Sets(), []
    for number, tree in enumerate(booster.trees[:count]):
        with place(f"tree {number}"):
            trees.append(_tree(tree, booster.tree_info[number], weights[number], sets))
    nodes = assemble(trees, sets, scores, features)
    names = learner.feature_names
    need(len(names) in (0, features), f"has {len(names)} feature_names of {features} features")
    labels = classes if softmax else 2 if binary else 0
    base = _base(param.base_score, scores, _LINKS[objective])
    return Ensemble(
        nodes, base, tuple(map(str, range(labels))), features, tuple(names), single=True,
        ordered=drops is None, slack=0.0 if drops is None else _slack(nodes, base, weights[:count]),
        link=_LINKS[objective],
        tie=_TIE if objective in ("binary:logistic", "multi:softprob") else 0.0, rounds_inputs=True,
        source=f"XGBoost {version} ({objective})",
    )  # fmt: skip


def _booster(found: dict[str, Any]) -> tuple[_Trees, list[float] | None]:
    """Return the trees, and the weight of each if they have any."""
    need(found.get("name") != "gblinear", "booster 'gblinear' has no trees; train with gbtree")
    booster, weights = msgspec.convert(found, _Booster), None
    if booster.name == "dart" and booster.gbtree is not None and booster.model is None:
        booster, weights = booster.gbtree, booster.weight_drop
    if booster.name != "gbtree" or booster.model is None or booster.gbtree is not None:
        raise TreesError(f"booster {booster.name!r} is not supported; train with gbtree or dart")
    trees = booster.model
    count = whole(trees.gbtree_model_param.get("num_trees", ""), "num_trees")
    expect(count == len(trees.trees) == len(trees.tree_info),
           f"num_trees is {count}, but it has {len(trees.trees)}")  # fmt: skip
    weights = booster.weight_drop if weights is None else weights
    expect(weights is None or len(weights) == count, f"weight_drop is not for {count} trees")
    return trees, weights


def _count(
    booster: _Trees, attributes: dict[str, str], rounds: int | None, *, all_rounds: bool
) -> int:
    """Return how many trees count, since early stopping may leave some out."""
    count = len(booster.trees)
    best = attributes.get("best_iteration")
    if rounds is None and (all_rounds or best is None):
        return count
    rounds = whole(str(best), "best_iteration") + 1 if rounds is None else rounds
    ends = booster.iteration_indptr
    if ends is None:
        groups = max(booster.tree_info, default=0) + 1
        name = "num_parallel_tree"
        step = groups * whole(booster.gbtree_model_param.get(name, "1"), name)
        ends = list(range(0, count + 1, max(step, 1)))
    expect(len(ends) > 0 and ends[-1] == count and 0 < rounds < len(ends) and ends == sorted(ends),
           f"iteration_indptr does not fit {count} trees in {rounds} rounds or more")  # fmt: skip
    need(ends[rounds] == count or all_rounds, f"early stopping found round {rounds - 1} best of "
         f"{len(ends) - 1}: XGBClassifier uses those up to it, Booster all; save "
         f"booster[: {rounds}], or pass the fitted model")  # fmt: skip
    return ends[rounds]


def _tree(tree: _Tree, score: int, weight: float, sets: Sets) -> Tree:
    need(whole(tree.tree_param.size_leaf_vector, "size_leaf_vector") < 2,
         "size_leaf_vector is above 1; train with one_output_per_tree")  # fmt: skip
    left, right = (np.array(s, np.int64) for s in (tree.left_children, tree.right_children))
    size = len(left)
    parts: list[Sized] = [right, tree.split_indices, tree.split_conditions, tree.default_left]
    expect(size > 0 and all(len(part) == size for part in parts), "its arrays differ in length")
    expect(size == whole(tree.tree_param.num_nodes, "num_nodes"), "num_nodes is not its size")
    leaf = left < 0
    values = float32_of(tree.split_conditions)
    asks = np.full(size, -1, np.int64)
    categorical = np.zeros(size, np.int64) if tree.split_type is None else np.array(tree.split_type)
    expect(len(categorical) == size and np.isin(categorical, (0, 1)).all(),
           "split_type is neither 0 nor 1 for each node")  # fmt: skip
    segments = (tree.categories_nodes, tree.categories_segments, tree.categories_sizes)
    expect(len({len(part) for part in segments}) == 1,
           "categories_nodes, _segments and _sizes differ in length")  # fmt: skip
    for node, first, length in zip(*segments, strict=True):
        members = tree.categories[first : first + length]
        expect(0 <= node < size and first >= 0 and length == len(members),
               "categories_segments lie outside categories")  # fmt: skip
        expect(not members or 0 <= min(members) <= max(members) < _CATEGORIES,
               f"node {node} has a category that is not below {_CATEGORIES}")  # fmt: skip
        asks[node] = sets.add(members, left=False)
    expect((asks >= 0) == (categorical == 1) & ~leaf, "nodes that ask of categories have none")
    with np.errstate(over="ignore"):
        weighed = values * float32_of([weight])
    threshold = before_rounding(before(values).astype(np.float64))
    return Tree(
        np.where(leaf, -1, np.array(tree.split_indices, np.int64)),
        np.where(asks >= 0, 0.0, threshold), np.array(tree.default_left, np.int64) != 0, asks, left,
        right, weighed.astype(np.float64), score,
    )  # fmt: skip


def _base(text: str, scores: int, link: str) -> Floats:
    """Return the margins that sums begin with; ``base_score`` is before the link."""
    with place(f"base_score is {text[:40]!r}"):
        parts = text.removeprefix("[").removesuffix("]").split(",")
        base = float32_of([float(part) for part in parts])
        expect(len(base) in (1, scores), f"expected {scores} numbers")
        least, most = {"sigmoid": (0, 1), "exp": (0, np.inf)}.get(link, (-np.inf, np.inf))
        expect((base > least) & (base < most), f"expected numbers between {least} and {most}")
    if link == "sigmoid":
        base = np.array([-_logarithm(each) for each in np.float32(1) / base - 1], np.float32)
    if link == "exp":
        base = np.array([_logarithm(each) for each in base], np.float32)
    return np.broadcast_to(base.astype(np.float64), (scores,)).copy()


def _slack(nodes: Nodes, base: Floats, weights: list[float]) -> float:
    """Return what dart's `inplace_predict` may err: (base + leaf - base) weight, thrice rounded."""
    leaves = float(np.abs(nodes.values).max()) * len(weights)
    return float(2.0**-22 * (np.abs(weights).sum() * np.abs(base).max() + leaves) + 2.0**-120)


def _logarithm(value: np.float32) -> float:
    """Return what the C library's ``logf`` does, which XGBoost calls; numpy has its own."""
    log = ctypes.CDLL(None).logf
    log.argtypes, log.restype = [ctypes.c_float], ctypes.c_float
    return float(log(float(value)))


_NUMBERS = {
    b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8",
}  # fmt: skip


class _Ubj:
    """A reader of Universal Binary JSON, as far as XGBoost writes it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self) -> Any:
        found = self._value(self._take(1), 0)
        expect(self._at == len(self._data), f"bytes follow the model at {self._at}")
        return found

    def _take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        expect(0 <= count == len(found), "is truncated")
        self._at += count
        return found

    def _value(self, kind: bytes, depth: int) -> Any:
        expect(depth <= _DEEPEST, "values are nested too deeply")
        if kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self._take(dtype.itemsize), dtype)[0].item()
        if kind == b"S":
            return self._text()
        if kind in (b"T", b"F"):
            return kind == b"T"
        if kind in (b"N", b"Z"):
            return None
        expect(kind in (b"{", b"["), f"byte {self._at - 1} is no kind of value of UBJSON")
        return self._object(depth) if kind == b"{" else self._array(depth)

    def _text(self) -> str:
        return self._take(self._count()).decode()

    def _count(self) -> int:
        kind = self._take(1)
        found = self._value(kind, 0) if kind in b"iUIlL" else -1
        expect(found >= 0, f"byte {self._at - 1} is no length")
        return int(found)

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._data[self._at : self._at + 1] != b"}":
            name = self._text()
            expect(name not in found, f"{name[:40]!r} stands twice")
            found[name] = self._value(self._take(1), depth + 1)
        self._at += 1
        return found

    def _array(self, depth: int) -> list[Any]:
        start = self._data[self._at : self._at + 1]
        if start == b"$":
            kind = self._take(2)[1:]
            expect(kind in _NUMBERS and self._take(1) == b"#",
                   f"byte {self._at - 1} is no array of numbers")  # fmt: skip
            dtype = np.dtype(_NUMBERS[kind])
            numbers = np.frombuffer(self._take(self._count() * dtype.itemsize), dtype)
            return list(numbers.tolist())
        found: list[Any] = []
        if start == b"#":
            self._at += 1
            count = self._count()
            while len(found) < count:
                found.append(self._value(self._take(1), depth + 1))
            return found
        while self._data[self._at : self._at + 1] != b"]":
            found.append(self._value(self._take(1), depth + 1))
        self._at += 1
        return found
