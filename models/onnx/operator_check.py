"""Check of each operator of a network alone against onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

from leaveout.arrays import Floats
from leaveout.errors import ModelError
from leaveout.kernel.smooth import Curve, declared_error
from leaveout.models.activations import activate
from leaveout.models.graph import Graph, Join, Node
from leaveout.models.lowering import stacked_constants
from leaveout.models.onnx.operators import Affine, Constants, Normal, Shape, Shapes, Smooth
from leaveout.models.onnx.signature import dimensions
from leaveout.models.replay import one_line, session

_UNIT32 = 2.0**-24
_TINY32 = float(np.finfo(np.float32).tiny)
_LARGEST32 = float(np.finfo(np.float32).max)
_SIZES = (1.0, 2.0**-10, 2.0**10)
_PLACES = 3  # most nonzero numbers of a sparse input
_OWN = 10  # most roundings of a term besides those of its sum, for any operator


def check_operators(
    model: onnx.ModelProto, graph: Graph, parameters: Mapping[str, NDArray[Any]], source: str
) -> None:
    """Check that each operator alone is read as onnxruntime runs it.

    All operators run in one model with separate dense, sparse and zero inputs, sized 2^-10 to 2^10,
    without optimisations: no error hides another, no ReLU feeds zeros.
    """
    rng = np.random.default_rng(0)
    if not graph.nodes:
        return
    constants = _Constants.of(graph, parameters)
    (item,) = (each for each in model.graph.input if each.name == graph.input)
    alone = graph.input in graph.bare or dimensions(item)[0] == 1
    parts = list(parts_of(model, graph))
    feeds = {
        fresh: _samples(rng, graph.shapes[name])
        for part in parts
        for fresh, name in part.feed_names.items()
    }
    read = [part for part in parts if part.nodes]
    apart = _apart(model, graph, parts, 1 if alone else "batch")
    running = session(apart, source, optimised=False)
    bare = {
        name
        for part in parts
        for name in (*(f for f, of in part.feed_names.items() if of in graph.bare), part.output)
        if name != part.output or name in graph.bare
    }
    results = _run(running, [part.output for part in read], feeds, bare, alone, source)
    for part, found in zip(read, results, strict=True):
        if not _compare(part, feeds, found, constants, graph.shapes):
            kinds = " and ".join(dict.fromkeys(type(each.operator).__name__ for each in part.nodes))
            raise ModelError(
                f"{source}: leaveout evaluates node {part.nodes[-1].name!r} ({kinds}) "
                "differently from onnxruntime; please report this model"
            )


@dataclass(frozen=True, eq=False)
class _Constants:
    """All constants of one network, as a stack of one, and their absolute values."""

    exact: Constants
    absolute: Constants

    @staticmethod
    def of(graph: Graph, parameters: Mapping[str, NDArray[Any]]) -> _Constants:
        exact = dict(stacked_constants(graph, {k: v[None] for k, v in parameters.items()}))
        return _Constants(exact, {name: np.abs(value) for name, value in exact.items()})


@dataclass(frozen=True, eq=False)
class Part:
    """One output of a node in the file."""

    proto: onnx.NodeProto
    output: str
    nodes: tuple[Node, ...]
    variable: tuple[int, ...]  # positions of its inputs that depend on the network's input

    @property
    def direct(self) -> bool:
        """Whether it was read as a single node with the same inputs."""
        names = tuple(self.proto.input[i] for i in self.variable)
        return len(self.nodes) == 1 and self.nodes[0].inputs == names

    @property
    def feed_names(self) -> dict[str, str]:
        """Original names of the variable inputs, by the names of their replacements."""
        return {self.fresh(i): self.proto.input[i] for i in self.variable}

    def fresh(self, position: int) -> str:
        """Return the name that replaces the input at a position.

        A tensor read twice gets two names, unless the node was rewritten as others, which refer to
        it by name.
        """
        if not self.direct:
            position = list(self.proto.input).index(self.proto.input[position])
        return f"{next(filter(None, self.proto.output))}/{position}"


def parts_of(model: onnx.ModelProto, graph: Graph) -> Iterator[Part]:
    """Yield the nodes of the file that were read, without those dropped at the end."""
    named = {output for proto in model.graph.node for output in proto.output}
    read: dict[str, tuple[Node, ...]] = {}
    waiting: list[Node] = []
    for node in graph.nodes:
        waiting.append(node)
        if node.output in named:
            read[node.output] = tuple(waiting)
            waiting = []
    variable = {graph.input, *read}
    for proto in model.graph.node:
        positions = tuple(i for i, name in enumerate(proto.input) if name in variable)
        for output in proto.output:
            if output in graph.shapes:
                yield Part(proto, output, read.get(output, ()), positions)


def _apart(
    model: onnx.ModelProto, graph: Graph, parts: Sequence[Part], batch: int | str
) -> onnx.ModelProto:
    """Return a model whose inputs are all nodes' variable inputs."""
    apart = onnx.ModelProto()
    apart.CopyFrom(model)
    del apart.graph.input[:], apart.graph.output[:], apart.graph.value_info[:], apart.graph.node[:]
    known = {item.name for item in model.graph.initializer}
    apart.graph.input.extend(item for item in model.graph.input if item.name in known)
    copied: list[str] = []
    for part in parts:
        if list(part.proto.output) != copied:
            copied = list(part.proto.output)
            copy = apart.graph.node.add()
            copy.CopyFrom(part.proto)
            for position in part.variable:
                copy.input[position] = part.fresh(position)
            apart.graph.input.extend(
                helper.make_tensor_value_info(
                    fresh,
                    TensorProto.FLOAT,
                    [*([] if name in graph.bare else [batch]), *graph.shapes[name]],
                )
                for fresh, name in part.feed_names.items()
            )
        if part.nodes:
            apart.graph.output.append(
                helper.make_tensor_value_info(part.output, TensorProto.FLOAT, None)
            )
    return apart


