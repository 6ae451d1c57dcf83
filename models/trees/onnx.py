"""Tree ensembles in ONNX files, as onnxruntime evaluates them.

Read are `TreeEnsembleClassifier`, `TreeEnsembleRegressor` (ai.onnx.ml 1 and 3) and `TreeEnsemble`
(5) with what skl2onnx and onnxmltools write around them. Everything else is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from leaveout.arrays import Floats
from leaveout.errors import TreesError
from leaveout.kernel.refusal import Rejected
from leaveout.kernel.trees import Ensemble, Nodes, greatest
from leaveout.models.trees.assemble import chain_nodes
from leaveout.models.trees.onnx_nodes import (
    Raw,
    as_text,
    read_nodes,
    read_old_nodes,
    refuse,
    write_nodes,
)

_ML = "ai.onnx.ml"
_STANDARD = ("", "ai.onnx")
_KINDS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")
_LINKS = {"NONE": "identity", "LOGISTIC": "sigmoid", "SOFTMAX": "softmax"}
_REAL: dict[int, bool] = {TensorProto.FLOAT: False, TensorProto.DOUBLE: True}
_WHOLE: set[int] = {TensorProto.INT64, TensorProto.INT32}


def read_onnx(data: bytes) -> Ensemble:
    """Read the content of an ONNX file; onnxruntime adds trees in an order of its own."""
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        raise TreesError("is damaged, or no ONNX file; export the model again") from None
    try:
        return _Graph(model).ensemble()
    except Rejected as error:
        raise TreesError(f"has {error}; export the model again") from None
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        if isinstance(error, TreesError):
            raise
        refuse(f"is damaged ({' '.join(str(error).split())[:120]})")


@dataclass(frozen=True)
class _Columns:
    """A tensor that holds features."""

    places: tuple[int, ...]
    double: bool
    rounded: bool


@dataclass(frozen=True, eq=False)
class _Sum:
    """A tensor that holds sums of trees."""

    trees: tuple[Nodes, ...]
    base: Floats
    columns: _Columns
    single: bool
    rounds_scores: bool = False
    divisor: int = 1
    link: str = "identity"
    steps: int = 0  # operations after the sum that round
    pair: bool = False  # one score, of which a tensor of two columns is made


@dataclass(frozen=True, eq=False)
class _Answer:
    """A tensor that holds labels, or their indices while there are no names."""

    scores: _Sum
    names: tuple[str, ...] = ()
    center: float = 0.0


_Value = _Columns | _Sum | _Answer | NDArray[Any]


class _Graph:
    """Evaluates a graph's nodes to what they mean."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        opsets = {each.domain: each.version for each in model.opset_import}
        if opsets.get(_ML) not in range(1, 6):
            refuse("is not of versions 1 to 5 of ai.onnx.ml")
        self._known: dict[str, _Value] = {}
        self._width, self._names = 0, tuple[str, ...]()
        for tensor in model.graph.initializer:
            self._known[tensor.name] = _constant(tensor)
        if model.graph.sparse_initializer or model.functions:
            refuse("has sparse constants or functions", "export it again without them")
        self._read_inputs()

    def ensemble(self) -> Ensemble:
        for node in self._graph.node:
            self._read_node(node)
        found = [self._value(each.name) for each in self._graph.output]
        answers = [each for each in found if isinstance(each, _Answer)]
        sums = [each for each in found if isinstance(each, _Sum)]
        if not found or len(answers) + len(sums) < len(found) or len(answers) > 1:
            refuse("has outputs that are neither labels nor scores", "drop them")
        if len({id(each.trees) for each in sums}) > 1:
            refuse("has scores of different trees", "keep one output of scores")
        answer = answers[0] if answers else None
        if answer is None and sums[0].pair:
            refuse("has two scores without labels", "keep the output of labels")
        if answer is not None and not answer.names:
            refuse("has indices in place of labels", "export it with its labels")
        if answer is not None and sums:
            one, other = sums[0], answer.scores
            if one.trees is not other.trees or not np.array_equal(one.base, other.base):
                refuse("has labels of other scores than it returns")
        return self._make_ensemble(answer, sums[0] if sums else answers[0].scores)

    def _make_ensemble(self, answer: _Answer | None, shown: _Sum) -> Ensemble:
        scores = answer.scores if answer is not None else shown
        if scores.steps > 1:
            refuse("changes its scores several times", "export the trees by themselves")
        nodes = _join(scores.trees)
        features = self._width or 1 + int(nodes.feature.max(initial=0))
        nodes.check(features)
        if not np.isfinite(scores.base).all():
            refuse("has a base value that is not finite", "train it again")
        # Scores of type double are returned as float32.
        most = np.abs(scores.base) + greatest(nodes.roots, nodes.feature, np.abs(nodes.values)).sum(
            axis=0
        )
        slack = 2.0**-24 * (float(most.max()) * (1.0 + 2.0**-20) + 2.0**-120)
        return Ensemble(
            nodes, scores.base * scores.divisor, answer.names if answer is not None else (),
            features, self._names, divisor=scores.divisor, single=scores.single, ordered=False,
            slack=slack if scores.rounds_scores else 0.0, link=shown.link,
            center=answer.center if answer is not None else 0.0,
            rounds_inputs=scores.columns.rounded, source="ONNX",
        )  # fmt: skip

    def _value(self, name: str) -> _Value:
        if name not in self._known:
            refuse(f"reads {name!r}, which nothing computes")
        return self._known[name]

    def _read_inputs(self) -> None:
        """Give every column of every input its number."""
        inputs = [each for each in self._graph.input if each.name not in self._known]
        for item in inputs:
            kind = item.type.tensor_type
            if kind.elem_type not in _REAL:
                cure = "export it with FloatTensorType"
                refuse(f"its input {item.name!r} is not of floats", cure)
            dims = kind.shape.dim
            width = dims[1].dim_value if len(dims) == 2 else 0
            if len(dims) not in (0, 2) or width < 0 or width > 2**20:
                refuse(f"its input {item.name!r} is no table", "export it as [rows, columns]")
            if not width and len(inputs) > 1:
                refuse(f"its input {item.name!r} has an unknown width", "state it")
            double = _REAL[kind.elem_type]
            places = tuple(range(self._width, self._width + width))
            self._known[item.name] = _Columns(places, double, not double)
            self._width += width
        if len(inputs) > 1 and self._width == len(inputs):
            self._names = tuple(each.name for each in inputs)

    def _read_node(self, node: onnx.NodeProto) -> None:
        name = node.op_type
        if name == "Constant" and node.domain in _STANDARD and [*_options(node)] == ["value"]:
            self._known[node.output[0]] = _options(node)["value"]
            return
        if node.domain == _ML and name in _KINDS:
            for output, made in zip(node.output, self._trees(node), strict=False):
                self._known[output] = made
            return
        reader = _READERS.get((node.domain in _STANDARD, name))
        given = [self._value(each) for each in node.input]
        cure, options = "export the trees by themselves", _options(node)
        if reader is None or node.domain not in (*_STANDARD, _ML) or not given or not node.output:
            refuse(f"has an operator {name} that is not read here", cure)
        found = reader(self, given, options)
        if found is None or options:
            refuse(f"uses {name} ({node.name or node.output[0]}) in a way that is not read", cure)
        self._known[node.output[0]] = found

    # Operators around the trees. Each takes what it reads of its attributes out of `options`, and
    # returns nothing if that is not understood.

    def _same(self, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        return given[0] if len(given) == 1 else None

    def _zip_map(self, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        options.pop("classlabels_int64s", None)
        options.pop("classlabels_strings", None)
        return given[0] if isinstance(given[0], _Sum) else None

    def _reshape(self, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        options.pop("allowzero", None)
        shape = given[1].tolist() if len(given) == 2 and isinstance(given[1], np.ndarray) else None
        size = len(given[0].base) if isinstance(given[0], _Sum) else 1
        fits = shape in ([-1], [-1, 1], [-1, size], [0, size])
        if isinstance(given[0], np.ndarray | _Columns) or not fits or (shape == [-1] and size > 1):
            return None
        return given[0]

    def _flatten(self, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        return given[0] if options.pop("axis", 1) == 1 and isinstance(given[0], _Sum) else None

    def _cast(self, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        to, value = options.pop("to", None), given[0]
        options.pop("saturate", None)
        if isinstance(value, _Answer):
            return value if to in (*_WHOLE, TensorProto.STRING) else None
        if to not in _REAL or isinstance(value, np.ndarray):
            return None
        if isinstance(value, _Columns):
            return replace(value, double=_REAL[to], rounded=value.rounded or not _REAL[to])
        if _REAL[to] or value.single:
            return replace(value, steps=value.steps + (not _REAL[to]))
        return replace(value, rounds_scores=True)

    def _concat(self, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        axis = options.pop("axis", None)
        if len(given) == 1 and not isinstance(given[0], np.ndarray):
            return given[0]
        columns = [each for each in given if isinstance(each, _Columns)]
        first = columns[0] if len(columns) == len(given) else None
        if first is None or axis not in (1, -1):
            return None
        if any((each.double, each.rounded) != (first.double, first.rounded) for each in columns):
            return None
        return replace(first, places=tuple(at for each in columns for at in each.places))

    def _extract(self, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        """Select columns, or the names of labels."""
        if len(given) != 2:
            return None
        value, at = given
        if isinstance(value, np.ndarray) and isinstance(at, _Answer) and not at.names:
            names = tuple(map(as_text, value.reshape(-1)))
            return replace(at, names=names) if len(names) == len(at.scores.base) else None
        if isinstance(value, _Columns) and isinstance(at, np.ndarray) and value.places:
            return replace(value, places=tuple(value.places[int(i)] for i in at.reshape(-1)))
        return None

    def _arg_max(self, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        value, last = given[0], options.pop("select_last_index", 0)
        axis, _ = options.pop("axis", 0), options.pop("keepdims", 1)
        if not isinstance(value, _Sum) or value.link != "identity" or value.pair:
            return None
        return _Answer(value) if axis in (1, -1) and not last and len(value.base) > 1 else None

    def _link(self, kind: str, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        value = given[0]
        if not isinstance(value, _Sum) or value.link != "identity" or value.pair:
            return None
        if kind == "softmax" and (options.pop("axis", -1) not in (1, -1) or len(value.base) < 2):
            return None
        return replace(value, link=kind)

    def _add(self, sign: int, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        first = given[0]
        for other in given[1:]:
            if isinstance(first, np.ndarray) and sign > 0:
                first, other = other, first
            if not isinstance(first, _Sum) or first.link != "identity" or first.pair:
                return None
            if isinstance(other, _Sum) and sign > 0:
                together = self._add_sums(first, other)
                if together is None:
                    return None
                first = together
            else:
                constant = _row(other, len(first.base)) if isinstance(other, np.ndarray) else None
                if constant is None or first.divisor != 1 or first.rounds_scores:
                    return None
                base = first.base + sign * constant
                first = replace(first, base=base, steps=first.steps + bool(first.base.any()))
        return first

    def _add_sums(self, one: _Sum, other: _Sum) -> _Sum | None:
        plain = other.link == "identity" and not other.pair and one.divisor == other.divisor == 1
        if not plain or one.columns != other.columns or len(one.base) != len(other.base):
            return None
        if one.rounds_scores or other.rounds_scores:
            return None
        return replace(
            one, trees=one.trees + other.trees, base=one.base + other.base,
            single=one.single or other.single, steps=max(one.steps, other.steps),
        )  # fmt: skip

    def _scale(self, kind: str, given: list[_Value], options: dict[str, Any]) -> _Value | None:
        value, factor = given if len(given) == 2 else (None, None)
        if isinstance(value, np.ndarray) and kind == "Mul":
            value, factor = factor, value
        if not isinstance(value, _Sum) or not isinstance(factor, np.ndarray):
            return None
        if factor.tolist() in (1, [1]):
            return value  # onnxmltools multiplies LightGBM's probabilities by 1, which is exact
        row = _row(factor, len(value.base))
        if row is None or not np.isfinite(row).all() or (row == 0).any():
            return None
        if value.pair or value.steps or value.rounds_scores:
            return None
        if value.link == "exp" and kind == "Mul" and (row > 0).all():
            return replace(value, base=value.base + np.log(row), steps=1)
        if value.link != "identity" or value.divisor != 1:
            return None
        row = row if kind == "Mul" else 1.0 / row
        trees = tuple(replace(each, values=each.values * row) for each in value.trees)
        return replace(value, trees=trees, base=value.base * row, steps=1)

    # The trees themselves.

    def _trees(self, node: onnx.NodeProto) -> tuple[_Value, ...]:
        options = _options(node)
        if len(node.input) != 1 or not isinstance(self._value(node.input[0]), _Columns):
            refuse("changes its inputs before the trees", "export the trees by themselves")
        columns = self._known[node.input[0]]
        assert isinstance(columns, _Columns)
        if node.op_type == "TreeEnsemble":
            raw = read_nodes(options, columns.double)
        else:
            raw = read_old_nodes(options, columns.double, node.op_type == _KINDS[0])
        if options:
            refuse(f"has trees with an attribute {min(options)!r}")
        for given, allowed in ((raw.post, _LINKS), (raw.aggregate, ("SUM", "AVERAGE"))):
            if given not in allowed:
                refuse(f"combines its trees by {given}", "only sums and means are read")
        trees = write_nodes(raw, columns.places, columns.double, columns.rounded)
        single = not columns.double
        made = _Sum(
            (trees,), raw.base, columns, single,
            rounds_scores=columns.double and node.op_type != "TreeEnsemble",
            divisor=raw.count if raw.aggregate == "AVERAGE" else 1, link=_LINKS[raw.post],
        )  # fmt: skip
        if raw.names:
            return self._classifier(raw, made)
        size = trees.values.shape[1]
        if size == 1 and raw.post != "NONE":
            refuse(f"has one score with {raw.post}, which onnxruntime ignores", "remove it")
        if len(raw.base) not in (0, size):
            refuse("has base values that onnxruntime does not add")
        base = raw.base if len(raw.base) else np.zeros(size)
        if size > 1 and base.any():
            # A base value is added where a leaf has that score.
            written = [raw.writes(each) for each in range(size)]
            if None in written:
                refuse("has base values of scores that only some leaves have")
            base = np.where(np.array(written, bool), base, 0.0)
        return (replace(made, base=base),)

    def _classifier(self, raw: Raw, made: _Sum) -> tuple[_Value, ...]:
        """Return labels and scores as onnxruntime picks them."""
        (trees,), names = made.trees, raw.names
        if raw.aggregate != "SUM":
            refuse("has a classifier of means")
        values, base = trees.values, made.base
        if len(names) > 2:
            if len(base) not in (0, len(names)):
                refuse("has not one base value a label")
            if not len(base):
                self._refuse_unscored(trees, raw)
                base = np.zeros(len(names))
            made = replace(made, base=base)
            return _Answer(made, names), made
        if len(names) < 2 or len(base) > 2:
            refuse("has not two labels or more, or too many base values")
        has_second = raw.writes(1)
        if has_second is None:
            refuse("has leaves with and without a second score")
        # With two labels onnxruntime answers by one score alone: the second label's where there is
        # one, but with two base values by the first sum and the second base value.
        if len(base) == 2 and not has_second:
            refuse("has two base values and one score", "export it with one base value")
        column = 1 if has_second and len(base) < 2 else 0
        first = float(base[-1]) if len(base) == 2 or (len(base) and not has_second) else 0.0
        one_score = len(set(raw.target_ids.tolist())) == 1
        center = 0.5 if one_score and (raw.weights >= 0).all() else 0.0
        if raw.post == "SOFTMAX" and len(base) < 2 and has_second:
            refuse("has probabilities of two scores, but labels of one", "export it with one score")
        if not one_score and raw.whole_labels and names != ("0", "1"):
            refuse(
                "scores both of two labels, so that onnxruntime answers 0 or 1 instead of them",
                "export it with one score",
            )
        shape = replace(trees, values=values[:, column : column + 1])
        made = replace(made, trees=(shape,), base=np.array([first]), pair=True)
        return _Answer(made, names, center), made

    def _refuse_unscored(self, trees: Nodes, raw: Raw) -> None:
        """Refuse labels that are left out where no leaf scores them, unless they lose anyway."""
        written = [raw.writes(each) for each in range(len(raw.names))]
        least = -greatest(trees.roots, trees.feature, -trees.values.max(axis=1))
        loses = (raw.weights >= 0).all() and (least > 0).any()
        if not all(written) and not loses:
            refuse("has leaves without a score for some label")


def _join(parts: Sequence[Nodes]) -> Nodes:
    """Return trees one after another."""
    roots, left, right = chain_nodes(parts)
    together = {
        name: np.concatenate([getattr(each, name) for each in parts])
        for name in ("feature", "threshold", "missing_left", "set", "values")
    }
    return Nodes(roots, left=left, right=right, sets=parts[0].sets, **together)


def _constant(tensor: TensorProto) -> NDArray[Any]:
    if tensor.data_location == TensorProto.EXTERNAL:
        refuse(f"keeps {tensor.name!r} in another file", "save it as one file")
    return np.asarray(numpy_helper.to_array(tensor))


def _options(node: onnx.NodeProto) -> dict[str, Any]:
    """Return a node's attributes, tensors as arrays."""
    found: dict[str, Any] = {}
    for each in node.attribute:
        value = onnx.helper.get_attribute_value(each)
        if isinstance(value, TensorProto):
            value = _constant(value)
        if each.name in found:
            raise ValueError(f"{each.name} stands twice")
        found[each.name] = value
    return found


def _row(constant: NDArray[Any], size: int) -> Floats | None:
    """Return a constant as one number a score; None if it has another shape."""
    numeric = constant.dtype in (np.float32, np.float64) and constant.ndim <= 2
    if not numeric or not {constant.size, *constant.shape[-1:]} <= {1, size}:
        return None
    return np.broadcast_to(constant.reshape(-1).astype(np.float64), (size,)).copy()


_Reader = Callable[[_Graph, list[_Value], dict[str, Any]], "_Value | None"]
_READERS: dict[tuple[bool, str], _Reader] = {
    (True, "Identity"): _Graph._same,
    (True, "Reshape"): _Graph._reshape,
    (True, "Flatten"): _Graph._flatten,
    (True, "Cast"): _Graph._cast,
    (True, "Concat"): _Graph._concat,
    (True, "ArgMax"): _Graph._arg_max,
    (True, "Sum"): lambda self, given, options: self._add(1, given, options),
    (True, "Add"): lambda self, given, options: self._add(1, given, options),
    (True, "Sub"): lambda self, given, options: self._add(-1, given, options),
    (True, "Mul"): lambda self, given, options: self._scale("Mul", given, options),
    (True, "Div"): lambda self, given, options: self._scale("Div", given, options),
    (True, "Exp"): lambda self, given, options: self._link("exp", given, options),
    (True, "Sigmoid"): lambda self, given, options: self._link("sigmoid", given, options),
    (True, "Softmax"): lambda self, given, options: self._link("softmax", given, options),
    (False, "ArrayFeatureExtractor"): _Graph._extract,
    (False, "ZipMap"): _Graph._zip_map,
}
