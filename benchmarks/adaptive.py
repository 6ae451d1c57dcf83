"""The white-box attack of *Adaptive Machine Unlearning* on shards of small convolutional networks.

    python benchmarks/adaptive.py --rows 120,300 --trials 200 --seconds 600 --counts attacked.csv

scikit-learn's digits, 6 shards as in section 6 of the paper. A trial trains all shards, deletes the
images that the attack takes to be in the first half of them, and trains all anew on what is left,
with new seeds. Both arms are counted; alphas hold for all events of a row of images at once.
``--counts`` writes what ``leaveout audit trials --counts`` reads, of the first number of rows.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from leaveout.models.sharded import ServiceSettings, guarantee, safe_predictions
from leaveout.verifier.audits.adaptive import (
    Audit,
    WhiteBox,
    alpha_lower_bound,
    audit,
    clopper_pearson,
)
from leaveout.verifier.audits.membership import Counted

from traces import machine

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "deletion"
CONFIDENCE, BETA, GAMMA = 0.95, 1e-3, 1e-3


def attack_on(rows: int, given: argparse.Namespace) -> WhiteBox:
    """Return the attack on shards of so many images; models are compared on all others."""
    sys.path.insert(0, str(EXAMPLE))
    from digits_cnn import DigitsCNN

    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=rows, random_state=0, stratify=y)
    model = DigitsCNN(epochs=given.epochs)
    return WhiteBox(model, X, y, X_test, y_test, shards=given.shards)


def rate(count: int, trials: int) -> str:
    """Return how often something happened, and the interval of its chance."""
    low, high = clopper_pearson(count, trials, CONFIDENCE)
    return f"{count} of {trials} [{low:.2f}, {high:.2f}]"


def alpha(found: Audit, one: Counted, at_most: float) -> str:
    """Return the alpha an event refutes, with its arm's chance after retraining bounded or not."""
    each = 1 - (1 - CONFIDENCE) / len(found.counts)
    bound = alpha_lower_bound(*one.arms, BETA + GAMMA, each, at_most)
    return f"> {bound:.2f}" if bound > 0 else "none"


def print_audit(rows: int, found: Audit, seconds: float) -> None:
    """Print the events of one number of images."""
    for one in found.counts:
        shown = f"{one.retrained_at_most:.3g}" if one.retrained_at_most < 1 else "nothing"
        print(
            f"| {rows} | {one.event} | {rate(one.unlearned, one.unlearned_trials)} | "
            f"{rate(one.retrained, one.retrained_trials)} | {shown} | {alpha(found, one, 1.0)} | "
            f"{alpha(found, one, one.retrained_at_most)} |"
        )
    print(f"<!-- {found.counts[0].unlearned_trials} trials in {seconds:.0f} s -->", flush=True)


def write_counts(path: Path, found: Audit) -> None:
    """Write counts as a table."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(
            ["event", "unlearned_hits", "unlearned_trials", "retrained_hits", "retrained_trials"]
        )
        for one in found.counts:
            writer.writerow([one.event, *one.arms])


def print_budgets(shards: int) -> None:
    """Print what answers may tell of as many shards, if they are all that is published."""
    print(
        "\n| answers between two full retrainings | epsilon of each | alpha shown |\n|---|---|---|"
    )
    for epsilon in (0.28, 0.028, 0.0028):
        settings = ServiceSettings(
            shards=shards,
            mechanism="exponential",
            rows=2000,
            epsilon=epsilon,
            predictions=1,
            labels=10,
        )
        safe = safe_predictions(settings, 1.0, BETA, GAMMA)
        shown = guarantee(settings, safe, BETA, GAMMA).alpha
        print(f"| {safe:,} | {epsilon:g} | {shown:.3f} |")


def main() -> None:
    """Attack, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="120,300", help="images trained on, a row each")
    parser.add_argument("--shards", type=int, default=6)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seconds", type=float, help="for each number of images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--counts", type=Path, help="CSV for leaveout audit trials --counts")
    given = parser.parse_args()
    print(f"{machine()}; numpy {np.__version__}\n")
    print("| images | event | after unlearning | after retraining | at most, shown | alpha, both "
          "arms counted | alpha, with what is shown |\n" + "|---" * 7 + "|")  # fmt: skip
    for place, rows in enumerate(map(int, given.rows.split(","))):
        begun = time.perf_counter()
        found = audit(attack_on(rows, given), given.trials, given.seed, seconds=given.seconds)
        print_audit(rows, found, time.perf_counter() - begun)
        if given.counts is not None and not place:
            write_counts(given.counts, found)
    print_budgets(given.shards)


if __name__ == "__main__":
    main()
