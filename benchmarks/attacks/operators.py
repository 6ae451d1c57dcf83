"""Attacks on the reading of ONNX files: every operator, attribute and opset against onnxruntime."""

from __future__ import annotations

import copy
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import EncodeError
from numpy.typing import NDArray

from leaveout.encoders import (
    Box,
    confidence_error,
    evaluation_of,
    network_bounds,
    rounding_error,
)
from leaveout.errors import LeaveoutError, ModelError
from leaveout.kernel.smooth import KIND
from leaveout.models import Network, load_network, lower
from leaveout.models.graph import Stack
from leaveout.models.matrices import dense
from leaveout.models.onnx.file import network_from
from leaveout.models.replay import with_parameters

from attacks.kind import Case, Outcome
from attacks.onnx_cases import NotRunError, Runtime, model_of
from attacks.operator_nodes import network
from attacks.operator_odd import odd
from attacks.warm import memory_folder

__all__ = ["Operators"]

_LABELS = 2**10
"""Networks of more scores are read, but not compared: that takes a matrix of scores by scores."""
_SECONDS = 5.0
_MEMORY = 2**20
"""Kilobytes that reading a file of some hundred numbers may take."""

Floats = NDArray[np.float64]


class Operators:
    """Small networks of any operators, many of them odd: refused in a line, or read exactly."""

    name = "operators"

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        case = network(rng)
        return odd(rng, case) if rng.random() < 0.5 else case

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        label = _label(case)
        try:
            model = model_of(case)
        except (ValueError, TypeError, OverflowError, EncodeError, KeyError):
            return Outcome("no protocol buffer", "refused")
        with tempfile.TemporaryDirectory(dir=memory_folder()) as at:
            path = Path(at) / "model.onnx"
            path.write_bytes(model.SerializeToString())
            before, memory = time.process_time(), _peak()
            try:
                read: Network | None = load_network(path)
                refusal = ""
            except LeaveoutError as error:
                read, refusal = None, str(error)
            seconds, grown = time.process_time() - before, _peak() - memory
        if seconds > _SECONDS:
            return Outcome(label, "refused", f"slow: reading takes {seconds:.0f} s")
        if grown > _MEMORY:
            return Outcome(label, "refused", f"memory: reading takes {grown // 1024} MiB")
        if "\n" in refusal or (refusal and str(path) not in refusal):
            return Outcome(label, "refused", f"message: {refusal!r}")
        if "differently from onnxruntime" in refusal:
            with suppress(ModelError):
                read = network_from(model, str(path))
        if read is None:
            return Outcome(label, "refused")
        with np.errstate(all="ignore"):
            wrong, is_bounded = _compared(read, case)
        answer = "refused" if refusal else "proved" if is_bounded else "unknown"
        return Outcome(label, answer, wrong)  # type: ignore[arg-type]

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        for at in range(len(case["nodes"])):
            smaller = _without_node(case, at)
            if smaller is not None:
                yield smaller
        if case["shaken"]:
            yield {**case, "shaken": 0.0}
        if len(case["points"]) > 1:
            half = len(case["points"]) // 2
            yield {**case, "points": case["points"][:half]}
            yield {**case, "points": case["points"][half:]}
        for at, node in enumerate(case["nodes"]):
            for name in node["attributes"]:
                smaller = copy.deepcopy(case)
                del smaller["nodes"][at]["attributes"][name]
                yield smaller
        used = {name for node in case["nodes"] for name in node["inputs"]}
        for name in case["constants"]:
            if name not in used:
                kept = {n: c for n, c in case["constants"].items() if n != name}
                yield {**case, "constants": kept}
        yield from _plainer(case)


def _plainer(case: Case) -> Iterator[Case]:
    """Yield cases with one number replaced by 0 or 1."""
    for name, given in case["constants"].items():
        for at, value in enumerate(given["data"]):
            for plain in (0.0, 1.0) if given["type"] == "float32" else ():
                if value not in {0.0, 1.0} or (value == 1.0 and plain == 0.0):
                    smaller = copy.deepcopy(case)
                    smaller["constants"][name]["data"][at] = plain
                    yield smaller
    for at, value in enumerate(case["points"]):
        if value not in {0.0, 1.0}:
            for plain in (0.0, 1.0):
                points = [*case["points"]]
                points[at] = plain
                yield {**case, "points": points}


def _without_node(case: Case, at: int) -> Case | None:
    """Leave out a node: who read it reads its first input."""
    smaller = copy.deepcopy(case)
    node = smaller["nodes"].pop(at)
    if not node["inputs"] or not node["outputs"] or not smaller["nodes"]:
        return None
    renamed = {node["outputs"][0]: node["inputs"][0]}
    for other in smaller["nodes"]:
        other["inputs"] = [renamed.get(name, name) for name in other["inputs"]]
    for output in smaller["outputs"]:
        output[0] = renamed.get(output[0], output[0])
    smaller["body"] = max(1, case["body"] - (at < case["body"]))
    return smaller


