"""The two-player unlearner on Adult beside the paper's tables, and what an audit makes of it.

    python benchmarks/unlearning.py --data ../shared/data --keep build/adult
    python benchmarks/unlearning.py --data ../shared/data --set adult-21 --lr 0.02 \
        --leader-steps 10 --game-lr 0.05

Each table is one share of forgotten rows. Every mean is over independent trials, each with models
of its own, with an interval of 95 % for any distribution and the number of trials; after "+-" is
Student's, for means that are about normal. "says member" is the loss attack on one model (the
paper's table III); "advantage" is eq. 12, the mean of |M_A - 0.5| for an attack on both models'
posteriors (its figure 2); "moved" is how far the posteriors of rows never seen are from the
original's (total variation). Trials are kept in --keep as they end, so that a stopped run goes on.
Adult's columns are told in unlearning_trials.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import sem
from scipy.stats import t as student

from leaveout.errors import LeaveoutError
from leaveout.models.unlearning import Game, Schedule
from leaveout.verifier.audits.membership import (
    Advantage,
    Plan,
    Rate,
    Row,
    Trial,
    advantage,
    rates,
    views_of,
    write_audit,
)

from traces import machine
from unlearning_paper import HARDWARE, PAPER
from unlearning_trials import ARMS, CONFIDENCE, DATA, Setting, eq_12, gather, mean_of, moved

UNITS = ("trials", "records")


def attack_row(found: Sequence[Row], name: str) -> Row:
    """Return one attack."""
    return next(row for row in found if row.attack == name)


def ratios_of(done: Sequence[Trial]) -> list[float]:
    """Return what unlearning cost in each trial, where retraining costs 1: processor seconds."""
    return [
        trial.arms["unlearned"].processor_seconds / trial.arms["retrained"].processor_seconds
        for trial in done
    ]


def accuracy_of(done: Sequence[Trial], arm: str) -> str:
    """Return the accuracy over trials in per cent: mean, Student's interval, and the other."""
    values = [trial.arms[arm].accuracy for trial in done]
    mean = mean_of(values)
    error = student.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * sem(values)
    return (
        f"{100 * mean.mean:.2f} +- {100 * error:.2f} "
        f"[{100 * mean.lower:.1f}, {100 * mean.upper:.1f}]"
    )


def show(
    percent: float,
    done: Sequence[Trial],
    found: Sequence[Row],
    held: dict[str, Advantage],
    gaps: dict[str, Rate],
) -> None:
    """Print one share of forgotten rows."""
    paper = PAPER.get(int(percent)) if percent == int(percent) else None
    loss, ratios = attack_row(found, "loss"), ratios_of(done)
    print(f"\n{percent:g} % forgotten, {len(done)} trials")
    head = f"{'':11s}{'accuracy':>30s}{'paper':>7s}{'seconds':>9s}{'paper':>7s}{'moved':>7s}"
    print(f"{head}{'says member':>28s}{'paper':>7s}{'of rows never seen':>28s}{'advantage':>28s}")
    for arm in ARMS:
        seconds = np.mean([trial.arms[arm].processor_seconds for trial in done])
        cells = [
            f"{arm:11s}{accuracy_of(done, arm):>30s}",
            f"{paper.accuracy[arm]:7.2f}" if paper else f"{'-':>7s}",
            f"{seconds:9.2f}",
            f"{paper.seconds[arm]:7.1f}" if paper and arm in paper.seconds else f"{'-':>7s}",
            f"{np.mean([moved(trial, arm) for trial in done]):7.3f}",
            f"{loss.forgotten[arm]!s:>28s}",
            f"{paper.attack[arm]:7.2f}" if paper else f"{'-':>7s}",
            f"{loss.unseen[arm]!s:>28s}",
            f"{gaps[arm]!s:>28s}" if arm in gaps else f"{'-':>28s}",
        ]
        print("".join(cells))
    print(
        f"cost         {np.median(ratios):.2f} of retraining's processor seconds (median; "
        f"{min(ratios):.2f} to {max(ratios):.2f})"
        + (
            f"; paper {paper.seconds['unlearned'] / paper.seconds['retrained']:.2f}"
            if paper
            else ""
        )
    )
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


