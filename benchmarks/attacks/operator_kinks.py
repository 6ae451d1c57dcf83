"""Nodes with kinks, maxima, reductions, and those that pick or place numbers, at random."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attacks.operator_draft import SCALES, Draft

__all__ = ["ANYWHERE", "SPATIAL"]


def _leaky(d: Draft) -> None:
    slopes = [0.01, 0.5, 1.0, 2.0, -0.5, 0.0, 1e-30, 1e20, -1e-45]
    d.node("LeakyRelu", [], d.some(alpha=slopes), d.shape)


def _slopes(d: Draft) -> None:
    shapes = [d.shape, (d.shape[0], *(1,) * (len(d.shape) - 1)), (1,)]
    d.node("PRelu", [d.weights(*shapes[d.rng.integers(3)])], {}, d.shape)


def _clip(d: Draft) -> None:
    bounds = [float(d.rng.normal() * d.rng.choice(SCALES)) for _ in range(2)]
    if d.opset < 11:
        d.node("Clip", [], d.some(min=bounds[:1], max=bounds[1:]), d.shape)
        return
    given = [
        "" if d.rng.random() < 0.3 else d.constant(np.float32(value).reshape(()))
        for value in bounds
    ]
    d.node("Clip", given, {}, d.shape)


def _hard_sigmoid(d: Draft) -> None:
    values = [0.2, 0.5, 1.0, -3.0, 0.0, 1e-30, 1e10]
    d.node("HardSigmoid", [], d.some(alpha=values, beta=values), d.shape)


def _many(op: str) -> Callable[[Draft], None]:
    def append(d: Draft) -> None:
        rest = []
        for _ in range(int(d.rng.integers(1, 3))):
            shape = [d.shape, (1,), (1, *d.shape)][d.rng.integers(3)]
            rest.append(d.last if d.rng.random() < 0.3 else d.weights(*shape))
        d.node(op, rest, {}, d.shape, int(d.rng.integers(2)))

    return append


def _same(op: str) -> Callable[[Draft], None]:
    return lambda d: d.node(op, [], {}, d.shape)


def _reduced(op: str) -> Callable[[Draft], None]:
    def append(d: Draft) -> None:
        axis = int(d.rng.integers(1, 1 + len(d.shape)))
        kept = len(d.shape) == 1 or d.rng.random() < 0.6
        shape = (*d.shape[: axis - 1], *((1,) if kept else ()), *d.shape[axis:])
        attributes = {} if kept else {"keepdims": 0}
        new = d.opset >= (13 if op == "ReduceSum" else 18)
        rest = [d.constant(np.asarray([axis]), "int64")] if new else []
        d.node(op, rest, attributes | ({} if new else {"axes": [axis]}), shape)

    return append


def _gather(d: Draft) -> None:
    axis = int(d.rng.integers(1, 1 + len(d.shape)))
    places = d.rng.integers(0, d.shape[axis - 1], size=int(d.rng.integers(1, 5)))
    shape = (*d.shape[: axis - 1], len(places), *d.shape[axis:])
    d.node("Gather", [d.constant(places, "int64")], {"axis": axis}, shape)


def _slice(d: Draft) -> None:
    axis = int(d.rng.integers(1, 1 + len(d.shape)))
    size = d.shape[axis - 1]
    start = int(d.rng.integers(0, size))
    step = int(d.rng.integers(1, 3)) if d.opset >= 10 else 1
    shape = (*d.shape[: axis - 1], len(range(start, size, step)), *d.shape[axis:])
    if d.opset < 10:
        d.node("Slice", [], {"starts": [start], "ends": [2**31], "axes": [axis]}, shape)
        return
    rest = [d.constant(np.asarray([n]), "int64") for n in (start, 2**40, axis, step)]
    d.node("Slice", rest, {}, shape)


def _pad(d: Draft) -> None:
    widths = d.rng.integers(0, 2, size=(2, len(d.shape))).tolist()
    pads = [0, *widths[0], 0, *widths[1]]
    shape = tuple(n + a + b for n, a, b in zip(d.shape, *widths, strict=True))
    if d.opset < 11:
        d.node("Pad", [], {"pads": pads}, shape)
        return
    rest = [d.constant(np.asarray(pads), "int64")]
    if d.rng.random() < 0.5:
        value = np.float32(d.rng.normal() * d.rng.choice(SCALES)).reshape(())
        rest.append(d.constant(value))
    d.node("Pad", rest, d.some(mode=["constant", "edge"]), shape)


def _concat(d: Draft) -> None:
    axis = int(d.rng.integers(1, 1 + len(d.shape)))
    shape = (*d.shape[: axis - 1], 2 * d.shape[axis - 1], *d.shape[axis:])
    d.node("Concat", [d.last], {"axis": axis}, shape)


def _max_pool(d: Draft) -> None:
    rank = len(d.shape) - 1
    kernel = [int(d.rng.integers(1, min(3, n) + 1)) for n in d.shape[1:]]
    strides = [int(d.rng.integers(1, 3)) for _ in range(rank)]
    pads = [int(d.rng.integers(0, k)) for k in kernel * 2]
    sizes = zip(d.shape[1:], kernel, strides, pads[:rank], pads[rank:], strict=True)
    spatial = tuple((n + a + b - k) // s + 1 for n, k, s, a, b in sizes)
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    d.node("MaxPool", [], attributes, (d.shape[0], *spatial))


def _global_max(d: Draft) -> None:
    d.node("GlobalMaxPool", [], {}, (d.shape[0], *(1,) * (len(d.shape) - 1)))


def _tile(d: Draft) -> None:
    repeats = d.rng.integers(1, 3, size=len(d.shape)).tolist()
    shape = tuple(n * k for n, k in zip(d.shape, repeats, strict=True))
    d.node("Tile", [d.constant(np.asarray([1, *repeats]), "int64")], {}, shape)


def _resize(d: Draft) -> None:
    factors = d.rng.integers(1, 3, size=len(d.shape)).tolist()
    shape = tuple(n * k for n, k in zip(d.shape, factors, strict=True))
    if d.opset < 9:
        d.node("Identity", [], {}, d.shape)
        return
    scales = d.constant(np.asarray([1, *factors], np.float32))
    if d.opset < 11:
        d.node("Upsample" if d.opset == 9 else "Resize", [scales], {"mode": "nearest"}, shape)
        return
    modes = ["asymmetric", "half_pixel", "align_corners"]
    near = ["floor", "ceil", "round_prefer_floor"]
    roi = "" if d.opset >= 13 else d.constant(np.zeros(0, np.float32))
    given = d.some(coordinate_transformation_mode=modes, nearest_mode=near)
    d.node("Resize", [roi, scales], given, shape)


def _conv_transpose(d: Draft) -> None:
    rank = len(d.shape) - 1
    kernel = [int(d.rng.integers(1, 4)) for _ in range(rank)]
    strides = [int(d.rng.integers(1, 3)) for _ in range(rank)]
    more = [int(d.rng.integers(0, s)) for s in strides]
    pads = [int(d.rng.integers(0, (k + 1) // 2)) for k in kernel * 2]
    groups = int(d.rng.choice([n for n in (1, 2) if d.shape[0] % n == 0]))
    ends = zip(d.shape[1:], kernel, strides, more, pads[:rank], pads[rank:], strict=True)
    spatial = tuple(s * (n - 1) + m + k - a - b for n, k, s, m, a, b in ends)
    attributes = {"strides": strides, "pads": pads, "output_padding": more, "group": groups}
    rest = [d.weights(d.shape[0], 2, *kernel), *([d.weights(2 * groups)] * int(d.rng.integers(2)))]
    d.node("ConvTranspose", rest, attributes, (2 * groups, *spatial))


def _left(d: Draft) -> None:
    out = int(d.rng.integers(2, 5))
    if len(d.shape) < 2:
        d.node("MatMul", [d.weights(1, d.shape[0])], {}, (out,), 1)
        return
    rest = [d.weights(out, d.shape[-2])]
    d.node("MatMul", rest, {}, (*d.shape[:-2], out, d.shape[-1]), 1)


ANYWHERE = {
    "LeakyRelu": _leaky,
    "PRelu": _slopes,
    "Abs": _same("Abs"),
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    **{op: _many(op) for op in ("Max", "Min", "Sum")},
    **{op: _reduced(op) for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")},
    "Gather": _gather,
    "Slice": _slice,
    "Pad": _pad,
    "Concat": _concat,
    "Tile": _tile,
    "Resize": _resize,
    "MatMul on the left": _left,
}
"""By ONNX operator; a shape of one axis at least."""
SPATIAL = {
    "MaxPool": _max_pool,
    "GlobalMaxPool": _global_max,
    "ConvTranspose": _conv_transpose,
}
