"""Options shared by several commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
import typer

from leaveout.errors import LeaveoutError, SpecError, TrainingError
from leaveout.files import RESULTS, read_whole
from leaveout.verifier.output_file import OutputFile

if TYPE_CHECKING:
    from leaveout.models.reading import Reading

LabelColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="CSV column to predict.", show_default=False),
]
Identity: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="CSV column with row names, by which rows are called; not a feature.",
        show_default="rows are numbered from 0",
    ),
]
TestShare: TypeAlias = Annotated[
    float,
    typer.Option(
        help="Share of the rows held out from a second model, to measure accuracy; 0 for none. "
        "The saved one is trained on all rows.",
    ),
]
Units: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=UNIT",
        help="Unit of a column, e.g. dose=mg. May be repeated.",
        show_default=False,
    ),
]
"""Read by `read_units`."""

Separator: TypeAlias = Annotated[
    str,
    typer.Option(
        "--sep",
        metavar="CHAR",
        help="CSV: what separates cells, e.g. ';' or tab.",
        show_default="a comma, or what the header has instead",
    ),
]
Decimal: TypeAlias = Annotated[
    str, typer.Option(metavar=".|,", help="CSV: decimal separator of numbers.")
]
Charset: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="CSV: character set, e.g. cp1252.", show_default="UTF-8, or UTF-16"
    ),
]
Drop: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN", help="CSV column to leave out. May be repeated.", show_default=False
    ),
]
Missing: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="drop|mark|keep",
        help="CSV: what becomes of missing values. drop leaves their rows out; mark makes a "
        "missing word a category, and adds a column that says which numbers are missing; keep, "
        "for boosted trees, leaves numbers missing. COLUMN=drop is for one column. May be "
        "repeated.",
        show_default="refused",
    ),
]
Group: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="COLUMN",
        help="CSV column, such as patient, whose equal cells name rows that belong together: they "
        "leave together, and are in one part of a vote.",
        show_default="each row leaves alone",
    ),
]
"""The six are read by `read_reading`."""

_SEPARATORS = {"tab": "\t", r"\t": "\t"}


def read_reading(
    separator: str,
    decimal: str,
    charset: str,
    drop: Sequence[str] | None,
    missing: Sequence[str] | None = None,
    group: str = "",
) -> Reading:
    """Return how a CSV is to be read."""
    from leaveout.models.reading import Reading

    return Reading(
        _SEPARATORS.get(separator, separator),
        decimal,
        charset,
        tuple(name.strip() for name in drop or ()),
        group.strip(),
        tuple(text.strip() for text in missing or ()),
    )


LeaderSteps: TypeAlias = Annotated[
    int, typer.Option(help="Steps per round towards retraining and accuracy.")
]
FollowerSteps: TypeAlias = Annotated[int, typer.Option(help="Steps per round against the attack.")]
GameBatch: TypeAlias = Annotated[int, typer.Option(help="Batch size of the leader.")]
GameRate: TypeAlias = Annotated[float, typer.Option(help="Learning rate of both players.")]

Epochs: TypeAlias = Annotated[int, typer.Option(help="Epochs of training from scratch.")]
BatchSize: TypeAlias = Annotated[int, typer.Option(help="Batch size of training from scratch.")]
LearningRate: TypeAlias = Annotated[
    float, typer.Option(help="Learning rate of training from scratch.")
]
WeightDecay: TypeAlias = Annotated[
    float, typer.Option(help="Weight decay, applied to weights and biases.")
]
Adopt: TypeAlias = Annotated[
    bool, typer.Option("--adopt", help="Trust bounds.npz though another machine proved it.")
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Seed of all randomness.")]

Cores: TypeAlias = Annotated[
    int | None, typer.Option(help="Cores to use at most.", show_default="all", min=1)
]
CounterExampleSeed: TypeAlias = Annotated[
    int, typer.Option(help="Seed of the search for counter-examples.")
]


def read_units(given: Sequence[str]) -> dict[str, str]:
    """Return the units of numbers, by column."""
    units = {}
    for text in given:
        column, separator, unit = text.rpartition("=")
        if not (separator and column.strip() and unit.strip()):
            raise TrainingError(f"--unit {text}: expected COLUMN=UNIT, e.g. --unit dose=mg")
        units[column.strip()] = unit.strip()
    return units


def open_json(name: str | None) -> OutputFile | None:
    """Return the file of ``--json``, which may be one of earlier results; None if there is none."""
    if name is None:
        return None
    return OutputFile.open(
        "--json", name, stdout=True, kind="a results file", is_one=_holds_results
    )


def _holds_results(path: Path) -> bool:
    content = read_whole(path, RESULTS) if path.stat().st_size < RESULTS else b"{"
    try:
        return not content or {"leaveout", "results"} <= set(msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        return False


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Tolerate a closed standard output; the exit status still reports the verdicts."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise Python would try to flush into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def read_settings(texts: Sequence[str]) -> dict[str, str]:
    """Return the values of ``--set name=value`` by name."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise SpecError(f"--set {text}: expected NAME=VALUE, e.g. --set eps=0.2")
        if name in values:
            raise SpecError(f"--set {text}: '{name}' is set twice")
        values[name] = value
    return values


def refuse_claim(error: type[LeaveoutError], **given: float | None) -> None:
    """Raise if alpha, beta or gamma of a claim is out of range."""
    for name, value in given.items():
        most = sys.float_info.max if name == "alpha" else 1.0
        if value is not None and not 0 <= value <= most:
            kind = "a number of at least 0" if name == "alpha" else "a probability"
            raise error(f"--{name} {value:g}: expected {kind}")
