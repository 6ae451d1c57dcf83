"""The two-player unlearner on Adult beside the paper's tables, and what an audit makes of it.

    python benchmarks/unlearning.py --data ../shared/data
    python benchmarks/unlearning.py --data ../shared/data --forget 5 --trials 12 --seconds 120

Each row of the first table is one share of forgotten rows; every mean is over independent trials,
each with models of its own, with an interval of 95 % for any distribution and the number of
trials. "says gone" is the attack on both models' posteriors (the paper's figure 2), "says member"
the loss attack on one model (its table III).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from leaveout.deadline import Deadline
from leaveout.errors import LeaveoutError
from leaveout.models.onnx_file import network_from
from leaveout.models.train import Recipe, parse_layers
from leaveout.models.train.architecture import count_parameters, layers_of
from leaveout.models.train.data import TrainingData
from leaveout.models.train.export import network_model, unflatten
from leaveout.models.train.source import read_data
from leaveout.models.unlearning import Deletion, Game, GraphNetwork, Schedule, play
from leaveout.verifier.audits.membership import (
    Advantage,
    Events,
    Plan,
    Rate,
    Row,
    Trial,
    advantage,
    rates,
    run_trials,
    views_of,
    write_audit,
)
from leaveout.verifier.audits.membership.means import mean_lower, mean_upper

from traces import machine

FILE = "adult_lucid21.npz"
CONFIDENCE = 0.95
ARMS = ("original", "retrained", "unlearned")
HARDWARE = "an A100 and a Xeon Platinum 8352V"
ROWS = 32561


@dataclass(frozen=True)
class Published:
    """The paper's figures for Adult: accuracy, seconds and attack rates by arm."""

    accuracy: dict[str, float]
    seconds: dict[str, float]
    attack: dict[str, float]


def _published(accuracy: str, seconds: str, attack: str) -> Published:
    def by_arm(text: str, arms: Sequence[str]) -> dict[str, float]:
        return dict(zip(arms, map(float, text.split()), strict=True))

    return Published(by_arm(accuracy, ARMS), by_arm(seconds, ARMS[1:]), by_arm(attack, ARMS))


PAPER = {
    1: _published("84.88 84.18 84.88", "7.8 5.9", "1.0 0.48 0.00"),
    2: _published("84.88 84.67 84.92", "7.8 5.4", "1.0 0.48 0.03"),
    5: _published("84.88 84.50 84.89", "7.9 3.5", "1.0 0.62 0.01"),
    10: _published("84.88 84.06 84.87", "7.7 3.3", "1.0 0.60 0.00"),
}
"""Tables I, II and III, original, retrained, unlearned; by per cent forgotten."""


def mean_of(values: Sequence[float]) -> Rate:
    """Return the mean of numbers in [0, 1], with its interval."""
    column = np.array(values)[:, None]
    error = (1 - CONFIDENCE) / 2
    return Rate(
        float(column.mean()),
        float(mean_lower(column, error)[0]),
        float(mean_upper(column, error)[0]),
        len(values),
    )


def architecture(data: TrainingData, layers: str) -> GraphNetwork:
    """Return an untrained network."""
    shapes = layers_of(Recipe(layers=parse_layers(layers)), data.X.shape[1], len(data.labels))
    blank = unflatten(shapes, np.zeros(count_parameters(shapes), dtype=np.float32))
    return GraphNetwork(network_from(network_model(shapes, blank), "network"))


