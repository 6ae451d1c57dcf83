"""The options of commands that train on a table."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from leaveout.verifier.cli.options import (
    Charset,
    Decimal,
    Drop,
    Group,
    Identity,
    LabelColumn,
    Missing,
    Separator,
    Units,
    read_reading,
    read_units,
)


@dataclass(frozen=True)
class TableOptions:
    """The table that a model is trained on, how it is read, and where the model goes."""

    data: Annotated[
        Path,
        typer.Argument(
            metavar="CSV|NPZ",
            help="A CSV with a header line, whose words are one-hot encoded, or an NPZ with "
            "X_train and y_train (and X_test, y_test to report test accuracy) or X and y.",
            show_default=False,
        ),
    ]
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Folder for the model, what it needs besides, and a specification.",
            show_default=False,
        ),
    ]
    label: LabelColumn = None
    identity: Identity = None
    unit: Units = None
    sep: Separator = ""
    decimal: Decimal = "."
    charset: Charset = ""
    drop: Drop = None
    missing: Missing = None
    group: Group = ""

    @property
    def how_read(self) -> dict[str, Any]:
        """How it is read, as the functions that train take it."""
        return {
            "label": self.label,
            "identity": self.identity,
            "units": read_units(self.unit or []),
            "reading": read_reading(
                self.sep, self.decimal, self.charset, self.drop, self.missing, self.group
            ),
        }


def of_table(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose first argument, a table, is made of the options here."""
    first, *own = inspect.signature(command, eval_str=True).parameters.values()
    options = inspect.signature(TableOptions, eval_str=True).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        table = TableOptions(**{name: given.pop(name) for name in options})
        command(table, **given)

    every = [each.replace(kind=first.KEYWORD_ONLY) for each in (*options.values(), *own)]
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in every}
    return run
