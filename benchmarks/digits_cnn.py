"""Leave-one-out of a small convolutional network on scikit-learn's digits: bounds and the guard.

    python benchmarks/digits_cnn.py --members 100 --time 120

Two convolutions of eight channels and a dense layer, trained by torch (the extra ``train``); every
fifth image is for testing. Bounds are of the two labels that the network confuses most.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import nn

import leaveout
from leaveout.bab import make_instance
from leaveout.bab.native.leaks import search
from leaveout.bab.native.options import NativeOptions
from leaveout.encoders import Box
from leaveout.models import load_family, load_network
from leaveout.models.train import Rows
from leaveout.verifier.guard.loading import load_subject

EPOCHS, BATCH = 8, 32


def fit(X: NDArray[np.float32], y: NDArray[np.int64], seed: int, rows: Rows) -> nn.Module:
    """Train the network, on one thread."""
    torch.set_num_threads(1)
    network = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    inputs, targets = torch.tensor(X), torch.tensor(y)
    for epoch in range(EPOCHS):
        for batch in rows.batches(BATCH, seed + epoch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs[batch]), targets[batch]).backward()
            optimizer.step()
    return network.eval()


def measure(given: argparse.Namespace, folder: Path) -> None:
    """Train, ask the guard, bound, and print."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    is_test = np.arange(len(images)) % 5 == 0
    report = leaveout.leave_one_out(
        fit, images[~is_test], labels[~is_test], out=folder, members=given.members, workers=1
    )
    print(f"{report.members} members, trained in {report.seconds:.0f} s", flush=True)
    network = load_network(report.network)
    family = load_family(report.directory / "family.npz", network)
    X, y = images[is_test], labels[is_test]
    answers = network.stack.scores(X.astype(float))[0].argmax(axis=1)
    print(f"right on {np.mean(answers == y):.2%} of {len(X)} test images")
    # The guard evaluates all members where the bounds do not say enough.
    leaveout.verify(report.spec, bounds=report.bounds, time=given.time / 10, workers=1)
    subject = load_subject(folder)
    began = time.process_time()
    found = subject.leaks.find_all(X.astype(float))
    taken = (time.process_time() - began) / len(X) * 1e3
    held = np.mean([not each.leak for each in found])
    print(f"answers that no member changes: {held:.2%}, {taken:.2f} CPU ms each", flush=True)
    wrong = np.zeros((10, 10), np.int64)
    every = network.stack.scores(images.astype(float))[0].argmax(axis=1)
    np.add.at(wrong, (labels, every), every != labels)
    most = np.unravel_index(np.argmax(wrong + wrong.T), wrong.shape)
    instance = make_instance(network, family, Box(np.zeros(64), np.ones(64)))
    for label in map(int, most):
        began = time.process_time()
        bounds = search(instance, label, NativeOptions(seconds=given.time))
        print(
            f"label {label}: {bounds.lower:.4f} to {bounds.upper:.4f}, {bounds.solved} nodes, "
            f"{time.process_time() - began:.1f} CPU s",
            flush=True,
        )


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--time", type=float, default=120.0, help="seconds a label")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
        measure(given, Path(name) / "digits")


if __name__ == "__main__":
    main()
