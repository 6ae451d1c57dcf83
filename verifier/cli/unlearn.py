"""``leaveout unlearn``: unlearning of rows by a two-player game."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaveout.verifier.cli.changes import file_lines, lines
from leaveout.verifier.cli.options import (
    BatchSize,
    Epochs,
    FollowerSteps,
    GameBatch,
    GameRate,
    LeaderSteps,
    LearningRate,
    Seed,
    WeightDecay,
)
from leaveout.verifier.cli.progress import progress

if TYPE_CHECKING:
    from leaveout.models.unlearning import Record, UnlearningReport


_FAR = 0.1
"""Typical deviation in accuracy of networks retrained by MODEL's recipe."""


def unlearn(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL.onnx", help="The trained network.", show_default=False),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="NPZ",
            help="Its training data with test rows: an NPZ with X_train, y_train, X_test and "
            "y_test.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Folder for unlearned.onnx and unlearning.json.",
            show_default=False,
        ),
    ],
    forget: Annotated[
        str | None,
        typer.Option(
            metavar="ROWS",
            help="Rows to forget: a CSV of row numbers counted from 0, the numbers themselves "
            "(3,17), or a share (0.05) drawn with the seed.",
            show_default=False,
        ),
    ] = None,
    forget_class: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Forget all rows of this label instead. The network keeps a score for the "
            "label; networks retrained with --retrain show what that score is worth.",
            show_default=False,
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Rounds of the unlearning game.")] = 100,
    leader_steps: LeaderSteps = 10,
    follower_steps: FollowerSteps = 1,
    game_batch: GameBatch = 500,
    game_lr: GameRate = 0.05,
    target: Annotated[
        float, typer.Option(help="The answer that the follower pushes the attack towards.")
    ] = 0.5,
    share: Annotated[
        float, typer.Option(help="Share of the kept rows that trains the alternative model.")
    ] = 0.2,
    third: Annotated[
        float,
        typer.Option(help="Share of the test rows used in the game; the rest evaluate the result."),
    ] = 0.5,
    retrain: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="Also train K networks from scratch without the rows, saved as "
            "retrained_SEED.onnx.",
        ),
    ] = 0,
    epochs: Epochs = 50,
    batch: BatchSize = 100,
    lr: LearningRate = 0.1,
    weight_decay: WeightDecay = 1e-5,
    seed: Seed = 0,
) -> None:
    """Make a network forget rows without retraining it (approximate; see audit).

    Two players update its weights in turn: the leader moves it towards a small model retrained
    without the rows, the follower against an attack that looks for them. Nothing is proved about
    the result: measure it with "leaveout audit". Pass the --epochs, --batch and --lr that trained
    the network.
    """
    from leaveout.models.unlearning import Game, Schedule, run

    game = Game(
        rounds=rounds,
        leader_steps=leader_steps,
        follower_steps=follower_steps,
        batch=game_batch,
        learning_rate=game_lr,
        target=target,
        share=share,
    )
    schedule = Schedule(epochs=epochs, batch=batch, learning_rate=lr, weight_decay=weight_decay)
    with progress("unlearning", "rounds", rounds) as on_round:
        report = run(
            model,
            data,
            output,
            forget=forget,
            forget_class=forget_class,
            game=game,
            schedule=schedule,
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
