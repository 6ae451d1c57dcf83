"""What a reader takes from the table that ``leaveout partition`` prints of imbalanced data.

    python benchmarks/poisoning_readers.py                    # 10,000 rows, 11 % of them positive
    python benchmarks/poisoning_readers.py --parts 200 --positive 0.02
    python benchmarks/poisoning_readers.py --write bank.csv   # the data alone

The data is like that of a bank's campaign: most customers say no. An ensemble that nearly always
says no has a fine accuracy, and so have its certificates; the rows of the labels say otherwise.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from pathlib import Path

from sklearn.datasets import make_classification

from leaveout.verifier.cli.app import run

WORDS = ("no", "yes")
FEATURES = 12


def write(path: Path, rows: int, positive: float, seed: int) -> None:
    """Write a table of numbers and a column ``subscribed``, of which a share says yes."""
    X, y = make_classification(
        n_samples=rows,
        n_features=FEATURES,
        n_informative=6,
        n_redundant=2,
        n_clusters_per_class=1,
        weights=[1 - positive],
        class_sep=0.7,
        flip_y=0.02,
        random_state=seed,
    )
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(f"f{i}" for i in range(FEATURES)), "subscribed"])
        writer.writerows(
            [*(f"{value:.4f}" for value in row), WORDS[label]]
            for row, label in zip(X, y, strict=True)
        )


def main() -> None:
    """Make the data, and print what the command prints of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--positive", type=float, default=0.1, help="share, before noise")
    parser.add_argument("--parts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="write the data there, and stop")
    arguments = parser.parse_args()
    if arguments.write is not None:
        write(arguments.write, arguments.rows, arguments.positive, arguments.seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "bank.csv"
        write(data, arguments.rows, arguments.positive, arguments.seed)
        words = [str(data), "--label", "subscribed", "--test-share", "0.2", "--no-onnx"]
        words += ["--parts", str(arguments.parts), "-o", str(Path(folder) / "bank")]
        sys.exit(run(["partition", *words]))


if __name__ == "__main__":
    main()