def entry(
    percent: float,
    done: Sequence[Trial],
    found: Sequence[Row],
    held: dict[str, Advantage],
    gaps: dict[str, Rate],
) -> dict[str, object]:
    """Return one share for ``--json``."""
    return {
        "percent": percent,
        "trials": len(done),
        "accuracy": {arm: [trial.arms[arm].accuracy for trial in done] for arm in ARMS},
        "seconds": {arm: [trial.arms[arm].seconds for trial in done] for arm in ARMS},
        "cost": ratios_of(done),
        "moved": {arm: float(np.mean([moved(trial, arm) for trial in done])) for arm in ARMS},
        "eq_12": {arm: vars(rate) for arm, rate in gaps.items()},
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the data files")
    parser.add_argument(
        "--set", default="adult-107", choices=sorted(DATA), help="default %(default)s"
    )
    parser.add_argument("--forget", default="1,2,5,10", help="per cent, as in 1,2,5,10")
    parser.add_argument("--trials", type=int, default=10, help="for each share")
    parser.add_argument("--seconds", type=float, help="no trial starts later")
    parser.add_argument("--keep", type=Path, help="folder of finished trials, read when run again")
    parser.add_argument("--layers", default="50,50", help="hidden widths")
    parser.add_argument("--epochs", type=int, default=15, help="of training from scratch")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.1, help="of training from scratch")
    parser.add_argument("--rounds", type=int, default=100, help="of the game")
    parser.add_argument("--leader-steps", type=int, default=1)
    parser.add_argument("--follower-steps", type=int, default=1)
    parser.add_argument("--game-lr", type=float, default=0.01)
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


def setting_of(given: argparse.Namespace) -> Setting:
    """Return what is repeated."""
    return Setting(
        given.set,
        given.layers,
        Schedule(epochs=given.epochs, batch=given.batch, learning_rate=given.lr),
        Game(
            rounds=given.rounds,
            leader_steps=given.leader_steps,
            follower_steps=given.follower_steps,
            learning_rate=given.game_lr,
        ),
    )


def main() -> None:
    """Print the tables."""
    given = arguments()
    print(
        f"{given.set}, layers {given.layers}, {given.epochs} epochs of {given.batch} at "
        f"{given.lr:g}; {given.rounds} rounds of {given.leader_steps} + {given.follower_steps} "
        f"steps at {given.game_lr:g}; one core of {machine()}"
    )
    print(f"paper: one run, accuracy in per cent, its own encoding of Adult, {HARDWARE}")
    lines: list[object] = []
    try:
        data = DATA[given.set](given.data)
        plans = {
            f"{percent:g}": Plan(
                forget=max(1, round(percent / 100 * len(data.X))), rows=given.rows, seed=given.seed
            )
            for percent in given.shares
        }
        found = gather(setting_of(given), data, plans, given.trials, given.keep, given.seconds)
        for percent, done in zip(given.shares, found.values(), strict=True):
            if len(done) < 4:
                print(f"\n{percent:g} % forgotten: {len(done)} trials, too few to say anything")
                continue
            views = views_of(done, f"{percent:g} %")
            table = rates(views, CONFIDENCE)
            held = {unit: advantage(views, CONFIDENCE, unit) for unit in UNITS}
            gaps = eq_12(views)
            show(percent, done, table, held, gaps)
            lines.append(entry(percent, done, table, held, gaps))
            if given.audits is not None:
                given.audits.mkdir(parents=True, exist_ok=True)
                write_audit(views, given.audits / f"audit_{percent:g}.npz")
    except (LeaveoutError, OSError) as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt:
        sys.exit("stopped; run again with the same --keep to go on")
    if given.json:
        facts = {"machine": machine(), "epochs": given.epochs, "trials": given.trials}
        given.json.write_text(json.dumps({**facts, "shares": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
