"""The figures of the papers that this project grew from, beside what comes out here.

    python benchmarks/seeds.py --data ../shared/data --keep build/seeds

An hour on two cores. Each part is a benchmark that stands alone; what it wrote into ``--keep`` is
read when it is there, so a stopped run goes on. docs/seeds.md has the table, and what no part
covers. A figure is *reproduced* where ours rounds to it or, an accuracy over n test rows, lies
within the 95 % interval of n draws. The papers give these figures no spread of their own.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leaveout.verifier.audits.adaptive import Duplicated, audit

from forest_data import SETS
from paper import ROWS
from unlearning_paper import PAPER, TESTED

__all__ = ["PARTS", "Line", "counted"]

HERE = Path(__file__).resolve().parent
EPSILONS = ("0", "0.2", "1")


@dataclass(frozen=True)
class Line:
    """A figure of a paper and ours; the spread is None where the two are not one thing."""

    paper: str
    what: str
    theirs: float
    ours: float
    spread: float | None
    digits: int = 1

    @property
    def verdict(self) -> str:
        """Whether ours is theirs; nothing where that is not asked."""
        if self.spread is None:
            return "-"
        near = abs(self.ours - self.theirs) <= self.spread + 0.5 * 10.0**-self.digits
        return "reproduced" if near else "differs"

    def __str__(self) -> str:
        theirs, ours = (f"{each:,.{self.digits}f}" for each in (self.theirs, self.ours))
        return f"| {self.paper} | {self.what} | {theirs} | {ours} | {self.verdict} |"


def counted(lines: list[Line]) -> str:
    """Return how many figures are reproduced."""
    asked = [line for line in lines if line.spread is not None]
    same = sum(line.verdict == "reproduced" for line in asked)
    return f"{same} of {len(asked)} figures reproduced; {len(lines) - len(asked)} for comparison"


def sampled(percent: float, rows: int) -> float:
    """Return half the 95 % interval of an accuracy in per cent."""
    return 1.96 * math.sqrt(percent * (100 - percent) / rows)


def run(script: str, *options: object) -> None:
    """Run a benchmark; its tables go to standard error."""
    command = [sys.executable, str(HERE / script), *map(str, options)]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise SystemExit(f"seeds.py: {script} failed; see above")


def kept(given: argparse.Namespace, name: str, script: str, *options: object) -> Any:
    """Return what a benchmark wrote as JSON, now or before."""
    file = given.keep / name
    if not file.exists():
        run(script, "--data", given.data, "--json", file, *options)
    return json.loads(file.read_text())


def lucid(given: argparse.Namespace) -> Iterator[Line]:
    """Tables 1 and 2: bounds, and accuracy under each kind of access."""
    options: list[object] = ["--only", given.networks, "--time", given.time, "--seeds", 0]
    options += ["--out", given.keep / "families", *given.few]
    for found in kept(given, "guard.json", "guard.py", *options)["rows"]:
        name, theirs = found["row"], found["paper"]
        n = found["test_points"]
        # Noise on every answer asks no member, so that any number of them will do.
        every = name.startswith("crypto") and not given.few
        figures = next(row.figures for row in ROWS if row.name == name)
        for label, (figure, upper) in enumerate(zip(figures, found["upper"], strict=True)):
            assert figure is not None
            told = f"{name}, bound of label {label}"
            yield Line("LUCID, Table 1", told, figure.bound, upper, None, 2)
        for method, table, comparable in (
            ("none", 1, True), ("noise", 2, True), ("idp", 2, every), ("threshold", 1, False),
        ):  # fmt: skip
            for at, epsilon in enumerate(EPSILONS):
                if method == "none" and at:
                    continue
                percent = theirs[method]["accuracies"][at]
                own = 100 * found["expected_accuracy"][method][at]
                told = f"{name}, {METHODS[method]}"
                told += f", epsilon {epsilon}" if method != "none" else ""
                spread = sampled(percent, n) if comparable else None
                yield Line(f"LUCID, Table {table}", told, percent, own, spread)


METHODS = {
    "none": "accuracy, no protection", "noise": "noise on every answer", "idp": "naive iDP",
    "threshold": "LUCID's guard",
}  # fmt: skip


def dare(given: argparse.Namespace) -> Iterator[Line]:
    """Tables 1 to 3: Adult, and how much faster than training a deletion is."""
    split = SETS["adult"](given.data)
    rows, share = len(split.X) + len(split.X_test), float(np.mean([*split.y, *split.y_test]))
    for what, theirs, ours, digits in (
        ("rows", 48_842, rows, 0), ("columns", 107, split.X.shape[1], 0),
        ("positive, %", 23.9, 100 * share, 1),
    ):  # fmt: skip
        yield Line("DaRE, Table 1", f"Adult, {what}", theirs, ours, 0.0, digits)
    for adversary, worst, theirs in (("random", 0, 257), ("worst of 1,000", given.worst, 52)):
        folder = given.keep / f"forest-{worst}"
        if not folder.exists():
            run("forest.py", "--data", given.data, "--sets", "adult", "--programs", "ours",
                "--q", 1, "--worst", worst, "--seconds", given.deleting, "--keep", folder,
                *given.rows)  # fmt: skip
        found = json.loads(next(folder.glob("*eager*.json")).read_text())
        ratio = found["fit"] / float(np.mean(found["times"]))
        told = f"training / deletion, {adversary}; theirs of 14 data sets, ours of Adult"
        yield Line("DaRE, Table 2", told, theirs, ratio, None, 0)
        if not worst:
            yield Line("DaRE, Table 3", "Adult, forest in MB", 252, found["own"] / 1e6, None, 0)


def adaptive(given: argparse.Namespace) -> Iterator[Line]:
    """Theorem 3.1 and Figure 1: attacks on majority votes of shards."""
    found = audit(Duplicated(points=300), given.trials, 0).counts[0]
    for arm, theirs, hits in (
        ("unlearning", 1.0, found.unlearned), ("retraining", 0.0, found.retrained),
    ):  # fmt: skip
        told = f"nearly everything is wrong after {arm}, share of trials"
        yield Line("Adaptive, Theorem 3.1", told, theirs, hits / given.trials, 0.0, 2)
    file = given.keep / "attacked.csv"
    if not file.exists():
        run("adaptive.py", "--rows", given.images, "--trials", given.trials,
            "--epochs", given.epochs, "--counts", file, "--seconds", given.attacking)  # fmt: skip
    with file.open(newline="") as stream:
        first = next(csv.DictReader(stream))
    for arm in ("unlearned", "retrained"):
        hits, trials = int(first[f"{arm}_hits"]), int(first[f"{arm}_trials"])
        told = f"digits, targeted shards right less often, {arm}, %; for theirs, a picture, chance"
        yield Line("Adaptive, Figure 1", told, 50, 100 * hits / trials, None, 0)


def dpa(_: argparse.Namespace) -> Iterator[Line]:
    """Appendices B and C, as far as they need no image."""
    m, s, r = 60_000, 50, 200
    missed = math.prod((m - r - i) / (m - i) for i in range(s))
    yield Line("DPA, appendix B", "5,952 of 13,007 labels, %", 45.8, 595_200 / 13_007, 0.0)
    yield Line("DPA, appendix C", "poisoned, random ablation", 0.154, 1 - missed, 0.0, 3)
    yield Line("DPA, appendix C", "poisoned, SS-DPA, at most", 0.167, r * s / m, 0.0, 3)


def game(given: argparse.Namespace) -> Iterator[Line]:
    """Tables I to III on Adult, and the times of all."""
    options = ["--keep", given.keep / "adult", "--trials", given.games, *given.short]
    for found in kept(given, "unlearning.json", "unlearning.py", *options)["shares"]:
        percent = int(found["percent"])
        for arm, theirs in PAPER[percent].accuracy.items():
            ours, told = 100 * float(np.mean(found["accuracy"][arm])), f"Adult, {percent} %, {arm}"
            yield Line("Game, Table I", told, theirs, ours, sampled(theirs, TESTED), 2)
        seconds = PAPER[percent].seconds
        told, ours = f"Adult, {percent} %, retraining / game", 1 / float(np.median(found["cost"]))
        yield Line("Game, Table II", told, seconds["retrained"] / seconds["unlearned"], ours, None)
        loss = next(each for each in found["attacks"] if each["attack"] == "loss")
        for arm, theirs in PAPER[percent].attack.items():
            told = f"Adult, {percent} %, attack says member, {arm}"
            ours = loss["forgotten"][arm]["mean"]
            yield Line("Game, Table III", told, theirs, ours, 0.0, 2)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Line]]] = {
    "dpa": dpa, "dare": dare, "adaptive": adaptive, "game": game, "lucid": lucid,
}  # fmt: skip
"""Those that take least time first."""

NEEDS = {"dare": "adult.data", "game": "adult.data", "lucid": "crypto_lucid7.npz"}


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the data files")
    parser.add_argument("--keep", type=Path, default=Path("build/seeds"), help="folder of results")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, default %(default)s")
    parser.add_argument("--networks", default="crypto/2x50,crypto/2x100,crypto/4x30,adult/2x50",
                        help="rows of LUCID's Table 1, default %(default)s")  # fmt: skip
    parser.add_argument("--small", action="store_true", help="some rows, members and trials only")
    given = parser.parse_args()
    for name in given.only.split(","):
        if name not in PARTS:
            parser.error(f"--only: no part {name!r}; parts: {', '.join(PARTS)}")
    given.keep.mkdir(parents=True, exist_ok=True)
    given.time, given.trials, given.games, given.epochs = 60, 100, 10, 60
    given.worst, given.deleting, given.attacking = 1000, 15, 300
    given.images, given.few, given.rows, given.short = 120, [], [], ["--seconds", 900]
    if given.small:
        given.networks, given.time, given.trials, given.games, given.epochs = (
            "crypto/2x50",
            2,
            4,
            4,
            1,
        )
        given.worst, given.deleting, given.few, given.rows = (
            20,
            1,
            ["--members", 5],
            ["--rows", 300],
        )
        given.images, given.short = 24, ["--forget", 10, "--epochs", 1, "--rounds", 2, "--rows", 50]
    return given


def main() -> None:
    """Print the table."""
    given, lines, left = arguments(), list[Line](), list[str]()
    print("| paper | figure | theirs | ours | |\n|---|---|---:|---:|---|", flush=True)
    for name in given.only.split(","):
        needed = NEEDS.get(name)
        if needed and not (given.data / needed).is_file():
            sys.stderr.write(f"{name}: left out, no {needed} in --data\n")
            left.append(name)
            continue
        for line in PARTS[name](given):
            lines.append(line)
            print(line, flush=True)
    print(f"\n{counted(lines)}{'; left out: ' if left else ''}{', '.join(left)}")
    if given.small:
        print("with --small so few trials and rows reproduce nothing: it only shows that all runs")
    if not lines:
        raise SystemExit("seeds.py: nothing was compared; --data names the folder of data files")


if __name__ == "__main__":
    main()
