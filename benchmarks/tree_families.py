r"""What families of boosted trees cost, and what can be said of them, on a table.

    python benchmarks/tree_families.py --data adult.data --test adult.test --label Y \
        --learner lightgbm --members 1000
    python benchmarks/tree_families.py --data online_shoppers_intention.csv --label Revenue \
        --learner lightgbm --rows 5000

Without --data it is scikit-learn's breast-cancer table. --rows of the table, drawn uniformly, are
trained on, with a member without each of them, or of --members drawn; --test, or else the rows that
are left, are asked. One process. Memory is the most that was held by then.
"""

from __future__ import annotations

import argparse
import csv
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from leaveout.models.boosting.training import SPEC, Settings, train_trees
from leaveout.verifier import verify
from leaveout.verifier.guard.loading import load_subject

_SINGLE = 300
"""Inputs that the guard is asked one by one."""


@dataclass(frozen=True)
class Table:
    """A table's header and rows, as written."""

    header: list[str]
    rows: list[list[str]]

    @classmethod
    def read(cls, path: Path | None) -> Table:
        """Read a CSV, or make the table that scikit-learn ships."""
        if path is None:
            found = load_breast_cancer()
            rows = [[*map(str, x), str(y)] for x, y in zip(found.data, found.target, strict=True)]
            return cls([*map(str, found.feature_names), "label"], rows)
        with path.open(newline="") as file:
            header, *rows = ([cell.strip() for cell in row] for row in csv.reader(file))
        return cls(header, [row for row in rows if len(row) == len(header)])

    def write(self, rows: list[int], path: Path) -> None:
        """Write some rows as a CSV."""
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([self.header, *(self.rows[row] for row in rows)])


def peak() -> float:
    """Return the most memory held so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(given: argparse.Namespace, folder: Path) -> None:
    """Train, ask the guard, bound, and print the table."""
    table = Table.read(given.data)
    order = np.random.default_rng(0).permutation(len(table.rows)).tolist()
    rows = order if given.rows is None else order[: given.rows]
    asked = Table.read(given.test) if given.test else table
    tested = asked.rows if given.test else [table.rows[row] for row in order[len(rows) :]]
    table.write(sorted(rows), folder / "rows.csv")
    began = time.process_time()
    report = train_trees(
        folder / "rows.csv", folder / "out", label=given.label,
        settings=Settings(given.learner, given.trees, given.leaves), sample=given.members,
        workers=1, test_share=0.0, tell=lambda done, of: None,
    )  # fmt: skip
    family = report.family
    print(f"{family.recipe}; {len(family):,} of {family.rows:,} rows left out")
    print("what | figure")
    print(f"training, CPU s | {time.process_time() - began:.1f}, peak {peak():.2f} GB")
    print(f"on disk, kB a member | {report.size / 1e3 / len(family):.1f}", flush=True)
    del family, report
    began = time.process_time()
    subject = load_subject(folder / "out")
    X = subject.encode([dict(zip(asked.header, row, strict=True)) for row in tested])
    labels = [row[asked.header.index(given.label)].rstrip(".") for row in tested]
    subject.leaks.find_all(X[:1])  # compiles
    print(f"reading, CPU s | {time.process_time() - began:.1f}, peak {peak():.2f} GB")
    if len(X):
        began = time.process_time()
        found = subject.leaks.find_all(X)
        taken = (time.process_time() - began) / len(X) * 1e3
        held = 1.0 - sum(each.leak for each in found) / len(X)
        right = [
            subject.names[one.label] == label for one, label in zip(found, labels, strict=True)
        ]
        print(f"test answers that no row changes | {held:.2%} of {len(X):,}, {taken:.2f} ms each")
        print(f"accuracy on them | {np.mean(right):.2%}")
        milliseconds = []
        for x in X[:_SINGLE]:
            began = time.process_time()
            subject.leaks.find(x)
            milliseconds.append((time.process_time() - began) * 1e3)
        middle, high = np.quantile(milliseconds, (0.5, 0.99))
        print(f"guard, ms an input | median {middle:.2f}, p99 {high:.2f}, peak {peak():.2f} GB")
    if given.time:
        spec = folder / "out" / SPEC
        spec.write_text(spec.read_text().replace("least b such", "least b per label such"))
        began = time.process_time()
        for each in verify(spec, time=given.time, workers=1).results:
            print(f"bounds, label {each.label_text} | {each.lower} to {each.upper}")
        print(f"bounding, CPU s | {time.process_time() - began:.1f}, peak {peak():.2f} GB")


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, metavar="CSV")
    parser.add_argument("--test", type=Path, metavar="CSV", help="other rows, to ask")
    parser.add_argument("--label", default="label", metavar="COLUMN")
    parser.add_argument("--learner", default="hist")
    parser.add_argument("--rows", type=int, help="to train on; all by default")
    parser.add_argument("--members", type=int, help="drawn; a member for each row by default")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--time", type=float, default=120.0, help="seconds to bound; 0 for none")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
        measure(given, Path(name))


if __name__ == "__main__":
    main()
