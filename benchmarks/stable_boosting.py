"""Boosted trees with a convex head, of which one fit tells every model without one row.

    python benchmarks/stable_boosting.py [--data FOLDER] [--only NAME ...] [--splits N]
    python benchmarks/stable_boosting.py --small

A fifth of the training rows chooses trees (LightGBM); a logistic regression on their leaves and
their score is fitted to the other rows, the head's. All models without one head row are then known
from the one fit. FOLDER holds ``adult.data``, ``adult.test``, ``credit_lucid23.npz`` and
``online_shoppers_intention.csv``, divided anew for each split; ``--small`` takes the patients that
scikit-learn ships. The penalty is
chosen by the head's rows: the highest AUC, each row scored by the model without it, among those
with which at most .8 % of their answers change without some other row; no test row has a say.

A line a split: AUC of LightGBM with its defaults on all training rows, of a logistic regression on
the scaled columns, and of the stable model; CPU seconds of LightGBM's fit, of trees and head, and
of the choice of the penalty; CPU seconds of all members, of which some are refitted; test answers
that no head row changes, that some changes, and those open, in per cent; the guard's milliseconds;
members fitted really without their row, and how many lie outside their proved distance.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from leaveout.kernel.design import Design
from leaveout.kernel.family import Family
from leaveout.kernel.model import LinearModel
from leaveout.kernel.trees import Ensemble
from leaveout.models.linear.family import centre
from leaveout.models.trees.reading import of_model
from leaveout.verifier.guard.linear import LinearLeakTest, known_members

from forest_data import SETS, Split

Floats = NDArray[np.float64]

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
NAMES = ("adult", "credit", "shoppers")
PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0)
_MOST_CHANGED = 0.008
"""Share of the head's own answers that some other row may change."""

_ASKED = 4000
"""About as many of the head's rows choose the penalty."""

_TREES = 120
_SHAPE = {
    "objective": "binary", "num_threads": 1, "verbose": -1, "max_depth": 3, "num_leaves": 8,
    "min_data_in_leaf": 10, "learning_rate": 0.25, "feature_fraction": 0.6,
}  # fmt: skip


def divide(whole: Split, seed: int) -> Split:
    """Return a set divided anew, as many rows to train on as before."""
    X, y = np.concatenate([whole.X, whole.X_test]), np.concatenate([whole.y, whole.y_test])
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[: len(whole.X)], order[len(whole.X) :]
    return Split(X[train], y[train], X[test], y[test])


def patients() -> Split:
    """Return the patients that scikit-learn ships."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return Split(X[::2], y[::2], X[1::2], y[1::2])


def boost(X: Floats, y: NDArray[np.int64], trees: int, **more: Any) -> lightgbm.Booster:
    """Train LightGBM with one thread."""
    base = {"objective": "binary", "num_threads": 1, "verbose": -1}
    return lightgbm.train({**base, **more}, lightgbm.Dataset(X, y), trees)


def columns_of(trees: Ensemble, X: Floats) -> sparse.csr_matrix:
    """Return leaf indicators, the trees' score, and a constant."""
    leaves = trees.nodes.leaves(trees.prepare(X))
    rows, count = leaves.shape
    score = trees.base[0] + trees.nodes.values[leaves, 0].sum(axis=1)
    width = len(trees.nodes.values)
    values = np.concatenate([np.ones((rows, count)), score[:, None], np.ones((rows, 1))], axis=1)
    places = np.concatenate([leaves, np.tile([width, width + 1], (rows, 1))], axis=1)
    starts = np.arange(rows + 1) * (count + 2)
    return sparse.csr_matrix((values.ravel(), places.ravel(), starts), shape=(rows, width + 2))


def chances(scores: Floats) -> Floats:
    """Return the logistic function."""
    return np.asarray(1.0 / (1.0 + np.exp(-scores)))


