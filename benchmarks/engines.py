"""The native engine against LUCID's algorithm over MILPs: same families, same time, same run.

    python benchmarks/engines.py --data ../shared/data --only crypto/2x50 --members 20 --time 3600

Beside each other engine: native's bounds at the time that one ended; ``reached``, when native's
upper bound was first as low as the other's last, and ``ratio``, how many times longer the other
took; ``never looser``, whether native's upper bound was at no time above the other's, and if it
was, since when it no longer is.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from leaveout.bab import Instance, LucidOptions
from leaveout.bab.native.options import NativeOptions
from leaveout.errors import LeaveoutError
from leaveout.solvers import available

from families import OUT, MissingError, question
from paper import FILES, Row, chosen
from traces import Run, machine, run_lucid, run_native, warm_up, write_traces

HEAD = (
    f"{'row':14s}{'members':>8s}{'label':>6s}  {'engine':14s}{'lower':>10s}{'upper':>10s}"
    f"{'seconds':>9s}  {'native at that time':>20s}{'reached':>9s}{'ratio':>9s}  never looser"
)


def looser_until(native: Run, other: Run) -> float:
    """Return since when native's upper bound is never above the other's, 0 if it never was."""
    until = 0.0
    for moment in (*native.trace, *other.trace):
        # Both start from what propagation proves.
        own = native.at(moment.seconds) or native.trace[0]
        its = other.at(moment.seconds) or other.trace[0]
        if own.upper > its.upper:
            later = (m.seconds for m in (*native.trace, *other.trace) if m.seconds > moment.seconds)
            until = max(until, min(later, default=float("inf")))
    return until


def compared(native: Run, other: Run) -> str:
    """Format one line of the other engine's run."""
    result = other.result
    reached = native.reaches(result.upper)
    until = looser_until(native, other)
    never = "yes" if until == 0 else f"from {until:.1f} s on" if until < float("inf") else "no"
    ratio = "-" if reached is None else f"{result.seconds / max(reached, 1e-3):.1f}"
    when = "-" if reached is None else f"{reached:.1f}"
    then = native.at(result.seconds)
    bounds = "-" if then is None else f"{then.lower:.5f}, {then.upper:.5f}"
    return (
        f"{start(other)}{result.lower:10.5f}{result.upper:10.5f}{result.seconds:9.1f}"
        f"  {bounds:>20s}{when:>9s}{ratio:>9s}  {never}{failure(other)}"
    )


def start(run: Run) -> str:
    """Format what a line is about."""
    return f"{run.row:14s}{run.members:8,d}{run.label:6d}  {run.engine:14s}"


def failure(run: Run) -> str:
    """Say why a solver gave up, where it did."""
    result = run.result
    return f"  ({result.detail})" if result.reason in {"solver", "numerical"} else ""


def measure(
    row: Row, instance: Instance, label: int, given: argparse.Namespace, runs: list[Run]
) -> bool:
    """Run every engine on one label; False if the user wants no more."""
    options = NativeOptions(seconds=given.time, seed=given.seed, kernel=given.kernel)
    native = run_native(row.name, instance, label, options)
    runs.append(native)
    result = native.result
    print(
        f"{start(native)}{result.lower:10.5f}{result.upper:10.5f}{result.seconds:9.1f}", flush=True
    )
    for solver in given.solvers:
        if runs[-1].result.interrupted:
            break
        settings = LucidOptions(
            solver=solver, workers=given.workers, seconds=given.time, seed=given.seed
        )
        other = run_lucid(row.name, instance, label, settings)
        runs.append(other)
        print(compared(native, other), flush=True)
    return not runs[-1].result.interrupted


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path(), help=f"folder with {', '.join(FILES.values())}"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder of trained families")
    parser.add_argument("--trained", action="store_true", help="train nothing")
    parser.add_argument("--only", help="rows, as in crypto/2x50,adult; default all")
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--time", type=float, default=3600.0, help="seconds a label and engine")
    parser.add_argument(
        "--solvers", help="for LUCID's algorithm; default highs, and gurobi if installed"
    )
    parser.add_argument("--workers", type=int, default=2, help="solver processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernel", default="cpu")
    parser.add_argument("--trace", type=Path, help="write bounds over time here, as JSON lines")
    given = parser.parse_args()
    try:
        given.rows = chosen(given.only)
    except ValueError as error:
        parser.error(str(error))
    there = [name for name in ("highs", "gurobi") if name in available()]
    given.solvers = given.solvers.split(",") if given.solvers else there
    return given


def main() -> None:
    """Print the table."""
    given = arguments()
    print(
        f"{given.time:g} s a label and engine, native kernel {given.kernel}, "
        f"{given.workers} solver processes, {machine()}"
    )
    print(HEAD, flush=True)
    runs: list[Run] = []
    try:
        for row in given.rows:
            try:
                data, recipe = given.data / row.file, row.recipe(given.seed)
                instance = question(
                    row.folder, data, recipe, given.members, out=given.out, train=not given.trained
                ).instance
            except (MissingError, LeaveoutError) as error:
                print(f"{row.name:14s}  {error}", flush=True)
                continue
            if not runs:
                warm_up(instance, NativeOptions(kernel=given.kernel))
            if not all(measure(row, instance, c, given, runs) for c in range(instance.labels)):
                break
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    if given.trace:
        write_traces(given.trace, runs)


if __name__ == "__main__":
    main()
