"""Leave-one-out of networks with a softmax inside: a mixture, and attention, beside none.

    python benchmarks/attention.py
    python benchmarks/attention.py ../shared/data/crypto_lucid7.npz --members 20 --time 60

Trained by torch through `leaveout.leave_one_out`, on scikit-learn's iris or a table (NPZ with X and
y, scaled to [0, 1]). Of each label: the leak's bounds, and the largest confidence of N at random
points where some member answers otherwise, which no sound bound is below. ``--check`` writes a
certificate, and checks it.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import numpy as np
import torch
from smooth_families import bound, iris
from torch import nn

import leaveout
from leaveout.arrays import Floats, Integers
from leaveout.models.train.draws import Rows


class Mixture(nn.Module):
    """A linear map of the shares that a softmax of five numbers gives."""

    def __init__(self, inputs: int, labels: int, width: int) -> None:
        super().__init__()
        self.first, self.shares = nn.Linear(inputs, width), nn.Linear(width, 5)
        self.mixed, self.last = nn.Linear(5, width), nn.Linear(width, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        shares = torch.softmax(self.shares(torch.relu(self.first(x))), -1)
        return self.last(torch.relu(self.mixed(shares)))


class Attention(nn.Module):
    """Three tokens of four numbers that attend to each other, beside themselves."""

    attends = True

    def __init__(self, inputs: int, labels: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Linear(inputs, 12)
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
        self.mixed, self.last = nn.Linear(12, width), nn.Linear(width, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return scores."""
        h = self.tokens(x).view(-1, 3, 4)
        if self.attends:
            near = self.query(h) @ self.key(h).transpose(1, 2) / math.sqrt(4)
            h = h + torch.softmax(near, -1) @ self.value(h)
        return self.last(torch.relu(self.mixed(h.flatten(1))))


class Plain(Attention):
    """The same without attention."""

    attends = False


KINDS = {"mixture": Mixture, "plain": Plain, "attention": Attention}


def measure(given: argparse.Namespace, table: Path, kind: str, folder: Path) -> None:
    """Train, bound and print."""
    held = np.load(table)
    X, y = (held.get(f"{name}_train", held.get(name))[: given.rows] for name in "Xy")

    def fit(X: Floats, y: Integers, seed: int, rows: Rows) -> nn.Module:
        network = KINDS[kind](X.shape[1], int(y.max()) + 1, given.width)
        optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
        inputs, labels = torch.tensor(X), torch.tensor(y)
        for epoch in range(given.epochs):
            for batch in rows.batches(64, seed + epoch):
                of = torch.as_tensor(np.asarray(batch))
                optimizer.zero_grad()
                nn.functional.cross_entropy(network(inputs[of]), labels[of]).backward()
                optimizer.step()
        return network.eval()

    report = leaveout.leave_one_out(fit, X, y, out=folder, members=given.members)
    bound(kind, Path(report.spec), seconds=given.time, checks=given.check)


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?", help="default iris")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--time", type=float, default=30.0, help="seconds a network")
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
        table = given.table or iris(Path(name))
        for kind in given.only.split(","):
            measure(given, table, kind, Path(name) / kind)


if __name__ == "__main__":
    main()
