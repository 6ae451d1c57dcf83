"""The output of training: an ONNX network, a family file and a specification."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.models.archive import Streamed
from leaveout.models.family import FAMILY, DataFacts, Manifest, Sample, save_members
from leaveout.models.train.architecture import Conv, Layer, parameter_shapes, unflatten_parameters
from leaveout.models.train.blocks import Blocks
from leaveout.models.train.encoding import CategoryColumn, Encoding, listable

if TYPE_CHECKING:
    import onnx

_MOST_LISTED = 1_000_000  # most numbers listed by the whole set; further columns stay ranges
_MOST_CHARACTERS = 60_000  # most characters that list them, the box included
_LONGEST = 60
_NAMED = 8  # columns that stay ranges and are named


def records_text(facts: DataFacts, encoding: Encoding) -> str:
    """Return the lets that define ``X``, the table's possible records."""
    refined, left = _refinements(encoding)
    names = [*(f"X{number}" for number in range(len(refined))), "X"]
    lines = [f"let {names[0]} = {_box(facts)}"]
    for number, (function, arguments, said) in enumerate(refined):
        call = f"{function}({names[number]}, {arguments})"
        lines.append(f"let {names[number + 1]} = {call}  # {said}")
    if left:
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        lines.insert(
            0,
            "# whole numbers or categories, but too many values to list them all, so these stay "
            f"ranges: {', '.join(left[:_NAMED])}{more}",
        )
    return "\n".join(lines)


def _box(facts: DataFacts) -> str:
    # A table's columns are scaled into [0, 1]; a constant one is 0, or 1 for a word.
    written = f"box({_list(facts.minimum)}, {_list(facts.maximum)})"
    low, high = min(facts.minimum), max(facts.maximum)
    plain = set(facts.minimum) == {low} and set(facts.maximum) == {high}
    if plain or len(written) > _MOST_CHARACTERS:
        return f"box({_number(low)}, {_number(high)})"
    return written


def _list(values: Sequence[float]) -> str:
    return f"[{', '.join(map(_number, values))}]"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def _refinements(encoding: Encoding) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return columns refined by listed values, and those with too many values to list."""
    refined: list[tuple[str, str, str]] = []
    left: list[str] = []
    listed, written = 0, 0
    for column, places in encoding.layout:
        features = range(places.start, places.stop)
        name = " ".join(column.name.split())[:_LONGEST]
        if isinstance(column, CategoryColumn):
            count = len(features) ** 2
            call = ("one_hot", f"at = {list(features)}", name)
        elif column.whole and column.minimum < column.maximum:
            count = int(column.maximum - column.minimum) + 1
            low, high = _number(column.minimum), _number(column.maximum)
            plain = (low, high) == ("0", "1") or not column.scaled
            ends = "" if plain else f", zero = {low}, one = {high}"
            call = ("integers", f"at = {features.start}{ends}", f"{name}: {low} to {high}")
        else:
            # The box already expresses it.
            continue
        length = sum(map(len, call))
        if (
            not listable(column)
            or listed + count > _MOST_LISTED
            or written + length > _MOST_CHARACTERS
        ):
            left.append(name)
            continue
        listed, written = listed + count, written + length
        refined.append(call)
    return refined, left


NETWORK = "full.onnx"
SPEC = "idp.spec"
BOUNDS = "bounds.npz"

_OPSET = 17
_IR_VERSION = 8
_CHUNK = 4096
_CONFIDENCE = 0.95
_SHARES = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def unflatten(
    layers: tuple[Layer, ...], parameters: NDArray[np.float32]
) -> dict[str, NDArray[np.float32]]:
    """Split flat parameters, shape (.., parameters), into named views (.., *shape)."""
    return unflatten_parameters(parameter_shapes(layers), parameters)


def network_model(
    layers: tuple[Layer, ...],
    parameters: Mapping[str, NDArray[np.float32]],
    activation: str = "Relu",
) -> onnx.ModelProto:
    """Build an ONNX model from ``x`` (batch, features) to ``scores`` (batch, labels).

    The activation is an operator of ONNX, or Silu.
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes, constants = [], []
    current, first = "x", layers[0]
    features = first.length if isinstance(first, Conv) else first.inputs
    if isinstance(first, Conv):
        constants.append(numpy_helper.from_array(np.array([1], dtype=np.int64), "signal.axes"))
        nodes.append(helper.make_node("Unsqueeze", [current, "signal.axes"], ["signal"]))
        current = "signal"
    for index, layer in enumerate(layers):
        last = index == len(layers) - 1
        weights = [f"layers.{index}.weight", f"layers.{index}.bias"]
        value = "scores" if last else f"layers.{index}.value"
        if isinstance(layer, Conv):
            nodes.append(
                helper.make_node("Conv", [current, *weights], [value], kernel_shape=[layer.width])
            )
        else:
            if index and isinstance(layers[index - 1], Conv):
                nodes.append(helper.make_node("Flatten", [current], ["flat"], axis=1))
                current = "flat"
            nodes.append(helper.make_node("Gemm", [current, *weights], [value], transB=1))
        if not last:
            current = f"layers.{index}.{activation.lower()}"
            if activation == "Silu":
                share = f"layers.{index}.sigmoid"
                nodes.append(helper.make_node("Sigmoid", [value], [share]))
                nodes.append(helper.make_node("Mul", [value, share], [current]))
            else:
                nodes.append(helper.make_node(activation, [value], [current]))
    initialisers = [
        numpy_helper.from_array(np.ascontiguousarray(value), name)
        for name, value in parameters.items()
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", features])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", layers[-1].outputs])],
        [*initialisers, *constants],
    )
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 20 if activation == "Gelu" else _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="leaveout",
    )


