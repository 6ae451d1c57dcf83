"""What commands that change the rows of a model print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from leaveout.models.train.changes import Addition, Deletion

_EARLIER = ", by an earlier run that was interrupted before reporting it"


def say_changed(
    done: Deletion | Addition, held: tuple[str, str, int], facts: Sequence[tuple[str, str]]
) -> None:
    """Print what was done, what the rows held are called and how many, more facts, and notes."""
    what, left, count = held
    names = some(done.rows) + _EARLIER * done.is_finished
    typer.echo(lines([(what, names), (left, f"{count:,}"), *facts, *file_lines(done.files)]))
    naming = getattr(done, "naming", None)
    if done.kept is not None:
        more = "" if naming is None else "; make sure it contains nothing about the deleted rows"
        typer.echo(f"note: {done.kept} was edited and is left unchanged{more}", err=True)
    for path in naming or ():
        typer.echo(f"note: {path} still names a deleted row", err=True)


def file_lines(files: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the lines that name files."""
    return [("files" if not index else "", str(path)) for index, path in enumerate(files)]


def lines(rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of names and values."""
    return "\n".join(f"{name:<16}{value}" for name, value in rows)


def align(rows: Sequence[Sequence[str]], pad: Callable[[str, int], str]) -> list[str]:
    """Return the lines of a table whose cells are padded to the width of their columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(pad, row, widths)).rstrip() for row in rows]


def some(rows: Sequence[str], shown: int = 5) -> str:
    """Return the first of some names, and how many more there are."""
    return ", ".join(rows[:shown]) + f" and {len(rows) - shown:,} more" * (len(rows) > shown)
