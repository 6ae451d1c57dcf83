"""Training of a library's trees on all rows, and again without some rows each."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.errors import TreesError
from leaveout.files import make_folder
from leaveout.kernel.trees import Ensemble
from leaveout.models.boosting.members import Fit, Work
from leaveout.models.quality import Quality
from leaveout.models.reading import PLAIN, Reading
from leaveout.models.train.columns import Subject, TableColumns
from leaveout.models.train.encoding import CategoryColumn
from leaveout.models.train.folder import refuse_taken
from leaveout.models.train.left_out import left_out
from leaveout.models.train.own.call import check_fit
from leaveout.models.train.rows import read_rows, test_split
from leaveout.models.trees.family import Pool, TreeFamily, write_tree_family
from leaveout.models.trees.files import write_trees

BOOSTING = Subject("trees", "T", "model of trees", TreesError)
TREES, COLUMNS, SPEC = BOOSTING.model, BOOSTING.columns, BOOSTING.spec
MEMBERS = "members.npz"
"""The models without a row each."""

Learner = Literal["hist", "lightgbm", "xgboost"]

Tell = Callable[[int, int], None]
"""Receives how many models are trained, and of how many."""


@dataclass(frozen=True, eq=False, repr=False)
class TreesReport:
    """What was trained."""

    directory: Path
    family: TreeFamily
    asked: int  # members; fewer are there where Ctrl-C ended the training
    quality: Quality  # on rows a further model was trained without, else on the training rows
    held_out: bool  # whether it is on rows held out
    size: int  # bytes of the members' file
    seconds: float
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        family = self.family
        return (
            f"TreesReport({str(self.directory)!r}: {len(family):,} of {family.rows:,} members of "
            f"{family.whole.trees:,} trees, accuracy {self.quality.accuracy:.2%})"
        )


@dataclass(frozen=True)
class Settings:
    """Settings of a built-in learner."""

    learner: Learner = "hist"
    trees: int = 100
    leaves: int = 31
    rate: float = 0.1

    def __post_init__(self) -> None:
        BOOSTING.expect(
            ("learner", self.learner, self.learner in get_args(Learner),
             f"one of {', '.join(get_args(Learner))}"),
            ("trees", self.trees, self.trees >= 1, "at least 1"),
            ("leaves", self.leaves, self.leaves >= 2, "at least 2"),
            ("rate", self.rate, 0 < self.rate <= 1, "a number above 0 and at most 1"),
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.learner}, {self.trees} trees of {self.leaves} leaves, rate {self.rate:g}"

    def fit(self, X: Floats, y: Integers) -> Any:
        """Train on one thread, with nothing left to chance."""
        try:
            return _LEARNERS[self.learner](self, X, y)
        except ImportError:
            other = "" if self.learner == "hist" else f" {self.learner}, or take --learner hist"
            raise TreesError(
                f"--learner {self.learner}: not installed; pip install 'leaveout[forests]'{other}"
            ) from None


def _hist(given: Settings, X: Floats, y: Integers) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return HistGradientBoostingClassifier(
            learning_rate=given.rate, max_iter=given.trees, max_leaf_nodes=given.leaves,
            early_stopping=False, random_state=0,
        ).fit(X, y)  # fmt: skip


def _lightgbm(given: Settings, X: Floats, y: Integers) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=given.trees, num_leaves=given.leaves, learning_rate=given.rate, n_jobs=1,
        deterministic=True, force_row_wise=True, random_state=0, verbose=-1,
    ).fit(X, y)  # fmt: skip


def _xgboost(given: Settings, X: Floats, y: Integers) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(
        n_estimators=given.trees, max_leaves=given.leaves, max_depth=0, grow_policy="lossguide",
        tree_method="hist", learning_rate=given.rate, n_jobs=1, random_state=0,
    ).fit(X, y)  # fmt: skip


_LEARNERS: Mapping[str, Callable[[Settings, Floats, Integers], Any]] = {
    "hist": _hist,
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
}


def train_trees(
    source: Path | str,
    directory: Path | str,
    *,
    label: str | None = None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    reading: Reading = PLAIN,
    settings: Settings = Settings(),
    members: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    test_share: float = 0.2,
    tell: Tell = lambda done, of: None,
) -> TreesReport:
    """Train boosted trees on a CSV or NPZ, and again without each of its rows, or some.

    Options are those of `leaveout.leave_one_out`. A ``test_share`` of the rows is left out of a
    further model, to measure accuracy.
    """
    BOOSTING.expect_share(test_share)
    target = Path(directory)
    refuse_taken(BOOSTING, target)
    rows = read_rows(Path(source), label, identity, units, reading, scaled=False, gaps=True)
    groups = None if rows.groups is None else rows.groups[1]
    tested = None
    if rows.X_test is not None and rows.y_test is not None:
        tested = rows.X_test, rows.y_test
    return _train(
        settings.fit, rows.X, np.asarray(rows.y, np.int64), rows.labels, rows.columns, target,
        _Plan(members, sample, seed, workers, str(settings), test_share, tested),
        None if groups is None else (reading.group, groups), rows.cautions, tell, lines=rows.lines,
    )  # fmt: skip


def leave_one_out(
    fit: Fit,
    X: Any,
    y: Any,
    *,
    out: Path | str,
    members: int | None = None,
    sample: int | None = None,
    seed: int = 0,
    features: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
    group: Sequence[Any] | None = None,
    workers: int | None = None,
    test_share: float = 0.0,
    tell: Tell | None = None,
) -> TreesReport:
    """Train a library's trees by a user's function, and again without each row, or some.

    Whatever the function does decides what is proved: members are what it returns without a row.
    It is called twice on all rows, and must return the same trees.

    Parameters
    ----------
    fit : callable
        ``fit(X, y)`` or ``fit(X, y, seed)`` returns a fitted model of XGBoost, LightGBM, CatBoost
        or scikit-learn's trees.
        ``X`` is float64 of shape (rows, features), NaN where a value is missing; ``y`` int64.
    X : array_like or data frame of numbers, shape (rows, features)
    y : array_like, shape (rows,)
        Labels of any type; they are sorted and numbered from 0.
    out : Path or str
        Folder for ``trees.npz``, ``members.npz``, ``trees.json`` and ``trees.spec``.
    members, sample, seed, features, ids, group, workers
        As `leaveout.leave_one_out` takes them.
    test_share : float
        Share of the rows that a further model is trained without, to measure accuracy.
    tell : callable or None

    Raises
    ------
    TreesError
        If the data or the function cannot be used, training twice gives two models, or the folder
        is taken.
    """
    target = Path(out)
    refuse_taken(BOOSTING, target)
    names = features if features is not None else getattr(X, "columns", ())
    try:
        numbers = np.asarray(X, np.float64)
    except (TypeError, ValueError):
        raise TreesError(
            "X has cells that are no numbers; encode them, or train with leaveout trees train"
        ) from None
    values = np.asarray(y)
    if numbers.ndim != 2 or values.shape != numbers.shape[:1] or len(values) < 2:
        raise TreesError(
            f"X of shape {numbers.shape} and y of shape {values.shape}: expected (rows, features) "
            "and (rows,), of at least 2 rows"
        )
    if np.isinf(numbers).any():
        raise TreesError("X has an infinite value; only finite and missing ones are read")
    known, code = np.unique(values, return_inverse=True)
    if check_fit(fit) > 2:
        fit = _Seeded(fit, int(seed))
    columns = TableColumns(
        source="arrays", ids={} if ids is None else dict(enumerate(map(str, ids)))
    )
    return _train(
        fit, numbers, code.astype(np.int64), tuple(map(str, known.tolist())), columns, target,
        _Plan(members, sample, seed, workers, "fit", test_share, None),
        None if group is None else ("group", np.array([str(each) for each in group])), (),
        tell or (lambda done, of: None), tuple(map(str, names)),
    )  # fmt: skip


@dataclass(frozen=True)
class _Seeded:
    """A function that takes a seed."""

    fit: Fit
    seed: int

    def __call__(self, X: Floats, y: Integers) -> Any:
        return self.fit(X, y, self.seed)


@dataclass(frozen=True, eq=False)
class _Plan:
    members: int | None
    sample: int | None
    seed: int
    workers: int | None
    recipe: str
    test_share: float
    tested: tuple[Floats, NDArray[Any]] | None


def _train(
    fit: Fit, X: Floats, y: Integers, labels: tuple[str, ...], columns: TableColumns, target: Path,
    plan: _Plan, group: tuple[str, NDArray[np.str_]] | None, warnings: tuple[str, ...], tell: Tell,
    names: tuple[str, ...] = (), lines: tuple[str, ...] = (),
) -> TreesReport:  # fmt: skip
    began, units = time.monotonic(), np.arange(len(X))
    called = lines or tuple(columns.ids.get(row, "") for row in range(len(X)))
    if group is not None:
        cells, units = np.unique(group[1], return_inverse=True)
        called = tuple(map(str, cells.tolist()))
    count = int(units.max()) + 1
    removed, drawn = left_out(
        count, plan.seed, members=plan.members, sample=plan.sample,
        said="--{} " if plan.recipe != "fit" else "{}=",
    )  # fmt: skip
    tell(0, len(removed) + 2)
    work, every = Work(fit, X, y, units, labels), slice(None)
    whole = work.ensemble(every, "all rows")
    if difference := _apart(whole, work.ensemble(every, "all rows again")):
        raise TreesError(
            f"two trainings on the same rows give two models ({difference}), so members would "
            "differ by more than one row: set random_state, n_jobs=1 and what the library calls "
            "deterministic, and draw nothing from the clock"
        )
    tell(2, len(removed) + 2)
    names = columns.features or names
    if len(names) == whole.features:
        whole = replace(whole, names=names)
    pool, trained = Pool(whole), list[int]()
    found: dict[int, Ensemble] = {}
    try:
        for at, member in work.members(removed, plan.workers):
            found[at] = member
            # In the order of the rows, so that equal runs write equal files.
            while len(trained) in found:
                pool.add(found.pop(len(trained)), int(removed[len(trained)]))
                trained.append(len(trained))
            tell(len(trained) + len(found) + 2, len(removed) + 2)
    except KeyboardInterrupt:
        if not trained:
            raise
    quality, held_out = _quality(work, whole, plan)
    chosen = removed[: len(trained)]
    family = pool.family(
        chosen, rows=count, sampled=drawn is not None, recipe=plan.recipe,
        group="" if group is None else group[0],
        names=tuple(called[row] for row in chosen.tolist()) if any(called) else (),
        missing=tuple(np.flatnonzero(np.isnan(X).any(axis=0)).tolist()),
    )  # fmt: skip
    size = _write(family, X, columns, target, names)
    short = () if len(trained) == len(removed) else (
        f"stopped after {len(trained):,} of {len(removed):,} members: the folder holds those",
    )  # fmt: skip
    return TreesReport(
        target, family, len(removed), quality, held_out, size, time.monotonic() - began,
        (*warnings, *quality.caution, *short),
    )  # fmt: skip


def _quality(work: Work, whole: Ensemble, plan: _Plan) -> tuple[Quality, bool]:
    X, y, labels = work.X, work.y, work.labels
    if plan.tested is not None:
        X_test, y_test = plan.tested
        return Quality.of(whole.answers(X_test), y_test.astype(np.int64), labels), True
    out, others = test_split(work.units, plan.test_share, 0)
    if len(out) and set(y[others].tolist()) == set(y.tolist()):
        model = work.ensemble(others, "the rows not held out")
        return Quality.of(model.answers(X[out]), y[out], labels), True
    return Quality.of(whole.answers(X), y, labels), False


def _apart(one: Ensemble, other: Ensemble) -> str:
    """Return where two models differ; empty if nowhere."""
    if one.trees != other.trees:
        return f"{one.trees} and {other.trees} trees"
    for name in ("feature", "threshold", "missing_left", "set", "values"):
        a, b = getattr(one.nodes, name), getattr(other.nodes, name)
        if a.shape != b.shape or not np.array_equal(a, b):
            return f"their {name} differ"
    return "" if np.array_equal(one.base, other.base) else "their base scores differ"


def _write(
    family: TreeFamily, X: Floats, columns: TableColumns, target: Path, names: tuple[str, ...]
) -> int:
    """Write the folder; return the size of the members' file."""
    try:
        make_folder(target)
        refuse_taken(BOOSTING, target)
        (target / COLUMNS).write_bytes(BOOSTING.columns_bytes(columns))
        (target / SPEC).write_text(spec_text(family, X, columns, names))
        # The model is written last but for its members: without it the folder is no model's.
        write_trees(family.whole, target / TREES)
        digest = hashlib.sha256((target / TREES).read_bytes()).hexdigest()
        write_tree_family(family, target / MEMBERS, digest)
        return (target / MEMBERS).stat().st_size
    except OSError as error:
        raise TreesError(f"{target}: cannot write: {error.strerror or error}") from None


