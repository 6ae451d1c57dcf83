"""Options shared by several commands."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
import typer

from leaveout.errors import SpecError, TrainingError
from leaveout.files import RESULTS, read_whole

if TYPE_CHECKING:
    from leaveout.models.reading import Reading
    from leaveout.verifier.report import Report

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


@dataclass(frozen=True)
class JsonTarget:
    """A file, standard output, or no output."""

    path: Path | None = None
    is_stdout: bool = False

    @staticmethod
    def open(text: str | None) -> JsonTarget:
        """Read the value of ``--json``."""
        if text is None:
            return JsonTarget()
        if text == "-":
            return JsonTarget(is_stdout=True)
        path = Path(text)
        try:
            _refuse_unusable(path)
            # Errors at the end of a run must show now: an invalid name, no permission, no space.
            with tempfile.TemporaryFile(prefix=".leaveout-", dir=path.resolve().parent):
                pass
        except OSError as error:
            raise SpecError(f"--json {path}: cannot write: {error.strerror}") from None
        return JsonTarget(path)

    def write(self, report: Report) -> None:
        """Write the report atomically."""
        if self.is_stdout:
            sys.stdout.write(report.to_json().decode())
            sys.stdout.flush()
        elif self.path is not None:
            try:
                from leaveout.verifier.report import write_json

                write_json(report, self.path)
            except OSError as error:
                raise SpecError(f"--json {self.path}: cannot write: {error.strerror}") from None


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Tolerate a closed standard output; the exit status still reports the verdicts."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise Python would try to flush into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse_unusable(path: Path) -> None:
    """Raise on folders, devices and files that are not earlier results."""
    if path.is_dir():
        raise SpecError(f"--json {path}: is a folder; name a file")
    if not path.resolve().parent.is_dir():
        raise SpecError(f"--json {path}: no such folder; create it first")
    if not path.exists():
        return
    if not path.is_file():
        raise SpecError(f"--json {path}: not a regular file; '-' writes to standard output")
    content = read_whole(path, RESULTS) if path.stat().st_size < RESULTS else b"{"
    try:
        known = not content or {"leaveout", "results"} <= set(msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        known = False
    if not known:
        raise SpecError(
            f"--json {path}: exists and is not a results file; choose another name, or remove it"
        )


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
