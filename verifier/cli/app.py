"""The application: commands, and errors as one line."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import leaveout
from leaveout.errors import LeaveoutError
from leaveout.verifier.cli.solvers import solvers
from leaveout.verifier.cli.train import train
from leaveout.verifier.cli.verify import verify

__all__ = ["app", "main"]

_INTERRUPTED = 130

app = typer.Typer(
    name="leaveout",
    help="Prove what a trained model owes to any one training point.",
    epilog="Exit status: 0 all proved, 1 something refuted, 3 something unknown, 2 bad input.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"leaveout {leaveout.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Prove what a trained model owes to any one training point."""


app.command()(verify)
app.command()(train)
app.command()(solvers)


def main() -> None:
    """Run the command line; every error a user can cause is one line on stderr."""
    try:
        app()
    except LeaveoutError as error:
        sys.stderr.write(f"leaveout: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("leaveout: interrupted\n")
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
