"""The application: commands, and errors as one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from leaveout.errors import LeaveoutError
from leaveout.exit_codes import ExitCode
from leaveout.verifier.cli.audit import audit
from leaveout.verifier.cli.check import check
from leaveout.verifier.cli.fmt import fmt
from leaveout.verifier.cli.functions import functions
from leaveout.verifier.cli.guard import guard
from leaveout.verifier.cli.partition import partition
from leaveout.verifier.cli.report import report
from leaveout.verifier.cli.solvers import solvers
from leaveout.verifier.cli.train import train
from leaveout.verifier.cli.unlearn import unlearn
from leaveout.verifier.cli.verify import verify
from leaveout.verifier.cli.vnnlib import vnnlib
from leaveout.verifier.cli.warm import warm
from leaveout.version import VERSION

__all__ = ["app", "run"]


app = typer.Typer(
    name="leaveout",
    help="Prove what a trained model owes to any one training point.",
    epilog="Exit status: 0 all proved, 1 something refuted, 3 something unknown, 2 bad input, "
    "4 an error of leaveout itself (LEAVEOUT_DEBUG=1 in the environment shows where).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"leaveout {VERSION}")
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
app.command()(check)
app.command()(fmt)
app.command()(train)
app.command()(partition)
app.command()(guard)
app.command()(report)
app.command()(unlearn)
app.command()(audit)
app.command()(vnnlib)
app.command()(functions)
app.command()(solvers)
app.command()(warm)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Every error a user can cause is one message on standard error; any other is raised.
    """
    try:
        code = typer.main.get_command(app).main(args=arguments, standalone_mode=False)
    except LeaveoutError as error:
        sys.stderr.write(f"leaveout: {error}\n")
        return error.exit_code
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        message = str(error.format_message()).rstrip(".")
        if message:  # without one, the help was shown
            name = getattr(getattr(error, "ctx", None), "command_path", "leaveout")
            sys.stderr.write(f"leaveout: {message}; see {name} --help\n")
        return ExitCode.BAD_INPUT
    return int(code or 0)
