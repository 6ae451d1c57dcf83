"""Measure how far onnxruntime's float32 activations are from the functions, over all inputs.

    python benchmarks/smooth_errors.py --stride 64

Every stride-th float32 number is tried: alone, after a Gemm, Add or Conv that runtimes fuse with,
in each form of several nodes that is read, with and without optimisations, and a few at a time: the
ends of arrays have code of their own. What `leaveout.kernel.smooth` declares must be at least
twice what is found; exit status 1 if it is not.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from scipy.special import erfc, expit

from leaveout.kernel.smooth import KIND, REACH, declared_error
from leaveout.models.onnx.outlines import FORMS

__all__ = ["main"]

Floats = NDArray[np.float32]
_ROWS = 2**20


def _gelu_tanh(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return z * expit(2 * np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))


EXACT: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "Sigmoid": expit,
    "Tanh": np.tanh,
    "Gelu": lambda z: z * erfc(-z / np.sqrt(2)) / 2,
    "GeluTanh": _gelu_tanh,
    "Silu": lambda z: z * expit(z),
    "Softplus": lambda z: np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z))),
    "Elu": lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))),
}


def _nodes(form: str) -> list[onnx.NodeProto]:
    """Return the nodes of an expression as in `FORMS`, from x to y."""
    made: list[onnx.NodeProto] = []

    def parse(text: str) -> str:
        if text == "x":
            return "x"
        if "(" not in text:
            value = numpy_helper.from_array(np.float32(text).reshape(()), "v")
            made.append(helper.make_node("Constant", [], [f"t{len(made)}"], value=value))
            return f"t{len(made) - 1}"
        kind, inner = re.fullmatch(r"(\w+)\((.*)\)", text).groups()  # type: ignore[union-attr]
        depth, parts = 0, [""]
        for letter in inner:
            depth += (letter == "(") - (letter == ")")
            if letter == "," and not depth:
                parts.append("")
            else:
                parts[-1] += letter
        given = [parse(part.strip()) for part in parts]
        made.append(helper.make_node(kind, given, [f"t{len(made)}"]))
        return f"t{len(made) - 1}"

    parse(form)
    made[-1].output[0] = "y"
    return made


def _models() -> Iterator[tuple[str, str, onnx.ModelProto]]:
    """Yield functions, ways to write them, and models of one feature."""
    one = numpy_helper.from_array(np.ones((1, 1), np.float32), "w")
    zero = numpy_helper.from_array(np.zeros(1, np.float32), "b")
    plain = {
        "Sigmoid": ("Sigmoid", {}), "Tanh": ("Tanh", {}), "Softplus": ("Softplus", {}),
        "Elu": ("Elu", {}), "Gelu": ("Gelu", {}), "GeluTanh": ("Gelu", {"approximate": "tanh"}),
    }  # fmt: skip
    bodies = {
        (name, "alone"): [helper.make_node(kind, ["x"], ["y"], **given)]
        for name, (kind, given) in plain.items()
    }
    for form, name in FORMS.items():
        bodies[name.partition("_")[0], form] = _nodes(form)
    for (name, way), body in bodies.items():
        before = [
            ("", [], []),
            (" after Gemm", [helper.make_node("Gemm", ["r", "w", "b"], ["x"])], [one, zero]),
            (" after Add", [helper.make_node("Add", ["r", "b"], ["x"])], [zero]),
        ]
        if way == "alone":
            square = numpy_helper.from_array(np.ones((1, 1, 1), np.float32), "w")
            conv = helper.make_node("Conv", ["r", "w", "b"], ["x"])
            before.append((" after Conv", [conv], [square, zero]))
        for suffix, first, stored in before:
            shape = [1, 1, "n"] if suffix == " after Conv" else ["n", 1]
            graph = helper.make_graph(
                [*first, *body], "g",
                [helper.make_tensor_value_info("r" if first else "x", TensorProto.FLOAT, shape)],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                stored,
            )  # fmt: skip
            opset = [helper.make_opsetid("", 20)]
            yield name, way + suffix, helper.make_model(graph, opset_imports=opset, ir_version=8)


def _inputs(stride: int, everything: bool) -> Iterator[Floats]:
    """Yield every stride-th finite number, or those in reach, of both signs."""
    last = 0x7F7FFFFF if everything else int(np.float32(REACH).view(np.uint32))
    for start in range(0, last + 1, stride * _ROWS):
        bits = np.arange(start, min(last + 1, start + stride * _ROWS), stride, dtype=np.uint32)
        for sign in (0, 0x80000000):
            yield (bits | np.uint32(sign)).view(np.float32)


def _measure(
    name: str, model: onnx.ModelProto, optimised: bool, stride: int, everything: bool
) -> tuple[float, float, float]:
    """Return the largest share of what is declared, the error there, and its input."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    given = session.get_inputs()[0]
    worst, error_there, where = 0.0, 0.0, 0.0
    shape = (1, 1, -1) if len(given.shape) == 3 else (-1, 1)
    for i, values in enumerate(_inputs(stride, everything)):
        # Now and then a few at a time.
        few = [values[:4095][j : j + 1 + j % 9] for j in range(0, 400, 7)] if i % 8 == 0 else []
        for part in (values, *(each for each in few if len(each))):
            (found,) = session.run(None, {given.name: part.reshape(shape)})
            with np.errstate(all="ignore"):
                exact = EXACT[name](part.astype(np.float64))
                error = np.abs(found.reshape(-1) - exact)
                wide = np.minimum(np.abs(part), REACH).astype(np.float64)
                share = error / declared_error(KIND[name], wide, np.abs(exact))
            at = int(np.argmax(np.where(np.isnan(share), np.inf, share)))
            if not share[at] <= worst:
                worst, error_there, where = float(share[at]), float(error[at]), float(part[at])
    return worst, error_there, where


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stride", type=int, default=4096)
    parser.add_argument("--only", default="", help="names of functions to measure")
    parser.add_argument("--alone", action="store_true", help="as one optimised node only")
    parser.add_argument("--all", action="store_true", help="all finite numbers, not those in reach")
    arguments = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}, every {arguments.stride}-th number")
    print("function   share  error     at             seconds  how")
    fine = True
    for name, way, model in _models():
        if arguments.only and name not in arguments.only.split(","):
            continue
        if arguments.alone and way != "alone":
            continue
        for optimised in (True,) if arguments.alone else (True, False):
            begun = time.process_time()
            worst, error, where = _measure(name, model, optimised, arguments.stride, arguments.all)
            spent = time.process_time() - begun
            fine &= worst <= 0.5
            words = f"{way}{'' if optimised else ', not optimised'}"
            print(
                f"{name:10} {worst:.3f}  {error:.2e}  {where:<13.6g}  {spent:7.1f}  {words}",
                flush=True,
            )
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