def _label(case: Case) -> str:
    nodes = case["nodes"][: case["body"]]
    if len(nodes) != 1:
        return f"a chain of {len(nodes)}"
    opset = case["opset"]
    band = "opset 7-12" if 7 <= opset < 13 else "opset 13-23" if 13 <= opset < 24 else "odd opset"
    attributes = ", ".join(sorted(nodes[0]["attributes"]))
    return f"{nodes[0]['op']}({attributes}), {band}"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _compared(read: Network, case: Case) -> tuple[str | None, bool]:
    """Compare a network, and a member of a family of it, with onnxruntime.

    Returns
    -------
    str or None
        What is wrong.
    bool
        Whether there was a bound on the rounding to compare with.
    """
    points = _points(case, read)
    own = {name: value[None] for name, value in read.parameters.items()}
    wrong, bounded = _agrees(read, read.model, own, points)
    if wrong is None and case["shaken"]:
        rng = np.random.default_rng(0)
        member = {
            name: (value + case["shaken"] * rng.normal(size=value.shape)).astype(value.dtype)
            for name, value in read.parameters.items()
        }
        stacked = {name: value[None] for name, value in member.items()}
        if np.isfinite(lower(read.graph, stacked).flat()).all() and _runs(read, member, points):
            model = with_parameters(read.model, member)
            wrong, also = _agrees(read, model, stacked, points)
            wrong = wrong and f"member {wrong}"
            bounded = bounded and also
    return wrong, bounded


def _runs(read: Network, member: dict[str, Any], points: NDArray[np.float32]) -> bool:
    """Whether leaveout replays a member at all, or says in a line that nobody can."""
    try:
        read.runner(member).scores(points)
    except LeaveoutError:
        return False
    return True


def _points(case: Case, read: Network) -> NDArray[np.float32]:
    given = np.array([float(value) for value in case["points"]], np.float32)
    count = max(1, len(given) // 6)
    return np.stack([np.resize(np.roll(given, -6 * i), read.inputs) for i in range(count)])


def _agrees(
    read: Network, model: onnx.ModelProto, parameters: dict[str, Any], points: NDArray[np.float32]
) -> tuple[str | None, bool]:
    stack = lower(read.graph, parameters)
    if stack.labels > _LABELS:
        return None, False
    exact = points.astype(np.float64)
    ours = stack.scores(exact)[0]
    box = Box(exact.min(axis=0), exact.max(axis=0))
    bounds = network_bounds(stack, box)
    error = rounding_error(evaluation_of(read.graph, parameters), bounds, box)
    allowed = error.of_forms(np.eye(stack.labels))
    pairs = np.array([error.of_margins(0, [c]) for c in range(1, stack.labels)])
    confidence = confidence_error(read.graph, parameters, bounds, box)
    # What float64 loses here: squares may cancel.
    noise = 2.0**-44 * magnitudes(stack, exact).max(axis=0) if stack.is_smooth else 0 * allowed
    allowed, pairs, confidence = allowed + noise, pairs + noise.sum(), confidence + noise.sum()
    if not (np.isfinite(ours).all() and np.isfinite(allowed).all()):
        return None, False
    samples = points.reshape(-1, *read.graph.input_shape)
    for is_optimised in (True, False):
        try:
            found = _found(Runtime(model, read.graph, is_optimised), model, samples)
        except NotRunError as error:
            # Without optimisations it may refuse what those take away.
            if is_optimised:
                return f"runtime: {error}", True
            continue
        for theirs in found:
            wrong = _too_far(ours, theirs, allowed, pairs, confidence)
            if wrong is not None:
                return f"{wrong}, optimised = {is_optimised}", True
    return None, True


def _found(runtime: Runtime, model: onnx.ModelProto, samples: NDArray[np.float32]) -> list[Floats]:
    """Scores of samples, asked one by one, and as a batch where there may be one."""
    first = model.graph.input[0].type.tensor_type.shape.dim[0]
    alone = runtime.scores(samples)
    one = first.dim_value == 1 or len(model.graph.input[0].type.tensor_type.shape.dim) == 1
    return [alone] if one else [alone, runtime.together(samples)]


def magnitudes(stack: Stack, points: Floats) -> Floats:
    """Return the sums of the absolute terms of each score, shape (points, labels)."""
    sources = [np.abs(points)]
    for layer, exact in zip(stack.layers, stack.activations(points), strict=True):
        terms = (sources[s] @ np.abs(dense(w)[0]).T for s, w in layer.weights.items())
        size = np.abs(layer.bias[0]) + sum(terms)
        kind = 0 if layer.kinds is None else layer.kinds[0]
        if kind == KIND["Square"]:
            size = size**2
        elif kind == KIND["InverseRoot"]:
            size = layer.outputs(exact[0])
        sources.append(size)
    return sources[-1]


def _too_far(
    ours: Floats, theirs: Floats, allowed: Floats, pairs: Floats, confidence: float
) -> str | None:
    if theirs.shape != ours.shape:
        return f"scores: of shape {theirs.shape}, read as {ours.shape}"
    off = np.abs(ours - theirs)
    if not (off <= allowed).all():
        at = np.unravel_index(np.argmax(off - allowed), off.shape)
        return f"scores: {theirs[at]:.9g} read as {ours[at]:.9g}, charged {allowed[at[1]]:.3g}"
    margins = np.abs((theirs[:, :1] - theirs[:, 1:]) - (ours[:, :1] - ours[:, 1:]))
    if not (margins <= pairs).all():
        return f"margins: off by {margins.max(axis=0)}, charged {pairs}"
    if not (margins <= confidence).all():
        return f"confidences: off by {margins.max():.3g}, charged {confidence:.3g}"
    return None
