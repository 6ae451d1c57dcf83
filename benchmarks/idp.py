"""The native engine on every row of LUCID's evaluation, beside the paper's figures.

    python benchmarks/idp.py --data ../shared/data
    python benchmarks/idp.py --data ../shared/data --only crypto/2x50,adult --members 100 --time 60
    python benchmarks/idp.py --out out --trained --time 60 --against HEAD~20

Rows appear as they finish; Ctrl-C ends the table after the label at hand, with its bounds so far.
With ``--against`` each line stands beside that of an older commit: see idp_against.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from leaveout.bab.native.options import NativeOptions
from leaveout.errors import LeaveoutError

from families import OUT, MissingError, Question, question
from idp_against import compare
from idp_checkout import CheckoutError
from paper import FILES, HARDWARE, Row, chosen
from traces import Run, machine, run_native, warm_up, write_traces

MEMBERS = 500
"""Of the big sets; of Crypto all 2,800."""

HEAD = (
    f"{'data':8s}{'network':8s}{'members':>8s}{'trained/s':>10s}{'label':>6s}{'lower':>10s}"
    f"{'upper':>10s}{'gap':>7s}{'seconds':>9s}{'nodes':>10s}{'paper':>8s}{'hours':>7s}"
)


def wanted(row: Row, members: int | None) -> int | None:
    """How many members a row is about; None for all."""
    if members is not None:
        return members
    return None if row.data == "crypto" else MEMBERS


def shown(row: Row, own: Question, run: Run) -> str:
    """Format one line."""
    result, figure = run.result, row.figures[run.label]
    rate = f"{own.rate:.1f}" if own.rate else "-"
    gap = f"{result.upper / result.lower:.3f}" if result.lower > 0 else "-"
    line = (
        f"{row.data:8s}{row.network:8s}{run.members:8,d}{rate:>10s}{run.label:6d}"
        f"{result.lower:10.5f}{result.upper:10.5f}{gap:>7s}{result.seconds:9.1f}"
        f"{result.solved:10,d}"
    )
    if figure is None:
        return f"{line}{'-':>8s}{'-':>7s}"
    return f"{line}{figure.bound:8.2f}{figure.hours:7.2f}"


def entry(row: Row, own: Question, run: Run) -> dict[str, object]:
    """Return one line for ``--json``."""
    result, figure = run.result, row.figures[run.label]
    return {
        "row": row.name,
        "label": run.label,
        "members": run.members,
        "members_per_second": own.rate,
        "lower": result.lower,
        "upper": result.upper,
        "seconds": result.seconds,
        "nodes": result.solved,
        "closed": result.closed,
        "reason": result.reason,
        "paper_bound": figure.bound if figure else None,
        "paper_hours": figure.hours if figure else None,
    }


def measure(row: Row, given: argparse.Namespace, runs: list[Run], lines: list[object]) -> bool:
    """Run both labels of a row; False if the user wants no more."""
    try:
        own = question(
            row.folder,
            given.data / row.file,
            row.recipe(given.seed),
            wanted(row, given.members),
            out=given.out,
            train=not given.trained,
        )
    except (MissingError, LeaveoutError) as error:
        print(f"{row.data:8s}{row.network:8s}  {error}", flush=True)
        return getattr(error, "exit_code", 0) != 130
    options = NativeOptions(seconds=given.time, seed=given.seed, kernel=given.kernel)
    if not runs:
        warm_up(own.instance, options)
    for label in range(own.instance.labels):
        run = run_native(row.name, own.instance, label, options)
        runs.append(run)
        lines.append(entry(row, own, run))
        print(shown(row, own, run), flush=True)
        if run.result.interrupted:
            return False
    return True


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path(), help=f"folder with {', '.join(FILES.values())}"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder of trained families")
    parser.add_argument(
        "--trained", action="store_true", help="train nothing: only families that are in --out"
    )
    parser.add_argument("--only", help="rows, as in crypto/2x50,adult; default all")
    parser.add_argument(
        "--members", type=int, help=f"first so many (default {MEMBERS}, of Crypto all)"
    )
    parser.add_argument("--time", type=float, default=600.0, help="seconds a label")
    parser.add_argument("--seed", type=int, default=0, help="of training and of the search")
    parser.add_argument("--kernel", default="cpu")
    parser.add_argument("--json", type=Path, help="write the table here, too")
    parser.add_argument("--trace", type=Path, help="write bounds over time here, as JSON lines")
    parser.add_argument("--against", metavar="COMMIT", help="search with that state, too")
    given = parser.parse_args()
    if given.against is not None and given.trace:
        parser.error("--trace: not with --against")
    try:
        given.rows = chosen(given.only)
    except ValueError as error:
        parser.error(str(error))
    return given


def main() -> int:
    """Print the table; 2 if there is no such commit to compare with."""
    given = arguments()
    print(
        f"native engine, kernel {given.kernel}, {given.time:g} s a label, {machine()}", flush=True
    )
    facts = {"machine": machine(), "time": given.time, "kernel": given.kernel}
    if given.against is not None:
        asked = [(row, wanted(row, given.members)) for row in given.rows]
        try:
            older, pairs = compare(given, asked)
        except CheckoutError as error:
            sys.stderr.write(f"idp.py: {error}\n")
            return 2
        if given.json:
            text = json.dumps({**facts, "against": older, "pairs": pairs}, indent=1)
            given.json.write_text(text + "\n")
        return 0
    print(f"paper: another training run, all members, {HARDWARE}; - where it has no figure")
    print(HEAD, flush=True)
    runs: list[Run] = []
    lines: list[object] = []
    try:
        for row in given.rows:
            if not measure(row, given, runs, lines):
                break
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    if given.json:
        given.json.write_text(json.dumps({**facts, "rows": lines}, indent=1) + "\n")
    if given.trace:
        write_traces(given.trace, runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
