"""What a family costs on this machine, a step, a row, a parameter, a member, a node at a time.

    python benchmarks/scale_costs.py --trained FOLDER            # all tables
    python benchmarks/scale_costs.py --only training --json rates.json

Tables: ``training`` (stacks of several sizes, and a model fitted to them, with what it misses each
by), ``workers`` (start-up), ``files`` (blocks, families, digests), ``search`` (nodes), ``members``
(one question to all of them), ``forest`` (deletions). ``FOLDER`` holds a network and a
family as `leaveout train` left them. Times are seconds of processor time of one thread, which other
programs on the machine disturb less than those of a clock; where clocks are read the table
says so. ``--json`` keeps the fitted rates, as `scale_rates.json` has them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from scale_members import asked, deleted, drawn, opened, searched
from scale_tables import amount, print_table
from scale_training import CASES, TERMS, Trained, fit, flop, keep_rates, measured
from scale_workers import files, ray_start, start
from traces import machine

ASKED = (((50, 50), 1_000), ((50, 50), 10_000), ((200, 200), 1_000), ((1000, 1000), 50))
WIDTHS = ((50, 50), (100, 100), (200, 200), (400, 400), (1000, 1000))


def print_training(given: argparse.Namespace) -> None:
    """Train stacks, and fit a model to what they took."""
    found: list[Trained] = []
    for case in CASES:
        sys.stderr.write(f"training: {case.stack} of {case.name}, batches of {case.batch}\n")
        found.append(measured(case))
    whole = fit(found)
    rows = []
    for one in found:
        case = one.case
        others = fit([each for each in found if each is not one])
        rows.append(
            [
                case.name, f"{case.parameters:,}", f"{case.batch:,}", f"{case.stack}",
                amount(one.seconds / case.stack / case.rows / case.parameters),
                f"{flop(case) / one.seconds / 1e9:.1f}",
                f"{one.bytes / case.stack / 1e6:.2f} MB",
                f"{whole.seconds(case) / one.seconds - 1:+.0%}",
                f"{others.seconds(case) / one.seconds - 1:+.0%}",
            ]
        )  # fmt: skip
    print("Training: an epoch, divided by members, rows and parameters. `misses`: the fitted model")
    print("less what was measured; `without it`: the same of a model fitted to all other sizes.\n")
    print_table(
        ("layers", "parameters", "batch", "stack", "a member, row, parameter", "GFLOP/s",
         "memory a member", "misses", "without it"),
        rows,
    )  # fmt: skip
    print_table(("term", "seconds"), [
        (term, f"{rate:.3g}") for term, rate in zip(TERMS, whole.rates, strict=True)
    ])  # fmt: skip
    if given.json is not None:
        keep_rates(given.json, whole, machine())


def print_workers(given: argparse.Namespace) -> None:
    """Start workers."""
    rows = []
    for workers in (1, 2):
        found = start(workers)
        rows.append(("processes", f"{workers}", f"{found.wall:.1f} s", f"{found.processor:.1f} s"))
        for name, found in ray_start(workers) if given.ray else ():
            rows.append((name, f"{workers}", f"{found.wall:.1f} s", ""))
    print("Workers: until each has done an empty block, of a table of 32,561 x 21. `by the clock`")
    print("counts what else ran on the machine.\n")
    print_table(("workers", "how many", "by the clock", "processor"), rows)


def print_files(given: argparse.Namespace) -> None:
    """Write and read."""
    rows = [
        (each.name, f"{each.megabytes:,.1f} MB", amount(each.seconds),
         amount(each.seconds / each.megabytes))
        for each in files(given.trained, given.members)
    ]  # fmt: skip
    print("Files\n")
    print_table(("what", "size", "seconds", "a MB"), rows)


def print_search(given: argparse.Namespace) -> None:
    """Bound nodes."""
    rows = [_search_row("trained", searched(opened(given.trained), given.seconds))]
    for hidden in WIDTHS:
        sys.stderr.write(f"search: {hidden}\n")
        for members in (8, 64) if max(hidden) < 400 else (4,):
            found = searched(drawn(hidden, members), given.seconds)
            rows.append(_search_row(f"{len(hidden)}x{hidden[0]}", found))
    print("Search, one thread; random networks but for the first\n")
    print_table(
        ("layers", "parameters", "members", "prepare, a member", "first bound", "nodes", "a node"),
        rows,
    )  # fmt: skip


def _search_row(name: str, found: object) -> tuple[str, ...]:
    return (
        name, f"{found.parameters:,}", f"{found.members:,}",
        amount(found.prepare / found.members), amount(found.root), f"{found.nodes:,}",
        amount(found.node) if found.nodes else "",
    )  # fmt: skip


def print_members(given: argparse.Namespace) -> None:
    """Ask members."""
    rows = []
    for hidden, members in ASKED:
        found = asked(drawn(hidden, members))
        rows.append(
            (f"{len(hidden)}x{hidden[0]}", f"{found.members:,}", amount(found.seconds),
             amount(found.seconds / found.members),
             amount(found.seconds / found.members / found.parameters))
        )  # fmt: skip
    print("One question to all members, as one product a layer\n")
    print_table(("layers", "members", "a question", "a member", "a parameter"), rows)


def print_forest(given: argparse.Namespace) -> None:
    """Delete from forests."""
    rows = [
        (f"{each.rows:,}", amount(each.fit), f"{each.deletions:,}", amount(each.delete),
         f"{1 / each.delete:,.0f}")
        for each in deleted(given.rows, given.seconds, 0.1)
    ]  # fmt: skip
    print("A forest of 50 trees of depth 20, each row in 5 of them, 40 attributes\n")
    print_table(("rows", "fit", "deletions", "a deletion", "a second"), rows)


TABLES: dict[str, Callable[[argparse.Namespace], None]] = {
    "training": print_training,
    "workers": print_workers,
    "files": print_files,
    "search": print_search,
    "members": print_members,
    "forest": print_forest,
}


def main() -> None:
    """Print the tables that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(TABLES), nargs="+", default=list(TABLES))
    parser.add_argument("--trained", type=Path, help="folder with full.onnx and family.npz")
    parser.add_argument("--members", type=int, default=2_000, help="of the family of `files`")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a search, of deletions")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--no-ray", dest="ray", action="store_false", help="start no Ray")
    parser.add_argument("--json", type=Path, help="where the fitted rates go")
    given = parser.parse_args()
    if given.trained is None and {"files", "search"} & set(given.only):
        parser.error("--trained FOLDER: files and search need a family that was trained")
    np.seterr(all="ignore")
    print(f"{machine()}\n")
    for name in given.only:
        TABLES[name](given)


if __name__ == "__main__":
    main()