def _samples(rng: np.random.Generator, shape: Shape) -> NDArray[np.float32]:
    """Draw zero, sparse and dense samples of each size, shape (samples, *shape)."""
    width = math.prod(shape)
    rows = [np.zeros(width)]
    for size in _SIZES:
        for count in range(1, 1 + _PLACES):
            row = np.zeros(width)
            row[rng.integers(width, size=count)] = size * rng.normal(size=count)
            rows.append(row)
        rows.append(size * rng.normal(size=width))
    return np.asarray(rows, np.float32).reshape(-1, *shape)


def _run(
    running: onnxruntime.InferenceSession,
    names: list[str],
    feeds: Mapping[str, NDArray[np.float32]],
    bare: Set[str],
    alone: bool,
    source: str,
) -> list[NDArray[np.float32]]:
    count = len(next(iter(feeds.values())))
    rows = [slice(i, i + 1) for i in range(count)] if alone else [slice(None)]
    try:
        runs = [
            running.run(names, {k: v[row][0] if k in bare else v[row] for k, v in feeds.items()})
            for row in rows
        ]
    except Exception as error:
        raise ModelError(f"{source}: onnxruntime cannot run the model: {one_line(error)}") from None
    return [
        np.concatenate([run[i][None] if name in bare else run[i] for run in runs])
        for i, name in enumerate(names)
    ]


def _compare(
    part: Part,
    feeds: Mapping[str, NDArray[np.float32]],
    found: NDArray[np.float32],
    constants: _Constants,
    shapes: Shapes,
) -> bool:
    """Return whether our results equal onnxruntime's, up to the operators' rounding."""
    given = {fresh: _Value.exactly(feeds[fresh]) for fresh in part.feed_names}
    if part.direct:
        result = _after(part.nodes[0], list(given.values()), constants, shapes)
    else:
        values = {name: given[fresh] for fresh, name in part.feed_names.items()}
        for node in part.nodes:
            inputs = [values[name] for name in node.inputs]
            values[node.output] = _after(node, inputs, constants, shapes)
        result = values[part.output]
    if found.shape != result.exact.shape or found.dtype != np.float32:
        return False
    with np.errstate(invalid="ignore"):
        near = np.abs(found - result.exact) <= result.error
    return bool((np.isinf(result.error) | near).all())


@dataclass(frozen=True, eq=False)
class _Value:
    """Our result, shape (samples, *shape), and its possible error; infinite on overflow."""

    exact: Floats
    error: Floats

    @staticmethod
    def exactly(values: NDArray[np.float32]) -> _Value:
        exact = values.astype(np.float64)
        return _Value(exact, np.zeros_like(exact))


def _after(node: Node, inputs: Sequence[_Value], constants: _Constants, shapes: Shapes) -> _Value:
    """Apply an operator, adding its rounding error to the propagated one."""
    first, *others = inputs
    size = np.abs(first.exact) + first.error
    operator, passed = node.operator, first.error
    if isinstance(operator, Affine):
        shape = size.shape[1:]
        exact = operator.apply(first.exact[None], constants.exact, True)[0]
        fixed = operator.constant_magnitude(shape, constants.exact)
        with np.errstate(invalid="ignore"):
            terms, passed = (
                np.abs(operator.apply(each[None], constants.absolute, False)[0])
                for each in (size, first.error)
            )
        terms = terms + fixed
        largest = operator.regrouping_bound(constants.exact)
        live = np.count_nonzero(size.reshape(len(size), -1), axis=1) + _OWN
        count = np.minimum(operator.roundings(shape, shapes), live)
        k = count.reshape(-1, *(1,) * (terms.ndim - 1))
    elif isinstance(operator, Join):
        exact = first.exact + operator.sign * others[0].exact
        terms = size + np.abs(others[0].exact) + others[0].error
        passed = passed + others[0].error
        k, largest = np.asarray(1), 1.0
    elif isinstance(operator, Normal):
        return first
    elif isinstance(operator, Smooth):
        kinds = np.full(first.exact.shape[-1], operator.kind, np.int8)
        exact = np.asarray(activate(first.exact, kinds), np.float64)
        curve = Curve.of(operator.kind)
        steep = curve.steepness(first.exact - first.error, first.exact + first.error)
        passed = first.error * np.maximum(*map(np.abs, steep))
        return _Value(exact, declared_error(operator.kind, size, np.abs(exact)) + passed)
    else:
        exact = terms = np.maximum(first.exact, 0.0)
        k, largest = np.asarray(0), 1.0
    met = largest * max(1.0, float(size.max(initial=0.0)))
    lost = np.where(k > 0, k * min(_TINY32 * met, _LARGEST32), 0.0)
    own = k * _UNIT32 / (1 - k * _UNIT32) * terms + lost
    sound = np.isfinite(terms) & (4 * largest * terms < _LARGEST32)
    return _Value(exact, np.where(sound, own + passed, np.inf))
