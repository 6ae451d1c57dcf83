"""The supported ONNX operators: what each supports, and its reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from leaveout.models.graph import Join
from leaveout.models.onnx.folding import moves
from leaveout.models.onnx.node_readers import (
    average_pool,
    conv,
    conv_transpose,
    flatten,
    gather,
    pad,
    reduction,
    reshape,
    slices,
    split,
    squeeze,
    transpose,
    unsqueeze,
)
from leaveout.models.onnx.operators import Operator, Relu, Smooth
from leaveout.models.onnx.operators.arithmetic import BatchNormalization, Gemm, MatMul, Scale, Shift
from leaveout.models.onnx.operators.shape import Identity
from leaveout.models.onnx.operators.window import GlobalAveragePool
from leaveout.models.onnx.use import (
    ANY,
    AUTO_PAD,
    FINITE,
    FLAG,
    NOT_NEGATIVE,
    PADS,
    POSITIVE,
    SIZES,
    TRAINING,
    Accepted,
    SupportedOperator,
    UnsupportedError,
    Use,
    only,
)


def _gemm(use: Use) -> Operator:
    return Gemm(
        use.constant(1),
        use.constant(2),
        float(use.attribute("alpha", 1.0)),
        float(use.attribute("beta", 1.0)),
        bool(use.attribute("transB", 0)),
    )


def _sum(sign: int) -> Callable[[Use], Operator]:
    def read(use: Use) -> Operator:
        left, right = use.proto.input
        if len(use.variables) == 2:
            if use.shapes[left] != use.shapes[right]:
                raise UnsupportedError(
                    f"it joins tensors of shapes {use.shapes[left]} and {use.shapes[right]}; a "
                    "sum needs as many axes of both, of equal size or of size 1"
                )
            return Join(sign)
        return Shift(right, 1, sign) if use.variables == (left,) else Shift(left, sign, 1)

    return read


def _multiply(use: Use) -> Operator:
    return Scale(next(name for name in use.proto.input if name not in use.shapes), "multiply")


def _batch_normalization(use: Use) -> Operator:
    epsilon = float(np.float32(use.attribute("epsilon", 1e-5)))
    scale, bias, mean, variance = (use.constant(i) for i in range(1, 5))
    return BatchNormalization(scale, bias, mean, variance, epsilon)


def _dropout(use: Use) -> Operator:
    training = use.constant(2)
    if training and use.values[training].any():
        raise UnsupportedError(TRAINING)
    return Identity(use.constant(1))


_WINDOW = {
    "auto_pad": AUTO_PAD,
    "dilations": SIZES,
    "kernel_shape": SIZES,
    "pads": PADS,
    "strides": SIZES,
}

_NEAREST = Accepted(
    lambda found: found == "nearest",
    "only nearest neighbours are copies; resize with mode='nearest', or before the network",
)

_REDUCTION = {"axes": ANY, "keepdims": FLAG, "noop_with_empty_axes": FLAG}

_GELU = Accepted(lambda found: found in {"none", "tanh"}, "expected none or tanh")


def _gelu(use: Use) -> Operator:
    return Smooth("GeluTanh" if use.attribute("approximate", "none") == "tanh" else "Gelu")


OPERATORS: Mapping[str, SupportedOperator] = {
    "Add": SupportedOperator(_sum(1), ("data", "data")),
    "AveragePool": SupportedOperator(
        average_pool,
        attributes={**_WINDOW, "ceil_mode": FLAG, "count_include_pad": FLAG},
    ),
    "BatchNormalization": SupportedOperator(
        _batch_normalization,
        ("data", "floats", "floats", "floats", "floats"),
        {
            "epsilon": NOT_NEGATIVE,
            "momentum": ANY,
            "spatial": only(1),
            "training_mode": Accepted(lambda found: found == 0, TRAINING),
        },
        trains=True,
    ),
    "Conv": SupportedOperator(conv, ("data", "floats", "floats"), {**_WINDOW, "group": POSITIVE}),
    "ConvTranspose": SupportedOperator(
        conv_transpose,
        ("data", "floats", "floats"),
        {**_WINDOW, "group": POSITIVE, "output_padding": ANY},
    ),
    "Elu": SupportedOperator(lambda use: Smooth("Elu"), attributes={"alpha": only(1.0)}),
    "DepthToSpace": SupportedOperator(moves, attributes={"blocksize": POSITIVE, "mode": ANY}),
    "Div": SupportedOperator(lambda use: Scale(use.constant(1), "divide"), ("data", "floats")),
    "Dropout": SupportedOperator(
        _dropout, ("data", "floats", "truth"), {"ratio": ANY, "seed": ANY}
    ),
    "Expand": SupportedOperator(moves, ("data", "integers")),
    "Flatten": SupportedOperator(flatten, attributes={"axis": ANY}),
    "Gemm": SupportedOperator(
        _gemm,
        ("data", "floats", "floats"),
        {
            "alpha": FINITE,
            "beta": FINITE,
            "transA": Accepted(lambda found: found == 0, "it mixes the samples of a batch"),
            "transB": FLAG,
        },
    ),
    "Gather": SupportedOperator(gather, ("data", "integers"), {"axis": ANY}),
    "Gelu": SupportedOperator(_gelu, attributes={"approximate": _GELU}),
    "GlobalAveragePool": SupportedOperator(lambda use: GlobalAveragePool()),
    "Identity": SupportedOperator(lambda use: Identity()),
    "MatMul": SupportedOperator(lambda use: MatMul(use.constant(1)), ("data", "floats")),
    "Mul": SupportedOperator(_multiply, ("data", "data")),
    "Pad": SupportedOperator(
        pad, ("data", "integers", "floats", "integers"), {"mode": ANY, "pads": ANY, "value": FINITE}
    ),
    "ReduceMean": SupportedOperator(reduction(mean=True), ("data", "integers"), _REDUCTION),
    "ReduceSum": SupportedOperator(reduction(mean=False), ("data", "integers"), _REDUCTION),
    "Relu": SupportedOperator(lambda use: Relu()),
    "Reshape": SupportedOperator(reshape, ("data", "integers"), {"allowzero": only(0)}),
    "Resize": SupportedOperator(
        moves,
        ("data", "floats", "floats", "integers"),
        {
            "antialias": only(0),
            "axes": ANY,
            "coordinate_transformation_mode": ANY,
            "cubic_coeff_a": ANY,
            "exclude_outside": ANY,
            "extrapolation_value": ANY,
            "keep_aspect_ratio_policy": ANY,
            "mode": _NEAREST,
            "nearest_mode": ANY,
        },
    ),
    "Sigmoid": SupportedOperator(lambda use: Smooth("Sigmoid")),
    "Slice": SupportedOperator(
        slices,
        ("data", "integers", "integers", "integers", "integers"),
        {"axes": ANY, "ends": ANY, "starts": ANY},
    ),
    "Softplus": SupportedOperator(lambda use: Smooth("Softplus")),
    "SpaceToDepth": SupportedOperator(moves, attributes={"blocksize": POSITIVE}),
    "Split": SupportedOperator(
        split, ("data", "integers"), {"axis": ANY, "num_outputs": POSITIVE, "split": ANY}
    ),
    "Squeeze": SupportedOperator(squeeze, ("data", "integers"), {"axes": ANY}),
    "Sub": SupportedOperator(_sum(-1), ("data", "data")),
    "Tanh": SupportedOperator(lambda use: Smooth("Tanh")),
    "Tile": SupportedOperator(moves, ("data", "integers")),
    "Transpose": SupportedOperator(transpose, attributes={"perm": ANY}),
    "Unsqueeze": SupportedOperator(unsqueeze, ("data", "integers"), {"axes": ANY}),
    "Upsample": SupportedOperator(moves, ("data", "floats"), {"mode": _NEAREST}),
}
"""By ONNX operator type."""
