"""Options shared by several commands."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

LabelColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The CSV's column to predict.", show_default=False),
]
Units: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=UNIT",
        help="What a column's numbers are measured in, as in dose=mg; may be given again.",
        show_default=False,
    ),
]
"""Read by `units.read_units`."""

LeaderSteps: TypeAlias = Annotated[
    int, typer.Option(help="Steps a round towards retraining and accuracy.")
]
FollowerSteps: TypeAlias = Annotated[int, typer.Option(help="Steps a round against the attack.")]
GameBatch: TypeAlias = Annotated[int, typer.Option(help="Rows a step of the leader.")]
GameRate: TypeAlias = Annotated[float, typer.Option(help="Learning rate of both players.")]

Epochs: TypeAlias = Annotated[int, typer.Option(help="Of training from scratch.")]
BatchSize: TypeAlias = Annotated[int, typer.Option(help="Rows a step of training from scratch.")]
LearningRate: TypeAlias = Annotated[
    float, typer.Option(help="Learning rate of training from scratch.")
]
WeightDecay: TypeAlias = Annotated[
    float, typer.Option(help="Added to the gradient, times each weight and bias.")
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Of everything random.")]

Cores: TypeAlias = Annotated[
    int | None, typer.Option(help="Cores to use at most.", show_default="all", min=1)
]
CounterExampleSeed: TypeAlias = Annotated[
    int, typer.Option(help="Of the search for counter-examples.")
]
