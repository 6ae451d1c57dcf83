"""Linear models of Adult, Credit and Twitter: all members, bounds, answers proved, and the guard.

    python benchmarks/linear_models.py [--data FOLDER] [--time SECONDS] [--check PAIRS]
    python benchmarks/linear_models.py --small
    python benchmarks/linear_models.py --rows 1000000
    python benchmarks/linear_models.py --deletions 200

FOLDER holds ``adult_lucid21.npz`` and others of its kind, and ``adult.data`` with ``adult.test``;
``--small`` takes the patients that scikit-learn ships. Logistic regressions with penalty 1 print a
line each: CPU seconds of the fit and of all members, of which some are refitted; the bound of each
label over [0, 1]^d; the test answers that no row changes, that some row changes, and those open;
accuracy; milliseconds of the guard's answers. Ratios are to the prototype's CPU seconds for all
members.

``--rows`` draws a table of 100 columns, and prints CPU seconds of fit and members, the most memory
that was held, and the guard's times. ``--deletions`` deletes rows of Adult one after the other, and
prints CPU seconds of each, with files, and the largest proved distance to the minimum.

Then the guard is compared with all members at every test point, each evaluated with its radius; and
``--check`` pairs of a row and a point, those nearest to a tie, with the model fitted without the
row by Newton's method, written out here.
"""

from __future__ import annotations

import argparse
import csv
import resource
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from leaveout.bab.linear.search import Search, leak_goals
from leaveout.deadline import Deadline
from leaveout.encoders import Box
from leaveout.kernel.design import Design
from leaveout.kernel.family import Family
from leaveout.kernel.model import LinearModel
from leaveout.models.linear.family import bound_members
from leaveout.models.linear.fit import coefficients_of
from leaveout.models.linear.folder import LinearFolder, delete_rows
from leaveout.models.linear.training import train_linear
from leaveout.models.reading import Reading
from leaveout.verifier.guard.linear import LinearLeakTest, known_members

Floats = NDArray[np.float64]

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PROTOTYPE = {"adult_lucid21": 0.89, "credit_lucid23": 5.1, "twitter_lucid15": 10.3}
"""CPU seconds for all members."""

_FEW = 2000
"""Test points whose guard's answers are timed."""


@dataclass(frozen=True)
class Case:
    """A model that is not yet fitted, and test points."""

    name: str
    model: LinearModel
    X: Floats
    y: NDArray[np.int64]


def plain_case(name: str, X: Floats, y: Floats, X_test: Floats, y_test: Floats) -> Case:
    """Return a logistic regression with penalty 1 and a free intercept."""
    width = X.shape[1] + 1
    penalty = np.append(np.ones(width - 1), 1e-6)
    model = LinearModel(
        "logistic", Design.plain(width - 1), np.zeros((1, width)), X.astype(np.float64),
        y.astype(np.float64), np.ones(len(X)), penalty, ("0", "1"),
    )  # fmt: skip
    return Case(name, model, np.ascontiguousarray(X_test, np.float64), y_test.astype(np.int64))


def archive_case(path: Path) -> Case:
    """Return the model of one of the archives."""
    arrays = np.load(path)
    return plain_case(
        path.stem, *(arrays[f"{k}_{part}"] for part in ("train", "test") for k in "Xy")
    )


