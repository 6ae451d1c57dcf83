"""Nodes of every operator that is read, with random attributes, put together into a network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attacks.kind import Case
from attacks.onnx_cases import tensor
from attacks.operator_draft import SCALES, Attributes, Draft, Rng
from attacks.operator_kinks import ANYWHERE, SPATIAL
from attacks.operator_smooth import SMOOTH

__all__ = ["network"]

_EPSILONS: list[float | None] = [None, None, 1e-5, 1e-3, 0.0, 1e-12, 1e-30, 0.5]


def _gemm(d: Draft) -> None:
    rng, (width,) = d.rng, d.shape
    out = int(rng.integers(2, 5))
    scales = [1.0, -1.0, 0.0, 0.5, 3.0, 1e-30, 1e30, 1e-45]
    attributes = d.some(alpha=scales, beta=scales, transA=[0], transB=[0, 1])
    weight = d.weights(*((out, width) if attributes.get("transB") else (width, out)))
    bias: list[tuple[int, ...] | None] = [(out,), (1, out), (1,), (), (1, 1), None]
    shape = bias[rng.integers(len(bias))]
    rest = [weight] + ([] if shape is None and d.opset >= 11 else [d.weights(*(shape or (out,)))])
    d.node("Gemm", rest, attributes, (out,))


def _matmul(d: Draft) -> None:
    out = int(d.rng.integers(2, 5))
    d.node("MatMul", [d.weights(d.shape[-1], out)], {}, (*d.shape[:-1], out))


def _arithmetic(op: str) -> Callable[[Draft], None]:
    def build(d: Draft) -> None:
        rng, shape = d.rng, d.shape
        if rng.random() < 0.15 and op in {"Add", "Sub"}:
            other = (
                ["x", d.last][rng.integers(2)] if d.last == "x" or rng.random() < 0.5 else d.last
            )
            d.node(op, [other], {}, shape, int(rng.integers(2)))
            return
        shapes = [(), (1,), shape[-1:], shape, (1, *shape), (*shape[:-1], 1), (1,) * len(shape)]
        chosen = shapes[rng.integers(len(shapes))]
        name = d.weights(*chosen)
        if op == "Div" and rng.random() < 0.8:
            values = rng.uniform(0.1, 3.0, chosen) * rng.choice(SCALES) * rng.choice([-1.0, 1.0])
            d.constants[name] = tensor(values.astype(np.float32))
        d.node(op, [name], {}, shape, int(op != "Div" and rng.random() < 0.3))

    return build


def _same(op: str) -> Callable[[Draft], None]:
    return lambda d: d.node(op, [], {}, d.shape)


def _dropout(d: Draft) -> None:
    rng = d.rng
    if d.opset < 12:
        d.node("Dropout", [], d.some(ratio=[0.0, 0.5, 0.9]), d.shape)
        return
    rest = []
    if rng.random() < 0.7:
        rest.append(d.constant(np.float32(rng.choice([0.0, 1e-7, 0.3, 0.9]))))
        if rng.random() < 0.7:
            rest.append(d.constant(np.array(rng.random() < 0.5), "bool"))
    d.node("Dropout", rest, d.some(seed=[0, 7]), d.shape)


def _flatten(d: Draft) -> None:
    axis = d.some(axis=[1, 1, 1, -len(d.shape), 0, 2, -1])
    d.node("Flatten", [], axis, (int(np.prod(d.shape)),))


def _reshape(d: Draft) -> None:
    size = int(np.prod(d.shape))
    sized = [(0, -1), (-1, size), (1, -1), (0, size), (0, 1, -1), (0, -1, 1, 1), (0, -1, 2)]
    chosen = sized[d.rng.integers(len(sized))]
    after = [size if n == -1 else n for n in chosen[1:]]
    if chosen == (0, -1, 2):
        if size % 2:
            chosen, after = (0, -1), [size]
        else:
            after = [size // 2, 2]
    if chosen == (-1, size):
        after = [size]
    attributes = d.some(allowzero=[0, 0, 1]) if d.opset >= 14 else {}
    d.node("Reshape", [d.constant(np.array(chosen), "int64")], attributes, tuple(after))


def _axes(op: str) -> Callable[[Draft], None]:
    def build(d: Draft) -> None:
        rng, rank = d.rng, len(d.shape) + 1
        if op == "Squeeze":
            ones = [i for i in range(1, rank) if d.shape[i - 1] == 1]
            if not ones:
                d.node("Identity", [], {}, d.shape)
                return
            axes: list[int] | None = ones[: int(rng.integers(1, len(ones) + 1))]
            if rng.random() < 0.3:
                axes = None
            dropped = ones if axes is None else axes
            after = tuple(n for i, n in enumerate(d.shape, 1) if i not in dropped)
        else:
            at = int(rng.integers(1, rank + 1))
            axes = [at]
            after = (*d.shape[: at - 1], 1, *d.shape[at - 1 :])
            rank += 1
        if axes is not None and rng.random() < 0.3:
            axes = [axis - rank for axis in axes]
        if axes is None:
            d.node(op, [], {}, after)
        elif d.opset >= 13:
            d.node(op, [d.constant(np.array(axes), "int64")], {}, after)
        else:
            d.node(op, [], {"axes": axes}, after)

    return build


def _transpose(d: Draft) -> None:
    order = [0, *(1 + int(i) for i in d.rng.permutation(len(d.shape)))]
    d.node("Transpose", [], {"perm": order}, tuple(d.shape[i - 1] for i in order[1:]))


def _window(d: Draft, kernel: list[int], dilated: bool) -> tuple[Attributes, tuple[int, ...]]:
    rng, rank = d.rng, len(kernel)
    given = d.some(strides=[[1] * rank, [2] * rank, ([1, 2] * rank)[:rank]])
    if dilated:
        given |= d.some(dilations=[[1] * rank, [2] * rank])
    pads = [0] * (2 * rank)
    if rng.random() < 0.3:
        given["auto_pad"] = ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"][rng.integers(4)]
    elif rng.random() < 0.6:
        pads = [int(rng.integers(0, kernel[i % rank])) for i in range(2 * rank)]
        given["pads"] = pads
    sides = []
    for i, size in enumerate(d.shape[1:]):
        stride, dilation = (
            given.get("strides", [1] * rank)[i],
            given.get("dilations", [1] * rank)[i],
        )
        reach = dilation * (kernel[i] - 1) + 1
        if given.get("auto_pad", "").startswith("SAME"):
            sides.append(-(-size // stride))
        else:
            sides.append(max(1, (size + pads[i] + pads[i + rank] - reach) // stride + 1))
    return given, tuple(sides)


def _conv(d: Draft) -> None:
    rng, channels = d.rng, d.shape[0]
    kernel = [int(rng.integers(1, min(3, n) + 1)) for n in d.shape[1:]]
    attributes, sides = _window(d, kernel, True)
    group = int(rng.choice([g for g in (1, 2, 3) if channels % g == 0]))
    if group > 1 or rng.random() < 0.2:
        attributes["group"] = group
    if rng.random() < 0.3:
        attributes["kernel_shape"] = kernel
    out = group * int(rng.integers(1, 3))
    rest = [d.weights(out, channels // group, *kernel)]
    if rng.random() < 0.5:
        rest.append(d.weights(out))
    d.node("Conv", rest, attributes, (out, *sides))


def _pool(d: Draft) -> None:
    kernel = [int(d.rng.integers(1, min(3, n) + 1)) for n in d.shape[1:]]
    attributes, sides = _window(d, kernel, d.opset >= 19 and d.rng.random() < 0.3)
    attributes |= {"kernel_shape": kernel} | d.some(count_include_pad=[0, 1])
    if d.opset >= 10:
        attributes |= d.some(ceil_mode=[0, 0, 0, 1])
    d.node("AveragePool", [], attributes, (d.shape[0], *sides))


def _batch_normalization(d: Draft) -> None:
    rng, channels = d.rng, d.shape[0]
    epsilon = _EPSILONS[rng.integers(len(_EPSILONS))]
    attributes: Attributes = {} if epsilon is None else {"epsilon": epsilon}
    attributes |= d.some(momentum=[0.9, 0.0])
    if d.opset < 9:
        attributes |= d.some(spatial=[1, 1, 0])
    if d.opset >= 14:
        attributes |= d.some(training_mode=[0, 0, 1])
    near = np.float32(1e-5 if epsilon is None else epsilon)
    variances = [
        0.2 + rng.random(channels),
        rng.random(channels) * rng.choice(SCALES),
        np.full(channels, -near) * (1 + rng.choice([0, 1, -1, 4, -4, 64], channels) * 2.0**-23),
        np.full(channels, -near) * rng.choice([0.5, 0.99, 0.999999], channels),
        np.full(channels, 0.0),
    ]
    variance = variances[int(rng.choice(5, p=[0.55, 0.2, 0.1, 0.1, 0.05]))]
    rest = [d.weights(channels) for _ in range(3)]
    rest.append(d.constant(variance.astype(np.float32)))
    d.node("BatchNormalization", rest, attributes, d.shape)


def _global_pool(d: Draft) -> None:
    d.node("GlobalAveragePool", [], {}, (d.shape[0], *(1,) * (len(d.shape) - 1)))


_ANY = {
    "MatMul": _matmul,
    "Add": _arithmetic("Add"),
    "Sub": _arithmetic("Sub"),
    "Mul": _arithmetic("Mul"),
    "Div": _arithmetic("Div"),
    "Relu": _same("Relu"),
    "Identity": _same("Identity"),
    "Dropout": _dropout,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _axes("Squeeze"),
    "Unsqueeze": _axes("Unsqueeze"),
    "Transpose": _transpose,
    "BatchNormalization": _batch_normalization,
    **ANYWHERE,
    **SMOOTH,
}
_SPATIAL = {
    "Conv": _conv,
    "AveragePool": _pool,
    "GlobalAveragePool": _global_pool,
    **SPATIAL,
}


def _disguised(d: Draft) -> None:
    """Append operators whose constants cancel exactly: a runtime rounds, or overflows, on the way.

    Widths stay as they are.
    """
    rng = d.rng
    if len(d.shape) == 1 and rng.random() < 0.5:
        k = int(rng.integers(1, 127))
        up = d.constant((2.0**k * np.eye(d.shape[0])).astype(np.float32))
        rest = [up] if d.opset >= 11 else [up, d.constant(np.zeros(d.shape[0], np.float32))]
        d.node("Gemm", rest, {"alpha": 2.0**-k}, d.shape)
        return
    # Squares of eighths and a power of 2 are float32 numbers, so that the factor is exactly 1.
    scale, epsilon = 1.0 + int(rng.integers(1, 16)) / 8, 2.0**-12
    width = d.shape[0]
    values = [scale, 0.0, 0.0, scale**2 - epsilon]
    rest = [d.constant(np.full(width, value, np.float32)) for value in values]
    for _ in range(int(rng.choice([1, 3, 12, 40]))):
        d.node("BatchNormalization", rest, {"epsilon": epsilon}, d.shape)


def network(rng: Rng) -> Case:
    """Draw a chain of one to four operators, with what makes scores of its last tensor."""
    opset = int(rng.integers(7, 24))
    sides = [(3,), (2,), (5,), (2, 3), (2, 5), (4, 6), (2, 4, 4), (3, 3, 5), (1, 4, 3), (1, 1)]
    if rng.random() < 0.03:
        sides = [(2, 3, 3, 3), (1, 2, 2, 2)]
    draft = Draft(rng, sides[rng.integers(len(sides))], opset)
    shape = draft.shape
    for _ in range(int(rng.choice([1, 2, 3, 4], p=[0.45, 0.3, 0.15, 0.1]))):
        _one(draft)
    if draft.shape and rng.random() < 0.08:
        _disguised(draft)
    body = len(draft.nodes)
    _tail(draft)
    batch = [["n"], [1], [None], [""]][int(rng.choice(4, p=[0.6, 0.25, 0.1, 0.05]))]
    sizes = [1.0, 1.0, 1.0, 1e-3, 1e3, 1e-20, 1e9, 1e15, 1e-40]
    points = rng.normal(size=(4, 6)) * rng.choice(sizes)
    points[rng.random(points.shape) < 0.15] = rng.choice([0.0, -0.0, 1.0, 1e-45])
    return {
        "opset": opset,
        "body": body,
        "inputs": [["x", "float32", [batch[0] or None, *shape]]],
        "nodes": draft.nodes,
        "constants": draft.constants,
        "overridable": [],
        "outputs": [[draft.last, "float32", ["n", draft.shape[0]]]],
        "points": tensor(points.astype(np.float32))["data"],
        "shaken": float(rng.choice([0.0, 0.0, 0.01, 0.3])),
    }


def _one(draft: Draft) -> None:
    """Append an operator that fits the rank."""
    rng, rank = draft.rng, len(draft.shape)
    if rank == 1 and rng.random() < 0.25:
        _gemm(draft)
        return
    fitting = dict(_ANY)
    if rank in {2, 3, 4}:
        fitting |= _SPATIAL
        if rng.random() < 0.3:
            fitting = {k: v for k, v in fitting.items() if k in {*_SPATIAL, "BatchNormalization"}}
    if rank == 0:
        fitting = {name: _ANY[name] for name in ("Unsqueeze", "Identity", "Mul", "Relu")}
    if rank > 4:
        fitting = {"Flatten": _flatten, "Reshape": _reshape}
    names = list(fitting)
    fitting[names[rng.integers(len(names))]](draft)


def _tail(draft: Draft) -> None:
    """Make scores: flat, at least two, at times behind another layer or before a softmax."""
    rng = draft.rng
    if len(draft.shape) != 1:
        draft.node("Flatten", [], {}, (int(np.prod(draft.shape)),))
    if draft.shape[0] < 2 or rng.random() < 0.2:
        if rng.random() < 0.3:
            draft.node("Relu", [], {}, draft.shape)
        draft.node("MatMul", [draft.weights(draft.shape[0], 2)], {}, (2,))
    if rng.random() < 0.08:
        name = ["Softmax", "LogSoftmax"][rng.integers(2)]
        draft.node(name, [], draft.some(axis=[1, -1, 0]), draft.shape)
