"""Private access on the paper's sets: accuracy and time of the guard and of what it replaces.

    python benchmarks/guard.py --data ../shared/data
    python benchmarks/guard.py --data ../shared/data --only crypto/2x50 --seeds 0

As Tables 1 to 3 of the paper: no protection, the exponential mechanism on every query, naive iDP
(every member asked about every query, each in turn as the paper did, and all in one product), the
paper's guard (noise wherever the proved bound does not rule a leak out), this project's guard,
and DP-SGD. Accuracies are exact expectations over the noise, in per cent of the test points; times
are of one query at a time, in milliseconds, all kinds of access in turn. Families, bounds and what
DP-SGD gave are made once, in ``--out``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.models.train.data import TrainingData, read_data

from families import OUT, MissingError, question
from guard_case import measure
from guard_dpsgd import Private, kept_dp_sgd, missing
from guard_folders import boxes, deploy
from guard_paper import EPSILONS
from guard_reference import reference
from guard_runs import SAMPLE
from guard_table import describe, entry, private_entry, private_text, text
from paper import FILES, HARDWARE, Row, chosen
from traces import machine

MEMBERS = 500
"""Of the big sets; of Crypto all 2,800."""

ROWS = "crypto/2x50,twitter/2x50,adult/2x50,credit/2x50"

TARGETS = "0.2,1,8"
"""Epsilons of DP-SGD, which can give no 0."""


def tell(row: Row, message: str) -> None:
    """Say what is being done."""
    sys.stderr.write(f"{row.name}: {message}\n")


def train_privately(row: Row, data: TrainingData, given: argparse.Namespace) -> Sequence[Private]:
    """Run DP-SGD at every target, where it can be run."""
    if not given.seeds or missing():
        return ()
    recipe, folder = row.recipe(given.seed), given.out / "guard"
    say = partial(tell, row)
    return [kept_dp_sgd(folder, data, recipe, each, given.seeds, say) for each in given.targets]


def run(row: Row, given: argparse.Namespace, lines: list[object], dpsgd: list[object]) -> None:
    """Measure and print one network over each of its boxes."""
    file, say = given.data / row.file, partial(tell, row)
    recipe = row.recipe(given.seed)
    members = given.members or (None if row.data == "crypto" else MEMBERS)
    own = question(row.folder, file, recipe, members, out=given.out, train=not given.trained)
    if not file.exists():
        raise MissingError(f"{file} is not there; name the folder that holds it with --data")
    data = read_data(file, None)
    if data.X_test is None:
        raise MissingError(f"{file} has no test rows")
    say("asking every member about the test points")
    network, family = own.instance.network, own.instance.family
    known = reference(network, family, data.X_test)
    private = train_privately(row, data, given)
    for named in boxes(own, data):
        place = f"{row.folder}_{len(family)}_{'unit' if named[1] else 'range'}"
        say(f"bounds over {named[0]}")
        deployed = deploy(own, named, row.file, given.out / "guard" / place, given.time)
        case = measure(deployed, data, family, known, given.seed, say)
        print(f"\n{describe(row, deployed, len(data.X))}")
        print(text(row, case, private), flush=True)
        lines.append(entry(row, deployed, case))
    if private:
        print(private_text(private, row, given.seeds), flush=True)
        dpsgd.append(private_entry(row, private))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path(), help=f"folder with {', '.join(FILES.values())}"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder of families and bounds")
    parser.add_argument(
        "--trained", action="store_true", help="train no families: only those in --out"
    )
    parser.add_argument("--only", default=ROWS, help=f"dense rows, default {ROWS}")
    parser.add_argument(
        "--members", type=int, help=f"first so many (default {MEMBERS}, of Crypto all)"
    )
    parser.add_argument("--time", type=float, default=600.0, help="seconds of bounding a box")
    parser.add_argument("--seeds", type=int, default=3, help="of DP-SGD; 0: none of it")
    parser.add_argument("--targets", default=TARGETS, help=f"epsilons of DP-SGD, default {TARGETS}")
    parser.add_argument("--seed", type=int, default=0, help="of training and of all noise")
    parser.add_argument("--json", type=Path, help="write the tables here, too")
    given = parser.parse_args()
    try:
        given.rows = chosen(given.only)
        given.targets = [float(word) for word in given.targets.split(",")]
    except ValueError as error:
        parser.error(str(error))
    if not min(given.targets) > 0:
        parser.error("--targets: DP-SGD takes epsilons above 0")
    if any(row.network == "cnn" for row in given.rows):
        parser.error("--only: no convolutional networks here; name rows as in crypto/2x50")
    return given


def main() -> None:
    """Print the tables."""
    given = arguments()
    epsilons = ", ".join(f"{epsilon:g}" for epsilon in EPSILONS)
    print(f"private access at epsilon {epsilons}, {machine()}, one thread a query")
    print(
        f"paper: another training run, all members, {HARDWARE}; its DP-SGD has 0.02 in place of 0"
    )
    print(
        "epsilon is of each noised answer and of one training set; DP-SGD's is of the whole "
        "network and of\nany training set, needs a delta, and cannot be 0"
    )
    print(
        "x none: the median over queries of the time beside the unprotected network's; naive "
        f"iDP's times are\nof {SAMPLE} queries; DP-SGD's networks answer as unprotected ones do"
    )
    why = missing()
    if given.seeds and why:
        print(f"DP-SGD: {why}")
    lines: list[object] = []
    dpsgd: list[object] = []
    status = 0
    try:
        for row in given.rows:
            try:
                run(row, given, lines, dpsgd)
            except (MissingError, LeaveoutError) as error:
                print(f"\n{row.name}: {error}", flush=True)
                status = 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    if given.json:
        facts = {"machine": machine(), "time": given.time, "seeds": given.seeds}
        given.json.write_text(
            json.dumps({**facts, "rows": lines, "dp_sgd": dpsgd}, indent=1) + "\n"
        )
    sys.exit(status)


if __name__ == "__main__":
    main()