def small_case() -> Case:
    """Return a model of half of the patients that scikit-learn ships."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    return plain_case("patients", X[::2], y[::2], X[1::2], y[1::2])


def table_case(data: Path, splines: int) -> Case:
    """Return a model of raw Adult: words one-hot, numbers scaled or in splines."""
    with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
        folder = Path(name) / "model"
        reading = Reading(drop=("fnlwgt",))
        train_linear(
            data / "adult.data", folder, label="Y", reading=reading, splines=splines, test_share=0
        )
        read = LinearFolder.read(folder)
    with (data / "adult.test").open(newline="") as stream:
        records = [
            {k.strip(): v.strip() for k, v in each.items()} for each in csv.DictReader(stream)
        ]
    y = [read.model.labels.index(each["Y"].removesuffix(".")) for each in records]
    said = "Adult, splines" if splines else "Adult, one-hot"
    return Case(said, read.model, read.columns.encode(records), np.array(y))


def measure(case: Case, seconds: float, pairs: int) -> None:
    """Print the line of a model, and the comparison."""
    began = time.process_time()
    model = replace(case.model, coefficients=coefficients_of(case.model.problems))
    fit, began = time.process_time() - began, time.process_time()
    first = bound_members(model)
    bounded = time.process_time() - began
    refitted = len(first.parts[0].members.measured)
    family = known_members(model, Path(case.name), lambda done, of: None)
    bounds = []
    box = Box(np.zeros(model.inputs), np.ones(model.inputs))
    for label in range(2) if seconds else ():
        search = Search(
            family, box, leak_goals(family, label), None, 0.01, Deadline.after(seconds), label
        )
        search.run()
        bounds.append(f"[{max(search.lower, 0.0):.4f}, {search.with_margin(search.upper):.4f}]")
    test = LinearLeakTest(family)
    taken = np.array([_milliseconds(test, x) for x in case.X[:_FEW]])
    found = test.find_all(case.X)
    leaks = np.array([each.leak for each in found])
    flips, maybe, near = evaluate_all(test.family, case.X)
    ratio = PROTOTYPE.get(case.name, np.nan) / bounded
    print(
        f"{case.name} | {len(model.X):,} x {model.design.width} | {fit:.2f} s | {bounded:.2f} s, "
        f"{refitted} refitted" + (f", {ratio:.1f} times as fast" if ratio > 0 else "")
        + f" | {' '.join(bounds) or '-'} | {len(leaks) - maybe.sum():,} of {len(leaks):,} | "
        f"{flips.sum()} | {(maybe & ~flips).sum()} | "
        f"{100 * (model.answers(case.X) == case.y).mean():.2f} % | {np.median(taken):.2f}, "
        f"{np.quantile(taken, 0.99):.2f}, {taken.max():.2f}"
    )  # fmt: skip
    print(f"    guard and all {len(family):,} members differ at {(leaks != maybe).sum()} points")
    if pairs:
        near = sorted(near)[:pairs]
        outside, wrong, rows = leave_out(model, case.X, leaks, near)
        print(
            f"    {len(near):,} pairs, {rows:,} rows really left out: {outside} scores outside the "
            f"radius, {wrong} flips not noised"
        )


def _milliseconds(test: LinearLeakTest, x: Floats) -> float:
    began = time.thread_time_ns()
    test.find(x)
    return (time.thread_time_ns() - began) / 1e6


Pair = tuple[float, int, int, float, float]
"""How far from a tie, a member, a point, the member's margin there, and what that may be off."""


def evaluate_all(
    family: Family, X: Floats
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], list[Pair]]:
    """Return where some member certainly disagrees, where some may, and the pairs near a tie."""
    model, labels = family.model, family.model.answers(X)
    flips, maybe, near = np.zeros(len(X), bool), np.zeros(len(X), bool), []
    count = model.design.roundings
    for label in (0, 1):
        score = family.margin(label, 1 - label)
        ((_, _, R),) = family.folds(score)
        own = score.of(model.coefficients)
        apart = np.concatenate([family.apart(score, *each) for each in family.blocks()])
        size = np.abs(apart)
        for at in np.flatnonzero(labels == label).tolist():
            row, sizes = (each[0] for each in model.design.with_sizes(X[at][None]))
            reach = float(np.linalg.norm(row @ R)) * (1 + 1e-9)
            slack = family.slack(score, sizes, [reach], count)
            slack += family.served_error(score, sizes, count) + 1e-12 * (size @ sizes)
            margins = row @ own + apart @ row
            flips[at], maybe[at] = np.any(margins + slack <= 0), not np.all(margins > slack)
            for unit in np.argpartition(np.abs(margins), 4)[:4].tolist():
                near.append((abs(margins[unit]), unit, at, margins[unit], slack[unit]))
    return flips, maybe, near


def leave_out(
    model: LinearModel, X: Floats, leaks: NDArray[np.bool_], near: list[Pair]
) -> tuple[int, int, int]:
    """Leave rows really out; return scores outside the radius, flips missed, and rows."""
    known: dict[int, Floats] = {}
    wrong, outside = 0, 0
    labels = model.answers(X)
    for _, unit, at, margin, slack in near:
        if unit not in known:
            known[unit] = _left_out(model, unit)
        truth = float((model.design(X[at][None]) @ known[unit])[0]) * (2 * labels[at] - 1)
        outside += abs(truth - margin) > slack + 1e-11
        wrong += truth < -1e-11 and not leaks[at]
    return outside, wrong, len(known)