def curvature(A: Floats, p: Floats, penalty: Floats, share: float = 1.0) -> Floats:
    """Return the curvature of a fit, of which the rows are a share."""
    B = A * np.sqrt(p * (1.0 - p) / share)[:, None]
    return np.asarray(B.T @ B + np.diag(penalty))


@dataclass(frozen=True, eq=False)
class Head:
    """Leaf columns of the head's rows, their labels, and some of the columns dense."""

    Z: sparse.csr_matrix
    y: Floats
    some: Floats  # every fourth row

    def fit(self, penalty: Floats, start: Floats) -> Floats:
        """Minimise by Newton's steps, solved by conjugate gradients.

        The curvature of a quarter of the rows preconditions them, and is computed once.
        """
        Z, y, t = self.Z, self.y, start.copy()
        transposed = Z.T.tocsr()
        p = chances(Z @ t)
        bend = curvature(self.some, p[::4], penalty, len(self.some) / len(y))
        factor = linalg.cho_factor(bend)
        for _ in range(30):
            gradient = transposed @ (p - y) + penalty * t
            if float(np.sqrt(gradient @ linalg.cho_solve(factor, gradient))) < 1e-7:
                break
            weight, step, left = p * (1.0 - p), np.zeros(len(t)), gradient.copy()
            solved = linalg.cho_solve(factor, left)
            along, size = solved.copy(), float(left @ solved)
            first = size
            for _ in range(25):
                bent = transposed @ (weight * (Z @ along)) + penalty * along
                length = size / float(along @ bent)
                step, left = step + length * along, left - length * bent
                solved = linalg.cho_solve(factor, left)
                size, before = float(left @ solved), size
                if size < 1e-4 * first:
                    break
                along = solved + size / before * along
            t = t - step
            p = chances(Z @ t)
        else:
            raise SystemExit("the head has not settled")
        return t

    def left_out(self, t: Floats, penalty: Floats) -> tuple[float, float]:
        """Return the AUC of some rows, each left out, and the share that another row changes."""
        A, p = self.Z.toarray(), chances(self.Z @ t)
        factor = linalg.cho_factor(curvature(A, p, penalty))[0]
        z = A @ linalg.solve_triangular(np.triu(factor), np.eye(len(t)))
        height, scores = (z**2).sum(axis=1), self.Z @ t
        b = (p - self.y) / (1.0 - p * (1.0 - p) * height)
        some = np.arange(0, len(z), max(1, len(z) // _ASKED))
        auc = roc_auc_score(self.y[some], (scores + height * b)[some])
        near = some[np.abs(scores[some]) < 1.0]
        moved = b[:, None] * (z @ z[near].T) * np.sign(scores[near])
        moved[near, np.arange(len(near))] = 0.0
        changed = (moved + np.abs(scores[near]) <= 0).any(axis=0)
        return float(auc), float(changed.sum() / len(some))


def penalties(width: int, penalty: float) -> Floats:
    """Return a penalty for each column but the constant's."""
    return np.append(np.full(width - 1, penalty), 1e-6)


def choose(head: Head, start: Floats) -> float:
    """Choose the penalty by the head's rows: the highest AUC of those that keep the answers."""
    found, t = [], start
    for penalty in PENALTIES[::-1]:
        each = penalties(len(start), penalty)
        t = head.fit(each, t)
        auc, changed = head.left_out(t, each)
        found.append((changed <= _MOST_CHANGED, auc, penalty))
        if changed > _MOST_CHANGED and penalty < PENALTIES[-1]:
            break  # smaller ones change more
    return max(found)[2]


def really_left_out(family: Family, Z: sparse.csr_matrix, units: NDArray[np.int64]) -> list[float]:
    """Fit members anew, each without its row, and return their distances over the proved ones."""
    part, model = family.parts[0], family.model
    R = part.at.R
    theta = np.stack([centre(family, int(unit))[0] for unit in units])
    centres, y, transposed = theta.copy(), model.y, Z.T.tocsr()
    for _ in range(200):
        p = chances(np.asarray(Z @ theta.T))
        slope = p - y[:, None]
        slope[units, np.arange(len(units))] = 0.0
        gradient = np.asarray(transposed @ slope).T + model.penalty * theta
        pulled = gradient @ R
        if np.sqrt((pulled**2).sum(axis=1)).max() < 1e-10:
            break
        # The fit's curvature without the row, by Sherman and Morrison.
        z = Z[units].toarray() @ R
        d = part.at.curve[units, 0][:, None]
        size = (z * z).sum(axis=1, keepdims=True)
        along = (z * pulled).sum(axis=1, keepdims=True)
        theta = theta - (pulled + d * along / (1.0 - d * size) * z) @ R.T
    else:
        raise SystemExit("a member has not settled")
    apart = linalg.solve_triangular(R, (theta - centres).T)
    return list(np.sqrt((apart**2).sum(axis=0)) / (part.members.radius[units] + 1e-9))


def tested(family: Family, Q: Floats) -> tuple[int, int, list[float]]:
    """Return test answers that some row changes, those open, and the guard's milliseconds."""
    part, model = family.parts[0], family.model
    test = LinearLeakTest(family)
    points = np.ascontiguousarray(Q[:, :-1])
    taken = []
    for x in points[:300]:
        began = time.thread_time_ns()
        test.find(x)
        taken.append((time.thread_time_ns() - began) / 1e6)
    # Nobody moves a score by more than the longest step and radius allow.
    own = part.members.centres[:, 0] - part.at.theta
    moved = np.sqrt((linalg.solve_triangular(part.at.R, own.T) ** 2).sum(axis=0))
    known = part.members.step.copy()
    known[part.members.measured] = moved
    reach = float((known + part.members.radius).max()) * (1 + 1e-6) + 1e-6
    far = np.sqrt(((Q @ part.at.R) ** 2).sum(axis=1))
    near = points[~(np.abs(Q @ model.coefficients[0]) > reach * far)]
    leaks = np.array([each.leak for each in test.find_all(near)], bool)
    members = Members.of(test.family)
    certain = np.array([members.disagree(x) for x in near[leaks]], bool)
    return int(certain.sum()), int((~certain).sum()), taken


@dataclass(frozen=True, eq=False)
class Members:
    """All members' moves, so that those who certainly answer otherwise are told from open ones."""

    family: Family
    moves: Floats  # shape (members, columns), in the coordinates of the fit

    @classmethod
    def of(cls, family: Family) -> Members:
        """Compute the moves."""
        part = family.parts[0]
        found = np.concatenate([part.moves(*each) for each in family.blocks()])
        apart = part.members.centres[:, 0] - part.at.theta[0]
        found[part.members.measured] = linalg.solve_triangular(part.at.R, apart.T).T
        return cls(family, found)

    def disagree(self, x: Floats) -> bool:
        """Whether a member certainly answers otherwise, or the model ties."""
        family, design = self.family, self.family.model.design
        label = int(family.model.answers(x[None])[0])
        score = family.margin(label, 1 - label)
        row, sizes = design.with_sizes(x[None])
        ((_, _, R),) = family.folds(score)
        w = row[0] @ R
        reach = float(np.linalg.norm(w)) * (1 + 1e-9)
        slack = family.slack(score, sizes[0], [reach], design.roundings)
        margins = row[0] @ score.of(family.model.coefficients) + self.moves @ w
        return bool(np.any(margins + slack + 1e-9 <= 0.0))


def measure(name: str, split: Split, seed: int, members: int) -> tuple[float, float, float, int]:
    """Print a split's line; return how far the AUC is off, shares proved and open, and errors."""
    began = time.process_time()
    full = boost(split.X, split.y, 100)
    full_fit = time.process_time() - began
    best = roc_auc_score(split.y_test, full.predict(split.X_test))
    low, high = split.X.min(axis=0), split.X.max(axis=0)
    wide = np.where(high > low, high - low, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may stop a little early
        plain = LogisticRegression(max_iter=300).fit((split.X - low) / wide, split.y)
    linear = roc_auc_score(split.y_test, plain.decision_function((split.X_test - low) / wide))
    count = len(split.X) // 5
    began = time.process_time()
    shape = {**_SHAPE, "seed": seed}
    trees = of_model(boost(split.X[:count], split.y[:count], _TREES, **shape))
    Z = columns_of(trees, split.X[count:])
    head = Head(Z, split.y[count:].astype(np.float64), Z[::4].toarray())
    start = np.zeros(Z.shape[1])
    start[-2] = 1.0
    structure, began = time.process_time() - began, time.process_time()
    penalty = choose(head, start)
    chosen, began = time.process_time() - began, time.process_time()
    each = penalties(Z.shape[1], penalty)
    t = head.fit(each, start)
    fit = structure + time.process_time() - began
    dense = Z.toarray()
    model = LinearModel(
        "logistic", Design.plain(Z.shape[1] - 1), t[None], np.ascontiguousarray(dense[:, :-1]),
        head.y, np.ones(len(head.y)), each, ("0", "1"),
    )  # fmt: skip
    began = time.process_time()
    family = known_members(model, Path(name), lambda done, of: None)
    bounded = time.process_time() - began
    Q = columns_of(trees, split.X_test).toarray()
    auc = roc_auc_score(split.y_test, Q @ t)
    flips, maybe, taken = tested(family, Q)
    rng = np.random.default_rng(seed)
    widest = np.argsort(-family.parts[0].members.radius)[: members // 2]
    units = np.union1d(widest, rng.choice(len(head.y), members - len(widest), replace=False))
    ratios = really_left_out(family, Z, units)
    wrong = sum(ratio > 1.0 for ratio in ratios)
    proved = 1.0 - (flips + maybe) / len(Q)
    print(
        f"{name} {seed} | {len(head.y):,} x {Z.shape[1]} | {penalty:g} | {best:.4f} | "
        f"{linear:.4f} | {auc:.4f} ({auc - best:+.4f}) | {full_fit:.2f} | "
        f"{fit:.2f} ({fit / full_fit:.1f}x) | {chosen:.1f} | "
        f"{bounded:.1f}, {len(family.parts[0].members.measured)} refitted | "
        f"{100 * proved:.2f} | {100 * flips / len(Q):.2f} | {100 * maybe / len(Q):.2f} | "
        f"{np.median(taken):.2f} | {wrong} of {len(units)}, at most {max(ratios):.2f}",
        flush=True,
    )  # fmt: skip
    return auc - best, proved, maybe / len(Q), wrong


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data files")
    parser.add_argument("--only", nargs="*", metavar="NAME", default=NAMES, choices=NAMES)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--members", type=int, default=68, help="fitted anew, in each split")
    parser.add_argument("--small", action="store_true", help="the patients alone")
    arguments = parser.parse_args()
    print(
        "data, split | head's rows x columns | penalty | AUC of LightGBM | linear | stable | "
        "CPU s: LightGBM | stable | choice | members | % proved | flip | open | guard ms | outside"
    )
    for name in ("patients",) if arguments.small else arguments.only:
        if not arguments.small and not arguments.data.is_dir():
            parser.error(f"no folder {arguments.data}; name the data's with --data")
        whole = patients() if arguments.small else SETS[name](arguments.data)
        splits = range(1 if arguments.small else arguments.splits)
        found = np.array([measure(name, divide(whole, k), k, arguments.members) for k in splits])
        print(
            f"{name}: AUC {found[:, 0].mean():+.4f} on average, {found[:, 0].min():+.4f} at "
            f"worst; at least {100 * found[:, 1].min():.2f} % proved, at most "
            f"{100 * found[:, 2].max():.2f} % open; {int(found[:, 3].sum())} members outside their "
            "distance"
        )


if __name__ == "__main__":
    main()
