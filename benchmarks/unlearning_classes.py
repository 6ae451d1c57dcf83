"""The two-player unlearner on whole classes of digits, beside retraining without the class.

    python benchmarks/unlearning_classes.py --keep build/digits
    python benchmarks/unlearning_classes.py --keep build/digits-1 --leader-steps 1 --game-lr 0.01

Each line is a class that is forgotten, its figures means over trials, each with models of its own.
"on it" is the accuracy on test rows of the class, "on others" that on the rest, of original,
retrained and unlearned network (the paper's table IV is of CIFAR10). "says member" is the loss
attack (its table VI), on rows of the class that were forgotten and, after the bar, on rows of the
class that no network saw. All intervals are of 95 %, for any distribution.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from leaveout.errors import LeaveoutError
from leaveout.models.unlearning import Game, Schedule
from leaveout.verifier.audits.membership import (
    Advantage,
    Plan,
    Row,
    Trial,
    advantage,
    rates,
    views_of,
    write_audit,
)

from traces import machine
from unlearning_trials import ARMS, CONFIDENCE, DATA, Setting, eq_12, gather, mean_of


def on_class(done: Sequence[Trial], arm: str) -> list[float]:
    """Return the accuracy on the forgotten class in each trial."""
    found = [trial.arms[arm].forgotten_label for trial in done]
    return [one for one in found if one is not None]


def on_others(done: Sequence[Trial], arm: str) -> list[float]:
    """Return the accuracy on the other classes in each trial."""
    return [trial.arms[arm].accuracy for trial in done]


def show(label: int, done: Sequence[Trial], loss: Row, held: Advantage) -> None:
    """Print one class."""
    cells = [f"{label:<6d}{len(done):>3d}  "]
    for values_of in (on_class, on_others):
        for arm in ARMS:
            mean = mean_of(values_of(done, arm))
            cells.append(
                f"{100 * mean.mean:6.1f} [{100 * mean.lower:3.0f},{100 * mean.upper:4.0f}]"
            )
    for found in (loss.forgotten, loss.unseen):
        cells += [f"{found[arm].mean:6.2f}" for arm in ARMS]
        cells.append(" |")
    cells.append(f" [{held.lower:.2f}, {held.upper:.2f}] {held.attack}")
    print("".join(cells), flush=True)


def summary(every: dict[int, list[Trial]], losses: dict[int, Row]) -> dict[str, object]:
    """Print and return the means over all classes, each class counting the same."""
    found: dict[str, object] = {}
    for arm in ARMS:
        means = {
            "on it": np.mean([np.mean(on_class(done, arm)) for done in every.values()]),
            "on others": np.mean([np.mean(on_others(done, arm)) for done in every.values()]),
            "says member": np.mean([loss.forgotten[arm].mean for loss in losses.values()]),
            "of rows never seen": np.mean([loss.unseen[arm].mean for loss in losses.values()]),
            "processor seconds": np.mean(
                [trial.arms[arm].processor_seconds for done in every.values() for trial in done]
            ),
        }
        shown = ", ".join(f"{name} {value:.3f}" for name, value in means.items())
        print(f"all classes, {arm}: {shown}")
        found[arm] = {name: float(value) for name, value in means.items()}
    never = sum(sum(on_class(done, "unlearned")) == 0 for done in every.values())
    print(f"classes that no unlearned network answers: {never} of {len(every)}")
    return found


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--classes", default="0,1,2,3,4,5,6,7,8,9", help="as in 3,8")
    parser.add_argument("--trials", type=int, default=10, help="for each class")
    parser.add_argument("--seconds", type=float, help="no trial starts later")
    parser.add_argument("--keep", type=Path, help="folder of finished trials, read when run again")
    parser.add_argument("--layers", default="50,50", help="hidden widths")
    parser.add_argument("--epochs", type=int, default=30, help="of training from scratch")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--lr", type=float, default=0.1, help="of training from scratch")
    parser.add_argument("--rounds", type=int, default=100, help="of the game")
    parser.add_argument("--leader-steps", type=int, default=10)
    parser.add_argument("--game-lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--audits", type=Path, help="folder for the audits, as audit_3.npz")
    parser.add_argument("--json", type=Path, help="write the means over classes here, too")
    given = parser.parse_args()
    words = given.classes.split(",")
    if not all(word in tuple("0123456789") for word in words):
        parser.error(f"--classes {given.classes}: expected digits with commas, as in 3,8")
    given.labels = [int(word) for word in words]
    if given.trials < 4:
        parser.error(f"--trials {given.trials}: expected at least 4")
    return given


def main() -> None:
    """Print the table."""
    given = arguments()
    setting = Setting(
        "digits",
        given.layers,
        Schedule(epochs=given.epochs, batch=given.batch, learning_rate=given.lr),
        Game(rounds=given.rounds, leader_steps=given.leader_steps, learning_rate=given.game_lr),
    )
    data = DATA["digits"](Path())
    print(
        f"digits, {len(data.X):,} rows, layers {given.layers}, {given.epochs} epochs of "
        f"{given.batch} at {given.lr:g}; {given.rounds} rounds of {given.leader_steps} + 1 steps "
        f"at {given.game_lr:g}; one core of {machine()}"
    )
    plans = {f"class_{label}": Plan(label=label, seed=given.seed) for label in given.labels}
    every: dict[int, list[Trial]] = {}
    losses: dict[int, Row] = {}
    try:
        found = gather(setting, data, plans, given.trials, given.keep, given.seconds)
        print(
            "class trials  on it: original, retrained, unlearned; on others; says member; advantage"
        )
        for label, done in zip(given.labels, found.values(), strict=True):
            if len(done) < 4:
                print(f"{label:<6d}{len(done):>3d}  too few trials to say anything")
                continue
            views = views_of(done, f"class {label}")
            table = rates(views, CONFIDENCE)
            every[label] = done
            losses[label] = next(row for row in table if row.attack == "loss")
            show(label, done, losses[label], advantage(views, CONFIDENCE, "trials"))
            gaps = eq_12(views)
            flagged = [row.attack for row in table if row.flagged]
            print(
                f"{'':11s}eq. 12: retrained {gaps['retrained']}, unlearned {gaps['unlearned']}; "
                f"flagged by {', '.join(flagged) or 'no attack'}"
            )
            if given.audits is not None:
                given.audits.mkdir(parents=True, exist_ok=True)
                write_audit(views, given.audits / f"audit_{label}.npz")
        if every:
            means = summary(every, losses)
            if given.json:
                given.json.write_text(json.dumps(means, indent=1) + "\n")
    except (LeaveoutError, OSError) as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt:
        sys.exit("stopped; run again with the same --keep to go on")


if __name__ == "__main__":
    main()
