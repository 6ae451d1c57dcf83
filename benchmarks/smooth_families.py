"""Leave-one-out of networks with smooth activations, beside the same network with ReLUs.

    python benchmarks/smooth_families.py
    python benchmarks/smooth_families.py ../shared/data/crypto_lucid7.npz --layers 50,50 --time 60

Trained by the extra ``train``, on scikit-learn's iris or a table (NPZ with X and y, scaled to
[0, 1]). Of each label: the leak's bounds, and the largest confidence of N at random points where
some member answers otherwise, which no sound bound is below. ``--check`` writes a certificate, and
checks it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

import leaveout
from leaveout.models import load_family, load_network
from leaveout.models.train import Recipe, parse_layers, run
from leaveout.models.train.recipe import ACTIVATIONS
from leaveout.verifier.certify.check import check

POINTS = 50_000


def iris(folder: Path) -> Path:
    """Write the table."""
    X, y = load_iris(return_X_y=True)
    path = folder / "iris.npz"
    np.savez(path, X=((X - X.min(0)) / np.ptp(X, 0)).astype(np.float32), y=y)
    return path


def random_leaks(folder: Path) -> list[float]:
    """Return by label the largest confidence at a random point where some member errs."""
    network = load_network(folder / "full.onnx")
    family = load_family(folder / "family.npz", network)
    points = np.random.default_rng(0).random((POINTS, network.inputs)).astype(np.float32)
    scores = network.runner().scores(points)
    labels, ordered = scores.argmax(1), np.sort(scores, 1)
    found = [0.0] * network.labels
    for member in range(len(family.removed)):
        own = {name: value[0] for name, value in family.take([member]).items()}
        moved = network.runner(own).scores(points).argmax(1) != labels
        for label in range(network.labels):
            some = moved & (labels == label)
            margins = ordered[some, -1] - ordered[some, -2]
            found[label] = max(found[label], float(margins.max(initial=0)))
    return found


def bound(kind: str, spec: Path, *, seconds: float, checks: bool) -> None:
    """Bound the leaks of a folder's family, and print them beside those at random points."""
    least = random_leaks(spec.parent)
    certificate = spec.parent / "c.cert" if checks else None
    began = time.process_time()
    found = leaveout.verify(spec, time=seconds, workers=1, certificate=certificate)
    print(f"{kind:9} bounded in {time.process_time() - began:.1f} CPU s")
    for label, result in enumerate(found.results):
        print(
            f"{kind:9} label {label}: {result.lower:.4f} to {result.upper:.4f}, "
            f"ratio {result.upper / result.lower if result.lower else np.inf:.3f}, "
            f"shown {least[label]:.4f}, {result.verdict}",
            flush=True,
        )
        if least[label] > result.upper:
            raise SystemExit("a bound is wrong")
    if certificate is not None:
        check(certificate)


def measure(given: argparse.Namespace, table: Path, kind: str, folder: Path) -> None:
    """Train, bound and print."""
    recipe = Recipe(
        layers=parse_layers(given.layers), activation=kind, epochs=given.epochs, batch=given.batch
    )
    began = time.perf_counter()
    report = run(table, folder, recipe=recipe, members=given.members)
    print(
        f"{kind:8} trained in {time.perf_counter() - began:.0f} s, {report.train_accuracy:.1%} "
        "correct"
    )
    bound(kind, folder / "idp.spec", seconds=given.time, checks=given.check)


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?", help="default iris")
    parser.add_argument("--layers", default="16,16")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--members", type=int, default=40)
    parser.add_argument("--time", type=float, default=30.0, help="seconds a network")
    known = ", ".join(ACTIVATIONS)
    parser.add_argument("--only", default="relu,tanh,gelu,silu,softplus", help=known)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
        table = given.table or iris(Path(name))
        for kind in given.only.split(","):
            measure(given, table, kind, Path(name) / kind)


if __name__ == "__main__":
    main()
