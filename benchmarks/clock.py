"""Whether ``--time`` is kept, what is known then, and how soon the program ends after it said so.

    python benchmarks/clock.py --time 0.1,3 --rows leak,drift

Each row is a program of its own. ``took`` is from its start to its end, ``after`` from the last
line of the table to the end, ``cpu`` of it and its children; ``finite`` is whether every find
has both bounds. Late is what took more than 2 s, or 5 %, longer than asked.
Everything is compiled before.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from leaveout.verifier.warm_up import KERNELS, warm

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
HEAD = """\
let N = network("full.onnx")
let F = family("family.npz")
let X = box(0, 1)
"""
LEAK = (
    "find b: least b per label such that\n"
    "    forall x in X, M in F: confidence(N, x) > b => label(M, x) == label(N, x)\n"
)
DRIFT = "find d: least d such that forall x in X, M in F: difference(N, M, x) <= d\n"
TOP = "find s: greatest s such that forall x in X: score(N, x, 0) >= s\n"


@dataclass(frozen=True)
class Question:
    """What a row asks.

    Attributes
    ----------
    layers : tuple of int
    members : int
    claims : str
    options : tuple of str
    """

    layers: tuple[int, ...]
    members: int
    claims: str
    options: tuple[str, ...] = ()


QUESTIONS = {
    "leak 2x50": Question((7, 50, 50, 2), 500, LEAK),
    "leak 6x50": Question((20, 50, 50, 50, 50, 50, 50, 2), 50, LEAK),
    "leak lucid": Question((7, 50, 50, 2), 20, LEAK, ("--engine", "lucid")),
    "leak workers": Question((7, 50, 50, 2), 100, LEAK, ("--workers", "2")),
    "leak certificate": Question((7, 50, 50, 2), 100, LEAK, ("--certificate", "c.cert")),
    "drift 2x50": Question((7, 50, 50, 2), 200, DRIFT),
    "drift 6x50": Question((20, 50, 50, 50, 50, 50, 50, 2), 10, DRIFT),
    "top 6x50": Question((20, 50, 50, 50, 50, 50, 50, 2), 1, TOP),
    "all 2x50": Question((7, 50, 50, 2), 50, LEAK + DRIFT + TOP),
}
SPECS = {
    "breast cancer": EXAMPLES / "breast_cancer" / "breast_cancer.spec",
    "deletion": EXAMPLES / "deletion" / "deletion.spec",
    "six": EXAMPLES / "six.spec",
}


def write(folder: Path, question: Question) -> Path:
    """Write a random network, members near it, and the specification."""
    rng = np.random.default_rng(0)
    nodes, initialisers, arrays, source = [], [], {}, "x"
    pairs = list(zip(question.layers, question.layers[1:], strict=False))
    for i, (width, height) in enumerate(pairs):
        weight = rng.normal(0, (2 / width) ** 0.5, (height, width)).astype(np.float32)
        bias = rng.normal(0, 0.1, height).astype(np.float32)
        for name, array in ((f"w{i}", weight), (f"b{i}", bias)):
            initialisers.append(numpy_helper.from_array(array, name))
            noise = rng.normal(0, 0.01, (question.members, *array.shape))
            arrays[name] = (array + noise).astype(np.float32)
        out = "y" if i == len(pairs) - 1 else f"z{i}"
        nodes.append(helper.make_node("Gemm", [source, f"w{i}", f"b{i}"], [out], transB=1))
        if out != "y":
            nodes.append(helper.make_node("Relu", [out], [f"h{i}"]))
            source = f"h{i}"
    shapes = (("x", question.layers[0]), ("y", question.layers[-1]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", w]) for n, w in shapes]
    graph = helper.make_graph(nodes, "clock", ends[:1], ends[1:], initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "full.onnx")
    np.savez(folder / "family.npz", removed=np.arange(question.members), **arrays)
    spec = folder / "clock.spec"
    spec.write_text(HEAD + question.claims)
    return spec


def measure(name: str, spec: Path, options: tuple[str, ...], seconds: float, folder: Path) -> str:
    """Run one row and return its line."""
    results = folder / "results.json"
    command = [sys.executable, "-m", "leaveout", "verify", str(spec), "--time", f"{seconds:g}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--json", str(results), *options],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    shown = begun
    for _ in process.stdout:
        shown = time.perf_counter()
    _, errors = process.communicate()
    ended = time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    took = ended - begun
    if process.returncode not in (0, 1, 3):
        return f"{name:18s}{seconds:8g}  {errors.strip().splitlines()[-1]}"
    finds = [r for r in json.loads(results.read_text())["results"] if r["kind"] == "find"]
    finite = all(r.get("lower") is not None and r.get("upper") is not None for r in finds)
    late = took > seconds + max(2.0, 0.05 * seconds)
    return (
        f"{name:18s}{seconds:8g}{took:9.1f}{ended - shown:8.2f}{cpu:8.1f}  "
        f"{'yes' if finite else 'NO':6s}  {'LATE' if late else 'kept'}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time", default="0.1,3", help="seconds to ask for, with commas between")
    parser.add_argument("--rows", default="", help="beginnings of names, with commas between")
    given = parser.parse_args()
    warm(KERNELS, lambda line: print(line, flush=True))
    print(f"{os.uname().machine}, load {os.getloadavg()[0]:.1f}")
    print(f"{'row':18s}{'asked':>8s}{'took':>9s}{'after':>8s}{'cpu':>8s}  finite")
    chosen = tuple(given.rows.split(","))
    for name in (*QUESTIONS, *SPECS):
        if not name.startswith(chosen):
            continue
        with TemporaryDirectory() as temporary:
            folder = Path(temporary)
            spec, options = SPECS.get(name), ("--allow-include", str(EXAMPLES))
            if spec is None:
                spec, options = write(folder, QUESTIONS[name]), QUESTIONS[name].options
            for seconds in map(float, given.time.split(",")):
                print(measure(name, spec, options, seconds, folder), flush=True)


if __name__ == "__main__":
    main()
