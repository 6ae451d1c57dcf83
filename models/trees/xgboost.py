"""XGBoost's models, from JSON or UBJSON (versions 1.6 to 3).

XGBoost compares inputs rounded to float32, ``x < t``, and sums in float32, tree after tree. With
dart, `inplace_predict` (and so `XGBClassifier.predict`) sums otherwise than `Booster.predict`.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import msgspec
import numpy as np

from leaveout.arrays import Floats, Integers
from leaveout.errors import TreesError
from leaveout.kernel.forest_file import before_rounding
from leaveout.kernel.trees import Ensemble, Nodes
from leaveout.models.trees.assemble import Sets, Tree, assemble, before, float32_of

_TIE = 2.0**-20
"""Above what a few roundings to float32 do to a logistic function near 1/2, or to a softmax."""
_CATEGORIES = 2**24
_DEEPEST = 64
"""How deep values of a UBJSON file may be nested; XGBoost nests ten."""

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


class _Objective(msgspec.Struct, forbid_unknown_fields=True):
    """The objective; its parameters matter in training alone."""

    name: str
    reg_loss_param: Any = None
    softmax_multiclass_param: Any = None
    poisson_regression_param: Any = None
    tweedie_regression_param: Any = None
    pseudo_huber_param: Any = None
    quantile_loss_param: Any = None
    expectile_loss_param: Any = None
    lambdarank_param: Any = None
    lambda_rank_param: Any = None
    aft_loss_param: Any = None


class _Learner(msgspec.Struct, forbid_unknown_fields=True):
    gradient_booster: dict[str, Any]
    learner_model_param: _Parameters
    objective: _Objective
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
    missing = getattr(model, "missing", None)
    if missing is not None and not math.isnan(missing):
        raise TreesError(
            f"the parameter missing is {missing}; put NaN for missing values, and train again"
        )
    booster = model.get_booster()
    best = booster.attributes().get("best_iteration")
    rounds = None if best is None else _whole(best, "best_iteration") + 1
    return read_ubj(bytes(booster.save_raw("ubj")), rounds=rounds, all_rounds=True)


def _read(found: Any, rounds: int | None = None, *, all_rounds: bool) -> Ensemble:
    model = msgspec.convert(found, _Model)
    if not (1, 6) <= model.version[:2] < (4, 0):
        raise TreesError(
            f"XGBoost {'.'.join(map(str, model.version))} wrote it, but versions 1.6 to 3 are "
            "read; load it in one of those and save it again"
        )
    learner = model.learner
    param, objective = learner.learner_model_param, learner.objective.name
    if objective not in _LINKS:
        cures = [cure for name, cure in _CURES.items() if objective.startswith(name)]
        cure = cures[0] if cures else f"train with one of {', '.join(sorted(_LINKS))}"
        raise TreesError(f"objective {objective!r} is not supported; {cure}")
    booster, drops = _booster(learner.gradient_booster)
    weights = [1.0] * len(booster.trees) if drops is None else drops
    features = _whole(param.num_feature, "num_feature")
    classes, targets = _whole(param.num_class, "num_class"), _whole(param.num_target, "num_target")
    softmax = objective.startswith("multi:")
    if softmax == (classes < 2) or (softmax and targets > 1) or targets < 1:
        raise TreesError(f"num_class {classes} and num_target {targets} do not fit {objective}")
    if objective.startswith("binary:") and targets > 1:
        raise TreesError(f"num_target is {targets}: train one model for each label")
    scores = max(classes, targets)
    count = _count(booster, learner.attributes, rounds, all_rounds=all_rounds)
    sets = Sets()
    trees = []
    for number, tree in enumerate(booster.trees[:count]):
        try:
            trees.append(_tree(tree, booster.tree_info[number], weights[number], sets))
        except (TreesError, IndexError, OverflowError) as error:
            raise TreesError(f"tree {number}: {error}") from None
    nodes = assemble(trees, sets, scores, features)
    if len(learner.feature_names) not in (0, features):
        raise TreesError(f"has {len(learner.feature_names)} feature_names of {features} features")
    labels = classes if softmax else 2 if objective.startswith("binary:") else 0
    base = _base(param.base_score, scores, _LINKS[objective])
    return Ensemble(
        nodes,
        base,
        tuple(map(str, range(labels))),
        features,
        tuple(learner.feature_names),
        single=True,
        ordered=drops is None,
        slack=0.0 if drops is None else _slack(nodes, base, weights[:count]),
        link=_LINKS[objective],
        tie=_TIE if objective in ("binary:logistic", "multi:softprob") else 0.0,
        rounds_inputs=True,
        source=f"XGBoost {'.'.join(map(str, model.version))} ({objective})",
    )


def _booster(found: dict[str, Any]) -> tuple[_Trees, list[float] | None]:
    """Return the trees, and the weight of each if they have any."""
    if found.get("name") == "gblinear":
        raise TreesError("booster 'gblinear' has no trees; read its weights as a linear model")
    booster, weights = msgspec.convert(found, _Booster), None
    if booster.name == "dart" and booster.gbtree is not None and booster.model is None:
        booster, weights = booster.gbtree, booster.weight_drop
    if booster.name != "gbtree" or booster.model is None or booster.gbtree is not None:
        raise TreesError(f"booster {booster.name!r} is not supported; train with gbtree or dart")
    trees = booster.model
    count = _whole(trees.gbtree_model_param.get("num_trees", ""), "num_trees")
    if not count == len(trees.trees) == len(trees.tree_info):
        raise TreesError(f"num_trees is {count}, but it has {len(trees.trees)}; save it again")
    if weights is None:
        weights = booster.weight_drop
    if weights is not None and len(weights) != count:
        raise TreesError(f"has {len(weights)} weights in weight_drop of {count} trees")
    return trees, weights


def _count(
    booster: _Trees, attributes: dict[str, str], rounds: int | None, *, all_rounds: bool
) -> int:
    """Return how many trees count, since early stopping may leave some out."""
    count = len(booster.trees)
    best = attributes.get("best_iteration")
    if rounds is None and (all_rounds or best is None):
        return count
    rounds = _whole(str(best), "best_iteration") + 1 if rounds is None else rounds
    ends = booster.iteration_indptr
    if ends is None:
        groups = max(booster.tree_info, default=0) + 1
        step = groups * _whole(
            booster.gbtree_model_param.get("num_parallel_tree", "1"), "num_parallel_tree"
        )
        ends = list(range(0, count + 1, max(step, 1)))
    if not ends or ends[-1] != count or not 0 < rounds < len(ends) or ends != sorted(ends):
        raise TreesError(f"iteration_indptr does not fit {count} trees in {rounds} rounds or more")
    if ends[rounds] != count and not all_rounds:
        raise TreesError(
            f"early stopping found round {rounds - 1} best of {len(ends) - 1}: XGBClassifier uses "
            f"those up to it, Booster all; save booster[: {rounds}], or pass the fitted model"
        )
    return ends[rounds]


def _tree(tree: _Tree, score: int, weight: float, sets: Sets) -> Tree:
    if _whole(tree.tree_param.size_leaf_vector, "size_leaf_vector") > 1:
        raise TreesError("size_leaf_vector is above 1; train with one_output_per_tree")
    left, right = (np.array(s, np.int64) for s in (tree.left_children, tree.right_children))
    size = len(left)
    if size != _whole(tree.tree_param.num_nodes, "num_nodes") or len(right) != size:
        raise TreesError("has another number of nodes than num_nodes says; save it again")
    leaf = left < 0
    values = float32_of(tree.split_conditions)
    feature = np.where(leaf, -1, _same(tree.split_indices, leaf))
    asks = np.full(size, -1, np.int64)
    categorical = np.zeros(size, np.int64) if tree.split_type is None else np.array(tree.split_type)
    if len(categorical) != size or not np.isin(categorical, (0, 1)).all():
        raise TreesError("split_type is neither 0 nor 1 for each node; save it again")
    segments = (tree.categories_nodes, tree.categories_segments, tree.categories_sizes)
    if len({len(part) for part in segments}) > 1:
        raise TreesError("categories_nodes, _segments and _sizes differ in length; save it again")
    for node, first, length in zip(*segments, strict=True):
        members = tree.categories[first : first + length]
        if not 0 <= node < size or first < 0 or length != len(members):
            raise TreesError("categories_segments lie outside categories; save it again")
        if members and not 0 <= min(members) <= max(members) < _CATEGORIES:
            raise TreesError(f"node {node} has a category that is not below {_CATEGORIES}")
        asks[node] = sets.add(members, left=False)
    if len(values) != size or ((asks >= 0) != (categorical == 1) & ~leaf).any():
        raise TreesError("nodes that ask of categories have none; save it again")
    with np.errstate(over="ignore"):
        weighed = values * float32_of([weight])
    threshold = before_rounding(before(values).astype(np.float64))
    return Tree(
        feature,
        np.where(asks >= 0, 0.0, threshold),
        _same(tree.default_left, leaf) != 0,
        asks,
        left,
        right,
        weighed.astype(np.float64),
        score,
    )


def _same(values: list[Any], leaf: Any) -> Integers:
    if len(values) != len(leaf):
        raise TreesError("its arrays differ in length; save it again")
    return np.array(values, np.int64)


def _base(text: str, scores: int, link: str) -> Floats:
    """Return the margins that sums begin with; ``base_score`` is before the link."""
    try:
        parts = text.removeprefix("[").removesuffix("]").split(",")
        base = float32_of([float(part) for part in parts])
    except ValueError:
        raise TreesError(f"base_score is {text[:40]!r}, expected numbers") from None
    if len(base) not in (1, scores) or not np.isfinite(base).all():
        raise TreesError(f"base_score is {text[:40]!r}, expected {scores} finite numbers")
    if link == "sigmoid":
        if not ((base > 0) & (base < 1)).all():
            raise TreesError(f"base_score is {text[:40]!r}, expected numbers between 0 and 1")
        one = np.float32(1)
        base = np.array([-_logarithm(each) for each in one / base - one], np.float32)
    if link == "exp":
        if not (base > 0).all():
            raise TreesError(f"base_score is {text[:40]!r}, expected numbers above 0")
        base = np.array([_logarithm(each) for each in base], np.float32)
    return np.broadcast_to(base.astype(np.float64), (scores,)).copy()


def _slack(nodes: Nodes, base: Floats, weights: list[float]) -> float:
    """Return what `inplace_predict` may err with dart: it adds (base + leaf - base) weight.

    The sum, the difference and the product round once each.
    """
    leaves = float(np.abs(nodes.values).max()) * len(weights)
    return float(2.0**-22 * (np.abs(weights).sum() * np.abs(base).max() + leaves) + 2.0**-140)


def _logarithm(value: np.float32) -> float:
    """Return what the C library's ``logf`` does, which XGBoost calls; numpy has its own."""
    log = ctypes.CDLL(None).logf
    log.argtypes, log.restype = [ctypes.c_float], ctypes.c_float
    return float(log(float(value)))


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise TreesError(f"{name} is {text[:40]!r}, expected a whole number")
    return int(text)


