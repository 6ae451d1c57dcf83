"""Random cases of forgetting against training anew without the rows: how many agree.

    python benchmarks/forget.py --cases 500

Each case draws a kind, a table, settings, and rows to forget, in one to three requests:

- forest: the folder's forest against a new one, every split, count and answer;
- linear: its coefficients against a fit from zero, within the distance that its receipt proves;
- network: its parameters against those of the member without the row, trained again in a folder of
  another size, bit for bit;
- service: models on shards after deletions against all shards trained anew, vote by vote;
- votes: the members whose parts did not hold the row against those of the table without it.

Receipts are read, must follow one another and count the rows. A case that differs ends the run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from sklearn.tree import DecisionTreeClassifier

from leaveout.models.family import load_family_file
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.folders import ForestFolder, train_forest
from leaveout.models.linear.fit import coefficients_of
from leaveout.models.linear.folder import LinearFolder
from leaveout.models.linear.training import train_linear
from leaveout.models.sharded.rows import Rows
from leaveout.models.sharded.shards import Shards, epoch_key
from leaveout.models.train import Recipe, run
from leaveout.models.train.changes import delete_rows
from leaveout.models.train.folder import ModelFolder
from leaveout.models.train.forget import forget_member, receipts_of
from leaveout.models.votes import PartRecipe, make_learner, partition, read_ballots

Rng = np.random.Generator


def draw_table(rng: Rng, path: Path, rows: int, repeats: bool = True) -> tuple[int, int]:
    """Write a random table, some values of which are equal; return its rows and labels."""
    labels, features = int(rng.integers(2, 4)), int(rng.integers(1, 6))
    steps = int(rng.integers(2, 9))
    X = (
        rng.integers(0, steps + 1, (rows, features)) / steps
        if repeats
        else rng.random((rows, features))
    )
    lean = X @ rng.normal(size=(features, labels)) + rng.normal(0, 0.5, (rows, labels))
    y = lean.argmax(axis=1)
    y[:labels], y[-labels:] = np.arange(labels), np.arange(labels)
    tests = rng.random((12, features))
    np.savez(
        path,
        X_train=X.astype(np.float32), y_train=y,
        X_test=tests.astype(np.float32), y_test=rng.integers(0, labels, 12),
    )  # fmt: skip
    return rows, labels


def leaving(rng: Rng, rows: int, labels: int, most: int) -> list[list[str]]:
    """Draw requests of rows; one row of each label, at each end, stays."""
    gone = rng.permutation(np.arange(labels, rows - labels))[: int(rng.integers(1, most + 1))]
    parts = np.array_split(gone, int(rng.integers(1, 4)))
    return [[str(row) for row in part] for part in parts if len(part)]


def agree(what: bool, said: str) -> None:
    """End the run where a case differs."""
    if not what:
        raise SystemExit(f"differs: {said}")


def forget_all(
    kind: type[ModelFolder], folder: Path, asked: list[list[str]], rows: int
) -> ModelFolder:
    """Forget requests one by one, and check the receipts."""
    for each in asked:
        done = delete_rows(kind, folder, each, False, lambda told: None)
        rows -= len(each)
        agree(done.left == rows, f"{done.left} rows are said to be left of {rows}")
    held = kind.read(folder)
    own = [(line.receipt.action, line.receipt.rows) for line in held.receipts.lines]
    agree(own[1:] == [("forget", len(each)) for each in asked], f"receipts {own}")
    return held


def forest_case(rng: Rng, folder: Path) -> None:
    """Compare a forest."""
    rows, labels = draw_table(rng, folder / "t.npz", int(rng.integers(8, 60)))
    forest = DareForestClassifier(
        int(rng.integers(1, 6)), max_depth=int(rng.integers(1, 8)), k=int(rng.integers(1, 6)),
        q=float(rng.choice([0.3, 0.6, 1.0])), random_state=int(rng.integers(10**6)),
    )  # fmt: skip
    train_forest(folder / "t.npz", folder / "m", forest=forest, test_share=0.0)
    held = forget_all(ForestFolder, folder / "m", leaving(rng, rows, labels, rows // 2), rows)
    assert isinstance(held, ForestFolder)
    wrong = held.forest.difference(held.forest.retrain())
    agree(wrong is None, f"forest: {wrong}")


def linear_case(rng: Rng, folder: Path) -> None:
    """Compare a linear model."""
    rows, labels = draw_table(rng, folder / "t.npz", int(rng.integers(15, 80)), repeats=False)
    kinds = ["logistic", "softmax", "ridge"] if labels > 2 else ["logistic", "ridge", "svm"]
    train_linear(
        folder / "t.npz", folder / "m", kind=str(rng.choice(kinds)),
        penalty=float(10 ** rng.uniform(-1, 1)), test_share=0.0,
    )  # fmt: skip
    asked = leaving(rng, rows, labels, rows // 3)
    held = forget_all(LinearFolder, folder / "m", asked, rows)
    assert isinstance(held, LinearFolder) and held.receipts.last is not None
    with np.load(folder / "t.npz") as table:
        left = np.setdiff1d(np.arange(rows), [int(row) for part in asked for row in part])
        agree(np.array_equal(held.model.X, table["X_train"][left]), "the rows of a linear model")
    anew = replace(held.model, coefficients=coefficients_of(held.model.problems))
    proved = held.receipts.last.coefficients + replace(held, model=anew).distances()[0]
    apart = float(np.linalg.norm(anew.coefficients - held.model.coefficients))
    agree(apart <= proved, f"linear: {apart} apart, {proved} proved")


def network_case(rng: Rng, folder: Path) -> None:
    """Compare a network."""
    rows, _ = draw_table(rng, folder / "t.npz", int(rng.integers(8, 20)))
    recipe = Recipe(
        layers=(int(rng.integers(2, 7)),) * int(rng.integers(1, 3)), epochs=int(rng.integers(1, 6)),
        batch=int(rng.integers(2, 9)), seed=int(rng.integers(1000)),
        activation=str(rng.choice(["relu", "tanh"])),
    )  # fmt: skip
    row = int(rng.integers(rows))
    for name, members in (("m", None), ("other", row + 1)):
        run(
            folder / "t.npz", folder / name, recipe=recipe, members=members, workers=1, device="cpu"
        )
    forget_member(folder / "m", [str(row)])
    family = load_family_file(folder / "other" / "family.npz")
    found = onnx.load(folder / "m" / "full.onnx")
    held = {each.name: numpy_helper.to_array(each) for each in found.graph.initializer}
    for name, stack in family.parameters.items():
        agree(np.array_equal(held[name], stack[row]), f"network: {name} without row {row}")
    last = receipts_of(folder / "m").last
    agree(last is not None and last.left == rows - 1, "the receipt of a network")


def service_case(rng: Rng, folder: Path) -> None:
    """Compare the models of a service."""
    rows, labels = draw_table(rng, folder / "t.npz", int(rng.integers(10, 60)))
    with np.load(folder / "t.npz") as table:
        points = Rows.first(table["X_train"].astype(float), table["y_train"].astype(np.int64))
        tests = table["X_test"].astype(float)
    tree, key = DecisionTreeClassifier(max_depth=3), epoch_key(rng.bytes(8), 0)
    count, share = int(rng.integers(2, 9)), float(rng.choice([0.3, 0.6, 1.0]))
    shards = Shards.train(tree, key, count, share, points)
    for part in leaving(rng, rows, labels, rows // 2):
        shards = shards.delete(shards.rows.places([int(row) for row in part]))
    anew = Shards.train(tree, key, count, share, shards.rows)
    same = np.array_equal(shards.votes(tests, labels), anew.votes(tests, labels))
    agree(same and shards.digest() == anew.digest(), "service: votes")


def votes_case(rng: Rng, folder: Path) -> None:
    """Compare votes of parts that did not hold a row."""
    rows, labels = draw_table(rng, folder / "t.npz", int(rng.integers(20, 60)), repeats=False)
    with np.load(folder / "t.npz") as table:
        held = dict(table)
    gone = int(leaving(rng, rows, labels, 1)[0][0])
    for name in ("X_train", "y_train"):
        held[name] = np.delete(held[name], gone, axis=0)
    np.savez(folder / "u.npz", **held)
    spread = int(rng.integers(1, 3))
    recipe = PartRecipe(
        parts=int(rng.integers(2, 6)), method="finite_aggregation" if spread > 1 else "dpa",
        spread=spread, seed=int(rng.integers(1000)),
        learner=make_learner("DecisionTreeClassifier", {"max_depth": 3}),
    )  # fmt: skip
    names = tuple(map(str, range(labels)))
    for name, table_name in (("m", "t.npz"), ("n", "u.npz")):
        partition(
            folder / table_name, folder / name, labels=names, recipe=recipe, workers=1, onnx=False,
            undefended=False,
        )  # fmt: skip
    reached = (folder / "m" / "parts.csv").read_text().splitlines()[1 + gone].split(",")[1].split()
    before, after = (read_ballots(folder / name / "ballots.npz").votes for name in ("m", "n"))
    others = np.setdiff1d(np.arange(before.shape[1]), [int(part) for part in reached])
    agree(np.array_equal(before[:, others], after[:, others]), f"votes without row {gone}")


CASES: dict[str, tuple[Callable[[Rng, Path], None], float]] = {
    "forest": (forest_case, 0.35),
    "linear": (linear_case, 0.37),
    "network": (network_case, 0.06),
    "service": (service_case, 0.12),
    "votes": (votes_case, 0.1),
}
"""Of each kind its case, and its share of all."""


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*CASES])
    given = parser.parse_args()
    rng, began = np.random.default_rng(given.seed), time.perf_counter()
    shares = [share for _, share in CASES.values()]
    counts = dict.fromkeys(CASES, 0)
    for case in range(given.cases):
        kind = given.only or str(rng.choice([*CASES], p=shares))
        with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
            try:
                CASES[kind][0](np.random.default_rng([given.seed, case]), Path(name))
            except BaseException:
                print(f"case {case}, {kind}")
                raise
        counts[kind] += 1
    for kind, count in counts.items():
        print(f"{kind:8} {count:4} cases agree")
    print(f"all      {given.cases:4} in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
