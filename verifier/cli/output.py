"""What commands print: on standard output as long as it is read, and notes beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from leaveout.models.train.changes import Addition, Deletion

Part: TypeAlias = "str | Table"
"""What `write_parts` prints: a line, or a table."""

_EARLIER = ", by an earlier run that was interrupted before reporting it"


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Tolerate a closed standard output; the exit status still reports the verdicts."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise Python would try to flush into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_out(text: str) -> None:
    """Write to standard output, whose reader may have left."""
    with reader_may_leave():
        sys.stdout.write(text)


def write_parts(parts: Iterable[Part]) -> None:
    """Write lines and tables to standard output, as a terminal shows them."""
    from rich.console import Console

    console = Console()
    # Captured, because the console would set its own exit status on a closed pipe.
    with console.capture() as shown:
        print_parts(parts, console)
    write_out(shown.get())


def print_parts(parts: Iterable[Part], console: Console) -> None:
    """Print lines, none of them markup, and tables."""
    from rich.console import Group
    from rich.text import Text

    whole = (Text(each) if isinstance(each, str) else each for each in parts)
    console.print(Group(*whole), soft_wrap=True)


def text_table(names: Mapping[str, int], titles: Sequence[str], words: Container[str]) -> Table:
    """Return a table without rows: names that fold at a width, then numbers, or words."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, width in names.items():
        table.add_column(title, max_width=width, overflow="fold")
    for title in titles:
        table.add_column(title, justify="left" if title in words else "right", no_wrap=True)
    return table


def say_notes(notes: Iterable[str]) -> None:
    """Print notes on standard error."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)


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
        say_notes([f"{done.kept} was edited and is left unchanged{more}"])
    say_notes(f"{path} still names a deleted row" for path in naming or ())


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
