"""``leaveout unlearn``: a network that forgets rows, by a game of two players."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaveout.verifier.cli.bar import progress

if TYPE_CHECKING:
    from leaveout.models.unlearning import UnlearningReport

__all__ = ["unlearn"]


def unlearn(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL.onnx", help="The trained network.", show_default=False),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="NPZ",
            help="What it was trained on, with test rows: an NPZ with X_train, y_train, X_test and "
            "y_test.",
            show_default=False,
        ),
    ],
    forget: Annotated[
        str,
        typer.Option(
            metavar="ROWS",
            help="What to forget: a CSV of row numbers counted from 0, the numbers themselves as "
            "in 3,17, or a share as in 0.05, drawn by the seed.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Where unlearned.onnx and unlearning.json go.",
            show_default=False,
        ),
    ],
    rounds: Annotated[int, typer.Option(help="Rounds of the game.")] = 100,
    leader_steps: Annotated[
        int, typer.Option(help="Steps a round towards retraining and accuracy.")
    ] = 10,
    follower_steps: Annotated[int, typer.Option(help="Steps a round against the attack.")] = 1,
    game_batch: Annotated[int, typer.Option(help="Rows a step of the leader.")] = 500,
    game_lr: Annotated[float, typer.Option(help="Learning rate of both players.")] = 0.05,
    target: Annotated[
        float, typer.Option(help="What the follower wants the attack to answer.")
    ] = 0.5,
    share: Annotated[
        float, typer.Option(help="Of the kept rows, to train the alternative model on.")
    ] = 0.2,
    third: Annotated[
        float,
        typer.Option(help="Share of the test rows for the game; the others judge its result."),
    ] = 0.5,
    retrain: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="Also train K networks from scratch without the rows, as retrained_SEED.onnx.",
        ),
    ] = 0,
    epochs: Annotated[int, typer.Option(help="Of training from scratch.")] = 50,
    batch: Annotated[int, typer.Option(help="Rows a step of training from scratch.")] = 100,
    lr: Annotated[float, typer.Option(help="Learning rate of training from scratch.")] = 0.1,
    weight_decay: Annotated[
        float, typer.Option(help="Added to the gradient, times each weight and bias.")
    ] = 1e-5,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
) -> None:
    """Make a network forget rows without retraining it (approximately; see audit).

    Two players move its weights in turn: the leader towards a small model retrained without the
    rows, the follower against an attack that looks for them. Nothing is proved of the result:
    measure it with "leaveout audit". Give --epochs, --batch and --lr as the network was trained.
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
            game=game,
            schedule=schedule,
            third=third,
            retrained=retrain,
            seed=seed,
            on_round=on_round,
        )
    if report.record.labels_lost:
        names = ", ".join(report.record.labels_lost)
        typer.echo(f"note: no row is left with the label {names}", err=True)
    typer.echo(_table(report))


def _table(report: UnlearningReport) -> str:
    record = report.record
    rows = [
        ("forgotten", f"{len(record.forgotten):,} rows"),
        ("rounds", f"{record.game.rounds:,}"),
        ("leader", _first_and_last(record.curves.leader)),
        ("follower", _first_and_last(record.curves.follower)),
        ("test accuracy", f"{record.original.test:.2%} -> {record.unlearned.test:.2%}"),
        ("on forgotten", f"{record.original.forgotten:.2%} -> {record.unlearned.forgotten:.2%}"),
        ("seconds", f"{record.seconds:.1f}"),
    ]
    if record.retrained:
        rows.append(("retraining", f"{record.retrain_seconds:.1f} seconds each"))
    rows += [("files" if not index else "", str(path)) for index, path in enumerate(report.files)]
    return "\n".join(f"{name:<16}{value}" for name, value in rows)


def _first_and_last(curve: tuple[float, ...]) -> str:
    return f"{curve[0]:.4g} -> {curve[-1]:.4g}"