def _left_out(model: LinearModel, row: int) -> Floats:
    """Fit without a row, to the last digit: Newton's method on the logistic loss."""
    kept = np.arange(len(model.X)) != row
    Z, t = model.design(model.X[kept]), model.coefficients[0].copy()
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-(Z @ t)))
        slope = Z.T @ (p - model.y[kept]) + model.penalty * t
        bend = Z.T @ ((p * (1.0 - p))[:, None] * Z) + np.diag(model.penalty)
        step = linalg.solve(bend, slope, assume_a="pos")
        t -= step
        if np.abs(step).max() < 1e-12:
            break
    return t


def measure_rows(rows: int) -> None:
    """Print what a table of random rows costs."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(rows, 100))
    y = X @ rng.normal(size=100) + rng.logistic(size=rows)
    case = plain_case("rows", X, (y > np.median(y)).astype(float), X[:_FEW], np.zeros(_FEW))
    began = time.process_time()
    model = replace(case.model, coefficients=coefficients_of(case.model.problems))
    fit, began = time.process_time() - began, time.process_time()
    family = bound_members(model)
    bounded = time.process_time() - began
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    test = LinearLeakTest(family)
    taken = np.array([_milliseconds(test, x) for x in rng.uniform(size=(_FEW, 100))])
    print(
        f"{rows:,} x 100: fit {fit:.1f} s, members {bounded:.1f} s, at most {held:.2f} GB; "
        f"guard ms {np.median(taken):.2f}, {np.quantile(taken, 0.99):.2f}, {taken.max():.2f}"
    )


def measure_deletions(source: Path, count: int) -> None:
    """Print what deletions cost, one after the other, and how far from the minimum they end."""
    seconds, apart = [], []
    with tempfile.TemporaryDirectory(prefix="leaveout-") as name:
        folder = Path(name) / "model"
        train_linear(source, folder, test_share=0)
        rows = len(LinearFolder.read(folder).model.X)
        for row in np.random.default_rng(0).choice(rows, count, replace=False).tolist():
            began = time.process_time()
            delete_rows(folder, [str(row)])
            seconds.append(time.process_time() - began)
            apart.append(LinearFolder.read(folder).receipts.last.coefficients)
    print(
        f"{source.stem}: {count} deletions, {np.median(seconds):.2f} s each, at most "
        f"{max(apart):.1e} from the minimum"
    )


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data files")
    parser.add_argument("--time", type=float, default=60.0, help="seconds a bound; 0 for none")
    parser.add_argument("--check", type=int, default=2000, metavar="PAIRS")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="files without .npz, or tables")
    parser.add_argument("--small", action="store_true", help="the patients alone")
    parser.add_argument("--rows", type=int, help="of a random table")
    parser.add_argument("--deletions", type=int, help="from Adult")
    arguments = parser.parse_args()
    if arguments.rows:
        measure_rows(arguments.rows)
    if arguments.deletions:
        measure_deletions(arguments.data / "adult_lucid21.npz", arguments.deletions)
    if (arguments.rows or arguments.deletions) and not arguments.small:
        return
    if not arguments.small and not (arguments.data / "adult_lucid21.npz").exists():
        parser.error(f"no adult_lucid21.npz in {arguments.data}; name its folder with --data")
    print(
        "data | rows x columns | fit | all members | bounds of label 0, 1 | proved | flip | open | "
        "accuracy | guard ms: median, p99, worst"
    )
    if arguments.small:
        measure(small_case(), arguments.time, arguments.check)
        return
    only = set(arguments.only or [*PROTOTYPE, "tables"])
    for name in PROTOTYPE:
        if name in only:
            measure(archive_case(arguments.data / f"{name}.npz"), arguments.time, arguments.check)
    for splines in (0, 5) if "tables" in only else ():
        measure(table_case(arguments.data, splines), 0.0, 0)


if __name__ == "__main__":
    main()
