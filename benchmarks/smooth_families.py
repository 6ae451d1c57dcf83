"""Leave-one-out of small networks with smooth activations, beside the same network with ReLUs.

    python benchmarks/smooth_families.py --members 60 --time 30

Trained by torch (the extra ``train``) on scikit-learn's iris, two hidden layers. For each label the
leak's bounds, CPU seconds, and the largest confidence of N at random points where some member
answers otherwise, which no sound bound is below; with a certificate, which is checked.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_iris
from torch import nn

import leaveout
from leaveout.models import load_family, load_network
from leaveout.models.train import Rows

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
}

EPOCHS, BATCH = 60, 25


def fit(
    X: NDArray[np.float32], y: NDArray[np.int64], seed: int, rows: Rows, *, kind: str, width: int
) -> nn.Module:
    """Train a network, on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    act = ACTIVATIONS[kind]
    network = nn.Sequential(
        nn.Linear(X.shape[1], width), act(), nn.Linear(width, width), act(), nn.Linear(width, 3)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    inputs, targets = torch.tensor(X), torch.tensor(y)
    for epoch in range(EPOCHS):
        for batch in rows.batches(BATCH, seed + epoch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs[batch]), targets[batch]).backward()
            optimizer.step()
    return network.eval()


def measure(given: argparse.Namespace, kind: str, folder: Path) -> None:
    """Train, bound, check, and print."""
    X, y = load_iris(return_X_y=True)
    X = ((X - X.min(0)) / np.ptp(X, 0)).astype(np.float32)
    trained = partial(fit, kind=kind, width=given.width)
    report = leaveout.leave_one_out(trained, X, y, out=folder, members=given.members, workers=1)
    network = load_network(report.network)
    family = load_family(report.directory / "family.npz", network)
    points = np.random.default_rng(0).random((50_000, 4)).astype(np.float32)
    scores = network.runner().scores(points)
    labels, ordered = scores.argmax(1), np.sort(scores, 1)
    shown = np.zeros(3)
    for member in range(len(family.removed)):
        own = {name: value[0] for name, value in family.take([member]).items()}
        moved = network.runner(own).scores(points).argmax(1) != labels
        for label in range(3):
            some = moved & (labels == label)
            shown[label] = max(shown[label], (ordered[some, 2] - ordered[some, 1]).max(initial=0))
    spec = folder / "bound.spec"
    spec.write_text(
        f'let N = network("{report.network}")\nlet F = family("{report.directory}/family.npz")\n'
        "find b: least b per label such that forall x in box(0, 1), M in F:\n"
        "    confidence(N, x) > b => label(M, x) == label(N, x)\n"
    )
    began = time.process_time()
    found = leaveout.verify(spec, time=given.time, workers=1, certificate=folder / "c.cert")
    spent = time.process_time() - began
    for label, result in enumerate(found.results):
        text = f"{kind:8} label {label}: {result.lower:.4f} to {result.upper:.4f}"
        print(f"{text}, shown {shown[label]:.4f}, {result.verdict}", flush=True)
        if shown[label] > result.upper:
            raise SystemExit("a bound is wrong")
    print(f"{kind:8} {spent:.1f} CPU s", flush=True)


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--members", type=int, default=60)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--time", type=float, default=30.0, help="seconds a network")
    parser.add_argument("--only", default=",".join(ACTIVATIONS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
        for kind in given.only.split(","):
            measure(given, kind, Path(name) / kind)


if __name__ == "__main__":
    main()