def spec_text(family: TreeFamily, X: Floats, columns: TableColumns, names: tuple[str, ...]) -> str:
    """Return a specification that asks how confident a changed answer can be."""
    with np.errstate(invalid="ignore"):
        low, high = (
            np.where(np.isnan(X).all(axis=0), 0.0, end(np.where(np.isnan(X), start, X), axis=0))
            for end, start in ((np.min, np.inf), (np.max, -np.inf))
        )
    missing = np.flatnonzero(np.isnan(X).any(axis=0)).tolist()
    words = [
        list(range(places.start, places.stop))
        for column, places in (() if columns.encoding is None else columns.encoding.layout)
        if isinstance(column, CategoryColumn)
    ]
    lines = [f"box({low.tolist()}, {high.tolist()})"]
    for places in words:
        lines[-1] = f"let X{len(lines)} = {lines[-1]}"
        lines.append(f"one_hot(X{len(lines)}, at = {places})")
    for at in family.whole.categories.tolist():
        lines[-1] = f"let X{len(lines)} = {lines[-1]}"
        lines.append(f"integers(X{len(lines)}, at = {at})")
    if missing:
        lines[-1] = f"let X{len(lines)} = {lines[-1]}"
        lines.append(f"missing(X{len(lines)}, at = {missing})")
    lines[-1] = f"let X = {lines[-1]}"
    who = f"group of {family.group!r}" if family.group else "row"
    heading = [f"# {len(family):,} of {family.rows:,} models without one {who}: {family.recipe}"]
    heading += [f"# features: {', '.join(names)}"] if names else []
    if "\n" in heading[-1] or not heading[-1].isprintable():
        heading.pop()
    return "\n".join([
        *heading,
        f'let T = trees("{TREES}")',
        f'let F = members("{MEMBERS}")',
        *lines,
        "",
        "find bound: least b such that",
        "    forall x in X, M in F: confidence(T, x) > b => label(M, x) == label(T, x)",
        "",
    ])  # fmt: skip
