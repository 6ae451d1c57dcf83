"""``leaveout train``: a network and its family from a table or arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from leaveout.verifier.cli.options import WEIGHT_DECAY, TableOptions
from leaveout.verifier.cli.output import file_lines, lines, say_notes
from leaveout.verifier.cli.parameters import flag, option, with_records

if TYPE_CHECKING:
    from leaveout.models.train import TrainingReport


@with_records
def train(
    table: TableOptions,
    layers: str | None = option(
        "Widths of the hidden layers, e.g. 50,50; without any, the model is logistic regression.",
        metavar="WIDTHS",
        shown="50,50",
    ),
    activation: str = option(
        "Activation of the hidden layers; bounds of relu are the closest.",
        default="relu",
        metavar="relu|tanh|sigmoid|gelu|silu|softplus|elu",
    ),
    cnn: bool = flag(
        "--cnn",
        "LUCID's small convolutional network instead: two 1x3 convolutions of 6 channels, dense "
        "to 2, dense to the labels.",
    ),
    epochs: int = option("Training epochs.", default=50),
    batch: int = option("Rows per step.", default=100),
    lr: float = option("Learning rate.", default=0.1),
    optimizer: str = option("Optimiser.", default="sgd", metavar="sgd|adam"),
    momentum: float = option("Momentum of sgd.", default=0.0),
    schedule: str = option(
        "Learning-rate schedule: constant, multiplied by --step-factor every --step-every epochs, "
        "or a half cosine down to 0.",
        default="constant",
        metavar="constant|step|cosine",
    ),
    step_every: int = option("Epochs.", default=10),
    step_factor: float = option("In (0, 1].", default=0.1),
    class_weights: str | None = option(
        "Class weights in the loss, e.g. 1,4.5 in label order, or balanced: inversely "
        "proportional to the class frequencies.",
        metavar="balanced|NUMBERS",
        shown="all equal",
    ),
    weight_decay: float = WEIGHT_DECAY,
    dropout: float | None = option(
        "Dropout probability of hidden values; all members share one mask per batch.",
        shown="0.1 with --cnn, else 0",
    ),
    seed: int = option(
        "Seed of initial weights, shuffles and dropout, shared by all members.", default=0
    ),
    members: int | None = option(
        "Leave out each of the first K rows only; a larger K later extends the family.",
        metavar="K",
        shown="all rows",
    ),
    sample: int | None = option(
        "Leave out each of K rows drawn uniformly with --seed. Statements about all rows (M in F "
        "but a share of them) then hold with a confidence. The rows are drawn once; the family "
        "cannot be extended.",
        metavar="K",
    ),
    draws: int | None = option(
        "With --sample: number of samples planned, this one and fresh ones later. They share the "
        "failure probability equally.",
        metavar="M",
        shown="1",
    ),
    fresh: Path | None = option(
        "With --sample: draw the next planned sample after the one in this folder, with the same "
        "table and training.",
        metavar="DIR",
    ),
    block: int | None = option(
        "Networks that one process trains together; affects speed only.",
        shown="32 on a CPU, as many as fit on a GPU",
    ),
    workers: int | None = option(
        "Number of processes, or of concurrent blocks on Ray; affects speed only.",
        shown="one per core; on Ray, the whole cluster",
    ),
    executor: str = option(
        "Where workers run: on this machine, or on the Ray cluster that RAY_ADDRESS names.",
        default="processes",
        metavar="processes|ray",
    ),
    device: str = option(
        "auto uses a GPU if torch sees one.", default="auto", metavar="auto|cpu|cuda"
    ),
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
    say_notes(report.warnings)
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
