"""How fast forests forget, beside the programs of the field, in one run on this machine.

    python benchmarks/forest.py --data FOLDER [--dare-rf PYTHON] [--dynfrs FOLDER] [--sets adult]

``--data`` holds ``adult.data`` and ``adult.test`` (with a header line),
``online_shoppers_intention.csv`` and ``credit_lucid23.npz``; synthetic sets need no file. dare-rf
(Brophy and Lowd, ICML 2021) is asked by an interpreter that has it, DynFrs (Wang et al., ICLR
2025) through a driver that is compiled around its ``DynFrs.h``; it splits nodes of at least 10 rows
whatever ``--least`` says, as its own command line does. Each program runs alone, on one
thread, in a process of its own, on the same rows, and deletes the same ones.

Printed are, in processor time: training; the mean and the 99th percentile of single deletions, each
with the prediction of one test row after it; a batch of 1 % with the prediction of 1,000 test rows
after it; each of the two as dare-rf's over it; memory, as the peak of the process over what it
held before training, and as the program counts it itself; AUC and accuracy on test rows.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from leaveout.cores import cores

from forest_data import SETS, Split, write_split
from forest_programs import Program, programs_of, run_program, score

_NEEDS = {
    "adult": "adult.data", "shoppers": "online_shoppers_intention.csv",
    "credit": "credit_lucid23.npz",
}  # fmt: skip
_HEAD = (
    "program", "fit", "delete, mean", "p99", "dare-rf / it", "1 % at once", "dare-rf / it", "peak",
    "own count", "AUC", "accuracy", "deleted",
)  # fmt: skip


def _seconds(value: float | None) -> str:
    """Return a time in three digits, with its unit."""
    if value is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{1e6 * value:.3g} us"


def _megabytes(value: float | None) -> str:
    return "" if value is None else f"{value / 1e6:.0f} MB"


def _line(title: str, found: dict[str, Any], base: dict[str, Any] | None) -> list[str]:
    """Return a program's cells of the table."""
    mean = p99 = None
    if found.get("times"):
        mean, p99 = float(np.mean(found["times"])), float(np.quantile(found["times"], 0.99))
    base = base or {}
    over = np.mean(base["times"]) / mean if mean and base.get("times") else None
    batch, whole = found.get("batch"), base.get("batch")
    return [
        title, _seconds(found["fit"]), _seconds(mean), _seconds(p99),
        f"{over:.3g}" if over else "", _seconds(batch),
        f"{whole / batch:.3g}" if batch and whole else "", _megabytes(found["peak"]),
        _megabytes(found["own"]), f"{found['auc']:.4f}", f"{100 * found['accuracy']:.2f} %",
        str(len(found["times"])) if mean else "",
    ]  # fmt: skip


def _table(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        yield "| " + " | ".join(map(str.ljust, row, widths)) + " |"
        if not number:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"


def _measured(
    program: Program, name: str, split: Split, folder: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return what a program took, kept from an earlier run or measured now."""
    kept = None
    if arguments.keep is not None:
        kept = program.kept(arguments.keep, f"{name}-{len(split.X)}")
        if kept.exists() and not (arguments.fresh and program.title.startswith("ours")):
            stored: dict[str, Any] = json.loads(kept.read_text())
            return stored
    found = run_program(program, folder, arguments.minutes)
    if "fit" in found:
        shares = np.array(found.pop("shares"))
        found["auc"], found["accuracy"] = score(shares, split.y_test)
        found["not_numbers"] = int(np.count_nonzero(np.isnan(shares)))
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found))
    return found


def measure(name: str, split: Split, arguments: argparse.Namespace) -> None:
    """Print the table of one data set."""
    print(f"\n{name}: {split.X.shape[0]:,} x {split.X.shape[1]}, {100 * split.y.mean():.1f} % "
          f"positive, {len(split.X_test):,} to test on\n", flush=True)  # fmt: skip
    usual = {
        "trees": arguments.trees, "depth": arguments.depth, "k": arguments.k,
        "least": arguments.least, "seconds": arguments.seconds, "deletions": arguments.deletions,
        "random_depth": 0, "worst": arguments.worst, "check": arguments.check,
    }  # fmt: skip
    rows, notes, base = [list(_HEAD)], [], None
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_split(split, folder, arguments.deletions)
        for program in programs_of(
            usual, arguments.programs, arguments.random_depths, arguments.q, arguments.dare_rf,
            arguments.dynfrs, folder,
        ):  # fmt: skip
            found = _measured(program, name, split, folder, arguments)
            if "missing" in found:
                notes.append(f"{program.title}: {found['missing']}")
            if "fit" not in found:
                continue
            if program.title == "dare-rf":
                base = found
            rows.append(_line(program.title, found, base))
            if "check" in found:
                notes.append(f"{program.title}: equal to the forest trained on what is left: "
                             f"{found['check']}")  # fmt: skip
            if found["not_numbers"]:
                notes.append(f"{program.title}: {found['not_numbers']} predictions are no numbers")
    for line in [*_table(rows), *notes]:
        print(line, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the data files")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    every = ["ours", "sklearn", "dare", "dynfrs"]
    parser.add_argument("--programs", nargs="+", choices=every, default=every)
    parser.add_argument("--dare-rf", metavar="PYTHON", help="an interpreter that has dare-rf")
    parser.add_argument("--dynfrs", type=Path, metavar="FOLDER", help="where DynFrs.h is")
    parser.add_argument("--rows", type=int, default=0, help="train on at most so many; 0: all")
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--k", type=int, default=5, help="thresholds an attribute")
    parser.add_argument("--least", type=int, default=2, help="rows a node needs to be split")
    parser.add_argument("--q", type=float, nargs="+", default=[1.0, 0.2, 0.1],
                        help="shares of the trees that hold a row")  # fmt: skip
    parser.add_argument("--random-depths", type=int, nargs="+", default=[0])
    parser.add_argument("--deletions", type=int, default=1000, help="single ones, at most")
    parser.add_argument("--seconds", type=float, default=60.0,
                        help="of single deletions, at most")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=30.0, help="a program, at most")
    parser.add_argument("--worst", type=int, default=0, metavar="ROWS",
                        help="delete of so many random rows the costliest; no batch")  # fmt: skip
    parser.add_argument("--check", action="store_true", help="compare with retraining at the end")
    parser.add_argument("--keep", type=Path, metavar="FOLDER",
                        help="keep results here, and read those that are there")  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="measure ours even where it is kept")
    return parser.parse_args()


def main() -> None:
    """Measure what the command line asks for."""
    arguments = _arguments()
    print(f"{platform.machine()}, {cores()} cores, Python {platform.python_version()}; processor "
          "time, one thread")  # fmt: skip
    print(f"{arguments.trees} trees, depth {arguments.depth}, k {arguments.k}, nodes of "
          f"{arguments.least} rows are split; deletions with the next prediction")  # fmt: skip
    for name in arguments.sets:
        needed = _NEEDS.get(name)
        if needed and not (arguments.data and (arguments.data / needed).is_file()):
            print(f"\n{name}: left out, no {needed} in --data FOLDER")
            continue
        split = SETS[name](arguments.data)
        n = arguments.rows or len(split.X)
        measure(name, Split(split.X[:n], split.y[:n], split.X_test, split.y_test), arguments)


if __name__ == "__main__":
    main()
