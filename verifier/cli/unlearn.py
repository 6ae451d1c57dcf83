"""``leaveout unlearn``: unlearning of rows by a two-player game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from leaveout.verifier.cli.options import SEED, WEIGHT_DECAY
from leaveout.verifier.cli.output import file_lines, lines
from leaveout.verifier.cli.parameters import Options, argument, option, with_records
from leaveout.verifier.cli.progress import progress

if TYPE_CHECKING:
    from leaveout.models.unlearning import Game, Record, Schedule, UnlearningReport


_FAR = 0.1  # typical deviation in accuracy of networks retrained by MODEL's recipe


@dataclass(frozen=True)
class GameOptions(Options):
    """How the two players of an unlearning game move."""

    rounds: int = option("Rounds of the unlearning game.", default=100)
    leader_steps: int = option("Steps per round towards retraining and accuracy.", default=10)
    follower_steps: int = option("Steps per round against the attack.", default=1)
    game_batch: int = option("Batch size of the leader.", default=500)
    game_lr: float = option("Learning rate of both players.", default=0.05)

    def game(self, **more: Any) -> Game:
        """Return the game, with further settings."""
        from leaveout.models.unlearning import Game

        return Game(
            rounds=self.rounds,
            leader_steps=self.leader_steps,
            follower_steps=self.follower_steps,
            batch=self.game_batch,
            learning_rate=self.game_lr,
            **more,
        )


@dataclass(frozen=True)
class ScheduleOptions(Options):
    """How networks are trained from scratch."""

    epochs: int = option("Epochs of training from scratch.", default=50)
    batch: int = option("Batch size of training from scratch.", default=100)
    lr: float = option("Learning rate of training from scratch.", default=0.1)
    weight_decay: float = WEIGHT_DECAY

    @property
    def schedule(self) -> Schedule:
        """The same as the functions that train take it."""
        from leaveout.models.unlearning import Schedule

        return Schedule(
            epochs=self.epochs,
            batch=self.batch,
            learning_rate=self.lr,
            weight_decay=self.weight_decay,
        )


@with_records
def unlearn(
    *,
    model: Path = argument("The trained network.", metavar="MODEL.onnx"),
    data: Path = argument(
        "Its training data with test rows: an NPZ with X_train, y_train, X_test and y_test.",
        metavar="NPZ",
    ),
    output: Path = option(
        "Folder for unlearned.onnx and unlearning.json.",
        "-o",
        "--output",
        default=...,
        metavar="DIR",
    ),
    forget: str | None = option(
        "Rows to forget: a CSV of row numbers counted from 0, the numbers themselves (3,17), or a "
        "share (0.05) drawn with the seed.",
        metavar="ROWS",
    ),
    forget_class: str | None = option(
        "Forget all rows of this label instead. The network keeps a score for the label; networks "
        "retrained with --retrain show what that score is worth.",
        metavar="LABEL",
    ),
    players: GameOptions,
    target: float = option("The answer that the follower pushes the attack towards.", default=0.5),
    share: float = option("Share of the kept rows that trains the alternative model.", default=0.2),
    third: float = option(
        "Share of the test rows used in the game; the rest evaluate the result.", default=0.5
    ),
    retrain: int = option(
        "Also train K networks from scratch without the rows, saved as retrained_SEED.onnx.",
        default=0,
        metavar="K",
    ),
    training: ScheduleOptions,
    seed: int = SEED,
) -> None:
    """Make a network forget rows without retraining it (approximate; see audit).

    Two players update its weights in turn: the leader moves it towards a small model retrained
    without the rows, the follower against an attack that looks for them. Nothing is proved about
    the result: measure it with "leaveout audit". Pass the --epochs, --batch and --lr that trained
    the network.
    """
    from leaveout.models.unlearning import run

    with progress("unlearning", "rounds", players.rounds) as on_round:
        report = run(
            model,
            data,
            output,
            forget=forget,
            forget_class=forget_class,
            game=players.game(target=target, share=share),
            schedule=training.schedule,
            third=third,
            retrained=retrain,
            seed=seed,
            on_round=on_round,
        )
    if report.record.labels_lost:
        names = ", ".join(report.record.labels_lost)
        typer.echo(f"note: no row with the label {names} is left", err=True)
    if report.record.undrawn:
        typer.echo(undrawn_note(report.record.undrawn), err=True)
    if note := _other_recipe(report.record):
        typer.echo(note, err=True)
    typer.echo(_table(report))


def _other_recipe(record: Record) -> str:
    """Return a note if retrained networks are far from the model; else empty."""
    of = "other_labels" if record.labels_lost else "test"
    before = getattr(record.original, of)
    anew = [getattr(one, of) for one in record.retrained_accuracies]
    if before is None or not anew or sum(anew) / len(anew) >= before - _FAR:
        return ""
    return (
        f"note: retrained networks are correct on {sum(anew) / len(anew):.2%} of the other rows, "
        f"MODEL on {before:.2%}, so they are not a fair baseline; pass the --epochs, --batch and "
        "--lr that trained MODEL"
    )


def undrawn_note(names: Sequence[str]) -> str:
    """Return a note on networks that were not retrained completely."""
    return (
        f"note: {', '.join(names)} in MODEL belong to no dense or convolutional layer; retrained "
        "networks start from MODEL's values there"
    )


def _table(report: UnlearningReport) -> str:
    record = report.record
    lost = ", ".join(record.labels_lost)
    rows = [
        ("forgotten", f"{len(record.forgotten):,} rows"),
        ("rounds", f"{record.game.rounds:,}"),
        ("leader", _first_and_last(record.curves.leader)),
        ("follower", _first_and_last(record.curves.follower)),
        ("test accuracy", _accuracies(record, "test")),
    ]
    if record.labels_lost:
        on = f"on label{'s' * (len(record.labels_lost) > 1)} {lost}"
        rows.append((on, f"{_accuracies(record, 'lost_labels')} of the test rows"))
        rows.append(("on the others", _accuracies(record, "other_labels")))
    rows += [
        ("on forgotten", _accuracies(record, "forgotten")),
        ("seconds", f"{record.seconds:.1f}"),
    ]
    if record.retrained:
        rows.append(("retraining", f"{record.retrain_seconds:.1f} seconds each"))
    return lines([*rows, *file_lines(report.files)])


def _accuracies(record: Record, of: str) -> str:
    before, after = getattr(record.original, of), getattr(record.unlearned, of)
    if before is None or after is None:
        return "no test rows to evaluate on"
    others = [getattr(one, of) for one in record.retrained_accuracies]
    beside = f"; retrained {sum(others) / len(others):.2%}" if others else ""
    return f"{before:.2%} -> {after:.2%}{beside}"


def _first_and_last(curve: tuple[float, ...]) -> str:
    return f"{curve[0]:.4g} -> {curve[-1]:.4g}"
