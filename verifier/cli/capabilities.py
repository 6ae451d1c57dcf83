"""``leaveout-vnnlib supports``: the capabilities that VNN-LIB's standard lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def _opsets() -> list[str]:
    from leaveout.models.onnx_use import OPSETS

    return [str(OPSETS[0]), str(OPSETS[-1])]


def _operators() -> list[str]:
    from leaveout.models.onnx_operators import OPERATORS
    from leaveout.models.rewrites import REWRITES
    from leaveout.models.rewrites.endings import FinalSigmoid, FinalSoftmax

    # A query is about what comes out, so that what is dropped at the end is not supported.
    dropped = FinalSoftmax, FinalSigmoid
    rewritten = {each.operator for each in REWRITES if not isinstance(each, dropped)}
    return sorted({*OPERATORS, *rewritten})


CAPABILITIES: Mapping[str, Callable[[], list[str]]] = {
    "--onnx-opset-versions": _opsets,
    "--onnx-element-types": lambda: ["float32", "real"],
    "--onnx-operators": _operators,
    "--vnnlib-versions": lambda: ["1.0", "2.0"],
    "--hidden-node-theories": lambda: ["NH", "H"],
    "--multiple-input-output-theories": lambda: ["SIO"],
    "--multiple-network-theories": lambda: ["SNET", "MENET", "MINET", "MNET"],
    "--multiple-node-comparison-theories": lambda: ["SNC", "MNC"],
    "--arithmetic-complexity-theories": lambda: ["BND", "OUTC", "LIN"],
    "--optimised-disjunctive-reasoning": lambda: ["false"],
    "--serialise-assignments": lambda: ["true"],
}
"""By option the lines to print (VNN-LIB 2.0 standard, chapter 5, "The supports command")."""