def trials_of(data: TrainingData, percent: float, given: argparse.Namespace) -> list[Trial]:
    """Run trials until there are enough, or no time for more."""
    schedule = Schedule(epochs=given.epochs, batch=given.batch, learning_rate=given.lr)
    game = Game(
        rounds=given.rounds,
        leader_steps=given.leader_steps,
        follower_steps=given.follower_steps,
        learning_rate=given.game_lr,
    )

    def unlearner(original: GraphNetwork, deletion: Deletion, seed: int) -> GraphNetwork:
        return play(original, deletion, game, schedule, seed).model

    plan = Plan(forget=max(1, round(percent / 100 * len(data.X))), rows=given.rows, seed=given.seed)
    deadline = Deadline.after(given.seconds)
    done: list[Trial] = []
    model = architecture(data, given.layers)
    for trial in run_trials(model, data, schedule, unlearner, plan, given.trials):
        done.append(trial)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{percent:g} %: {len(done)}/{given.trials} trials ")
        if deadline.over:
            break
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    return done


def attack_row(found: Sequence[Row], name: str) -> Row:
    """Return one attack."""
    return next(row for row in found if row.attack == name)


def show(
    percent: float, done: Sequence[Trial], found: Sequence[Row], held: dict[str, Advantage]
) -> None:
    """Print one share of forgotten rows."""
    paper = PAPER.get(int(percent)) if percent == int(percent) else None
    loss, both = attack_row(found, "loss"), attack_row(found, "trained on both models")
    print(f"\n{percent:g} % forgotten, {len(done)} trials")
    head = f"{'':11s}{'accuracy':>32s}{'paper':>7s}{'seconds':>9s}{'paper':>7s}"
    print(f"{head}{'says member':>30s}{'paper':>7s}{'of rows never seen':>30s}{'says gone':>30s}")
    for arm in ARMS:
        accuracy = mean_of([trial.arms[arm].accuracy for trial in done])
        seconds = np.mean([trial.arms[arm].seconds for trial in done])
        cells = [
            f"{arm:11s}{accuracy!s:>32s}",
            f"{paper.accuracy[arm]:7.2f}" if paper else f"{'-':>7s}",
            f"{seconds:9.2f}",
            f"{paper.seconds[arm]:7.1f}" if paper and arm in paper.seconds else f"{'-':>7s}",
            f"{loss.forgotten[arm]!s:>30s}",
            f"{paper.attack[arm]:7.2f}" if paper else f"{'-':>7s}",
            f"{loss.unseen[arm]!s:>30s}",
            f"{both.forgotten[arm]!s:>30s}" if arm in both.forgotten else f"{'-':>30s}",
        ]
        print("".join(cells))
    for unit, one in held.items():
        print(
            f"advantage    [{one.lower:.3f}, {one.upper:.3f}] with confidence {CONFIDENCE:g}, unit "
            f"{unit}, {one.estimating} of {one.trials} trials count: {one.attack}"
        )
        if one.implied is not None:
            print(
                f"implied      alpha > {one.implied.alpha:.3f} where beta = 0, beta > "
                f"{one.implied.beta:.3f} where alpha = 0: {one.implied.counted}"
            )
        if one.ranked is not None:
            print(
                f"membership   at least {one.ranked.lower:.3f} against rows never trained on: "
                f"{one.ranked.counted}"
            )
    flagged = [row.attack for row in found if row.flagged]
    print(f"flagged by   {', '.join(flagged) or 'no attack'} (Holm)", flush=True)


def show_published() -> None:
    """Print what the paper's own attack rates imply, its rows taken as independent draws."""
    counts: dict[str, list[int]] = {"unlearned": [], "retrained": []}
    rows = [round(percent / 100 * ROWS) for percent in PAPER]
    for count, paper in zip(rows, PAPER.values(), strict=True):
        for arm, hits in counts.items():
            hits.append(round(count * paper.attack[arm]))
    events = Events(
        tuple(f"the attack says member, {percent} %" for percent in PAPER),
        np.array(counts["unlearned"]),
        np.array(rows),
        np.array(counts["retrained"]),
        np.array(rows),
    )
    found = advantage(events, CONFIDENCE)
    assert found.implied is not None
    print(
        f"paper's table III, each row taken as a draw of its own: advantage in [{found.lower:.3f}, "
        f"{found.upper:.3f}], alpha > {found.implied.alpha:.3f}, beta > {found.implied.beta:.3f} "
        f"({found.attack})"
    )
    print("(its rows share one model, so this assumes what one run cannot show)")


