"""How far runs overrun their time limits: random networks, pairs and families.

    python benchmarks/overruns.py --cases 200

Dense and convolutional networks of 1 to 6 layers and 2 to 64 inputs, each with a limit of 1 to 10
seconds. A run is late if it goes on for more than a second, or a twentieth of its limit, beyond it.
Case i depends on the seed and i alone.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from leaveout.models import load_network
from leaveout.models.family import Family, Manifest, save_family_file
from leaveout.models.replay import with_parameters
from leaveout.verifier import verify

__all__ = ["Run", "main", "random_model", "run"]

HEAD = f"{'statement':<12s}{'runs':>6s}{'decided':>9s}{'late':>6s}{'longest':>10s}  of which"

SPECS = {
    "one network": "find sure: least b such that forall x in box(0, 1): confidence(N, x, 0) <= b",
    "pair": "find apart: least d such that forall x in box(0, 1): difference(N, Q, x) <= d",
    "quiet": (
        "guarantee quiet: forall x in box(0, 1), M in F: "
        "confidence(N, x) > 0.2 => label(M, x) == label(N, x)"
    ),
    "leaks": (
        "find bound: least b per label such that forall x in box(0, 1), M in F: "
        "confidence(N, x) > b => label(M, x) == label(N, x)"
    ),
}
"""A statement a kind of run."""

_FILES = 'let N = network("n.onnx")\nlet Q = network("q.onnx")\nlet F = family("f.npz")\n'
_ROOM, _SHARE = 1.0, 0.05
"""Seconds, and share of the limit, beyond which a run counts as late."""


@dataclass(frozen=True)
class Run:
    """One run."""

    kind: str
    model: str  # in words
    limit: float  # seconds
    seconds: float
    decided: bool

    @property
    def overrun(self) -> float:
        """Seconds beyond the limit; negative where there were some left."""
        return self.seconds - self.limit

    @property
    def late(self) -> bool:
        """Whether it went on for longer than it may."""
        return self.overrun > max(_ROOM, _SHARE * self.limit)


def random_model(rng: np.random.Generator) -> tuple[onnx.ModelProto, str]:
    """Draw a network, and describe it."""
    depth, labels = int(rng.integers(1, 7)), int(rng.integers(2, 11))
    nodes, constants, at = [], {}, "x"

    def layer(kind: str, *shape: int, **given: object) -> str:
        """Add a layer whose weights leave values about as large as they were."""
        k, fan = len(constants), int(np.prod(shape[1:]))
        weights = rng.normal(size=shape) * np.sqrt(2 / fan)
        constants[f"w{k}"] = weights.astype(np.float32)
        constants[f"b{k}"] = (0.1 * rng.normal(size=shape[0])).astype(np.float32)
        nodes.append(helper.make_node(kind, [at, f"w{k}", f"b{k}"], [f"z{k}"], **given))
        return f"z{k}"

    def relu(tensor: str) -> str:
        nodes.append(helper.make_node("Relu", [tensor], [f"h{tensor}"]))
        return f"h{tensor}"

    convolutional = bool(rng.random() < 0.5)
    if convolutional:
        side, channels = int(rng.integers(2, 9)), int(rng.integers(1, 4))
        channels = min(channels, 64 // side**2)
        shape: tuple[int, ...] = (channels, side, side)
        for _ in range(depth - 1):
            more, stride = int(rng.integers(2, 17)), int(rng.integers(1, 3))
            given = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [stride, stride]}
            at = relu(layer("Conv", more, channels, 3, 3, **given))
            channels, side = more, -(-side // stride)
        nodes.append(helper.make_node("Flatten", [at], ["flat"]))
        at, width = "flat", channels * side * side
    else:
        width = int(rng.integers(2, 65))
        shape = (width,)
        for _ in range(depth - 1):
            more = int(rng.choice([8, 32, 64, 128, 256]))
            at = relu(layer("Gemm", more, width, transB=1))
            width = more
    top = layer("Gemm", labels, width, transB=1)
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])],
        [helper.make_tensor_value_info(top, TensorProto.FLOAT, ["n", labels])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    words = f"{'convolutional' if convolutional else 'dense'}, {depth} layers, inputs {shape}"
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), words


def _near(
    values: dict[str, NDArray[np.floating]], rng: np.random.Generator, spread: float
) -> dict[str, NDArray[np.float32]]:
    return {
        name: (value + spread * rng.normal(size=value.shape)).astype(np.float32)
        for name, value in values.items()
    }


def run(folder: Path, seed: int, number: int) -> Run:
    """Draw a case and run it in a folder."""
    rng = np.random.default_rng([seed, number])
    kind = [*SPECS][number % len(SPECS)]
    model, words = random_model(rng)
    onnx.save(model, folder / "n.onnx")
    network = load_network(folder / "n.onnx")
    spread, members = float(rng.choice([1e-4, 1e-3, 1e-2])), int(rng.integers(1, 33))
    onnx.save(with_parameters(model, _near(network.parameters, rng, spread)), folder / "q.onnx")
    others = [_near(network.parameters, rng, spread) for _ in range(members)]
    stacked = {name: np.stack([each[name] for each in others]) for name in network.parameters}
    manifest = Manifest(architecture=network.architecture)
    save_family_file(folder / "f.npz", Family(stacked, np.arange(members), manifest))
    used = {"N", *("Q" if kind == "pair" else ""), *("F" if "F" in SPECS[kind] else "")}
    lets = [line for line in _FILES.splitlines() if line.split()[1] in used]
    (folder / "case.spec").write_text("\n".join([*lets, SPECS[kind], ""]))
    limit, begun = float(rng.uniform(1, 10)), time.perf_counter()
    report = verify(folder / "case.spec", time=limit)
    seconds = time.perf_counter() - begun
    decided = all(each.verdict != "unknown" for each in report.results)
    return Run(kind, words, limit, seconds, decided)


def main() -> None:
    """Print a row a kind of statement."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--each", action="store_true", help="print a line a run too")
    options = parser.parse_args()
    runs = []
    with tempfile.TemporaryDirectory() as name:
        for number in range(options.first, options.first + options.cases):
            runs.append(run(Path(name), options.seed, number))
            if options.each:
                each = runs[-1]
                line = f"{number:4d} {each.kind}: {each.model}; {each.limit:.1f} s"
                print(f"{line}, {each.overrun:+.2f} s{', late' * each.late}", flush=True)
    print(HEAD)
    for kind in [*SPECS, "all"]:
        own = [each for each in runs if kind in {each.kind, "all"}]
        if not own:
            continue
        worst = max(own, key=lambda each: each.overrun)
        decided, late = sum(each.decided for each in own), sum(each.late for each in own)
        print(
            f"{kind:<12s}{len(own):6d}{decided:9d}{late:6d}{max(worst.overrun, 0.0):8.2f} s"
            f"  {worst.model}; limit {worst.limit:.1f} s"
        )


if __name__ == "__main__":
    main()
