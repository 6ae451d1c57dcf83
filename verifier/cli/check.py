"""``leaveout check``: prove a certificate again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["check"]


def check(
    certificate: Annotated[
        Path, typer.Argument(help="What verify --certificate wrote.", show_default=False)
    ],
    network: Annotated[
        list[Path] | None,
        typer.Option(
            help="A network, if it is not where it was; it must be the same file. Of several, give "
            "all.",
            show_default=False,
        ),
    ] = None,
    family: Annotated[
        list[Path] | None,
        typer.Option(
            help="A family, if it is not where it was; it must be the same. Of several, give all.",
            show_default=False,
        ),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Another file that is not where it was, such as ballots; or a folder that the "
            "certificate may name files of, beside its own. May be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Prove again, by an independent program, what a certificate claims.

    Networks and family are read anew. Nothing of the search is used: every region, bound and
    multiplier is computed or checked here, with rounding accounted for. What is taken on trust is
    the reading of ONNX and family files, numpy, and that the runtime evaluates in float32.

    For example: leaveout verify idp.spec --certificate idp.cert, then leaveout check idp.cert

    Exit status: 0 everything is proved, 1 something is not (one line names the first part of the
    proof that fails), 2 a file is missing or cannot be read.
    """
    from rich.console import Console
    from rich.status import Status

    from leaveout.verifier.checker import check as run
    from leaveout.verifier.cli.result_table import render_checked
    from leaveout.verifier.cli.target import reader_may_leave

    status = Console(stderr=True)
    live = Status("loading", console=status) if status.is_terminal else None

    def report(name: str, label: int | None, done: int, total: int) -> None:
        if live is not None:
            what = name if label is None else f"{name}, label {label}"
            live.update(f"{what}: {done:,} of {total:,} nodes")

    if live is not None:
        live.start()
    try:
        found = run(certificate, network=network, family=family, files=files, progress=report)
    finally:
        if live is not None:
            live.stop()
    console = Console()
    with console.capture() as table:
        render_checked(found, console)
    with reader_may_leave():
        sys.stdout.write(table.get())
    raise typer.Exit(0)
