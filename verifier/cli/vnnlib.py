"""``leaveout vnnlib``: decide a VNN-LIB query."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from leaveout.verifier.cli.options import CORES, COUNTER_EXAMPLE_SEED
from leaveout.verifier.cli.output import write_out
from leaveout.verifier.cli.parameters import argument, option
from leaveout.verifier.cli.progress import live_line

if TYPE_CHECKING:
    from leaveout.specs.vnnlib import Reading, Status
    from leaveout.verifier.points.job import Solved
    from leaveout.verifier.points.proofs import CertificateTarget
    from leaveout.verifier.points.query import Decision


def say(line: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"leaveout: {line}\n")


@contextmanager
def progress_line() -> Iterator[Callable[[float, float, int, float], None]]:
    """Show a live line on standard error if that is a terminal."""
    with live_line("searching") as tell:
        yield lambda lower, upper, nodes, seconds: tell(
            f"{lower:.4g} to {upper:.4g}, {nodes} open, {seconds:.0f} s"
        )


def status_of(decision: Decision) -> Status:
    """Return a decision in VNN-COMP's words."""
    if decision.verdict == "proved":
        return "unsat"
    if decision.verdict == "refuted":
        return "sat"
    out_of_time = (decision.reason or "").startswith("time")
    return "timeout" if out_of_time else "unknown"


def keep_to(workers: int) -> None:
    """Restrict this process to some cores, different ones for each process."""
    if not hasattr(os, "sched_setaffinity"):
        say("--workers has no effect on this system, which cannot bind processes to cores")
    else:
        cores = sorted(os.sched_getaffinity(0))
        start = os.getpid() % len(cores)
        os.sched_setaffinity(0, (cores[start:] + cores[:start])[:workers])


_EXIT = {"unsat": 0, "sat": 1, "unknown": 3, "timeout": 3}


def vnnlib(
    query: Path = argument("A VNN-LIB query, version 1.0 or 2.0, possibly gzipped (.gz)."),
    network: list[str] = option(
        "A network of the query, as ONNX (or .gz); without names, in the order of declaration.",
        default=...,
        metavar="[NAME=]FILE",
    ),
    time: float | None = option("Time limit in seconds.", min=0, shown="no limit"),
    result: Path | None = option(
        "Write the answer, with a counter-example if there is one, in VNN-COMP's format.",
        metavar="FILE",
    ),
    certificate: Path | None = option(
        "Write a certificate of unsat for leaveout check.", metavar="FILE"
    ),
    workers: int | None = CORES,
    seed: int = COUNTER_EXAMPLE_SEED,
) -> None:
    """Decide whether a VNN-LIB query has a counter-example.

    Prints sat, unsat, unknown or timeout, followed by the counter-example if sat.

    For example: leaveout vnnlib prop_1.vnnlib --network net.onnx --time 60

    Exit status: 0 unsat, 1 sat, 3 unknown or timeout, 2 bad input.
    """
    from leaveout.specs.vnnlib import format_result, load_query, save_result
    from leaveout.verifier.cli.running import since_start
    from leaveout.verifier.output_file import OutputFile
    from leaveout.verifier.points.query import decide

    if result is not None:
        OutputFile.open("--result", result)
    target = None
    if certificate is not None:
        from leaveout.verifier.points.proofs import CertificateTarget

        target = CertificateTarget(certificate, "native")
    if workers is not None:
        keep_to(workers)
    reading = load_query(query, network)
    if target is not None:
        _refuse_hidden(reading)
    seconds = None if time is None else max(1e-3, time - since_start())

    def ready() -> None:
        from leaveout.verifier.warm_up import warm

        # One-time compilation does not count for the first run.
        warm(["points"], say)

    with progress_line() as progress:
        if target is None:
            decision = decide(
                reading.query, seconds=seconds, seed=seed, progress=progress, ready=ready
            )
        else:
            ready()
            decision = _decide_with_certificate(target, query, reading, seconds, seed, progress)
    status = status_of(decision)
    witness = _witness(reading, decision) if status == "sat" else ""
    if result is not None:
        save_result(result, status, witness)
    if decision.reason:
        say(decision.reason)
    write_out(format_result(status, witness))
    raise typer.Exit(_EXIT[status])


def _decide_with_certificate(
    target: CertificateTarget,
    file: Path,
    reading: Reading,
    seconds: float | None,
    seed: int,
    progress: Callable[[float, float, int, float], None] | None,
) -> Decision:
    """Decide a query, and write the proof if there is no counter-example."""
    from leaveout.kernel.claims.certificate import is_claim_name
    from leaveout.verifier.points.query import decide

    solved: list[Solved] = []
    query = reading.query
    decision = decide(query, seconds=seconds, seed=seed, progress=progress, solved=solved)
    name = file.name if is_claim_name(file.name) else "query"
    target.begin(name, "")
    if decision.verdict == "proved":
        target.points(name, solved, int(bool(query.cases)), decides=query.worst is None)
    target.write()
    for note in target.notes:
        say(note)
    return decision


def _witness(reading: Reading, decision: Decision) -> str:
    from leaveout.specs.vnnlib import format_witness

    if decision.points is None or decision.scores is None:
        return ""
    return format_witness(reading.problem, reading.query, decision.points, decision.scores)


def _refuse_hidden(reading: Reading) -> None:
    from leaveout.errors import SpecError

    if reading.problem.hidden_nodes:
        raise SpecError(
            f"--certificate: {reading.problem.source} is about hidden nodes, but certificates "
            "cover outputs only; drop --certificate"
        )
