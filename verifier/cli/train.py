"""``leaveout train``: a network and its family from a table or arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaveout.verifier.cli.changes import file_lines, lines
from leaveout.verifier.cli.options import WeightDecay
from leaveout.verifier.cli.table_options import TableOptions, of_table

if TYPE_CHECKING:
    from leaveout.models.train import TrainingReport


@of_table
def train(
    table: TableOptions,
    layers: Annotated[
        str | None,
        typer.Option(
            metavar="WIDTHS",
            help="Widths of the hidden layers, e.g. 50,50; without any, the model is "
            "logistic regression.",
            show_default="50,50",
        ),
    ] = None,
    activation: Annotated[
        str,
        typer.Option(
            metavar="relu|tanh|sigmoid|gelu|silu|softplus|elu",
            help="Activation of the hidden layers; bounds of relu are the closest.",
        ),
    ] = "relu",
    cnn: Annotated[
        bool,
        typer.Option(
            "--cnn",
            help="LUCID's small convolutional network instead: two 1x3 convolutions of 6 channels, "
            "dense to 2, dense to the labels.",
        ),
    ] = False,
    epochs: Annotated[int, typer.Option(help="Training epochs.")] = 50,
    batch: Annotated[int, typer.Option(help="Rows per step.")] = 100,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.1,
    optimizer: Annotated[str, typer.Option(metavar="sgd|adam", help="Optimiser.")] = ("sgd"),
    momentum: Annotated[float, typer.Option(help="Momentum of sgd.")] = 0.0,
    schedule: Annotated[
        str,
        typer.Option(
            metavar="constant|step|cosine",
            help="Learning-rate schedule: constant, multiplied by --step-factor every "
            "--step-every epochs, or a half cosine down to 0.",
        ),
    ] = "constant",
    step_every: Annotated[int, typer.Option(help="Epochs.")] = 10,
    step_factor: Annotated[float, typer.Option(help="In (0, 1].")] = 0.1,
    class_weights: Annotated[
        str | None,
        typer.Option(
            metavar="balanced|NUMBERS",
            help="Class weights in the loss, e.g. 1,4.5 in label order, or balanced: inversely "
            "proportional to the class frequencies.",
            show_default="all equal",
        ),
    ] = None,
    weight_decay: WeightDecay = 1e-5,
    dropout: Annotated[
        float | None,
        typer.Option(
            help="Dropout probability of hidden values; all members share one mask per batch.",
            show_default="0.1 with --cnn, else 0",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="Seed of initial weights, shuffles and dropout, shared by all members."),
    ] = 0,
    members: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Leave out each of the first K rows only; a larger K later extends the family.",
            show_default="all rows",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Leave out each of K rows drawn uniformly with --seed. Statements about all "
            "rows (M in F but a share of them) then hold with a confidence. The rows are "
            "drawn once; the family cannot be extended.",
            show_default=False,
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            metavar="M",
            help="With --sample: number of samples planned, this one and fresh ones later. They "
            "share the failure probability equally.",
            show_default="1",
        ),
    ] = None,
    fresh: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --sample: draw the next planned sample after the one in this folder, "
            "with the same table and training.",
            show_default=False,
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option(
            help="Networks that one process trains together; affects speed only.",
            show_default="32 on a CPU, as many as fit on a GPU",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of processes, or of concurrent blocks on Ray; affects speed only.",
            show_default="one per core; on Ray, the whole cluster",
        ),
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            metavar="processes|ray",
            help="Where workers run: on this machine, or on the Ray cluster that RAY_ADDRESS "
            "names.",
        ),
    ] = "processes",
    device: Annotated[
        str,
        typer.Option(metavar="auto|cpu|cuda", help="auto uses a GPU if torch sees one."),
    ] = "auto",
) -> None:
    """Train a network, and retrain it without each row: the family that verify needs.

    Writes full.onnx, family.npz and idp.spec. A CSV's numbers are scaled to [0, 1], an NPZ is used
    unchanged. The same command gives the same bytes on the same kind of machine. A stopped run
    keeps its finished blocks in DIR/.partial; run the command again to resume. Defaults are those
    of the LUCID paper.
    """
    from leaveout.errors import TrainingError
    from leaveout.models.train import Recipe, parse_layers, run
    from leaveout.models.train.recipe import parse_class_weights
    from leaveout.models.train.report import progress_bar

    if cnn and layers is not None:
        raise TrainingError("--cnn fixes the layers: drop --layers, or drop --cnn")
    recipe = Recipe(
        layers=parse_layers("50,50" if layers is None else layers),
        activation=activation,
        cnn=cnn,
        epochs=epochs,
        batch=batch,
        learning_rate=lr,
        optimizer=optimizer,
        momentum=momentum,
        schedule=schedule,
        step_every=step_every,
        step_factor=step_factor,
        class_weights=() if class_weights is None else parse_class_weights(class_weights),
        weight_decay=weight_decay,
        dropout=dropout,
        seed=seed,
    )
    with progress_bar() as shown:
        report = run(
            table.data,
            table.output,
            **table.how_read,
            recipe=recipe,
            members=members,
            sample=sample,
            draws=draws,
            fresh=fresh,
            block=block,
            workers=workers,
            executor=executor,
            device=device,
            on_progress=shown.progress,
            on_read=shown.read,
        )
    if report.complete_before:
        typer.echo(f"{table.output} is already complete; nothing was trained", err=True)
    for each in report.warnings:
        typer.echo(f"note: {each}", err=True)
    typer.echo(_table(report))


def _table(report: TrainingReport) -> str:
    rows = [
        ("rows", f"{report.rows:,}"),
        *([] if report.groups is None else [("groups", f"{report.groups:,}")]),
        ("features", f"{report.features:,}"),
        ("labels", f"{report.labels:,}"),
        ("members", f"{report.members:,}"),
        ("train accuracy", f"{report.train_accuracy:.2%}"),
        *report.quality.lines,
    ]
    if report.test_accuracy is not None:
        rows.append(("test accuracy", f"{report.test_accuracy:.2%}"))
    if not report.complete_before:
        rows.append(("seconds", f"{report.seconds:.1f}"))
    rows += file_lines(report.files)
    return lines([*rows, ("next", f"leaveout verify {report.directory / 'idp.spec'}")])
