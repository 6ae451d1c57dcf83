"""The application: its commands, and errors as one line."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import typer

from leaveout.verifier.cli.attest import attest
from leaveout.verifier.cli.audit import audit
from leaveout.verifier.cli.check import check
from leaveout.verifier.cli.compare import compare
from leaveout.verifier.cli.demo import demo
from leaveout.verifier.cli.fmt import fmt
from leaveout.verifier.cli.forest import forest
from leaveout.verifier.cli.forget import forget, receipts
from leaveout.verifier.cli.functions import functions
from leaveout.verifier.cli.guard import guard
from leaveout.verifier.cli.hinges import hinges
from leaveout.verifier.cli.linear import linear
from leaveout.verifier.cli.parameters import option
from leaveout.verifier.cli.partition import partition
from leaveout.verifier.cli.report import report
from leaveout.verifier.cli.rows import rows
from leaveout.verifier.cli.running import run_application
from leaveout.verifier.cli.service import service
from leaveout.verifier.cli.show import show
from leaveout.verifier.cli.solvers import solvers
from leaveout.verifier.cli.train import train
from leaveout.verifier.cli.trees import trees
from leaveout.verifier.cli.unlearn import unlearn
from leaveout.verifier.cli.verify import verify
from leaveout.verifier.cli.vnnlib import vnnlib
from leaveout.verifier.cli.warm import warm
from leaveout.version import VERSION

app = typer.Typer(
    name="leaveout",
    help="Prove how much any one training record can change a model's answers.",
    epilog="Exit status: 0 all proved, 1 something refuted, 3 something unknown, 2 bad input, 4 "
    "internal error (LEAVEOUT_DEBUG=1 shows the traceback).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"leaveout {VERSION}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = option(
        "Print the version and exit.", "--version", default=False, callback=_version, is_eager=True
    ),
) -> None:
    """Prove how much any one training record can change a model's answers."""


app.command()(demo)
app.command()(verify)
app.command()(check)
app.command()(compare)
app.command()(show)
app.command()(attest)
app.command()(fmt)
app.command()(train)
app.command()(partition)
app.add_typer(forest, name="forest")
app.add_typer(linear, name="linear")
app.add_typer(trees, name="trees")
app.command()(forget)
app.command()(receipts)
app.command()(service)
app.command()(guard)
app.command()(hinges)
app.command()(report)
app.command()(rows)
app.command()(unlearn)
app.add_typer(audit, name="audit")
app.command()(vnnlib)
app.command()(functions)
app.command()(solvers)
app.command()(warm)

for _each in (
    *app.registered_commands,
    *forest.registered_commands,
    *linear.registered_commands,
    *trees.registered_commands,
    *audit.registered_commands,
):
    # A terminal wraps paragraphs rather than source lines.
    _text = inspect.getdoc(_each.callback) or ""
    _each.help = "\n\n".join(" ".join(part.split()) for part in _text.split("\n\n"))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run this command line and return its exit status; see `run_application`."""
    return run_application(app, arguments)
