"""Two networks compared, with smooth activations or ReLUs: bounds of their largest difference.

    python benchmarks/smooth_pairs.py --time 20

Random networks of torch's (the extra ``train``), the second with weights moved by some share of
themselves. Each bound is compared with the difference at random points, and its certificate is
checked.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

import leaveout
from leaveout.models import load_network
from leaveout.verifier.certify.check import check

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "elu": nn.ELU,
    "mish": nn.Mish,
}

SHAPES = {"2x20": (2, [20, 20]), "3x30": (4, [30, 30, 30])}
SCALE, RADIUS, POINTS = 1.5, 0.3, 200_000


def random_network(kind: str, inputs: int, widths: list[int], seed: int) -> nn.Sequential:
    """Return a network with weights a little larger than torch's."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(inputs, width), ACTIVATIONS[kind]()]
        inputs = width
    network = nn.Sequential(*layers, nn.Linear(inputs, 2))
    with torch.no_grad():
        for each in network.parameters():
            each.mul_(SCALE)
    return network.eval()


def move_weights(network: nn.Module, share: float, seed: int) -> None:
    """Move every weight by a random share of itself, in place."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in network.parameters():
            each.add_(each.abs() * share * torch.randn(each.shape, generator=generator))


def save(network: nn.Module, inputs: int, path: Path) -> None:
    """Export a network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network, (torch.zeros(1, inputs),), path, opset_version=17, dynamo=False,
            dynamic_axes={"x": {0: "batch"}}, input_names=["x"], output_names=["y"],
        )  # fmt: skip


def measure(kind: str, shape: str, share: float, seconds: float, folder: Path) -> None:
    """Bound, check and print one pair."""
    inputs, widths = SHAPES[shape]
    network = random_network(kind, inputs, widths, 5)
    save(network, inputs, folder / "n.onnx")
    move_weights(network, share, 6)
    save(network, inputs, folder / "q.onnx")
    spec, certificate = folder / "c.spec", folder / "c.cert"
    spec.write_text(
        'let N = network("n.onnx")\nlet Q = network("q.onnx")\n'
        f"find d: least b such that forall x in box(-{RADIUS}, {RADIUS}):\n"
        "    difference(N, Q, x) <= b\n"
    )
    began = time.process_time()
    (found,) = leaveout.verify(spec, time=seconds, workers=1, certificate=certificate).results
    spent = time.process_time() - began
    if not np.isfinite(found.upper):
        print(f"{shape} {kind:9} {share:5.0%}  not bounded in {seconds:g} s", flush=True)
        return
    began = time.process_time()
    check(certificate)
    checked = time.process_time() - began
    points = np.random.default_rng(0).uniform(-RADIUS, RADIUS, (POINTS, inputs))
    first, second = (
        load_network(folder / name).runner().scores(points.astype(np.float32))
        for name in ("n.onnx", "q.onnx")
    )
    shown = float(np.abs(first - second).max())
    gap = (found.upper - found.lower) / found.upper
    print(
        f"{shape} {kind:9} {share:5.0%}  {found.lower:.6f} to {found.upper:.6f}  {gap:6.2%}  "
        f"shown {shown:.6f}  {spent:5.1f} CPU s, checked in {checked:.1f}",
        flush=True,
    )
    if shown > found.upper:
        raise SystemExit("a bound is wrong")


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--time", type=float, default=20.0, help="seconds a pair")
    parser.add_argument("--only", default=",".join(ACTIVATIONS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
        for shape in SHAPES:
            for share in (0.01, 0.3):
                for kind in given.only.split(","):
                    measure(kind, shape, share, given.time, Path(name))


if __name__ == "__main__":
    main()
