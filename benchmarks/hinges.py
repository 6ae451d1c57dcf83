"""On how many of many decisions some training row's absence would turn: share, and CPU seconds.

    python benchmarks/hinges.py ../shared/data/adult_lucid21.npz --members 20

A logistic regression, and a forest with each row in a tenth of its trees, of a table (NPZ with
X_train and y_train, and X_test); the test rows are repeated up to ``--decisions``. ``--members``
leaves out that many of the rows one by one, trains again, and compares the turned decisions.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.folders import ForestFolder, train_forest
from leaveout.models.linear.training import train_linear
from leaveout.verifier.guard.hinges import Decisions, decisions
from leaveout.verifier.guard.loading import load_subject

SEED = 0


def breast_cancer(folder: Path) -> Path:
    """Write the table, a fifth of it to be asked about."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(0)) / np.ptp(X, 0)
    path = folder / "table.npz"
    np.savez(path, X_train=X[115:], y_train=y[115:], X_test=X[:115], y_test=y[:115])
    return path


def compare(folder: Path, found: Decisions, points: np.ndarray, members: int) -> None:
    """Delete rows from copies of a forest, and stop where a decision is not told as it turns."""
    forest = ForestFolder.read(folder).forest
    chosen = np.random.default_rng(SEED).choice(len(forest.rows_), members, replace=False)
    for member in chosen.tolist():
        left = ForestFolder.read(folder).forest
        left.delete([int(forest.rows_[member])])
        turned = left.predict_proba(points).argmax(axis=1) != found.labels
        if turned.tolist() != [member in each for each in found.turned_by]:
            raise SystemExit(f"row {member}: other decisions turn than told")


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("table", type=Path, nargs="?", help="default breast cancer")
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--members", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
        table = given.table or breast_cancer(Path(name))
        with np.load(table) as held:
            tests = held["X_test"]
        points = np.resize(tests, (given.decisions, tests.shape[1]))
        asked = Path(name) / "asked.npz"
        np.savez(asked, X=points)
        linear, forest = Path(name) / "linear", Path(name) / "forest"
        train_linear(table, linear, test_share=0.0)
        settings = DareForestClassifier(50, max_depth=10, q=0.1, random_state=SEED)
        train_forest(table, forest, forest=settings, test_share=0.0)
        for kind, folder in (("logistic", linear), ("forest", forest)):
            began = time.process_time()
            subject = load_subject(folder)
            found = decisions(subject, asked)
            spent = time.process_time() - began
            print(
                f"{kind:9} {subject.members:,} models, {len(points):,} decisions: "
                f"{found.hinge.mean():.2%} hinge, {spent:.0f} CPU s",
                flush=True,
            )
        compare(forest, found, points, given.members)


if __name__ == "__main__":
    main()
