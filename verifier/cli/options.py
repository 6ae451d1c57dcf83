"""Options shared by several commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from leaveout.errors import LeaveoutError, SpecError, TrainingError
from leaveout.files import RESULTS, read_whole
from leaveout.verifier.cli.parameters import Options, argument, flag, option
from leaveout.verifier.output_file import OutputFile

if TYPE_CHECKING:
    from leaveout.models.reading import Reading

LABEL = option("CSV column to predict.", metavar="COLUMN")
TEST_SHARE = option(
    "Share of the rows held out from a second model, to measure accuracy; 0 for none. The saved "
    "one is trained on all rows.",
    default=0.2,
)
GROUP = option(
    "CSV column, such as patient, whose equal cells name rows that belong together: they leave "
    "together, and are in one part of a vote.",
    default="",
    metavar="COLUMN",
    shown="each row leaves alone",
)
WEIGHT_DECAY = option("Weight decay, applied to weights and biases.", default=1e-5)
ADOPT = flag("--adopt", "Trust bounds.npz though another machine proved it.")
SEED = option("Seed of all randomness.", default=0)
CORES = option("Cores to use at most.", shown="all", min=1)
COUNTER_EXAMPLE_SEED = option("Seed of the search for counter-examples.", default=0)

_SEPARATORS = {"tab": "\t", r"\t": "\t"}


@dataclass(frozen=True)
class CsvOptions(Options):
    """How a CSV is read."""

    sep: str = option(
        "CSV: what separates cells, e.g. ';' or tab.",
        default="",
        metavar="CHAR",
        shown="a comma, or what the header has instead",
    )
    decimal: str = option("CSV: decimal separator of numbers.", default=".", metavar=".|,")
    charset: str = option(
        "CSV: character set, e.g. cp1252.", default="", metavar="NAME", shown="UTF-8, or UTF-16"
    )
    drop: list[str] | None = option("CSV column to leave out. May be repeated.", metavar="COLUMN")

    def to_reading(self, missing: Sequence[str] | None = None, group: str = "") -> Reading:
        """Return how it is read, with what becomes of missing values, and the column of groups."""
        from leaveout.models.reading import Reading

        return Reading(
            _SEPARATORS.get(self.sep, self.sep),
            self.decimal,
            self.charset,
            tuple(name.strip() for name in self.drop or ()),
            group.strip(),
            tuple(text.strip() for text in missing or ()),
        )


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """The table that a model is trained on, how it is read, and where the model goes."""

    data: Path = argument(
        "A CSV with a header line, whose words are one-hot encoded, or an NPZ with X_train and "
        "y_train (and X_test, y_test to report test accuracy) or X and y.",
        metavar="CSV|NPZ",
    )
    output: Path = option(
        "Folder for the model, what it needs besides, and a specification.",
        "-o",
        "--output",
        default=...,
        metavar="DIR",
    )
    label: str | None = LABEL
    identity: str | None = option(
        "CSV column with row names, by which rows are called; not a feature.",
        "--id",
        metavar="COLUMN",
        shown="rows are numbered from 0",
    )
    unit: list[str] | None = option(
        "Unit of a column, e.g. dose=mg. May be repeated.", metavar="COLUMN=UNIT"
    )
    csv: CsvOptions
    missing: list[str] | None = option(
        "CSV: what becomes of missing values. drop leaves their rows out; mark makes a missing "
        "word a category, and adds a column that says which numbers are missing; keep, for "
        "boosted trees, leaves numbers missing. COLUMN=drop is for one column. May be repeated.",
        metavar="drop|mark|keep",
        shown="refused",
    )
    group: str = GROUP

    @property
    def how_read(self) -> dict[str, Any]:
        """How it is read, as the functions that train take it."""
        return {
            "label": self.label,
            "identity": self.identity,
            "units": read_units(self.unit or []),
            "reading": self.csv.to_reading(self.missing, self.group),
        }


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