def scores(model: bytes, X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Evaluate a serialised model with onnxruntime; scores have shape (rows, labels)."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (entry,) = (each.name for each in session.get_inputs())
    parts = [
        session.run(None, {entry: X[start : start + _CHUNK]})[0]
        for start in range(0, len(X), _CHUNK)
    ]
    return np.concatenate(parts)


def write_family(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    blocks: Blocks,
    removed: NDArray[np.int64],  # shape (members,)
    manifest: Manifest,
) -> None:
    """Write finished blocks as a family file, a parameter of a block in memory at a time."""
    finished = blocks.finished_ranges()

    def parts(name: str) -> Iterator[NDArray[np.float32]]:
        for block in finished:
            values = unflatten_parameters(shapes, blocks.read(block))[name]
            # Network 0 lacks no row, so it is not a member.
            yield values[1:] if block.start == 0 else values

    stacks = {
        name: Streamed((len(removed), *shape), np.dtype(np.float32), partial(parts, name))
        for name, shape in shapes.items()
    }
    save_members(path, removed, manifest, stacks)


def inputs_text(facts: DataFacts, inside: bool, encoding: Encoding | None) -> str:
    """Return the lets that define ``X``; see `spec_text` for the parameters."""
    if encoding is not None:
        return records_text(facts, encoding)
    if inside:
        return "let X = box(0, 1)"
    low = ", ".join(map(repr, facts.minimum))
    high = ", ".join(map(repr, facts.maximum))
    return (
        "# some rows lie outside [0, 1]: the box is each feature's range in the training rows\n"
        f"let X = box([{low}], [{high}])"
    )


def spec_text(
    facts: DataFacts,
    source: str,
    inside: bool,
    encoding: Encoding | None = None,
    sample: Sample | None = None,
) -> str:
    """Return a specification of what one record can change.

    A table's input set is its possible records, in exactly the numbers that the network reads.
    """
    about = " ".join(source.split())
    box = inputs_text(facts, inside, encoding)
    but, sure = "", ""
    if sample is not None:
        but = f" but {_share(sample.size, len(facts.labels) * sample.draws)}"
        sure = f"\n    with confidence {_CONFIDENCE}"
    return (
        f"# what any one {'record' if facts is None else facts.group or 'record'} of {about} can "
        "change\n"
        f'let N = network("{NETWORK}")\n'
        f'let F = family("{FAMILY}")\n'
        f"{box}\n"
        "\n"
        "find bound: least b per label such that\n"
        f"    forall x in X, M in F{but}: confidence(N, x) > b => label(M, x) == label(N, x)"
        f"{sure}\n"
    )


def _share(size: int, results: int) -> float:
    """Return a round share of rows that a sample can most likely prove."""
    least = math.log(max(results, 1) / (1 - _CONFIDENCE)) / size
    return next((each for each in _SHARES if each >= least), _SHARES[-1])
