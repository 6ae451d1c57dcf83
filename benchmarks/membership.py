"""Membership attacks on overfitted and regularised models, beside a published implementation.

    python benchmarks/membership.py --adult ../shared/data/adult_lucid21.npz

Of each model the area under the curve of the loss and of the label, ours and, where it is
installed, that of the Adversarial Robustness Toolbox (its attack by the loss is trained on half of
the rows; both are judged on the others); then ours alone: likelihood ratio, the game on the same
rows, and what a guard's answers give away beside what is proved.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.folders import train_forest
from leaveout.models.linear.training import train_linear
from leaveout.models.train import Recipe, run
from leaveout.verifier.audits.attacks import Attack, scaled_confidence
from leaveout.verifier.guard.attack import Asked, Found, attack, read_asked
from leaveout.verifier.guard.reference_models import References, load_references

try:
    from art.attacks.inference.membership_inference import (
        MembershipInferenceBlackBox,
        MembershipInferenceBlackBoxRuleBased,
    )
    from art.estimators.classification import BlackBoxClassifier
except ImportError:
    BlackBoxClassifier = None

SEED, EPSILON = 0, 0.2


def tables(folder: Path, adult: Path | None, rows: int) -> Iterator[tuple[str, Path]]:
    """Write tables of as many training rows as others, a tenth of whose labels is wrong."""
    X, y = load_digits(return_X_y=True)
    sets = {"digits": (X / 16, y)}
    if adult is not None:
        with np.load(adult) as held:
            sets["adult"] = held["X_train"], held["y_train"]
    rng = np.random.default_rng(SEED)
    for name, (inputs, labels) in sets.items():
        kept = rng.permutation(len(inputs))[: 2 * rows]
        own, words = inputs[kept].astype(np.float32), labels[kept].astype(np.int64)
        wrong = rng.random(len(own)) < 0.1
        words = np.where(wrong, rng.integers(0, labels.max() + 1, len(own)), words)
        half, path = len(own) // 2, folder / f"{name}.npz"
        parts = {"X_train": own[:half], "X_test": own[half:]}
        np.savez(path, **parts, y_train=words[:half], y_test=words[half:])
        yield name, path


def models(table: Path, folder: Path, epochs: int) -> Iterator[tuple[str, Path, Callable[[], Any]]]:
    """Yield each kind, overfitted and regularised: its name, its folder, and what trains it."""
    for how, recipe in (
        ("overfitted", Recipe(layers=(32,), epochs=epochs, batch=20, weight_decay=0.0)),
        ("regularised", Recipe(layers=(32,), epochs=max(1, epochs // 10), weight_decay=1e-2)),
    ):
        own = folder / f"network-{how}"
        yield (
            f"network, {how}",
            own,
            partial(run, table, own, recipe=recipe, workers=1, device="cpu"),
        )
    for how, depth in (("overfitted", 20), ("regularised", 4)):
        own, forest = (
            folder / f"forest-{how}",
            DareForestClassifier(30, max_depth=depth, random_state=SEED),
        )
        yield (
            f"forest, {how}",
            own,
            partial(train_forest, table, own, forest=forest, test_share=0.0),
        )
    for how, penalty in (("overfitted", 0.1), ("regularised", 100.0)):
        own = folder / f"linear-{how}"
        yield (
            f"linear, {how}",
            own,
            partial(train_linear, table, own, penalty=penalty, test_share=0.0),
        )


def probabilities(known: References, X: np.ndarray) -> np.ndarray:
    """Return the model's confidence in each label."""
    scores = known.whole(X)
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def peer(known: References, asked: Asked) -> tuple[float, float, float, float]:
    """Return AUC by the loss and accuracy by the label, each of ours and of the toolbox."""
    X, y, member = asked.X, asked.y, asked.member >= 0
    fit = np.random.default_rng(SEED).random(len(X)) < 0.5
    scores = known.whole(X)
    own = float(roc_auc_score(member[~fit], scaled_confidence(scores, y)[~fit]))
    right = float(((scores.argmax(axis=1) == y) == member).mean())
    if BlackBoxClassifier is None:
        return own, np.nan, right, np.nan
    model = BlackBoxClassifier(
        lambda points: probabilities(known, points.astype(X.dtype)), X.shape[1:], len(known.names)
    )
    loss = np.logaddexp(0.0, -scaled_confidence(scores, y))[:, None]
    box = MembershipInferenceBlackBox(model, input_type="prediction", attack_model_type="lr")
    box.fit(pred=loss[fit & member], test_pred=loss[fit & ~member])
    told = box.infer(None, pred=loss[~fit], probabilities=True)
    theirs = float(roc_auc_score(member[~fit], np.asarray(told)[:, -1]))
    rule = MembershipInferenceBlackBoxRuleBased(model).infer(X, y)
    return own, theirs, right, float((np.asarray(rule).ravel() == member).mean())


def row(name: str, found: Found, compared: tuple[float, float, float, float]) -> str:
    """Return a line of the table."""

    def auc(part: tuple[Attack, ...]) -> str:
        return f"{part[0].auc.value:.3f} [{part[0].auc.low:.3f}, {part[0].auc.high:.3f}]"

    loss, theirs, label, rule = compared
    assert found.guarded is not None
    own, bound = found.guarded.advantage, found.guarded.bound
    guard = f"{own.value:.5f} [{own.low:.5f}, {own.high:.5f}] <= {bound:.5f}"
    return (
        f"{name:30} {loss:.3f} {theirs:.3f}  {label:.3f} {rule:.3f}  "
        f"{auc(found.others_attacks)}  {auc(found.same_rows)}  {guard}"
    )


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--adult", type=Path, help="NPZ; default digits alone")
    parser.add_argument("--only", default="", help="such as adult, or: digits, network")
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=200)
    given = parser.parse_args()
    print(
        f"{'':30} {'loss: AUC':11}  {'label: acc.':11}  {'likelihood ratio':20}  "
        f"{'same rows':20}  guard of epsilon {EPSILON}: advantage, proved bound\n"
        f"{'':30} {'ours':5} {'peer':5}  {'ours':5} {'peer':5}"
    )
    with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
        for told, table in tables(Path(name), given.adult, given.rows):
            for kind, folder, train in models(table, Path(name) / told, given.epochs):
                if given.only not in f"{told}, {kind}":
                    continue
                train()
                known = load_references(folder, adopt=True)
                asked = read_asked(known, table)
                found = attack(known, asked, epsilon=EPSILON)
                print(row(f"{told}, {kind}", found, peer(known, asked)), flush=True)


if __name__ == "__main__":
    main()