def entry(
    percent: float, done: Sequence[Trial], found: Sequence[Row], held: dict[str, Advantage]
) -> dict[str, object]:
    """Return one share for ``--json``."""
    return {
        "percent": percent,
        "trials": len(done),
        "accuracy": {a: vars(mean_of([t.arms[a].accuracy for t in done])) for a in ARMS},
        "seconds": {a: float(np.mean([t.arms[a].seconds for t in done])) for a in ARMS},
        "attacks": [
            {
                "attack": row.attack,
                "forgotten": {arm: vars(rate) for arm, rate in row.forgotten.items()},
                "unseen": {arm: vars(rate) for arm, rate in row.unseen.items()},
                "p_value": row.p_value,
                "flagged": row.flagged,
            }
            for row in found
        ],
        "advantage": {
            unit: {"lower": one.lower, "upper": one.upper, "attack": one.attack}
            for unit, one in held.items()
        },
    }


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(), help=f"folder with {FILE}")
    parser.add_argument("--forget", default="1,2,5,10", help="per cent, as in 1,2,5,10")
    parser.add_argument("--trials", type=int, default=30, help="for each share")
    parser.add_argument("--seconds", type=float, help="for each share: no trial starts later")
    parser.add_argument("--keep", type=int, help="train on the first so many rows; default all")
    parser.add_argument("--layers", default="50,50", help="hidden widths")
    parser.add_argument("--epochs", type=int, default=15, help="of training from scratch")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.02, help="of training from scratch")
    parser.add_argument("--rounds", type=int, default=100, help="of the game")
    parser.add_argument("--leader-steps", type=int, default=10)
    parser.add_argument("--follower-steps", type=int, default=1)
    parser.add_argument("--game-lr", type=float, default=0.05)
    parser.add_argument("--rows", type=int, default=500, help="recorded of each kind a trial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--audits", type=Path, help="folder for the audits, as audit_5.npz")
    parser.add_argument("--json", type=Path, help="write the numbers here, too")
    given = parser.parse_args()
    try:
        given.shares = [float(word) for word in given.forget.split(",")]
    except ValueError:
        parser.error(f"--forget {given.forget}: expected per cent with commas, as in 1,2,5,10")
    if given.trials < 4:
        parser.error(f"--trials {given.trials}: expected at least 4")
    return given


def main() -> None:
    """Print the tables."""
    given = arguments()
    print(
        f"{FILE}, layers {given.layers}, {given.epochs} epochs of {given.batch} at {given.lr:g}; "
        f"{given.rounds} rounds of {given.leader_steps} + {given.follower_steps} steps at "
        f"{given.game_lr:g}; one core of {machine()}"
    )
    print(f"paper: one run, accuracy in per cent, another encoding of Adult, {HARDWARE}")
    show_published()
    lines: list[object] = []
    try:
        data = read_data(given.data / FILE, None)
        if given.keep is not None:
            data = replace(data, X=data.X[: given.keep], y=data.y[: given.keep])
        for percent in given.shares:
            done = trials_of(data, percent, given)
            views = views_of(done, f"{percent:g} %")
            found = rates(views, CONFIDENCE, given.seed)
            held = {unit: advantage(views, CONFIDENCE, unit) for unit in ("trials", "records")}
            show(percent, done, found, held)
            lines.append(entry(percent, done, found, held))
            if given.audits is not None:
                given.audits.mkdir(parents=True, exist_ok=True)
                write_audit(views, given.audits / f"audit_{percent:g}.npz")
    except LeaveoutError as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    if given.json:
        facts = {"machine": machine(), "epochs": given.epochs, "trials": given.trials}
        given.json.write_text(json.dumps({**facts, "shares": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