_NUMBERS = {
    b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8",
}  # fmt: skip


class _Ubj:
    """A reader of Universal Binary JSON, as far as XGBoost writes it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self) -> Any:
        """Return the only value of the file."""
        found = self._value(self._take(1), 0)
        if self._at != len(self._data):
            raise TreesError(f"bytes follow the model at {self._at}; save it again")
        return found

    def _take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if count < 0 or len(found) < count:
            raise TreesError("is truncated; save it again")
        self._at += count
        return found

    def _value(self, kind: bytes, depth: int) -> Any:
        if depth > _DEEPEST:
            raise TreesError("values are nested too deeply; save it again")
        if kind in _NUMBERS:
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self._take(dtype.itemsize), dtype)[0].item()
        if kind == b"S":
            return self._text()
        if kind in (b"T", b"F"):
            return kind == b"T"
        if kind in (b"N", b"Z"):
            return None
        if kind == b"{":
            return self._object(depth)
        if kind == b"[":
            return self._array(depth)
        raise TreesError(f"byte {self._at - 1} is no kind of value of UBJSON; save it again")

    def _text(self) -> str:
        try:
            return self._take(self._count()).decode()
        except UnicodeDecodeError:
            raise TreesError(f"text before byte {self._at} is not UTF-8; save it again") from None

    def _count(self) -> int:
        kind = self._take(1)
        found = self._value(kind, 0) if kind in b"iUIlL" else -1
        if found < 0:
            raise TreesError(f"byte {self._at - 1} is no length; save it again")
        return int(found)

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._data[self._at : self._at + 1] != b"}":
            name = self._text()
            if name in found:
                raise TreesError(f"{name[:40]!r} stands twice; save it again")
            found[name] = self._value(self._take(1), depth + 1)
        self._at += 1
        return found

    def _array(self, depth: int) -> list[Any]:
        start = self._data[self._at : self._at + 1]
        if start == b"$":
            kind = self._take(2)[1:]
            if self._take(1) != b"#" or kind not in _NUMBERS:
                raise TreesError(f"byte {self._at - 1} is no array of numbers; save it again")
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
