"""Readers of ONNX's Conv and pooling operators."""

from __future__ import annotations

from leaveout.models.onnx_use import UnsupportedError, Use
from leaveout.models.operators import Operator, Shape
from leaveout.models.operators.window import AveragePool, Conv, Window


def window_of(use: Use, kernel: Shape) -> Window:
    """Read the position of a kernel: padding, strides and dilations."""
    rank = len(kernel)
    auto_pad = str(use.attribute("auto_pad", "NOTSET"))
    if auto_pad != "NOTSET" and any(use.attribute("pads", ())):
        raise UnsupportedError(f"auto_pad = {auto_pad} beside pads")
    return Window(
        kernel,
        tuple(use.attribute("strides", (1,) * rank)),
        tuple(use.attribute("dilations", (1,) * rank)),
        tuple(use.attribute("pads", (0,) * (2 * rank))),
        auto_pad,
    )


def conv(use: Use) -> Operator:
    """Read Conv."""
    weight = use.constant(1)
    kernel = tuple(use.attribute("kernel_shape", use.values[weight].shape[2:]))
    return Conv(weight, use.constant(2), window_of(use, kernel), int(use.attribute("group", 1)))


def average_pool(use: Use) -> Operator:
    """Read AveragePool."""
    if any(n != 1 for n in use.attribute("dilations", ())):
        raise UnsupportedError("dilations other than 1 are not supported")
    window = window_of(use, tuple(use.attribute("kernel_shape", ())))
    if use.attribute("ceil_mode", 0) and not fits(window, use.shape[1:]):
        raise UnsupportedError(
            "ceil_mode = 1 where windows stick out; runtimes disagree on it: use ceil_mode=False"
        )
    return AveragePool(window, bool(use.attribute("count_include_pad", 0)))


def fits(window: Window, spatial: Shape) -> bool:
    """Return whether the last window ends exactly at the end of the padded axes."""
    window.positions(spatial)
    pads = window.padding(spatial)
    return all(
        (size + sum(pad) - dilation * (kernel - 1) - 1) % stride == 0
        for size, kernel, stride, dilation, pad in zip(
            spatial, window.kernel, window.strides, window.dilations, pads, strict=True
        )
    )
