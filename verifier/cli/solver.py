"""``leaveout-vnnlib``: the command line that the VNN-LIB standard defines for solvers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from leaveout.verifier.cli.options import CORES, COUNTER_EXAMPLE_SEED
from leaveout.verifier.cli.output import write_out
from leaveout.verifier.cli.parameters import argument, option
from leaveout.verifier.cli.running import run_application
from leaveout.verifier.cli.vnnlib import keep_to, progress_line, say, status_of
from leaveout.version import VERSION

if TYPE_CHECKING:
    from leaveout.specs.vnnlib import Reading
    from leaveout.verifier.points.query import Decision


def _opsets() -> list[str]:
    from leaveout.models.onnx.use import OPSETS

    return [str(OPSETS[0]), str(OPSETS[-1])]


def _operators() -> list[str]:
    from leaveout.models.onnx.rewrites import REWRITES
    from leaveout.models.onnx.rewrites.constants import FinalSigmoid, FinalSoftmax
    from leaveout.models.onnx.table import OPERATORS

    # Queries concern the final output, so operators omitted at the end are not supported.
    dropped = FinalSoftmax, FinalSigmoid
    rewritten = {each.operator for each in REWRITES if not isinstance(each, dropped)}
    return sorted({*OPERATORS, *rewritten})


CAPABILITIES: Mapping[str, Callable[[], list[str]]] = {
    "--onnx-opset-versions": _opsets,
    "--onnx-element-types": lambda: ["float32", "real"],
    "--onnx-operators": _operators,
    "--vnnlib-versions": lambda: ["1.0", "2.0"],
    "--hidden-node-theories": lambda: ["NH", "H"],
    "--multiple-input-output-theories": lambda: ["SIO"],
    "--multiple-network-theories": lambda: ["SNET", "MENET", "MINET", "MNET"],
    "--multiple-node-comparison-theories": lambda: ["SNC", "MNC"],
    "--arithmetic-complexity-theories": lambda: ["BND", "OUTC", "LIN"],
    "--optimised-disjunctive-reasoning": lambda: ["false"],
    "--serialise-assignments": lambda: ["true"],
}
"""Functions returning the lines to print, by option (VNN-LIB 2.0 standard, chapter 5)."""


_HELP = {"help_option_names": ["-h", "--help"]}
_WORDS = {"timeout": "timed-out"}  # words in which the standard differs from VNN-COMP

application = typer.Typer(
    name="leaveout-vnnlib",
    help="Decide VNN-LIB queries with the command line that the VNN-LIB standard defines.",
    epilog="Exit status: 0 answered, 2 bad input, 4 internal error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings=_HELP,
)


def _print_and_leave(text: str) -> None:
    typer.echo(text)
    raise typer.Exit


def _name(wanted: bool) -> None:
    if wanted:
        _print_and_leave("leaveout")


def _version(wanted: bool) -> None:
    if wanted:
        _print_and_leave(VERSION)


@application.callback()
def root(
    name: bool = option("Print the name.", "--name", default=False, callback=_name, is_eager=True),
    version: bool = option(
        "Print the version.", "--version", default=False, callback=_version, is_eager=True
    ),
) -> None:
    """Decide VNN-LIB queries through the command line of VNN-LIB's standard."""


@application.command(context_settings={"ignore_unknown_options": True})
def supports(
    capability: str = argument(f"One of {', '.join(CAPABILITIES)}."),
) -> None:
    """Print what is supported, one item per line.

    For example: leaveout-vnnlib supports --onnx-operators
    """
    from leaveout.errors import SpecError
    from leaveout.names import nearest_name

    lines = CAPABILITIES.get(capability)
    if lines is None:
        near = nearest_name(capability, CAPABILITIES)
        meant = "" if near is None else f"; did you mean {near}?"
        raise SpecError(f"no capability {capability!r}{meant}")
    typer.echo("\n".join(lines()))


@application.command()
def verify(
    query: Path = argument("A VNN-LIB query, possibly gzipped (.gz)."),
    network: list[str] = option(
        "The ONNX file of a declared network; once per distinct network.",
        default=...,
        metavar="NAME=FILE",
    ),
    timeout: int | None = option("Time limit in seconds.", min=0, shown="no limit"),
    serialise: Path | None = option(
        "Write the counter-example to this folder, one TensorProto NAME.pb per variable, instead "
        "of standard output.",
        "--serialise-assignments",
        "--assignments",
        metavar="FOLDER",
    ),
    workers: int | None = CORES,
    seed: int = COUNTER_EXAMPLE_SEED,
) -> None:
    """Print sat, unsat, unknown or timed-out, followed by the counter-example if sat.

    For example: leaveout-vnnlib verify prop_1.vnnlib --network f=net.onnx --timeout 60
    """
    from leaveout.specs.vnnlib import load_query
    from leaveout.verifier.cli.running import since_start
    from leaveout.verifier.points.query import decide
    from leaveout.verifier.warm_up import warm

    if serialise is not None:
        _refuse_unusable(serialise)
    if workers is not None:
        keep_to(workers)
    reading = load_query(query, network)
    _refuse_unnecessary(reading, len(network))
    seconds = None if timeout is None else max(1e-3, timeout - since_start())
    # One-time compilation does not count for the first run.
    warm(["points"], say)
    with progress_line() as progress:
        decision = decide(reading.query, seconds=seconds, seed=seed, progress=progress)
    if decision.reason:
        say(decision.reason)
    status = status_of(decision)
    shown = _counter_example(reading, decision, serialise)
    write_out(f"{_WORDS.get(status, status)}\n{shown}")


def _counter_example(reading: Reading, decision: Decision, folder: Path | None) -> str:
    """Return the text of a counter-example, and write it to the requested folder."""
    from leaveout.specs.vnnlib import format_witness, save_assignment

    if decision.verdict != "refuted" or decision.points is None or decision.scores is None:
        return ""
    found = reading.problem, reading.query, decision.points, decision.scores
    if folder is None:
        return format_witness(*found)
    save_assignment(folder, *found)
    return ""


def _refuse_unnecessary(reading: Reading, given: int) -> None:
    from leaveout.errors import SpecError

    equal = [each.name for each in reading.problem.networks if each.equal_to]
    if given > len(reading.problem.networks) - len(equal):
        raise SpecError(
            f"--network: {' and '.join(equal)} need no file, being equal to another network"
        )


def _refuse_unusable(folder: Path) -> None:
    from leaveout.errors import SpecError

    if folder.exists() and not folder.is_dir():
        raise SpecError(f"--serialise-assignments {folder}: is a file; name a folder")


def run_solver(arguments: Sequence[str] | None = None) -> int:
    """Run this command line and return its exit status; see `run_application`."""
    return run_application(application, arguments)
